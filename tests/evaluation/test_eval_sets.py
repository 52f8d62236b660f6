"""Scores of test sets that are given as files equal those of the same examples in a corpus."""

import json
import shutil
import tempfile

import jax
import numpy as np
import pytest
import scipy.io

from configs.registry import TASKS, resolve
from data.corpus import Corpus
from data.eval_sets import EvalSet, parse_eval_sets
from errors import UserError
from evaluation.evaluator import references
from evaluation.results import ReportOptions, report_folder
from evaluation.score_table import plain_table, write_score_table
from experiment import score_eval_sets
from tasks.registry import make_task
from tasks.translation import Translation
from tests.small import random_weights, small_config
from training.devices import make_mesh
from training.workdir import load_config


@pytest.fixture(scope="module")
def alone():
    return make_mesh(jax.devices()[:1])


def copy_of_test_split(corpus: Corpus, folder):
    """Write the test split of a corpus as a test set, and return its file."""
    data, path = corpus.data, folder / "given"
    if data.corpus == "polymusic":
        shutil.copy(folder / "corpus" / data.files, path)
        kept = scipy.io.loadmat(path, variable_names=["testdata"])
        scipy.io.savemat(path, {"testdata": kept["testdata"]}, appendmat=False)
    elif data.corpus.startswith("series"):
        blocks = []
        for sequence in corpus.read("test"):
            rows = zip(sequence.columns["x"], np.ravel(sequence.columns["label"]), strict=True)
            blocks.append("".join(f"{float(x[0])!r} {label}\n" for x, label in rows))
        path.write_text("\n".join(blocks))
    else:
        (given,) = (folder / "corpus").glob("test.*")
        path.write_bytes(given.read_bytes())
    return path


# "sentence", "pooled" and "sum" have the corpora of "han" and "reader".
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("columns", "han")))
        for name in ("series", "classes", "columns", "music", "han", "reader")
    ],
)
def test_a_copy_of_the_test_split_has_the_same_scores(name, tmp_path, alone):
    config = small_config(name, tmp_path / "corpus")
    report = resolve(TASKS[config.task].evaluation).report
    task = make_task(config)
    params = random_weights(task)
    copy = copy_of_test_split(task.corpus(config.data), tmp_path)
    other = make_task(config, task.prepared.folder)  # has only the vocabularies
    (tmp_path / "encoded").mkdir()
    other.use_eval_sets([EvalSet("copy", (copy,))], tmp_path / "encoded")
    found = []
    for this, split in ((task, "test"), (other, "copy")):
        folder = tmp_path / split
        folder.mkdir()
        report(
            this, params, alone, ReportOptions(split, folder, pictures=1, page=2, checkpoints=[7])
        )
        scores = json.loads((folder / "scores.json").read_text())
        assert scores.pop("split") == split
        names = sorted(path.name for path in folder.iterdir())
        found.append((scores, (folder / "predictions.txt").read_bytes(), names))
    assert found[0] == found[1] and found[0][0]["examples"] > 3


