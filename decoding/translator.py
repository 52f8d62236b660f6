"""Translation of texts with one model or an ensemble, with the settings of config.decode.

Texts are batched by length into a few shapes, because every shape needs a compilation.
"""

import copy
import functools
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Int

from configs.base import Config
from data.tokenizers import without_marks
from data.vocabulary import EOS, PAD, UNK
from decoding.beam import Hypotheses, beam_search, penalized
from decoding.ensemble import ensemble
from decoding.forced import ForcedDecoder, force_prefix
from decoding.greedy import Step, greedy
from decoding.next_tokens import most_probable
from decoding.sampling import make_sampler
from models.scan import hoist
from tasks.task import Params
from tasks.translation import Translation
from training.devices import batch_results, compiled

# Settings that are arguments of the compiled search, so that other values need no compilation.
NUMBERS = {"alpha": np.float32, "temperature": np.float32, "seed": np.uint32}


class Hypothesis(NamedTuple):
    """One hypothesis for one text; its tokens end in </s> if it was generated."""

    text: str
    ids: np.ndarray  # token ids in the target vocabulary
    tokens: list[str]  # tokens of the ids; decode.replace_unknown replaces <unk>
    score: float  # log_p with the length and coverage penalties
    log_p: float  # log-probability of the tokens, without penalties
    attention: np.ndarray | None  # [target tokens, source tokens], both with </s>


