"""Tests of Ctrl-C and of control characters in input, messages and output."""

import io
import logging
import os
import signal
import subprocess
import sys

import pytest

import program
from terminal import CleanFormatter, clean, protect_stdout
from tests.programs import ROOT


def test_ctrl_c_ends_a_program_that_is_busy_quietly():
    # A shell starts background jobs, such as these tests may be, with SIGINT ignored.
    code = "import signal, terminal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    code += "terminal.leave_on_interrupt(0); print(1, flush=True); time.sleep(99)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"1\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"\n") and process.returncode == 0


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("\x1b[A", ""),
        ("a\x1b[1;5Db", "ab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[3~x", "x"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;link\x1b\\x", "x"),
        ("\x1bOPx", "x"),
        ("\x1b[[Ax", "x"),
        ("\x1b(Bx", "x"),
        ("x\x1b[", "x"),
        ("x\x1b", "x"),
        ("a\tb\x0cc", "a b c"),
        ("a\x00b\x7fc\x9bd\x08", "abcd"),
        ("naïve \u3000日本", "naïve \u3000日本"),
    ],
)
def test_input_is_cleaned(typed, kept):
    assert clean(typed) == kept


DIRTY = "a\tb\x1b[31m\x1b]0;title\x07\n\x9b2Jc\r\x00"


def test_messages_and_log_lines_are_cleaned(capsys, monkeypatch):
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit):
        program._fail(DIRTY)
    assert capsys.readouterr().err == "error: a\tb\n2Jc \n"
    record = logging.LogRecord("alignax", logging.INFO, "", 0, "labels: %s", (DIRTY,), None)
    assert CleanFormatter("%(message)s").format(record) == "labels: a\tb\n2Jc "


@pytest.mark.parametrize("terminal", [True, False])
def test_output_is_cleaned_for_terminals_and_exact_for_files(terminal, monkeypatch):
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "utf-8")
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    protect_stdout()
    print(DIRTY, flush=True)
    text = "a\tb\n2Jc " if terminal else DIRTY
    assert written.getvalue().decode() == f"{text}\n"
