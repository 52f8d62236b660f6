"""What a report contains, and how the results of a task are written and printed."""

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from configs.base import Config
from evaluation.page import write_report_page
from records import to_json


class Wanted(NamedTuple):
    """What a report contains."""

    split: str
    folder: Path  # where it is written
    pictures: int  # number of examples that are drawn as PNG files
    page: int  # number of examples in report.html; 0: no page
    # Training steps of the checkpoints that are averaged; for an ensemble, one list per member.
    checkpoints: Sequence[int] | Sequence[list[int]] = ()
    # For translation only:
    decode: Config = None  # decode settings
    beams: Sequence[int] = ()  # beam widths to compare
    ter: bool = True  # compute TER, which is slow
    against: Path | None = None  # report folder of another run, to compare with


def corpus_name(data: Config) -> str:
    """Return a corpus' name in a catalogue, the name of its folder and files, or its format."""
    files = re.sub(r"{split}|\.\w+$", "", data.files).strip("._-") if data.dir else ""
    return data.get("name") or f"{Path(data.dir).name} {files}".strip() or data.corpus


def keep(
    wanted: Wanted, scores: dict[str, float], loss: str, predictions: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Write scores.json and predictions.txt, and remove an earlier report.

    `loss` describes the loss in words. Return the content of scores.json.
    """
    folder = wanted.folder
    for pattern in ("attention-*.png", "prediction-*.png", "report.html"):
        for old in folder.glob(pattern):
            old.unlink()
    result = {
        "split": wanted.split, "checkpoints": list(wanted.checkpoints),
        "examples": len(predictions), "scores": scores, "signatures": {"loss": loss}, **more,
    }  # fmt: skip
    (folder / "scores.json").write_text(to_json(result, indent=2) + "\n", "utf-8")
    (folder / "predictions.txt").write_text("".join(f"{p}\n" for p in predictions), "utf-8")
    return result


def show(result: dict[str, Any], samples: Sequence[dict[str, str]]) -> None:
    """Print samples, the checkpoints and the scores."""
    for sample in samples:
        print("\n".join(f"{name:>15}: {text}" for name, text in sample.items()), end="\n\n")
    print(f"{'checkpoint':>15}: {', '.join(map(str, result['checkpoints']))}")
    for name, value in result["scores"].items():
        print(f"{name:>15}: {value:#.4g}  {result['signatures'].get(name, '')}".rstrip())


def write_report(
    wanted: Wanted,
    result: dict[str, Any],
    title: str,
    terms: dict[str, str] | None = None,
    examples: Sequence[dict[str, Any]] = (),
) -> None:
    """Write report.html: scores, pictures, and examples with rows of weights over their words."""
    about = f"{result['examples']:,} examples, checkpoint {', '.join(map(str, wanted.checkpoints))}"
    scores = [
        {"name": name, "value": value, "signature": result["signatures"].get(name, "")}
        for name, value in result["scores"].items()
    ]
    pictures = sorted(wanted.folder.glob("*-[0-9]*.png"))
    content = {
        "title": f"{title}, {wanted.split}", "about": about, "scores": scores,
        "terms": {"reference": "gold", "first": 0, **(terms or {})},
        "pictures": [_inline(picture) for picture in pictures],
        "curves": {}, "selection": [], "positions": [], "sentences": list(examples),
    }  # fmt: skip
    write_report_page(wanted.folder / "report.html", content)


def _inline(picture: Path) -> tuple[str, str]:
    """Return a picture's name and its content as a data URL, so that the page is one file."""
    data = base64.b64encode(picture.read_bytes()).decode()
    return picture.name, f"data:image/png;base64,{data}"
