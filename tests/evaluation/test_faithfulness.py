"""Tests of faithfulness: its measures have known values for constructed models."""

import json
import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats

from configs.registry import TASKS, resolve
from data.translation import FIELDS
from data.vocabulary import EOS, PAD
from errors import UserError
from evaluation import faithfulness, translation
from evaluation.explained import PredictionExplainer, TranslationExplainer, source_weights
from evaluation.faithfulness import (
    concentration_values,
    jensen_shannon,
    kendall_tau,
    measure_faithfulness,
)
from evaluation.faithfulness_report import check_translation, describe_faithfulness
from evaluation.interventions import (
    PERMUTATIONS,
    WeightChange,
    delete_token,
    make_replace,
    scaled_embeddings,
    uniform_rows,
    weight_changes,
)
from evaluation.metrics import FAITHFULNESS
from evaluation.results import ReportOptions
from models.attention import masked_softmax
from models.embedding import Embed
from models.output import Features
from models.replacement import replace_weights, replaced
from tasks.registry import make_task
from tests.evaluation.test_every_model import CONFIGS, WITHOUT_ATTENTION, make
from tests.evaluation.test_other_tasks import content
from tests.small import small_config
from training.devices import make_mesh

VOCABULARY, LENGTH = 12, 5


class Constructed(nn.Module):
    """A translator whose attention weights at position t depend only on t and on the tokens.

    If `copies`, it predicts the attended tokens; otherwise, it predicts the last target token.
    """

    copies: bool

    def setup(self):
        self.embed = Embed(VOCABULARY, VOCABULARY, embedding_init=lambda *_: jnp.eye(VOCABULARY))
        # Row t of the scores is a permutation of 0, 1, ..., so no two tokens have equal weights.
        keys = jax.random.split(jax.random.key(1), LENGTH)
        rows = jax.vmap(lambda key: jax.random.permutation(key, VOCABULARY))(keys)
        self.scores = rows.at[:, EOS].set(-1).astype(jnp.float32)

    def encode(self, source, mask):
        return self.embed(source), source

    def decode(self, memory, tokens, attention):
        states, source = memory
        scores = jnp.moveaxis(self.scores[:, source], 0, 1)
        mask, positions = (source != PAD)[:, None], jnp.arange(LENGTH)[None]
        weights = replaced(masked_softmax(scores, mask), mask, positions)
        attended = jnp.einsum("bts,bsd->btd", weights, states)
        vectors = attended if self.copies else jax.nn.one_hot(tokens, VOCABULARY)
        return Features(vectors), weights

    def output_kernel(self):
        return 4 * jnp.eye(VOCABULARY)


def constructed(copies):
    """Return the explainer of a constructed model, and examples with its predictions."""
    model = Constructed(copies)
    rng, examples = np.random.default_rng(0), []
    params = model.init(jax.random.key(0), jnp.ones((1, 1), int), None, method="encode")["params"]
    task = types.SimpleNamespace(
        model=model, target=range(VOCABULARY), prepared=types.SimpleNamespace(fields=FIELDS),
        init=lambda key: params,
    )  # fmt: skip
    for _ in range(6):
        source = np.array([*rng.choice(np.arange(4, VOCABULARY), 4, replace=False), EOS])
        scores = model.bind({"params": params}).scores
        target = source[np.array(scores)[:, source].argmax(axis=1)] if copies else np.arange(4, 9)
        examples.append({"source": source, "target": target})
    return TranslationExplainer(task), params, examples


@pytest.fixture(scope="module")
def alone():
    return make_mesh(jax.devices()[:1])


def measure_constructed(copies, mesh, **limits):
    """Measure a constructed model, with other limits of evaluation/faithfulness.py.

    Its batches have no padding, because its scores have a fixed number of target positions.
    """
    explainer, params, examples = constructed(copies)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faithfulness, "padded_width", lambda length: length)
        for name, value in limits.items():
            patch.setattr(faithfulness, name, value)
        return measure_faithfulness(explainer, params, mesh, examples)


@pytest.fixture(scope="module")
def copying(alone):
    """The measures of the model that copies the attended token."""
    return measure_constructed(True, alone)


@pytest.fixture(scope="module")
def sampled(alone):
    """The same measures, with random samples of the tokens to remove."""
    return measure_constructed(True, alone, MOST_REMOVED=3)


