"""Give faithfulness measures the same view of every task: decisions, probabilities and tokens.

A decision is one prediction of a model: a target token, a class or an answer. A translation has
several decisions, and the decisions of the other tasks are one per example.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Shaped

from data.store import ArrayFields
from data.vocabulary import EOS, PAD
from evaluation.interventions import delete_token, scaled_embeddings
from models.output import Features, output_scores
from tasks.losses import output_loss
from tasks.task import Params
from tasks.translation import shift_right

ArrayBatch = dict[str, Array]
# Smallest probability whose logarithm is used. A reader gives the probability 0 to an answer that
# no longer occurs in the passage.
SMALLEST_P = 1e-6


class Explained(NamedTuple):
    """The decisions of a batch."""

    log_p: Float[Array, "b t"]  # log-probability of what the model predicts, at least SMALLEST_P
    attention: Float[Array, "b t s"]  # the attention weights that reports show


class Explainer:
    """Base class of the models of tasks, as evaluation/faithfulness.py uses them.

    The positions of axis `s` are source tokens; those of a document include all of its sentences.
    """

    fields: ArrayFields  # the arrays of a batch

    def output_size(self, source_length: int) -> int:
        """Return the number of probabilities that are computed for a decision."""
        raise NotImplementedError

    def decide(self, params: Params, batch: ArrayBatch) -> ArrayBatch:
        """Return the batch with the decisions of the model, which the other methods explain."""
        raise NotImplementedError

    def decisions(self, batch: ArrayBatch) -> Bool[Array, "b t"]:
        """Return a mask of the decisions, without padding."""
        raise NotImplementedError

    def removable(self, batch: ArrayBatch) -> Bool[Array, "b s"]:
        """Return which source tokens can be removed."""
        raise NotImplementedError

    def without(self, batch: ArrayBatch, position: Int[Array, " b"]) -> ArrayBatch:
        """Return the batch without one source token of each example."""
        raise NotImplementedError

    def explain(self, params: Params, batch: ArrayBatch) -> Explained:
        """Return the log-probabilities and the attention weights of the decisions."""
        raise NotImplementedError

    def gradient_input(
        self, params: Params, batch: ArrayBatch, in_chunks: Callable[..., Any]
    ) -> Float[Array, "b t s"]:
        """Return gradient × input of every source token, for log p of every decision."""
        raise NotImplementedError

    def outputs(
        self, params: Params, batch: ArrayBatch
    ) -> Callable[[Int[Array, ""]], tuple[Float[Array, "b v"], Float[Array, "b s"]]]:
        """Return a function of t that computes the probabilities and the weights of decision t.

        Attention weights can be replaced while the function runs.
        """
        raise NotImplementedError


class TranslationExplainer(Explainer):
    """Explains each token of a translation by the source tokens without </s>."""

    def __init__(self, task: Any):
        self.task = task
        self.fields = {name: task.prepared.fields[name] for name in ("source", "target")}

    def output_size(self, source_length: int) -> int:
        # Each vector of a target position has a distribution of its own.
        batch = {"source": jnp.ones((1, source_length), int), "target": jnp.ones((1, 1), int)}
        params = jax.eval_shape(self.task.init, jax.random.key(0))
        features = jax.eval_shape(
            lambda params: self._decode(params, batch, self._encode(params, batch))[0], params
        )
        return len(self.task.target) * math.prod(features.vectors.shape[2:-1])

    def decide(self, params: Params, batch: ArrayBatch) -> ArrayBatch:
        return batch  # the targets are the hypotheses of the model

    def decisions(self, batch: ArrayBatch) -> Bool[Array, "b t"]:
        return batch["target"] != PAD

    def removable(self, batch: ArrayBatch) -> Bool[Array, "b s"]:
        return (batch["source"] != PAD) & (batch["source"] != EOS)

    def without(self, batch: ArrayBatch, position: Int[Array, " b"]) -> ArrayBatch:
        return batch | {"source": delete_token(batch["source"], position)}

    def explain(self, params: Params, batch: ArrayBatch) -> Explained:
        features, weights, kernel = self._decode(params, batch, self._encode(params, batch))
        nll, _ = output_loss(features, kernel, batch["target"], smoothing=0.0)
        return Explained(_clipped(-nll), weights)

    def gradient_input(
        self, params: Params, batch: ArrayBatch, in_chunks: Callable[..., Any]
    ) -> Float[Array, "b t s"]:
        def features_of(scale: Array) -> Features:
            with scaled_embeddings(scale):
                memory = self._encode(params, batch)
            return self._decode(params, batch, memory)[0]

        features, pull = jax.vjp(features_of, jnp.ones(batch["source"].shape))
        kernel = self._apply(params, lambda model: model.output_kernel())

        def total(features: Features) -> Array:
            return -output_loss(features, kernel, batch["target"], smoothing=0.0)[1]["loss"]

        # The features of a position determine log p of its token, so a single backward pass through
        # the output layer is enough. The rest of the model needs one per target position.
        gradients, positions = jax.grad(total)(features), jnp.arange(batch["target"].shape[1])

        def pull_position(t: Array) -> Array:
            here = positions == t
            return pull(jax.tree.map(lambda x: jnp.where(_along(here, x), x, 0), gradients))[0]

        return jnp.moveaxis(in_chunks(pull_position, positions), 0, 1)

    def outputs(
        self, params: Params, batch: ArrayBatch
    ) -> Callable[[Int[Array, ""]], tuple[Float[Array, "b v"], Float[Array, "b s"]]]:
        memory = self._encode(params, batch)

        def decision(t: Array) -> tuple[Array, Array]:
            features, weights, kernel = self._decode(params, batch, memory)
            here = jax.tree.map(lambda x: x[:, t], features)
            return nn.softmax(output_scores(here, kernel)), weights[:, t]

        return decision

    def _apply(self, params: Params, function: Callable[[Any], Any]) -> Any:
        return nn.apply(function, self.task.model)({"params": params})

    def _encode(self, params: Params, batch: ArrayBatch) -> Any:
        source = batch["source"]
        return self._apply(params, lambda model: model.encode(source, source != PAD))

    def _decode(
        self, params: Params, batch: ArrayBatch, memory: Any
    ) -> tuple[Features, Float[Array, "b t s"], Float[Array, "d v"]]:
        tokens = shift_right(batch["target"])
        return self._apply(
            params,
            lambda model: (*model.decode(memory, tokens, attention=True), model.output_kernel()),
        )


def _along(here: Bool[Array, " t"], x: Float[Array, "b t *n"]) -> Bool[Array, "..."]:
    """Add axes to a mask of target positions, so that it can be broadcast to x."""
    return here.reshape(1, -1, *[1] * (x.ndim - 2))


def _clipped(log_p: Float[Array, "*b"]) -> Float[Array, "*b"]:
    return jnp.maximum(log_p, jnp.log(SMALLEST_P))


class PredictionExplainer(Explainer):
    """Explains the class of a text by its words, or the answer to a question by the passage."""

    def __init__(self, task: Any):
        self.task, self.fields = task, task.prepared.fields
        self._text = task.word_field

    def output_size(self, source_length: int) -> int:
        if "passage" in self.fields:
            return self.task.config.data.max_candidates
        return len(self.task.labels)

    def decide(self, params: Params, batch: ArrayBatch) -> ArrayBatch:
        return batch | {"decision": self._predict(params, batch)[0].argmax(axis=-1)}

    def decisions(self, batch: ArrayBatch) -> Bool[Array, "b 1"]:
        return self.removable(batch).any(axis=1, keepdims=True)

    def removable(self, batch: ArrayBatch) -> Bool[Array, "b s"]:
        return _flat(batch[self._text]) != PAD

    def without(self, batch: ArrayBatch, position: Int[Array, " b"]) -> ArrayBatch:
        axes = self.fields[self._text].axes
        names = [name for name, field in self.fields.items() if field.axes == axes]
        return batch | {name: delete_token(batch[name], position) for name in names}

    def explain(self, params: Params, batch: ArrayBatch) -> Explained:
        p, weights = self._predict(params, batch)
        return Explained(self._log_p(p, batch)[:, None], weights[:, None])

    def gradient_input(
        self, params: Params, batch: ArrayBatch, in_chunks: Callable[..., Any]
    ) -> Float[Array, "b 1 s"]:
        def total(scale: Array) -> Array:
            with scaled_embeddings(scale):
                return self._log_p(self._predict(params, batch)[0], batch).sum()

        return jax.grad(total)(jnp.ones(_flat(batch[self._text]).shape))[:, None]

    def outputs(
        self, params: Params, batch: ArrayBatch
    ) -> Callable[[Int[Array, ""]], tuple[Float[Array, "b v"], Float[Array, "b s"]]]:
        return lambda t: self._predict(params, batch)

    def _predict(
        self, params: Params, batch: ArrayBatch
    ) -> tuple[Float[Array, "b v"], Float[Array, "b s"]]:
        predicted, weights = self.task.predict(params, batch)
        return predicted["probabilities"], _flat(source_weights(weights))

    def _log_p(self, p: Float[Array, "b v"], batch: ArrayBatch) -> Float[Array, " b"]:
        chosen = jnp.take_along_axis(p, batch["decision"][:, None], axis=1)[:, 0]
        return jnp.log(jnp.maximum(chosen, SMALLEST_P))


def _flat(x: Shaped[Array, "b *s"]) -> Shaped[Array, "b n"]:
    return x.reshape(x.shape[0], -1)


def source_weights(weights: Mapping[str, Any]) -> Any:
    """Return the weight of each word of a text, or of its passage, from named weights.

    They are the mean over the hops (Lin 2017), the weight of a word in its sentence times that of
    the sentence, with the axes [..., sentence, word] (Yang 2016), or the answer distribution s
    (Cui 2017). The weights may be those of a single example or of a batch, in NumPy or in JAX.
    """
    if "hops" in weights:
        return weights["hops"].mean(axis=-2)
    if "sentences" in weights:
        return weights["words"] * weights["sentences"][..., None]
    return weights["s"]