def test_references_are_grouped_by_line(tiny_task, tmp_path):
    config = tiny_task.config.copy_and_resolve_references()
    config.data.several_references = True
    files = {
        "en": "May 3\nMay 3\n\nMay 4\nMay 4\n",
        "de": "3. Mai\n3. Mai\n3. Mai\n4. Mai\n\n",
        "other": "der 3. Mai\n\n3. Mai\n4. Mai\n\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    en, de, other = (tmp_path / name for name in files)
    task = Translation(config, tiny_task.prepared.folder)
    sets = [EvalSet("one", (en, de)), EvalSet("two", (en, de, other))]
    task.use_eval_sets(sets, tmp_path)
    # With one reference, the run's data.several_references joins equal sources, as in a corpus.
    assert [texts for _, texts in references(task, "one")] == [["3. Mai", "3. Mai"], ["4. Mai"]]
    assert [texts for _, texts in references(task, "two")] == [
        ["3. Mai", "der 3. Mai"], ["3. Mai"], ["4. Mai", "4. Mai"],
    ]  # fmt: skip
    assert [len(task.split(test.name)[0]) for test in sets] == [3, 5]


def test_other_reports_are_found_in_workdirs_and_folders(tmp_path):
    for alone, folder in (
        (True, tmp_path / "eval" / "news"), (True, tmp_path / "news"), (True, tmp_path),
        (False, tmp_path / "news"),
    ):  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hypotheses.txt").write_text("")
        assert report_folder(tmp_path, "news", alone) == folder


def test_a_missing_report_is_answered_with_the_command_that_writes_it(trained_run, tmp_path):
    shutil.copytree(trained_run[1], tmp_path / "my run")
    for other, name, facts in (
        (tmp_path / "none", "test", "none does not exist: name the workdir of a translation run"),
        (tmp_path, "test", "contains no hypotheses.txt of test: choose a translation run"),
        (tmp_path / "my run", "valid", f"eval.py '--workdir={tmp_path}/my run' --split=valid"),
        (tmp_path / "my run", "news", f"eval.py '--workdir={tmp_path}/my run' --test=news=FILES"),
    ):
        with pytest.raises(UserError) as caught:
            report_folder(other, name)
        assert facts in str(caught.value)


def test_the_table_has_one_row_per_test_set(tmp_path):
    for name, n, loss in (("news", 1, 0.5), ("talks", 2, None)):
        (tmp_path / name).mkdir()
        report = {
            "checkpoints": [4], "sentences": 1200 * n, "decode": {"beam": 5},
            "scores": {"loss": loss, "bleu": 30.126 * n, "exact": 0.25},
            "signatures": {"bleu": f"nrefs:{n}|case:mixed"},
        }  # fmt: skip
        (tmp_path / name / "scores.json").write_text(json.dumps(report))
    files = {name: [{"path": f"{name}.en", "sha256": "0"}] for name in ("talks", "news")}
    summary = write_score_table(tmp_path, tmp_path / "a`run", files)
    assert summary == json.loads((tmp_path / "tests.json").read_text())
    assert summary["tests"]["news"]["files"] == files["news"]
    assert plain_table(summary).split("\n") == [
        "Test set  Examples  Loss   BLEU  Exact match (%)",
        "talks        2,400   n/a  60.25            25.00",
        "news         1,200   0.5  30.13            25.00",
    ]
    page = (tmp_path / "tests.md").read_text("utf-8")
    assert f"Run ``{tmp_path}/a`run``, checkpoint 4, beam 5." in page
    assert "| talks | 2,400 | n/a | 60.25 | 25.00 |\n" in page
    assert r"higher is better): talks nrefs:2\|case:mixed; news nrefs:1\|case:mixed" in page


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def test_a_mistake_in_any_test_set_leaves_nothing_behind(trained_run, tmp_path, temporary, alone):
    workdir = trained_run[1]
    (tmp_path / "a").write_text("May 3\n")
    (tmp_path / "b").write_text("May 3\nMay 4\n")
    good, bad = f"good={tmp_path}/a,{tmp_path}/a", f"bad={tmp_path}/a,{tmp_path}/b"
    config = load_config(workdir)
    options = ReportOptions("", tmp_path / "out", pictures=0, page=0, decode=config.decode)
    cases = {
        bad: (options, r"a has 1 lines and .*b has 2"),
        f"bad={tmp_path}/none": (options, "none does not exist"),
        good.replace("good", "also"): (
            options._replace(against=tmp_path / "reports"), "contains no hypotheses.txt of also",
        ),
    }  # fmt: skip
    (tmp_path / "reports" / "good").mkdir(parents=True)
    (tmp_path / "reports" / "good" / "hypotheses.txt").write_text("3. Mai\n")
    for case, (given, message) in cases.items():
        with pytest.raises(UserError, match=message):
            sets = parse_eval_sets([good, case])
            score_eval_sets(config, workdir, alone, "best", sets, given)
        assert not (tmp_path / "out").exists() and not list(temporary.iterdir())
