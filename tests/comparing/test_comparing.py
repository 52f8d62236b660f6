"""Tests of the parts of a comparison: scores, curves, disagreement, and damaged runs."""

import json
import math

import numpy as np
import pytest

from comparing.comparability import CONDITIONS, OTHER_CORPORA, Comparability, comparability
from comparing.curves import learning_curves
from comparing.examples import compared_examples, same_examples
from comparing.page import write_comparison
from comparing.runs import check_comparable, load_run
from comparing.scores import cost_table, describe_tests, faithfulness_table, score_table
from comparing.systems import group_runs
from errors import UserError
from evaluation.bootstrap import format_p, mean_score, mean_statistics, paired_bootstrap_p
from evaluation.examples import ScoredExample
from evaluation.metrics import FAITHFULNESS, METRICS
from evaluation.page import read_page_content
from reading import digest
from tests.comparing.runs import GOLD, SOURCES, WRONG, write_report, write_run

SAME = Comparability(examples=True)  # of runs with the same examples


def test_scores_have_means_deviations_and_significance(systems):
    loss, exact = score_table(systems, SAME)
    assert [cell["text"] for cell in loss["cells"]] == ["0.6 ± 0.1", "0.55 ± 0.071"]
    assert [cell["best"] for cell in loss["cells"]] == [False, True]
    assert [cell["text"] for cell in exact["cells"]] == ["100.00 ± 0.00", "66.67 ± 0.00"]
    assert exact["contrasts"][0][0] is None and loss["note"] == "−log p"
    right, wrong = ([mean_statistics([1, 1, last])] * 2 for last in (1, 0))
    p = f"p = {format_p(paired_bootstrap_p(right, wrong, mean_score))}"
    assert exact["contrasts"][1][0] == {"difference": "−33.33", "p": p, "test": "bootstrap"}
    # The loss has no example statistics, so that the seeds are compared.
    assert loss["contrasts"][0][1]["test"] == "t" and loss["contrasts"][0][1]["p"]
    # No test is possible if the seeds of both systems have equal scores.
    assert score_table(systems, Comparability())[1]["contrasts"][0][1]["test"] == ""
    single = [systems[0]._replace(runs=systems[0].runs[:1]), systems[1]]
    assert score_table(single, SAME)[0]["contrasts"][0][1]["p"] == ""
    first = systems[0].runs[0]
    infinite = first._replace(report={"scores": {"loss": math.inf}})
    (loss,) = score_table([systems[0]._replace(runs=[infinite, infinite])], Comparability())
    assert loss["cells"][0]["text"] == "–"


def test_the_page_says_which_scores_have_which_test(systems):
    table = score_table(systems, SAME)
    bold = "The best mean of a score is bold if all systems can be compared. "
    below = "Below a score is its difference from that of the chosen system. "
    bootstrap = (
        "The two-sided p-values of exact match are those of a paired bootstrap over the examples "
        "(1,000 resamples). "
    )
    assert describe_tests(table) == bold + below + bootstrap + (
        "The two-sided p-values of loss, marked (t), are those of Welch's t-test over seeds, for "
        "systems with at least two seeds."
    )
    tests = [[None, {"test": "bootstrap"}, {"test": "t"}]]
    mixed = describe_tests([{"name": "chrF", "cells": [], "contrasts": tests}])
    assert "of chrF are those of a paired bootstrap" in mixed and "of chrF, marked (t)" in mixed
    single = [system._replace(runs=system.runs[:1]) for system in systems]
    runs = [
        run._replace(report={"scores": {**run.report["scores"], "accuracy": 0.1 * i}})
        for i, run in enumerate(run for system in single for run in system.runs)
    ]
    single = [s._replace(runs=[run]) for s, run in zip(single, runs, strict=True)]
    text = describe_tests(score_table(single, SAME))
    assert bootstrap in text and "There are no p-values for loss and accuracy: " in text
    assert "t-test over seeds" not in text
    assert describe_tests(score_table(single, Comparability(corpora=False))) == ""
    assert describe_tests(score_table(single[:1], SAME)) == ""


