"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """The first so many columns are words, which stand to the left, the others numbers."""
    lines = [head, [*["---"] * words, *["---:"] * (len(head) - words)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
