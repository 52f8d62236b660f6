"""Tests of eval.py --test as a user runs it, and of its guide."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from data.pair import Pair
from data.translation import TranslationCorpus
from tests import documents
from tests.check_commands import PROGRAMS
from tests.programs import ENVIRONMENT, ROOT, call
from training.workdir import load_config


@pytest.fixture(scope="module")
def held_out(trained_run) -> list[Pair]:
    return list(TranslationCorpus(load_config(trained_run[1]).data).read("test"))


def foreign(workdir: Path, copy: Path) -> Path:
    """Copy a run as if another user had trained it, with a corpus that does not exist here."""
    shutil.copytree(workdir, copy, ignore=shutil.ignore_patterns("eval"))
    (copy / "signature").unlink()
    config = json.loads((copy / "config.json").read_text())
    config["data"]["cache"] = config["data"]["dir"] = "/nowhere/cache"
    (copy / "config.json").write_text(json.dumps(config))
    return copy


@pytest.mark.slow
def test_copies_of_the_test_split_have_its_scores(trained_run, held_out, tmp_path):
    """All sets are scored in one call, for a run of another user and without its corpus."""
    source, target, tsv = (tmp_path / name for name in ("a.en", "a.de", "a.tsv.gz"))
    source.write_text("".join(f"{pair.source}\n" for pair in held_out), "utf-8-sig")
    target.write_text("".join(f"{pair.target}\n" for pair in held_out), "utf-8")
    with gzip.open(tsv, "wt", encoding="utf-8") as file:
        file.writelines(f"{pair.source}\t{pair.target}\n" for pair in held_out)
    other = tmp_path / "other.de"
    other.write_text("Mai\n" * len(held_out))
    flags = ["--checkpoint=2", "--beams=1,2", "--pictures=1"]
    split = tmp_path / "split"
    call("eval.py", f"--workdir={trained_run[1]}", *flags, f"--out={split}")
    shutil.copytree(split, tmp_path / "reports" / "parallel")
    shutil.copytree(split, tmp_path / "reports" / "columns")
    shutil.copytree(split, tmp_path / "reports" / "several")

    out, run = tmp_path / "out", foreign(trained_run[1], tmp_path / "run")
    done = call(
        "eval.py", f"--workdir={run}", *flags, f"--out={out}", f"--against={tmp_path}/reports",
        f"--test=parallel={source},{target}", f"--test=columns={tsv}",
        f"--test=several={source},{target},{other}",
    )  # fmt: skip
    expected = json.loads((split / "scores.json").read_text())
    del expected["scores"]["alignment_error"]  # test sets have no gold links
    table = json.loads((out / "tests.json").read_text())
    for name in ("parallel", "columns"):
        found = json.loads((out / name / "scores.json").read_text())
        assert found["split"] == name
        assert {x["this"]["p"] for x in found.pop("against")["scores"].values()} == {1}
        for key in expected.keys() - {"split", "alignment_error"}:
            assert found[key] == expected[key], key
        assert table["tests"][name]["scores"] == expected["scores"]
        for file in ("hypotheses.txt", "hypotheses.links", "references.links"):
            assert (out / name / file).read_bytes() == (split / file).read_bytes()
        assert {path.name for path in (out / name).iterdir()} == {
            path.name for path in split.iterdir()
        }
    several = json.loads((out / "several" / "scores.json").read_text())
    assert several["sentences"] == len(held_out) and "nrefs:2" in several["signatures"]["bleu"]
    # The loss is the mean over all references, and hypotheses do not depend on references.
    assert several["scores"]["loss"] != expected["scores"]["loss"]
    assert (out / "several" / "hypotheses.txt").read_bytes() == (
        split / "hypotheses.txt"
    ).read_bytes()
    assert table["tests"]["several"]["files"][2]["path"] == str(other)
    lines = done.stdout.splitlines()
    assert lines[-1] == f"Table: {out}/tests.md"
    assert [line.split()[0] for line in lines[-4:-1]] == ["parallel", "columns", "several"]
    assert "Test set columns" in lines and "p = 1 " in done.stdout
    assert not (run / "eval").exists()


def test_a_mistake_is_one_message(trained_run, tmp_path):
    (tmp_path / "short").write_text("May\n")
    (tmp_path / "long").write_text("Mai\nMai\n")
    flags = [f"--out={tmp_path}/out", f"--test=x={tmp_path}/short,{tmp_path}/long"]
    done = call("eval.py", f"--workdir={trained_run[1]}", *flags, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("error: ")
    assert "short has 1 lines and" in line and "long has 2" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.slow  # about 25 seconds; the first test of this file uses the same flags
def test_the_guide_runs(trained_run, tmp_path):
    """Run all commands of the section about test sets of docs/decoding.md."""
    text = (ROOT / "docs/decoding.md").read_text("utf-8")
    before, _, section = text.partition("\n## Other test sets\n")
    first = before.count("\n") + 2
    last = first + section.partition("\n## ")[0].count("\n")
    blocks = [
        block
        for block in documents.read("docs/decoding.md")[1]
        if first <= block.line <= last and documents.is_shell(block)
    ]
    assert len(blocks) == 2
    for program in PROGRAMS:
        (tmp_path / program).symlink_to(ROOT / program)
    foreign(trained_run[1], tmp_path / "runs" / "demo")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = "set -e\n" + "".join(block.text for block in blocks)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env=ENVIRONMENT | {"PATH": path, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for folder in ("runs/demo/beam5", "runs/demo/eval"):
        table = json.loads((tmp_path / folder / "tests.json").read_text())
        assert [*table["tests"]] == ["talks", "days"]
        assert (tmp_path / folder / "talks" / "report.html").exists()
    against = json.loads((tmp_path / "runs/demo/eval/days/scores.json").read_text())["against"]
    assert against["run"] == "runs/demo/beam5/days"
    assert re.search(r"^days +1 ", done.stdout, re.M)
