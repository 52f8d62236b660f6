"""Decide the claims of papers from the results of several seeds.

A claim states that a difference lies in a range: above a margin, or, if it says that two rows are
equal, within ± the margin. The verdict compares this range with the confidence interval of the
measured difference between the means over seeds:

holds          the whole interval lies inside the range
contradicted   the whole interval lies outside the range
undecided      otherwise, or if there is no interval

The interval is that of Welch's t-test, or of the paired t-test over seeds if both rows use the same
training runs. A row with one seed has no interval. Word links of another program do not vary.

An ensemble of n models has one result x. The jackknife estimates how much x would change with
other seeds (Efron & Tibshirani 1993, chapter 11). Let x_i be the result without model i. The
pseudo-values n x - (n - 1) x_i are treated as the results of n seeds. For a mean over seeds, they
are exactly the results of the seeds, so the pseudo-values of an ensemble are paired with the
results of its models. The interval is centered on x. It is approximate: with few models, claims
about ensembles can be decided wrongly more often than other claims.

The confidence is 95 %, so if the results of seeds are normally distributed, a claim is decided
wrongly with a probability of at most 2.5 %. This is not corrected for the number of claims.
`reproduce.py --decide` looks at growing numbers of seeds, and corrects for that.
"""

import bisect
import collections
import math
import statistics
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from markup import table as markdown_table
from papers.claims import Claim
from papers.measures import MEASURES
from papers.table import Row, Table

CONFIDENCE = 0.95
POWER = 0.8
# Fewest models for the jackknife. An ensemble of two without one model is the other model, so the
# pseudo-values minus the results of the models would always be equal.
FEWEST_MODELS = 3
MOST_NEEDED = 1000  # larger numbers of seeds are not computed
VERDICTS = ("holds", "contradicted", "undecided", "not measured")


class Verdict(NamedTuple):
    """Whether the measured results agree with a claim."""

    claim: Claim
    outcome: str  # one of VERDICTS
    measure: str  # name of the measure in papers/measures.py
    # Number of seeds of the worse and of the better row. For an ensemble, it is the number of
    # models, or 1 if the ensemble was not scored without each of them.
    seeds: tuple[int, int]
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
        """Format a difference, with its sign, and with more digits if all of them would be zero."""
        if value is None:
            return "–"
        text, digits = f"{value:+{MEASURES[self.measure].form}}", 1
        while value and float(text) == 0:
            text, digits = f"{value:+.{digits}f}", digits + 1
        return text

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


class _Results(NamedTuple):
    """The results of a row in one measure."""

    value: float  # mean over seeds, or the result of an ensemble
    by_seed: dict[Any, float]  # results by seed, or pseudo-values by the seed of the model

    @property
    def seeds(self) -> int:
        """Number of seeds, or of the models of an ensemble; 1 if it has no pseudo-values."""
        return len(self.by_seed) or 1


def _decide(table: Table, claim: Claim, rows: Mapping[str, Any], confidence: float) -> Verdict:
    measure, published = table.measure_of(claim), table.published_gain(claim)
    pair = [table.row(name) for name in (claim.worse, claim.better)]
    found = [_read_results(rows.get(row.name, {}), measure, row.ensemble) for row in pair]
    worse, better = found
    if worse is None or better is None:
        numbers = [results.seeds if results else 0 for results in found]
        return Verdict(
            claim, "not measured", measure, (numbers[0], numbers[1]), published=published
        )
    same_runs = bool(_runs(pair[0], rows) & _runs(pair[1], rows))
    # Compare an ensemble only with its own models, which may be fewer than those of the other row.
    if same_runs and pair[1].ensemble and not pair[0].ensemble:
        worse = _restricted(worse, better.by_seed.keys())
    if same_runs and pair[0].ensemble and not pair[1].ensemble:
        better = _restricted(better, worse.by_seed.keys())
    effect = table.gain(claim, worse.value, better.value)
    seeds = worse.seeds, better.seeds
    undecided = Verdict(claim, "undecided", measure, seeds, effect, published=published)
    samples = _samples(pair, (worse, better), same_runs)
    error, freedom = _error(samples)
    if math.isnan(error):
        return undecided
    half = error * _quantile(freedom, confidence)
    low, high = interval = effect - half, effect + half
    least, most = claim.range
    decided = undecided._replace(interval=interval)
    if least < low and high < most:
        return decided._replace(outcome="holds")
    if high < least or most < low:
        return decided._replace(outcome="contradicted")
    return decided._replace(needed=_needed(samples, effect, claim, confidence))


def _read_results(row: Mapping[str, Any], measure: str, ensemble: bool) -> _Results | None:
    """Return the results of a row of results.json; None if it has none."""
    values = row.get("measured", {}).get(measure, [])
    if not values:
        return None
    if ensemble:
        left_out, whole = row.get("left_out", {}).get(measure, []), values[0]
        n = len(left_out)
        pseudo = {i: n * whole - (n - 1) * x for i, x in enumerate(left_out)}
        return _Results(whole, pseudo if n >= FEWEST_MODELS else {})
    seeds = row["seeds"]
    if len(seeds) != len(values):  # the seeds are unknown, so no results are paired
        seeds = [object() for _ in values]
    return _Results(statistics.mean(values), dict(zip(seeds, values, strict=True)))


def _restricted(results: _Results, seeds: Set[Any]) -> _Results:
    """Return the results of the given seeds only, if `results` has all of them."""
    if not seeds or not seeds <= results.by_seed.keys():
        return results
    kept = {seed: results.by_seed[seed] for seed in seeds}
    return _Results(statistics.mean(kept.values()), kept)


def _samples(pair: Sequence[Row], found: Sequence[_Results], same_runs: bool) -> list[_Sample]:
    """Return the varying parts of a claim's difference; an unknown variance is NaN."""
    worse, better = (results.by_seed for results in found)
    if same_runs and worse.keys() == better.keys():
        return [_sample([better[seed] - worse[seed] for seed in worse])]
    return [
        _sample([*results.by_seed.values()])
        for row, results in zip(pair, found, strict=True)
        if not row.link_files
    ]


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
    text = f"{found['holds']} of {len(verdicts)} claims hold{'s' if found['holds'] == 1 else ''}"
    for outcome in VERDICTS[1:]:
        number = found[outcome]
        text += f", {number} {'is' if number == 1 else 'are'} {outcome}" if number else ""
    return text


def verdict_lines(verdicts: Sequence[Verdict], indent: str = "") -> str:
    """Return one line of plain text per claim."""
    lines = []
    for v in verdicts:
        details = (
            f": {v.effect_text} {v.measure_name}, seeds: {v.seeds_text}{v.needed_text}"
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
