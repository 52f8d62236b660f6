import json

import jax
import numpy as np
import pytest
import sacrebleu

from data.tokenizers import TOKENIZERS, make_tokenizer
from data.vocabulary import EOS, WordVocabulary
from evaluation.scores import signatures, text_scores, tokenised_bleu
from evaluation.translation import Evaluator, report


def test_scores_are_sacrebleus_and_exact_match_counts():
    hypotheses = ["the cat sat on the mat", "A dog", "one two three four five"]
    references = ["the cat sat on a mat", "a dog", "one two three four five"]
    scores = text_scores(hypotheses, references)
    assert scores["bleu"] == sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert scores["exact"] == 1 / 3
    lower = text_scores(hypotheses, references, lowercase=True)
    assert lower["exact"] == 2 / 3 and lower["bleu"] > scores["bleu"]
    assert "case:mixed" in signatures()["bleu"] and "case:lc" in signatures(True)["bleu"]


def test_tokenised_bleu_takes_words_as_they_come_and_no_case():
    hypothesis, reference = "Ein Hund , der läuft !", "ein Hund , der rennt !"
    words = hypothesis.split(), reference.split()
    # 5, 3, 2 and 1 n-grams of 6, 5, 4 and 3 are in the reference; lengths are equal
    expected = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    np.testing.assert_allclose(tokenised_bleu([words[0]], [words[1]]), expected)
    assert "case:lc" in signatures()["tokenised_bleu"]
    assert "tok:none" in signatures()["tokenised_bleu"]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_perfect_translation_scores_everything_with_every_tokenizer(name):
    line = "zwei jun@@ ge männer sind im frei@@ en" if name == "bpe" else "zwei junge Männer sind."
    vocabulary = WordVocabulary([], make_tokenizer(name, "de"), lowercase=False)
    words = vocabulary.tokens(line)
    vocabulary = WordVocabulary(words, make_tokenizer(name, "de"), lowercase=False)
    hypothesis = vocabulary.decode(vocabulary.encode(line))
    assert "@@" not in hypothesis
    assert text_scores([hypothesis], [vocabulary.surface(line)])["exact"] == 1


@pytest.fixture(scope="module")
def evaluator(tiny_task, mesh):
    return Evaluator(tiny_task, mesh)


@pytest.fixture(scope="module")
def params(tiny_task):
    return jax.jit(tiny_task.init)(jax.random.key(0))


def test_translations_come_in_the_corpus_order_with_their_attention(evaluator, params, tiny_task):
    translated = evaluator.translate(params, "test", attention=True)
    assert [t.pair for t in translated] == tiny_task.prepared.split("test").texts()
    for t in translated:
        words = len(tiny_task.source.tokens(t.pair.source))
        assert t.attention.shape == (len(t.tokens), words + 1)  # the source ends in </s>
        np.testing.assert_allclose(t.attention.sum(axis=1), 1, rtol=1e-5)
        assert EOS not in t.tokens[:-1]


def test_attention_of_a_translation_is_that_of_forcing_it(evaluator, params, tiny_task):
    """Decoding and teacher forcing of what was decoded look at the same words."""
    translated = evaluator.translate(params, "test", attention=True)[:3]
    for t in translated:
        source = np.array([[*tiny_task.source.encode(t.pair.source), EOS]])
        memory = tiny_task.encode(params, source)
        _, attention = tiny_task.decode(params, memory, t.tokens[None], attention=True)
        np.testing.assert_allclose(t.attention, attention[0], atol=1e-5)


def test_attention_under_beam_search_is_that_of_forcing_its_words(params, tiny_task, mesh):
    wide = Evaluator(tiny_task, mesh, beam=3).translate(params, "test", attention=True)
    for t in wide[:2]:
        source = np.array([[*tiny_task.source.encode(t.pair.source), EOS]])
        memory = tiny_task.encode(params, source)
        _, attention = tiny_task.decode(params, memory, t.tokens[None], attention=True)
        np.testing.assert_allclose(t.attention, attention[0], atol=1e-5)


def test_losses_are_means_over_all_tokens_of_the_split(evaluator, params, tiny_task):
    values = evaluator.losses(params, "test")
    total = count = 0
    for batch in tiny_task.eval_batches("test"):
        sums = jax.jit(tiny_task.loss)(params, batch)
        total, count = total + float(sums["nll"]), count + float(sums["count"])
    np.testing.assert_allclose(values["loss"], total / count, rtol=1e-5)
    np.testing.assert_allclose(values["perplexity"], np.exp(total / count), rtol=1e-5)


def test_every_layer_and_head_is_drawn_and_scored(transformer_task, mesh, tmp_path, capsys):
    params = jax.jit(transformer_task.init)(jax.random.key(0))
    report(transformer_task, params, mesh, "test", [7], 1, tmp_path, pictures=1)
    errors = json.loads((tmp_path / "scores.json").read_text())["alignment_error_by_head"]
    heads = [f"layer {layer} head {head}" for layer in (0, 1) for head in (0, 1)]
    assert set(errors) == {"layer 0", "layer 1", *heads}
    assert (tmp_path / "heads-0.png").read_bytes().startswith(b"\x89PNG")
    assert f"{errors['layer 1']:.4f}" in capsys.readouterr().out  # the last stands for the model


def test_report_keeps_scores_hypotheses_and_pictures(params, tiny_task, mesh, tmp_path, capsys):
    report(tiny_task, params, mesh, "test", [7], 1, tmp_path, pictures=1)
    kept = json.loads((tmp_path / "scores.json").read_text())
    assert kept["checkpoints"] == [7] and kept["sentences"] == 12
    assert {"perplexity", "bleu", "tokenised_bleu", "chrf", "exact"} <= kept["scores"].keys()
    assert (tmp_path / "hypotheses.txt").read_text().count("\n") == 12
    assert (tmp_path / "attention-0.png").read_bytes().startswith(b"\x89PNG")
    assert kept["signatures"]["bleu"] in capsys.readouterr().out
