"""Translation in the lab: hypotheses, their attention weights, and next-token distributions.

Sentences are padded to few widths, and numbers such as the length penalty's alpha are arguments of
the compiled functions, so that few programs are compiled.
"""

import collections
import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Float, Int

from configs.check import changed_decode
from data.tokenizers import JOINER, SPACE
from data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from decoding.beam import LENGTH_PENALTIES
from decoding.forced import log_probability, next_log_p
from decoding.groups import padded_width
from decoding.next_tokens import mask_invalid
from decoding.sampling import with_temperature
from decoding.translator import Hypothesis, Translator
from errors import UserError
from evaluation.forced_attention import readable
from serving.requests import LARGEST_BEAM, RANGES, Body, Edit, Prefix, SearchSettings
from serving.run import Answer, Job, LabRun
from tasks.task import Params
from training.devices import compiled, put, replicated
from training.restore import RestoredRun

MOST_SOURCE_TOKENS = 64  # source tokens of a sentence, with </s>
MOST_HYPOTHESES = 5
CANDIDATES = 8  # tokens of a next-token distribution that are shown
MOST_WEIGHTS_SHOWN = 200_000  # attention weights in one answer
# Translators with their compiled programs that a run keeps, one per kind of search.
MOST_TRANSLATORS = 6


