import copy
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.tokenizers import make_tokenizer
from data.vocabulary import EOS, PAD, UNK, WordVocabulary
from decoding.groups import length_groups
from decoding.translator import Translator, replace_unknown
from errors import UserError
from models.output import output_scores
from tasks.translation import Translation, shift_right
from tests.conftest import tiny_config
from training.vocabularies import keep_vocabularies


def settings(task, **changes):
    decode = task.config.decode.copy_and_resolve_references()
    decode.update({"max_ratio": 0.5, "max_extra": 3, "batch": 8, **changes})
    return decode


@pytest.fixture(scope="module")
def params(tiny_task):
    return jax.jit(tiny_task.init)(jax.random.key(1))


def teacher_forced(task, params, source, target):
    """Return log p of the vocabulary and the attention weights at every target position."""
    apply = functools.partial(task.model.apply, {"params": params})
    memory = apply(source, source != PAD, method="encode")
    features, attention = apply(memory, shift_right(target), attention=True, method="decode")
    return jax.nn.log_softmax(output_scores(features, apply(method="output_kernel"))), attention


@pytest.fixture
def searches():
    """Return a list that gets one entry per decoding function that the test compiles."""
    compiled = []

    def listen(event, seconds, fun_name="", **details):
        if event.endswith("jaxpr_to_mlir_module_duration") and "_search" in fun_name:
            compiled.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield compiled
    jax.monitoring.unregister_event_duration_listener(listen)


TEXTS = ["May 3, 2020", "", "4:21 PM", "Monday, January 30, 2023, 4:21 PM", "May 3, 2020", "x"]


PENALTY = {"beam": 2, "nbest": 2, "length_penalty": "average", "alpha": 1.0, "max_extra": 9}


@pytest.mark.parametrize("changes", [{}, PENALTY, {"temperature": 1.0}], ids=str)
def test_translations_do_not_depend_on_the_other_texts_of_the_batch(
    tiny_task, params, mesh, changes
):
    translator = Translator([tiny_task], mesh, settings(tiny_task, **changes))
    found = translator.in_order([params], TEXTS, attention=True)
    assert [h.text for h in found[1]] == [""]
    assert found[0][0].attention.shape == (len(found[0][0].ids), 8)
    assert all(len(hypotheses) == changes.get("nbest", 1) for hypotheses in found[2:])
    alone = translator.in_order([params], TEXTS[:1])[0]
    assert [h.text for h in alone] == [h.text for h in found[0]]
    np.testing.assert_allclose([h.score for h in alone], [h.score for h in found[0]], rtol=1e-5)
    if "temperature" not in changes:  # texts 0 and 4 are equal, but samples depend on the index
        assert [h.text for h in found[4]] == [h.text for h in found[0]]


def test_an_ensemble_of_one_model_twice_equals_that_model(tiny_task, params, mesh, searches):
    texts = [*TEXTS, "May 3, 2020 " * 5]
    alone = Translator([tiny_task], mesh, settings(tiny_task)).in_order([params], texts)
    assert len(searches) == 2  # the texts have two padded widths, and each is compiled once
    twice = Translator([tiny_task] * 2, mesh, settings(tiny_task)).in_order([params] * 2, TEXTS)
    assert [h.text for (h,) in twice] == [h.text for (h,) in alone[:-1]]


def test_a_compiled_shape_is_used_if_it_is_at_most_twice_as_large(
    tiny_task, params, mesh, searches
):
    translator = Translator([tiny_task], mesh, settings(tiny_task))
    widths = []
    for words in (30, 12, 2):
        shapes = translator._shapes[translator._decode, False]
        (batch,) = translator._batches(shapes, source=[[5] * (words + 1)])
        widths.append(batch["source"].shape[1])
    assert widths == [32, 32, 8]
    for text in ("x " * 30, "x " * 12):
        translator.in_order([params], [text])
    assert len(searches) == 1


def test_an_ensemble_may_combine_different_architectures(tiny_task, transformer_task, params, mesh):
    transformer_params = jax.jit(transformer_task.init)(jax.random.key(2))
    both = Translator([tiny_task, transformer_task], mesh, settings(tiny_task))
    assert len(both.in_order([params, transformer_params], TEXTS[:1])[0][0].ids) > 0


@pytest.mark.parametrize("field", ["size", "lowercase"])
def test_models_with_different_vocabularies_cannot_form_an_ensemble(tiny_task, cache, mesh, field):
    config = tiny_config(cache)
    config.data.target_vocab[field] = {"size": 5, "lowercase": True}[field]
    other = Translation(config)
    if field == "lowercase":  # equal tokens do not suffice, because texts are split differently
        other.target = tiny_task.target
    with pytest.raises(UserError, match="target vocabularies or tokenizers differ"):
        Translator([tiny_task, other], mesh, tiny_task.config.decode)


def test_a_task_without_its_corpus_can_translate(tiny_task, params, mesh, tmp_path):
    keep_vocabularies(tiny_task.prepared.folder, tmp_path / "vocabulary")
    config = tiny_task.config.copy_and_resolve_references()
    config.data.corpus, config.data.dir = "text", "nowhere"
    without_corpus = Translation(config, tmp_path / "vocabulary")
    ours, theirs = (
        Translator([task], mesh, settings(tiny_task)).in_order([params], TEXTS)
        for task in (without_corpus, tiny_task)
    )
    assert [h.text for (h,) in ours] == [h.text for (h,) in theirs]


