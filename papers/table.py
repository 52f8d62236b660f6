"""Describe a paper's table or figure as data: its rows, their configs and published results."""

import dataclasses
from collections.abc import Mapping
from typing import Self

from evaluation.alignment import LinkSettings
from papers.claims import Claim
from papers.measures import MEASURES

FieldValue = bool | int | float | str


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a table: its name in the paper, its config and its published results."""

    name: str
    # Arguments of the config file, as in luong2015.py:score=dot.
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Values of config fields, by dotted name, that replace those of the config file.
    changes: Mapping[str, FieldValue] = dataclasses.field(default_factory=dict)
    # Values that the paper publishes, by the name of the measure.
    published: Mapping[str, float] = dataclasses.field(default_factory=dict)
    config: str = ""  # name of a file in configs/; "": the config file of the table
    # Values of fields of config.decode. These values apply only to scoring, so rows that differ
    # only in `decode` share their training runs.
    decode: Mapping[str, FieldValue] = dataclasses.field(default_factory=dict)
    checkpoint: str = "best"
    ensemble: bool = False  # score the models of all seeds as one ensemble
    merges: tuple[str, ...] = ()  # names of the rows whose predictions this row averages
    # File name patterns of the training split's word links, which another program has written: one
    # pattern per direction. Such a row has no model, and is scored only if these files exist.
    link_files: tuple[str, str] | None = None
    # Values of LinkSettings, which define the word links that are scored. If "symmetrize" is given,
    # the model is also trained in the reverse direction, and its links are combined.
    link_settings: Mapping[str, str | float] = dataclasses.field(default_factory=dict)
    reversed: bool = False  # whether source and target of the corpus are exchanged

    @property
    def trained(self) -> bool:
        """Whether models are trained for this row; other rows use existing predictions or links."""
        return not (self.merges or self.link_files)

    @property
    def needs_scoring(self) -> bool:
        """Whether the results of this row depend on more than the training of one model."""
        other = self.ensemble, self.merges, self.link_files, self.link_settings, self.decode
        return any(other) or self.checkpoint != "best"

    @property
    def reverse(self) -> Self | None:
        """The row of the reverse direction, whose runs are paired by seed; None if not needed."""
        if "symmetrize" not in self.link_settings:
            return None
        return dataclasses.replace(self, link_settings={}, reversed=not self.reversed)


@dataclasses.dataclass(frozen=True)
class Table:
    """One table or figure of a paper; its rows are compared by the first entry of `measures`.

    `source` and `differs` describe the experimental setup. Results, and remarks about them, are in
    docs/results.
    """

    title: str
    source: str  # publication and corpus of the published results and claims, without a period
    config: str  # name of a file in configs/, without .py
    measures: tuple[str, ...]  # names of measures in papers/measures.py
    rows: tuple[Row, ...]
    data: tuple[str, ...]  # names of corpora in configs/datasets.py; the first is the default
    minutes: float  # training time of one run (default size and corpus) that is alone on `machine`
    sizes: tuple[str, ...] = ("small", "tiny", "paper")  # the first is the default; ("",): no sizes
    seeds: int = 3
    machine: str = "an H200"
    differs: str = ""  # complete sentences on how the setup differs from the paper's
    same_data: bool = False  # whether the published results are for the corpus in `data`
    claims: tuple[Claim, ...] = ()  # comparisons of rows that the paper makes
    figures: tuple[str, ...] = ()  # names of figures in papers/figures.py
    faithfulness: int = 0  # number of test examples whose faithfulness is measured
    # Whether the results are those of the best evaluation in each training log, on the validation
    # split. Otherwise, every run is scored on the test split.
    from_logs: bool = False

    def __post_init__(self) -> None:
        """Check the table when it is defined, before any row is trained."""
        names = [row.name for row in self.rows]
        mentioned = {name for claim in self.claims for name in (claim.worse, claim.better)}
        mentioned |= {name for row in self.rows for name in row.merges}
        published = {name for row in self.rows for name in row.published}
        settings = {name for row in self.rows for name in row.link_settings}
        for wrong, what in (
            ({name for name in names if names.count(name) > 1}, "several rows have the same name"),
            (mentioned - set(names), "`claims` or `merges` refer to rows that do not exist"),
            (set(self.measures) - set(MEASURES), "measures are not in papers/measures.py"),
            (published - set(self.measures), "measures of `published` are not in `measures`"),
            ({self.measure_of(claim) for claim in self.claims} - set(self.measures),
             "measures of `claims` are not in `measures`"),
            ({name for name in map(self.measure_of, self.claims)
              if name in MEASURES and MEASURES[name].lower_is_better is None},
             "neither lower nor higher values of the measures of `claims` are better"),
            (settings - set(LinkSettings._fields),
             "`link_settings` has fields that LinkSettings lacks"),
            ({row.name for row in self.rows if self.from_logs and row.needs_scoring},
             "training logs do not have the results of these rows"),
        ):  # fmt: skip
            if wrong:
                raise ValueError(f"{self.title}: {what}: {', '.join(sorted(wrong))}")
        for claim in self.claims:
            gain, (low, high) = self.published_gain(claim), claim.range
            if gain is not None and not low < gain < high:
                raise ValueError(f"{self.title}: the published results contradict {claim}")

    def row(self, name: str) -> Row:
        """Return the row with this name."""
        return next(row for row in self.rows if row.name == name)

    def measure_of(self, claim: Claim) -> str:
        """Return the name of the measure that a claim is about."""
        return claim.measure or self.measures[0]

    def gain(self, claim: Claim, worse: float, better: float) -> float:
        """Return by how much `better` is better; negative if it is worse."""
        lower = MEASURES[self.measure_of(claim)].lower_is_better
        return worse - better if lower else better - worse

    def published_gain(self, claim: Claim) -> float | None:
        """Return the published difference between the rows of a claim, or None if there is none."""
        measure = self.measure_of(claim)
        worse, better = (self.row(name).published for name in (claim.worse, claim.better))
        if measure not in worse or measure not in better:
            return None
        return self.gain(claim, worse[measure], better[measure])

    def above(self, row: Row) -> Row | None:
        """Return the row above `row`, or None for the first row."""
        index = self.rows.index(row)
        return self.rows[index - 1] if index else None