class TranslationRun(LabRun):
    """A translation run."""

    kinds = ("translate", "inspect", "next")

    def __init__(self, name: str, run: RestoredRun, mesh: Mesh):
        super().__init__(name, run, mesh)
        self.source, self.target = run.task.source, run.task.target
        self.tokenization = {side: run.task.tokenization(side) for side in ("source", "target")}
        self._translators: collections.OrderedDict[tuple, Translator] = collections.OrderedDict()
        self._inspect = compiled(mesh, self._inspected)
        self._next = compiled(mesh, self._candidates)

    def describe(self) -> Answer:
        return super().describe() | {
            "decode": self._defaults(), "ranges": RANGES, "length_penalties": [*LENGTH_PENALTIES],
        }  # fmt: skip

    def _defaults(self) -> Answer:
        decode = self.config.decode
        names = ("beam", "length_penalty", "alpha", "temperature")
        return {name: decode[name] for name in names} | {"beam": min(decode.beam, LARGEST_BEAM)}

    def job(self, kind: str, body: Body, runs: Mapping[str, LabRun]) -> Job:
        source = self._source(body.text("text"), body.edit(), runs)
        ids, longest = source["ids"], self._longest(len(source["ids"]))
        if kind == "inspect":
            # The target may be the translation of a longer source, before an edit.
            target = body.ids("target", len(self.target), self._longest(MOST_SOURCE_TOKENS))
            return lambda: {**_shown(source), **self._inspection(ids, target)}
        prefix = self._prefix(body.prefix(), runs)
        if len(prefix) >= longest:
            raise UserError(
                f"the target prefix has {len(prefix)} tokens, but a translation of this text has "
                f"at most {longest}: shorten the prefix"
            )
        if kind == "next":
            temperature = body.temperature(self._defaults())
            return lambda: {**_shown(source), **self._next_tokens(ids, prefix, temperature)}
        settings = body.search(self._defaults(), [*LENGTH_PENALTIES])
        return lambda: {**_shown(source), **self._translation(ids, prefix, settings)}

    def warm_ups(self) -> list[Job]:
        settings = SearchSettings(**self._defaults(), draw=0)
        jobs: list[Job] = []
        for width in (8, 16, 24, 32):
            ids = [UNK] * (width - 2) + [EOS]
            jobs.append(functools.partial(self._translation, ids, [], settings))
            jobs.append(functools.partial(self._next_tokens, ids, [], settings.temperature))
        return jobs

    # Source and prefix

    def _source(self, text: str, edit: Edit, runs: Mapping[str, LabRun]) -> Answer:
        """Return the source tokens and ids of a text, after the edit.

        An edit refers to the tokens of a run. A run with other tokens reads the edited text.
        """
        tokens, origin = self.source.tokens(text), None
        if edit.changes:
            other = runs.get(edit.run)
            if not isinstance(other, TranslationRun):
                raise UserError(
                    f"the run {edit.run!r:.80} of edit is no translation run of the lab"
                )
            replace = functools.partial(_replacement, other.source)
            edited, places = edit.apply(other.source.tokens(text), replace)
            if other.tokenization["source"] == self.tokenization["source"]:
                tokens, origin = edited, places
            else:
                tokens = self.source.tokens(other.source.detokenize(edited))
        if not tokens:
            raise UserError("the text has no tokens: type a sentence")
        if len(tokens) >= MOST_SOURCE_TOKENS:
            raise UserError(
                f"the text has {len(tokens)} tokens, and the lab translates at most "
                f"{MOST_SOURCE_TOKENS - 1}: shorten it, or use predict.py"
            )
        return {"tokens": tokens, "origin": origin, "ids": [*self.source.ids(tokens), EOS]}

    def _prefix(self, prefix: Prefix, runs: Mapping[str, LabRun]) -> list[int]:
        if not prefix.run:
            return self.target.encode(prefix.text)
        other, tokens = runs.get(prefix.run), list(prefix.tokens)
        if not isinstance(other, TranslationRun):
            raise UserError(
                f"the run {prefix.run!r:.80} of prefix is no translation run of the lab"
            )
        if other.tokenization["target"] == self.tokenization["target"]:
            ids = self.target.ids(tokens)
            for token, i in zip(tokens, ids, strict=True):
                if i in (PAD, BOS, EOS):
                    raise UserError(f"prefix contains the special token {token}: remove it")
            return ids
        return self.target.encode(other.target.detokenize(tokens))

    def _longest(self, length: int) -> int:
        """Return the maximum output length, given the source length with </s>."""
        decode = self.config.decode
        return int((length - 1) * decode.max_ratio + decode.max_extra)

    def _padded(self, ids: Sequence[int]) -> tuple[np.ndarray, int]:
        """Return the source as a padded row, and the number of target tokens that fit its width."""
        source = _row(ids, padded_width(len(ids)))
        return source, self._longest(source.shape[1] + 1) + 2

    # Answers; all methods below use the model

    def _translation(
        self, ids: Sequence[int], prefix: Sequence[int], settings: SearchSettings
    ) -> Answer:
        """Translate; inspect the best hypothesis."""
        source, width = self._padded(ids)
        batch = {
            "source": source, "prefix": _row(prefix, width),
            "index": np.zeros(1, np.int32), "number": np.array([settings.draw], np.int32),
        }  # fmt: skip
        # With an exponent of 0, the penalty "gnmt" is 1, so that it needs no program of its own.
        alpha = 0.0 if settings.length_penalty == "none" else settings.alpha
        translator = self._translator(settings).with_numbers(
            alpha=alpha, temperature=settings.temperature
        )
        _, decoded = jax.device_get(
            translator.decode([self._params], put(batch, self.mesh), attention=True)
        )
        found = translator.hypotheses("", len(ids) - 1, decoded, 0, attention=True)
        best = self._inspection(ids, found[0].ids.tolist())
        return {"prefix": len(prefix), "hypotheses": [_plain(h) for h in found], "best": best}

    def _translator(self, settings: SearchSettings) -> Translator:
        """Return the translator for a kind of search, with the programs that it has compiled."""
        penalty = "gnmt" if settings.length_penalty == "none" else settings.length_penalty
        key = settings.beam, penalty, settings.temperature > 0
        if key not in self._translators:
            changes = {
                "beam": settings.beam, "nbest": min(settings.beam, MOST_HYPOTHESES),
                "length_penalty": penalty, "replace_unknown": False,
                "temperature": float(settings.temperature > 0),
            }  # fmt: skip
            if not settings.temperature:
                changes |= {"top_k": 0, "top_p": 1.0}
            decode = changed_decode(self.config, changes)
            self._translators[key] = Translator([self._task], self.mesh, decode)
        self._translators.move_to_end(key)
        if len(self._translators) > MOST_TRANSLATORS:
            self._translators.popitem(last=False)
        return self._translators[key]

    def _inspection(self, ids: Sequence[int], target: Sequence[int]) -> Answer:
        """Return log p of each target token, and all attention weights under teacher forcing."""
        source, width = self._padded(ids)
        width = max(width, padded_width(len(target)))
        arrays = put({"source": source, "target": _row(target, width)}, self.mesh)
        log_p, named = jax.device_get(self._inspect(self._params, **arrays))
        cut = {name: weights[0, : len(target), : len(ids)] for name, weights in named.items()}
        if sum(weights.size for weights in cut.values()) > MOST_WEIGHTS_SHOWN:
            cut = {"attention": cut["attention"]}
        attention = {name: weights.round(4).tolist() for name, weights in cut.items()}
        return {"log_p": log_p[0, : len(target)].tolist(), "attention": attention}

    def _inspected(
        self, params: Params, source: Int[Array, "b s"], target: Int[Array, "b t"]
    ) -> tuple[Float[Array, "b t"], dict[str, Float[Array, "b t s"]]]:
        log_p = log_probability(self._task.model, params, source, target)
        return log_p, self._task.attentions(params, source, target)

    def _next_tokens(self, ids: Sequence[int], prefix: Sequence[int], temperature: float) -> Answer:
        """Return the most probable tokens after a prefix, and where the model looks.

        `attention` are the weights with which the next token is predicted, and `looks` of a
        candidate are the weights of the time step after it.
        """
        source, width = self._padded(ids)
        arrays = put({"source": source, "prefix": _row(prefix, width)}, self.mesh)
        numbers = {"position": len(prefix), "temperature": temperature or 1.0}
        p, tokens, now, then = jax.device_get(
            self._next(self._params, **arrays, **self._scalars(numbers))
        )
        candidates, before = [], [self.target.token(i) for i in prefix]
        for rank, token in enumerate(tokens.tolist()):
            candidate = {**_token(self.target, token), "p": float(p[rank])}
            weights = {} if token == EOS else then
            added = [] if token == EOS else [candidate["token"]]
            candidate["text"] = self.target.detokenize([*before, *added])
            candidate["looks"] = _weights(weights, "attention", rank, len(ids))
            candidate["posterior"] = _weights(now, "posterior", rank, len(ids))
            candidates.append(candidate)
        return {
            "prefix": [_token(self.target, i) for i in prefix],
            "candidates": candidates,
            "attention": _weights(now, "attention", 0, len(ids)),
        }

    def _candidates(
        self,
        params: Params,
        source: Int[Array, "1 s"],
        prefix: Int[Array, "1 t"],
        position: Int[Array, ""],
        temperature: Float[Array, ""],
    ) -> tuple[Float[Array, " k"], Int[Array, " k"], dict[str, Array], dict[str, Array]]:
        """Return probabilities and ids of candidates, and weights at their and the next step."""
        log_p = next_log_p(self._task.model, params, source, prefix, position)
        valid = mask_invalid(
            jax.nn.log_softmax(with_temperature(log_p, temperature)), jnp.zeros(1, bool)
        )[0]
        count = min(CANDIDATES, len(valid))
        log_p, tokens = jax.lax.top_k(valid, count)
        continued = jnp.repeat(prefix, count, axis=0).at[:, position].set(tokens)
        named = self._task.attentions(params, jnp.repeat(source, count, axis=0), continued)
        kept = {name: named[name] for name in ("attention", "posterior") if name in named}
        now, then = ({n: x[:, at] for n, x in kept.items()} for at in (position, position + 1))
        return jnp.exp(log_p), tokens, now, then

    def _scalars(self, numbers: Mapping[str, float]) -> dict[str, Array]:
        """Transfer numbers to the devices, as 32-bit arrays."""
        arrays = {
            name: np.array(x, np.int32 if isinstance(x, int) else np.float32)
            for name, x in numbers.items()
        }
        return jax.device_put(arrays, replicated(self.mesh))


