"""Cloze reading comprehension: loss and predicted answers of a batch."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from configs.base import Config
from data.cloze import ClozeCorpus
from tasks.losses import summed
from tasks.registry import make_model
from tasks.task import LabelledInput, Params, Predicted, PredictionTask, drop_words


class Cloze(PredictionTask):
    """Cloze task: the corpus of questions and the reader that `config` describes."""

    corpus = ClozeCorpus
    loss_unit = "questions"
    token_axes = (("embed/embedding", 0, "words"),)
    word_field = "passage"

    def build(self, config: Config) -> None:
        self.words = self.prepared.vocabularies["words"]
        data = config.data
        self._anonymous = data.anonymous_ids if data.anonymous != "none" else 0
        self.model = make_model(config, len(self.words) + self._anonymous)

    def token_names(self, vocabulary: str) -> list[str]:
        """Return the words, followed by one name per id of an anonymous word."""
        # The space distinguishes these names from all words, which the tokenizer splits at spaces.
        anonymous = [f"anonymous {i}" for i in range(self._anonymous)]
        return super().token_names(vocabulary) + anonymous

    def init(self, key: Key[Array, ""]) -> Params:
        """Return initial parameters of the model."""
        word = jnp.ones((1, 1), jnp.int32)
        return self.model.init(key, word, word)["params"]

    def loss(
        self,
        params: Params,
        batch: dict[str, Array],
        key: Key[Array, ""] | None = None,
    ) -> dict[str, Array]:
        """Return sums over questions: −log p(answer) (Cui 2017 eq. 11) and correct answers."""
        p, _ = self._probabilities(params, batch, key)
        answer = jnp.maximum(batch["answer"] - 1, 0)
        p_answer = jnp.take_along_axis(p, answer[:, None], axis=1)[:, 0]
        values = {
            "loss": -jnp.log(jnp.maximum(p_answer, 1e-30)),
            "accuracy": p.argmax(axis=1) + 1 == batch["answer"],
        }
        sums = summed(values, batch["index"] >= 0)
        return sums | {"examples": sums["count"]}

    def predict(self, params: Params, batch: dict[str, Array]) -> Predicted:
        """Return the number of the most probable candidate, all probabilities and the attention.

        Candidates are numbered from 1, because 0 is padding.
        """
        p, weights = self._probabilities(params, batch)
        predicted = {"answer": p.argmax(axis=1) + 1, "p": p.max(axis=1), "probabilities": p}
        return predicted, weights

    def labelled_input(
        self, fields: Mapping[str, Any], text: Mapping[str, Any], p: Mapping[str, Any]
    ) -> LabelledInput:
        passage, query = len(text["passage"]), len(text["query"])
        crops = {"s": (slice(passage),), "alpha": (slice(query), slice(passage)),
                 "beta": (slice(query),)}  # fmt: skip
        candidates = text["candidates"]
        return LabelledInput(
            text,
            candidates[int(p["answer"]) - 1],
            float(p["p"]),
            dict(zip(candidates, p["probabilities"].tolist(), strict=False)),
            {name: p[name][crop] for name, crop in crops.items() if name in p},
        )

    def _probabilities(
        self, params: Params, batch: dict[str, Array], key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "b k"], dict[str, Array]]:
        """Return the probability of each candidate, and a dictionary of attention weights.

        The probability of a candidate is the sum of the attention weights s over its occurrences in
        the passage.
        """
        texts, rngs = (batch["passage"], batch["query"]), {}
        if key is not None:
            rngs, rate = {"dropout": key}, self.config.train.word_dropout
            keys = (jax.random.fold_in(key, i) for i in (1, 2))
            texts = [drop_words(x, rate, k) for x, k in zip(texts, keys, strict=True)]
        s, weights = self.model.apply({"params": params}, *texts, key is None, rngs=rngs)
        occurrences = jax.nn.one_hot(batch["candidate"] - 1, self.config.data.max_candidates)
        return jnp.einsum("bn,bnk->bk", s, occurrences), {"s": s, **weights}
