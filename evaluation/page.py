"""The report of eval.py as one HTML page that needs no network access."""

from pathlib import Path
from typing import Any

from records import to_json

_TEMPLATE = Path(__file__).with_name("page.html")


def write_report_page(path: Path, content: dict[str, Any]) -> None:
    """Write the page.

    `content` has the keys title, about, scores, terms, pictures, curves, selection, positions and
    sentences.
    """
    content = content | {"about": f"{content['about']}; {path.parent}"}  # tells many pages apart
    text = to_json(content, compact=True)
    text = text.replace("<", "\\u003c")  # a sentence must not close the script or open a comment
    page = _TEMPLATE.read_text("utf-8").replace("/*DATA*/", text)
    path.write_text(page, "utf-8")
