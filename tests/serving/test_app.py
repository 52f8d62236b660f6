"""The server of the lab on the loopback address: answers, refusals, limits and load."""

import asyncio
import gc
import http.client
import json
import re
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import jax
import pytest

from decoding.beam import LENGTH_PENALTIES
from reading import read_text
from serving.app import ServerLimits
from serving.requests import LARGEST_BEAM, MOST_CHARACTERS, Body
from serving.worker import ModelWorker
from tests.programs import ROOT
from tests.serving.conftest import HOSTILE, serving

TEXT = "May 3, 2020"


@pytest.fixture(scope="module")
def client(address):
    with httpx.Client(base_url=address, timeout=300) as client:
        yield client


def test_the_page_and_its_headers(client):
    answer = client.get("/")
    assert answer.status_code == 200 and "://" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    runs = client.get("/api/runs").json()["runs"]
    assert [run["name"] for run in runs] == ["a", HOSTILE, "sentence", "columns", "reader"]
    assert client.get("/api/runs").json()["compiling"] == ""
    assert runs[0]["decode"]["beam"] == 1 and "global" in runs[0]["about"]
    assert runs[0]["ranges"]["beam"] == [1, LARGEST_BEAM]
    assert runs[0]["length_penalties"] == [*LENGTH_PENALTIES]


