"""What eval.py is asked for, and how any task's results are kept and shown."""

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from configs.base import Config
from evaluation.page import write_report_page


class Wanted(NamedTuple):
    """What a report is to be of."""

    split: str
    folder: Path
    pictures: int  # PNG pictures of so many examples
    page: int  # examples in the HTML page; 0: no page
    checkpoints: Sequence[int] = ()
    decode: Config = None  # translation's way to decode,
    beams: Sequence[int] = ()  # widths to compare,
    ter: bool = True  # TER too, which is slow,
    against: Path | None = None  # a folder of other hypotheses, to compare with


def corpus_name(data: Config) -> str:
    """How a person would call it: its name in a catalogue, its folder and files, or its kind."""
    files = re.sub(r"{split}|\.\w+$", "", data.files).strip("._-") if data.dir else ""
    return data.get("name") or f"{Path(data.dir).name} {files}".strip() or data.corpus


def keep(
    wanted: Wanted, scores: dict[str, float], loss: str, predictions: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Writes scores.json and a line for every example; clears away an earlier report. `loss` says
    what the loss is."""
    folder = wanted.folder
    for pattern in ("attention-*.png", "prediction-*.png", "report.html"):
        for old in folder.glob(pattern):
            old.unlink()
    result = {
        "split": wanted.split, "checkpoints": list(wanted.checkpoints),
        "examples": len(predictions), "scores": scores, "signatures": {"loss": loss}, **more,
    }  # fmt: skip
    content = json.dumps(result, indent=2, ensure_ascii=False)
    (folder / "scores.json").write_text(content + "\n", "utf-8")
    (folder / "predictions.txt").write_text("".join(f"{p}\n" for p in predictions), "utf-8")
    return result


def show(result: dict[str, Any], samples: Sequence[dict[str, str]]) -> None:
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
    """The page: scores, pictures, and examples that are words with rows of weights over them."""
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
    """Its name, and the picture itself as an address, so that the page needs no other file."""
    data = base64.b64encode(picture.read_bytes()).decode()
    return picture.name, f"data:image/png;base64,{data}"
