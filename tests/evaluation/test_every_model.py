"""Every translation model can be trained, decoded and evaluated with the same functions."""

import json

import jax
import numpy as np
import pytest

from configs.base import choices
from configs.load import load_config_file
from evaluation import translation
from evaluation.alignment import LinkSettings
from evaluation.evaluator import Evaluator
from evaluation.results import ReportOptions
from tasks.translation import Translation
from tests.conftest import tiny_config
from training.devices import make_mesh
from training.loop import train

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
WITHOUT_ATTENTION = ("cho", "sutskever")
# A run of each model takes 10 to 30 s on two cores, so only one model with attention and one
# without are not slow.
SLOW = tuple(name for name in CONFIGS if name != "hard")


def make(name, cache):
    file, _, arguments = CONFIGS[name].partition(":")
    config = load_config_file(f"configs/{file}.py", f"data=dates,{arguments}")
    reverse = config.data.reverse_source
    config.data = tiny_config(cache).data
    config.data.update({"reverse_source": reverse, "buckets": 1})
    if config.model.name == "transformer":
        config.model.update({"features": 8, "heads": 2, "feed_forward": 8})
    else:
        for stack in (config.model.encoder, config.model.decoder):
            stack.features = stack.embedding = 8
        config.model.encoder.features //= 1 + config.model.encoder.bidirectional
        config.model.decoder.maxout = 4
    config.train.update({"steps": 2, "eval_every": 2, "log_every": 2, "samples": 1})
    config.decode.update({"beam": 2, "nbest": 2, "max_ratio": 0.5, "max_extra": 2})
    return Translation(config)


def record_results(monkeypatch, name):
    """Patch a method of Evaluator; return a list to which every call appends its result."""
    results, method = [], getattr(Evaluator, name)

    def recorded(*arguments, **options):
        results.append(method(*arguments, **options))
        return results[-1]

    monkeypatch.setattr(Evaluator, name, recorded)
    return results


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CONFIGS],
)
def test_a_run_from_training_to_report(name, cache, tmp_path, monkeypatch):
    task, alone = make(name, cache), make_mesh(jax.devices()[:1])
    evaluate = translation.make_evaluate(task, alone)
    state = train(task, evaluate, task.config, tmp_path, alone)
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in logged if line["kind"] in ("train", "valid")]
    assert len(losses) == 2 and np.isfinite(losses).all()
    (valid,) = (line for line in logged if line["kind"] == "valid")
    assert {*choices(task.config.model.name, "train.eval_metric")} <= valid.keys()

    decoded, forced = (
        record_results(monkeypatch, method) for method in ("translate", "attention_of")
    )
    decode = task.config.decode
    options = ReportOptions(
        "test", tmp_path, pictures=1, page=2, checkpoints=[2], decode=decode, ter=False
    )
    if name == "transformer":
        options = options._replace(
            link_settings=LinkSettings("layer 0 head 1", 0.1), write_links=True
        )
    translation.report(task, state.params, alone, options)
    attends = name not in ("cho", "sutskever")
    hypotheses = [h for translated in decoded[0][:2] for h in translated.hypotheses]
    check_attention(hypotheses, forced[0], attends)
    check_report(tmp_path, name, attends)


def check_attention(hypotheses, forced, attends):
    """Check that decoding gives the attention weights of teacher forcing with the same tokens."""
    assert len(hypotheses) == len(forced) == 4
    for hypothesis, named in zip(hypotheses, forced, strict=True):
        assert bool(named) == attends == (hypothesis.attention is not None)
        if attends:
            assert len(hypothesis.attention) == len(hypothesis.ids)
            np.testing.assert_allclose(hypothesis.attention, named["attention"], atol=1e-5)


def check_report(folder, name, attends):
    """Check that the report has scores and, for models with attention, statistics and heat maps.

    The report of a Transformer has alignment errors and statistics for every layer and head.
    """
    kept = json.loads((folder / "scores.json").read_text())
    assert np.isfinite(list(kept["scores"].values())).all()
    assert ("alignment_error" in kept["scores"]) == attends == bool(kept["attention"])
    assert (folder / "attention-0.png").exists() == attends
    assert (folder / "heads-0.png").exists() == (name == "transformer")
    assert (folder / "references.links").exists() == attends
    page = (folder / "report.html").read_text("utf-8")
    assert "/*DATA*/" not in page
    if name == "transformer":
        heads = {f"layer {layer} head {head}" for layer in (0, 1) for head in (0, 1)}
        for part in ("alignment_error", "attention"):
            assert set(kept[part]) == {"attention", "layer 0", "layer 1", *heads}
        errors = kept["alignment_error"]
        # "attention" is the mean over the heads of the last layer, which is layer 1 here.
        assert errors["attention"] == errors["layer 1"]
        assert all(head in page for head in heads)
        assert kept["scores"]["alignment_error"] == errors["layer 0 head 1"] != errors["attention"]
        for file in ("hypotheses.links", "references.links"):
            links = (folder / file).read_text().splitlines()
            assert len(links) == kept["sentences"] and any(links)
