"""A paper's table or figure as data: rows, the configs that make them, what was published."""

import dataclasses
from collections.abc import Mapping

from papers.measures import MEASURES

Value = bool | int | float | str


@dataclasses.dataclass(frozen=True)
class Row:
    """What the paper calls it, what makes it, and its published figures by measure."""

    name: str
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of the config file
    changes: Mapping[str, Value] = dataclasses.field(default_factory=dict)  # of its fields
    published: Mapping[str, float] = dataclasses.field(default_factory=dict)
    config: str = ""  # another file of configs/ than the table's
    decode: Mapping[str, Value] = dataclasses.field(default_factory=dict)  # when it is scored
    checkpoint: str = "best"
    ensemble: bool = False  # the models of all seeds as one
    merges: tuple[str, ...] = ()  # rows whose predictions are averaged, instead of a model


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows are compared by the first of `measures`, which are names of papers/measures.py."""

    title: str
    source: str  # of the published figures, and the data they are of; no sentence
    config: str  # file of configs/
    measures: tuple[str, ...]
    rows: tuple[Row, ...]
    data: tuple[str, ...]  # names of configs/datasets.py, the first by default
    minutes: float  # a run of the first size on the first corpus, alone on `machine`
    sizes: tuple[str, ...] = ("small", "tiny", "paper")  # the first by default; none: ("",)
    seeds: int = 3
    machine: str = "an H200"
    differs: str = ""  # from the paper, in sentences
    same_data: bool = False  # as the published figures are of
    claims: tuple[tuple[str, str], ...] = ()  # worse and better rows, where no figures say it
    figures: tuple[str, ...] = ()  # names of papers/figures.py
    # What our results may come of, by corpus.
    remarks: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """A slip in a new table is told when it is read, not after all its rows are trained."""
        names = [row.name for row in self.rows]
        named = {name for pair in self.claims for name in pair}
        named |= {name for row in self.rows for name in row.merges}
        printed = {name for row in self.rows for name in row.published}
        for wrong, what in (
            ({name for name in names if names.count(name) > 1}, "rows of one name"),
            (named - set(names), "claims and merges of rows that are not there"),
            (set(self.measures) - set(MEASURES), "measures that papers/measures.py has not"),
            (printed - set(self.measures), "published figures of other measures"),
            (set(self.remarks) - set(self.data), "remarks on corpora that it has not"),
        ):
            if wrong:
                raise ValueError(f"{self.title}: {what}: {', '.join(sorted(wrong))}")

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def above(self, row: Row) -> Row | None:
        place = self.rows.index(row)
        return self.rows[place - 1] if place else None
