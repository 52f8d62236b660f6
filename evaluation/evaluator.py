"""Compute losses, translations and attention weights of a split, for validation and reports."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int

from configs.base import Config
from data.batches import padded_batches
from data.pair import Pair
from data.tokenizers import normalized
from data.translation import FIELDS
from decoding.forced import Attentions, ForcedDecoder, unpadded
from decoding.translator import Hypothesis, Translator
from evaluation.bootstrap import bleu_statistics, text_statistics
from evaluation.examples import ScoredExample
from evaluation.predictions import (
    compile_for_split,
    count_batches,
    mean_losses,
    split_batches,
)
from evaluation.progress import show_progress
from evaluation.scores import text_scores, token_errors
from tasks.task import Params
from tasks.translation import Translation
from training.devices import batch_results, compiled, fetched

LONG = 128  # tokens; the attention of longer sentences is computed one sentence at a time


class Translated(NamedTuple):
    """One sentence of a split and its translations."""

    pair: Pair
    references: list[str]  # detokenized; see `references` below
    hypotheses: list[Hypothesis]  # sorted by score, the best one first

    @property
    def best(self) -> Hypothesis:
        """The hypothesis with the best score."""
        return self.hypotheses[0]


class Evaluator:
    """Computes losses and translations of splits; compiles once per batch shape.

    With `progress`, the methods show how much of a split they have processed.
    """

    def __init__(self, task: Translation, mesh: Mesh, decode: Config, progress: bool = False):
        self.task, self.mesh, self._progress = task, mesh, progress
        self.translator = Translator([task], mesh, decode)
        # `compiled` replicates the results on all hosts: every host scores the whole split.
        self._loss = compiled(mesh, task.loss)

    def losses(self, params: Params, split: str) -> dict[str, float]:
        """Return loss, perplexity and accuracy under teacher forcing, as means over tokens."""
        compile_for_split(self._loss, params, self.task, split, self.mesh)
        batches = split_batches(self.task, split, self.mesh)
        sums = fetched(self._loss(params, batch) for batch in batches)
        number = count_batches(self.task, split)
        values = mean_losses([*show_progress(sums, number, "batches", self._progress)])
        loss = values["loss"]
        perplexity = math.inf if loss > 700 else math.exp(loss)
        return {"loss": loss, "perplexity": perplexity, "accuracy": values["accuracy"]}

    def attention_of(
        self,
        params: Params,
        sources: list[Int[np.ndarray, "_"]],
        targets: list[Int[np.ndarray, "_"]],
    ) -> list[Attentions]:
        """Return the attention weights of sentence pairs, given as token ids that end in </s>.

        The decoder is run with teacher forcing on `targets`.
        """
        rows = -(-min(32, len(sources)) // self.mesh.size) * self.mesh.size
        longest = [max(map(len, side)) for side in (sources, targets)]
        # Each pair of widths is compiled once, so long sentences have few different widths.
        multiple = 8 if max(longest) <= LONG else LONG
        widths = [-(-length // multiple) * multiple for length in longest]
        pairs = [
            dict(zip(FIELDS, pair, strict=True)) for pair in zip(sources, targets, strict=True)
        ]
        batches = padded_batches(FIELDS, pairs, range(len(pairs)), rows, widths)
        function = self.translator.attentions
        results = batch_results(function, self.mesh, [params], batches, ahead=0)
        return [named for found in results for _, named in unpadded(*found)]

    def translate(self, params: Params, split: str, attention: bool = False) -> list[Translated]:
        """Translate every sentence of the split once, in the order of the corpus."""
        return translate_split(
            self.translator, [params], self.task, split, attention, self._progress
        )


def translate_split(
    translator: Translator,
    params: list[Params],
    task: Translation,
    split: str,
    attention: bool = False,
    progress: bool = False,
) -> list[Translated]:
    """Translate every sentence of the split once, in the order of the corpus."""
    together = references(task, split)
    found = translator.translate(params, [pair.source for pair, _ in together], attention)
    hypotheses = dict(show_progress(found, len(together), "sentences", progress))
    return [Translated(pair, texts, hypotheses[i]) for i, (pair, texts) in enumerate(together)]


def forced_attention(
    decoder: ForcedDecoder, params: Sequence[Params], task: Translation, split: str
) -> Iterator[tuple[int, Attentions]]:
    """Yield the index of every sentence pair of a split and its attention under teacher forcing."""
    compile_for_split(decoder.attentions, params, task, split, decoder.mesh)
    batches = split_batches(task, split, decoder.mesh)
    for batch in show_progress(batches, count_batches(task, split), "batches"):
        yield from unpadded(*jax.device_get(decoder.attentions(params, batch)))


def references(task: Translation, split: str) -> list[tuple[Pair, list[str]]]:
    """Return the source sentences of a split with their references.

    If a test set has several reference files, the pairs of a line become one sentence with several
    references; otherwise, if data.several_references is set, the pairs with the same source do. The
    first of these pairs represents the sentence.
    """
    same: dict[str | int, list[Pair]] = {}
    for i, pair in enumerate(task.pairs(split)):
        key = normalized(pair.source) if task.config.data.several_references else i
        same.setdefault(pair.line or key, []).append(pair)
    surface = task.target.surface
    return [(pairs[0], [surface(pair.target) for pair in pairs]) for pairs in same.values()]


def score(task: Translation, translated: list[Translated]) -> dict[str, float]:
    """Return BLEU, chrF and exact match, which are fast enough for every validation."""
    hypotheses = [t.best.text for t in translated]
    return text_scores(hypotheses, [t.references for t in translated], task.lowercase)


def sample(task: Translation, t: Translated) -> dict[str, str]:
    """Return the source, best hypothesis and references of a sentence as text."""
    source = task.source.surface(t.pair.source)
    return {"source": source, "hypothesis": t.best.text, "reference": " | ".join(t.references)}


def translated_examples(task: Translation, translated: list[Translated]) -> list[ScoredExample]:
    """Return the sentences of a split with their best hypotheses, for examples.jsonl."""
    texts, references = [t.best.text for t in translated], [t.references for t in translated]
    words = [task.scored_words(text) for text in texts]
    reference_words = [[task.scored_words(text) for text in several] for several in references]
    found = text_statistics(texts, references, task.lowercase)
    found["tokenized_bleu"] = bleu_statistics(words, reference_words)
    statistics = {name: rows.tolist() for name, rows in found.items()}
    statistics["token_error"] = token_errors(words, reference_words)
    return [
        ScoredExample(
            task.source.surface(t.pair.source), t.references, t.best.text,
            {name: rows[i] for name, rows in statistics.items()},
        )
        for i, t in enumerate(translated)
    ]  # fmt: skip
