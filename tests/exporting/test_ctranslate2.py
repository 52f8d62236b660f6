"""CTranslate2 gives the translations of this repository."""

import json

import ctranslate2
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import luong2015, vaswani2017
from data.vocabulary import BOS, EOS, PAD, UNK
from decoding.forced import log_probability
from decoding.translator import Translator
from errors import UserError
from exporting.ctranslate2_files import CTranslate2Format
from exporting.programs.ctranslate2_translate import options, translations
from exporting.text import read_export, read_vocabulary
from tasks.translation import Translation
from tests.conftest import tiny_config
from tests.exporting.common import random_run

SHARED = {"data.shared_vocab": True, "model.share_embeddings": True}
# Changes to a tiny Transformer. Together they cover every option of the model.
VARIANTS = {
    "post": {},
    "pre": {"model.norm": "pre"},
    "learned": {"model.positions": "learned", "model.max_positions": 51},
    "narrow keys": {"model.key_features": 2, "model.tie_output": False},
    "shared": {**SHARED, "model.layers": 1},
    "shared, untied": {**SHARED, "model.tie_output": False, "model.norm": "pre"},
    "scan": {"model.scan": True, "model.heads": 4},
    "pieces": {
        **SHARED, "data.source_vocab.kind": "unigram", "data.source_vocab.size": 90,
        "data.source_vocab.lowercase": True,
    },
    "head": {"model.attention_head": 1, "model.attention_layer": 0},
}  # fmt: skip


def make_variant(name, cache):
    config = vaswani2017.get_config("data=dates").unlock()
    config.data = tiny_config(cache).data
    config.model.update({"features": 8, "heads": 2, "feed_forward": 8})
    config.update_from_flattened_dict(VARIANTS[name])
    return Translation(config.lock())


def never_generate_specials(run):
    """Change the parameters so that <pad> and <s> have no probability.

    Feature 0 of the decoder's output becomes the constant 8, and only <pad> and <s> have an entry
    in its row of the output matrix. CTranslate2 normalizes probabilities after it has excluded
    these tokens, so otherwise its scores would differ (docs/export.md).
    """
    model, decoder = run.task.config.model, run.params["decoder"]
    if model.norm == "pre":
        norm = decoder["norm"]
    elif model.scan:
        norm = {name: x[-1] for name, x in decoder["stacked"]["residuals_2"]["norm"].items()}
    else:
        norm = decoder[f"unrolled_{model.layers - 1}"]["residuals_2"]["norm"]
    norm["scale"][0], norm["bias"][0] = 0, 8
    if model.tie_output:
        embed = "source_embed" if model.share_embeddings else "target_embed"
        matrix = run.params[embed]["embedding"]
    else:
        matrix = run.params["output"]["kernel"].T
    matrix[:, 0] = 0
    matrix[[PAD, BOS], 0] = -4
    matrix[UNK, 0] = 0.2  # a likely token
    return run


def exported(run, folder):
    folder.mkdir()
    CTranslate2Format().write(run, folder)
    options = {"device": "cpu", "compute_type": "float32", "intra_threads": 1}
    return ctranslate2.Translator(str(folder), **options)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_gives_the_same_probabilities(name, cache, tmp_path):
    task = make_variant(name, cache)
    run = random_run(task)
    translator = exported(run, tmp_path / "out")
    pairs = [(pair.source, pair.target) for pair in task.pairs("test")][:6]
    sides = [read_vocabulary(tmp_path / "out", side) for side in ("source", "target")]
    tokens = [[side.tokens(text) for text in texts]
              for side, texts in zip(sides, zip(*pairs, strict=True), strict=True)]  # fmt: skip
    ids = []
    for side, vocabulary, lines in zip(sides, (task.source, task.target), tokens, strict=True):
        rows = [[*side.ids(line), EOS] for line in lines]
        texts = [pair[len(ids)] for pair in pairs]
        assert rows == [[*vocabulary.encode(text), EOS] for text in texts]
        width = max(map(len, rows))
        ids.append(jnp.asarray([row + [PAD] * (width - len(row)) for row in rows]))
    expected = jax.jit(log_probability, static_argnums=0)(task.model, run.params, *ids)
    for row, scored in zip(expected, translator.score_batch(*tokens), strict=True):
        found = scored.log_probs
        np.testing.assert_allclose(found, row[: len(found)], atol=2e-5)


SETTINGS = {
    "greedy": {},
    "beam": {"beam": 5},
    "average": {"beam": 5, "length_penalty": "average", "alpha": 1.0, "nbest": 2},
    "gnmt": {"beam": 4, "length_penalty": "gnmt", "nbest": 3},
    "n-best": {"beam": 4, "nbest": 4},
    "coverage": {"beam": 3, "length_penalty": "average", "coverage": 0.3},
    "unknown": {"replace_unknown": True},
}
# Compiling beam search takes seconds, so make test runs one test of each kind.
FAST_SETTINGS = ("greedy", "average")


@pytest.fixture(scope="module")
def both(cache, tmp_path_factory):
    """A run and its export."""
    run = never_generate_specials(random_run(make_variant("head", cache), seed=1))
    folder = tmp_path_factory.mktemp("ctranslate2") / "out"
    return run, exported(run, folder), folder


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in FAST_SETTINGS else pytest.mark.slow) for n in SETTINGS],
)
def test_every_search_gives_the_same_translations(name, both, mesh):
    run, translator, folder = both
    settings = run.task.config.decode.copy_and_resolve_references().unlock()
    settings.update({"max_ratio": 1.3, "max_extra": 2, **SETTINGS[name]})
    texts = ["", "unheard of", *(pair.source for pair in run.task.pairs("test"))]
    expected = Translator([run.task], mesh, settings).in_order([run.params], texts)
    source, target = (read_vocabulary(folder, side) for side in ("source", "target"))
    sources = [source.tokens(text) for text in texts]
    found = dict(translations(translator, dict(settings.items()), sources))
    for i in range(len(texts)):
        assert [target.text(tokens) for _, tokens in found[i]] == [h.text for h in expected[i]]
        scores = [h.score for h in expected[i]]
        np.testing.assert_allclose([score for score, _ in found[i]], scores, atol=1e-4)
    assert len({h.text for hypotheses in expected for h in hypotheses}) > 5
    if name == "unknown":
        assert any(UNK in h.ids for [h] in expected)


def test_the_description_has_the_decode_settings(both):
    run, _, folder = both
    decode = read_export(folder)["decode"]
    assert decode == json.loads(run.task.config.decode.to_json())
    text = (folder / "README.md").read_text()
    assert all(name in text for name in options(decode, 10))


def test_other_models_are_refused():
    with pytest.raises(
        UserError, match="needs a Transformer, but the model of this run is seq2seq"
    ):
        CTranslate2Format().check(luong2015.get_config("data=dates"))


def test_a_search_without_equivalent_is_refused():
    config = vaswani2017.get_config("data=dates").unlock()
    config.decode.update({"coverage": 0.1, "length_penalty": "gnmt"})
    with pytest.raises(UserError, match=r"decode.coverage with decode.length_penalty=gnmt"):
        CTranslate2Format().check(config)
