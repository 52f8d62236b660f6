"""Decide the claims of papers from the results of several seeds.

A claim states that a difference lies in a range: above a margin, or, if it says that two rows are
equal, within ± the margin. The verdict compares this range with the confidence interval of the
measured difference between the means over seeds:

holds          the whole interval lies inside the range
contradicted   the whole interval lies outside the range
undecided      otherwise, or if there is no interval

The interval is that of Welch's t-test, or of the paired t-test over seeds if both rows use the same
training runs. A row with one seed has no interval. Word links of another program do not vary.

An ensemble of n models is measured once. The jackknife estimates how much it would vary between
other models (Efron & Tibshirani 1993, chapter 11): if x is the result of the ensemble and x_i its
result without model i, the pseudo-values n x - (n - 1) x_i have the role of the results of n seeds.
The pseudo-values of a mean over seeds are the results of these seeds, so an ensemble can be paired
with its models. The estimated variance tends to be too large (Efron & Stein 1981).

The confidence is 95 %, so if the results of seeds are normally distributed, a claim is decided
wrongly with a probability of at most 2.5 %. This is not corrected for the number of claims: of 80
claims, at most two are expected to be decided wrongly. `reproduce.py --decide` looks at growing
numbers of seeds, and corrects for that.
"""

import bisect
import collections
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markup import table as markdown_table
from papers.claims import Claim
from papers.measures import MEASURES
from papers.table import Row, Table

CONFIDENCE = 0.95
POWER = 0.8
MOST_NEEDED = 1000  # larger numbers of seeds are not computed
VERDICTS = ("holds", "contradicted", "undecided", "not measured")


class Verdict(NamedTuple):
    """Whether the measured results agree with a claim."""

    claim: Claim
    outcome: str  # one of VERDICTS
    measure: str  # name of the measure in papers/measures.py
    seeds: tuple[int, int]  # number of seeds of the worse and of the better row
    effect: float | None = None  # mean difference; positive: it agrees with "better"
    interval: tuple[float, float] | None = None  # confidence interval of the effect
    # If undecided: the number of seeds per row that would decide the claim with a probability of
    # POWER, if effect and standard deviations are as measured. None: unknown or over MOST_NEEDED.
    needed: int | None = None
    published: float | None = None  # the published difference

    def content(self) -> dict[str, Any]:
        """Return the entry of results.json."""
        claim = {k: v for k, v in vars(self.claim).items() if k != "measure"}
        found = self._asdict() | {"verdict": self.outcome}
        return claim | {k: v for k, v in found.items() if k not in ("claim", "outcome")}

    def number(self, value: float | None) -> str:
        """Format a difference, with its sign."""
        return "–" if value is None else f"{value:+{MEASURES[self.measure].form}}"

    @property
    def measure_name(self) -> str:
        """Name of the measure, as in the head of a column."""
        return MEASURES[self.measure].name

    @property
    def effect_text(self) -> str:
        """The effect and its interval."""
        if self.interval is None:
            return self.number(self.effect)
        low, high = map(self.number, self.interval)
        return f"{self.number(self.effect)} [{low}, {high}]"

    @property
    def seeds_text(self) -> str:
        """The number of seeds of both rows, or of the two rows if they differ."""
        worse, better = self.seeds
        return str(worse) if worse == better else f"{worse} and {better}"

    @property
    def needed_text(self) -> str:
        """The number of seeds that an undecided claim needs, or "" if it is unknown."""
        if self.outcome != "undecided" or self.interval is None:
            return ""
        return f", needs {self.needed or f'over {MOST_NEEDED}'}"


class _Sample(NamedTuple):
    """A part of a difference whose value varies with the seed."""

    variance: float  # between seeds
    seeds: int  # number of seeds from which the variance is estimated


def decide_claims(table: Table, content: Mapping[str, Any]) -> list[Verdict]:
    """Return the verdict on every claim of a table, given the content of its results.json."""
    rows, confidence = content["rows"], content.get("confidence", CONFIDENCE)
    return [_decide(table, claim, rows, confidence) for claim in table.claims]


def _decide(table: Table, claim: Claim, rows: Mapping[str, Any], confidence: float) -> Verdict:
    measure = table.measure_of(claim)
    published = table.published_gain(claim)
    pair = [rows.get(name, {}) for name in (claim.worse, claim.better)]
    worse, better = (row.get("measured", {}).get(measure, []) for row in pair)
    left_out = [row.get("left_out", {}).get(measure, []) for row in pair]
    seeds = len(left_out[0] or worse), len(left_out[1] or better)
    if not all(seeds):
        return Verdict(claim, "not measured", measure, seeds, published=published)
    effect = table.gain(claim, statistics.mean(worse), statistics.mean(better))
    undecided = Verdict(claim, "undecided", measure, seeds, effect, published=published)
    samples = _samples(table, claim, rows, measure)
    error, freedom = _error(samples)
    if math.isnan(error):
        return undecided
    half = error * _quantile(freedom, confidence)
    low, high = interval = effect - half, effect + half
    least, most = claim.range
    found = undecided._replace(interval=interval)
    if least < low and high < most:
        return found._replace(outcome="holds")
    if high < least or most < low:
        return found._replace(outcome="contradicted")
    return found._replace(needed=_needed(samples, effect, claim, confidence))


