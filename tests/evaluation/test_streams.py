"""Tests of streams of inputs, without models; tests/test_predict.py has tests with models."""

import types

import numpy as np
import pytest

from decoding.translator import Hypothesis
from errors import UserError
from evaluation import streams
from evaluation.streams import Destination, converse
from evaluation.translation_stream import TranslationStream


@pytest.mark.parametrize(
    ("several", "answers"),
    [(False, [["the"], ["dog"], ["a"]]), (True, [["the", "dog"], ["a"]])],
)
def test_an_input_at_a_terminal_ends_at_a_blank_line_or_with_ctrl_d(monkeypatch, several, answers):
    typed, found = iter(["the", "dog", "", "a", None]), []
    monkeypatch.setattr(streams, "ask", lambda: next(typed))
    monkeypatch.setattr(streams, "edit_lines", lambda: None)
    converse(lambda lines, number: found.append((number, lines)), "Labelling", "words", several)
    assert found == list(enumerate(answers))


class FakeTranslator:
    """Gives every sentence the translations in `texts`, one per sentence."""

    def __init__(self, *texts):
        config = types.SimpleNamespace(data=types.SimpleNamespace(max_length=9))
        self.tasks = [types.SimpleNamespace(config=config)]
        self.settings = types.SimpleNamespace(nbest=1)
        self.source = types.SimpleNamespace(tokens=str.split, ids=lambda tokens: [9] * len(tokens))
        self._texts = texts

    def translate(self, params, sentences, attention, first):
        for i, text in enumerate(self._texts):
            yield i, [Hypothesis(text, np.zeros(0, int), [], 0.0, 0.0, None)]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["eins", "", ""], "1 of 3 translations are empty: train the model for longer"),
        (["", "", ""], "2 of 3 translations are empty"),
        (["eins", "", "zwei"], ""),
    ],
)
def test_empty_translations_of_sentences_are_counted(texts, message, capsys):
    stream = TranslationStream(FakeTranslator(*texts), [], Destination())
    stream.translate_all([b"one\n", b"\n", b"two\n"])
    captured = capsys.readouterr()
    assert captured.out.split("\n") == [*texts, ""]
    assert message in captured.err and bool(captured.err) == bool(message)


@pytest.mark.parametrize(("text", "told"), [("eins", False), ("", True)])
def test_an_empty_translation_of_a_typed_sentence_is_explained(text, told, capsys):
    TranslationStream(FakeTranslator(text), [], Destination()).answer(["one"], 0)
    captured = capsys.readouterr()
    assert captured.out == f"{text}\n" and ("translation is empty" in captured.err) == told


@pytest.mark.parametrize("error", [ValueError("of JAX"), BrokenPipeError(32, "Broken pipe")])
def test_an_error_in_scoring_is_not_blamed_on_the_file_of_translations(tmp_path, error):
    def score(*_):
        raise error

    (tmp_path / "translations").write_text("ein\nzwei\n")
    translator = types.SimpleNamespace(tasks=[None], score=score)
    stream = TranslationStream(translator, [], Destination())
    with pytest.raises(type(error)) as raised:
        stream.score_all([b"one\n", b"two\n"], tmp_path / "translations")
    assert raised.value is error
    with pytest.raises(UserError, match="absent does not exist: set --score"):
        stream.score_all([b"one\n"], tmp_path / "absent")
