"""Translates a split and scores it."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from data.pair import Pair
from data.tokenizers import JOINER
from data.vocabulary import PAD
from decoding.beam import beam_search
from decoding.greedy import Decoded, greedy
from evaluation.alignment import alignment_error_rate, attention_links, parse_links
from evaluation.pictures import heat_map, heat_maps
from evaluation.scores import signatures, text_scores, tokenised_bleu
from tasks.translation import Params, Translation
from training.devices import put, replicated
from training.loop import Evaluation, means


class Translated(NamedTuple):
    """One sentence of a split."""

    pair: Pair
    hypothesis: str
    tokens: np.ndarray  # of the hypothesis, </s> included
    attention: np.ndarray | None  # [tokens, source tokens], </s> included on both sides


class Evaluator:
    """Losses and translations of a task's splits; compiled once a bucket, then reused."""

    def __init__(self, task: Translation, mesh: Mesh, beam: int = 1):
        self.task, self.mesh, self.beam = task, mesh, beam
        # Results go to every host, for each of them scores the whole split.
        everywhere = replicated(mesh)
        self._loss = jax.jit(task.loss, out_shardings=everywhere)
        self._force = jax.jit(self._attentions, out_shardings=everywhere)
        self._translate = jax.jit(
            self._decode, static_argnames="attention", out_shardings=everywhere
        )

    def _decode(
        self, params: Params, batch: dict[str, jax.Array], attention: bool
    ) -> tuple[dict[str, jax.Array], Decoded]:
        task, settings, source = self.task, self.task.config.decode, batch["source"]
        words = (source != PAD).sum(axis=1) - 1

        def longest(words: Any) -> Any:
            return (words * settings.max_ratio + settings.max_extra).astype(int)

        length = int(longest(np.float64(source.shape[1])))
        limit = jnp.where(words < 0, 0, longest(words))
        shortest = (words * settings.min_ratio).astype(int)
        memory = task.encode(params, source)
        if self.beam > 1:  # a row of the model for every hypothesis
            memory = jax.tree.map(lambda x: jnp.repeat(x, self.beam, axis=0), memory)
        weigh = attention or (self.beam > 1 and settings.coverage > 0)

        def step(state: Any, tokens: jax.Array) -> tuple[jax.Array, Any, jax.Array | None]:
            return task.step(params, memory, state, tokens, weigh)

        state = task.start(params, memory, length)
        if self.beam == 1:
            return batch, greedy(step, state, len(source), limit, length, shortest)
        found = beam_search(
            step, state, len(source), limit, length, settings, self.beam, shortest, source != PAD
        )
        best = jax.tree.map(lambda x: x[:, 0], found)
        return batch, Decoded(best.tokens, best.log_p, best.attention)

    def _attentions(
        self, params: Params, batch: dict[str, jax.Array]
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        return batch, self.task.attentions(params, batch["source"], batch["target"])

    def losses(self, params: Params, split: str) -> dict[str, float]:
        """Loss, accuracy and perplexity a token, over the whole split."""
        # Fetched at the end, so that the devices need not wait for us between batches.
        every = jax.device_get([self._loss(params, batch) for batch in self._batches(split)])
        values = means({name: sum(float(s[name]) for s in every) for name in every[0]})
        loss = values["loss"]
        perplexity = math.exp(min(loss, 700))
        return {"loss": loss, "perplexity": perplexity, "accuracy": values["accuracy"]}

    def forced_attention(
        self, params: Params, split: str
    ) -> list[tuple[Pair, dict[str, np.ndarray]]]:
        """The attention with which the model reads each source while it is told the reference; by
        name, as Translation.attentions has it."""
        pairs = self.task.split(split)[0].texts()
        results: list[Any] = [None] * len(pairs)
        for batch in self._batches(split):
            whole, named = jax.device_get(self._force(params, batch))
            for row, i in enumerate(whole["index"]):
                if i >= 0:
                    t, s = ((whole[side][row] != PAD).sum() for side in ("target", "source"))
                    own = {name: weights[row, :t, :s] for name, weights in named.items()}
                    results[i] = (pairs[i], own)
        return results

    def translate(self, params: Params, split: str, attention: bool = False) -> list[Translated]:
        """Every sentence of the split in the corpus' order."""
        pairs = self.task.split(split)[0].texts()
        results: list[Translated | None] = [None] * len(pairs)
        for batch in self._batches(split):
            whole, decoded = jax.device_get(self._translate(params, batch, attention=attention))
            for row, i in enumerate(whole["index"]):
                if i >= 0:
                    results[i] = self._one(pairs[i], whole["source"][row], decoded, row)
        assert None not in results, "a sentence was in no batch"
        return [result for result in results if result is not None]

    def _one(self, pair: Pair, source: np.ndarray, decoded: Decoded, row: int) -> Translated:
        tokens = np.asarray(decoded.tokens[row])
        tokens = tokens[tokens != PAD]
        weights = None
        if decoded.attention is not None:
            weights = np.asarray(decoded.attention[row])
            weights = weights[: len(tokens), : int((source != PAD).sum())]
        return Translated(pair, self.task.target.decode(tokens), tokens, weights)

    def _batches(self, split: str) -> Iterator[dict[str, jax.Array]]:
        for batch in self.task.eval_batches(split, jax.process_index(), jax.process_count()):
            yield put(batch, self.mesh)


def score(task: Translation, translated: list[Translated]) -> dict[str, float]:
    hypotheses = [t.hypothesis for t in translated]
    references = [task.target.surface(t.pair.target) for t in translated]
    return text_scores(hypotheses, references, task.lowercase)


def make_evaluate(task: Translation, mesh: Mesh) -> Callable[[Params], Evaluation]:
    """What the trainer calls: scores and samples of the validation split."""
    evaluator = Evaluator(task, mesh)
    wanted = task.config.train.samples

    def evaluate(params: Params) -> Evaluation:
        translated = evaluator.translate(params, "valid")
        scores = evaluator.losses(params, "valid") | score(task, translated)
        shown = translated[:: max(1, len(translated) // max(1, wanted))][:wanted]
        return Evaluation(scores, [sample(task, t) for t in shown])

    return evaluate


def sample(task: Translation, t: Translated) -> dict[str, str]:
    source, reference = task.source.surface(t.pair.source), task.target.surface(t.pair.target)
    return {"source": source, "ours": t.hypothesis, "reference": reference}


def report(
    task: Translation,
    params: Params,
    mesh: Mesh,
    split: str,
    steps: list[int],
    beam: int,
    folder: Path,
    pictures: int,
) -> None:
    """Scores a split, prints the scores, and writes them to `folder` with all that was decoded."""
    evaluator = Evaluator(task, mesh, beam)
    translated = evaluator.translate(params, split, attention=pictures > 0)
    scores = evaluator.losses(params, split) | score(task, translated)
    scores["tokenised_bleu"] = tokenised_bleu(
        [task.target.words(t.hypothesis) for t in translated],
        [task.target.words(task.target.surface(t.pair.target)) for t in translated],
    )
    forced, errors = [], {}
    if pictures or translated[0].pair.alignment:
        forced = evaluator.forced_attention(params, split)
        errors = alignment_errors(forced)
    if errors:
        scores["alignment_error"] = errors.pop("attention")
    signed = signatures(task.lowercase)
    result = {
        "split": split, "checkpoints": steps, "sentences": len(translated), "beam": beam,
        "scores": scores, "signatures": signed,
    }  # fmt: skip
    if errors:
        result["alignment_error_by_head"] = errors
    (folder / "scores.json").write_text(
        json.dumps(result | {"scores": scores, "signatures": signed}, indent=2) + "\n"
    )
    lines = "".join(t.hypothesis.replace("\n", " ") + "\n" for t in translated)
    (folder / "hypotheses.txt").write_text(lines, "utf-8")
    for t in translated[:: max(1, len(translated) // 5)][:5]:
        print(
            "\n".join(f"{name:>15}: {text}" for name, text in sample(task, t).items()), end="\n\n"
        )
    for name, value in scores.items():
        print(f"{name:>15}: {value:.4f}  {signed.get(name, '')}".rstrip())
    _draw(task, translated, folder, pictures)
    _draw_heads(task, forced, folder, pictures)


def alignment_errors(forced: list[tuple[Pair, dict[str, np.ndarray]]]) -> dict[str, float]:
    """By name of the attention; empty where the corpus has no gold links or the model looks at
    nothing."""
    if not forced[0][0].alignment:
        return {}
    golds = [parse_links(pair.alignment) for pair, _ in forced]
    return {
        name: alignment_error_rate([attention_links(named[name]) for _, named in forced], golds)
        for name in forced[0][1]
    }


def _draw(task: Translation, translated: list[Translated], folder: Path, count: int) -> None:
    for number, t in enumerate(translated[:count]):
        if t.attention is None:
            return  # a model without attention
        source = [*task.source.tokens(t.pair.source), "</s>"]
        target = [task.target.token(i) for i in t.tokens]
        heat_map(t.attention, _shown(source), _shown(target), folder / f"attention-{number}.png")


def _draw_heads(
    task: Translation,
    forced: list[tuple[Pair, dict[str, np.ndarray]]],
    folder: Path,
    count: int,
) -> None:
    """All heads of all layers, of a model that has several, under the references."""
    for number, (pair, named) in enumerate(forced[:count]):
        heads = {name: weights for name, weights in named.items() if "head" in name}
        if not heads:
            return
        source, target = (
            [*vocabulary.tokens(text), "</s>"]
            for vocabulary, text in ((task.source, pair.source), (task.target, pair.target))
        )
        layers = len({name.partition(" head")[0] for name in heads})
        path = folder / f"heads-{number}.png"
        heat_maps(heads, layers, _shown(source), _shown(target), path)


def _shown(tokens: list[str]) -> list[str]:
    return [token.removeprefix(JOINER) for token in tokens]
