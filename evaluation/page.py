"""Write the report of eval.py as a single HTML page that needs no network access."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reading import matching, read_text, reading
from terminal import clean
from writing import to_json, write_text

_FOLDER = Path(__file__).parent
_SCRIPTS = ("explorer.js", "tables.js", "page.js")
_DATA = '<script id="data" type="application/json">'
# Limits of the number of attention weights, so that browsers can open a page with long texts. A
# weight takes four to six bytes in the file.
MOST_WEIGHTS = 5_000_000  # of a page
MOST_IN_HYPOTHESIS = 1_000_000


class ReportPage(NamedTuple):
    """The content of report.html, in the order of the page; empty parts are left out."""

    title: str
    about: str  # description of the run, one line below the title
    # Labels of the explorer: "examples", "source", "target", "prediction", "score", "reference",
    # and "text" if the text of an example is shown above its prediction.
    terms: dict[str, str]
    # Each example contains "text" (its entry in the list of examples), "reference", "correct",
    # "source" (tokens) and "hypotheses", sorted from best to worst. Each hypothesis contains
    # "text", "tokens", "score", "attention" (weights [target][source] by name), "note" (see
    # AttentionBudget) and "focus" (the index of the target token to highlight first). A labelling
    # hypothesis contains "gold" (one label per token) instead of attention.
    examples: list[dict[str, Any]]
    opening: int  # index of the example to show first
    scores: list[dict[str, str]]  # rows of the score table: see metrics.describe_scores
    comparison: dict[str, Any] | None = None  # "run", "rows" and "sentences": see comparison.py
    chart_groups: list[dict[str, Any]] = []  # bar charts: see charts.chart_groups
    attention: list[dict[str, Any]] = []  # per attention: AttentionSummary fields and "name"
    positions: dict[str, Any] | None = None  # a chart: see charts.position_chart
    # "sample" and "rows": see faithfulness_report.describe_faithfulness.
    faithfulness: dict[str, Any] | None = None
    confusion: dict[str, dict[str, int]] = {}  # counts of texts by gold label and predicted label
    pictures: list[tuple[str, str]] = []  # file name and data URL of each PNG plot


class AttentionBudget:
    """Selects the attention weights that fit on a page; the first hypotheses have priority."""

    def __init__(self) -> None:
        self._left = MOST_WEIGHTS

    def take(self, named: Mapping[str, np.ndarray], digits: int = 3) -> dict[str, Any]:
        """Return the entries "attention" and "note" of a hypothesis, given its named weights.

        If not all weights fit, only those named "attention" are kept, or none at all, and "note"
        says so.
        """
        note = ""
        for names in ([*named], ["attention"]):
            size = sum(named[name].size for name in names if name in named)
            if size <= min(MOST_IN_HYPOTHESIS, self._left):
                self._left -= size
                kept = {name: named[name].round(digits).tolist() for name in names if name in named}
                return {"attention": kept, "note": note}
            note = "Layers and heads are left out, because the page would be too large."
        return {"attention": {}, "note": TOO_LARGE}


TOO_LARGE = "The attention weights are left out, because the page would be too large."


def write_report_page(path: Path, page: ReportPage) -> None:
    """Write report.html to `path`."""
    # Show the path of the report folder, to distinguish the pages of several runs.
    content = page._asdict() | {"about": f"{page.about} · {clean(str(path.parent))}"}
    write_html(path, _FOLDER / "page.html", _SCRIPTS, content)


def write_html(
    path: Path, template: Path, scripts: Sequence[str], content: Mapping[str, Any]
) -> None:
    """Fill a template with content, styles and scripts; write the page to `path`.

    The style sheet of the template has its name and the suffix .css. `scripts` are the names of
    files in its folder, in the order in which they run. They follow page.css and elements.js of
    this folder, which all pages share. All of them become one <script>, without modules.
    """
    data = to_json(content, compact=True)
    data = data.encode("utf-8", "replace").decode()  # file names may contain lone surrogates
    data = data.replace("<", "\\u003c")  # a "<" could end the <script> or open a comment
    text = template.read_text("utf-8")
    styles = dict.fromkeys((_FOLDER / "page.css", template.with_suffix(".css")))
    style = "\n".join(file.read_text("utf-8") for file in styles)
    files = (_FOLDER / "elements.js", *(template.with_name(name) for name in scripts))
    script = "\n".join(file.read_text("utf-8") for file in files)
    # The data is inserted last, so that no sentence is mistaken for a template placeholder.
    for name, part in (
        ("STYLE", style),
        ("SCRIPT", script),
        # Browsers run only the script with this digest, and no other script or event handler.
        ("DIGEST", base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()),
        ("DATA", data),
    ):
        text = text.replace(f"/*{name}*/", part)
    write_text(path, text)


def read_page_content(path: Path, remedy: str) -> dict[str, Any]:
    """Return the content that `write_html` has written into a page; errors end in `remedy`."""
    _, found, rest = read_text(path, remedy).partition(_DATA)
    with reading(path, remedy):
        if not found:
            raise ValueError("it contains no data")
        return matching(json.loads(rest.partition("</script>")[0]), dict)


def inline_picture(picture: Path) -> tuple[str, str]:
    """Return the file name of an image and its content as a data URL."""
    data = base64.b64encode(picture.read_bytes()).decode()
    return picture.name, f"data:image/png;base64,{data}"
