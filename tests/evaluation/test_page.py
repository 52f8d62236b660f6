"""The report in a real browser: pointing at a word highlights the words it attends to."""

import shutil

import pytest

from evaluation.page import write_report_page

DRIVER, BROWSER = shutil.which("chromedriver"), shutil.which("chromium")
needs_browser = pytest.mark.skipif(
    not (DRIVER and BROWSER), reason="no chromium and chromedriver on this machine"
)


def content():
    weights = [[0.7, 0.2, 0.1], [0.0, 0.05, 0.95]]
    scores = {"tokenised_bleu": 33.0, "exact": 0.5}
    selection = {
        "entropy": 0.5, "effective": 1.6, "small": 0.3, "largest": 0.8, "source": 3.0, "words": 40,
    }  # fmt: skip
    return {
        "title": "luong2015: dates", "about": "2 sentences", "pictures": [],
        "terms": {"examples": "Translations", "source": "source", "target": "ours",
                  "reference": "reference"},
        "scores": [{"name": "bleu", "value": 33.3, "signature": "case:mixed"}],
        "curves": {"source length": [
            {"label": "1–5", "sentences": 2, "scores": scores},
            {"label": "6–10", "sentences": 2, "scores": scores},
        ]},
        "selection": [{"name": "attention", **selection}], "positions": [selection] * 2,
        "sentences": [
            {
                "text": ["the </script> <!--<script> cat", "die Katze"],
                "source": ["the", "cat", "</s>"],
                "hypotheses": [
                    {"text": "Katze", "tokens": ["Katze", "</s>"], "score": -0.1,
                     "attention": {"attention": weights, "layer 0 head 1": weights[::-1]}},
                    {"text": "Hund", "tokens": ["Hund", "</s>"], "score": -3.2,
                     "attention": {"attention": weights[::-1], "layer 0 head 1": weights}},
                ],
            },
            {
                "text": ["猫がいる", "هناك قطة"],
                "source": ["猫", "が", "</s>"],
                "hypotheses": [{"text": "هناك قطة", "tokens": ["هناك", "قطة"], "score": -1.0,
                                "attention": {"attention": weights}}],
            },
        ],
    }  # fmt: skip


def test_a_sentence_cannot_break_the_page(tmp_path):
    write_report_page(tmp_path / "report.html", content())
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("</script>") == 2 and "http" not in page.replace("http-equiv", "")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--window-size=1200,1600",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    folder = tmp_path_factory.mktemp("page")
    write_report_page(folder / "report.html", content())
    driver.get((folder / "report.html").as_uri())
    yield driver
    driver.quit()


def words(browser, side):
    return browser.find_elements("css selector", f"#{side} .word")


def weights(browser, side="source"):
    found = [word.get_attribute("data-weight") for word in words(browser, side)]
    return [float(weight) for weight in found if weight]


@needs_browser
def test_pointing_at_a_word_highlights_what_it_attends_to(browser):
    from selenium.webdriver import ActionChains

    assert weights(browser) == []
    ActionChains(browser).move_to_element(words(browser, "target")[0]).perform()
    assert weights(browser) == [0.7, 0.2, 0.1]
    lit = words(browser, "source")[0].value_of_css_property("background-color")
    assert lit != words(browser, "source")[2].value_of_css_property("background-color")
    ActionChains(browser).move_to_element(words(browser, "source")[2]).perform()
    assert weights(browser, "target") == [0.1, 0.95]  # the target words that attend to it


@needs_browser
def test_every_head_and_hypothesis_can_be_chosen(browser):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", "map")).select_by_value("layer 0 head 1")
    ActionChains(browser).move_to_element(words(browser, "target")[0]).perform()
    assert weights(browser) == [0.0, 0.05, 0.95]
    Select(browser.find_element("id", "hypothesis")).select_by_index(1)
    assert [word.text.split("\n")[0] for word in words(browser, "target")] == ["Hund", "</s>"]
    ActionChains(browser).move_to_element(words(browser, "target")[1]).perform()
    assert weights(browser) == [0.0, 0.05, 0.95]


@needs_browser
def test_the_page_can_be_used_by_keyboard(browser):
    from selenium.webdriver import Keys

    sentences = browser.find_element("id", "list")
    sentences.send_keys(Keys.ARROW_DOWN)
    assert [word.text.split("\n")[0] for word in words(browser, "source")] == ["猫", "が", "</s>"]
    words(browser, "target")[0].send_keys(Keys.ARROW_LEFT)  # Arabic is written from right to left
    assert browser.switch_to.active_element == words(browser, "target")[1]
    assert weights(browser) == [0.0, 0.05, 0.95]
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    sentences.send_keys("")  # moves the focus: the selected word stays highlighted
    assert weights(browser) == [0.0, 0.05, 0.95]


@needs_browser
def test_the_page_has_no_errors(browser):
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert len(browser.find_elements("css selector", "#curves svg")) == 2
    assert len(browser.find_elements("css selector", "#selection tr")) == 2
