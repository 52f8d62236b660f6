"""Compare the search for the most probable tokens in blocks with simple definitions."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.vocabulary import BOS, EOS, PAD
from decoding.next_tokens import (
    blocked_top_k,
    continuations,
    most_probable,
    most_probable_by_argmax,
    most_probable_in_blocks,
)


@hypothesis.given(hypothesis.strategies.integers(0, 1000))
@hypothesis.settings(max_examples=30, deadline=None)
def test_blocked_top_k_equals_top_k(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, (2, rng.choice([40, 57, 89]))).astype(np.float32)  # has ties
    x[rng.random(x.shape) < 0.3] = -np.inf
    x = jnp.array(x)
    for ours, theirs in zip(blocked_top_k(x, 3, block=4), jax.lax.top_k(x, 3), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("size", [10, 300])  # 300 is searched in blocks, the last one incomplete
def test_continuations_are_the_most_probable_ones(size):
    """The largest logits are invalid, and the second slot of the second sentence is inactive."""
    rng, width = np.random.default_rng(0), 2
    logits = rng.normal(0, 3, (2 * width, size)).astype(np.float32)
    logits[:, [PAD, BOS, EOS]] = 20
    prefix, too_short = np.array([[-1.5, -2], [0, -np.inf]]), np.array([True, False, True, True])
    exact = logits.astype(float)
    log_p = exact - np.log(np.exp(exact).sum(axis=1, keepdims=True)) + prefix.reshape(-1, 1)
    log_p[:, [PAD, BOS]] = log_p[too_short, EOS] = -np.inf
    log_p = log_p.reshape(2, -1)
    best = np.argsort(-log_p)[:, : 2 * width]
    arguments = (jnp.array(x) for x in (prefix.astype(np.float32), logits, too_short))
    parent, token, found = continuations(*arguments)
    np.testing.assert_array_equal(parent * size + token, best)
    np.testing.assert_allclose(found, np.take_along_axis(log_p, best, axis=1), rtol=1e-5)


@pytest.mark.parametrize("size", [10, 300])
@pytest.mark.parametrize("search", [most_probable_by_argmax, most_probable_in_blocks])
def test_the_most_probable_token_is_valid_and_has_its_log_p(size, search):
    """The largest logits are those of tokens that are invalid in some rows, or equal ones."""
    logits = np.random.default_rng(0).normal(0, 3, (4, size)).astype(np.float32)
    logits[:, [PAD, BOS, EOS]] = 20
    logits[2, EOS], logits[2, [5, size - 1]] = -np.inf, 15  # the first of equal tokens is chosen
    logits[3] = -np.inf
    logits[3, size - 2] = 0  # as after a forced prefix
    too_short = np.array([True, False, True, True])
    log_p = np.array(jax.nn.log_softmax(logits))
    log_p[:, [PAD, BOS]] = log_p[too_short, EOS] = -np.inf
    best = log_p.argmax(axis=1)
    assert list(best[1:]) == [EOS, 5, size - 2]
    arguments = jnp.array(logits), jnp.array(too_short)
    for token, found in (search(*arguments), most_probable(*arguments, jnp.array(0))):
        np.testing.assert_array_equal(token, best)
        np.testing.assert_allclose(found, log_p[range(4), best], rtol=1e-6, atol=1e-6)