def test_unknown_words_are_replaced_by_the_source_word_with_the_largest_attention():
    ids = np.array([7, UNK, UNK, UNK, EOS])
    attention = np.array([[1, 0, 0], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [0, 0, 1], [0, 0, 1]])
    source = ["the", "cat"]
    tokens = ["die", "<unk>", "<unk>", "<unk>", "</s>"]
    replaced = replace_unknown(ids, tokens, attention, source, {"cat": "Katze"})
    # The fourth token stays <unk>: its largest attention is on </s>, which is never copied.
    assert replaced == ["die", "Katze", "the", "<unk>", "</s>"]


@pytest.mark.parametrize(("lowercase", "word"), [(True, "haus"), (False, "Haus")])
def test_words_of_a_dictionary_are_read_like_the_source(lowercase, word, tiny_task, mesh):
    task = copy.copy(tiny_task)
    task.source = WordVocabulary([], make_tokenizer("unicode", ""), lowercase)
    translator = Translator([task], mesh, settings(task), {"Haus": "house"})
    assert translator.dictionary == {word: "house"}


def test_forced_decoding_of_a_padded_batch_equals_that_of_single_pairs(tiny_task, params, mesh):
    pairs = [("May 3, 2020", "3. Mai 2020"), ("Monday, January 30, 2023", "Montag")]
    expected = []
    for source, target in pairs:
        x = jnp.array([[*tiny_task.source.encode(source), EOS]])
        y = jnp.array([[*tiny_task.target.encode(target), EOS]])
        log_p = jax.jit(functools.partial(teacher_forced, tiny_task))(params, x, y)[0]
        expected.append(sum(float(log_p[0, t, token]) for t, token in enumerate(y[0])))
    sources, targets = zip(*pairs, strict=True)
    alone = Translator([tiny_task], mesh, settings(tiny_task))
    assert alone.score([params], sources, targets) == pytest.approx(expected, rel=1e-5)
    twice = Translator([tiny_task] * 2, mesh, settings(tiny_task))
    assert twice.score([params] * 2, sources, targets) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "kind", ["recurrent", "transformer", pytest.param("scanned", marks=pytest.mark.slow)]
)
def test_beam_search_hypotheses_have_the_probability_and_attention_of_teacher_forcing(
    kind, tiny_task, transformer_task, cache, mesh
):
    """Check that every hypothesis keeps the model state of its prefix and its sentence."""
    task = {"recurrent": tiny_task, "transformer": transformer_task}.get(kind)
    if task is None:
        config = transformer_task.config.copy_and_resolve_references()
        config.model.scan = True
        task = Translation(config)
    params = jax.jit(task.init)(jax.random.key(1))
    # Use large weights, so that log p differs between hypotheses.
    params = jax.tree.map(lambda x: 3 * x, params)
    changes = {"beam": 4, "nbest": 4, "max_ratio": 1.0}
    translator = Translator([task], mesh, settings(task, **changes))
    (found,) = translator.in_order([params], TEXTS[:1], attention=True)
    source = jnp.array([[*task.source.encode(TEXTS[0]), EOS]] * 4)
    target = np.full((4, max(len(h.ids) for h in found)), PAD)
    for row, h in enumerate(found):
        target[row, : len(h.ids)] = h.ids
    log_p, weights = jax.jit(functools.partial(teacher_forced, task))(params, source, target)
    for row, h in enumerate(found):
        forced = sum(float(log_p[row, t, token]) for t, token in enumerate(h.ids))
        np.testing.assert_allclose(h.log_p, forced, rtol=1e-4)
        np.testing.assert_allclose(h.attention, weights[row, : len(h.ids)], atol=1e-5)


def test_casting_parameters_before_decoding_does_not_change_results(tiny_task, transformer_task):
    for task in (tiny_task, transformer_task):
        config = task.config.copy_and_resolve_references()
        config.model.dtype = "bfloat16"
        task = Translation(config)
        params = jax.jit(task.init)(jax.random.key(1))
        tokens = jnp.array([[5, 6, 7, EOS]])
        forced = jax.jit(functools.partial(teacher_forced, task))
        _, cast = task.for_decoding(params)
        assert {x.dtype for x in jax.tree.leaves(cast) if x.ndim > 1} == {np.dtype("bfloat16")}
        ours, theirs = (forced(p, tokens, tokens)[0] for p in (cast, params))
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("beam", [1, 2])
@pytest.mark.parametrize("model", ["tiny_task", "transformer_task"])
def test_decoding_does_not_repeat_operations_on_weights(model, request, mesh, beam):
    config = request.getfixturevalue(model).config.copy_and_resolve_references()
    config.model.dtype = "bfloat16"
    task = Translation(config)
    params = jax.eval_shape(task.init, jax.random.key(1))
    translator = Translator([task], mesh, settings(task, beam=beam))
    jaxpr = jax.make_jaxpr(translator.decode)([params], {"source": jnp.array([[5, 6, 7, EOS]])})
    (loop,) = find_equations(jaxpr.jaxpr, "while")
    body = loop.params["body_jaxpr"].jaxpr
    weights = [x for x in body.invars[: loop.params["body_nconsts"]] if x.aval.ndim > 1]
    repeated = [e for e in body.eqns if e.invars and all(x in weights for x in e.invars)]
    assert weights and not repeated


def find_equations(jaxpr, name):
    """Yield the equations of a primitive, including those of called functions."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == name:
            yield equation
        for called in jax.extend.core.jaxprs_in_params(equation.params):
            yield from find_equations(called, name)


def test_small_groups_of_texts_are_merged_with_wider_groups():
    assert length_groups([4, 6, 13, 0, 31], batch=2) == [(8, [0, 1]), (32, [2, 4])]
    # Texts 1 and 2 are not merged, because the width 32 is more than twice that of text 0, 8.
    assert length_groups([4, 13, 31], batch=9) == [(16, [0, 1]), (32, [2])]
    assert length_groups([6, 41], batch=1) == [(8, [0]), (48, [1])]
    assert length_groups([0], batch=1) == []
