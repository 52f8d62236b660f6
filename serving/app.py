"""The web application of the lab: the page, its JSON interface, and the limits of both.

Pages of other sites must not reach the lab through a user's browser. The server therefore checks
three things: the Host header is an IP address or a known name, because another site's name could
be made to resolve to this machine (DNS rebinding); the browser reports no other origin; and the
content type is JSON, which browsers send to another site only with CORS permission, which this
server never gives.
"""

import asyncio
import base64
import hashlib
import ipaddress
import json
import logging
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from errors import UserError, first_line
from serving.requests import Body
from serving.run import LabRun
from serving.worker import Busy, ModelWorker, RateLimit
from writing import to_json

logger = logging.getLogger("alignax")
_FOLDER = Path(__file__).parent
_SHARED = _FOLDER.parent / "evaluation"  # the style and the functions of all pages
_STYLES = (_SHARED / "page.css", _FOLDER / "lab.css")
_TOPICS = ("requests", "panels", "cards", "tokens", "translation", "prediction")
_SCRIPTS = (
    _SHARED / "elements.js",
    *(_FOLDER / f"{name}.js" for name in _TOPICS),
    _FOLDER / "lab.js",  # starts the page
)
MOST_BYTES = 2**16  # of the body of a request
BODY_SECONDS = 10.0  # to receive the body
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class ServerLimits(NamedTuple):
    """What the server accepts; most fields are flags of lab.py."""

    timeout: float = 60.0  # seconds after which a request without an answer fails
    rate: float = 50.0  # requests per second and client
    waiting: int = 64  # requests that wait for a model
    hosts: Sequence[str] = ()  # names of this server, besides localhost and numbers


class Lab:
    """The runs of the lab and the answers to requests."""

    def __init__(self, runs: Mapping[str, LabRun], worker: ModelWorker, limits: ServerLimits):
        self._runs, self._worker, self._limits = runs, worker, limits
        self._kinds = dict.fromkeys(kind for run in runs.values() for kind in run.kinds)
        self._rate = RateLimit(limits.rate, 2 * limits.rate)
        self._page, self._policy = _page()

    def app(self) -> "Guard":
        """Return the ASGI application."""
        routes = [
            Route("/", self._get_page),
            Route("/api/runs", self._get_runs),
            *(Route(f"/api/{kind}", self._post, methods=["POST"]) for kind in self._kinds),
        ]
        handlers = {HTTPException: self._http_error}
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False  # /api/translate/ is an unknown path
        return Guard(app, self._limits.hosts)

    async def _get_page(self, request: Request) -> Response:
        return HTMLResponse(self._page, headers={"content-security-policy": self._policy})

    async def _get_runs(self, request: Request) -> Response:
        self._count(request)
        worker = self._worker
        state = {"done": worker.done, "total": worker.total, "compiling": worker.compiling}
        return _json({"runs": [run.describe() for run in self._runs.values()], **state})

    async def _post(self, request: Request) -> Response:
        """Answer a request that uses a model."""
        self._count(request)
        kind = request.url.path.removeprefix("/api/")
        try:
            body = Body(await _read(request))
            job = self._job(kind, body)
            body.check_fields()
        except (UserError, RecursionError) as error:
            return _error(400, str(error) if isinstance(error, UserError) else _NOT_JSON)
        try:
            submitted = self._worker.submit(job, body.name)
        except Busy:
            return _error(503, "too many requests are waiting: try again in a few seconds", 2)
        future = asyncio.wrap_future(submitted)
        gone = asyncio.ensure_future(_disconnected(request))
        done, _ = await asyncio.wait(
            {future, gone}, timeout=self._limits.timeout, return_when=asyncio.FIRST_COMPLETED
        )
        gone.cancel()
        if future not in done:
            submitted.cancel()  # a job that has not begun is not run
            future.cancel()  # the result of one that has begun is ignored
            return _error(
                504,
                f"there was no answer within {self._limits.timeout:g} s: the model may still be "
                "compiled for this length, so try again, or start lab.py with a larger --timeout",
            )
        try:
            return _json(future.result())
        except UserError as error:
            return _error(400, str(error))
        except Exception as error:
            # The message of the error can contain typed text, which must not be logged.
            logger.error("a request to /api/%s failed: %s", kind, type(error).__name__)
            return _error(500, f"the model failed: {first_line(error)}")

    def _job(self, kind: str, body: Body) -> Callable[[], Any]:
        name = body.text("run")
        if name not in self._runs:
            raise UserError(f"there is no run {name!r:.80}: use one of {', '.join(self._runs)}")
        run = self._runs[name]
        if kind not in run.kinds:
            raise UserError(
                f"a {run.config.task} run does not answer /api/{kind}: use "
                f"{' or '.join(f'/api/{known}' for known in run.kinds)}"
            )
        return run.job(kind, body, self._runs)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        paths = ", ".join(
            ["GET /", "GET /api/runs", *(f"POST /api/{kind}" for kind in self._kinds)]
        )
        known = {
            404: f"there is no {request.url.path!r:.80}: use {paths}",
            405: f"{request.url.path} does not answer {request.method:.20}: use {paths}",
        }
        message = known.get(error.status_code, error.detail)
        return _json({"error": message}, error.status_code, error.headers)

    def _count(self, request: Request) -> None:
        seconds = self._rate.wait(request.client.host if request.client else "")
        if seconds:
            raise HTTPException(
                429,
                f"more than {self._limits.rate:g} requests per second: wait a moment",
                {"retry-after": str(int(seconds) + 1)},
            )


