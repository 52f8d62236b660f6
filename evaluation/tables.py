"""Format tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1, remarks: int = 0
) -> str:
    """Return a Markdown table.

    The first `words` columns and the last `remarks` columns are left-aligned. The columns between
    them contain numbers and are right-aligned.
    """
    numbers = len(head) - words - remarks
    lines = [head, [*["---"] * words, *["---:"] * numbers, *["---"] * remarks], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
