"""Claims of papers about the rows of their tables, as data.

A claim states that the difference between two rows in one measure lies in a range: the second row
is better than the first by more than a margin, or both rows are about equal, within a margin.
papers/verdicts.py decides claims.

The margin of "better" is 0, unless a paper states a smallest difference that it expects elsewhere
too. It is not the difference between two published figures. On another corpus or with another
model size, such a difference does not carry over. On the same corpus, it is one measurement: even
after a perfect reproduction, half of all measured differences are below it, so a claim with this
margin would never be decided. Pages therefore show the published difference beside the measured
one. Papers call rows equal ("comparable", "nearly identical") without a margin, so that margin is
chosen in the table.
"""

import dataclasses
import itertools
import math


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement of a paper: row `better` is better than row `worse`, or both are about equal."""

    worse: str  # name of a row
    better: str  # name of a row; for `equal`, the order has no meaning
    source: str  # section, table or sentence of the paper; says so if it is cited from memory
    measure: str = ""  # name of a measure; "": the first measure of the table
    margin: float = 0.0  # in the unit in which the measure is displayed
    equal: bool = False  # whether the rows differ by less than `margin`, in either direction

    def __post_init__(self) -> None:
        """Check the margin."""
        if self.margin < 0 or (self.equal and not self.margin):
            raise ValueError(f"{self}: the margin is {self.margin}, but it must be positive")

    @property
    def range(self) -> tuple[float, float]:
        """The claim holds if the true difference lies between these limits."""
        return (
            -self.margin if self.equal else self.margin,
            self.margin if self.equal else math.inf,
        )

    def __str__(self) -> str:
        if self.equal:
            return f"{self.worse} ≈ {self.better} (± {self.margin:g})"
        by = f" (by {self.margin:g})" if self.margin else ""
        return f"{self.worse} → {self.better}{by}"


def ranked(source: str, *names: str, measure: str = "") -> tuple[Claim, ...]:
    """Claim that each row is better than the one before: `names` are sorted from worst to best."""
    return tuple(Claim(a, b, source, measure) for a, b in itertools.pairwise(names))


def best(source: str, name: str, *others: str, measure: str = "") -> tuple[Claim, ...]:
    """Claim that row `name` is better than each of the others."""
    return tuple(Claim(other, name, source, measure) for other in others)