_NOT_JSON = 'the body must be a JSON object in UTF-8, such as {"run": "runs/a", "text": "May 3"}'


async def _read(request: Request) -> Any:
    """Return the JSON value of the body."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "the content type must be application/json")
    content = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                content += part
                if len(content) > MOST_BYTES:
                    raise HTTPException(
                        413, f"the body is larger than {MOST_BYTES:,} bytes: shorten the text"
                    )
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive in {BODY_SECONDS:g} s") from None
    try:
        return json.loads(content)
    except ValueError:  # also raised for bytes that are not UTF-8
        raise UserError(_NOT_JSON) from None


async def _disconnected(request: Request) -> None:
    """Wait until the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # Error messages can quote a request, whose strings may contain lone surrogates.
    content = to_json(value, compact=True).encode("utf-8", "replace")
    return Response(content, status, headers, "application/json")


def _error(status: int, message: str, retry: int = 0) -> Response:
    return _json({"error": message}, status, {"retry-after": str(retry)} if retry else None)


Message = MutableMapping[str, Any]


class Guard:
    """Refuses requests that come from other sites, and adds headers to all responses."""

    def __init__(self, app: Callable[..., Awaitable[None]], hosts: Sequence[str]):
        self._app, self._hosts = app, {"localhost", *(host.lower() for host in hosts)}

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":  # the lifespan of the server
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        refused = self._refused(Request(scope))
        if refused:
            await _error(403, refused)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refused(self, request: Request) -> str:
        """Return why a request is refused, or an empty string."""
        host = request.headers.get("host", "")
        if not self._is_known(host):
            return (
                f"the lab does not answer to the name {host!r:.80}: open it as localhost, or "
                "start lab.py with --allowed_hosts"
            )
        origin = request.headers.get("origin")
        foreign = origin is not None and _netloc(origin) != host
        site = request.headers.get("sec-fetch-site", "none")
        if request.url.path != "/" and (foreign or site not in ("none", "same-origin")):
            return "the lab does not answer pages of other sites"
        return ""

    def _is_known(self, host: str) -> bool:
        """Return whether a Host header is a number or a known name."""
        try:
            name = urllib.parse.urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _netloc(origin: str) -> str:
    """Return the host and port of an Origin header, or an empty string if it is invalid."""
    try:
        return urllib.parse.urlsplit(origin).netloc
    except ValueError:
        return ""


def _page() -> tuple[str, str]:
    """Return the page, which includes its style and script, and its content security policy."""
    style, script = (
        "\n".join(path.read_text("utf-8") for path in paths) for paths in (_STYLES, _SCRIPTS)
    )
    page = (_FOLDER / "lab.html").read_text("utf-8")
    page = page.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script)
    # Browsers use only the style and the script with these digests.
    digests = [
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        for part in (style, script)
    ]
    policy = (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return page, policy
