"""The labels of a corpus: those that its training examples have, in order of the alphabet."""

import collections
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from errors import UserError

logger = logging.getLogger("alignax")


class Labels:
    def __init__(self, names: list[str]):
        self.names = names
        self._ids = {name: i for i, name in enumerate(names)}

    @classmethod
    def learn(cls, labels: Iterable[str]) -> Self:
        """Says what it found, for a wrong column or a header is seen by that."""
        counts = collections.Counter(labels)
        shown = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common(12))
        more = f", and {len(counts) - 12} more" if len(counts) > 12 else ""
        logger.info("labels: %s", shown + more)
        return cls(sorted(counts))

    @property
    def chunks(self) -> list[str]:
        """The kinds of chunks that B- and I- mark; none where labels are no chunks."""
        return sorted({name[2:] for name in self.names if name.startswith(("B-", "I-"))})

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(path.read_bytes().decode().split("\n")[:-1])  # a \r may be in a label

    def save(self, path: Path) -> None:
        path.write_text("".join(f"{name}\n" for name in self.names), "utf-8")

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, name: str, place: str) -> int:
        """Its number; `place` says where it stands, should it be none."""
        if name not in self._ids:
            known = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
            raise UserError(
                f"{place}: the label {name!r} does not occur in the training split (without what "
                "data.holdout keeps back of it), so no model could learn it: mend the line, or "
                f"train on it as well; known are {known}"
            )
        return self._ids[name]