def test_faithfulness_is_compared_over_seeds(systems):
    assert faithfulness_table(systems, SAME) == []

    def measured(system, *drops):
        found = [
            {"drop_attention": drop, "drop_attention_low": drop - 0.5, "drop_attention_high": 4,
             "examples": 3}
            for drop in drops
        ]  # fmt: skip
        return system._replace(
            runs=[
                run._replace(report=run.report | {"faithfulness": values})
                for run, values in zip(system.runs, found, strict=True)
            ]
        )

    both = [measured(systems[0], 1, 2, 3), measured(systems[1], 8, 9)]
    (entry,) = faithfulness_table(both, SAME)
    assert entry["name"] == "Removal of the most attended token, drop in log p (nats)"
    assert [cell["text"] for cell in entry["cells"]] == ["2.00 ± 1.00", "8.50 ± 0.71"]
    assert not any(cell["best"] for cell in entry["cells"])
    contrast = entry["contrasts"][1][0]
    assert contrast["difference"] == "+6.50" and contrast["test"] == "t"
    (other,) = faithfulness_table(both, Comparability(corpora=False))
    assert other["cells"] == entry["cells"] and other["contrasts"] == [[None] * 2] * 2
    (entry,) = faithfulness_table([measured(systems[0], 1, 2, 3), systems[1]], SAME)
    assert entry["cells"][1]["text"] == "–" and entry["contrasts"][1][0] is None
    single = systems[0]._replace(runs=systems[0].runs[:1])
    (entry,) = faithfulness_table([measured(single, 1)], SAME)
    assert entry["cells"][0]["text"] == "1.00 [0.50, 4.00]"  # over examples


def test_unequal_samples_of_faithfulness_are_a_note(runs, tmp_path):
    def notes(*counts):
        for folder, count in zip(runs, counts, strict=True):
            path = folder / "eval/test/scores.json"
            report = json.loads(path.read_text()) | {"faithfulness": {"examples": count}}
            path.write_text(json.dumps(report))
        found = write_comparison(runs, "test", 10, tmp_path / "page.html")
        return [note for note in found if "faithfulness" in note]

    assert notes(3, 3, 3, 3, 3) == []
    missing, sizes = notes(3, 0, 3, 5, 3)
    assert str(runs[1]) in missing and "--faithfulness" in missing
    assert "with 3 examples and of others with 5" in sizes


def test_costs_are_means_over_seeds(systems):
    table = cost_table(systems, "tokens")
    costs = dict(zip(table["head"], table["rows"][0], strict=True))
    assert costs["Parameters"] == "1,234" and costs["Training tokens"] == "240"
    # 240 tokens at 40 tokens per second take 6 seconds, at .5 TFLOP per second.
    assert costs["Operations (TFLOP)"] == "3" and costs["Minutes"] == "0.5"
    assert costs["Device"] == "cpu" and costs["Training steps"] == "30"


def test_curves_begin_with_the_metric_that_selects_checkpoints(systems, tmp_path):
    run = systems[0].runs[0]
    found = learning_curves([run])
    assert run.config.train.eval_metric == "exact"
    labels = [entry["label"] for entry in found]
    assert labels == ["Validation exact match (%)", "Validation loss", "Validation BLEU",
                      "Training loss", "Training number of units"]  # fmt: skip
    (exact,) = found[0]["curves"]
    assert exact["values"] == [25, 50, 75] and exact["steps"] == [10, 20, 30]
    assert exact["minutes"] == [pytest.approx((1 + step) / 60) for step in (10, 20, 30)]
    many = [{"step": i, "kind": "train", "time": 1.0, "loss": 1 / (1 + i)} for i in range(5000)]
    (curve,) = learning_curves([run._replace(log=many)])[0]["curves"]
    assert len(curve["values"]) <= 400 and curve["steps"][-1] == 4999
    bad = [{"step": 1, "kind": "train", "time": 1.0, "loss": "x", "b": True, "c": math.nan}]
    assert learning_curves([run._replace(log=bad)]) == []


def shown(systems, *weights):
    """Give the first example of each system's first run these weights of its one target token."""
    found = []
    for system, rows in zip(systems, weights, strict=True):
        run = system.runs[0]
        first = run.shown[0]._replace(target=["Mai", "."], weights=np.array(rows, float))
        found.append(system._replace(runs=[run._replace(shown=[first])]))
    return found


