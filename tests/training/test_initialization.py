"""Starting a run from the parameters of another run."""

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from configs import vaswani2017
from data.translation import TranslationCorpus
from errors import UserError
from experiment import train_run
from tasks.registry import make_task
from tasks.translation import Translation
from tests.conftest import tiny_config
from tests.saved import committed, saved_arrays
from tests.small import TASKS, small_config
from training.devices import make_mesh
from training.initialization import OtherRun, find_run, initial_vocabularies, match_run
from training.restore import RestoredRun
from training.vocabularies import keep_initial
from training.workdir import load_config, open_workdir


def flat(params):
    return traverse_util.flatten_dict(jax.device_get(params), sep="/")


def filled(task, value=None):
    """Return parameters of a task: random ones, or all elements equal to `value`."""
    rng = np.random.default_rng(7)

    def fill(x):
        return jnp.asarray(rng.normal(size=x.shape) if value is None else np.full(x.shape, value))

    return jax.tree.map(fill, jax.eval_shape(task.init, jax.random.key(0)))


def merged(task, other_task, fresh=None, other=None):
    """Initialize `fresh` from `other`; by default, fresh elements are 0 and others random."""
    fresh = filled(task, 0.0) if fresh is None else fresh
    other = filled(other_task) if other is None else other
    run = RestoredRun(other_task, other, [4])
    initial = match_run(task, task.config, OtherRun(Path("a"), "best", other_task.config), run)
    return flat(initial.merge(fresh, other)), flat(other), initial


# Parameters with one row or column per token


@pytest.fixture(scope="module")
def text_tasks(tmp_path_factory):
    """Return two translation tasks whose vocabularies overlap."""
    folder = tmp_path_factory.mktemp("overlap")
    tasks = []
    for name, words in (("here", ("a b c d", "x y z")), ("there", ("d c q a", "z w x"))):
        config = tiny_config(folder)
        files = folder / name
        files.mkdir()
        for split in ("train", "valid", "test"):
            for language, line in zip(("en", "de"), words, strict=True):
                (files / f"{split}.{language}").write_text(f"{line}\n")
        settings = {"corpus": "text", "dir": str(files), "batch_size": 8}
        config.data.update(settings | {"source": "en", "target": "de"})
        tasks.append(Translation(config))
    return tasks


def test_rows_of_shared_tokens_are_copied(text_tasks):
    task, other_task = text_tasks
    got, other, initial = merged(task, other_task)
    for name, axis, side in (
        ("encoder/embed/embedding", 0, "source"),
        ("decoder/embed/embedding", 0, "target"),
        ("output/kernel", 1, "target"),
    ):
        tokens, other_tokens = (t.token_names(side) for t in text_tasks)
        assert tokens != other_tokens
        for i, token in enumerate(tokens):
            row = np.take(got[name], i, axis)
            if token in other_tokens:
                expected = np.take(other[name], other_tokens.index(token), axis)
                np.testing.assert_array_equal(row, expected)
            else:
                assert not row.any()
    whole = "decoder/stack/forward0/W"
    np.testing.assert_array_equal(got[whole], other[whole])
    assert "7 of 8 tokens, 1 of the other run left out" in initial.report
    assert "6 of 7 tokens, 1 of the other run left out" in initial.report


@pytest.mark.parametrize("name", TASKS)
def test_parameters_that_depend_on_a_vocabulary_are_declared(name, tmp_path):
    """The shapes that change if a vocabulary grows are those with a `token_axis`."""
    config = small_config(name, tmp_path / "corpus")
    task = make_task(config)
    larger = tmp_path / "vocabulary"
    larger.mkdir()
    for path in task.prepared.folder.glob("*.vocab"):
        (larger / path.name).write_text(path.read_text() + "zzz\n")
    grown = make_task(config, larger)
    shapes, grown_shapes = (
        traverse_util.flatten_dict(jax.eval_shape(t.init, jax.random.key(0)), sep="/")
        for t in (task, grown)
    )
    assert shapes.keys() == grown_shapes.keys()
    for parameter, x in shapes.items():
        expected = list(x.shape)
        if found := task.token_axis(parameter):
            axis, vocabulary = found
            assert x.shape[axis] == len(task.token_names(vocabulary))
            expected[axis] += 1
        assert grown_shapes[parameter].shape == tuple(expected), parameter
    matches = merged(grown, task)[2].matches
    assert sum(m.loaded for m in matches) == sum(x.size for x in shapes.values())


