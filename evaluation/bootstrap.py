"""The paired bootstrap (Koehn 2004) for the mean score over several runs per system."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from evaluation.scores import TOKENIZED

ExampleStatistics = np.ndarray  # [example, statistic]; the corpus score depends on column sums
ScoreFunction = Callable[[np.ndarray], np.ndarray | np.floating]  # maps column sums to a score


def paired_bootstrap_p(
    first: Sequence[ExampleStatistics],
    second: Sequence[ExampleStatistics],
    score: ScoreFunction,
    samples: int = 1000,
    seed: int = 12345,
) -> float:
    """Return the two-sided p-value of the difference between two systems' mean scores.

    `first` and `second` contain one array of example statistics per run of the first and of the
    second system. The p-value is the fraction of bootstrap samples whose score difference deviates
    from the observed difference by at least the absolute value of the observed difference.
    """
    counts = _sample_counts(len(first[0]), samples, seed)

    def mean(runs: Sequence[ExampleStatistics]) -> np.ndarray:
        return np.mean([score(counts @ statistics) for statistics in runs], axis=0)

    observed, *sampled = mean(first) - mean(second)
    as_far = np.abs(np.array(sampled) - observed) >= abs(observed) - 1e-12
    return (1 + int(as_far.sum())) / (samples + 1)


@functools.lru_cache(maxsize=1)  # cache one large array, which all rows of a results table use
def _sample_counts(count: int, samples: int, seed: int) -> np.ndarray:
    """Return how often each bootstrap sample contains each example, as [samples + 1, examples].

    The first sample is the original test set, which contains every example once.
    """
    counts = np.ones((samples + 1, count))
    rng = np.random.default_rng(seed)
    counts[1:] = rng.multinomial(count, np.full(count, 1 / count), size=samples)
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
    """Return the statistics from which BLEU is computed, one row per sentence.

    The columns are the n-gram matches and n-gram counts of orders 1 to 4, the hypothesis length and
    the reference length. All sentences are given as lists of words.
    """
    rows = []
    for words, several in zip(hypotheses, references, strict=True):
        gold = [[" ".join(reference)] for reference in several]
        found = TOKENIZED.corpus_score([" ".join(words)], gold)
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])
    return np.array(rows, float)


def bleu_score(sums: np.ndarray) -> np.ndarray | np.floating:
    """Return BLEU-4 without smoothing, given the column sums of `bleu_statistics`."""
    counts, totals, hypothesis, reference = (
        sums[..., :4],
        sums[..., 4:8],
        sums[..., 8],
        sums[..., 9],
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(counts / totals).mean(axis=-1))
        brevity = np.exp(np.minimum(0, 1 - reference / hypothesis))
    return np.nan_to_num(100 * brevity * precision)
