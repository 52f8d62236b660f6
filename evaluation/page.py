"""Write the report of eval.py as a single HTML page that needs no network access."""

import base64
from pathlib import Path
from typing import Any, NamedTuple

from writing import to_json, write_text

_FOLDER = Path(__file__).parent


class ReportPage(NamedTuple):
    """The content of report.html, in the order of the page; empty parts are left out."""

    title: str
    about: str  # description of the run, one line below the title
    # Labels of the explorer: "examples", "source", "target", "prediction", "score", "reference",
    # and "text" if the text of an example is shown above its prediction.
    terms: dict[str, str]
    # Each example contains "text" (its entry in the list of examples), "reference", "correct",
    # "source" (tokens) and "hypotheses", sorted from best to worst. Each hypothesis contains
    # "text", "tokens", "score", "attention" (weights [target][source] by name) and "focus" (the
    # index of the target token to highlight first). A labelling hypothesis contains "gold" (one
    # label per token) instead of attention.
    examples: list[dict[str, Any]]
    opening: int  # index of the example to show first
    scores: list[dict[str, str]]  # rows of the score table: see metrics.describe_scores
    comparison: dict[str, Any] | None = None  # "run", "rows" and "sentences": see comparison.py
    chart_groups: list[dict[str, Any]] = []  # bar charts: see charts.chart_groups
    attention: list[dict[str, Any]] = []  # per attention: AttentionSummary fields and "name"
    positions: dict[str, Any] | None = None  # a chart: see charts.position_chart
    confusion: dict[str, dict[str, int]] = {}  # counts of texts by gold label and predicted label
    pictures: list[tuple[str, str]] = []  # file name and data URL of each PNG plot


def write_report_page(path: Path, page: ReportPage) -> None:
    """Fill the template page.html with content, style and script; write the page to `path`."""
    # Show the path of the report folder, to distinguish the pages of several runs.
    content = page._asdict() | {"about": f"{page.about} · {path.parent}"}
    data = to_json(content, compact=True)
    data = data.replace("<", "\\u003c")  # a "<" could end the <script> or open a comment
    text = (_FOLDER / "page.html").read_text("utf-8")
    # The data is inserted last, so that no sentence is mistaken for a template placeholder.
    for name, part in (
        ("STYLE", (_FOLDER / "page.css").read_text("utf-8")),
        ("SCRIPT", (_FOLDER / "page.js").read_text("utf-8")),
        ("DATA", data),
    ):
        text = text.replace(f"/*{name}*/", part)
    write_text(path, text)


def inline_picture(picture: Path) -> tuple[str, str]:
    """Return the file name of an image and its content as a data URL."""
    data = base64.b64encode(picture.read_bytes()).decode()
    return picture.name, f"data:image/png;base64,{data}"
