"""Forced decoding: probabilities of given translations, and search after a given prefix."""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Float, Int

from configs.base import Config
from data.batches import Batch, padded_batches
from data.translation import FIELDS
from data.vocabulary import EOS, PAD
from decoding.greedy import Step
from decoding.groups import CompiledShapes, batch_rows, length_groups
from errors import UserError
from models.output import Features, output_scores
from tasks.losses import output_loss
from tasks.task import Params
from tasks.translation import Translation, shift_right
from training.devices import batch_results, compiled

# Attention weights [target, source] of one sentence pair, by name.
Attentions = dict[str, Float[np.ndarray, "t s"]]


class ForcedDecoder:
    """Compute probabilities and attention weights of given translations by teacher forcing.

    `settings` is config.decode. Several tasks form an ensemble and must have equal vocabularies.
    The methods take one set of parameters per task. Every batch shape is compiled once.
    """

    def __init__(self, tasks: Sequence[Translation], mesh: Mesh, settings: Config):
        check_ensemble(tasks)
        self.tasks, self.mesh, self.settings = tasks, mesh, settings
        self.source, self.target = tasks[0].source, tasks[0].target
        self._score = compiled(mesh, self._target_log_p)
        self.attentions = compiled(mesh, self._attentions, static_argnames="name")
        # The shapes for which each compiled function is compiled, by its static arguments.
        self._shapes: dict[Any, CompiledShapes] = collections.defaultdict(CompiledShapes)

    def score(
        self, params: Sequence[Params], sources: Sequence[str], targets: Sequence[str]
    ) -> list[float]:
        """Return log p of each target given its source (forced decoding).

        An ensemble averages probabilities at every time step, as in decoding.
        """
        results = np.zeros(len(sources))
        for index, log_p in self._on_pairs(self._score, params, sources, targets):
            real = index >= 0  # False for padding rows, which have index −1
            results[index[real]] = log_p[real]
        return results.tolist()

    def attention(
        self,
        params: Sequence[Params],
        sources: Sequence[str],
        targets: Sequence[str],
        name: str = "attention",
    ) -> Iterator[tuple[int, Float[np.ndarray, "t s"]]]:
        """Yield the index of every pair and its attention weights under teacher forcing.

        `name` is one of `attention_names`. An ensemble averages the weights of its models.
        """
        for found in self._on_pairs(self.attentions, params, sources, targets, name=name):
            yield from ((i, named[name]) for i, named in unpadded(*found))

    def attention_names(self, params: Sequence[Params]) -> list[str]:
        """Return the names of the weights that `attention` can compute; [] without attention."""
        token = jax.ShapeDtypeStruct((1, 1), np.int32)
        batch = {"source": token, "target": token}
        return [*jax.eval_shape(self._attentions, params, batch)[1]]

    def _on_pairs(
        self,
        function: Any,
        params: Sequence[Params],
        sources: Sequence[str],
        targets: Sequence[str],
        **options: Any,
    ) -> Iterator[tuple[Any, Any]]:
        """Yield the results of a compiled function for batches of sentence pairs."""
        source = [[*self.source.encode(text), EOS] for text in sources]
        target = [[*self.target.encode(text), EOS] for text in targets]
        shapes = self._shapes[function, *options.values()]
        batches = self._batches(shapes, source=source, target=target)
        return batch_results(function, self.mesh, list(params), batches, ahead=1, **options)

    def _batches(
        self, compiled_shapes: CompiledShapes, **sides: Sequence[Sequence[int]]
    ) -> Iterator[Batch]:
        """Yield batches of the token ids of texts or pairs, with few different widths.

        Both sides of a pair are padded to the same width. Empty texts are in no batch.
        """
        fields = {name: FIELDS[name] for name in sides}
        examples = [dict(zip(sides, ids, strict=True)) for ids in zip(*sides.values(), strict=True)]
        lengths = [max(map(len, example.values())) for example in examples]
        for width, members in length_groups(lengths, self.settings.batch):
            rows = batch_rows(len(members), self.mesh.size, self.settings.batch)
            rows, width = compiled_shapes.fit(rows, width)
            yield from padded_batches(fields, examples, members, rows, [width] * len(fields))

    def _target_log_p(
        self, params: list[Params], batch: dict[str, Array]
    ) -> tuple[Int[Array, " b"], Float[Array, " b"]]:
        """Return the index of each pair of a batch, and log p of its target."""
        source, target = batch["source"], batch["target"]
        members = zip(self.tasks, params, strict=True)
        log_p = jnp.stack([log_probability(task.model, p, source, target) for task, p in members])
        mean = jax.nn.logsumexp(log_p, axis=0) - jnp.log(len(self.tasks))
        return batch["index"], jnp.sum(mean, axis=1, where=target != PAD)

    def _attentions(
        self, params: Sequence[Params], batch: dict[str, Array], name: str | None = None
    ) -> tuple[dict[str, Array], dict[str, Float[Array, "b t s"]]]:
        """Return a batch and its attention weights, named as in Translation.attentions.

        They are means over the models with attention, and have the names that all of these models
        have. With `name`, only the weights with this name are returned.
        """
        members = zip(self.tasks, params, strict=True)
        named = [task.attentions(p, batch["source"], batch["target"]) for task, p in members]
        named = [weights for weights in named if weights] or [{}]
        names = [n for n in named[0] if name in (None, n) and all(n in other for other in named)]
        return batch, {n: jnp.stack([weights[n] for weights in named]).mean(axis=0) for n in names}


