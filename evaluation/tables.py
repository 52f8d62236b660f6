"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1, remarks: int = 0
) -> str:
    """The first and last so many columns are words, which stand to the left, the others numbers."""
    numbers = len(head) - words - remarks
    lines = [head, [*["---"] * words, *["---:"] * numbers, *["---"] * remarks], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
