"""Tests of the validation and the reports of translation runs."""

import json

import jax
import numpy as np
import pytest

from comparing.runs import read_report_examples
from data.tokenizers import TOKENIZERS, make_tokenizer
from data.vocabulary import EOS, WordVocabulary
from evaluation import pictures, translation
from evaluation.bootstrap import EXAMPLE_SCORES, bootstrap_means, bootstrap_p, text_statistics
from evaluation.evaluator import Evaluator
from evaluation.examples import read_examples
from evaluation.forced_attention import ForcedAttention
from evaluation.predictions import split_batches
from evaluation.results import ReportOptions
from evaluation.scores import text_scores
from evaluation.translation import report
from tasks.translation import Translation
from training.devices import AHEAD, fit_rows, make_mesh


@pytest.mark.parametrize("name", sorted(TOKENIZERS.keys() - {"plain"}))  # "plain" cannot detokenize
def test_a_perfect_translation_is_an_exact_match_with_every_tokenizer(name):
    line = "zwei jun@@ ge männer sind im frei@@ en" if name == "bpe" else "zwei junge Männer sind."
    vocabulary = WordVocabulary([], make_tokenizer(name, "de"), lowercase=False)
    words = vocabulary.tokens(line)
    vocabulary = WordVocabulary(words, make_tokenizer(name, "de"), lowercase=False)
    hypothesis = vocabulary.detokenize([vocabulary.token(i) for i in vocabulary.encode(line)])
    assert "@@" not in hypothesis
    assert text_scores([hypothesis], [[vocabulary.surface(line)]])["exact"] == 1


@pytest.fixture(scope="module")
def evaluator(tiny_task, mesh):
    return Evaluator(tiny_task, mesh, tiny_task.config.decode)


@pytest.fixture(scope="module")
def params(tiny_task):
    return jax.jit(tiny_task.init)(jax.random.key(0))


def test_translations_come_in_the_corpus_order_with_their_attention(evaluator, params, tiny_task):
    translated = evaluator.translate(params, "test", attention=True)
    assert [t.pair for t in translated] == tiny_task.pairs("test")
    for t in translated:
        words = len(tiny_task.source.tokens(t.pair.source))
        assert t.best.attention.shape == (len(t.best.ids), words + 1)  # the source ends with </s>
        np.testing.assert_allclose(t.best.attention.sum(axis=1), 1, rtol=1e-5)
        assert EOS not in t.best.ids[:-1]


def test_losses_are_means_over_all_tokens_of_the_split(evaluator, params, tiny_task):
    values = evaluator.losses(params, "test")
    total = count = 0
    for batch in tiny_task.eval_batches("test"):
        sums = jax.jit(tiny_task.loss)(params, batch)
        total, count = total + float(sums["nll"]), count + float(sums["count"])
    np.testing.assert_allclose(values["loss"], total / count, rtol=1e-5)
    np.testing.assert_allclose(values["perplexity"], np.exp(total / count), rtol=1e-5)


def test_few_batches_wait_for_the_devices(evaluator, params, monkeypatch):
    """Too many waiting batches make several devices of a CPU wait for each other forever."""
    batch, *_ = split_batches(evaluator.task, "test", evaluator.mesh)
    loss, get, dispatched, waiting = evaluator._loss, jax.device_get, [], []
    expected = evaluator.losses(params, "test")

    def counted(*arguments):
        dispatched.append(loss(*arguments))
        return dispatched[-1]

    def fetch(result):
        waiting.append(len(dispatched) - len(waiting))
        return get(result)

    monkeypatch.setattr("evaluation.evaluator.split_batches", lambda *_: [batch] * 40)
    monkeypatch.setattr("evaluation.evaluator.compile_for_split", lambda *_: None)
    monkeypatch.setattr(evaluator, "_loss", counted)
    monkeypatch.setattr(jax, "device_get", fetch)
    assert evaluator.losses(params, "test").keys() == expected.keys()
    assert len(waiting) == 40 and max(waiting) == AHEAD + 1


def test_any_number_of_devices_can_evaluate(evaluator, params, tiny_task):
    mesh = make_mesh(jax.devices()[:3])
    task = Translation(fit_rows(mesh, tiny_task.config))
    others = Evaluator(task, mesh, task.config.decode).losses(params, "test")
    assert others == pytest.approx(evaluator.losses(params, "test"), rel=1e-5)


def options(decode, folder, **changes):
    return ReportOptions("test", folder, 1, 2, checkpoints=[7], decode=decode, **changes)


@pytest.mark.parametrize("greedily", [True, False])
def test_validation_decodes_greedily_or_with_the_beam_but_never_samples(
    tiny_task, mesh, monkeypatch, greedily
):
    used = []
    monkeypatch.setattr(translation, "Evaluator", lambda task, mesh, decode: used.append(decode))
    config = tiny_task.config.copy_and_resolve_references()
    config.decode.update({"beam": 3, "nbest": 2, "temperature": 0.5})
    config.train.eval_greedily = greedily
    monkeypatch.setattr(tiny_task, "config", config)
    translation.make_evaluate(tiny_task, mesh)
    (decode,) = used
    assert (decode.beam, decode.nbest, decode.temperature) == (1 if greedily else 3, 1, 0.0)


