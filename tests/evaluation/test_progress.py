"""Progress of the slow steps of a report."""

import io
import logging
import sys

import pytest

from evaluation import progress
from evaluation.progress import show_progress


def test_a_log_has_a_line_every_few_seconds(monkeypatch, caplog):
    seconds = iter([10.0, 13.0, 16.0, 21.0])  # compilation takes 10 seconds
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(progress.logger, "propagate", True)
    with caplog.at_level(logging.INFO, "alignax"):
        assert list(show_progress("abcd", 1200, "sentences")) == [*"abcd"]
    assert caplog.messages == ["3 of 1,200 sentences", "4 of 1,200 sentences"]


@pytest.mark.parametrize(
    ("terminal", "shown", "messages", "bar"),
    [
        (True, True, True, True),
        (True, False, True, False),
        (False, True, True, False),
        (True, True, False, False),
    ],
)
def test_a_terminal_has_a_bar_if_the_process_shows_messages(
    terminal, shown, messages, bar, monkeypatch, caplog
):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    caplog.set_level(logging.INFO if messages else logging.CRITICAL, "alignax")
    assert list(show_progress([1, 2], 2, "batches", shown)) == [1, 2]
    assert ("0/2" in stream.getvalue()) == bar
