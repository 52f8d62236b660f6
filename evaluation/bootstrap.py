"""Significance tests for the difference between the mean scores of two systems.

The paired bootstrap (Koehn 2004) resamples the examples of a test set. Welch's t-test compares the
scores of several seeds, so it also applies to scores that have no example statistics.
The confidence interval of a single score is also found by resampling examples.
"""

import collections
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from sacrebleu import BLEU, CHRF
from sacrebleu.metrics.helpers import extract_all_char_ngrams

from evaluation.scores import TOKENIZED, detokenized_bleu, exact_matches

SAMPLES, SEED = 1000, 12345  # of the bootstrap
ExampleStatistics = np.ndarray  # [example, statistic]; the corpus score depends on column sums
ScoreFunction = Callable[[np.ndarray], np.ndarray | np.floating]  # maps column sums to a score


def paired_bootstrap_p(
    first: Sequence[ExampleStatistics],
    second: Sequence[ExampleStatistics],
    score: ScoreFunction,
) -> float:
    """Return the two-sided p-value of the difference between two systems' mean scores.

    `first` and `second` contain one array of example statistics per run of the first and of the
    second system. The p-value is the fraction of bootstrap samples whose score difference deviates
    from the observed difference by at least the absolute value of the observed difference.
    """
    means = [bootstrap_means(runs, score) for runs in (first, second)]
    return bootstrap_p(*means)


def bootstrap_means(runs: Sequence[ExampleStatistics], score: ScoreFunction) -> np.ndarray:
    """Return the mean score over the runs of a system: first that of the test set, then of samples.

    The samples of two systems contain the same examples.
    """
    counts = _sample_counts(len(runs[0]))
    return np.mean([score(counts @ statistics) for statistics in runs], axis=0)


