"""Reading lines at a terminal, and removing control characters from texts.

Corpora, labels, names of runs and messages may contain escape sequences, which would be commands to
a terminal. Messages on stderr never contain them. Output on stdout contains them only if stdout
is a file or a pipe, because programs that read it need the exact text.
"""

import contextlib
import io
import logging
import os
import re
import signal
import sys
from typing import Any

# Escape sequences of terminals (ECMA-48): CSI such as arrow keys and colors, OSC such as window
# titles, SS3 such as function keys, and all others. Incomplete sequences match as well.
_ESCAPES = re.compile(
    r"\x1b\[\[?[0-?]*[ -/]*[@-~]?"
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"
    r"|\x1bO.?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LAYOUT = re.compile(r"([\n\t])")


def leave_on_interrupt(status: int) -> None:
    """Make Ctrl-C end the program quietly with `status`, whatever the program is doing.

    The signal handler exits directly: libraries may catch a KeyboardInterrupt, and extension
    modules turn an exception during their import into an ImportError or a crash. Programs that
    were started with SIGINT ignored, for example by nohup, continue to ignore it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return

    def leave(number: int, frame: Any) -> None:
        # Stdout and stderr may be closed, or locked by the write that Ctrl-C interrupted.
        with contextlib.suppress(OSError, RuntimeError):
            sys.stdout.flush()
            os.write(sys.stderr.fileno(), b"\n")
        os._exit(status)

    signal.signal(signal.SIGINT, leave)


def edit_lines() -> None:
    """Give `input` line editing and a history, and accept bytes that are not UTF-8."""
    sys.stdin.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    if sys.stdout.isatty():  # `input` edits lines only if stdout is a terminal
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  (importing it enables line editing in `input`)


def ask() -> str | None:
    """Return the next typed line, after strip; None at Ctrl-C or the end of input.

    Escape sequences and control characters except tabs are removed.
    """
    prompt = "> "
    if not sys.stdout.isatty():  # prompts go to stderr, because stdout is for predictions only
        sys.stderr.write(prompt)
        sys.stderr.flush()
        prompt = ""
    # At the prompt, Ctrl-C must raise KeyboardInterrupt: readline restores the terminal settings.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return clean_lines(input(prompt)).strip()
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return None
    finally:
        signal.signal(signal.SIGINT, handler)


def clean(line: str) -> str:
    """Remove escape sequences and control characters; whitespace such as tabs becomes a space."""
    line = _ESCAPES.sub("", line)
    return _CONTROLS.sub(lambda found: " " if found[0].isspace() else "", line)


def clean_lines(text: str) -> str:
    """Remove escape sequences and control characters except line breaks and tabs."""
    parts = _LAYOUT.split(text)  # every second part is a line break or a tab
    return "".join(part if i % 2 else clean(part) for i, part in enumerate(parts))


class CleanFormatter(logging.Formatter):
    """Formats log messages without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return clean_lines(super().format(record))


class CleanOutput(io.TextIOWrapper):
    """A text stream that removes control characters."""

    def write(self, text: str, /) -> int:
        super().write(clean_lines(text))
        return len(text)


def protect_stdout() -> None:
    """Remove control characters from everything that is printed, if stdout is a terminal."""
    if sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout = CleanOutput(
            sys.stdout.buffer, sys.stdout.encoding, sys.stdout.errors, line_buffering=True
        )