def test_the_example_of_the_guide(address, capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", read_text(ROOT / "docs/lab.md"), re.M | re.S)
    example = example.replace("http://127.0.0.1:8000", address).replace('"runs/luong"', '"a"')
    exec(example, {})
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_answers_of_every_kind(client):
    def post(kind, **body):
        answer = client.post(f"/api/{kind}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    found = post("translate", run="a", text=TEXT)
    target = [token["id"] for token in found["hypotheses"][0]["tokens"]]
    assert len(post("inspect", run="a", text=TEXT, target=target)["log_p"]) == len(target)
    assert post("next", run="a", text=TEXT)["candidates"][0]["id"] == target[0]
    assert post("predict", run="sentence", text="the film")["distribution"]
    colored = post("translate", run="a", text=f"\x1b[31m{TEXT}\x00")
    assert colored["source"] == found["source"]  # without control characters


def test_all_texts_of_a_request_lose_their_control_characters():
    body = Body({"prefix": "\x1b[31mMai\x00", "edit": {"run": "a", "changes": {"0": "\x00June"}}})
    assert body.prefix().text == "Mai" and body.edit().changes == {0: "June"}


MISTAKES = {  # the body of a request to /api/translate, and a part of the message
    "[1]": "must be a JSON object",
    "{": "must be a JSON object in UTF-8",
    "[" * 30_000: "must be a JSON object in UTF-8",
    '{"text": "May"}': "run must be a string: it is missing",
    '{"run": "b", "text": "May"}': "there is no run 'b': use one of a,",
    '{"run": "a"}': "text must be a string",
    '{"run": "a", "text": "\\ud800"}': "'\\ud800', one half of a surrogate pair",
    '{"run": "a", "text": 3}': "text must be a string: it is a number",
    '{"run": "a", "text": ""}': "no tokens",
    '{"run": "a", "text": "May", "beam": "x"}': "beam must be a number: it is a string",
    '{"run": "a", "text": "May", "beam": 11}': "beam=11 is out of range: it must be from 1 to 10",
    '{"run": "a", "text": "May", "beam": 1.5}': "beam=1.5 must be an integer",
    '{"run": "a", "text": "May", "beam": true}': "beam must be a number: it is true or false",
    '{"run": "a", "text": "May", "alpha": NaN}': "alpha=nan is out of range",
    '{"run": "a", "text": "May", "alpha": 1e999}': "alpha=inf is out of range",
    '{"run": "a", "text": "May", "length_penalty": "x"}': "use one of none, gnmt, average",
    '{"run": "a", "text": "May", "temperature": 1, "beam": 2}': "samples one translation",
    '{"run": "a", "text": "May", "prefix": 3}': "prefix must be a string, or",
    '{"run": "a", "text": "May", "prefix": {"run": "x", "tokens": []}}': "the run 'x' of prefix",
    '{"run": "a", "text": "May", "prefix": {"run": "a", "tokens": [1]}}': "a list of strings",
    '{"run": "a", "text": "May", "beams": 4}': "the request has the unknown field 'beams': use "
    "only run, text, edit, prefix, beam, length_penalty, alpha, temperature, draw",
    '{"run": "a", "text": "May", "edit": {"run": "a", "changes": {}, "x": 1}}': "edit has the "
    "unknown field 'x': use only run, changes",
    '{"run": "a", "text": "May", "prefix": {"run": "a", "tokens": [], "x": 1}}': "use only run, to",
    '{"run": "a", "text": "May", "edit": null}': "",
    '{"run": "a", "text": "May", "edit": 3}': "edit must be an object",
    '{"run": "a", "text": "May", "edit": {"run": "a", "changes": {"x": "y"}}}': "map positions",
    '{"run": "a", "text": "May", "edit": {"run": "a", "changes": {"7": null}}}': "changes token 7",
    '{"run": "a", "text": "May", "edit": {"run": "x", "changes": {"0": null}}}': "the run 'x'",
    '{"run": "sentence", "text": "May"}': "a classification run does not answer /api/translate",
    json.dumps({"run": "a", "text": "x" * MOST_CHARACTERS}): "characters, more than 5,000",
}


@pytest.mark.parametrize(("body", "fact"), MISTAKES.items(), ids=lambda text: text[:60])
def test_a_mistake_has_one_message(client, body, fact):
    headers = {"content-type": "application/json"}
    answer = client.post("/api/translate", content=body, headers=headers)
    if not fact:  # an empty edit is no edit
        assert answer.status_code == 200
        return
    assert answer.status_code == 400
    assert fact in answer.json()["error"] and {*answer.json()} == {"error"}


def test_requests_of_other_sites_are_refused(client):
    def status(path="/api/translate", method="POST", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = json.dumps({"run": "a", "text": TEXT})
        given = {"content-type": "application/json"} | named
        answer = client.request(method, path, content=body, headers=given)
        if answer.status_code != 200:
            assert answer.json()["error"]
        return answer.status_code

    host = urlsplit(str(client.base_url)).netloc
    assert status() == status(origin=f"http://{host}", sec_fetch_site="same-origin") == 200
    assert status(host="localhost:1234") == status(host="[::1]:80") == 200
    assert status(host="evil.example") == status("/", "GET", host="evil.example:8000") == 403
    assert status(host="127.0.0.1.evil.example") == status(host="[") == status(host="") == 403
    assert status(origin="http://evil.example") == status(origin="null") == 403
    assert status(origin="http://[") == 403  # not a valid address
    assert status(sec_fetch_site="cross-site") == status(sec_fetch_site="same-site") == 403
    assert status(content_type="text/plain") == 415
    assert status("/nothing", "GET") == 404
    assert status(content_type="application/json; charset=utf-8") == 200


def test_unknown_paths_and_other_methods_have_messages(client):
    paths = "GET /, GET /api/runs, POST /api/translate, POST /api/inspect, POST /api/next, "
    for method in ("GET", "POST"):
        answer = client.request(method, "/api/foo", json={"run": "a"})
        message = f"there is no '/api/foo': use {paths}POST /api/predict"
        assert (answer.status_code, answer.json()) == (404, {"error": message})
    for method, path in (("POST", "/api/runs"), ("GET", "/api/translate"), ("PUT", "/")):
        answer = client.request(method, path, json={"run": "a"})
        assert answer.status_code == 405 and answer.headers["allow"]
        assert f"{path} does not answer {method}: use {paths}" in answer.json()["error"]


def test_large_and_slow_bodies_are_refused(client, monkeypatch):
    headers = {"content-type": "application/json"}
    answer = client.post("/api/translate", content=b" " * 2**17, headers=headers)
    assert answer.status_code == 413
    monkeypatch.setattr("serving.app.BODY_SECONDS", 0.2)
    connection = http.client.HTTPConnection(urlsplit(str(client.base_url)).netloc)
    connection.putrequest("POST", "/api/translate")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", "10")
    connection.endheaders(b"{")
    assert connection.getresponse().status == 408
    connection.close()


def test_connections_without_a_complete_header_are_closed(client, monkeypatch):
    monkeypatch.setattr("serving.server.HEADER_SECONDS", 0.2)
    address = urlsplit(str(client.base_url))
    whole = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for parts in ([b""], [b"GET / HT"], [whole, b"GET /"]):
        with socket.create_connection((address.hostname, address.port), timeout=9) as connection:
            for sent in parts:
                connection.sendall(sent)
                if sent == whole:
                    assert connection.recv(8).startswith(b"HTTP/1.1")
            while connection.recv(2**16):  # ends when the server closes the connection
                pass


class Slow:
    """A run whose jobs wait until `go` is set."""

    kinds = ("wait",)

    def __init__(self):
        self.go, self.ran = threading.Event(), 0

    def job(self, kind, body, runs):
        def work():
            self.go.wait(60)
            self.ran += 1
            return {"ran": self.ran}

        return work


async def post_all(address, count, body, kind="translate"):
    limits = httpx.Limits(max_connections=count)
    async with httpx.AsyncClient(base_url=address, timeout=300, limits=limits) as client:
        requests = [client.post(f"/api/{kind}", json=body) for _ in range(count)]
        return await asyncio.gather(*requests)


def test_full_queues_timeouts_and_rates_have_messages():
    run, body = Slow(), {"run": "slow"}
    with serving({"slow": run}, ServerLimits(timeout=1, rate=5, waiting=3)) as address:
        answers = asyncio.run(post_all(address, 8, body, "wait"))
        statuses = [answer.status_code for answer in answers]
        # Three jobs wait, and a fourth one runs if it was taken before the others arrived.
        assert {*statuses} == {503, 504} and statuses.count(504) in (3, 4)
        messages = {answer.json()["error"] for answer in answers}
        assert any("try again in a few seconds" in text for text in messages)
        assert any("no answer within 1 s" in text for text in messages)
        run.go.set()
        answer = httpx.post(f"{address}/api/wait", json=body, timeout=60)
        assert answer.json() == {"ran": 2}  # the jobs that waited were canceled
        answers = asyncio.run(post_all(address, 50, body, "wait"))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused and "more than 5 requests per second" in refused[0].json()["error"]
        assert int(refused[0].headers["retry-after"]) >= 1


def test_the_request_that_is_compiled_is_named():
    class Compiling(Slow):
        def describe(self):
            return {}

        def job(self, kind, body, runs):
            body.whole("beam", 1, 1, LARGEST_BEAM)
            work = super().job(kind, body, runs)
            return lambda: float(jax.jit(lambda x: 2 * x)(3.0)) and work()

    run = Compiling()
    with serving({"slow": run}, ServerLimits()) as address, ThreadPoolExecutor() as pool:
        answer = pool.submit(httpx.post, f"{address}/api/wait", json={"run": "slow", "beam": 7})
        while httpx.get(f"{address}/api/runs").json()["compiling"] != "slow, beam 7":
            assert not answer.done()
        run.go.set()
        assert answer.result().json() == {"ran": 1}


def test_a_client_that_leaves_cancels_its_request():
    run = Slow()
    with serving({"slow": run}, ServerLimits()) as address:
        for _ in range(2):  # the first job runs, and the second one waits
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"{address}/api/wait", json={"run": "slow"}, timeout=0.5)
        time.sleep(0.3)
        run.go.set()
        assert httpx.post(f"{address}/api/wait", json={"run": "slow"}).json() == {"ran": 2}


def test_an_error_of_a_model_has_a_message_but_typed_text_is_not_logged(caplog):
    class Broken(Slow):
        def job(self, kind, body, runs):
            text = body.text("text")
            return lambda: int(text)

    with serving({"slow": Broken()}, ServerLimits(), ModelWorker(4)) as address:
        answer = httpx.post(f"{address}/api/wait", json={"run": "slow", "text": "secret"})
    assert answer.status_code == 500 and answer.json()["error"].startswith("the model failed")
    messages = [record.message for record in caplog.records if record.name == "alignax"]
    assert messages == ["a request to /api/wait failed: ValueError"]


def resident() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc on this machine")
@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_fifty_clients_at_once(address, rounds):
    """No request fails, the answers are equal, and the memory does not grow with their number."""
    body = {"run": "a", "text": TEXT}
    expected = asyncio.run(post_all(address, 50, body))[0].json()
    gc.collect()
    before, begun = resident(), time.monotonic()
    for _ in range(rounds):
        answers = asyncio.run(post_all(address, 50, body))
        assert {answer.status_code for answer in answers} == {200}
        assert all(answer.json() == expected for answer in answers)
    gc.collect()
    print(f"{50 * rounds / (time.monotonic() - begun):.0f} requests per second, "
          f"memory {before:.0f} to {resident():.0f} MB")  # fmt: skip
    assert resident() - before < 100
