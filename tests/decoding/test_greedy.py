"""Greedy decoding over a fake model whose best tokens are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.vocabulary import BOS, EOS, PAD
from decoding.forced import force_prefix
from decoding.greedy import greedy

A, B = 4, 5
# TABLE[i, t] is the best token after t in sentence i: A B </s>, or a sequence without end.
TABLE = np.full((2, 6), PAD)
TABLE[0, [BOS, A, B]] = A, B, EOS
TABLE[1, [BOS, A, B]] = B, B, A
P = 0.9


def step(state, tokens):
    """Give the next token in TABLE probability P; at time step t, attend to source position t."""
    best = jax.nn.one_hot(jnp.array(TABLE)[jnp.arange(2), tokens], 6)
    logits = jnp.log(best * P + (1 - best) * (1 - P) / 5)
    return logits, state + 1, jax.nn.one_hot(state, 3)


@pytest.fixture(scope="module")
def decoded():
    return greedy(step, jnp.zeros(2, int), 2, jnp.array([5, 3]), length=6)


def test_decoding_stops_at_eos_or_at_max_length(decoded):
    np.testing.assert_array_equal(decoded.tokens[0], [A, B, EOS, PAD, PAD, PAD])
    np.testing.assert_array_equal(decoded.tokens[1], [B, A, B, PAD, PAD, PAD])


def test_log_p_is_the_sum_over_the_generated_tokens(decoded):
    np.testing.assert_allclose(decoded.log_p, [3 * np.log(P)] * 2, rtol=1e-5)


def test_attention_has_one_row_per_token(decoded):
    np.testing.assert_array_equal(decoded.attention[:, :3], np.stack([np.eye(3)] * 2))
    np.testing.assert_array_equal(decoded.attention[:, 3:], 0)


def test_pad_and_bos_are_never_generated():
    def prefers_pad_and_bos(state, tokens):
        return jnp.array([[9.0, 8.0, 0.0, 1.0, 2.0]]), state, None

    result = greedy(prefers_pad_and_bos, jnp.zeros(1), 1, jnp.array([2]), length=2)
    np.testing.assert_array_equal(result.tokens, [[4, 4]])
    assert result.attention is None


def test_no_tokens_are_generated_for_a_padding_row():
    result = greedy(step, jnp.zeros(2, int), 2, jnp.array([5, 0]), length=6)
    np.testing.assert_array_equal(result.tokens[1], PAD)
    assert result.log_p[1] == 0


def test_no_sentence_is_shorter_than_min_length():
    longest, shortest = jnp.array([5, 3]), jnp.array([5, 0])
    result = greedy(step, jnp.zeros(2, int), 2, longest, 6, shortest)
    assert (result.tokens[0, :4] != EOS).all() and (result.tokens[0, :5] != PAD).all()


def test_a_prefix_is_generated_first_and_has_no_log_p():
    prefix = jnp.array([[B, PAD], [A, A]])
    forced, state = force_prefix(step, jnp.zeros(2, int), prefix)
    result = greedy(forced, state, 2, jnp.array([5, 4]), length=6)
    np.testing.assert_array_equal(result.tokens[0], [B, EOS, PAD, PAD, PAD, PAD])
    np.testing.assert_array_equal(result.tokens[1], [A, A, B, A, PAD, PAD])
    np.testing.assert_allclose(result.log_p, [np.log(P), 2 * np.log(P)], rtol=1e-5)
    np.testing.assert_array_equal(result.attention[1, :3], np.eye(3))
