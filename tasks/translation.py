"""Translation: the loss of a batch, and the attention of a model."""

from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import Array
from jaxtyping import Float, Int, Key

from configs.base import Config
from data.pair import Pair
from data.tokenizers import make_tokenizer
from data.translation import TranslationCorpus
from data.vocabulary import BOS, PAD, Vocabulary
from tasks.losses import cross_entropy, doubly_stochastic, reinforce
from tasks.registry import make_model
from tasks.task import Params, Task

# Names of parameters that models use in their compute dtype only.
MATRICES = ("kernel", "embedding", "W", "U")


class Translation(Task):
    """A parallel corpus and a translator for it, as `config` describes them."""

    corpus = TranslationCorpus
    counted = "tokens"
    averages = ("nll",)  # the baseline of hard attention

    def __init__(self, config: Config, vocabularies: Path | None = None):
        super().__init__(config, vocabularies)
        self.source, self.target = (self.prepared.vocabularies[n] for n in ("source", "target"))
        sizes = len(self.source), len(self.target)
        self.model = make_model(config, *sizes, config.data.reverse_source)

    def pairs(self, split: str) -> list[Pair]:
        """Return the sentence pairs of a split as text, in the corpus' order."""
        return [Pair(**text) for text in self.split(split)[0].texts()]

    def gold_words(self, line: str, vocabulary: Vocabulary) -> list[str]:
        """Split a line of the corpus into the words that its gold alignment counts."""
        if self.config.data.corpus == "dates":
            return make_tokenizer("unicode", "").words(line)
        return vocabulary.surface(line).split()

    def scored_words(self, text: str) -> list[str]:
        """Split a target text into the words that tokenized scores count."""
        return self.target.words(text.lower() if self.lowercase else text)

    @property
    def lowercase(self) -> bool:
        """Whether the target is lower-cased, so that scores ignore case."""
        data = self.config.data
        return (data.source_vocab if data.shared_vocab else data.target_vocab).lowercase

    def init(self, key: Key[Array, ""]) -> Params:
        token = jnp.full((1, 1), BOS)
        return self.model.init(key, token, token != PAD, token)["params"]

    def loss(
        self,
        params: Params,
        batch: dict[str, Array],
        key: Key[Array, ""] | None = None,
        averages: dict[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Return sums over target tokens. A key turns dropout and hard attention's samples on."""
        settings, deterministic = self.config.train, key is None
        rngs = {} if key is None else {"dropout": key, "sample": jax.random.fold_in(key, 1)}
        target, mask = batch["target"], batch["source"] != PAD
        # Evaluation reports the plain loss, without label smoothing and penalties.
        smoothing = 0.0 if deterministic else settings.label_smoothing
        penalized = settings.doubly_stochastic > 0 and not deterministic

        def forward(model: Any) -> tuple[Array, Array, Array | None]:
            memory = model.encode(batch["source"], mask, deterministic)
            features, attention = model.decode(
                memory, shift_right(target), deterministic, penalized
            )
            return features, model.output_kernel(), attention

        apply = nn.apply(forward, self.model, mutable=["reinforce"])
        (features, kernel, attention), sown = apply({"params": params}, rngs=rngs)
        nll, sums = cross_entropy(features, kernel, target, smoothing)
        if attention is not None:
            penalty = doubly_stochastic(attention, target, mask)
            sums["loss"] += settings.doubly_stochastic * penalty
        if sown:
            baseline = jnp.zeros(()) if averages is None else averages["nll"]
            terms = _sown(sown["reinforce"], target.shape)
            sums["loss"] += reinforce(nll, baseline, target, settings.reinforce, **terms)
        return sums

    def attentions(
        self, params: Params, source: Int[Array, "b s"], target: Int[Array, "b t"]
    ) -> dict[str, Float[Array, "b t s"]]:
        """Return attention weights [b, t, s] under teacher forcing, by name.

        "attention" is what decoding returns too; models with several layers and heads also have
        "layer 0", "layer 0 head 0", and so on.
        """

        def forward(model: Any) -> Array | None:
            memory = model.encode(source, source != PAD)
            return model.decode(memory, shift_right(target), attention=True)[1]

        apply = nn.apply(forward, self.model, mutable=["attention"])
        weights, sown = apply({"params": params})
        if weights is None:
            return {}
        named = {"attention": weights}
        if sown:
            every = self.model.source_attention(sown["attention"])
            for layer in range(every.shape[1]):
                named[f"layer {layer}"] = every[:, layer].mean(axis=1)
                for head in range(every.shape[2]):
                    named[f"layer {layer} head {head}"] = every[:, layer, head]
        return named

    def cast(self, params: Params) -> Params:
        """Cast matrices to the compute dtype, so that decoding does not cast them at every step."""
        dtype = jnp.dtype(self.config.model.dtype)
        return jax.tree_util.tree_map_with_path(
            lambda path, x: x.astype(dtype) if path[-1].key in MATRICES else x, params
        )


def shift_right(target: Int[Array, "b t"]) -> Int[Array, "b t"]:
    """Return the decoder input of teacher forcing: <s>, then the target without its last token."""
    return jnp.concatenate([jnp.full_like(target[:, :1], BOS), target[:, :-1]], axis=1)


def _sown(collection: dict, shape: tuple[int, ...]) -> dict[str, Array]:
    """Return what the attention module has sown, by name, one value per target position."""
    flat: Any = traverse_util.flatten_dict(collection)
    return {path[-1]: values[0].reshape(shape) for path, values in flat.items()}