def test_a_model_that_copies_the_attended_token(copying):
    found = copying
    assert found["examples"] == 6 and found["decisions"] == 6 * LENGTH
    assert found["drop_attention"] == pytest.approx(found["drop_gradient"])
    assert found["drop_attention"] > 2 > found["drop_random"] + 1
    assert found["tau_gradient"] == pytest.approx(1) and found["tau_removal"] == pytest.approx(1)
    # A permutation of five weights keeps the largest weight in its place with probability 1/5.
    assert found["permuted_changed"] == pytest.approx(0.8, abs=0.1)
    assert found["permuted_tv"] > 0.3 and found["uniform_tv"] > 0.2
    assert found["adversarial_tv"] <= faithfulness.MOST_CHANGED
    assert found["adversarial_jsd"] < 0.05 < 0.5 < found["largest_jsd"]
    for name in FAITHFULNESS:
        assert found[f"{name}_low"] <= found[name] <= found[f"{name}_high"]


def test_a_model_that_ignores_its_attention(alone):
    found = measure_constructed(False, alone)
    effects = [
        name for name in FAITHFULNESS if name.endswith(("_tv", "_changed")) or "drop" in name
    ]
    assert {name: found[name] for name in effects} == dict.fromkeys(effects, 0)
    assert found["adversarial_jsd"] == found["largest_jsd"] > 0.5
    # No token has an effect, so their ranks are not defined and the measures are left out.
    assert not {"tau_gradient", "tau_removal"} & set(found)
    assert len(describe_faithfulness(found)["rows"]) == len(FAITHFULNESS) - 2


def test_a_sample_of_the_tokens_of_long_inputs_gives_similar_results(copying, sampled):
    for name in ("drop_attention", "drop_gradient", "tau_removal"):
        assert sampled[name] == pytest.approx(copying[name])
    assert sampled["drop_random"] == pytest.approx(copying["drop_random"], abs=0.6)


def test_the_batches_and_the_number_of_devices_change_nothing(sampled):
    mesh = make_mesh(jax.devices()[:2])
    found = measure_constructed(True, mesh, MOST_REMOVED=3, EXAMPLES=2)  # three batches, not one
    assert found == pytest.approx(sampled, rel=1e-5)


def test_random_numbers_depend_on_the_example_and_the_position():
    keys = jax.random.split(jax.random.key(0), 3)
    found = np.array(uniform_rows(keys, 6, 5))  # two rows per example
    assert len(np.unique(found)) == found.size
    np.testing.assert_array_equal(uniform_rows(keys[1:], 4, 5), found[2:])
    np.testing.assert_array_equal(uniform_rows(keys, 6, 8)[:, :5], found)
    np.testing.assert_array_equal(uniform_rows(keys, 3, 5), found[::2])


def test_concentration_does_not_depend_on_the_sum_of_the_weights():
    found = concentration_values(jnp.array([[[0.2, 0.2, 0], [3, 0, 0], [0.1, 0.1, 0.1]]]))
    np.testing.assert_allclose(found["effective_tokens"], [[2, 1, 3]], rtol=1e-5)
    np.testing.assert_allclose(found["largest_weight"], [[1 / 2, 1, 1 / 3]], rtol=1e-5)


def test_kendall_tau_is_that_of_scipy():
    x, y = jax.random.randint(jax.random.key(0), (2, 3, 7), 0, 4).astype(jnp.float32)
    mask = jnp.arange(7)[None] < jnp.array([7, 5, 1])[:, None]
    found = kendall_tau(x, y, mask)
    for row, count in ((0, 7), (1, 5)):
        expected = scipy.stats.kendalltau(x[row, :count], y[row, :count]).statistic
        assert found[row] == pytest.approx(expected, abs=1e-6)
    assert np.isnan(found[2])


def test_jensen_shannon_is_that_of_scipy():
    p, q = jax.random.uniform(jax.random.key(0), (2, 3, 7))
    expected = scipy.spatial.distance.jensenshannon(p, q, axis=1) ** 2
    np.testing.assert_allclose(jensen_shannon(p, q), expected, atol=1e-6)
    one_hot = jnp.eye(2)
    np.testing.assert_allclose(jensen_shannon(one_hot, one_hot[::-1]), np.log(2), rtol=1e-6)


def test_a_deleted_token_leaves_no_gap():
    text = jnp.array([[5, 6, 7, 0], [5, 6, 7, 8]])
    found = delete_token(text, jnp.array([1, 3]))
    assert found.tolist() == [[5, 7, 0, 0], [5, 6, 7, 0]]
    document = jnp.array([[[5, 6, 7], [8, 9, 0]]])
    assert delete_token(document, jnp.array([1])).tolist() == [[[5, 7, 0], [8, 9, 0]]]
    assert delete_token(document, jnp.array([3])).tolist() == [[[5, 6, 7], [9, 0, 0]]]