def test_disagreement_is_the_mean_distance_of_different_systems(systems):
    examples = compared_examples(systems, 10, translation=True, labelling=False)
    assert [example["number"] for example in examples] == [1, 2, 3]
    # "4. Juni 1999" and "4. Juli 1999" differ in one of twelve characters.
    assert [x["disagreement"] for x in examples] == [0, 0, pytest.approx(1 / 12)]
    (worst,) = compared_examples(systems, 1, translation=True, labelling=False)
    assert worst["text"] == SOURCES[2] and len(worst["runs"]) == 5
    one = [systems[0]._replace(runs=[systems[0].runs[0], systems[1].runs[0]])]
    assert compared_examples(one, 1, True, False)[0]["disagreement"] == pytest.approx(1 / 12)
    classes = compared_examples(systems, 1, translation=False, labelling=False)
    assert classes[0]["disagreement"] == 1
    labels = compared_examples(systems, 1, translation=False, labelling=True)
    assert labels[0]["disagreement"] == pytest.approx(1 / 3)  # one of three labels


def test_disagreement_of_attention_is_total_variation(systems):
    """Rows are compared after normalization; a row of zeros is compared as it is."""
    width = len(systems[0].runs[0].shown[0].source)
    first, last = np.eye(width)[0], np.eye(width)[-1]
    pair = shown(systems, [first * 3, last], [first / 2 + last / 2, last])
    found = compared_examples(pair, 3, translation=True, labelling=False)[0]
    assert found["attention"] == pytest.approx(0.25)  # the mean of ½ and 0
    document = compared_examples(pair, 3, translation=False, labelling=False)[0]
    assert document["attention"] == pytest.approx(0.5)  # only the first row counts
    longer = (
        pair[1].runs[0].shown[0]._replace(target=["der", "Mai"], weights=np.stack([last, first]))
    )
    pair[1] = pair[1]._replace(runs=[pair[1].runs[0]._replace(shown=[longer])])
    found = compared_examples(pair, 3, translation=True, labelling=False)[0]
    assert found["attention"] == 0  # "Mai" is the only token of both translations
    other = longer._replace(source=["x"] * width)
    pair[1] = pair[1]._replace(runs=[pair[1].runs[0]._replace(shown=[other])])
    assert compared_examples(pair, 3, True, False)[0]["attention"] is None


def test_runs_without_a_report_are_compared_by_their_logs(tmp_path):
    folders = [write_run(tmp_path / name, report=False, train__steps=n)
               for n, name in enumerate("ab", 5)]  # fmt: skip
    notes = write_comparison(folders, "test", 10, tmp_path / "page.html")
    assert [note.partition(": ")[2] for note in notes] == [
        f"python eval.py --workdir={folder} --split=test" for folder in folders
    ]
    content = read_page_content(tmp_path / "page.html", "")
    assert content["validation"] and content["scores"][0]["cells"][0]["text"] == "0.1333"
    assert content["examples"] == [] and content["curves"] and content["notes"] == notes
    write_report(folders[0] / "eval" / "test", "translation", GOLD)
    (folders[0] / "eval" / "test" / "report.html").unlink()
    notes = write_comparison(folders, "test", 10, tmp_path / "page.html")
    assert "no report.html" in notes[0] and "no report of test" in notes[1]
    content = read_page_content(tmp_path / "page.html", "")
    assert not content["validation"] and content["examples"][0]["runs"][1]["prediction"] is None
    many = [write_run(tmp_path / f"run{i}", i, report=False) for i in range(8)]
    with pytest.raises(UserError, match="no run has a report of tset: did you mean test"):
        write_comparison(many, "tset", 10, tmp_path / "page.html")
    write_report(many[0] / "eval" / "news", "translation", GOLD)
    many.append(write_run(tmp_path / "run8", 8, report=False))
    notes = write_comparison(many, "news", 10, tmp_path / "page.html")
    assert len(notes) == 6 and "--test=news=FILES" in notes[0] and "3 more" in notes[-1]
    report = folders[1] / "eval" / "test"  # as eval.py wrote it before it wrote examples.jsonl
    write_report(report, "translation", GOLD)
    (report / "examples.jsonl").unlink()
    notes = write_comparison(folders, "test", 10, tmp_path / "page.html")
    assert "no examples.jsonl" in notes[1]
    shown = read_page_content(tmp_path / "page.html", "")["examples"][0]["runs"]
    assert shown[0]["correct"] and shown[1] == {"prediction": None, "correct": False}


