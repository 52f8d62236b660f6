"""Tests of streams of inputs, without models; tests/test_predict.py has tests with models."""

import types

import pytest

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