@pytest.mark.parametrize("heads", [(), (2,)])
def test_replaced_weights_stay_within_the_mask_and_keep_their_sum(heads):
    weights = jax.random.uniform(jax.random.key(0), (3, *heads, 4, 6)) / 7
    mask = (jnp.arange(6)[None] < jnp.array([6, 3, 1])[:, None]) & (jnp.arange(6) != 1)[None]
    mask = mask.reshape(3, *[1] * (len(heads) + 1), 6)
    weights, positions = weights * mask, jnp.arange(4)[None]
    changes = weight_changes(jax.random.split(jax.random.key(1), 3))

    @jax.jit
    @jax.vmap
    def change_all(change):
        return make_replace(change, jnp.array(2))(weights, mask, positions)

    replacements, shares_of = np.array(change_all(changes)), np.array(changes.shares)
    weights, mask = np.array(weights), np.array(mask)
    for number, (found, shares) in enumerate(zip(replacements, shares_of, strict=True)):
        others = [0, 1, 3]
        np.testing.assert_array_equal(found[..., others, :], weights[..., others, :])
        assert not (found * ~mask).any()
        np.testing.assert_allclose(found.sum(-1), weights.sum(-1), rtol=1e-5)
        here, before = found[..., 2, :], weights[..., 2, :]
        if number == 0:
            np.testing.assert_array_equal(here, before)
        elif number == 1:
            counts = mask.sum(axis=-1)[..., 0]
            np.testing.assert_allclose(here.max(-1), before.sum(-1) / counts, rtol=1e-3)
        elif number < 2 + PERMUTATIONS:
            np.testing.assert_array_equal(np.sort(here), np.sort(before))
        elif shares[3] == 1:
            assert ((here > 0).sum(axis=-1) == 1).all()


def difference(explainer, params, batch, step=1e-2):
    """Estimate gradient × input of the first source tokens with differences of log p."""

    def log_p(scale):
        with scaled_embeddings(scale):
            return explainer.explain(params, batch).log_p

    ones = jnp.ones(batch["source"].shape)
    compiled = jax.jit(log_p)
    up, down = (compiled(ones.at[:, 0].add(x)) for x in (step, -step))
    return (up - down) / (2 * step)


@pytest.mark.parametrize(
    "name", ["tiny_task", pytest.param("transformer_task", marks=pytest.mark.slow)]
)
def test_gradient_and_replacement_in_real_models(name, request):
    """gradient × input is a derivative, and only the weights of position t are replaced."""
    task = request.getfixturevalue(name)
    explainer, params = TranslationExplainer(task), jax.jit(task.init)(jax.random.key(0))
    batch = {
        "source": jnp.array([[5, 6, 7, EOS], [8, 9, EOS, PAD]]),
        "target": jnp.array([[6, 7, EOS], [5, EOS, PAD]]),
    }
    found = jax.jit(lambda p: explainer.gradient_input(p, batch, jax.lax.map))(params)
    expected = difference(explainer, params, batch)
    np.testing.assert_allclose(found[:, :, 0] * (batch["target"] > 0), expected, atol=2e-4)
    assert not found[1, :, 3].any()  # the gradient of padding

    @jax.jit
    def weights(t):
        keys = jax.random.split(jax.random.key(0), 2)
        change = WeightChange(keys, jnp.array([0, 0, 1.0, 0]))
        with replace_weights(make_replace(change, jnp.array(1))):
            return explainer.outputs(params, batch)(t)[1]

    original = jax.jit(explainer.explain)(params, batch).attention
    np.testing.assert_allclose(weights(0), original[:, 0], atol=1e-6)
    uniform = [[0.25] * 4, [1 / 3] * 3 + [0]]
    np.testing.assert_allclose(weights(1), uniform, atol=1e-3)


def check_summary(summary):
    """Check that all measures are there, finite and in their ranges, and that weights change."""
    assert {f"{name}{end}" for name in FAITHFULNESS for end in ("", "_low", "_high")} <= set(
        summary
    )
    assert np.isfinite(list(summary.values())).all()
    shares = [x for name, x in summary.items() if "_tv" in name or "_changed" in name]
    assert min(shares) >= 0 and max(shares) <= 1
    assert summary["adversarial_tv"] <= faithfulness.MOST_CHANGED
    assert 0 <= summary["adversarial_jsd"] <= summary["largest_jsd"] <= np.log(2)
    # Both are exactly 0 if the weights of an attention cannot be replaced.
    assert summary["largest_jsd"] > 0 and summary["uniform_tv"] > 0


