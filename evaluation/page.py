"""The report of eval.py as one HTML page that needs no network access."""

import json
import math
from pathlib import Path
from typing import Any

_TEMPLATE = Path(__file__).with_name("page.html")


def write_report_page(path: Path, content: dict[str, Any]) -> None:
    """Write the page.

    `content` has the keys title, about, scores, terms, pictures, curves, selection, positions and
    sentences.
    """
    content = content | {"about": f"{content['about']}; {path.parent}"}  # tells many pages apart
    text = json.dumps(_finite(content), ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # a sentence must not close the script or open a comment
    page = _TEMPLATE.read_text("utf-8").replace("/*DATA*/", text)
    path.write_text(page, "utf-8")


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {name: _finite(x) for name, x in value.items()}
    if isinstance(value, list):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