def bootstrap_p(first: np.ndarray, second: np.ndarray) -> float:
    """Return the two-sided p-value of two systems, given their `bootstrap_means`."""
    observed, *sampled = first - second
    as_far = np.abs(np.array(sampled) - observed) >= abs(observed) - 1e-12
    return (1 + int(as_far.sum())) / (len(sampled) + 1)


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of Welch's t-test.

    The p-value is NaN if either sample has fewer than two values, or if neither sample varies.
    """
    if min(len(first), len(second)) < 2 or np.ptp(first) == np.ptp(second) == 0:
        return math.nan
    from scipy import stats  # imported late, because this import is slow

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy warns if the values of one sample are equal
        return float(stats.ttest_ind(first, second, equal_var=False).pvalue)  # pyright: ignore


def format_p(p: float) -> str:
    """Format a p-value as in papers, such as ".032" or "<.001"."""
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 0.9995 else "1"


def equation_p(p: str) -> str:
    """Return "p = .032" or "p < .001", given a p-value that `format_p` has formatted."""
    return f"p < {p[1:]}" if p.startswith("<") else f"p = {p}"


def confidence_interval(
    statistics: ExampleStatistics, score: ScoreFunction
) -> tuple[float, float, float]:
    """Return a score and the limits of its 95 % confidence interval (percentile bootstrap)."""
    scores = np.asarray(score(_sample_counts(len(statistics)) @ statistics))
    low, high = np.percentile(scores[1:], [2.5, 97.5])
    return float(scores[0]), float(low), float(high)


@functools.lru_cache(maxsize=1)  # cache one large array, which all rows of a results table use
def _sample_counts(count: int) -> np.ndarray:
    """Return how often each bootstrap sample contains each example, as [SAMPLES + 1, examples].

    The first sample is the original test set, which contains every example once.
    """
    counts = np.ones((SAMPLES + 1, count))
    rng = np.random.default_rng(SEED)
    counts[1:] = rng.multinomial(count, np.full(count, 1 / count), size=SAMPLES)
    return counts


def mean_statistics(values: Sequence[float | bool]) -> ExampleStatistics:
    """Return the example statistics for a score that is the mean of `values`, one per example."""
    column = np.asarray(values, float)
    return np.stack([column, np.ones_like(column)], axis=1)


def mean_score(sums: np.ndarray) -> np.ndarray | np.floating:
    """Return the mean, given the column sums of `mean_statistics`."""
    return sums[..., 0] / sums[..., 1]


def bleu_statistics(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> ExampleStatistics:
    """Return the statistics of tokenized BLEU; all sentences are given as lists of words."""
    joined = [[" ".join(reference) for reference in several] for several in references]
    return text_bleu_statistics([" ".join(words) for words in hypotheses], joined, TOKENIZED)


def text_bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], metric: BLEU
) -> ExampleStatistics:
    """Return the statistics from which BLEU is computed, one row per sentence.

    The columns are the n-gram matches and n-gram counts of orders 1 to 4, the hypothesis length and
    the reference length.
    """
    rows = []
    for text, several in zip(hypotheses, references, strict=True):
        found = metric.corpus_score([text], [[reference] for reference in several])
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])
    return np.array(rows, float)


def bleu_score(sums: np.ndarray, smooth: bool = False) -> np.ndarray | np.floating:
    """Return BLEU-4, given the column sums of `text_bleu_statistics`.

    With `smooth`, the k-th order without a correct n-gram counts 2⁻ᵏ correct ones, which is the
    default of sacreBLEU (smooth:exp). BLEU is still 0 without any correct token.
    """
    counts, totals, hypothesis, reference = (
        sums[..., :4],
        sums[..., 4:8],
        sums[..., 8],
        sums[..., 9],
    )
    if smooth:
        missing = counts == 0
        halves = 0.5 ** np.cumsum(missing, axis=-1)
        smoothed = missing & (totals > 0) & counts.any(axis=-1, keepdims=True)
        counts = np.where(smoothed, halves, counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(counts / totals).mean(axis=-1))
        brevity = np.exp(np.minimum(0, 1 - reference / hypothesis))
    return np.nan_to_num(100 * brevity * precision)


def chrf_statistics(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool
) -> ExampleStatistics:
    """Return the statistics from which chrF is computed, one row per sentence.

    The columns are the numbers of character n-grams of the hypothesis, of its closest reference,
    and of both, with three columns per order.
    """

    def ngrams(text: str) -> list[collections.Counter[str]]:
        return extract_all_char_ngrams(text.lower() if lowercase else text, CHRF.CHAR_ORDER)

    rows = []
    for text, several in zip(hypotheses, references, strict=True):
        found = ngrams(text)
        candidates = np.array([
            [(bool(other) * one.total(), other.total(), (one & other).total())
             for one, other in zip(found, ngrams(reference), strict=True)]
            for reference in several
        ], float).reshape(len(several), -1)  # fmt: skip
        rows.append(candidates[np.argmax(chrf_score(candidates))])
    return np.array(rows)


def chrf_score(sums: np.ndarray) -> np.ndarray | np.floating:
    """Return chrF as sacreBLEU does, given the column sums of `chrf_statistics`."""
    hypothesis, reference, both = (sums[..., column::3] for column in range(3))
    orders = np.maximum(1, ((hypothesis > 0) & (reference > 0)).sum(axis=-1))
    precision = (both / np.maximum(1, hypothesis)).sum(axis=-1) / orders
    recall = (both / np.maximum(1, reference)).sum(axis=-1) / orders
    factor = CHRF.BETA**2
    total = factor * precision + recall
    return 100 * (1 + factor) * precision * recall / np.where(total > 0, total, 1)


def text_statistics(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool
) -> dict[str, ExampleStatistics]:
    """Return the example statistics of the scores in `scores.text_scores`, by their names."""
    bleu = text_bleu_statistics(hypotheses, references, detokenized_bleu(lowercase))
    return {
        "bleu": bleu,
        "chrf": chrf_statistics(hypotheses, references, lowercase),
        "exact": mean_statistics(exact_matches(hypotheses, references, lowercase)),
    }


class ExampleScore(NamedTuple):
    """A score that can be computed from sums of example statistics."""

    score: ScoreFunction
    width: int  # number of statistics per example


# The scores with example statistics, by their names in scores.json. The score of all examples
# equals that in scores.json, so BLEU is smoothed here as there, and tokenized BLEU is not.
EXAMPLE_SCORES = {
    "bleu": ExampleScore(functools.partial(bleu_score, smooth=True), 10),
    "tokenized_bleu": ExampleScore(bleu_score, 10),
    "chrf": ExampleScore(chrf_score, 3 * CHRF.CHAR_ORDER),
    "exact": ExampleScore(mean_score, 2),
    "token_error": ExampleScore(mean_score, 2),
    "accuracy": ExampleScore(mean_score, 2),
}
