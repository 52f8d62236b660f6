"""Tests of the comparison page in a real browser, used as a person would use it."""

import json
import re

import pytest

from comparing.page import write_comparison
from evaluation.page import read_page_content
from tests.browser import (
    contrast,
    needs_browser,
    open_file,
    point_at,
    script_errors,
)
from tests.comparing.runs import GOLD, SOURCES, write_report, write_run
from tests.programs import call

ATTACK = "</script><script>fail()</script><img src=x onerror=fail()>\x1b[2J\u2028/*DATA*/__proto__"


@pytest.fixture
def show(driver, tmp_path):
    """Return a function that compares runs and opens the page."""

    def open_page(folders, width=1400, scheme="light"):
        write_comparison(folders, "test", 500, tmp_path / "page.html")
        return open_file(driver, tmp_path / "page.html", width, scheme)

    yield open_page
    assert script_errors(driver) == []


def two_systems(folder):
    folders = [write_run(folder / f"general/seed{s}", s) for s in range(2)]
    predictions = ["3. Mai 2020", "ein Tag", "4. Juni 1990"]
    dot = {"model__attention__score": "dot"}
    return [*folders, *(write_run(folder / f"dot/seed{s}", s, predictions, **dot) for s in (0, 1))]


def find(browser, selector):
    return browser.find_elements("css selector", selector)


def texts(browser, selector):
    return [node.text for node in find(browser, selector)]


def choose(browser, name, text):
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", name)).select_by_visible_text(text)


@needs_browser
def test_examples_can_be_sorted_searched_and_chosen(show, tmp_path):
    from selenium.webdriver import Keys

    browser = show(two_systems(tmp_path))
    by_disagreement = ["one week", "June 4 , 1999", "May 3 , 2020"]
    assert texts(browser, "#list li span") == by_disagreement
    assert texts(browser, ".card h3") == ["general/seed0", "dot/seed0"]
    assert texts(browser, ".card p") == ["✓ eine Woche", "✗ ein Tag"]
    choose(browser, "order", "order in the corpus")
    assert texts(browser, "#list li span") == SOURCES
    assert texts(browser, ".card p") == ["✓ 3. Mai 2020", "✓ 3. Mai 2020"]
    choose(browser, "order", "disagreement of attention")
    *shown, last = (text.split()[0] for text in texts(browser, "#list li small"))
    assert last == "–"  # "eine Woche" and "ein Tag" have no token in common
    assert float(shown[0]) > float(shown[1]) > 0
    choose(browser, "order", "length of the source")
    assert texts(browser, "#list li small") == ["4", "4", "2"]
    browser.find_element("id", "list").send_keys(Keys.ARROW_DOWN)
    assert find(browser, "#list li")[1].get_attribute("aria-selected") == "true"
    find(browser, "#chosen input")[3].click()
    assert texts(browser, ".card h3") == ["general/seed0", "dot/seed0", "dot/seed1"]
    find(browser, "#chosen input")[0].click()
    assert texts(browser, ".card h3") == ["dot/seed0", "dot/seed1"]
    browser.find_element("id", "find").send_keys("ein tag")
    assert texts(browser, "#list li span") == ["one week"]


@needs_browser
def test_examples_with_attention_come_first(show, tmp_path):
    folders = two_systems(tmp_path)[::2]
    for folder, numbers in zip(folders, ([0], [0, 2]), strict=True):
        path = folder / "eval/test/report.html"
        content = read_page_content(path, "")
        # Examples are found by their positions, so the others get other texts.
        for i, example in enumerate(content["examples"]):
            example["text"] += "" if i in numbers else " (removed)"
        path.write_text(f'<script id="data" type="application/json">{json.dumps(content)}</script>')
    browser = show(folders)
    # Both reports have the weights of the first example, and one has those of the third.
    for order in ("disagreement of predictions", "length of the source"):
        choose(browser, "order", order)
        assert texts(browser, "#list li span") == ["May 3 , 2020", "June 4 , 1999", "one week"]
    assert len(find(browser, ".card .heat")) == 2
    find(browser, "#list li")[1].click()
    assert len(find(browser, ".card .heat")) == 1
    assert "eval.py --sentences=1000" in texts(browser, ".card")[0]


@needs_browser
def test_pointing_at_a_weight_marks_its_source_token_in_all_runs(show, tmp_path):
    browser = show(two_systems(tmp_path))
    cells = find(browser, ".card:last-child .cell")
    assert len(cells) == 4  # two tokens of each language
    point_at(browser, cells[1])
    readout = browser.find_element("id", "readout").text
    assert re.fullmatch(r"“ein” gives the weight 0\.\d+ to “week”\.", readout)
    assert texts(browser, ".column-label.marked") == ["week"] * 2