class Translator(ForcedDecoder):
    """Translate texts, and score given translations; every batch shape is compiled once.

    If decode.replace_unknown is set, unknown words are replaced by source words or their
    translations in `dictionary`. The case of its source words is ignored if the source vocabulary
    is lowercased.
    """

    def __init__(
        self,
        tasks: Sequence[Translation],
        mesh: Mesh,
        settings: Config,
        dictionary: Mapping[str, str] | None = None,
    ):
        super().__init__(tasks, mesh, settings)
        self.dictionary = {
            self._as_read(word): translation for word, translation in (dictionary or {}).items()
        }
        self.numbers = _numbers(**{name: settings[name] for name in NUMBERS})
        self._decode = compiled(mesh, self._search, concurrent=True, static_argnames="attention")

    def _as_read(self, word: str) -> str:
        """Return a source word as it is split into tokens, without the marks of subwords."""
        return " ".join(map(without_marks, self.source.tokens(word)))

    def with_numbers(self, **changes: float) -> "Translator":
        """Return a translator with other values of NUMBERS, which shares the compiled functions.

        The search samples if the temperature in `settings` is positive, whatever its new value.
        """
        other = copy.copy(self)
        other.numbers = self.numbers | _numbers(**changes)
        return other

    def decode(
        self, params: list[Params], batch: dict[str, Array], attention: bool = False
    ) -> tuple[dict[str, Array], Hypotheses]:
        """Return a batch with its hypotheses, as arrays on the devices; see `_search`."""
        return self._decode(params, batch, self.numbers, attention=attention)

    def translate(
        self,
        params: Sequence[Params],
        texts: Sequence[str],
        attention: bool = False,
        first: int = 0,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield the index of every text with its list of hypotheses, in order of increasing length.

        There are at most decode.nbest hypotheses per text. The random numbers of sampling depend on
        `first` plus the index of the text, so calls with different values of `first` draw different
        samples.
        """
        ids = [self.source.encode(text) for text in texts]
        for i, tokens in enumerate(ids):
            if not tokens:
                yield i, [Hypothesis("", np.zeros(0, int), [], 0.0, 0.0, None)]
        for batch, hypotheses in self._decoded(list(params), ids, attention, first):
            for row, i in enumerate(map(int, batch["index"])):
                if i >= 0:
                    yield i, self.hypotheses(texts[i], len(ids[i]), hypotheses, row, attention)

    def _decoded(
        self, params: list[Params], ids: list[list[int]], attention: bool, first: int
    ) -> Iterator[tuple[dict[str, np.ndarray], Hypotheses]]:
        """Yield each batch with its hypotheses while the device decodes the next batch."""
        weights = attention or self.settings.replace_unknown
        with_eos = [[*tokens, EOS] if tokens else [] for tokens in ids]
        batches = [
            batch | {"number": batch["index"] + first}
            for batch in self._batches(self._shapes[self._decode, weights], source=with_eos)
        ]
        return batch_results(
            self._decode, self.mesh, params, batches, self.numbers, ahead=1, attention=weights
        )

    def in_order(
        self, params: Sequence[Params], texts: Sequence[str], attention: bool = False
    ) -> list[list[Hypothesis]]:
        """Return the decode.nbest hypotheses of every text, in the order of the texts."""
        hypotheses = dict(self.translate(params, texts, attention))
        return [hypotheses[i] for i in range(len(texts))]

    def _search(
        self,
        params: list[Params],
        batch: dict[str, Array],
        numbers: Mapping[str, Array],
        attention: bool,
    ) -> tuple[dict[str, Array], Hypotheses]:
        """Decode a batch by beam search, sampling or greedy search, as `settings` specify.

        If the batch has an entry "prefix", the hypotheses begin with these tokens, which <pad>
        follows. `numbers` are the values of the settings in NUMBERS.
        """
        source, sampled = batch["source"], self.settings.temperature > 0
        settings = types.SimpleNamespace(**{**self.settings, **numbers})
        # The source length excludes </s>, so padding rows, which have no </s>, have length −1.
        source_length = (source != PAD).sum(axis=1) - 1
        length = int(source.shape[1] * settings.max_ratio + settings.max_extra)
        max_length = (source_length * settings.max_ratio + settings.max_extra).astype(int)
        max_length = jnp.where(source_length < 0, 0, max_length)
        min_length = (source_length * settings.min_ratio).astype(int)
        step, state = self._start(params, source, length, attention or settings.coverage > 0)
        if "prefix" in batch:
            step, state = force_prefix(step, state, jnp.repeat(batch["prefix"], settings.beam, 0))
        step = hoist(step, state, jnp.full(len(source) * settings.beam, PAD))
        if settings.beam > 1:
            return batch, beam_search(
                step, state, len(source), max_length, length, settings, min_length, source != PAD
            )
        choose = most_probable
        if sampled:
            key = jax.random.key(settings.seed)
            keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(batch["number"])
            choose = make_sampler(keys, settings.temperature, settings.top_k, settings.top_p)
        tokens, log_p, weights = greedy(
            step, state, len(source), max_length, length, min_length, choose
        )
        lengths = jnp.maximum((tokens != PAD).sum(axis=1), 1)
        coverage = None if weights is None else weights.sum(axis=1)[:, None]
        score = penalized(log_p[:, None], coverage, lengths[:, None], settings, source != PAD)
        attended = None if weights is None else weights[:, None]
        return batch, Hypotheses(tokens[:, None], score, log_p[:, None], attended)

    def _start(
        self, params: list[Params], source: Int[Array, "b s"], length: int, attention: bool
    ) -> tuple[Step, Any]:
        """Encode the source; return the step function of the model or ensemble and its state."""
        steps, states = [], []
        for task, p in zip(self.tasks, params, strict=True):
            model, p = task.for_decoding(p)
            apply = functools.partial(model.apply, {"params": p})
            memory = apply(source, source != PAD, method="encode")
            states.append(apply(memory, length, self.settings.beam, method="start"))
            steps.append(functools.partial(apply, memory, attention=attention, method="step"))
        return (steps[0], states[0]) if len(steps) == 1 else (ensemble(steps), tuple(states))

    def hypotheses(
        self, text: str, source_length: int, decoded: Hypotheses, row: int, attention: bool
    ) -> list[Hypothesis]:
        """Convert the hypotheses in one row of a batch to text.

        `source_length` is the number of source tokens without </s>.
        """
        hypotheses = []
        for rank in range(decoded.score.shape[1]):
            if decoded.score[row, rank] == -np.inf:
                continue  # the beam slot is empty, because fewer hypotheses were found
            ids = np.asarray(decoded.tokens[row, rank])
            ids = ids[ids != PAD]
            tokens, weights = [self.target.token(i) for i in ids], None
            if decoded.attention is not None:
                # A copy, because a view would keep the weights of the whole batch in memory.
                weights = np.array(decoded.attention[row, rank, : len(ids), : source_length + 1])
            if self.settings.replace_unknown and weights is not None:
                source = self.source.tokens(text)
                tokens = replace_unknown(ids, tokens, weights, source, self.dictionary)
            has_eos = len(ids) > 0 and ids[-1] == EOS
            hypotheses.append(Hypothesis(
                self.target.detokenize(tokens[:-1] if has_eos else tokens), ids, tokens,
                float(decoded.score[row, rank]), float(decoded.log_p[row, rank]),
                weights if attention else None,
            ))  # fmt: skip
        return hypotheses


def _numbers(**values: float) -> dict[str, np.ndarray]:
    """Return settings in NUMBERS as arrays."""
    return {name: np.asarray(x, NUMBERS[name]) for name, x in values.items()}


def replace_unknown(
    ids: np.ndarray,
    tokens: list[str],
    attention: np.ndarray,
    source: list[str],
    dictionary: Mapping[str, str],
) -> list[str]:
    """Replace each <unk> by a source word or its translation (Luong 2015 §4).

    The source word is the one with the largest attention weight at the position of the <unk>; its
    dictionary entry is used if there is one. An <unk> whose attention weights are all zero (local
    attention with an empty window) is kept.
    """
    replaced = list(tokens)
    for t, i in enumerate(ids):
        if i == UNK and attention[t, : len(source)].any():
            word = without_marks(source[int(attention[t, : len(source)].argmax())])
            replaced[t] = dictionary.get(word, word)
    return replaced
