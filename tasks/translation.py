"""Translation: what a batch is, its loss, and the four calls that decoding needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import Array

from configs.base import Config
from data.pair import Pair
from data.tokenizers import make_tokenizer
from data.translation import only_vocabularies, prepare
from data.vocabulary import BOS, PAD, Vocabulary
from models.output import logits
from models.seq2seq import make_seq2seq
from models.transformer import make_transformer
from tasks.losses import cross_entropy, doubly_stochastic, reinforce
from tasks.task import Params, Task

TRANSLATORS: dict[str, Callable[..., nn.Module]] = {
    "seq2seq": make_seq2seq,
    "transformer": make_transformer,
}

MATRICES = ("kernel", "embedding", "W", "U")  # parameters that models use in their dtype only


class Translation(Task):
    """A corpus and a translator for it, as `config` describes them."""

    def __init__(self, config: Config, vocabularies: Path | None = None):
        """With the `vocabularies` that a run keeps, a translator without its corpus."""
        if vocabularies is None:
            super().__init__(config, prepare(config.data))
        else:
            super().__init__(config, only_vocabularies(config.data, vocabularies))
        self.source, self.target = (self.prepared.vocabularies[n] for n in ("source", "target"))
        self.model = TRANSLATORS[config.model.name](
            config.model, len(self.source), len(self.target), config.data.reverse_source
        )

    def pairs(self, split: str) -> list[Pair]:
        """The sentences of a split as text, in the corpus' order."""
        return [Pair(**text) for text in self.split(split)[0].texts()]

    def gold_words(self, line: str, vocabulary: Vocabulary) -> list[str]:
        """The words that a corpus' gold alignment counts, in one of its lines."""
        if self.config.data.corpus == "dates":
            return make_tokenizer("unicode", "").words(line)
        return vocabulary.surface(line).split()

    def scored_words(self, text: str) -> list[str]:
        """Of the target, as scores over words count them."""
        return self.target.words(text.lower() if self.lowercase else text)

    @property
    def lowercase(self) -> bool:
        """Whether the target has no capitals, so that scores must not ask for them."""
        data = self.config.data
        return (data.source_vocab if data.shared_vocab else data.target_vocab).lowercase

    # Training.

    def init(self, key: Array) -> Params:
        token = jnp.full((1, 1), BOS)
        return self.model.init(key, token, token != PAD, token)["params"]

    counted = "tokens"
    averages = ("nll",)  # what hard attention compares its rewards with

    def loss(
        self,
        params: Params,
        batch: dict[str, Array],
        key: Array | None = None,
        averages: dict[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Sums over target tokens. With a key, dropout acts and hard attention samples."""
        settings, deterministic = self.config.train, key is None
        rngs = {} if key is None else {"dropout": key, "sample": jax.random.fold_in(key, 1)}
        target, mask = batch["target"], batch["source"] != PAD
        # Evaluation wants the plain loss, whatever training smooths and punishes.
        smoothing = 0.0 if deterministic else settings.label_smoothing
        penalised = settings.doubly_stochastic > 0 and not deterministic

        def forward(model: Any) -> tuple[Array, Array, Array | None]:
            memory = model.encode(batch["source"], mask, deterministic)
            features, attention = model.decode(
                memory, shift_right(target), deterministic, penalised
            )
            return features, model.output_kernel(), attention

        apply = nn.apply(forward, self.model, mutable=["reinforce"])
        (features, kernel, attention), sown = apply({"params": params}, rngs=rngs)
        nll, sums = cross_entropy(features, kernel, target, smoothing)
        if attention is not None:
            unread = doubly_stochastic(attention, target, mask)
            sums["loss"] += settings.doubly_stochastic * unread
        if sown:
            expected = jnp.zeros(()) if averages is None else averages["nll"]
            terms = _only(sown["reinforce"], target.shape)
            sums["loss"] += reinforce(nll, expected, target, settings.reinforce, **terms)
        return sums

    # Attention.

    def attentions(self, params: Params, source: Array, target: Array) -> dict[str, Array]:
        """Weights [b, t, s] over the source when `target` is forced, by name: "attention", which
        decoding returns as well, and each layer and head of a model that has several."""

        def forward(model: Any) -> Array | None:
            memory = model.encode(source, source != PAD)
            return model.decode(memory, shift_right(target), attention=True)[1]

        apply = nn.apply(forward, self.model, mutable=["attention"])
        weights, asked = apply({"params": params})
        if weights is None:
            return {}
        named = {"attention": weights}
        if asked:
            every = self.model.source_attention(asked["attention"])
            for layer in range(every.shape[1]):
                named[f"layer {layer}"] = every[:, layer].mean(axis=1)
                for head in range(every.shape[2]):
                    named[f"layer {layer} head {head}"] = every[:, layer, head]
        return named

    # Decoding.

    def encode(self, params: Params, source: Array) -> Any:
        return self._call("encode", params, source, source != PAD)

    def decode(
        self, params: Params, memory: Any, target: Array, attention: bool = False
    ) -> tuple[Array, Array | None]:
        """Teacher forcing: logits for every word of `target`, and the attention behind them."""

        def forward(model: Any) -> tuple[Array, Array | None]:
            features, weights = model.decode(memory, shift_right(target), attention=attention)
            return logits(features, model.output_kernel()), weights

        return nn.apply(forward, self.model)({"params": params})

    def cast(self, params: Params) -> Params:
        """Matrices in the type the model computes in: else a loop casts them at every step."""
        dtype = jnp.dtype(self.config.model.dtype)
        return jax.tree_util.tree_map_with_path(
            lambda path, x: x.astype(dtype) if path[-1].key in MATRICES else x, params
        )

    def start(self, params: Params, memory: Any, length: int, hypotheses: int = 1) -> Any:
        """The state before the first of at most `length` words, a row a hypothesis."""
        return self._call("start", params, memory, length, hypotheses)

    def step(
        self, params: Params, memory: Any, state: Any, tokens: Array, attention: bool = False
    ) -> tuple[Array, Any, Array | None]:
        return self._call("step", params, memory, state, tokens, attention)

    def _call(self, method: str, params: Params, *arguments: Any) -> Any:
        return self.model.apply({"params": params}, *arguments, method=method)


def shift_right(target: Array) -> Array:
    """The words a decoder has read when it writes each word of `target`."""
    return jnp.concatenate([jnp.full_like(target[:, :1], BOS), target[:, :-1]], axis=1)


def _only(collection: dict, shape: tuple[int, ...]) -> dict[str, Array]:
    """What one module somewhere in a model has sown, by name; a scan leaves steps of one word."""
    sown: Any = traverse_util.flatten_dict(collection)
    return {path[-1]: values[0].reshape(shape) for path, values in sown.items()}