def _row(ids: Sequence[int], width: int) -> np.ndarray:
    row = np.full((1, width), PAD, np.int32)
    row[0, : len(ids)] = ids
    return row


def _shown(source: Answer) -> Answer:
    tokens = source["tokens"]
    unknown = [token for token, i in zip(tokens, source["ids"], strict=False) if i == UNK]
    shown = [
        {"token": token, "shown": s} for token, s in zip(tokens, readable(tokens), strict=True)
    ]
    return {
        "source": [*shown, {"token": "</s>", "shown": "</s>"}],
        "origin": source["origin"],
        "unknown": readable(unknown),
    }


def _token(vocabulary: Vocabulary, i: int) -> Answer:
    token = vocabulary.token(i)
    return {"id": i, "token": token, "shown": readable([token])[0]}


def _plain(hypothesis: Hypothesis) -> Answer:
    weights = hypothesis.attention
    shown = readable(hypothesis.tokens)
    ids = hypothesis.ids.tolist()
    tokens = zip(ids, hypothesis.tokens, shown, strict=True)
    return {
        "text": hypothesis.text, "score": hypothesis.score, "log_p": hypothesis.log_p,
        "tokens": [{"id": i, "token": token, "shown": s} for i, token, s in tokens],
        "attention": None if weights is None else weights.round(4).tolist(),
    }  # fmt: skip


def _weights(
    named: Mapping[str, np.ndarray], name: str, row: int, length: int
) -> list[float] | None:
    return named[name][row, :length].round(4).tolist() if name in named else None


def _replacement(vocabulary: Vocabulary, old: str, text: str) -> list[str]:
    """Return the tokens of a text that replaces a token, with the spaces of the old token."""
    tokens = vocabulary.tokens(text)
    if tokens and old.startswith(JOINER) and not tokens[0].startswith(JOINER):
        tokens[0] = JOINER + tokens[0]
    if tokens and not old.startswith(SPACE):
        tokens[0] = tokens[0].removeprefix(SPACE)
    return [token for token in tokens if token]
