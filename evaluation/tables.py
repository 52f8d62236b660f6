"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1, remarks: int = 0
) -> str:
    """Return a Markdown table.

    The first `words` and the last `remarks` columns are aligned to the left; the columns between
    them contain numbers and are aligned to the right.
    """
    numbers = len(head) - words - remarks
    lines = [head, [*["---"] * words, *["---:"] * numbers, *["---"] * remarks], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
