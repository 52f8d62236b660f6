"""The paired bootstrap (Koehn 2004) over the mean of several runs a system."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from evaluation.scores import TOKENISED

Statistics = np.ndarray  # [examples, numbers], whose sums make a score
Score = Callable[[np.ndarray], np.ndarray]  # of sums [..., numbers]


def paired_bootstrap_p(
    ours: Sequence[Statistics],
    theirs: Sequence[Statistics],
    score: Score,
    samples: int = 1000,
    seed: int = 12345,
) -> float:
    """p of the difference of two systems' mean scores, two-sided: how often that of a sample of
    examples lies as far from the difference found as this lies from none."""
    times = _times(len(ours[0]), samples, seed)

    def mean(runs: Sequence[Statistics]) -> np.ndarray:
        return np.mean([score(times @ statistics) for statistics in runs], axis=0)

    found, *others = mean(ours) - mean(theirs)
    as_far = np.abs(np.array(others) - found) >= abs(found) - 1e-12
    return (1 + int(as_far.sum())) / (samples + 1)


@functools.lru_cache(maxsize=1)  # it is large, and the same for all rows of a table
def _times(count: int, samples: int, seed: int) -> np.ndarray:
    """How often each example is in a sample [samples + 1, examples]; first all as they are."""
    times = np.ones((samples + 1, count))
    rng = np.random.default_rng(seed)
    times[1:] = rng.multinomial(count, np.full(count, 1 / count), size=samples)
    return times


def share(right: Sequence[float]) -> Statistics:
    """Of scores that are means over examples."""
    values = np.asarray(right, float)
    return np.stack([values, np.ones_like(values)], axis=1)


def mean_score(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def bleu_statistics(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> Statistics:
    """Matches and n-grams of orders 1 to 4 and both lengths, a sentence of given words each."""
    rows = []
    for words, several in zip(hypotheses, references, strict=True):
        found = TOKENISED.corpus_score([" ".join(words)], [[" ".join(own)] for own in several])
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])
    return np.array(rows, float)


def bleu_score(sums: np.ndarray) -> np.ndarray:
    """BLEU-4 without smoothing."""
    counts, totals, ours, gold = sums[..., :4], sums[..., 4:8], sums[..., 8], sums[..., 9]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(counts / totals).mean(axis=-1))
        brevity = np.exp(np.minimum(0, 1 - gold / ours))
    return np.nan_to_num(100 * brevity * precision)
