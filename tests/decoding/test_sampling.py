import jax
import jax.numpy as jnp
import numpy as np

from decoding.ensemble import ensemble
from decoding.greedy import greedy
from decoding.sampling import make_sampler

P = jnp.array([0.5, 0.3, 0.15, 0.05])
SAMPLES = 20_000
FIRST = 3  # the tokens before are special


def frequencies(**settings):
    """Return the relative frequency of each token among many samples."""
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(SAMPLES))
    logits = jnp.tile(jnp.concatenate([jnp.full(FIRST, -jnp.inf), jnp.log(P)]), (SAMPLES, 1))
    choose, t = make_sampler(keys, **settings), jnp.array(3)
    tokens, log_p = choose(logits, jnp.zeros(SAMPLES, bool), t)
    np.testing.assert_allclose(log_p, jnp.log(P)[tokens - FIRST], rtol=1e-5)
    return np.bincount(tokens - FIRST, minlength=4) / SAMPLES


def test_tokens_are_sampled_in_proportion_to_their_probability():
    np.testing.assert_allclose(frequencies(temperature=1.0), P, atol=0.015)
    sharper = P**2 / (P**2).sum()
    np.testing.assert_allclose(frequencies(temperature=0.5), sharper, atol=0.015)


def test_top_k_and_top_p_restrict_samples_to_the_most_probable_tokens():
    two = [5 / 8, 3 / 8, 0, 0]
    np.testing.assert_allclose(frequencies(temperature=1.0, top_k=2), two, atol=0.015)
    # top_p=.75 keeps two tokens, as the most probable ones have probabilities .5 and .3.
    np.testing.assert_allclose(frequencies(temperature=1.0, top_p=0.75), two, atol=0.015)
    np.testing.assert_array_equal(frequencies(temperature=1.0, top_p=0.1), [1, 0, 0, 0])
    np.testing.assert_array_equal(frequencies(temperature=1.0, top_k=1), [1, 0, 0, 0])


def test_a_tiny_temperature_selects_the_most_probable_token():
    np.testing.assert_array_equal(frequencies(temperature=1e-39), [1, 0, 0, 0])


def test_samples_do_not_depend_on_the_other_sentences_of_the_batch():
    logits, too_short, t = jnp.zeros((3, 50)), jnp.zeros(3, bool), jnp.array(0)
    keys = jax.vmap(jax.random.key)(jnp.arange(3))
    together, _ = make_sampler(keys, 1.0)(logits, too_short, t)
    alone, _ = make_sampler(keys[1:2], 1.0)(logits[1:2], too_short[1:2], t)
    assert together[1] == alone[0]


def test_an_ensemble_averages_probabilities_and_attention():
    def model(p, weights):
        return lambda state, tokens: (jnp.log(jnp.array([p])), state + 1, weights)

    first = model([0.0, 0.0, 0.1, 0.9, 0.0], jnp.array([[1.0, 0.0]]))
    second = model([0.0, 0.0, 0.1, 0.3, 0.6], jnp.array([[0.0, 1.0]]))
    third = model([0.0, 0.0, 0.1, 0.3, 0.6], None)  # no attention, so it is left out of the mean
    step = ensemble([first, second, third])
    log_p, states, attention = step((jnp.zeros(1),) * 3, jnp.array([1]))
    np.testing.assert_allclose(jnp.exp(log_p), [[0, 0, 0.1, 0.5, 0.4]], atol=1e-6)
    np.testing.assert_allclose(attention, [[0.5, 0.5]])
    assert [float(state[0]) for state in states] == [1, 1, 1]
    assert greedy(step, (jnp.zeros(1),) * 3, 1, jnp.array([1]), 1).tokens[0, 0] == 3