def test_anonymous_words_of_a_cloze_run_keep_their_rows(tmp_path):
    config = small_config("reader", tmp_path)
    task = make_task(config)
    words, names = len(task.words), task.token_names("words")
    assert names[words:] == [f"anonymous {i}" for i in range(config.data.anonymous_ids)]


# Stacked layers and different depths


def transformer(cache, **model):
    config = vaswani2017.get_config("data=dates")
    config.data = tiny_config(cache).data
    config.model.update({"features": 8, "heads": 2, "feed_forward": 8, **model})
    return Translation(config)


@pytest.mark.parametrize(("scan", "other_scan"), [(False, True), (True, False), (True, True)])
def test_layers_are_matched_by_number(cache, scan, other_scan):
    task = transformer(cache, layers=3, scan=scan)
    other_task = transformer(cache, layers=2, scan=other_scan)
    fresh = filled(task, 0.5)
    got, other, initial = merged(task, other_task, fresh=fresh)

    def layer(params, stacked, i):
        if stacked:
            return params["encoder/stacked/attention/W_Q/kernel"][i]
        return params[f"encoder/unrolled_{i}/attention/W_Q/kernel"]

    for i in range(2):
        expected = layer(other, other_scan, i)
        assert expected.any()
        np.testing.assert_array_equal(layer(got, scan, i), expected)
    assert (layer(got, scan, 2) == 0.5).all()
    assert jax.tree.structure(initial.merge(fresh, filled(other_task))) == jax.tree.structure(fresh)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in initial.report.split("\n")]
    kernel = "attention/W_Q/kernel"
    assert [f"encoder/unrolled_0–1/{kernel}", "8 × 8", "128", "128", ""] in rows
    assert [f"encoder/unrolled_2/{kernel}", "8 × 8", "64", "0", "not in the other run"] in rows


def test_other_shapes_keep_their_initialization_and_missing_ones_are_listed(cache):
    task = transformer(cache, layers=1, feed_forward=16)
    got, _, initial = merged(task, transformer(cache, layers=2), fresh=filled(task, 0.5))
    assert (got["encoder/unrolled_0/feed_forward/W_1/kernel"] == 0.5).all()
    assert "8 × 8 in the other run" in initial.report
    left_out = initial.report.partition("| left out ")[2]
    assert "encoder/unrolled_1/attention/W_Q/kernel" in left_out
    assert "unrolled_0" not in left_out


def test_runs_without_a_common_parameter_are_refused(cache, tiny_task):
    config = tiny_config(cache)
    for stack in (config.model.encoder, config.model.decoder):
        stack.features = stack.embedding = 16
    config.model.encoder.features = 8
    with pytest.raises(UserError, match=r"no parameter of a \(seq2seq\) has the name"):
        merged(Translation(config), tiny_task)


# Finding the other run, and its vocabularies


def start(folder, config, kinds=()):
    """Write the files of a run that was started with `config`: its config and vocabularies."""
    for name, value in kinds:
        config.data[f"{name}_vocab"].update(value)
    corpus = TranslationCorpus(config.data).prepare()
    with open_workdir(folder, config, [], "data-1"):
        (folder / "vocabulary").mkdir()
        for path in corpus.folder.glob("*.vocab"):
            shutil.copy(path, folder / "vocabulary")
    return folder


def test_the_other_run_must_exist_and_have_the_same_task(cache, tmp_path):
    config = tiny_config(cache)
    config.train.init_from = str(tmp_path / "none")
    with pytest.raises(UserError, match=r"does not exist: set --init_from to a folder"):
        find_run(config)
    folder = start(tmp_path / "a@b", config)
    config.train.init_from = str(folder)
    assert find_run(config)[:2] == (folder, "best")
    config.train.init_from = f"{folder}@last"
    assert find_run(config)[:2] == (folder, "last")
    config.train.init_from = f"{folder}@newest"
    with pytest.raises(UserError, match=r"unknown checkpoint 'newest': write FOLDER@CHECKPOINT"):
        find_run(config)
    other = small_config("series", tmp_path / "series")
    other.train.init_from = str(folder)
    with pytest.raises(UserError, match="is a translation run, but this config is for labelling"):
        find_run(other)


