"""Compare beam search with exhaustive search, over a fake model given by a table."""

import functools
import itertools
from unittest import mock

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from configs.base import base_config
from data.vocabulary import BOS, EOS, PAD
from decoding.beam import beam_search, upper_bound
from decoding.forced import force_prefix
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


ALPHAS = (0.0, 0.6, 1.0, 1.5)
ALL = 108  # beam width that keeps all hypotheses of LONGEST tokens, so the search is exhaustive
LONGEST = 4


@functools.cache
def compiled(penalty, coverage, beam, nbest, longest):
    """Return a search function that is compiled once for all fake models and values of alpha."""
    decode = settings(beam=beam, nbest=nbest, length_penalty=penalty, coverage=coverage)

    def run(logits, weights, mask, max_length, alpha, early_stop=True):
        rows = jnp.repeat(jnp.arange(len(logits)), beam)

        def step(state, tokens):
            return logits[rows, tokens], state, weights[rows, tokens]

        def bound(*arguments):
            return jnp.where(early_stop, upper_bound(*arguments), jnp.inf)

        with decode.ignore_type(), mock.patch("decoding.beam.upper_bound", bound):
            decode.alpha = alpha
            return beam_search(
                step, jnp.zeros(len(rows)), len(logits), max_length, longest, decode,
                source_mask=mask,
            )  # fmt: skip

    return jax.jit(run)


def penalized_scores(log_p, weights, mask, penalty, alpha, coverage):
    """Return the scores of the hypotheses of a sentence, given a dict of their log p."""
    scores = {}
    for tokens, value in log_p.items():
        n = len(tokens)
        lp = {"none": 1, "gnmt": ((5 + n) / 6) ** alpha, "average": n**alpha}[penalty]
        covered = weights[[BOS, *tokens[:-1]]].sum(axis=0)[mask]
        scores[tokens] = value / lp + coverage * np.log(np.minimum(covered, 1)).sum()
    return scores


@pytest.mark.parametrize(
    "penalty, coverage",
    [("none", 0.0), ("gnmt", 0.0), ("average", 0.0), ("none", 2.0), ("average", 2.0)],
)
def test_a_beam_that_holds_all_hypotheses_finds_the_best(penalty, coverage):
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]], bool)
    longest = (LONGEST, 2, 3)
    # The search stops early: it returns fewer hypotheses than it keeps active.
    run = compiled(penalty, coverage, ALL, 3, LONGEST)
    for seed in range(6):
        logits, weights = table(seed)
        found = [run(logits, weights, mask, jnp.array(longest), alpha) for alpha in ALPHAS]
        for row in range(BATCH):
            log_p = all_hypotheses(float64_logits(seed, row), longest[row])
            for alpha, result in zip(ALPHAS, found, strict=True):
                scores = penalized_scores(
                    log_p, np.asarray(weights[row]), mask[row], penalty, alpha, coverage
                )
                check_best(jax.tree.map(lambda x, row=row: x[row], result), scores, log_p)


def check_best(found, scores, log_p):
    """Check that the hypotheses found for a sentence are those with the best scores, in order.

    Hypotheses with the same transitions between tokens have equal scores, in any order.
    """
    best = sorted(scores.values(), reverse=True)
    hypotheses = [tuple(row[row != PAD].tolist()) for row in np.asarray(found.tokens)]
    assert len(set(hypotheses)) == len(hypotheses)
    for rank, tokens in enumerate(hypotheses):
        np.testing.assert_allclose(scores[tokens], best[rank], rtol=1e-9)
        np.testing.assert_allclose(found.score[rank], best[rank], rtol=1e-5)
        np.testing.assert_allclose(found.log_p[rank], log_p[tokens], rtol=1e-5)


@pytest.mark.parametrize(
    "penalty, coverage, beam, nbest",
    [
        ("none", 0.0, 3, 2), ("gnmt", 0.0, 2, 1), ("gnmt", 0.0, 4, 3), ("average", 0.0, 2, 1),
        ("average", 0.0, 4, 3), ("none", 5.0, 2, 1), ("average", 0.2, 4, 3),
    ],
)  # fmt: skip
def test_the_early_stop_does_not_change_the_result(penalty, coverage, beam, nbest):
    """Compare with a search to the maximum length, for many random fake models."""
    rng, rows = np.random.default_rng(0), 200
    # The next token is almost certain after some tokens, so a long hypothesis can still win.
    scale = rng.choice([0.5, 2, 8], (rows, VOCABULARY, 1))
    logits = jnp.array(scale * rng.normal(size=(rows, VOCABULARY, VOCABULARY)), jnp.float32)
    # As in local attention, the attention weights of a time step may have a sum below 1.
    weights = rng.dirichlet(np.ones(SOURCE), (rows, VOCABULARY)) * rng.random((rows, 1, 1))
    mask = np.arange(SOURCE) < rng.integers(1, SOURCE + 1, (rows, 1))
    run = compiled(penalty, coverage, beam, nbest, 12)
    for alpha in ALPHAS:
        model = logits, jnp.array(weights, jnp.float32), mask, jnp.arange(rows) % 13, alpha
        found, expected = (run(*model, early_stop) for early_stop in (True, False))
        np.testing.assert_array_equal(found.tokens, expected.tokens)
        np.testing.assert_array_equal(found.score, expected.score)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(
    # Few different logits cause many ties; −30 makes a token impossible, and 30 certain.
    st.lists(st.sampled_from([-30, 0, 0, 1, 2, 30]), min_size=108, max_size=108),
    st.tuples(*[st.integers(0, 4)] * BATCH),
)
def test_a_wide_beam_finds_the_result_of_exhaustive_search(values, longest):
    logits = np.array(values, np.float32).reshape(BATCH, VOCABULARY, VOCABULARY)
    weights, mask = jnp.ones((BATCH, VOCABULARY, SOURCE)), jnp.ones((BATCH, SOURCE), bool)
    run = compiled("none", 0.0, ALL, 3, LONGEST)
    found = run(logits, weights, mask, jnp.array(longest), 0.0)
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
    """The result of a sentence is final when its search has ended."""
    decode = settings(beam=2, length_penalty="average", alpha=1.0)
    for seed in range(4):
        together = search(seed, [6, 6, 6], decode)
        for row in range(BATCH):
            longest = [6 if i == row else 0 for i in range(BATCH)]
            alone = search(seed, longest, decode)
            np.testing.assert_array_equal(alone.tokens[row], together.tokens[row])


def test_all_hypotheses_begin_with_the_prefix():
    """After the prefix, the search equals one that begins with the last token of the prefix."""
    width, a, b = 3, 4, 5
    prefix = jnp.repeat(jnp.array([[a, PAD], [b, a], [PAD, PAD]]), width, axis=0)
    step, state = force_prefix(make_step(0, width), jnp.zeros(BATCH * width, int), prefix)
    found = beam_search(step, state, BATCH, jnp.array([4] * 3), 4, settings(width))
    free = search(0, [4] * 3, settings(width))
    np.testing.assert_array_equal(found.tokens[2], free.tokens[2])
    assert (found.tokens[0, :, 0] == a).all()
    assert (found.tokens[1, :, :2] == jnp.array([[b, a]])).all()
    assert jnp.isfinite(found.score).all()
    # The fake model depends only on the last token.
    best, logits = np.asarray(found.tokens[1, 0]), float64_logits(0, 1)
    expected = sum(log_softmax(logits[i])[j] for i, j in itertools.pairwise(best[1:]) if j != PAD)
    np.testing.assert_allclose(found.log_p[1, 0], expected, rtol=1e-4)
