"""The labels of a corpus: those of its training examples, in alphabetical order."""

import collections
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from errors import UserError

logger = logging.getLogger("alignax")


class Labels:
    """Maps labels to ids. Saved as one label per line."""

    def __init__(self, names: list[str]):
        self.names = names
        self._ids = {name: i for i, name in enumerate(names)}

    @classmethod
    def learn(cls, labels: Iterable[str]) -> Self:
        """Collect the labels and log them, so that a wrong column or a header line is noticed."""
        counts = collections.Counter(labels)
        shown = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common(12))
        more = f", and {len(counts) - 12} more" if len(counts) > 12 else ""
        logger.info("labels: %s", shown + more)
        return cls(sorted(counts))

    @property
    def chunks(self) -> list[str]:
        """The chunk types that the prefixes B- and I- mark; empty if labels are not chunks."""
        return sorted({name[2:] for name in self.names if name.startswith(("B-", "I-"))})

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(path.read_bytes().decode().split("\n")[:-1])  # a label may contain \r

    def save(self, path: Path) -> None:
        path.write_text("".join(f"{name}\n" for name in self.names), "utf-8")

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, name: str, place: str) -> int:
        """Return the id of a label; `place` says where it stands, for the error message."""
        if name not in self._ids:
            known = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
            raise UserError(
                f"{place}: the label {name!r} does not occur in the training split (without the "
                "examples that data.holdout holds out), so no model can learn it: correct the "
                f"line, or add training examples with this label; the known labels are {known}"
            )
        return self._ids[name]