def test_a_missing_log_or_record_of_a_run_is_a_note(tmp_path):
    folders = [write_run(tmp_path / f"seed{s}", s) for s in range(3)]
    (folders[0] / "log.jsonl").unlink()
    (folders[1] / "run.json").unlink()
    notes = write_comparison(folders, "test", 10, tmp_path / "page.html")
    for folder, name, note in zip(folders[:2], ("log.jsonl", "run.json"), notes, strict=True):
        assert f"{folder} has no {name}" in note
    content = read_page_content(tmp_path / "page.html", "")
    assert content["differences"] == [{"name": "corpus", "values": ["dates-1", "–"]}]
    head, (known, unknown) = content["cost"]["head"], content["cost"]["rows"]
    assert known[head.index("Parameters")] == "1,234" and known[head.index("Minutes")] == "0.5"
    assert unknown[head.index("Device")] == "–" and unknown[head.index("Minutes")] == "0.5"
    for folder in folders[1:]:
        (folder / "log.jsonl").unlink()
    write_comparison(folders, "test", 10, tmp_path / "page.html")
    content = read_page_content(tmp_path / "page.html", "")
    assert content["curves"] == [] and content["cost"]["rows"][0][2:8] == ["–"] * 6


def test_a_prediction_is_correct_if_it_equals_a_whole_reference(tmp_path):
    folders = [write_run(tmp_path / name, report=False) for name in "ab"]
    gold, part = ["a | b", *GOLD[1:]], ["a", *GOLD[1:]]
    for folder, predictions in zip(folders, (gold, part), strict=True):
        write_report(folder / "eval" / "test", "translation", predictions, gold=gold)
    systems = group_runs([load_run(folder, "test") for folder in folders])
    examples = compared_examples(systems, 10, translation=True, labelling=False)
    assert [[run["correct"] for run in x["runs"]] for x in examples] == [
        [True, False], [True, True], [True, True],
    ]  # fmt: skip


def test_a_prediction_in_lower_case_is_correct_if_the_score_ignores_the_case():
    scored = {"exact": [1.0, 1.0], "bleu": [2.0] * 10}
    assert ScoredExample("Hund", ["A Dog"], "a dog", scored).correct
    assert not ScoredExample("Hund", ["A Dog"], "a dog", scored | {"exact": [0.0, 1.0]}).correct
    assert not ScoredExample("a b", ["x y"], "x x", {"accuracy": [1.0, 2.0]}).correct


HUGE = 10**400  # does not fit a float


@pytest.mark.parametrize("name", ["time", "step", "parameters", "loss"])
def test_huge_numbers_in_a_log_are_one_message(name, tmp_path):
    folder = write_run(tmp_path / "a")
    kind = "valid" if name == "loss" else "run"
    with (folder / "log.jsonl").open("a") as log:
        log.write(json.dumps({"step": 40, "kind": kind, "time": 200.0} | {name: HUGE}) + "\n")
    with pytest.raises(UserError, match=rf"log.jsonl is corrupt \('{name}' is too large"):
        load_run(folder, "test")


def test_large_numbers_in_a_log_do_not_overflow(tmp_path):
    folder = write_run(tmp_path / "a")
    values = {"count": 10**300, "teraflops": 10**300, "count_per_second": 1, "loss": HUGE}
    with (folder / "log.jsonl").open("a") as log:
        for time in (10**308, -(10**308)):
            line = {"step": 40, "kind": "train", "time": time, **values}
            log.write(json.dumps(line) + "\n")
    run = load_run(folder, "test")
    assert cost_table(group_runs([run]), "tokens")["rows"] and learning_curves([run])


def test_reports_of_reproduce_are_found(tmp_path):
    folder = write_run(tmp_path / "a", report=False)
    write_report(folder / "reports" / "checkpoint=best", "translation", WRONG)
    assert load_run(folder, "test").examples[2].prediction == WRONG[2]
    assert load_run(folder, "valid").report is None


