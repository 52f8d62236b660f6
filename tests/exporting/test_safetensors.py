"""Exports in the format safetensors load back bit-exact."""

import json

import numpy as np
import pytest

from decoding.translator import Translator
from errors import UserError
from exporting.folder import write_config
from exporting.safetensors_files import SafetensorsFormat, load_export
from tests.exporting.common import EVERY_MODEL, any_task, assert_equal_params, random_run
from training.workdir import load_config
from writing import write_bytes


def written(run, folder):
    folder.mkdir()
    SafetensorsFormat().write(run, folder)
    return folder


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("hard", "columns", "han")))
        for name in EVERY_MODEL
    ],
)
def test_every_model_loads_back_bit_exact(name, cache, tmp_path):
    run = random_run(any_task(name, cache, tmp_path / "corpus"))
    folder = written(run, tmp_path / "out")
    loaded = load_export(folder)
    assert_equal_params(loaded.params, run.params)
    assert loaded.steps == run.steps
    vocabularies, expected = loaded.task.prepared.vocabularies, run.task.prepared.vocabularies
    assert {n: len(v) for n, v in vocabularies.items()} == {n: len(v) for n, v in expected.items()}
    saved, config = json.loads((folder / "config.json").read_text()), run.task.config
    assert saved["model"] == json.loads(config.model.to_json())
    # Folders of this machine do not belong into an export.
    assert str(tmp_path) not in (folder / "config.json").read_text()


def test_the_translations_are_the_same(transformer_task, mesh, tmp_path):
    run = random_run(transformer_task)
    loaded = load_export(written(run, tmp_path / "out"))
    texts = [pair.source for pair in transformer_task.pairs("test")][:4]
    outputs = [
        Translator([task], mesh, task.config.decode).in_order([params], texts)
        for task, params, _ in (run, loaded)
    ]
    first, second = ([(h.text, h.score) for [h] in output] for output in outputs)
    assert first == second


@pytest.fixture
def folder(transformer_task, tmp_path):
    return written(random_run(transformer_task), tmp_path / "out")


def replace_vocabulary(folder):
    path = folder / "vocabulary" / "source.vocab"
    path.write_text(path.read_text() + "word\n")


def replace_model(folder):
    config = json.loads((folder / "config.json").read_text())
    config["model"]["feed_forward"] = 16
    (folder / "config.json").write_text(json.dumps(config))


DAMAGES = {
    "missing weights": (lambda f: (f / "model.safetensors").unlink(), "does not exist"),
    "cut weights": (
        lambda f: write_bytes(f / "model.safetensors", b"\x08" + bytes(20)), "is corrupt",
    ),
    "other vocabulary": (replace_vocabulary, "source.vocab is missing or corrupt"),
    "other architecture": (replace_model, r"W_1.bias is of shape \(8,\) and .* of shape \(16,\)"),
    "no config": (lambda f: (f / "config.json").unlink(), "it has no config.json"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_exports_are_refused(damage, message, folder):
    damage(folder)
    with pytest.raises(UserError, match=message):
        load_export(folder)


def test_folders_of_this_machine_are_not_exported(transformer_task, tmp_path):
    config = transformer_task.config.copy_and_resolve_references().unlock()
    config.train.init_from, config.data.vocabularies = "/home/me/runs/a", "extend"
    tmp_path.joinpath("out").mkdir()
    write_config(config, tmp_path / "out")
    assert "/home/me" not in (tmp_path / "out" / "config.json").read_text()
    assert load_config(tmp_path / "out").data.vocabularies == "auto"


def test_other_programs_can_read_the_weights(folder, transformer_task):
    import safetensors.numpy

    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    embedding = weights["source_embed.embedding"]
    assert embedding.shape == (len(transformer_task.source), 8)
    assert embedding.dtype == np.float32