def test_a_source_with_several_references_is_one_sentence(
    params, tiny_task, mesh, tmp_path, monkeypatch
):
    config = tiny_task.config.copy_and_resolve_references()
    config.data.several_references = True
    first, second, *others = tiny_task.pairs("test")
    pairs = [first, second._replace(source=first.source), *others]
    monkeypatch.setattr(tiny_task, "config", config)
    monkeypatch.setattr(tiny_task, "pairs", lambda split: pairs)
    (tmp_path / "hypotheses.txt").write_text("Mai\n" * 11)
    report(tiny_task, params, mesh, options(config.decode, tmp_path, against=tmp_path))
    kept = json.loads((tmp_path / "scores.json").read_text())
    assert kept["sentences"] == 11 and kept["against"]


def test_heads_are_drawn_for_the_chosen_sentences(tiny_task, tmp_path, monkeypatch):
    pairs, drawn = [pair._replace(alignment="") for pair in tiny_task.pairs("test")], []
    monkeypatch.setattr(pictures, "heat_maps", lambda *given: drawn.append(given))
    attention = ForcedAttention(tiny_task, pairs, [pairs[0], pairs[2], pairs[0]])
    for i, pair in enumerate(pairs):
        tokens = (
            len(tiny_task.target.tokens(pair.target)),
            len(tiny_task.source.tokens(pair.source)),
        )
        weights = np.full((tokens[0] + 1, tokens[1] + 1), float(i))
        attention.add(i, {"attention": weights, "layer 0 head 0": weights})
    attention.draw_heads(tmp_path)
    assert [path.name for *_, path in drawn] == ["heads-0.png", "heads-1.png", "heads-2.png"]
    assert [given[0]["layer 0 head 0"][0, 0] for given in drawn] == [0, 2, 0]


def test_a_report_contains_all_scores_and_comparisons(params, tiny_task, mesh, tmp_path, capsys):
    decode = tiny_task.config.decode.copy_and_resolve_references()
    other = tmp_path / "other"
    other.mkdir()
    (other / "hypotheses.txt").write_text("Mai\n" * 12)
    report(tiny_task, params, mesh, options(decode, tmp_path, beams=[1, 2], against=other))
    kept = json.loads((tmp_path / "scores.json").read_text())
    assert kept["checkpoints"] == [7] and kept["sentences"] == 12
    names = {"perplexity", "bleu", "tokenized_bleu", "chrf", "ter", "exact", "token_error"}
    assert names <= kept["scores"].keys()
    assert kept["decode"]["beam"] == 1
    against = kept["against"]
    assert against["run"] == str(other) and against["scores"].keys() == {"bleu", "chrf", "exact"}
    assert {"score", "interval", "p"} <= against["scores"]["bleu"]["this"].keys()
    for name, runs in against["scores"].items():
        assert runs["this"]["score"] == pytest.approx(kept["scores"][name], rel=1e-4)
    # compare.py computes the same p-values from examples.jsonl.
    scored = read_examples(tmp_path, "score again")
    mai = text_statistics(["Mai"] * 12, [x.references for x in scored], tiny_task.lowercase)
    for name, runs in against["scores"].items():
        ours = np.array([x.statistics[name] for x in scored], float)
        means = [bootstrap_means([rows], EXAMPLE_SCORES[name].score) for rows in (ours, mai[name])]
        assert runs["this"]["p"] == pytest.approx(bootstrap_p(*means), rel=1e-4), name
    assert all(row["other"] == "Mai" != row["this"] for row in against["sentences"])
    assert [part["label"] for part in kept["curves"]["beam width"]] == ["1", "2"]
    assert sum(part["sentences"] for part in kept["curves"]["source length"]) == 12
    hypotheses = (tmp_path / "hypotheses.txt").read_text().splitlines()
    examples = read_examples(tmp_path, "score again")
    assert len(hypotheses) == 12 and [x.prediction for x in examples] == hypotheses
    shown = read_report_examples(tmp_path / "report.html")[1]  # what compare.py reads
    assert [x.text for x in shown] == [x.text for x in examples[: len(shown)]]
    assert all(x.weights is not None for x in shown)
    for name in ("bleu", "tokenized_bleu", "chrf", "exact", "token_error"):
        sums = np.sum([x.statistics[name] for x in examples], axis=0)
        assert EXAMPLE_SCORES[name].score(sums) == pytest.approx(kept["scores"][name], rel=1e-4)
    assert (tmp_path / "attention-0.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert str(other) in page and "Scores by beam width" in page
    printed = capsys.readouterr().out
    assert kept["signatures"]["bleu"] in printed and "p = " in printed and "ours:" not in printed
