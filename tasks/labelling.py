"""Sequence labelling: predict a label for every time step of a sequence.

A label is a number, a class or a set of notes, depending on the corpus.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Key, Num

from configs.base import Config
from data.labelling import KINDS, NOTES, LabellingCorpus
from data.store import axes
from errors import UserError
from tasks.losses import class_values, summed
from tasks.registry import make_model
from tasks.task import LabelledInput, Params, Predicted, PredictionTask


class Labelling(PredictionTask):
    """Labelling task: the corpus of sequences and the tagger that `config` describes."""

    corpus = LabellingCorpus
    loss_unit = "time steps"
    word_field = "word"

    def build(self, config: Config) -> None:
        self.kind = KINDS[config.data.corpus]
        vocabularies_by_name = self.prepared.vocabularies
        if config.train.eval_metric == "f1" and not vocabularies_by_name["label"].chunks:
            raise UserError(
                "config.train.eval_metric=f1 needs chunk labels, which begin with B- or I-, but "
                "this corpus has none: set config.train.eval_metric=accuracy"
            )
        self.token_axes = [
            # Two merged taggers have the same parameters, under "forward" and "backward".
            (f"{tagger}{parameter}", axis, vocabulary)
            for tagger in ("", "forward/", "backward/")
            for parameter, axis, vocabulary in (
                ("output/kernel", 1, "label"),
                ("output/bias", 0, "label"),
                ("inputs/characters/Embed_0/embedding", 0, "characters"),
                *((f"inputs/{name}/embedding", 0, name) for name in vocabularies_by_name),
            )
        ]
        sizes = {name: len(v) for name, v in vocabularies_by_name.items() if name != "label"}
        outputs = {"values": 1, "notes": NOTES}.get(self.kind) or len(vocabularies_by_name["label"])
        self.model = make_model(config, sizes, outputs)

    def train_count(self) -> int:
        split = self.split("train")[0]
        steps = int(split.lengths[:, axes(split.fields).index("step")].sum())
        return steps - len(split) if self.kind == "notes" else steps

    def init(self, key: Key[Array, ""]) -> Params:
        """Return initial parameters of the model."""
        row = {}
        for name, field in self.prepared.fields.items():
            # Use sequences of two time steps, because the label of a music frame is the next frame.
            shape = (2 if isinstance(axis, str) else axis for axis in field.axes)
            row[name] = jnp.ones((1, *shape), np.dtype(field.dtype))
        return self.model.init(key, *self._inputs(row)[:2])["params"]

    def loss(
        self,
        params: Params,
        batch: dict[str, Array],
        key: Key[Array, ""] | None = None,
    ) -> dict[str, Array]:
        """Return the loss and metrics of a batch, summed over time steps.

        In training, the loss of two merged networks is the sum of their separate losses, so that
        the gradient of one network is independent of the other network. In evaluation, the loss is
        that of the mean output of both networks.
        """
        inputs, mask, label = self._inputs(batch)
        outputs = self._outputs(params, inputs, mask, key)
        values = self._values(outputs.mean(axis=0), label)
        if key is not None:
            losses = [self._values(output, label)["loss"] for output in outputs]
            values["loss"] = jnp.stack(losses).sum(axis=0)
        return summed(values, mask) | {"examples": jnp.sum(batch["length"] > 0, dtype=jnp.float32)}

    def predict(self, params: Params, batch: dict[str, Array]) -> Predicted:
        """Return the predicted value, class label or note probabilities of each time step.

        For class labels, also return the probabilities of all classes.
        """
        inputs, mask, _ = self._inputs(batch)
        outputs = self._outputs(params, inputs, mask).mean(axis=0)
        if self.kind == "classes":
            p = jax.nn.softmax(outputs)
            return {"label": outputs.argmax(axis=-1), "probabilities": p}, {}
        return {"label": jax.nn.sigmoid(outputs) if self.kind == "notes" else outputs}, {}

    def labelled_input(
        self, fields: Mapping[str, Any], text: Mapping[str, Any], p: Mapping[str, Any]
    ) -> LabelledInput:
        # The frame after the end of a piano roll is predicted, but predicts nothing.
        label = p["label"][: fields["length"] - (self.kind == "notes")]
        if self.kind != "classes":
            inputs = fields["x"] if self.kind == "values" else fields["label"][:-1]
            return LabelledInput({**text, "x": np.asarray(inputs)}, label)
        labels = [self.prepared.vocabularies["label"].names[i] for i in label]
        probabilities = p["probabilities"][: len(label)]
        shown = text or {"x": np.asarray(fields["x"])}
        return LabelledInput(shown, labels, probabilities.max(axis=1), probabilities)

    def _inputs(
        self, batch: dict[str, Array]
    ) -> tuple[dict[str, Array], Bool[Array, "b t"], Num[Array, "b t *o"]]:
        """Return the inputs of the model, the mask of time steps, and the labels."""
        label, length = batch["label"], batch["length"]
        if self.kind == "notes":  # the label of a frame is the next frame, so the last has no label
            inputs, label, length = {"x": label[:, :-1]}, label[:, 1:], length - 1
        else:
            inputs = {name: batch[name] for name in self._names}
        mask = jnp.arange(label.shape[1])[None] < length[:, None]
        return inputs, mask, label

    @property
    def _names(self) -> list[str]:
        return [name for name in self.prepared.fields if name not in ("length", "label")]

    def _outputs(
        self,
        params: Params,
        inputs: dict[str, Array],
        mask: Bool[Array, "b t"],
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, "n b t o"]:
        """Return the outputs of the n networks of the model: 2 if it merges two, otherwise 1."""
        rngs = {} if key is None else {"dropout": key}
        return self.model.apply({"params": params}, inputs, mask, key is None, rngs=rngs)

    def _values(
        self, outputs: Float[Array, "b t o"], label: Num[Array, "b t *o"]
    ) -> dict[str, Float[Array, "b t"] | Bool[Array, "b t"]]:
        """Return the loss of each time step; all `class_values` if the targets are class labels."""
        if self.kind == "values":
            return {"loss": jnp.sum((outputs - label) ** 2, axis=-1)}
        if self.kind == "notes":  # the loss of a frame is −log p, summed over its notes
            signs = 1 - 2 * label.astype(jnp.float32)
            return {"loss": jnp.sum(jax.nn.softplus(signs * outputs), axis=-1)}
        return class_values(outputs, label)