@needs_browser
def test_scores_are_compared_with_any_system(show, tmp_path):
    browser = show(two_systems(tmp_path))
    assert texts(browser, "#scores th") == ["Score", "general", "dot"]

    def exact():
        """Return the cells of the exact match, one list of lines per system."""
        return [text.split("\n") for text in texts(browser, "#scores tr:nth-child(3) td")]

    name, general, dot = exact()
    assert name == ["Exact match (%)", "higher is better"] and general == ["100.00 ± 0.00"]
    assert dot[0] == "33.33 ± 0.00" and re.fullmatch(r"−66\.67, p = \.\d+", dot[1])
    choose(browser, "baseline", "dot")
    assert exact()[1][1].startswith("+66.67, p = ") and exact()[2] == ["33.33 ± 0.00"]
    assert texts(browser, "#scores td.best")[0].startswith("100.00 ± 0.00")
    assert texts(browser, "#differences td") == ["model.attention.score", "general", "dot"]
    assert "3" in texts(browser, "#cost td")[7]


@needs_browser
def test_scores_of_different_corpora_are_shown_without_comparison(show, tmp_path):
    folders = two_systems(tmp_path)
    other = write_run(tmp_path / "other", report=False, train__steps=5)
    write_report(other / "eval" / "test", "translation", GOLD, 4, sources=["a", "b", "c"])
    browser = show([*folders, other])
    assert "their corpora differ" in texts(browser, "#notes li")[0]
    assert texts(browser, "#scores tr:nth-child(3) td")[1:] == [
        "100.00 ± 0.00", "33.33 ± 0.00", "100.00",
    ]  # fmt: skip
    assert not find(browser, "#scores .best")
    assert not browser.find_element("id", "baseline").is_displayed()
    assert "best mean" not in browser.find_element("id", "scores-section").text
    assert not find(browser, "#examples-section")


@needs_browser
def test_faithfulness_is_a_table_of_its_own(show, tmp_path):
    folders = two_systems(tmp_path)
    browser = show(folders)
    assert not texts(browser, "#faithfulness-section h2")
    for number, folder in enumerate(folders):
        path = folder / "eval/test/scores.json"
        report = json.loads(path.read_text()) | {"faithfulness": {"permuted_changed": number / 10}}
        path.write_text(json.dumps(report))
    browser = show(folders)
    assert texts(browser, "#faithfulness th") == ["Score", "general", "dot"]
    name, general, dot = texts(browser, "#faithfulness td")
    assert name == "Permuted weights, changed predictions (%)" and "\n" not in general
    choose(browser, "baseline", "dot")
    assert "\n" in texts(browser, "#faithfulness td")[1] and dot.startswith("25.00 ± 7.07\n+20.00")
    note = browser.find_element("id", "faithfulness-note")
    assert note.text.startswith("±: mean and standard deviation over seeds. p-values are")
    section = browser.find_element("id", "faithfulness-section")
    assert "in a sample. Neither" in section.text and "whole split" not in section.text
    for folder in folders:
        values = {"effective_tokens": 1.5, "examples": 1200}
        path = folder / "eval/test/scores.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"faithfulness": values}))
    section = show(folders).find_element("id", "faithfulness-section").text
    assert "Sampled predictions, effective number of attended tokens (tokens)" in section
    assert "in a sample of 1,200 examples. Neither" in section
    assert "which describe the references of the whole split and include </s>" in section
    for folder in folders:
        values = {"drop_random": 1, "drop_random_low": 0.5, "drop_random_high": 1.5}
        path = folder / "eval/test/scores.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"faithfulness": values}))
    browser = show([folders[0], folders[2]])
    name, general, dot = texts(browser, "#faithfulness td")
    assert name == "Removal of a random token, drop in log p (nats)"
    assert general == "1.00 [0.50, 1.50]" and dot == "1.00 [0.50, 1.50]\n+0.00"
    note = browser.find_element("id", "faithfulness-note").text
    assert note == "[low, high]: one seed, with its 95 % confidence interval over examples."


@needs_browser
def test_every_logged_value_can_be_drawn(show, tmp_path):
    from selenium.webdriver.support.ui import Select

    browser = show(two_systems(tmp_path))
    charts = [Select(node) for node in find(browser, ".line-chart select")]
    first, second = (chart.first_selected_option.text for chart in charts)
    assert (first, second) == ("Validation exact match (%)", "Training loss")
    assert len(find(browser, ".line-chart:first-child .curve")) == 4

    def points():
        return find(browser, ".line-chart:first-child .curve")[0].get_attribute("points")

    before = points()
    charts[0].select_by_visible_text("Validation BLEU")
    assert points() != before
    before = points()
    choose(browser, "axis", "minutes")
    assert points() != before
    point_at(browser, find(browser, ".line-chart svg")[0])
    assert "general/seed1 " in texts(browser, ".values")[0]
    find(browser, "#systems button")[0].click()
    assert len(find(browser, ".line-chart:first-child .curve")) == 2
    find(browser, "#systems button")[0].click()
    assert len(find(browser, ".line-chart:first-child .curve")) == 4


