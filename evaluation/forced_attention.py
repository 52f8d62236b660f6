"""Attention under teacher forcing: statistics, word links and heat maps of a split."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from data.links import Link, parse_links, words_of_tokens
from data.pair import Pair
from data.tokenizers import JOINER
from decoding.forced import Attentions
from evaluation.alignment import LinkSettings, alignment_error_rate, attention_links
from evaluation.links import Aligner, Bitext, symmetrize_all
from evaluation.statistics import AttentionStatistics, measure
from tasks.translation import Translation


class ForcedAttention:
    """Accumulates statistics of a split's attention under teacher forcing with the references.

    The attention of the sentence pairs in `drawn` is kept, so that `draw_heads` can draw it.
    `settings` determine how attention weights become word links.
    """

    def __init__(
        self,
        task: Translation,
        pairs: list[Pair],
        drawn: Sequence[Pair] = (),
        settings: LinkSettings | None = None,
    ):
        self.task, self.pairs, self.settings = task, pairs, settings or LinkSettings()
        self.statistics: dict[str, AttentionStatistics] = {}
        # Word links by name of the attention weights and by pair index. Pairs without gold links
        # have only the links of the chosen weights.
        self._links: dict[str, dict[int, set[Link]]] = {}
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
        text = self._bitext(pair)
        source = words_of_tokens(self.task.source.tokens(text.source), text.source_words)
        target = words_of_tokens(self.task.target.tokens(text.target), text.target_words)
        for name, weights in named.items():
            if pair.alignment or name == self.settings.weights:
                links = attention_links(weights, source, target, self.settings.threshold)
                self._links.setdefault(name, {})[i] = links

    def _bitext(self, pair: Pair) -> Bitext:
        """Return a sentence pair with the words to which its gold links refer."""
        task = self.task
        source = task.gold_words(pair.source, task.source)
        target = task.gold_words(pair.target, task.target)
        return Bitext(pair.source, pair.target, source, target)

    def links(self, reverse: Aligner | None) -> list[set[Link]]:
        """Return the word links of all pairs, symmetrized with those of `reverse`.

        The result is empty if the model has no attention.
        """
        found = self._links.get(self.settings.weights, {})
        links = [found[i] for i in sorted(found)]
        if not links or reverse is None:
            return links
        bitexts = [self._bitext(self.pairs[i]) for i in sorted(found)]
        return symmetrize_all(links, reverse, bitexts, self.settings.symmetrize)

    def alignment_errors(self) -> dict[str, float]:
        """Map names of attention weights to alignment error rates.

        The result is empty if the corpus has no gold links or the model has no attention.
        """
        errors = {name: self.alignment_error(links) for name, links in self._links.items()}
        return {name: error for name, error in errors.items() if error is not None}

    def alignment_error(self, links: Mapping[int, set[Link]]) -> float | None:
        """Return the error rate of links, given by pair index; None if no pair has gold links."""
        golds = {i: parse_links(self.pairs[i].alignment) for i in links if self.pairs[i].alignment}
        return alignment_error_rate([links[i] for i in golds], golds.values()) if golds else None

    def by_position(self) -> list[dict[str, float]]:
        """Return attention statistics by target position; the list is empty without attention."""
        statistics = self.statistics.get("attention")
        return [s._asdict() for s in statistics.by_position()] if statistics else []

    def draw_heads(self, folder: Path) -> None:
        """Draw the attention of all heads of all layers, if the model has attention heads."""
        for number, i in enumerate(self._drawn):
            heads = {name: x for name, x in self._kept[i].items() if " head " in name}
            if heads:
                from evaluation import pictures  # here, because importing matplotlib is slow

                pair, task = self.pairs[i], self.task
                source = readable([*task.source.tokens(pair.source), "</s>"])
                target = readable([*task.target.tokens(pair.target), "</s>"])
                layers = len({name.partition(" head ")[0] for name in heads})
                path = folder / f"heads-{number}.png"
                title = "attention while the decoder reads the reference (teacher forcing)"
                pictures.heat_maps(heads, layers, source, target, title, path)


def readable(tokens: list[str]) -> list[str]:
    """Return the tokens without the joiner marks of the tokenizer."""
    return [token.removeprefix(JOINER) for token in tokens]
