"""Attention under teacher forcing: statistics, word links and heat maps of a split."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from data.links import words_of_tokens
from data.pair import Pair
from data.tokenizers import JOINER
from data.vocabulary import Vocabulary
from evaluation.alignment import (
    Gold,
    Link,
    alignment_error_rate,
    attention_links,
    parse_links,
)
from evaluation.evaluator import Attentions
from evaluation.pictures import heat_maps
from evaluation.statistics import AttentionStatistics, measure
from tasks.translation import Translation


class ForcedAttention:
    """Accumulates statistics of a split's attention under teacher forcing with the references.

    The attention of the sentence pairs in `drawn` is kept, so that `draw_heads` can draw it.
    """

    def __init__(self, task: Translation, pairs: list[Pair], drawn: Sequence[Pair] = ()):
        self.task, self.pairs = task, pairs
        self.statistics: dict[str, AttentionStatistics] = {}
        self._links: dict[str, list[tuple[set[Link], Gold]]] = {}
        self._drawn = [pairs.index(pair) for pair in drawn]
        self._kept: dict[int, Attentions] = {}  # attention of the drawn pairs, by pair index

    def add(self, i: int, named: Attentions) -> None:
        """Add the named attention weights of the sentence pair with index i."""
        pair = self.pairs[i]
        if i in self._drawn:
            self._kept[i] = named
        measured = measure(np.stack([*named.values()])) if named else ()
        for name, rows in zip(named, measured, strict=True):
            self.statistics.setdefault(name, AttentionStatistics()).add(rows)
        if pair.alignment:
            gold = parse_links(pair.alignment)
            source = self._words(self.task.source, pair.source)
            target = self._words(self.task.target, pair.target)
            for name, weights in named.items():
                links = attention_links(weights, source, target)
                self._links.setdefault(name, []).append((links, gold))

    def _words(self, vocabulary: Vocabulary, line: str) -> list[int]:
        return words_of_tokens(vocabulary.tokens(line), self.task.gold_words(line, vocabulary))

    def alignment_errors(self) -> dict[str, float]:
        """Map names of attention weights to alignment error rates.

        The result is empty if the corpus has no gold links or the model has no attention.
        """
        return {
            name: alignment_error_rate(*zip(*links, strict=True))
            for name, links in self._links.items()
        }

    def by_position(self) -> list[dict[str, float]]:
        """Return attention statistics by target position; the list is empty without attention."""
        statistics = self.statistics.get("attention")
        return [s._asdict() for s in statistics.by_position()] if statistics else []

    def draw_heads(self, folder: Path) -> None:
        """Draw the attention of all heads of all layers, if the model has attention heads."""
        for number, i in enumerate(self._drawn):
            heads = {name: x for name, x in self._kept[i].items() if " head " in name}
            if heads:
                pair, task = self.pairs[i], self.task
                source = readable([*task.source.tokens(pair.source), "</s>"])
                target = readable([*task.target.tokens(pair.target), "</s>"])
                layers = len({name.partition(" head ")[0] for name in heads})
                path = folder / f"heads-{number}.png"
                heat_maps(heads, layers, source, target, "teacher forcing, reference", path)


def readable(tokens: list[str]) -> list[str]:
    """Return the tokens without the joiner marks of the tokenizer."""
    return [token.removeprefix(JOINER) for token in tokens]
