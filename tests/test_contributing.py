"""Apply the edits of CONTRIBUTING.md to a copy of the project, and run the result."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.programs import ENVIRONMENT, ROOT

_EDIT = re.compile(
    r"^\*\*`(?P<file>[^`]+)`\*\*, "
    r"(?:(?P<new>new file)|(?P<where>before|instead of) `(?P<line>[^`\n]+)`):"
    r"\n\n```(?:python)?\n(?P<code>.*?)```$",
    re.M | re.S,
)


class Edit(NamedTuple):
    """One code block of CONTRIBUTING.md, and the place in a file where it is inserted."""

    section: str
    file: str
    new: bool
    replaces: bool
    line: str
    code: str


def edits() -> list[Edit]:
    """Return all edits that CONTRIBUTING.md describes, in order."""
    found = []
    for section in (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("\n## ")[1:]:
        for match in _EDIT.finditer(section):
            found.append(Edit(
                section.partition("\n")[0], match["file"], bool(match["new"]),
                match["where"] == "instead of", match["line"] or "", match["code"],
            ))  # fmt: skip
    return found


def apply(edit: Edit, root: Path) -> None:
    """Apply an edit to the project in the folder `root`."""
    path = root / edit.file
    if edit.new:
        assert not path.exists()
        path.write_text(edit.code, "utf-8")
        return
    text = path.read_text("utf-8")
    assert text.count(f"{edit.line}\n") == 1, f"{edit.file} must contain {edit.line!r} once"
    rest = "" if edit.replaces else f"{edit.line}\n"
    path.write_text(text.replace(f"{edit.line}\n", edit.code + rest), "utf-8")


def test_extensions_need_few_files():
    files = {}
    for edit in edits():
        files.setdefault(edit.section, set()).add(edit.file)
    score, model, table = files.values()
    assert score == {"models/scores.py", "configs/schema/seq2seq.py", "tests/reference.py"}
    assert {file for file in model if (ROOT / file).exists()} == {"tests/test_config_files.py"}
    assert len(model) == 4 and sum(file.startswith("configs/schema") for file in model) == 1
    assert len(table) == 1


# Train the new attention score and the new model for two training steps each, evaluate the new
# model on the test split, and plan the runs of the new table.
SCRIPT = """
from pathlib import Path
import sys
from configs.base import choices
from configs.check import check
from configs.load import load_config_file
from models.scores import SCORES
from papers.plan import make_plan
from papers.registry import find_targets

assert set(choices("seq2seq", "model.attention.score")) == set(SCORES)
folder = Path(sys.argv[1])
table = find_targets()["bag2026.baseline"]
assert len(make_plan("bag2026.baseline", table, "", "", folder, 1, "").runs()) == 2

def small(file, arguments):
    config = load_config_file(file, arguments)
    config.update_from_flattened_dict({
        "data.cache": str(folder / "cache"), "data.buckets": 1, "data.batch_size": 8,
        "data.examples.train": 16, "data.examples.valid": 8, "data.examples.test": 8,
        "train.steps": 2, "train.eval_every": 2, "train.log_every": 2, "train.samples": 0,
    })
    check(config)
    return config

from evaluation.results import ReportOptions
from experiment import score_run, train_run
from training.devices import make_mesh

score = small("configs/luong2015.py", "data=dates,score=cosine,feed=no")
train_run(score, folder / "score", make_mesh())
bag = small("configs/bag2026.py", "data=dates")
train_run(bag, folder / "bag", make_mesh())
bag.decode.beam = 2
options = ReportOptions("test", folder / "report", pictures=1, page=1, decode=bag.decode, ter=False)
score_run(bag, folder / "bag", make_mesh(), "best", options)
assert (folder / "report" / "report.html").exists()
"""


# Tests that read the registries, the declarations and the generated pages.
AFFECTED = (
    "cosine or need_equal_widths or reference or overview or matrix or one_way or short or "
    "docstring or in_the_table"
)
AFFECTED_FILES = [
    f"tests/{name}.py"
    for name in (
        "models/test_attention", "test_configs", "test_config_files", "papers/test_results",
        "test_structure",
    )
]  # fmt: skip


@pytest.mark.slow
def test_examples_give_a_working_score_model_and_table(tmp_path):
    copy = tmp_path / "copy"
    skipped = shutil.ignore_patterns(
        ".git", ".venv", "cache", "runs", "corpora", "__pycache__", ".site", "site", "results",
        "sweeps",
    )  # fmt: skip
    shutil.copytree(ROOT, copy, ignore=lambda folder, names: _top_level(skipped, folder, names))
    for edit in edits():
        apply(edit, copy)
    for command in (
        ["-c", SCRIPT, str(tmp_path)],
        ["-m", "configs.reference"],
        ["-m", "papers.overview"],
        ["-m", "ruff", "check", "."],
        ["-m", "pytest", "-q", "-m", "not slow", "-k", AFFECTED, *AFFECTED_FILES],
    ):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=copy, capture_output=True, text=True, timeout=500, env=ENVIRONMENT,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def _top_level(skipped, folder, names):
    """Return the names not to copy; `sweeps`, for example, is skipped only at the top level.

    configs/sweeps, for example, is source code and must be copied.
    """
    return skipped(folder, names) if Path(folder) == ROOT else {"__pycache__"} & {*names}
