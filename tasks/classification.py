"""Text classification: loss and predictions of a batch."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Key

from configs.base import Config
from data.classification import ClassificationCorpus
from tasks.losses import class_values, penalty, summed
from tasks.registry import make_model
from tasks.task import LabelledInput, Params, Predicted, PredictionTask, drop_words


class Classification(PredictionTask):
    """Text classification task: the corpus and the classifier that `config` describes."""

    corpus = ClassificationCorpus
    loss_unit = "texts"
    token_axes = (
        ("embed/embedding", 0, "words"),
        ("output/kernel", 1, "label"),
        ("output/bias", 0, "label"),
    )
    word_field = "words"
    empty_input = LabelledInput({"words": []}, probabilities={})

    def build(self, config: Config) -> None:
        self.words, self.labels = (self.prepared.vocabularies[n] for n in ("words", "label"))
        self.model = make_model(config, len(self.words), len(self.labels))

    def init(self, key: Key[Array, ""]) -> Params:
        """Return initial parameters of the model."""
        shape = (1, 1, 1) if self.config.data.documents else (1, 1)
        return self.model.init(key, jnp.ones(shape, jnp.int32))["params"]

    def loss(
        self,
        params: Params,
        batch: dict[str, Array],
        key: Key[Array, ""] | None = None,
    ) -> dict[str, Array]:
        """Return the loss and metrics of a batch, summed over texts."""
        settings, words, rngs = self.config.train, batch["words"], {}
        if key is not None:
            rngs = {"dropout": key}
            words = drop_words(words, settings.word_dropout, jax.random.fold_in(key, 1))
        logits, weights = self.model.apply({"params": params}, words, key is None, rngs=rngs)
        real = batch["index"] >= 0
        if key is None:
            values = class_values(logits, batch["label"])
        else:
            values = class_values(logits, batch["label"], settings.label_smoothing)
            if settings.penalty:
                values["loss"] += settings.penalty * penalty(weights["hops"])
        sums = summed(values, real)
        return sums | {"examples": sums["count"]}

    def predict(self, params: Params, batch: dict[str, Array]) -> Predicted:
        """Return the most probable class labels, all probabilities and the attention weights."""
        logits, weights = self.model.apply({"params": params}, batch["words"])
        p = nn.softmax(logits)
        return {"label": p.argmax(axis=-1), "p": p.max(axis=-1), "probabilities": p}, weights

    def labelled_input(
        self, fields: Mapping[str, Any], text: Mapping[str, Any], p: Mapping[str, Any]
    ) -> LabelledInput:
        names, shape = self.labels.names, np.shape(fields["words"])
        crops = {"hops": (slice(None), slice(shape[-1])), "words": tuple(map(slice, shape)),
                 "sentences": (slice(shape[0]),)}  # fmt: skip
        return LabelledInput(
            text,
            names[int(p["label"])],
            float(p["p"]),
            dict(zip(names, p["probabilities"].tolist(), strict=True)),
            {name: p[name][crop] for name, crop in crops.items() if name in p},
        )
