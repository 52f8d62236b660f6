"""A paper's table or figure as data: rows, the configs that train them, published figures."""

import dataclasses
from collections.abc import Mapping

from papers.measures import MEASURES

FieldValue = bool | int | float | str


@dataclasses.dataclass(frozen=True)
class Row:
    """One row: its name in the paper, its config, and its published figures by measure."""

    name: str
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of the config file
    changes: Mapping[str, FieldValue] = dataclasses.field(default_factory=dict)  # of config fields
    published: Mapping[str, float] = dataclasses.field(default_factory=dict)
    config: str = ""  # file of configs/; default: the table's
    decode: Mapping[str, FieldValue] = dataclasses.field(default_factory=dict)  # for scoring only
    checkpoint: str = "best"
    ensemble: bool = False  # score the models of all seeds as one ensemble
    merges: tuple[str, ...] = ()  # names of rows whose predictions are averaged; trains nothing


@dataclasses.dataclass(frozen=True)
class Table:
    """One table or figure. Rows are compared by the first of `measures`.

    `source` and `differs` describe the set-up. Results, and remarks about them, belong into
    docs/results.
    """

    title: str
    source: str  # of the published figures and the claims, with their corpus; not a sentence
    config: str  # file of configs/
    measures: tuple[str, ...]  # names of papers/measures.py
    rows: tuple[Row, ...]
    data: tuple[str, ...]  # names of configs/datasets.py; the first is the default
    minutes: float  # per run of the first size on the first corpus, alone on `machine`
    sizes: tuple[str, ...] = ("small", "tiny", "paper")  # the first is the default; ("",): no sizes
    seeds: int = 3
    machine: str = "an H200"
    differs: str = ""  # how the set-up differs from the paper's, in sentences
    same_data: bool = False  # whether the published figures are for the same corpus
    claims: tuple[
        tuple[str, str], ...
    ] = ()  # pairs (worse row, better row) claimed without figures
    figures: tuple[str, ...] = ()  # names of papers/figures.py

    def __post_init__(self) -> None:
        """Check the table when it is defined, not after all its rows are trained."""
        names = [row.name for row in self.rows]
        mentioned = {name for pair in self.claims for name in pair}
        mentioned |= {name for row in self.rows for name in row.merges}
        published = {name for row in self.rows for name in row.published}
        for wrong, what in (
            ({name for name in names if names.count(name) > 1}, "several rows have the same name"),
            (mentioned - set(names), "claims and merges name rows that do not exist"),
            (set(self.measures) - set(MEASURES), "measures are not in papers/measures.py"),
            (published - set(self.measures), "published figures are not in `measures`"),
        ):
            if wrong:
                raise ValueError(f"{self.title}: {what}: {', '.join(sorted(wrong))}")

    def row(self, name: str) -> Row:
        """Return the row with this name."""
        return next(row for row in self.rows if row.name == name)

    def above(self, row: Row) -> Row | None:
        """Return the row above; None for the first row."""
        place = self.rows.index(row)
        return self.rows[place - 1] if place else None
