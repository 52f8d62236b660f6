"""The answers of the lab's runs, compared with those of the Python interface."""

import numpy as np
import pytest

from configs.registry import TASKS
from data.vocabulary import SentencePieceVocabulary
from decoding.translator import Translator
from errors import UserError
from serving.requests import Body
from serving.runs import LAB_RUNS
from serving.translation import MOST_TRANSLATORS
from tests.serving.conftest import HOSTILE

TEXT = "May 3, 2020"  # seven tokens; all texts have the same padded width
BEAM = {"beam": 2, "length_penalty": "average", "alpha": 0.3}


def ask(runs, name, kind, **fields):
    return runs[name].job(kind, Body({"run": name, "text": TEXT, **fields}), runs)()


def ids(hypothesis):
    return [token["id"] for token in hypothesis["tokens"]]


def test_a_translation_equals_that_of_the_translator(translations, one_device):
    run = translations["a"]
    for settings in ({}, BEAM):
        found = ask(translations, "a", "translate", **settings)
        decode = run.config.decode.copy_and_resolve_references()
        decode.update({**settings, "nbest": settings.get("beam", 1)})
        translator = Translator([run._task], one_device, decode)
        ((*expected,),) = translator.in_order([run._params], [TEXT], attention=True)
        assert [h["text"] for h in found["hypotheses"]] == [h.text for h in expected]
        for ours, theirs in zip(found["hypotheses"], expected, strict=True):
            assert ours["score"] == pytest.approx(theirs.score, rel=1e-4)
            np.testing.assert_allclose(ours["attention"], theirs.attention, atol=1e-3)
        assert sum(found["best"]["log_p"]) == pytest.approx(expected[0].log_p, rel=1e-3)
        weights = found["best"]["attention"]["attention"]
        np.testing.assert_allclose(weights, expected[0].attention, atol=1e-3)


def test_hypotheses_begin_with_the_prefix_and_continue_as_the_model_does(translations):
    free = ask(translations, "a", "translate")["hypotheses"][0]
    tokens = [token["token"] for token in free["tokens"]]
    same = ask(translations, "a", "translate", prefix={"run": "a", "tokens": tokens[:2]})
    assert ids(same["hypotheses"][0]) == ids(free) and same["prefix"] == 2
    for settings in ({}, BEAM):
        other = ask(translations, "a", "translate", prefix="3. Mai", **settings)
        expected = translations["a"].target.encode("3. Mai")
        assert other["prefix"] == len(expected) == 3
        assert all(ids(h)[:3] == expected for h in other["hypotheses"])
        # The score is that of the tokens after the prefix.
        log_p = other["best"]["log_p"]
        assert other["hypotheses"][0]["log_p"] == pytest.approx(sum(log_p[3:]), rel=1e-3)
    # The second run has the same vocabulary and gets the same tokens.
    shared = ask(translations, HOSTILE, "translate", prefix={"run": "a", "tokens": tokens[:2]})
    assert ids(shared["hypotheses"][0])[:2] == ids(free)[:2]


def test_the_distribution_of_the_next_token_is_that_of_teacher_forcing(translations):
    free = ask(translations, "a", "translate")
    target = ids(free["hypotheses"][0])
    tokens = [token["token"] for token in free["hypotheses"][0]["tokens"]]
    for place in (0, 2):
        prefix = {"run": "a", "tokens": tokens[:place]}
        found = ask(translations, "a", "next", prefix=prefix)
        best = found["candidates"][0]
        assert best["id"] == target[place]  # the translation is greedy
        assert np.log(best["p"]) == pytest.approx(free["best"]["log_p"][place], abs=2e-3)
        rows = free["best"]["attention"]["attention"]
        np.testing.assert_allclose(found["attention"], rows[place], atol=1e-3)
        np.testing.assert_allclose(best["looks"], rows[place + 1], atol=1e-3)
    colder = ask(translations, "a", "next", temperature=0.1)["candidates"]
    first = ask(translations, "a", "next")["candidates"]
    # p^(1/T) for T = 0.1: the ratio of two probabilities is raised to the power 10.
    ratios = [found[0]["p"] / found[7]["p"] for found in (first, colder)]
    assert ratios[1] == pytest.approx(ratios[0] ** 10, rel=1e-3)


