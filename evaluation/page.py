"""The report as one HTML page that needs no network: scores, curves, attention to point at."""

import json
import math
from pathlib import Path
from typing import Any

_TEMPLATE = Path(__file__).with_name("page.html")


def write_page(path: Path, content: dict[str, Any]) -> None:
    """`content` has title, about, scores, terms, pictures, curves, selection, positions and
    sentences."""
    content = content | {"about": f"{content['about']}; {path.parent}"}  # of many, which run's
    text = json.dumps(_finite(content), ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # or a sentence could end the data, or begin a comment
    page = _TEMPLATE.read_text("utf-8").replace("/*DATA*/", text)
    path.write_text(page, "utf-8")


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, dict):
        return {name: _finite(x) for name, x in value.items()}
    if isinstance(value, list):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
