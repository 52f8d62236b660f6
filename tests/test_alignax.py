"""Tests of the Python interface: alignax.py, its installation and the notebook in examples/."""

import json
import os
import shutil
import subprocess
import sys
import venv

import numpy as np
import pytest

import alignax
from errors import UserError
from tests.programs import ENVIRONMENT, ROOT

PAIRS = [("May 3, 2020", "3. Mai 2020"), ("4:21 PM", "16:21")]


@pytest.fixture(scope="module")
def run(trained_run):
    return alignax.load(trained_run[1])


def test_translations_have_tokens_attention_and_a_figure(run, trained_run):
    sentences = [source for source, _ in PAIRS]
    results = run.translate([*sentences, ""], beam=2, nbest=2)
    assert results[2].text == "" and len(results[0].hypotheses) == 2
    unknown = run.translate(["Mäy"], beam=2, nbest=2)[0].unknown
    assert results[0].unknown == [] and unknown == ["Mäy"]
    for result in results[:2]:
        shape = len(result.tokens), len(result.source) + 1
        assert result.attention.shape == shape and result.score == result.hypotheses[0].score
        np.testing.assert_allclose(result.attention.sum(axis=1), 1, rtol=1e-4)
    assert run.draw(results[0])._repr_png_().startswith(b"\x89PNG")
    compiled = run._translators
    assert run.translate(sentences, beam=2, nbest=2)[0].text == results[0].text
    assert len(compiled) == 1  # the second call compiles nothing
    first, again = (
        [x.text for x in run.translate(sentences, temperature=5.0, seed=1)] for _ in range(2)
    )
    programs = [x._decode._cache_size() for x in compiled.values()]
    other = [x.text for x in run.translate(sentences, temperature=4.0, seed=2, alpha=0.5)]
    assert first == again != other
    assert programs == [x._decode._cache_size() for x in compiled.values()]  # nothing is compiled
    assert run.task == "translation" and repr(run) == "<translation run: recurrent encoder–decoder>"
    log_p = run.score(PAIRS)
    assert len(log_p) == 2 and all(value < 0 for value in log_p)
    assert run.score([]) == []


def test_mistakes_are_user_errors(run, tmp_path):
    for call, fact in {
        lambda: run.translate("May 3, 2020"): r"put it into a list",
        lambda: run.translate(["May"], bem=2): r"no field 'bem'",
        lambda: run.translate(["May"], beam="x"): r"beam='x'.*type int",
        lambda: run.translate(["May"], beam=0): r"beam=0",
        lambda: run.translate([None]): r"input 0 is of type NoneType",
        lambda: run.translate(["May", "\ud83d"]): r"input 1 contains .* half of a surrogate pair",
        lambda: run.score(["ab"]): r"score needs pairs",
        lambda: run.classify(["May"]): r"classify needs a classification run",
        lambda: run.predict([["May"]]): r"predict needs a labelling or cloze run",
        lambda: run.draw(
            alignax.TranslatedText([], run.translate([""])[0].hypotheses, [])
        ): r"is empty",
        lambda: alignax.load(tmp_path): r"not the folder of a run",
        lambda: alignax.load(): r"load needs the folder",
        lambda: alignax.load(["runs/a"]): r"load needs paths",
        lambda: run.draw("x"): r"draw needs a result",
    }.items():
        with pytest.raises(UserError, match=fact):
            call()


def test_runs_that_cannot_form_an_ensemble_are_not_loaded(trained_run, tmp_path):
    other = tmp_path / "run"
    shutil.copytree(trained_run[1], other)
    (other / "signature").unlink()
    config = json.loads((other / "config.json").read_text())
    config["data"]["target_vocab"]["lowercase"] = True
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="cannot form an ensemble, because their target"):
        alignax.load(trained_run[1], other)


@pytest.mark.slow
def test_import_works_in_any_folder_after_an_editable_installation(tmp_path):
    """A folder `data` must not hide the package; a module `models` is reported."""
    venv.create(tmp_path / "venv", with_pip=True, system_site_packages=True)
    python = tmp_path / "venv" / "bin" / "python"
    environment = {name: x for name, x in os.environ.items() if name != "PYTHONPATH"}
    # The packages of this environment replace those that pip would download.
    environment["PYTHONPATH"] = next(path for path in sys.path if path.endswith("site-packages"))
    pip = [python, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--quiet"]
    done = subprocess.run([*pip, "-e", ROOT], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    (tmp_path / "work" / "data").mkdir(parents=True)

    def call(code):
        return subprocess.run(
            [python, "-c", code], cwd=tmp_path / "work", capture_output=True, text=True,
            env=environment,
        )  # fmt: skip

    code = "import alignax; alignax._check_imports(); print(alignax.__file__)"
    assert call(code).stdout.strip() == str(ROOT / "alignax.py")
    (tmp_path / "work" / "models.py").write_text("")
    assert "needs the package 'models'" in call("import alignax; alignax.load('run')").stderr


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    """Run the notebook with few training steps; its stored outputs come from a longer run."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    path = ROOT / "examples" / "attention.ipynb"
    assert path.stat().st_size < 200_000
    notebook = nbformat.read(path, as_version=4)
    assert all(cell.outputs or "subprocess" in cell.source for cell in _code(notebook))
    environment = ENVIRONMENT | {"STEPS": "4", "PYTHONPATH": str(ROOT)}
    client = nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env=environment)
    drawn = [output for cell in _code(notebook) for output in cell.outputs if "data" in output]
    assert any("image/png" in output.data for output in drawn)


def _code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]
