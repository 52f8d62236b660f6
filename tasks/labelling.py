"""Labelling: a number, a class or notes for every step of a sequence."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from configs.base import Config
from data.labelling import KINDS, NOTES, prepare
from errors import UserError
from models.taggers import make_tagger
from tasks.losses import class_values, summed
from tasks.task import Params, Predicted, Task


class Labelling(Task):
    """A corpus of sequences and a tagger for it, as `config` describes them."""

    counted = "time steps"

    def __init__(self, config: Config):
        super().__init__(config, prepare(config.data))
        self.kind = KINDS[config.data.corpus]
        vocabularies = self.prepared.vocabularies
        if config.train.eval_metric == "f1" and not vocabularies["label"].chunks:
            raise UserError(
                "config.train.eval_metric=f1 is of chunks, whose labels begin with B- and I-, and "
                "this corpus has none: set it to accuracy"
            )
        sizes = {name: len(v) for name, v in vocabularies.items() if name != "label"}
        outputs = {"values": 1, "notes": NOTES}.get(self.kind) or len(vocabularies["label"])
        self.model: Any = make_tagger(config.model, sizes, outputs)

    def init(self, key: Array) -> Params:
        batch = next(iter(self.eval_batches("valid")))
        row = {name: jnp.asarray(values[:1]) for name, values in batch.items()}
        return self.model.init(key, *self._inputs(row)[:2])["params"]

    def loss(
        self,
        params: Params,
        batch: dict[str, Array],
        key: Array | None = None,
        averages: dict[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Sums over steps. Merged networks have no part in each other's gradient; scores are of
        their mean, the loss to learn by is the sum of both."""
        inputs, mask, label = self._inputs(batch)
        outputs = self._outputs(params, inputs, mask, key)
        values = self._values(outputs.mean(axis=0), label)
        if key is not None:
            each = [self._values(own, label)["loss"] for own in outputs]
            values["loss"] = jnp.stack(each).sum(axis=0)
        return summed(values, mask) | {"examples": jnp.sum(batch["length"] > 0, dtype=jnp.float32)}

    def predict(self, params: Params, batch: dict[str, Array]) -> Predicted:
        """For every step a number, the likeliest class, or the probabilities of the notes."""
        inputs, mask, _ = self._inputs(batch)
        outputs = self._outputs(params, inputs, mask).mean(axis=0)
        if self.kind == "classes":
            return {"label": outputs.argmax(axis=-1)}, {}
        return {"label": jax.nn.sigmoid(outputs) if self.kind == "notes" else outputs}, {}

    def _inputs(self, batch: dict[str, Array]) -> tuple[dict[str, Array], Array, Array]:
        """What is read, which steps are real, and what they should be labelled with."""
        label, length = batch["label"], batch["length"]
        if self.kind == "notes":  # the next frame is the label, so the last one has none
            inputs, label, length = {"x": label[:, :-1]}, label[:, 1:], length - 1
        else:
            inputs = {name: batch[name] for name in self._names}
        mask = jnp.arange(label.shape[1])[None] < length[:, None]
        return inputs, mask, label

    @property
    def _names(self) -> list[str]:
        return [name for name in self.prepared.fields if name not in ("length", "label")]

    def _outputs(
        self, params: Params, inputs: dict[str, Array], mask: Array, key: Array | None = None
    ) -> Array:
        rngs = {} if key is None else {"dropout": key}
        return self.model.apply({"params": params}, inputs, mask, key is None, rngs=rngs)

    def _values(self, outputs: Array, label: Array) -> dict[str, Array]:
        """The loss of every step, and whether its class is right."""
        if self.kind == "values":
            return {"loss": jnp.sum((outputs - label) ** 2, axis=-1)}
        if self.kind == "notes":  # −log p of a frame, over all notes
            signs = 1 - 2 * label.astype(jnp.float32)
            return {"loss": jnp.sum(jax.nn.softplus(signs * outputs), axis=-1)}
        return class_values(outputs, label)