def test_next_tokens_do_not_depend_on_the_beam_of_the_run(translations, monkeypatch):
    run, defaults = translations["a"], translations["a"]._defaults()
    first = ask(translations, "a", "next", temperature=0.1)
    monkeypatch.setattr(run, "_defaults", lambda: {**defaults, "beam": 4})
    assert ask(translations, "a", "next", temperature=0.1) == first


def test_special_tokens_in_a_prefix_are_refused(translations, monkeypatch):
    settings = translations["a"].config.data.target_vocab.copy_and_resolve_references()
    settings.update({"kind": "bpe", "size": 20})
    vocabulary = SentencePieceVocabulary.learn(["ein Mai und ein Juni"] * 9, settings, "de")
    monkeypatch.setattr(translations["a"], "target", vocabulary)
    for token in ("<pad>", "<s>", "</s>"):
        with pytest.raises(UserError, match=f"the special token {token}: remove it"):
            ask(translations, "a", "next", prefix={"run": "a", "tokens": ["▁ein", token]})


def test_an_edit_removes_and_replaces_source_tokens(translations):
    edit = {"run": "a", "changes": {"1": "4:", "6": None}}
    found = ask(translations, "a", "translate", edit=edit)
    assert [token["token"] for token in found["source"]] == [
        "May", "4", "￭:", "￭,", "2", "￭0", "￭2", "</s>",
    ]  # fmt: skip
    assert found["origin"] == [0, 1, 1, 2, 3, 4, 5] and found["unknown"] == []
    target = ids(ask(translations, "a", "translate")["hypotheses"][0])
    inspected = ask(translations, "a", "inspect", edit=edit, target=target)
    assert len(inspected["log_p"]) == len(target)
    assert inspected["log_p"] != ask(translations, "a", "inspect", target=target)["log_p"]
    assert ask(translations, HOSTILE, "translate", edit=edit)["origin"] == found["origin"]
    assert ask(translations, "a", "translate", text="pizza 3")["unknown"] == ["pizza"]


def test_a_run_with_other_tokens_reads_the_edited_text(translations, monkeypatch):
    monkeypatch.setattr(translations[HOSTILE], "tokenization", {"source": "", "target": ""})
    edit = {"run": "a", "changes": {"0": "June"}}
    prefix = {"run": "a", "tokens": ["3", "￭."]}
    found = ask(translations, HOSTILE, "translate", edit=edit, prefix=prefix)
    assert found["origin"] is None and found["source"][0]["token"] == "June"
    assert found["prefix"] == 2


def test_numbers_need_no_compilation_and_few_translators_are_kept(translations):
    run = translations["a"]
    run._translators.clear()  # other tests use the run, too
    for alpha in (0.1, 0.2):
        ask(translations, "a", "translate", length_penalty="gnmt", alpha=alpha)
    samples = [
        ask(translations, "a", "translate", temperature=t, draw=draw)["hypotheses"][0]["text"]
        for t, draw in ((1.0, 0), (2.0, 1), (2.0, 1))
    ]
    assert samples[1] == samples[2] != samples[0]
    keys = [key for key in run._translators if key[0] == 1]
    assert len(keys) == 2  # greedy search with any alpha, and sampling
    for key in keys:
        assert run._translators[key]._decode._cache_size() == 1
    for beam in range(1, MOST_TRANSLATORS + 3):
        run._translator(Body({}).search({**run._defaults(), "beam": beam}, ["none"]))
    assert len(run._translators) == MOST_TRANSLATORS


def test_heads_of_a_transformer_are_shown(translations):
    found = ask(translations, HOSTILE, "translate")
    named, best = found["best"]["attention"], found["hypotheses"][0]
    assert {"attention", "layer 0", "layer 0 head 1"} <= {*named}
    assert np.shape(named["layer 0 head 1"]) == (len(best["tokens"]), len(found["source"]))


