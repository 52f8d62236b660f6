"""Compare beam search with exhaustive search, over a fake model given by a table."""

import functools
import itertools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from ml_collections import FrozenConfigDict

from configs.base import base_config
from data.vocabulary import BOS, EOS, PAD
from decoding.beam import beam_search, blocked_top_k
from decoding.greedy import greedy

VOCABULARY = 6  # PAD, BOS, EOS, UNK and two other tokens
BATCH, SOURCE = 3, 4


def table(seed):
    """Draw the fake model's logits and attention weights for every sentence and last token."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (BATCH, VOCABULARY, VOCABULARY))
    weights = rng.dirichlet(np.ones(SOURCE), (BATCH, VOCABULARY))
    return jnp.array(logits), jnp.array(weights)


def make_step(seed, width):
    logits, weights = (jnp.repeat(x, width, axis=0) for x in table(seed))

    def step(state, tokens):
        rows = jnp.arange(len(tokens))
        return logits[rows, tokens], state + 1, weights[rows, tokens]

    return step


def settings(beam=4, **changes):
    decode = base_config().decode
    decode.update({"beam": beam, "nbest": beam, **changes})
    return decode


def search(seed, longest, decode, **more):
    width = decode.beam
    return beam_search(
        make_step(seed, width), jnp.zeros(BATCH * width, int), BATCH, jnp.array(longest),
        max(longest), decode, **more,
    )  # fmt: skip


def float64_logits(seed, row):
    return np.asarray(table(seed)[0][row], float)


def log_softmax(x):
    x = np.where(np.isin(np.arange(VOCABULARY), (PAD, BOS)), -np.inf, x - np.log(np.exp(x).sum()))
    return x


def all_hypotheses(logits, longest):
    """Return a dict from every possible hypothesis of a sentence to its log p."""
    hypotheses = {}
    for length in range(1, longest + 1):
        for tokens in itertools.product((3, 4, 5), repeat=length):
            without_eos = [tokens] if length == longest else []
            for candidate in [*without_eos, (*tokens[:-1], EOS)]:
                last, total = BOS, 0.0
                for token in candidate:
                    total += log_softmax(logits[last])[token]
                    last = token
                hypotheses[candidate] = total
    return hypotheses


@pytest.mark.parametrize("penalty", ["none", "gnmt", "average"])
def test_a_beam_that_holds_all_hypotheses_finds_the_best(penalty):
    decode = settings(beam=45, length_penalty=penalty, alpha=0.8)
    found = search(0, [4, 2, 3], decode)
    lengths = {
        "none": lambda n: 1, "gnmt": lambda n: ((5 + n) / 6) ** 0.8, "average": lambda n: n**0.8,
    }  # fmt: skip
    for row, longest in enumerate((4, 2, 3)):
        scores = {
            tokens: log_p / lengths[penalty](len(tokens))
            for tokens, log_p in all_hypotheses(float64_logits(0, row), longest).items()
        }
        best = sorted(scores, key=scores.get, reverse=True)[:3]
        for rank, expected in enumerate(best):
            tokens = found.tokens[row, rank]
            assert tuple(tokens[tokens != PAD].tolist()) == expected
            np.testing.assert_allclose(found.score[row, rank], scores[expected], rtol=1e-5)
            log_p = all_hypotheses(float64_logits(0, row), longest)[expected]
            np.testing.assert_allclose(found.log_p[row, rank], log_p, rtol=1e-5)


ALL = 45  # beam width that keeps all hypotheses, so the search is exhaustive


@functools.cache
def compiled(decode):
    """Return a search function that is compiled once for all examples that Hypothesis draws."""

    def run(logits, longest):
        def step(state, tokens):
            rows = jnp.repeat(logits, ALL, axis=0)
            return rows[jnp.arange(len(tokens)), tokens], state, None

        return beam_search(step, jnp.zeros(BATCH * ALL), BATCH, longest, 4, decode)

    return jax.jit(run)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(
    # Few different logits cause many ties; −30 makes a token impossible, and 30 certain.
    st.lists(st.sampled_from([-30, 0, 0, 1, 2, 30]), min_size=108, max_size=108),
    st.tuples(*[st.integers(0, 4)] * BATCH),
)
def test_a_wide_beam_finds_the_result_of_exhaustive_search(values, longest):
    logits = np.array(values, np.float32).reshape(BATCH, VOCABULARY, VOCABULARY)
    decode = FrozenConfigDict(settings(beam=ALL))
    found = compiled(decode)(logits, jnp.array(longest))
    for row in range(BATCH):
        if longest[row] == 0:
            assert (found.tokens[row] == PAD).all()
            continue
        scores = all_hypotheses(logits[row].astype(float), longest[row])
        best = max(scores.values())
        np.testing.assert_allclose(found.score[row, 0], best, rtol=1e-4, atol=1e-4)
        tokens = found.tokens[row, 0]
        found_tokens = tuple(tokens[tokens != PAD].tolist())
        # Hypotheses may tie for the best score, so compare the score of the tokens, not the tokens.
        np.testing.assert_allclose(scores[found_tokens], best, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("penalty", ["none", "gnmt", "average"])
def test_a_beam_of_width_one_equals_greedy_decoding(penalty):
    for seed in range(5):
        found = search(seed, [6, 3, 0], settings(beam=1, length_penalty=penalty, alpha=1.0))
        plain = greedy(
            make_step(seed, 1), jnp.zeros(BATCH, int), BATCH, jnp.array([6, 3, 0]), length=6
        )
        np.testing.assert_array_equal(found.tokens[:, 0], plain.tokens)
        np.testing.assert_allclose(found.log_p[:2, 0], plain.log_p[:2], rtol=1e-5)
        np.testing.assert_allclose(found.attention[:2, 0], plain.attention[:2], rtol=1e-6)


def test_hypotheses_are_sorted_and_distinct():
    found = search(3, [5, 5, 5], settings(beam=8))
    assert (jnp.diff(found.score, axis=1) <= 0).all()
    for row in found.tokens.tolist():
        assert len(set(map(tuple, row))) == 8


def test_attention_weights_are_reordered_with_their_hypotheses():
    found = search(1, [5, 4, 3], settings())
    weights = table(1)[1]
    for row, rank in itertools.product(range(BATCH), range(4)):
        last = BOS
        for t, token in enumerate(found.tokens[row, rank].tolist()):
            if token == PAD:
                break
            np.testing.assert_allclose(found.attention[row, rank, t], weights[row, last])
            last = token


def test_the_model_state_is_reordered_with_its_hypothesis():
    """The state of this fake model is a number that encodes all tokens that the model has read."""
    logits = jnp.repeat(table(2)[0], 4, axis=0)

    def step(state, tokens):
        state = state * 10 + tokens
        return logits[jnp.arange(len(tokens)), tokens], state, state[:, None].astype(float)

    found = beam_search(step, jnp.zeros(12, int), BATCH, jnp.array([4] * 3), 4, settings())
    for row, rank in itertools.product(range(BATCH), range(4)):
        expected = BOS
        for t, token in enumerate(found.tokens[row, rank].tolist()):
            if token == PAD:
                break
            assert found.attention[row, rank, t, 0] == expected
            expected = expected * 10 + token


def test_no_hypothesis_is_shorter_than_min_length():
    found = search(4, [6, 6, 6], settings(), min_length=jnp.array([4, 1, 6]))
    lengths = (found.tokens != PAD).sum(axis=-1)
    assert (lengths[0] >= 4).all() and (lengths[2] == 6).all()


def test_the_coverage_penalty_equals_its_equation():
    mask = jnp.array([[True] * 4, [True, True, False, False], [True] * 4])
    decode = settings(beam=45, coverage=2.0)
    found = search(5, [3, 3, 3], decode, source_mask=mask)
    for row in range(BATCH):
        scores = {}
        for tokens, log_p in all_hypotheses(float64_logits(5, row), 3).items():
            coverage = np.asarray(table(5)[1][row])[[BOS, *tokens[:-1]]].sum(axis=0)
            penalty = np.log(np.minimum(coverage, 1))[np.asarray(mask[row])].sum()
            scores[tokens] = log_p + 2.0 * penalty
        best = max(scores, key=scores.get)
        tokens = found.tokens[row, 0]
        assert tuple(tokens[tokens != PAD].tolist()) == best
        np.testing.assert_allclose(found.score[row, 0], scores[best], rtol=1e-5)


def test_the_search_stops_when_all_sentences_are_done():
    calls = []

    def step(state, tokens):
        jax.debug.callback(lambda: calls.append(1))
        return jnp.full((len(tokens), VOCABULARY), -9.0).at[:, EOS].set(9.0), state, None

    found = beam_search(step, jnp.zeros(2), 1, jnp.array([50]), 50, settings(beam=2))
    jax.effects_barrier()
    assert found.attention is None
    assert len(calls) == 2  # the search ends after 2 of 50 time steps


def test_short_hypotheses_do_not_displace_a_more_probable_long_one():
    """</s> is always the second most probable token; the long hypothesis has the highest log p."""
    sentence = [4, 5, 4, 5, 4, 5, EOS]

    def step(state, tokens):
        next_token = jax.nn.one_hot(jnp.array(sentence)[state], VOCABULARY)
        end = jax.nn.one_hot(EOS, VOCABULARY)[None]
        return jnp.log(0.95 * next_token + 0.04 * end + 0.0025), state + 1, None

    found = beam_search(step, jnp.zeros(2, int), 1, jnp.array([20]), 20, settings(beam=2))
    np.testing.assert_array_equal(found.tokens[0, 0, :7], sentence)


def test_results_do_not_depend_on_the_other_sentences_of_the_batch():
    """The result of a finished sentence is final, even if an active hypothesis could still win."""
    decode = settings(beam=2, length_penalty="average", alpha=1.0)
    for seed in range(4):
        together = search(seed, [6, 6, 6], decode)
        for row in range(BATCH):
            longest = [6 if i == row else 0 for i in range(BATCH)]
            alone = search(seed, longest, decode)
            np.testing.assert_array_equal(alone.tokens[row], together.tokens[row])


@hypothesis.given(hypothesis.strategies.integers(0, 1000))
@hypothesis.settings(max_examples=30, deadline=None)
def test_blocked_top_k_equals_top_k(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, (2, rng.choice([40, 57, 89]))).astype(np.float32)  # has ties
    x[rng.random(x.shape) < 0.3] = -np.inf
    x = jnp.array(x)
    for ours, theirs in zip(blocked_top_k(x, 3, block=4), jax.lax.top_k(x, 3), strict=True):
        np.testing.assert_array_equal(ours, theirs)
