"""Tests of report.html in a real browser: explorer, keyboard use, narrow screens and dark mode."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from evaluation import classification, cloze, labelling, page
from evaluation.faithfulness_report import describe_faithfulness
from evaluation.page import AttentionBudget, ReportPage, write_report_page
from evaluation.results import ReportOptions, write_report
from tests.browser import (
    contrast,
    needs_browser,
    open_file,
    point_at,
    script_errors,
)
from tests.programs import ROOT

WEIGHTS = [[0.7, 0.2, 0.1], [0.0, 0.05, 0.95]]
HOSTILE = "the </script> <!--<script> <img src=x onerror=fail()> cat"


def hypothesis(tokens, score, named, focus=0):
    return {"text": " ".join(tokens[:-1]), "tokens": tokens, "score": score,
            "attention": named, "focus": focus}  # fmt: skip


def make_page(**changes):
    """Return a report page with all parts and two examples, one with two attention heads."""
    head = {"layer 0": WEIGHTS, "layer 0 head 0": WEIGHTS, "layer 0 head 1": WEIGHTS[::-1]}
    heads = {"attention": WEIGHTS, **head}
    bars = [
        {"label": label, "value": value, "text": f"{value:.2f}", "note": "2 sentences"}
        for label, value in (("1–5", 33.0), ("over 30", 11.0))
    ]
    chart = {"title": "Tokenized BLEU (0–100, higher is better)", "bars": bars}
    summary = {"name": "attention", "entropy": 0.5, "effective": 1.6, "small": 0.3,
               "largest": 0.8, "source": 3.0, "tokens": 40}  # fmt: skip
    comparison = {"name": "BLEU", "label": "BLEU (0–100, higher is better)", "this": "33.30 ± 1.00",
                  "other": "30.00 ± 1.00", "difference": "+3.30", "p": "0.012"}  # fmt: skip
    different = {"source": HOSTILE, "reference": "die Katze", "this": "Katze", "other": "Hund",
                 "chrf_this": 60.0, "chrf_other": 5.0}  # fmt: skip
    page = ReportPage(
        title="luong2015: dates",
        about="2 sentences",
        terms={"examples": "Translations", "source": "Source tokens", "target": "Hypothesis tokens",
               "prediction": "Hypothesis", "score": "log-probability", "reference": "Reference"},
        examples=[
            {
                "text": "猫がいる", "reference": "هناك قطة", "correct": True,
                "source": ["猫", "が", "</s>"],
                "hypotheses": [hypothesis(["هناك", "قطة"], -1.0, {"attention": WEIGHTS})],
            },
            {
                "text": HOSTILE, "reference": "die Katze", "correct": False,
                "source": ["the", "cat", "</s>"],
                "hypotheses": [
                    hypothesis(["Katze", "</s>"], -0.1, heads, focus=1),
                    hypothesis(["Hund", "</s>"], -3.2, {"attention": WEIGHTS[::-1]}),
                ],
            },
        ],
        opening=1,
        scores=[{"name": "BLEU", "unit": "sacreBLEU, 0–100", "direction": "higher is better",
                 "value": "33.30", "signature": "case:mixed|" * 8},
                {"name": "Exact match", "unit": "%", "direction": "higher is better",
                 "value": "50.00", "signature": ""}],
        comparison={"run": "runs/other/eval/test", "rows": [comparison], "sentences": [different]},
        chart_groups=[
            {"title": "Scores by source length in tokens", "charts": [chart], "notes": []},
            {"title": "Scores by beam width", "charts": [],
             "notes": ["Exact match is 0.00 % in every bucket."]},
        ],
        attention=[summary],
        positions={"title": "Effective number of attended tokens by target position", "bars": bars},
        confusion={"good": {"good": 3, "bad": 1}, "bad": {"good": 0, "bad": 4}},
    )  # fmt: skip
    return page._replace(**changes)


def test_a_sentence_cannot_break_the_page(tmp_path):
    write_report_page(tmp_path / "report.html", make_page())
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("</script>") == 2 and "://" not in page
    assert not re.search(r"/\*[A-Z]+\*/", page)  # placeholders such as /*DATA*/ are replaced
    data = json.loads(page.split('type="application/json">')[1].split("</script>")[0])
    assert data["examples"][1]["text"] == HOSTILE and data["about"].endswith(str(tmp_path))


def test_all_pages_draw_heat_maps_with_the_same_function():
    folders = ("evaluation", "comparing", "serving")
    scripts = [path for folder in folders for path in (ROOT / folder).glob("*.js")]
    drawing = [path.name for path in scripts if '"--shade"' in path.read_text("utf-8")]
    calling = [path for path in scripts if "fillHeatMap(" in path.read_text("utf-8")]
    assert drawing == ["elements.js"] and len(calling) == 4  # the function and three pages


def test_the_page_contains_no_number_that_json_lacks(tmp_path):
    page = make_page(attention=[{"entropy": float(np.nan)}])
    write_report_page(tmp_path / "report.html", page)
    assert "NaN" not in (tmp_path / "report.html").read_text("utf-8").split('id="data"')[1]


@pytest.fixture
def show(driver, tmp_path):
    """Return a function that opens a page, or report.html of this test, with a given width."""

    def open_page(page=None, width=1400, scheme="light"):
        if not isinstance(page, Path):
            write_report_page(tmp_path / "report.html", page or make_page())
        return open_file(driver, tmp_path / "report.html", width, scheme)

    yield open_page
    assert script_errors(driver) == []


@needs_browser
def test_faithfulness_states_the_size_of_its_sample(show):
    values = {"drop_random": 1, "drop_random_low": 0.5, "drop_random_high": 2}
    found = describe_faithfulness(values | {"decisions": 993, "examples": 100})
    section = show(make_page(faithfulness=found)).find_element("id", "faithfulness-section").text
    assert "means over 993 predictions in 100 examples of the split" in section
    assert "Removal of a random token, drop in log p 1.00 0.50 to 2.00 nats" in section
    assert "differ from the attention statistics above" in section
    browser = show(make_page(faithfulness=found, attention=[]))
    section = browser.find_element("id", "faithfulness-section").text
    assert "differ from the attention statistics" not in section


def tokens(browser, side):
    return browser.find_elements("css selector", f"#{side} .token")


def texts(browser, side):
    return [token.text.split("\n")[0] for token in tokens(browser, side)]


def weights(browser, side="source"):
    found = [token.get_attribute("data-weight") for token in tokens(browser, side)]
    return [float(weight) for weight in found if weight]


def marked(browser, selector):
    """Return the indices of the marked elements among those that match the selector."""
    found = browser.find_elements("css selector", selector)
    return [i for i, node in enumerate(found) if "marked" in node.get_attribute("class").split()]


@needs_browser
def test_the_page_opens_with_the_chosen_sentence_and_one_pinned_token(show):
    browser = show()
    assert texts(browser, "source") == ["the", "cat", "</s>"]
    assert weights(browser) == [0.0, 0.05, 0.95]  # the second target token is pinned
    assert marked(browser, "#target .token") == marked(browser, "#heat .row-label") == [1]
    headings = [node.text for node in browser.find_elements("css selector", "h2")]
    assert headings[:2] == ["Translations", "Scores"]
    readout = browser.find_element("id", "readout").text
    assert readout == "“</s>” gives its largest weight, 0.95, to “</s>”."
    frame = browser.find_element("id", "row-frame").rect
    row = browser.find_elements("css selector", "#heat .cell")[3].rect
    assert abs(frame["y"] - row["y"]) <= 2 and abs(frame["height"] - row["height"]) <= 4


@needs_browser
def test_pointing_at_a_token_or_cell_shows_its_weights(show):
    browser = show()
    point_at(browser, tokens(browser, "target")[0])
    assert weights(browser) == [0.7, 0.2, 0.1]
    lit, dim = (
        tokens(browser, "source")[i].value_of_css_property("background-color") for i in (0, 2)
    )
    assert lit != dim and marked(browser, "#heat .row-label") == [0]
    point_at(browser, tokens(browser, "source")[2])
    # Both target tokens show the weight that they give to the third source token.
    assert weights(browser, "target") == [0.1, 0.95]
    assert marked(browser, "#heat .column-label") == [2]
    cells = browser.find_elements("css selector", "#heat .cell")
    assert len(cells) == 6
    point_at(browser, cells[4])  # a row has three cells, so cell 4 is in row 1 and column 1
    assert weights(browser) == [0.0, 0.05, 0.95]
    assert marked(browser, "#source .token") == [1] and marked(browser, "#target .token") == [1]
    assert browser.find_element("id", "readout").text == "“</s>” gives the weight 0.05 to “cat”."


@needs_browser
def test_every_head_and_hypothesis_can_be_chosen(show):
    from selenium.webdriver.support.ui import Select

    browser = show()
    heads = browser.find_elements("css selector", "#heads .head")
    assert [head.get_attribute("data-map") for head in heads] == [
        "layer 0", "layer 0 head 0", "layer 0 head 1",
    ]  # fmt: skip
    # The page opens with the mean over the heads of the last layer, which is layer 0 here.
    assert heads[0].get_attribute("aria-pressed") == "true"
    heads[2].click()
    assert heads[2].get_attribute("aria-pressed") == "true"
    point_at(browser, tokens(browser, "target")[0])
    assert weights(browser) == [0.0, 0.05, 0.95]
    Select(browser.find_element("id", "hypothesis")).select_by_index(1)
    assert texts(browser, "target") == ["Hund", "</s>"]
    assert weights(browser) == [0.0, 0.05, 0.95]  # the first target token stays pinned
    assert not browser.find_element("id", "heads").is_displayed()


@needs_browser
def test_the_page_can_be_used_by_keyboard(show):
    from selenium.webdriver import Keys

    browser = show()
    heads = browser.find_elements("css selector", "#heads .head")
    heads[0].send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element == heads[1]
    examples = browser.find_element("id", "list")
    examples.send_keys(Keys.ARROW_UP)
    assert texts(browser, "source") == ["猫", "が", "</s>"]
    # The target is written from right to left, so the left arrow moves to the next token.
    tokens(browser, "target")[0].send_keys(Keys.ARROW_LEFT)
    assert browser.switch_to.active_element == tokens(browser, "target")[1]
    assert weights(browser) == [0.0, 0.05, 0.95]
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    examples.send_keys("")  # the focus moves to the list, and the pinned token stays highlighted
    assert weights(browser) == [0.0, 0.05, 0.95]
    browser.find_element("id", "find").send_keys("katze")
    assert len(browser.find_elements("css selector", "#list li")) == 1


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_the_page_is_readable(show, width, scheme):
    long = [f"word{i}" for i in range(60)]
    example = make_page().examples[1] | {
        "source": long,
        "hypotheses": [hypothesis(long, -1.0, {"attention": np.eye(60).tolist()})],
    }
    browser = show(make_page(examples=[example], opening=0), width, scheme)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    script = "return document.querySelector('#heat .column-label').getBoundingClientRect().width"
    # A column is at least 12 pixels wide, so that the labels of columns do not overlap.
    assert browser.execute_script(script) >= 12
    for selector in ("body", ".muted", "#source .token", ".row-label.marked", "th", "dt"):
        assert contrast(browser, selector) >= 4.5, selector  # WCAG AA requires a contrast of 4.5
    assert len(browser.find_elements("css selector", ".bars .bar")) == 2
    assert len(browser.find_elements("css selector", "#attention tr")) == 2
    text = browser.execute_script("return document.querySelector('main').innerText")
    for part in ("33.30 ± 1.00", "+3.30", "0.012", "higher is better", "50.00 %", "chrF 60.0",
                 "Exact match is 0.00 % in every bucket."):  # fmt: skip
        assert part in text


@needs_browser
def test_labels_and_missing_parts(show):
    label = hypothesis(["B-NP", "O"], None, {}) | {"gold": ["B-NP", "B-VP"]}
    example = {"text": "cats sleep", "reference": "", "correct": False,
               "source": ["cats", "sleep"], "hypotheses": [label]}  # fmt: skip
    page = make_page(examples=[example], opening=0, comparison=None, chart_groups=[], attention=[],
                     confusion={}, positions=None)  # fmt: skip
    browser = show(page, 390)
    shown = [token.text.split("\n") for token in tokens(browser, "source")]
    assert shown == [["cats", "B-NP"], ["sleep", "O, gold B-VP"]]
    headings = [node.text for node in browser.find_elements("css selector", "h2")]
    assert headings == ["Translations", "Scores"]
    assert not browser.find_element("id", "maps").is_displayed()


ATTACK = "</script><script>fail()</script><img src=x onerror=fail()>\x1b[2J\u2028/*DATA*/__proto__"
LABELS = [ATTACK, "__proto__", "constructor", "10", "2"]


def classified(p):
    text = {"words": [[ATTACK, "good"], ["bad"]], "label": ATTACK}
    if "hops" in p:
        text["words"] = [ATTACK, "good", "bad"]
    budget = AttentionBudget()
    return [classification._for_page(text, {"p": 0.5} | p, label, budget) for label in LABELS]


def cloze_question():
    question = {"passage": [ATTACK, "a"], "query": [ATTACK, "X"], "candidates": [ATTACK],
                "answer": ATTACK}  # fmt: skip
    p = {"answer": 1, "p": 0.5, "s": np.ones(3), "alpha": np.ones((2, 3)), "beta": np.ones(2)}
    return [cloze._for_page(question, p, AttentionBudget())]


def labelled_sentence():
    return [labelling._for_page({"word": [ATTACK, "b"]}, [ATTACK, "O"], ["O", ATTACK])]


# The examples of each page, made from constructed predictions.
ATTACKS = {
    "classification, hops": lambda: classified({"hops": np.ones((2, 4)) / 3}),
    "classification, sentences": lambda: classified(
        {"words": np.ones((2, 3)) / 2, "sentences": np.ones(3) / 2}
    ),
    "cloze": cloze_question,
    "labelling": labelled_sentence,
}


@needs_browser
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "cloze")) for n in ATTACKS]
)
def test_no_task_has_a_page_that_runs_text(name, show, tmp_path):
    """Words, class labels, titles, names of corpora and folders are shown as texts."""
    counts = {gold: dict.fromkeys(LABELS, 1) for gold in LABELS}
    result = {"examples": 1, "scores": {"loss": 1.0, ATTACK: 2.0}, "signatures": {ATTACK: ATTACK},
              "confusion": counts if "classification" in name else {}}  # fmt: skip
    terms = {"examples": ATTACK, "source": ATTACK, "target": ATTACK, "text": ATTACK}
    options = ReportOptions("test", tmp_path, pictures=0, page=1, checkpoints=[2])
    examples = ATTACKS[name]()
    write_report(options, result, ATTACK, terms, examples)
    # The fixture checks that the browser has reported no error, such as a call of fail().
    browser = show(tmp_path / "report.html")
    for i in range(len(examples)):
        browser.find_element("id", f"example-{i}").click()
    shown = browser.execute_script(
        "return [document.scripts.length, document.images.length, "
        "document.querySelector('h1').textContent, "
        "document.querySelector('#source bdi').textContent, Object.keys({}).length, "
        "document.querySelectorAll('#confusion tr').length]"
    )
    counted = 1 + len(LABELS) if "classification" in name else 0
    assert shown == [2, 0, f"{ATTACK}, test", ATTACK, 0, counted]
    if counted:
        cells = browser.find_elements("css selector", "#confusion tr:last-child td")
        assert len(cells) == 1 + len(LABELS)
    browser.find_element("id", "find").send_keys("<img")
    assert browser.find_elements("css selector", "#list li")


def test_a_page_contains_a_bounded_number_of_weights(monkeypatch):
    monkeypatch.setattr(page, "MOST_WEIGHTS", 100)
    monkeypatch.setattr(page, "MOST_IN_HYPOTHESIS", 50)
    named = {"attention": np.ones((5, 6)), "layer 0": np.ones((5, 6))}
    budget = AttentionBudget()
    first = budget.take({"attention": np.ones((5, 6)) / 3})
    assert first == {"attention": {"attention": [[0.333] * 6] * 5}, "note": ""}
    second = budget.take(named)  # both maps have more than 50 weights together
    assert list(second["attention"]) == ["attention"] and "heads are left out" in second["note"]
    budget.take(named)
    last = budget.take(named)  # 90 of 100 weights are used
    assert last == {"attention": {}, "note": page.TOO_LARGE}
    assert budget.take({}) == {"attention": {}, "note": ""}


@needs_browser
def test_a_page_with_long_sentences_can_be_used(show):
    size = 400  # a list of 400 × 400 numbers is too long for the arguments of a function
    words = [f"w{i}" for i in range(size)]
    best = hypothesis(words, -1.0, AttentionBudget().take({"attention": np.eye(size)})["attention"])
    example = {"text": " ".join(words), "reference": "", "correct": False, "source": words,
               "hypotheses": [best | {"note": page.TOO_LARGE}]}  # fmt: skip
    browser = show(make_page(examples=[example], opening=0))
    assert browser.find_element("id", "note").text == page.TOO_LARGE
    point_at(browser, browser.find_element("css selector", "#heat canvas"))  # at its center
    readout = browser.find_element("id", "readout").text
    found = re.fullmatch(r"“w(\d+)” gives the weight [01].00 to “w(\d+)”.", readout)
    assert found and all(abs(int(i) - size / 2) < 5 for i in found.groups())
    chosen = browser.execute_script("return document.querySelector('#target .marked').innerText")
    assert chosen.split("\n")[0] == f"w{found[1]}"