SUBWORDS = {"kind": "bpe", "size": 60}


def test_sentencepiece_vocabularies_are_kept_and_words_are_learned(cache, tmp_path, caplog):
    folder = start(tmp_path / "a", tiny_config(cache), [("source", SUBWORDS)])
    config = tiny_config(cache)
    config.data.source_vocab.update(SUBWORDS | {"size": 99})
    config.data.seed = 1
    config.train.init_from = str(folder)
    initial = initial_vocabularies(config, tmp_path / "new")
    assert initial == {"source": folder / "vocabulary" / "source.vocab"}
    prepared = TranslationCorpus(config.data, initial).prepare()
    kept = (prepared.folder / "source.vocab").read_bytes()
    assert kept == initial["source"].read_bytes()
    assert TranslationCorpus(config.data, initial).prepare().folder == prepared.folder
    assert TranslationCorpus(config.data).cache_key() != json.loads(
        (prepared.folder / "manifest.json").read_text()
    )["cache_key"]  # fmt: skip
    # A SentencePiece model of another language is learned again, with a warning.
    config.data.source = "fr"
    assert initial_vocabularies(config, None) == {}
    assert "languages: ['en'] there, ['fr'] here" in caplog.text
    config.data.vocabularies = "learn"
    assert initial_vocabularies(config, None) == {}


def test_extended_vocabularies_keep_the_ids_of_the_other_run(cache, tmp_path):
    folder = start(tmp_path / "a", tiny_config(cache))
    config = tiny_config(cache)
    config.data.seed = 5
    config.train.init_from, config.data.vocabularies = str(folder), "extend"
    initial = initial_vocabularies(config, None)
    extended = TranslationCorpus(config.data, initial).prepare().vocabularies
    learned = TranslationCorpus(config.data).prepare().vocabularies
    for side in ("source", "target"):
        before = (folder / "vocabulary" / f"{side}.vocab").read_text().split("\n")[:-1]
        tokens = [extended[side].token(i) for i in range(len(extended[side]))]
        new = {learned[side].token(i) for i in range(len(learned[side]))} - {*before}
        assert new and tokens[: len(before)] == before and {*tokens[len(before) :]} == new


@pytest.mark.parametrize(
    ("mode", "change", "problem"),
    [
        ("keep", {"source_vocab.kind": "bpe"}, "kind: words there, bpe here"),
        ("keep", {"target_vocab.lowercase": True}, "lowercase: False there, True here"),
        ("extend", {"source_vocab.tokenizer": "split"}, "tokenizer: unicode there, split here"),
        ("keep", {"shared_vocab": True}, "number of languages: 1 there, 2 here"),
    ],
)
def test_vocabularies_with_other_settings_are_not_kept(cache, tmp_path, mode, change, problem):
    folder = start(tmp_path / "a", tiny_config(cache))
    config = tiny_config(cache)
    config.data.update_from_flattened_dict(change)
    config.train.init_from, config.data.vocabularies = str(folder), mode
    with pytest.raises(UserError, match=problem) as caught:
        initial_vocabularies(config, None)
    assert "set config.data.vocabularies=learn" in str(caught.value)


def test_a_damaged_vocabulary_of_the_other_run_is_named(cache, tmp_path):
    folder = start(tmp_path / "a", tiny_config(cache))
    (folder / "vocabulary" / "sha256.json").write_text('{"source.vocab": "0"}')
    config = tiny_config(cache)
    config.train.init_from = str(folder)
    with pytest.raises(UserError, match=r"source\.vocab is missing or corrupt"):
        find_run(config)


def test_a_damaged_copy_of_a_vocabulary_is_replaced_or_named(cache, tmp_path, caplog):
    other = start(tmp_path / "a", tiny_config(cache))
    config = tiny_config(cache)
    config.train.init_from, config.data.vocabularies = str(other), "keep"
    workdir = start(tmp_path / "b", config)
    keep_initial(initial_vocabularies(config, workdir=None), workdir / "vocabulary")
    (workdir / "vocabulary" / "sha256.json").write_text("{}")
    (workdir / "vocabulary" / "initial" / "source.vocab").write_text("")
    found = initial_vocabularies(config, workdir)
    assert found["source"] == other / "vocabulary" / "source.vocab"
    assert "source.vocab is missing or corrupt" in caplog.text
    other.rename(tmp_path / "moved")
    with pytest.raises(UserError, match=r"source\.vocab is missing .*/a, cannot be used now"):
        initial_vocabularies(config, workdir)


