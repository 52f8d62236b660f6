"""The class labels of a corpus: all labels of the training split, in alphabetical order."""

import collections
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from errors import UserError
from reading import read_lines
from writing import write_text

logger = logging.getLogger("alignax")
LABEL_SETTINGS = {"kind": "labels"}  # the settings of labels in `Corpus.vocabulary_settings`


def _short(name: str) -> str:
    """Return a label as messages show it; a wrong column may have whole sentences."""
    return name if len(name) <= 40 else f"{name[:39]}…"


class Labels:
    """A mapping from labels to ids, saved as one label per line."""

    def __init__(self, names: list[str]):
        self.names = names
        self._ids = {name: i for i, name in enumerate(names)}

    @classmethod
    def learn(cls, labels: Iterable[str]) -> Self:
        """Collect all labels, and log the most frequent labels to reveal a wrong label column."""
        counts = collections.Counter(labels)
        shown = ", ".join(f"{_short(name)} ({count:,})" for name, count in counts.most_common(12))
        more = f", and {len(counts) - 12} more" if len(counts) > 12 else ""
        logger.info("labels: %s", shown + more)
        return cls(sorted(counts))

    @property
    def chunks(self) -> list[str]:
        """The chunk types, such as NP in B-NP and I-NP; empty if no label has a prefix B- or I-."""
        return sorted({name[2:] for name in self.names if name.startswith(("B-", "I-"))})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load labels that `save` wrote."""
        return cls(read_lines(path))

    def extended(self, other: "Labels") -> Self:
        """Return these labels, followed by the labels of `other` that are not among them."""
        return type(self)([*self.names, *(name for name in other.names if name not in self._ids)])

    def token(self, index: int) -> str:
        """Return the label whose id is `index`."""
        return self.names[index]

    def save(self, path: Path) -> None:
        """Write the labels to a file, one per line, in the order of their ids."""
        write_text(path, "".join(f"{name}\n" for name in self.names))

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, name: str, place: str) -> int:
        """Return the id of a label; `place` is its file and line, for the error message."""
        if name not in self._ids:
            more = ", …" if len(self.names) > 6 else ""
            known = ", ".join(map(_short, self.names[:6])) + more
            raise UserError(
                f"{place}: the label {_short(name)!r} is not one of the labels of this run "
                f"({known}): correct the label, or train a run whose training split contains it "
                "(held-out examples do not count; instead of data.vocabularies=keep, set extend)"
            )
        return self._ids[name]
