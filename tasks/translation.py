"""Translation: loss and attention weights of a batch."""

from collections.abc import Iterator
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import Array
from jaxtyping import Float, Int, Key

from configs.base import Config
from configs.schema.seq2seq import MARGINALIZING
from data.pair import Pair
from data.store import axes
from data.tokenizers import make_tokenizer
from data.translation import TranslationCorpus
from data.vocabulary import BOS, PAD, Vocabulary, all_tokens
from models.layers import unroll_layers
from models.output import Features
from tasks.losses import (
    diagonal_distance,
    doubly_stochastic,
    guided_alignment,
    hard_cross_entropy,
    output_loss,
    posterior,
)
from tasks.registry import make_model
from tasks.task import Params, Task

# Models cast the parameters with these names to the compute dtype before using them, so
# `for_decoding` can do so once.
MATRICES = ("kernel", "embedding", "W", "U")


class Translation(Task):
    """Translation task: the parallel corpus and the model that `config` describes."""

    corpus = TranslationCorpus
    loss_unit = "tokens"
    token_axes = (
        ("encoder/embed/embedding", 0, "source"),
        ("source_embed/embedding", 0, "source"),
        ("decoder/embed/embedding", 0, "target"),
        ("target_embed/embedding", 0, "target"),
        ("output/kernel", 1, "target"),
    )

    def build(self, config: Config) -> None:
        self.source, self.target = (self.prepared.vocabularies[n] for n in ("source", "target"))
        self.model = self._make_model(config)

    def tokenization(self, side: str) -> tuple[dict[str, Any], str, list[str]]:
        """Return what determines the tokens and ids of a text of a side, "source" or "target".

        These are the settings of the vocabulary, the language and all tokens.
        """
        data = self.config.data
        settings = self.corpus(data).vocabulary_settings()
        tokens = all_tokens(getattr(self, side))
        return settings.get(side, settings["source"]), data[side], tokens

    def _make_model(self, config: Config) -> Any:
        sizes = len(self.source), len(self.target)
        return make_model(config, *sizes, config.data.reverse_source)

    def train_count(self) -> int:
        split = self.split("train")[0]
        return int(split.lengths[:, axes(split.fields).index("target")].sum())

    def pairs(self, split: str) -> list[Pair]:
        """Return the sentence pairs of a split as text, in the order of the corpus."""
        return [Pair(**text) for text in self.split(split)[0].texts()]

    def gold_words(self, line: str, vocabulary: Vocabulary) -> list[str]:
        """Split a line of the corpus into the words to which its gold alignment refers."""
        if self.config.data.corpus == "dates":
            return make_tokenizer("unicode", "").words(line)
        return vocabulary.surface(line).split()

    def scored_words(self, text: str) -> list[str]:
        """Split a target text into words for metrics that are computed on tokenized text."""
        return self.target.words(text.lower() if self.lowercase else text)

    @property
    def lowercase(self) -> bool:
        """Whether the target vocabulary is lowercased, so that metrics ignore case."""
        data = self.config.data
        return (data.source_vocab if data.shared_vocab else data.target_vocab).lowercase

    def init(self, key: Key[Array, ""]) -> Params:
        """Return initial parameters of the model."""
        token = jnp.full((1, 1), BOS)
        return self.model.init(key, token, token != PAD, token)["params"]

    def loss(
        self, params: Params, batch: dict[str, Array], key: Key[Array, ""] | None = None
    ) -> dict[str, Array]:
        """Return the loss and metrics of a batch, summed over target tokens.

        A `key` selects the training loss, with dropout, label smoothing, penalties and the sampling
        of hard attention. The loss without a key has none of them, so that it can be compared
        between runs with different settings.
        """
        settings, training = self.config.train, key is not None
        rngs = {} if key is None else {"dropout": key, "sample": jax.random.fold_in(key, 1)}
        target, mask = batch["target"], batch["source"] != PAD
        penalized = training and (settings.doubly_stochastic > 0 or settings.guided.weight > 0)

        def forward(model: Any) -> tuple[Features, Array, Array | None]:
            memory = model.encode(batch["source"], mask, not training)
            tokens = shift_right(target)
            features, attention = model.decode(memory, tokens, not training, penalized)
            return features, model.output_kernel(), attention

        apply = nn.apply(forward, self.model, mutable=["auxiliary"])
        (features, kernel, attention), collections = apply({"params": params}, rngs=rngs)
        sown = _sown(collections.get("auxiliary", {}), target.shape)
        smoothing = settings.label_smoothing if training else 0.0
        if "sampled_log_p" in sown:
            sums = hard_cross_entropy(features.vectors, kernel, target, smoothing, settings, sown)
        else:
            _, sums = output_loss(features, kernel, target, smoothing)
        for name, weight, value in self._penalties(batch, attention, sown) if training else ():
            sums[name] = value
            sums["loss"] += weight * value
        return sums

    def _penalties(
        self, batch: dict[str, Array], attention: Array | None, sown: dict[str, Array]
    ) -> Iterator[tuple[str, float, Array]]:
        """Yield the name, weight and value of each term that is added to the training loss."""
        settings, target, mask = self.config.train, batch["target"], batch["source"] != PAD
        if "relative_center" in sown and settings.diagonal > 0:
            value = diagonal_distance(sown["relative_center"], target)
            yield "diagonal", settings.diagonal, value
        if attention is None:
            return
        if settings.guided.weight > 0:
            value = guided_alignment(
                attention, batch["links"], target, mask, settings.guided.unlinked
            )
            yield "guided", settings.guided.weight, value
        if settings.doubly_stochastic > 0:
            value = doubly_stochastic(attention, target, mask)
            yield "doubly_stochastic", settings.doubly_stochastic, value

    def attentions(
        self, params: Params, source: Int[Array, "b s"], target: Int[Array, "b t"]
    ) -> dict[str, Float[Array, "b t s"]]:
        """Return attention weights [b, t, s] under teacher forcing, by name.

        The entry "attention" contains the weights that decoding also returns. Models with several
        layers and heads have the additional entries "layer 0", "layer 0 head 0" and so on. With
        marginal attention, "posterior" contains p(s | y_t), the attention weights given the target
        token y_t.
        """

        def forward(model: Any) -> tuple[Features, Array, Array | None]:
            memory = model.encode(source, source != PAD)
            features, weights = model.decode(memory, shift_right(target), attention=True)
            return features, model.output_kernel(), weights

        apply = nn.apply(forward, self.model, mutable=["attention"])
        (features, kernel, weights), sown = apply({"params": params})
        if weights is None:
            return {}
        named = {"attention": weights}
        if self.config.model.get("attention", {}).get("align") in MARGINALIZING:
            named["posterior"] = posterior(features.vectors, features.mixture, kernel, target)
        if sown:
            by_layer = self.model.source_attention(sown["attention"])
            for layer in range(by_layer.shape[1]):
                named[f"layer {layer}"] = by_layer[:, layer].mean(axis=1)
                for head in range(by_layer.shape[2]):
                    named[f"layer {layer} head {head}"] = by_layer[:, layer, head]
        return named

    def for_decoding(self, params: Params) -> tuple[Any, Params]:
        """Return the model and the parameters for decoding one token at a time.

        The layers of a Transformer are unrolled. Matrices are cast to the compute dtype once,
        instead of at every time step.
        """
        dtype, model = jnp.dtype(self.config.model.dtype), self.model
        cast = jax.tree_util.tree_map_with_path(
            lambda path, x: x.astype(dtype) if path[-1].key in MATRICES else x, params
        )
        if self.config.model.get("scan"):
            config = self.config.copy_and_resolve_references().unlock()
            config.model.scan = False
            model, cast = self._make_model(config), unroll_layers(cast)
        return model, cast


def shift_right(target: Int[Array, "b t"]) -> Int[Array, "b t"]:
    """Return the decoder input for teacher forcing: <s>, then the target without its last token."""
    return jnp.concatenate([jnp.full_like(target[:, :1], BOS), target[:, :-1]], axis=1)


def _sown(collection: dict, shape: tuple[int, ...]) -> dict[str, Array]:
    """Return the values that attention modules have sown, by name, reshaped to `shape`."""
    flat: Any = traverse_util.flatten_dict(collection)
    return {path[-1]: values[0].reshape(shape) for path, values in flat.items()}