def test_reports_of_other_examples_are_not_compared(runs, tmp_path):
    other = write_run(tmp_path / "other", report=False)
    write_report(other / "eval" / "test", "translation", WRONG, 1, sources=["a", "b", "c"])
    unscored = [write_run(tmp_path / f"x{i}", i, report=False) for i in range(9)]
    notes = write_comparison([runs[0], other, *unscored], "test", 10, tmp_path / "page.html")
    assert notes[0] == OTHER_CORPORA and len(notes) == 7
    content = read_page_content(tmp_path / "page.html", "")
    assert content["examples"] == [] and content["notes"] == notes
    for score in content["scores"]:
        assert not any(cell["best"] for cell in score["cells"])
        assert not any(contrast for row in score["contrasts"] for contrast in row)
    loaded = load_run(runs[0], "test")
    spaced = [x._replace(text=x.text.upper().replace(" ", "  ")) for x in loaded.examples]
    assert same_examples([loaded, loaded._replace(examples=spaced)])


VOCABULARIES = {  # changes of the target vocabulary of a run, and the scores that still compare
    "data__target_vocab__kind": ("bpe", {"bleu", "exact"}),
    "data__target_vocab__tokenizer": ("split", {"bleu", "exact"}),
    "data__target_vocab__lowercase": (True, {"tokenized_bleu"}),
    "data__source_vocab__kind": ("bpe", {"loss", "bleu", "tokenized_bleu", "exact"}),
}


@pytest.mark.parametrize("field", VOCABULARIES)
def test_scores_are_compared_only_if_they_count_the_same_tokens(field, tmp_path):
    value, expected = VOCABULARIES[field]
    folders = [
        write_run(tmp_path / "a", 0), write_run(tmp_path / "b", 1, WRONG, **{field: value}),
        write_run(tmp_path / "c", 3, WRONG, train__steps=7),
    ]  # fmt: skip
    for i, folder in enumerate(folders):
        path = folder / "eval/test/scores.json"
        report = json.loads(path.read_text())
        report["scores"] |= {"bleu": 10 + i, "tokenized_bleu": 11 + i}
        path.write_text(json.dumps(report))
    notes = write_comparison(folders, "test", 10, tmp_path / "page.html")
    scores = read_page_content(tmp_path / "page.html", "")["scores"]
    keys = ("loss", "exact", "bleu", "tokenized_bleu")
    compared = set()
    for key, score in zip(keys, scores, strict=True):
        assert score["contrasts"][0][2]  # always of the same tokens
        if score["contrasts"][0][1]:
            compared.add(key)
            assert score["contrasts"][1][2] and any(cell["best"] for cell in score["cells"])
        else:
            assert not any(cell["best"] for cell in score["cells"])
    assert compared == expected
    reason = "The page compares loss only between runs with the same target vocabulary: "
    assert any(note.startswith(reason) for note in notes) == ("loss" not in expected)
    assert len(notes) == (0 if "loss" in expected else 2)


def test_faithfulness_is_compared_between_runs_with_the_same_tokens(tmp_path):
    folders = [
        write_run(tmp_path / "a", 0),
        write_run(tmp_path / "b", 1, data__source_vocab__tokenizer="characters"),
    ]
    for folder in folders:
        path = folder / "eval/test/scores.json"
        measured = json.loads(path.read_text()) | {"faithfulness": {"drop_attention": 1.0}}
        path.write_text(json.dumps(measured))
    runs = [load_run(folder, "test") for folder in folders]
    (note,) = comparability(runs, "test").notes
    assert note.startswith("The page compares the measures of faithfulness only between runs with")
    groups = comparability(runs, "test").groups("drop_attention", group_runs(runs))
    assert groups[0] != groups[1]


def test_each_score_has_a_condition_or_compares_between_all_runs():
    """Add a new metric to CONDITIONS if its values depend on vocabularies, or else to this test."""
    conditional = {key for condition in CONDITIONS for key in condition.scores}
    always = {"alignment_error", "precision", "recall", "f1", "error", "macro_f1", "most_frequent"}
    assert conditional | always == METRICS.keys() | FAITHFULNESS.keys()
    assert not conditional & always


