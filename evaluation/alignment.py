"""Word links: their extraction from attention weights, symmetrization and alignment error rate."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from data.links import Gold, Link
from errors import UserError


class LinkSettings(NamedTuple):
    """How attention weights become word links: values of flags of predict.py and eval.py."""

    weights: str = "attention"  # name of the attention weights, as in Translation.attentions
    threshold: float = 0.0  # smallest weight of a link; 0: one link per target word, by arg max
    reverse: tuple[str, ...] = ()  # workdirs of the runs of the reverse direction
    reverse_weights: str = ""  # name of the attention weights of the reverse runs; "": `weights`
    symmetrize: str = "grow_diag_final_and"  # a name in SYMMETRIZATIONS; unused without `reverse`

    def check(self) -> None:
        """Raise a UserError if a value is invalid."""
        if not 0 <= self.threshold <= 1:
            raise UserError(
                f"--align_threshold={self.threshold:g} is invalid: attention weights are between 0 "
                "and 1, and 0 links each target word to the source word with the largest weight"
            )
        if self.symmetrize not in SYMMETRIZATIONS:
            known = ", ".join(SYMMETRIZATIONS)
            raise UserError(f"--symmetrize={self.symmetrize} is unknown: use one of {known}")

    def record(self) -> dict[str, Any]:
        """Return the settings that have an effect, for scores.json."""
        unused = () if self.reverse else ("reverse", "reverse_weights", "symmetrize")
        return {name: value for name, value in self._asdict().items() if name not in unused}

    def describe(self) -> str:
        """Describe the settings in one line, next to the alignment error rate."""
        rule = f"threshold {self.threshold:g}" if self.threshold else "largest weight"
        text = f"teacher-forced {self.weights!r} weights, {rule}"
        if self.reverse:
            other = self.reverse_weights or self.weights
            text += f", {self.symmetrize} with {other!r} weights of {','.join(self.reverse)}"
        return text


def attention_links(
    attention: Float[np.ndarray, "t s"],
    source_words: list[int],
    target_words: list[int],
    threshold: float = 0.0,
) -> set[Link]:
    """Link all pairs of words whose attention weight is at least `threshold`.

    If `threshold` is 0, link each target word to the source word that it attends to most.
    `source_words` and `target_words` contain the word index of every token before </s>. The
    token </s> is never linked. The attention weight between two words is the sum over the tokens of
    the source word, averaged over the tokens of the target word.
    """
    end = max(source_words, default=-1) + 1  # index of </s>, which follows the last source word
    words = sorted(set(target_words))
    tokens = np.equal.outer(words, target_words).astype(float)  # 1 if token j is in target word i
    of_word = np.eye(end + 1)[[*source_words, end]]  # 1 if token i is in source word j
    sums = tokens @ attention[: len(target_words), : len(of_word)] @ of_word
    means = sums / tokens.sum(axis=1, keepdims=True)
    if threshold:
        chosen = np.argwhere(means[:, :end] >= threshold)
    else:
        heaviest = enumerate(means.argmax(axis=1))
        chosen = [(row, s) for row, s in heaviest if s < end and means[row, s]]
    return {(int(s), words[row]) for row, s in chosen}


def _grow_diag_final_and(forward: set[Link], reverse: set[Link]) -> set[Link]:
    """Start from the links that both directions have, and add links that one direction has.

    Grow-diag adds links that are neighbors (also diagonal ones) of present links, and in which at
    least one word has no link yet. Final-and then adds links in which neither word has a link.
    """
    links, union = forward & reverse, forward | reverse
    sources, targets = {s for s, _ in links}, {t for _, t in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    growing = True
    while growing:
        growing = False
        for (s, t), (ds, dt) in itertools.product(sorted(links), _NEIGHBORS):
            link = s + ds, t + dt
            both_linked = link[0] in sources and link[1] in targets
            if link in union and link not in links and not both_linked:
                add(link)
                growing = True
    for link in (*sorted(forward), *sorted(reverse)):
        if link[0] not in sources and link[1] not in targets:
            add(link)
    return links


_NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
# Functions that combine the links of two directions (Och & Ney 2003, Koehn et al. 2003 and 2005).
SYMMETRIZATIONS: dict[str, Callable[[set[Link], set[Link]], set[Link]]] = {
    "intersection": set.intersection,
    "union": set.union,
    "grow_diag_final_and": _grow_diag_final_and,
}


def symmetrize(forward: set[Link], reverse: set[Link], method: str) -> set[Link]:
    """Combine the links of both directions; `reverse` has (target word, source word) pairs."""
    return SYMMETRIZATIONS[method](forward, {(s, t) for t, s in reverse})


def alignment_error_rate(guesses: Iterable[set[Link]], golds: Iterable[Gold]) -> float:
    """Compute AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|) over a corpus (Och & Ney 2003).

    A are the links in `guesses`, S the sure links and P the possible links in `golds`.
    """
    hits = total = 0
    for guess, gold in zip(guesses, golds, strict=True):
        hits += len(guess & gold.sure) + len(guess & gold.possible)
        total += len(guess) + len(gold.sure)
    return 1 - hits / max(1, total)
