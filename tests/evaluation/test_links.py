"""Tests of the word links of sentence pairs, one or two directions."""

import copy

import jax.numpy as jnp
import numpy as np
import pytest

from data.tokenizers import make_tokenizer
from data.vocabulary import WordVocabulary
from decoding.forced import ForcedDecoder
from decoding.translator import Hypothesis, Translator
from errors import UserError
from evaluation.alignment import LinkSettings
from evaluation.links import Bitext, bitext, hypothesis_bitext, make_aligner
from training.restore import RestoredRun


def with_tokenizer(task, name):
    """Return a copy of a task whose target vocabulary has another tokenizer."""
    task = copy.copy(task)
    task.target = WordVocabulary([], make_tokenizer(name, "de"), lowercase=False)
    return task


@pytest.mark.parametrize(
    ("tokenizer", "tokens", "line", "words"),
    [
        ("unicode", ["3", "￭.", "<unk>", "</s>"], "3. ⁇", ["3.", "⁇"]),
        ("bpe", ["jun@@", "ge", "<unk>", "</s>"], "jun@@ ge ⁇", ["junge", "⁇"]),
        ("split", [], "", []),
    ],
)
def test_the_words_of_a_hypothesis_are_those_of_its_text(tiny_task, tokenizer, tokens, line, words):
    task = with_tokenizer(tiny_task, tokenizer)
    text = task.target.detokenize([token for token in tokens if token != "</s>"])
    hypothesis = Hypothesis(text, np.zeros(len(tokens), int), tokens, 0.0, 0.0, None)
    found = hypothesis_bitext(task, "May 3", hypothesis)
    assert found == Bitext("May 3", line, ["May", "3"], words) and text.split() == words


@pytest.fixture
def directions(tiny_task, mesh, monkeypatch):
    """A translator, and a run of the reverse direction; both attend to the same position."""
    names = ["attention", "layer 0 head 1"]
    used = []

    def attention(self, params, sources, targets, name):
        used.append((list(sources), list(targets), name))
        for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
            shape = len(self.target.tokens(target)) + 1, len(self.source.tokens(source)) + 1
            yield i, np.eye(*shape, dtype=np.float32)

    monkeypatch.setattr(ForcedDecoder, "attention", attention)
    monkeypatch.setattr(ForcedDecoder, "attention_names", lambda self, params: names)
    reverse = copy.copy(tiny_task)
    reverse.source, reverse.target = tiny_task.target, tiny_task.source
    reverse.config = tiny_task.config.copy_and_resolve_references()
    reverse.config.data.source, reverse.config.data.target = "de", "en"
    translator = Translator([tiny_task], mesh, tiny_task.config.decode)
    return translator, RestoredRun(reverse, {}, [0]), names, used


def test_tokens_of_a_word_are_linked_as_one_word(directions):
    translator, _, _, used = directions
    pair = bitext(translator.tasks[0], "May 3, 4:05", "3. Mai 4:05")
    # Tokens: May 3 , 4 : 0 5 and 3 . Mai 4 : 0 5; each target token attends to its position.
    aligner = make_aligner(translator, [{}], LinkSettings(), [])
    first, empty = aligner.links([pair, bitext(translator.tasks[0], "", "")])
    assert first == {(0, 0), (1, 1), (2, 2)} and empty == set()
    assert used == [(["May 3, 4:05", ""], ["3. Mai 4:05", ""], "attention")]


def test_two_directions_are_symmetrized(directions):
    translator, run, names, used = directions
    settings = LinkSettings(reverse=("b",), reverse_weights=names[1], symmetrize="intersection")
    pair = bitext(translator.tasks[0], "May May May", "Mai 20")

    # Tokens: May May May and Mai 2 0. Forward, "20" attends to the second and third "May" equally
    # and gets one link. In the reverse direction, both are linked to "20".
    def links(method):
        changed = settings._replace(symmetrize=method)
        (found,) = make_aligner(translator, [{}], changed, [run]).links([pair])
        return found

    assert links("intersection") == {(0, 0), (1, 1)}
    assert links("union") == links("grow_diag_final_and") == {(0, 0), (1, 1), (2, 1)}
    assert used[1] == (["Mai 20"], ["May May May"], names[1])


def test_an_ensemble_averages_the_weights_that_its_models_have_in_common(tiny_task, mesh):
    def member(**weights):
        task = copy.copy(tiny_task)
        task.attentions = lambda params, source, target: {
            name: jnp.full((*target.shape, source.shape[1]), value)
            for name, value in weights.items()
        }
        return task

    tasks = [member(), member(posterior=0.5, attention=0.2), member(attention=0.4)]
    decoder = ForcedDecoder(tasks, mesh, tiny_task.config.decode)
    assert decoder.attention_names([{}] * 3) == ["attention"]
    ((i, weights),) = decoder.attention([{}] * 3, ["May 3"], ["Mai"])
    assert i == 0 and weights.shape == (2, 3)
    np.testing.assert_allclose(weights, 0.3, rtol=1e-6)
    assert ForcedDecoder(tasks[:1], mesh, tiny_task.config.decode).attention_names([{}]) == []


def test_mistakes_are_user_errors(directions):
    translator, run, names, _ = directions
    same = run._replace(task=translator.tasks[0])
    with pytest.raises(UserError, match=r"--reverse_workdir=a translates en to de: .* de to en"):
        make_aligner(translator, [{}], LinkSettings(reverse=("a",)), [same])
    expected = r"--workdir has no attention weights 'layer 9': set --align_weights to .* head 1"
    with pytest.raises(UserError, match=expected):
        make_aligner(translator, [{}], LinkSettings("layer 9"), [])
    expected = (
        "model of --reverse_workdir has no attention weights 'head': set --reverse_weights to"
    )
    with pytest.raises(UserError, match=expected):
        make_aligner(translator, [{}], LinkSettings(reverse_weights="head"), [run])
    del names[1:]
    with pytest.raises(UserError, match=r"set --align_weights to 'attention'$"):
        make_aligner(translator, [{}], LinkSettings("layer 9"), [])
    names.clear()
    with pytest.raises(UserError, match="a run without attention has no word links"):
        make_aligner(translator, [{}], LinkSettings(), [])
