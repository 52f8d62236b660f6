"""Every model of the repository decodes, shows what it read, and is reported in the same way."""

import importlib
import json

import jax
import numpy as np
import pytest

from data.vocabulary import EOS
from evaluation.evaluator import Evaluator
from evaluation.results import Wanted
from evaluation.translation import report
from tasks.translation import Translation
from tests.conftest import tiny_config

CONFIGS = {
    "global": "luong2015",
    "local_m": "luong2015:align=local_m",
    "local_p": "luong2015:align=local_p,score=concat,feed=no",
    "bahdanau": "bahdanau2015",
    "hard": "xu2015:attention=hard",
    "split keys": "mino2017",
    "cho": "cho2014",
    "sutskever": "sutskever2014",
    "transformer": "vaswani2017",
}


def make(name, cache):
    file, _, arguments = CONFIGS[name].partition(":")
    config = importlib.import_module(f"configs.{file}").get_config(f"data=dates,{arguments}")
    reverse = config.data.reverse_source
    config.data = tiny_config(cache).data
    config.data.reverse_source = reverse
    if config.model.name == "transformer":
        config.model.update({"features": 8, "heads": 2, "feed_forward": 8})
    else:
        for stack in (config.model.encoder, config.model.decoder):
            stack.features = stack.embedding = 8
        config.model.encoder.features //= 1 + config.model.encoder.bidirectional
        config.model.decoder.maxout = 4
    config.decode.update({"beam": 2, "nbest": 2, "max_ratio": 0.5, "max_extra": 2})
    return Translation(config)


# Models whose parts are all among those of others, or of tests of one model, are left to make slow.
_ALIKE = tuple(name for name in CONFIGS if name != "transformer")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in _ALIKE)) for name in CONFIGS],
)
def test_it_decodes_looks_and_is_reported(name, cache, mesh, tmp_path):
    task = make(name, cache)
    params, decode = jax.jit(task.init)(jax.random.key(0)), task.config.decode
    looks = name not in ("cho", "sutskever")

    evaluator = Evaluator(task, mesh, decode)
    pairs = task.pairs("test")[:2]
    found = evaluator.translator.in_order([params], [pair.source for pair in pairs], True)
    flat = [(pair, h) for pair, several in zip(pairs, found, strict=True) for h in several]
    assert len(flat) == 4
    sources = [np.array([*task.source.encode(pair.source), EOS]) for pair, _ in flat]
    forced = evaluator.attention_of(params, sources, [h.ids for _, h in flat])
    for (_, hypothesis), source, named in zip(flat, sources, forced, strict=True):
        assert bool(named) == looks == (hypothesis.attention is not None)
        if looks:  # decoding and forcing what was decoded look at the same words
            assert hypothesis.attention.shape == (len(hypothesis.ids), len(source))
            np.testing.assert_allclose(hypothesis.attention, named["attention"], atol=1e-5)

    report(task, params, mesh, Wanted("test", tmp_path, 1, 2, [7], decode))
    kept = json.loads((tmp_path / "scores.json").read_text())
    assert np.isfinite(list(kept["scores"].values())).all()
    assert ("alignment_error" in kept["scores"]) == looks == bool(kept["attention"])
    assert (tmp_path / "attention-0.png").exists() == looks
    assert (tmp_path / "heads-0.png").exists() == (name == "transformer")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "/*DATA*/" not in page
    if name == "transformer":
        heads = {f"layer {layer} head {head}" for layer in (0, 1) for head in (0, 1)}
        for part in ("alignment_error", "attention"):
            assert set(kept[part]) == {"attention", "layer 0", "layer 1", *heads}
        errors = kept["alignment_error"]
        assert errors["attention"] == errors["layer 1"]  # the last layer stands for the model
        assert all(head in page for head in heads)