def test_vocabularies_with_other_words_have_other_perplexities(tmp_path):
    """A shared vocabulary has the name of the source vocabulary."""
    settings = {"data__shared_vocab": True}
    folders = [write_run(tmp_path / "a", 0), write_run(tmp_path / "b", 1, train__steps=5),
               write_run(tmp_path / "c", 2, **settings)]  # fmt: skip
    for folder, digests in zip(
        folders,
        ({"source.vocab": "1", "target.vocab": "2"}, {"source.vocab": "3", "target.vocab": "2"},
         {"source.vocab": "4"}), strict=True,
    ):  # fmt: skip
        (folder / "vocabulary").mkdir()
        (folder / "vocabulary" / "sha256.json").write_text(json.dumps(digests))
    assert write_comparison(folders[:2], "test", 10, tmp_path / "page.html") == []
    (note,) = write_comparison(folders, "test", 10, tmp_path / "page.html")
    assert note.startswith("The page compares loss only between runs with the same target voc")


def test_a_run_without_readable_digests_of_its_vocabularies_is_compared(tmp_path):
    old, damaged = write_run(tmp_path / "a", 0), write_run(tmp_path / "b", 1, train__steps=5)
    for folder in (old, damaged):
        (folder / "vocabulary").mkdir()
    (old / "vocabulary" / "target.vocab").write_text("words\n")
    (damaged / "vocabulary" / "sha256.json").write_text("{")
    expected = {"target.vocab": digest(old / "vocabulary" / "target.vocab")}
    assert load_run(old, "test").vocabularies == expected
    run = load_run(damaged, "test")
    assert run.vocabularies == {} and "sha256.json" in run.problems[0]


def test_scores_without_examples_are_compared_for_corpora_of_one_name(systems):
    """The digest of a corpus depends on its vocabularies, and its label does not."""
    run = systems[0].runs[0]._replace(examples=[], corpus="text-en-de-1")

    def corpora(split="test", **changes):
        return comparability([run, run._replace(**changes)], split).corpora

    assert corpora(corpus="text-en-de-2") and corpora(corpus="")
    assert not corpora(corpus="text-en-fr-2")
    assert corpora(corpus="text-en-fr-2", report=None)
    assert corpora("talks", corpus="text-en-fr-2")  # a test set, not a split of these corpora
    assert not corpora(fields=run.fields | {"data.name": "other"})
    assert corpora("test", examples=systems[0].runs[0].examples)


def test_runs_of_different_tasks_are_refused(runs, tmp_path):
    other = write_run(tmp_path / "labels", task="labelling", predictions=["N V N N", "N V", "N"],
                      report=False)  # fmt: skip
    with pytest.raises(UserError, match=r"is a translation run, but .* is a labelling run"):
        check_comparable([load_run(runs[0], "test"), load_run(other, "test")])


DAMAGES = {
    "examples.jsonl": [
        "{}\n", "no json\n", '{"text": 1}\n', "[" * 5000 + "\n",
        '{"text": "", "references": [], "prediction": "", "statistics": {"exact": [1]}}\n',
        '{"text": "", "references": [], "prediction": "", "statistics": {"huge": [1, 1]}}\n',
    ],
    "report.html": ["", '<script id="data" type="application/json">{}</script>'],
    "scores.json": ["[]", '{"scores": {"bleu": "high"}}', f'{{"scores": {{"bleu": {10**400}}}}}'],
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_reports_are_one_message(name, tmp_path):
    path = write_run(tmp_path / "a") / "eval" / "test" / name
    for content in DAMAGES[name]:
        path.write_text(content)
        with pytest.raises(UserError, match=f"{name} is corrupt"):
            load_run(tmp_path / "a", "test")


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": ["one"]},
        {"attention": {"attention": [[1.0, 2.0], [3.0]]}},
        {"attention": {"attention": [[{}]]}},
        {"attention": {"attention": [[10**400]]}},
        {"gold": ["N"]},
    ],
    ids=str,
)
def test_weights_that_do_not_fit_are_one_message(change, tmp_path):
    path = write_run(tmp_path / "a") / "eval" / "test" / "report.html"
    content = read_page_content(path, "")
    content["examples"][0]["hypotheses"][0] |= change
    path.write_text(f'<script id="data" type="application/json">{json.dumps(content)}</script>')
    with pytest.raises(UserError, match=r"report.html is corrupt"):
        load_run(tmp_path / "a", "test")
