"""Lines that a user types at a terminal or pipes into a program."""

import contextlib
import re
import sys

# Escape sequences of terminals (ECMA-48): CSI such as arrow keys and colors, OSC such as window
# titles, SS3 such as function keys, and the rest; an incomplete one is removed as far as it goes.
_ESCAPES = re.compile(
    r"\x1b\[\[?[0-?]*[ -/]*[@-~]?"
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"
    r"|\x1bO.?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def edit_lines() -> None:
    """Give `input` line editing and a history, and accept bytes that are not UTF-8."""
    sys.stdin.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    if sys.stdout.isatty():  # otherwise `input` does not use readline
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401


def ask() -> str | None:
    """Return the next typed line, cleaned and stripped; None at the end of the input."""
    prompt = "> "
    if not sys.stdout.isatty():  # the output is a file, which should hold translations only
        sys.stderr.write(prompt)
        sys.stderr.flush()
        prompt = ""
    try:
        return clean(input(prompt)).strip()
    except EOFError:
        print(file=sys.stderr)
        return None


def clean(line: str) -> str:
    """Remove escape sequences and control characters; whitespace such as tabs becomes a space."""
    line = _ESCAPES.sub("", line)
    return _CONTROLS.sub(lambda found: " " if found[0].isspace() else "", line)