def _samples(table: Table, claim: Claim, rows: Mapping[str, Any], measure: str) -> list[_Sample]:
    """Return the varying parts of a claim's difference; an unknown variance is NaN."""
    pair = [table.row(name) for name in (claim.worse, claim.better)]
    results = [_by_seed(rows[row.name], measure, row.ensemble) for row in pair]
    same_runs = not any(row.links for row in pair) and set.intersection(
        *(_runs(row, rows) for row in pair)
    )
    if same_runs and results[0].keys() == results[1].keys():
        worse, better = results
        return [_sample([better[seed] - worse[seed] for seed in worse])]
    return [
        _sample([*by_seed.values()])
        for row, by_seed in zip(pair, results, strict=True)
        if not row.links
    ]


def _by_seed(row: Mapping[str, Any], measure: str, ensemble: bool) -> dict[Any, float]:
    """Map seeds to the results of a row, or to the pseudo-values of an ensemble if it has any."""
    values = row["measured"][measure]
    if ensemble:
        left_out = row.get("left_out", {}).get(measure, [])
        n, (whole,) = len(left_out), values
        return {seed: n * whole - (n - 1) * value for seed, value in enumerate(left_out)}
    seeds = row.get("seeds", range(len(values)))
    if len(seeds) != len(values):  # the seeds are unknown, so no results are paired
        seeds = [object() for _ in values]
    return dict(zip(seeds, values, strict=True))


def _sample(values: Sequence[float]) -> _Sample:
    variance = statistics.variance(values) if len(values) > 1 else math.nan
    return _Sample(variance, len(values))


def _runs(row: Row, rows: Mapping[str, Any]) -> set[str]:
    """Return the names of the training runs whose models a row scores."""
    found = {rows.get(name, {}).get("run") for name in (row.merges or (row.name,))}
    return found - {None}


def _error(samples: Sequence[_Sample], seeds: int | None = None) -> tuple[float, float]:
    """Return standard error and degrees of freedom of a difference; both are NaN if unknown.

    `seeds` replaces the number of seeds of every row.
    """
    known = [s._replace(seeds=seeds or s.seeds) for s in samples]
    parts = [s.variance / s.seeds for s in known if s.variance > 0]
    if not parts or any(math.isnan(s.variance) for s in known):
        return math.nan, math.nan
    error = math.sqrt(sum(parts))
    varying = [s for s in known if s.variance > 0]
    terms = (part**2 / (s.seeds - 1) for part, s in zip(parts, varying, strict=True))
    return error, sum(parts) ** 2 / sum(terms)


def _quantile(freedom: float, confidence: float) -> float:
    """Return how many standard errors a two-sided interval extends to either side."""
    from scipy.special import stdtrit  # imported late, because this import is slow

    return float(stdtrit(freedom, (1 + confidence) / 2))


def _needed(
    samples: Sequence[_Sample], effect: float, claim: Claim, confidence: float
) -> int | None:
    """Return how many seeds per row decide a claim with a probability of POWER."""
    numbers = range(2, MOST_NEEDED + 1)
    index = bisect.bisect_left(
        numbers, POWER, key=lambda seeds: _power(_error(samples, seeds), effect, claim, confidence)
    )
    return numbers[index] if index < len(numbers) else None


def _power(error: tuple[float, float], effect: float, claim: Claim, confidence: float) -> float:
    """Return the probability that a claim is decided.

    The t statistic of a difference from a limit of the claim's range has a noncentral t
    distribution. The interval must exclude the nearest limit or, inside a range, all limits; the
    probabilities that it does not are added.
    """
    from scipy.special import nctdtr

    deviation, freedom = error
    quantile = _quantile(freedom, confidence)
    distances = sorted(abs(effect - limit) for limit in claim.range if math.isfinite(limit))
    if not claim.range[0] < effect < claim.range[1]:
        distances = distances[:1]
    return 1 - sum(float(nctdtr(freedom, x / deviation, quantile)) for x in distances)


def count_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Summarize verdicts: "5 of 7 claims hold, 2 are undecided"."""
    found = collections.Counter(verdict.outcome for verdict in verdicts)
    text = f"{found['holds']} of {len(verdicts)} claims hold"
    for outcome in VERDICTS[1:]:
        number = found[outcome]
        text += f", {number} {'is' if number == 1 else 'are'} {outcome}" if number else ""
    return text


def verdict_lines(verdicts: Sequence[Verdict], indent: str = "") -> str:
    """Return one line of plain text per claim."""
    lines = []
    for v in verdicts:
        details = (
            f": {v.effect_text} {v.measure_name}, {v.seeds_text} seeds{v.needed_text}"
            if v.effect is not None
            else ""
        )
        lines.append(f"{indent}{v.outcome:13} {v.claim}{details}\n")
    return "".join(lines)


def claims_table(verdicts: Sequence[Verdict], confidence: float = CONFIDENCE) -> str:
    """Return the Markdown table of claims and verdicts."""
    interval = f"difference [{100 * confidence:.3g} % interval]"
    head = ["claim (worse → better)", "verdict", "measure", interval, "published", "seeds",
            "source"]  # fmt: skip
    lines = [
        [
            str(v.claim), v.outcome, v.measure_name, v.effect_text, v.number(v.published),
            v.seeds_text + v.needed_text, v.claim.source,
        ]
        for v in verdicts
    ]  # fmt: skip
    return markdown_table(head, lines, words=3, remarks=1)
