"""Tests of the fault campaign: its parts, and a small sample of its cases."""

import json
import os
import subprocess
import sys

import pytest

from faults.damage import DAMAGES, json_damages
from faults.outcome import CLEAR, HANG, SAME, SILENT, TRACEBACK, Outcome, classify, outcome_table
from faults.processes import Ended
from tests.programs import ENVIRONMENT, ROOT


def test_every_damage_changes_a_file(tmp_path):
    path = tmp_path / "run.json"
    value = [{"step": 1, "name": "a", "nested": {}, "items": [1]}]
    whole = json.dumps(value)
    path.write_text(whole)
    damages = {**DAMAGES, **dict(json_damages(path))}
    assert len(damages) == 5 + 6 + 4
    for name, damage in damages.items():
        path.write_text(whole)
        damage(path)
        assert not path.exists() or path.read_text() != whole, name
    path.write_bytes(b"\x00\x01")
    assert not list(json_damages(path))


TRACE = "Traceback (most recent call last):\nValueError\n"


@pytest.mark.parametrize(
    ("status", "stderr", "result", "kind"),
    [
        (0, "step 2\n", 1, SAME),
        (0, "step 2\n", 2, SILENT),
        (0, "run/a is corrupt: it is prepared again\n", 2, CLEAR),
        (0, TRACE, 1, TRACEBACK),
        (1, "step 2\nerror: run/a is corrupt: delete it\n", 2, CLEAR),
        (1, f"{TRACE}error: run/a is corrupt: delete it\n", 2, TRACEBACK),
        (1, "", 1, TRACEBACK),
        (-11, "", 1, TRACEBACK),
    ],
)
def test_outcomes_are_classified(status, stderr, result, kind):
    ended = Ended(status, "", stderr, hung=False)
    assert classify(ended, result, 1, may_differ=True)[0] == kind
    # A resumed run must have the same result, whatever it prints.
    if not status and result != 1:
        assert classify(ended, result, 1)[0] == SILENT
    assert classify(Ended(status, "", stderr, hung=True), result, 1)[0] == HANG


def test_the_table_counts_the_cases_of_each_kind():
    outcomes = [Outcome("kills", "a", "train.py", kind, "") for kind in (SAME, SAME, HANG)]
    *_, group, total = outcome_table(outcomes).splitlines()
    assert group == "| kills | 3 | 2 | 0 | 0 | 0 | 1 |"
    assert total == group.replace("kills", "all")


def test_a_message_is_good_only_while_the_fault_lasts():
    outcomes = [
        Outcome("kills", "a", "train.py", CLEAR, "", repaired) for repaired in (False, True)
    ]
    assert [outcome.good for outcome in outcomes] == [True, False]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the campaign needs Linux")
def test_a_sample_of_the_campaign_has_no_bad_outcome(tmp_path):
    flags = ["--only=damage,json", "--sample=2", "--seed=1", "--jobs=2", f"--out={tmp_path}"]
    command = [sys.executable, "-m", "faults.campaign", *flags]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600,
        env=ENVIRONMENT | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.curdir},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = [outcome["kind"] for outcome in json.loads((tmp_path / "outcomes.json").read_text())]
    assert len(kinds) == 2 and {*kinds} <= {SAME, CLEAR}