@needs_browser
def test_a_curve_of_one_point_is_a_circle(show, tmp_path):
    folders = two_systems(tmp_path)
    path = folders[0] / "log.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))  # its run, one training loss and one validation
    browser = show(folders)
    chart = ".line-chart:first-child "
    assert len(find(browser, f"{chart} polyline.curve")) == 3
    (circle,) = find(browser, f"{chart} circle.curve")
    assert circle.size["width"] > 5 and circle.value_of_css_property("stroke") != "none"
    assert float(circle.get_attribute("cx")) > 62  # inside the axes


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_the_page_is_readable(show, tmp_path, width, scheme):
    browser = show(two_systems(tmp_path), width, scheme)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for selector in ("body", ".muted", "#list small", ".row-label", "th", "legend", ".key small"):
        assert contrast(browser, selector) >= 4.5, selector  # WCAG AA requires a contrast of 4.5


# The gold predictions of each task, and the predictions of a hostile run.
TASKS = {
    "translation": (GOLD, [f"{ATTACK} 2020", ATTACK, "x"]),
    "classification": (["good", "bad", ATTACK], [ATTACK, "__proto__", "constructor"]),
    "cloze": (["a", "b", ATTACK], [ATTACK, "b", "c"]),
    "labelling": (["N V O O", "N O", "N V O O"], ["N <img/src=x> O O", "N __proto__", "N V O N"]),
}


@needs_browser
@pytest.mark.parametrize(
    "task", [pytest.param(t, marks=[pytest.mark.slow] * (t != "translation")) for t in TASKS]
)
def test_no_task_has_a_page_that_runs_text(task, show, tmp_path):
    """Sentences, tokens, names of folders, labels and logged values are shown as texts."""
    gold, hostile = TASKS[task]
    folders = []
    for name, predictions in (("a", gold), ("<img src=x onerror=fail()>", hostile)):
        folder = write_run(tmp_path / name, task=task, report=False, train__steps=len(name))
        sources = [SOURCES[0], SOURCES[1], f"{ATTACK.replace(' ', '_')} 3 , 20"]
        write_report(folder / "eval" / "test", task, predictions, sources=sources, gold=gold)
        scores = folder / "eval" / "test" / "scores.json"
        content = json.loads(scores.read_text())
        content |= {"scores": content["scores"] | {ATTACK: 1.0}, "signatures": {ATTACK: ATTACK}}
        scores.write_text(json.dumps(content))
        with (folder / "log.jsonl").open("a") as log:
            line = {"step": 40, "kind": "train", "time": 200.0, ATTACK: 1.0, "__proto__": 5}
            log.write("".join(json.dumps(line | {"step": s, ATTACK: s}) + "\n" for s in (40, 50)))
        folders.append(folder)
    # The fixture checks that the browser has reported no error, such as a call of fail().
    browser = show(folders)
    cards = ""
    for line in find(browser, "#list li"):
        line.click()
        assert len(find(browser, ".card")) == 2
        cards += browser.find_element("id", "cards").text
    shown = browser.execute_script(
        "return [document.scripts.length, document.images.length, Object.keys({}).length]"
    )
    assert shown == [2, 0, 0]
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("</script>") == 2 and "://" not in page and "\x1b" not in page
    body = browser.execute_script("return document.body.textContent")
    assert "<img src=x onerror=fail()>" in body and "Training </script>" in body
    if task == "labelling":
        assert "<img/src=x>, gold V" in cards
    if task in ("classification", "cloze"):
        assert len(find(browser, ".card select option")) == 4  # two rows of weights of each run


@pytest.mark.slow
@needs_browser
def test_hundreds_of_examples_are_quick(show, tmp_path):
    gold = [f"Satz {i} hat viele Tokens " * 4 for i in range(400)]
    folders = []
    for name in "ab":
        folder = write_run(tmp_path / name, report=False, train__steps=ord(name))
        predictions = [text if name == "a" or i % 3 else "nichts" for i, text in enumerate(gold)]
        sources = [f"sentence {i} has many tokens " * 4 for i in range(400)]
        write_report(folder / "eval" / "test", "translation", predictions, 0, sources, gold)
        folders.append(folder)
    browser = show(folders)
    assert len(find(browser, "#list li")) == 400
    milliseconds = browser.execute_script(
        "const start = performance.now();"
        "for (const order of ['number', 'attention', 'length', 'disagreement']) {"
        "  document.getElementById('order').value = order;"
        "  document.getElementById('order').onchange();"
        "} return performance.now() - start"
    )
    assert milliseconds < 20_000  # of four orders; on an idle machine, they take less than a second


def test_the_program_writes_the_page_or_one_message(tmp_path):
    folders = two_systems(tmp_path)
    runs = ",".join(map(str, folders))
    page = tmp_path / "new" / "page.html"
    done = call("compare.py", f"--runs={runs}", f"--out={page}")
    assert done.stdout == f"Comparison of 4 runs: {page}\n" and page.stat().st_size > 10_000
    for flags, fact in (
        ((), "--runs is missing"),
        ((f"--runs={runs}", "--split=../x"), "is not the name of a report"),
        ((f"--runs={runs}", f"--out={tmp_path}"), "is a folder: name a file"),
    ):
        done = call("compare.py", *flags, check=False)
        assert done.returncode == 1 and fact in done.stderr and "Traceback" not in done.stderr