# Whole runs


@pytest.fixture(scope="module")
def two_devices():
    return make_mesh(jax.devices()[:2], state_shards=2)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory, two_devices):
    """The folder of a run, and a config for a run that starts from it with other labels."""
    folder = tmp_path_factory.mktemp("first")
    config = small_config("columns", folder / "corpus")
    config.model.network = "mlp"  # compiles faster than a recurrent network
    config.train.update({"ema": 0.5, "steps": 2, "eval_every": 2})
    train_run(config, folder / "run", two_devices)
    other = small_config("columns", folder / "other")
    for split in ("train", "valid", "test"):
        path = folder / "other" / f"{split}.txt"
        path.write_text(path.read_text().replace("B-VP", "B-PP").replace("dull", "bright"))
    other.train.update({"init_from": str(folder / "run"), "steps": 4, "eval_every": 2})
    other.optimizer.schedule, other.model.network = "constant", "mlp"
    return folder / "run", other


@pytest.fixture(scope="module")
def continued(first_run, tmp_path_factory, two_devices):
    """The folder of a run that was started from `first_run`."""
    workdir = tmp_path_factory.mktemp("continued") / "run"
    train_run(first_run[1], workdir, two_devices)
    return workdir


@pytest.mark.slow
def test_resuming_does_not_need_the_other_run(first_run, continued, tmp_path, two_devices):
    """The initial parameters are the checkpoint of step 0, from which a killed run resumes."""
    config = first_run[1].copy_and_resolve_references()
    config.train.steps = 2
    train_run(config, tmp_path / "run", two_devices)
    arrays = saved_arrays(tmp_path / "run", 0)
    averaged = saved_arrays(first_run[0], 2)
    kernel = "['network']['layer0']['kernel']"
    np.testing.assert_array_equal(arrays[f"['params']{kernel}"], averaged[f"['ema']{kernel}"])
    report = (tmp_path / "run" / "initialized.md").read_text()
    assert "labels, 2 of the other run left out" in report
    assert f"Initial parameters from {first_run[0]}, checkpoint best (step 2)" in report
    # The run is killed before its first evaluation, and the other run is moved.
    after = saved_arrays(tmp_path / "run", 2)
    shutil.rmtree(committed(tmp_path / "run")[2])
    moved = first_run[0].rename(tmp_path / "moved")
    try:
        train_run(config, tmp_path / "run", two_devices)
        for name, x in saved_arrays(tmp_path / "run", 2).items():
            np.testing.assert_array_equal(x, after[name])
        # More training steps continue the run exactly as if it had been longer from the start.
        train_run(first_run[1], tmp_path / "run", two_devices)
    finally:
        moved.rename(first_run[0])
    longer = saved_arrays(tmp_path / "run", 4)
    for name, x in saved_arrays(continued, 4).items():
        np.testing.assert_array_equal(x, longer[name])
    assert load_config(tmp_path / "run", signed=True).train.steps == 4


def test_another_run_to_start_from_is_another_config(first_run, continued, two_devices):
    config = first_run[1].copy_and_resolve_references()
    config.train.init_from += "@last"
    with pytest.raises(UserError, match=r"\(train\.init_from: '.*/run' there, '.*@last'"):
        train_run(config, continued, two_devices)


def test_a_run_that_does_not_fit_leaves_no_workdir(first_run, tmp_path, two_devices):
    config = first_run[1].copy_and_resolve_references()
    config.train.init_from += "@17"
    with pytest.raises(UserError, match=r"has no checkpoint '17': use best, last, average or one"):
        train_run(config, tmp_path / "run", two_devices)
    assert not (tmp_path / "run").exists()


def test_kept_labels_refuse_a_new_label(first_run, tmp_path, two_devices):
    config = first_run[1].copy_and_resolve_references()
    config.data.vocabularies = "keep"
    with pytest.raises(
        UserError, match=r"label 'B-PP' .* instead of data\.vocabularies=keep, set extend"
    ):
        train_run(config, tmp_path / "run", two_devices)
