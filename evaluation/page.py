"""The report as one HTML page that needs no network: scores, curves, attention to point at."""

import json
from pathlib import Path
from typing import Any

_TEMPLATE = Path(__file__).with_name("page.html")


def write_page(path: Path, content: dict[str, Any]) -> None:
    """`content` has title, about, scores, curves, selection, positions and sentences."""
    # A "</script>" in a sentence would end the data.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    page = _TEMPLATE.read_text("utf-8").replace("/*DATA*/", text)
    path.write_text(page, "utf-8")
