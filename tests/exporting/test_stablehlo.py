"""Exported functions give the translations and predictions of this repository."""

import subprocess
import sys

import jax
import jax.export
import jaxtyping
import numpy as np
import pytest

from decoding.translator import Translator
from exporting.programs import stablehlo_translate
from exporting.stablehlo_files import StableHLOFormat
from exporting.text import read_export, read_vocabulary
from tests.evaluation.test_every_model import CONFIGS
from tests.exporting.common import any_task, random_run
from tests.programs import ENVIRONMENT
from tests.small import TASKS


@pytest.fixture
def export(tmp_path):
    """Return a function that exports a run; annotations such as int refuse symbolic sizes."""

    def write(run):
        folder = tmp_path / "out"
        folder.mkdir()
        jaxtyping.config.update("jaxtyping_disable", True)
        try:
            StableHLOFormat().write(run, folder)
        finally:
            jaxtyping.config.update("jaxtyping_disable", False)
        return folder

    return write


def run_program(folder, name, *arguments, text=""):
    """Run an exported program in a new process that cannot import this repository."""
    environment = {key: x for key, x in ENVIRONMENT.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, folder / name, *arguments], input=text, cwd=folder.parent,
        capture_output=True, text=True, timeout=300, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def greedy_texts(run, mesh, texts):
    settings = run.task.config.decode.copy_and_resolve_references().unlock()
    settings.update({"beam": 1, "nbest": 1})
    return [h.text for [h] in Translator([run.task], mesh, settings).in_order([run.params], texts)]


def test_a_new_process_gives_the_same_translations(export, cache, mesh):
    task = any_task("transformer", cache, None)
    task.config.unlock().decode.update({"max_ratio": 1.0, "max_extra": 2, "min_ratio": 0.5})
    run = random_run(task)
    folder = export(run)
    texts = ["", "<s> unheard", *(pair.source for pair in task.pairs("test"))]
    expected = greedy_texts(run, mesh, texts)
    output = run_program(folder, "translate.py", text="".join(f"{text}\n" for text in texts))
    assert output.split("\n")[:-1] == expected
    assert len(set(expected)) > 5
    for name in ("encode", "step"):
        function = jax.export.deserialize(bytearray((folder / f"{name}.stablehlo").read_bytes()))
        assert function.platforms == ("cpu", "cuda")
    assert read_export(folder)["source_length"] is None


FAST_MODELS = ("hard",)
FIXED_LENGTH = ("hard",)  # the number of source positions that hard attention uses depends on it


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in FAST_MODELS else pytest.mark.slow) for n in CONFIGS],
)
def test_every_translation_model(name, export, cache, mesh, monkeypatch):
    task = any_task(name, cache, None)
    run = random_run(task)
    folder = export(run)
    monkeypatch.setattr(stablehlo_translate, "_FOLDER", folder)
    texts = [pair.source for pair in task.pairs("test")]
    source, target = (read_vocabulary(folder, side) for side in ("source", "target"))
    ids = [source.ids(source.tokens(text)) for text in texts]
    description = read_export(folder)
    found = stablehlo_translate.greedy_search(ids, description)
    found = [target.text([target.all_tokens[i] for i in tokens]) for tokens in found]
    assert found == greedy_texts(run, mesh, texts)
    fixed = task.config.data.max_length + 1 if name in FIXED_LENGTH else None
    assert description["source_length"] == fixed
    if fixed:
        with pytest.raises(SystemExit, match="the limit is 50"):
            next(stablehlo_translate.greedy_search([[5] * fixed], description))


FAST_TASKS = ("series",)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in FAST_TASKS else pytest.mark.slow) for n in TASKS],
)
def test_every_other_task(name, export, tmp_path):
    run = random_run(any_task(name, None, tmp_path / "corpus"))
    folder = export(run)
    batch = next(iter(run.task.eval_batches("test")))
    inputs = {name: batch[name] for name in read_export(folder)["inputs"]}
    label = "answer" if run.task.config.task == "cloze" else "label"
    assert (label in inputs) == (name == "music")  # the input of a piece are its frames
    np.savez(tmp_path / "inputs.npz", **inputs)
    run_program(folder, "predict.py", str(tmp_path / "inputs.npz"), str(tmp_path / "outputs.npz"))
    predictions, weights = jax.jit(run.task.predict)(run.params, batch)
    expected = {**predictions, **{f"attention.{name}": x for name, x in weights.items()}}
    with np.load(tmp_path / "outputs.npz") as outputs:
        assert {*outputs} == {*expected}
        for field, x in expected.items():
            np.testing.assert_allclose(outputs[field], x, atol=1e-5)


def test_the_weights_of_a_bfloat16_model_are_cast(export, cache, monkeypatch):
    task = any_task("cho", cache, None)
    task.config.unlock().model.dtype = "bfloat16"
    task = type(task)(task.config)
    monkeypatch.setattr(stablehlo_translate, "_FOLDER", export(random_run(task)))
    weights, _, _ = stablehlo_translate.load_functions()
    assert {str(x.dtype) for x in weights.values()} == {"float32", "bfloat16"}