def unpadded(
    batch: Mapping[str, np.ndarray], named: Mapping[str, np.ndarray]
) -> Iterator[tuple[int, Attentions]]:
    """Yield the index of every example of a batch and its attention weights, without padding."""
    for row, i in enumerate(map(int, batch["index"])):
        if i >= 0:
            t, s = ((batch[side][row] != PAD).sum() for side in ("target", "source"))
            yield i, {name: weights[row, :t, :s].copy() for name, weights in named.items()}


def check_ensemble(tasks: Sequence[Translation]) -> None:
    """Raise UserError if translation runs cannot form an ensemble."""
    first = tasks[0]
    for other in tasks[1:]:
        for side in ("source", "target"):
            if first.tokenization(side) != other.tokenization(side):
                raise UserError(
                    f"these runs cannot form an ensemble, because their {side} vocabularies or "
                    "tokenizers differ: train them on the same corpus with the same vocabulary "
                    "settings"
                )


def log_probability(
    model: nn.Module, params: Params, source: Int[Array, "b s"], target: Int[Array, "b t"]
) -> Float[Array, "b t"]:
    """Return log p of each target token, given the source and the preceding target tokens.

    It is 0 for padding.
    """

    def forward(model: Any) -> tuple[Features, Array]:
        memory = model.encode(source, source != PAD)
        return model.decode(memory, shift_right(target))[0], model.output_kernel()

    features, kernel = nn.apply(forward, model)({"params": params})
    return -output_loss(features, kernel, target, smoothing=0.0)[0]


def next_log_p(
    model: nn.Module,
    params: Params,
    source: Int[Array, "b s"],
    prefix: Int[Array, "b t"],
    position: Int[Array, ""],
) -> Float[Array, "b v"]:
    """Return log p of every token at a target position, given the tokens of `prefix` before it."""

    def forward(model: Any) -> Float[Array, "b v"]:
        memory = model.encode(source, source != PAD)
        features, _ = model.decode(memory, shift_right(prefix))
        here = jax.tree.map(lambda x: jnp.take(x, position, axis=1), features)
        return output_scores(here, model.output_kernel())

    return jax.nn.log_softmax(nn.apply(forward, model)({"params": params}).astype(jnp.float32))


def force_prefix(step: Step, state: Any, prefix: Int[Array, "r p"]) -> tuple[Step, Any]:
    """Return a step function that generates the tokens of `prefix` first, and its state.

    There is one prefix per hypothesis, and <pad> follows its last token. A token of the prefix has
    the probability 1, so the scores of hypotheses are those of their other tokens.
    """

    def forced(state: Any, tokens: Int[Array, " r"]) -> tuple[Array, Any, Array | None]:
        state, t = state
        logits, state, weights = step(state, tokens)
        wanted = jnp.take_along_axis(prefix, t[:, None], axis=1, mode="fill", fill_value=PAD)
        other = jnp.arange(logits.shape[-1])[None] != wanted
        return jnp.where((wanted != PAD) & other, -jnp.inf, logits), (state, t + 1), weights

    return forced, (state, jnp.zeros(len(prefix), int))
