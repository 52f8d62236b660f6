"""Run the commands of docs/finetuning.md, with a small corpus and few training steps."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import documents
from tests.programs import ENVIRONMENT, ROOT, SMALL
from training.workdir import is_done, load_config

pytestmark = pytest.mark.slow  # the guide trains several models

FEWER = [flag for flag in SMALL[1:] if "train.steps" not in flag]


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """Return the folder in which the commands ran, and the output of each of them."""
    folder, outputs = tmp_path_factory.mktemp("finetuning"), []
    for name in ("train.py", "configs"):
        (folder / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = ENVIRONMENT | {"PATH": path, "PYTHONPATH": str(ROOT)}
    for command in documents.commands("docs/finetuning.md"):
        small = re.sub(r"(train\.steps=\d)000\b", r"\1", command.text)  # 4,000 steps become 4
        done = subprocess.run(
            ["bash", "-c", " ".join([small, *FEWER])], cwd=folder, env=environment,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        outputs.append((small, done))
    return folder, outputs


def test_the_guide_runs(guide):
    folder, outputs = guide
    runs = sorted((folder / "runs").iterdir())
    assert [run.name for run in runs] == ["finetuned_french", "german", "longer", "tuned"]
    assert all(map(is_done, runs))
    assert len(outputs) == 6


def test_runs_that_start_from_another_run_say_so(guide):
    folder, outputs = guide
    for name, checkpoint in (("tuned", "best"), ("finetuned_french", "last")):
        report = (folder / "runs" / name / "initialized.md").read_text()
        assert f"from runs/german, checkpoint {checkpoint} (step 2)" in report
        assert any(report in done.stderr for _, done in outputs)
    assert not (folder / "runs" / "german" / "initialized.md").exists()
    initial = folder / "runs" / "finetuned_french" / "vocabulary" / "initial" / "source.vocab"
    german = (folder / "runs" / "german" / "vocabulary" / "source.vocab").read_text()
    french = (folder / "runs" / "finetuned_french" / "vocabulary" / "source.vocab").read_text()
    assert initial.read_text() == german and french.startswith(german) and len(french) > len(german)


def test_a_finished_run_is_trained_for_more_steps(guide):
    folder, outputs = guide
    assert load_config(folder / "runs" / "longer").train.steps == 4
    assert any("4 steps in total, resuming after step 2" in done.stderr for _, done in outputs)


def test_the_summary_has_the_number_of_parameters_of_training(guide):
    outputs = guide[1]
    summary = next(done.stdout for text, done in outputs if "--summary" in text)
    trained = next(done.stderr for text, done in outputs if "runs/longer" in text)
    count = re.search(r"^([\d,]+) parameters", trained, re.M)
    assert count and f" {count[1]} |" in _row(summary, "total")
    for name in ("forward pass, per token", "one epoch", "optimizer state"):
        assert _row(summary, name)


def _row(table: str, name: str) -> str:
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {name} ")]
    return row