QUESTION = {"passage": "the film was good and long", "query": "so XXXXX .",
            "candidates": ["film", "good"]}  # fmt: skip


def test_the_lab_has_a_class_for_every_task():
    assert {*LAB_RUNS} == {*TASKS}


def test_other_tasks_show_distributions_and_what_was_read(predictions):
    text = "the film was good"
    found = ask(predictions, "sentence", "predict", text=text)
    assert sum(entry["p"] for entry in found["distribution"]) == pytest.approx(1, abs=1e-3)
    assert {*found["maps"]} == {"mean of the hops", "hop 0", "hop 1"}
    assert np.shape(found["maps"]["hop 1"]) == (4,) and not found["truncated"]
    assert ask(predictions, "sentence", "predict", text="film " * 300)["truncated"]
    edit = {"run": "sentence", "changes": {"3": "very bad", "0": None}}
    edited = ask(predictions, "sentence", "predict", text=text, edit=edit)
    assert edited["units"] == ["film", "was", "very", "bad"] and edited["origin"] == [1, 2, 3, 3]

    lines = "the DT\nfilm NN"
    labelled = ask(predictions, "columns", "predict", text=lines)
    assert len(labelled["steps"]) == 2 and labelled["steps"][0][0]["p"] > 0
    for text in (f"{lines}\n\n", f"\n \n{lines}", f"\ufeff\n{lines}\n\x00\n"):
        assert ask(predictions, "columns", "predict", text=text) == labelled
    assert predictions["columns"].describe()["typed"] == "one word per line (word pos)"
    edit = {"run": "columns", "changes": {"1": "dull"}}
    edited = ask(predictions, "columns", "predict", text=lines, edit=edit)
    assert edited["units"] == ["the DT", "dull NN"]

    answer = ask(predictions, "reader", "predict", **QUESTION)
    assert {entry["label"] for entry in answer["distribution"]} == {"film", "good"}
    assert np.shape(answer["query"]["rows"]) == (3, 6)
    edit = {"run": "reader", "changes": {"0": None}}
    assert ask(predictions, "reader", "predict", **QUESTION, edit=edit)["units"][0] == "film"


QUERY = (("query", "a"), ("candidates", ("a",)))


def test_mistakes_in_inputs_are_user_errors(translations, predictions):
    runs = {**translations, **predictions}
    for (name, kind, fields), fact in {
        ("a", "translate", (("text", " "),)): "no tokens",
        ("a", "translate", (("text", "1 " * 64),)): "64 tokens, and the lab translates at most 63",
        ("a", "translate", (("prefix", "1 " * 40),)): "the target prefix has 40 tokens",
        ("sentence", "predict", (("text", " "),)): "no words",
        ("reader", "predict", (("passage", "a " * 1001), *QUERY)): "1,001 words",
        ("columns", "predict", (("text", "the DT x y z"),)): "the input, line 1: expected",
        ("columns", "predict", (("text", "the DT\n\nfilm NN"),)): "blank lines",
        ("reader", "predict", (("passage", "a"), *QUERY)): "XXXXX",
    }.items():
        given = {key: list(x) if isinstance(x, tuple) else x for key, x in fields}
        with pytest.raises(UserError, match=fact):
            ask(runs, name, kind, **given)


def test_warm_ups_compile_what_requests_use(translations, predictions):
    for runs, count in ((translations, 8), (predictions, 4)):
        for run in runs.values():
            assert len(run.warm_ups()) == count
    assert len(predictions["columns"].warm_ups()[0]()["steps"]) == 8
    run = translations["a"]
    run.warm_ups()[0](), run.warm_ups()[1]()
    functions = run._inspect, run._next, run._translators[1, "gnmt", False]._decode
    sizes = [function._cache_size() for function in functions]
    ask(translations, "a", "translate")
    ask(translations, "a", "next")
    assert [function._cache_size() for function in functions] == sizes