MODELS = {name: text for name, text in CONFIGS.items() if name not in WITHOUT_ATTENTION}
MODELS |= {"marginal": "luong2015:align=marginal,feed=no", "location": "luong2015:score=location"}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_attention_can_be_measured(name, cache, alone, monkeypatch):
    monkeypatch.setitem(CONFIGS, name, MODELS[name])
    task = make(name, cache)
    params = jax.jit(task.init)(jax.random.key(0))
    pairs = list(task.split("test")[0].examples(np.arange(4)))
    check_summary(measure_faithfulness(TranslationExplainer(task), params, alone, pairs))


def test_a_translation_report(tiny_task, tmp_path, alone, capsys):
    params = jax.jit(tiny_task.init)(jax.random.key(0))
    decode = tiny_task.config.decode.copy_and_resolve_references()
    decode.update({"beam": 1, "max_ratio": 0.2, "max_extra": 3})
    options = ReportOptions(
        "test", tmp_path, pictures=0, page=1, faithfulness=3, decode=decode, ter=False
    )
    translation.report(tiny_task, params, alone, options)
    summary = json.loads((tmp_path / "scores.json").read_text())["faithfulness"]
    check_summary(summary)
    assert summary["examples"] == 3
    assert "Removal of the most attended token" in capsys.readouterr().out
    shown = content(tmp_path / "report.html")["faithfulness"]
    assert shown["sample"] == f"{summary['decisions']} predictions in 3 examples"
    names = [metric.full_name for metric in FAITHFULNESS.values()]
    assert [row["name"] for row in shown["rows"]] == names


@pytest.mark.parametrize(
    "name",
    ["reader", *(pytest.param(x, marks=pytest.mark.slow) for x in ("han", "sentence", "sum"))],
)
def test_the_report_of_another_task(name, tmp_path, alone, capsys):
    config = small_config(name, tmp_path / "corpus")
    task = make_task(config)
    params = jax.jit(task.init)(jax.random.key(0))
    options = ReportOptions("test", tmp_path, pictures=0, page=1, faithfulness=3)
    resolve(TASKS[config.task].evaluation).report(task, params, alone, options)
    summary = json.loads((tmp_path / "scores.json").read_text())["faithfulness"]
    check_summary(summary)
    assert summary["examples"] == summary["decisions"] == 3
    assert "Faithfulness of 3 predictions in 3 examples" in capsys.readouterr().out
    assert content(tmp_path / "report.html")["faithfulness"]


@pytest.mark.parametrize("name", ["pooled", "columns"])
def test_a_model_without_attention_is_a_user_error(name, tmp_path, alone):
    config = small_config(name, tmp_path / "corpus")
    task = make_task(config)
    # The parameters have no values, so the error must be raised before anything is predicted.
    params = jax.eval_shape(task.init, jax.random.key(0))
    options = ReportOptions("test", tmp_path, pictures=0, page=0, faithfulness=3)
    with pytest.raises(UserError, match="--faithfulness needs a model with attention"):
        resolve(TASKS[config.task].evaluation).report(task, params, alone, options)


def test_a_translator_without_attention_is_a_user_error(cache):
    task = make("cho", cache)
    with pytest.raises(UserError, match="--faithfulness needs a model with attention"):
        check_translation(task, jax.eval_shape(task.init, jax.random.key(0)))


def test_the_weight_of_a_word_in_a_document_includes_that_of_its_sentence():
    words, sentences = jnp.array([[[0.5, 0.5], [1.0, 0]]]), jnp.array([[0.25, 0.75]])
    found = source_weights({"words": words, "sentences": sentences})
    np.testing.assert_allclose(found, [[[0.125, 0.125], [0.75, 0]]])
    of_one = source_weights({"words": np.array(words[0]), "sentences": np.array(sentences[0])})
    np.testing.assert_allclose(of_one, found[0])
    hops = jnp.array([[[0.5, 0.5], [1.0, 0]]])
    np.testing.assert_allclose(source_weights({"hops": hops}), [[0.75, 0.25]])


def test_an_answer_that_is_removed_from_the_passage_has_a_small_probability(tmp_path):
    task = make_task(small_config("reader", tmp_path / "corpus"))
    explainer = PredictionExplainer(task)
    batch = {"passage": jnp.array([[5, 6]]), "candidate": jnp.array([[1, 2]]),
             "query": jnp.array([[7]]), "decision": jnp.array([1])}  # fmt: skip
    shorter = explainer.without(batch, jnp.array([1]))
    assert shorter["passage"].tolist() == [[5, 0]] and shorter["candidate"].tolist() == [[1, 0]]
    params = jax.jit(task.init)(jax.random.key(0))
    found = jax.jit(explainer.explain)(params, shorter).log_p
    np.testing.assert_allclose(found, [[np.log(1e-6)]], rtol=1e-5)
