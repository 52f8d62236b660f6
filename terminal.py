"""Reading lines at a terminal, and removing control characters from lines."""

import contextlib
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
    """Return the next typed line, after `clean` and strip; None at Ctrl-C or the end of input."""
    prompt = "> "
    if not sys.stdout.isatty():  # prompts go to stderr, because stdout is for translations only
        sys.stderr.write(prompt)
        sys.stderr.flush()
        prompt = ""
    # At the prompt, Ctrl-C must raise KeyboardInterrupt: readline restores the terminal settings.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return clean(input(prompt)).strip()
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return None
    finally:
        signal.signal(signal.SIGINT, handler)


def clean(line: str) -> str:
    """Remove escape sequences and control characters; whitespace such as tabs becomes a space."""
    line = _ESCAPES.sub("", line)
    return _CONTROLS.sub(lambda found: " " if found[0].isspace() else "", line)
