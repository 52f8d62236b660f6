"""Options of reports, and the report files of all tasks except translation.

Translation reports use the same options, and are written by evaluation/translation.py.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from configs.base import Config
from errors import UserError
from evaluation.alignment import LinkSettings
from evaluation.examples import ScoredExample, write_examples
from evaluation.explorer import opening_example
from evaluation.faithfulness_report import describe_faithfulness, print_faithfulness
from evaluation.metrics import describe_scores, print_scores
from evaluation.page import ReportPage, inline_picture, write_report_page
from training.restore import RestoredRun
from training.workdir import load_config
from writing import write_json, write_text


class ReportOptions(NamedTuple):
    """The options of a report, most of which are flags of eval.py."""

    split: str
    folder: Path  # the report is written to this folder
    pictures: int  # number of examples whose attention or prediction is drawn as a PNG file
    page: int  # number of examples in report.html; 0: no page
    faithfulness: int = 0  # number of examples whose faithfulness is measured
    # Training steps of the checkpoints that are averaged; for an ensemble, one list per member.
    checkpoints: Sequence[int] | Sequence[list[int]] = ()
    # The fields below are used only for translation.
    decode: Config = None  # config.decode, changed by the --decode flags
    beams: Sequence[int] = ()  # beam widths whose scores are compared
    ter: bool = True  # whether to compute TER, which is slow
    against: Path | None = None  # report folder of the run to compare with, see `report_folder`
    link_settings: LinkSettings = LinkSettings()  # how attention weights become word links
    reverse: Sequence[RestoredRun] = ()  # the runs in `link_settings.reverse`
    write_links: bool = False  # whether to write hypotheses.links, which takes a second pass


def report_folder(other: Path, name: str, alone: bool = True) -> Path:
    """Return the report of a split or a test set with which --against=`other` compares.

    `other` is a workdir, a folder with one report per test set or, if `alone` is set, a report.
    Raise UserError if there is no such report.
    """
    for path in (*[other] * alone, other / name, other / "eval" / name):
        if (path / "hypotheses.txt").exists():
            return path
    if not other.exists():
        raise UserError(
            f"--against={other} does not exist: name the workdir of a translation run that eval.py "
            "has scored, or the folder that was its --out"
        )
    problem = f"--against={other} contains no hypotheses.txt of {name}"
    if (other / "config.json").exists() and load_config(other, "--against").task == "translation":
        test = f"--split={name}" if name in ("valid", "test") else f"--test={name}=FILES"
        command = shlex.join(["python", "eval.py", f"--workdir={other}", test])
        raise UserError(f"{problem}: write it with {command}")
    raise UserError(f"{problem}: choose a translation run that eval.py has scored")


def corpus_name(data: Config) -> str:
    """Return a display name of a corpus for titles.

    The name is that in configs/datasets.py, else the names of folder and files, else data.corpus.
    """
    files = re.sub(r"{split}|\.\w+$", "", data.files).strip("._-") if data.dir else ""
    return data.get("name") or f"{Path(data.dir).name} {files}".strip() or data.corpus


def write_results(
    options: ReportOptions,
    scores: dict[str, float],
    loss: str,
    predictions: Sequence[str],
    examples: Sequence[ScoredExample] = (),
    **more: Any,
) -> dict[str, Any]:
    """Write scores.json, predictions.txt and examples.jsonl; remove files of an earlier report.

    `loss` is a short description of the loss, such as "−log p of the class", which report.html
    shows. Without `examples`, examples.jsonl is not written. `more` contains additional entries of
    scores.json. Return the content of scores.json.
    """
    folder = options.folder
    for pattern in ("attention-*.png", "prediction-*.png", "report.html"):
        for old in folder.glob(pattern):
            old.unlink()
    result = {
        "split": options.split, "checkpoints": list(options.checkpoints),
        "examples": len(predictions), "scores": scores, "signatures": {"loss": loss}, **more,
    }  # fmt: skip
    write_json(folder / "scores.json", result)
    write_text(folder / "predictions.txt", "".join(f"{p}\n" for p in predictions))
    write_examples(folder, examples)
    return result


def print_results(result: dict[str, Any], samples: Sequence[dict[str, str]]) -> None:
    """Print samples, the training steps of the evaluated checkpoints, and the scores."""
    for sample in samples:
        print("\n".join(f"{name:>22}: {text}" for name, text in sample.items()), end="\n\n")
    print(f"{'checkpoint':>22}: {', '.join(map(str, result['checkpoints']))}")
    print_scores(result["scores"], result["signatures"])
    print_faithfulness(result.get("faithfulness", {}))


def write_report(
    options: ReportOptions,
    result: dict[str, Any],
    title: str,
    terms: dict[str, str] | None = None,
    examples: Sequence[dict[str, Any]] = (),
) -> None:
    """Write report.html with scores and either examples or PNG plots.

    The plots are included only if there are no examples, because the page itself draws the
    attention weights of examples.
    """
    checkpoints = ", ".join(map(str, options.checkpoints))
    pictures = [] if examples else sorted(options.folder.glob("*-[0-9]*.png"))
    page = ReportPage(
        title=f"{title}, {options.split}",
        about=f"{result['examples']:,} examples · checkpoint {checkpoints}",
        terms={"prediction": "Prediction", "score": "probability", "reference": "Gold"}
        | (terms or {}),
        examples=list(examples),
        opening=opening_example(examples),
        scores=describe_scores(result["scores"], result["signatures"]),
        faithfulness=describe_faithfulness(result.get("faithfulness", {})),
        confusion=result.get("confusion", {}),
        pictures=[inline_picture(picture) for picture in pictures],
    )
    write_report_page(options.folder / "report.html", page)
