"""The page of the lab in a real browser, used as a person uses it."""

import time

import pytest

from tests.browser import contrast, needs_browser, point_at, script_errors
from tests.serving.conftest import HOSTILE

TEXT = "May 3, 2020"


class Page:
    """The page, with short names for what a person sees and does."""

    def __init__(self, driver):
        self.driver = driver

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector):
        return [node.text.split("\n")[0] for node in self.all(selector)]

    def until(self, condition):
        """Wait until a condition holds, whatever the page replaces in the meantime."""
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.wait import WebDriverWait

        ignored = [StaleElementReferenceException]
        return WebDriverWait(self.driver, 120, 0.05, ignored).until(lambda _: condition())

    def visible(self, selector):
        return [node for node in self.all(selector) if node.is_displayed()]

    def settle(self):
        """Wait until all answers have arrived."""
        self.until(lambda: not self.all("[aria-busy=true]"))
        self.alerts = [node.text for node in self.visible("[role=alert]")]

    def type(self, name, text):
        (field,) = self.visible(f"[name={name}]")
        field.clear()
        field.send_keys(text)
        self.settle()

    def choose(self, selector, text):
        from selenium.webdriver.support.select import Select

        Select(self.find(selector)).select_by_visible_text(text)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()


@pytest.fixture
def page(driver, address):
    metrics = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.get(address)
    page = Page(driver)
    page.until(lambda: page.all("#tabs button"))
    yield page
    assert [error for error in script_errors(driver) if "400" not in error["message"]] == []


FIRST, SECOND = ".run:nth-child(1)", ".run:nth-child(2)"


@needs_browser
def test_a_sentence_is_translated_by_every_run(page):
    assert page.driver.switch_to.active_element.get_attribute("name") == "text"
    page.press(TEXT)  # the field has the focus
    page.settle()
    source = ["May", "3", ",", "2", "0", "2", "0", "</s>"]
    for card in (FIRST, SECOND):
        assert page.find(f"{card} .output").text
        assert page.texts(f"{card} .source .token") == source
        rows, cells = page.all(f"{card} .heat .row-label"), page.all(f"{card} .heat .cell")
        assert len(cells) == len(rows) * len(source)
        assert len(page.all(f"{card} .candidates button")) == 8
    assert page.texts("h2")[:2] == ["a", HOSTILE]
    # The page fits the width of a laptop, and its text can be read.
    assert page.driver.execute_script("return document.body.scrollWidth <= innerWidth")
    assert contrast(page.driver, ".run .muted") > 4.5
    point_at(page.driver, page.all(f"{FIRST} .heat .row-label")[1])
    assert "gives the largest weight" in page.find(f"{FIRST} .map + .readout").text
    weights = [token.get_attribute("data-weight") for token in page.all(f"{FIRST} .source .token")]
    assert sum(map(float, weights)) == pytest.approx(1, abs=0.01)
    page.choose(f"{SECOND} .pair select", "layer 1 head 1")
    assert page.find(f"{SECOND} .pair select option:checked").text == "layer 1 head 1"


@pytest.mark.slow
@needs_browser
def test_source_tokens_are_removed_replaced_and_restored_with_the_keyboard(page):
    from selenium.webdriver import Keys

    page.type("text", TEXT)
    page.find(f"{FIRST} .source .token").click()
    page.press("April", Keys.ENTER)
    page.settle()
    for card in (FIRST, SECOND):
        assert page.texts(f"{card} .source .token")[:2] == ["April", "3"]
        assert "its log p changes by" in page.find(f"{card} .content").text
        assert page.all(f"{card} .before .token")
    # The focus is still on the token, so that the arrow keys continue from there.
    page.press(Keys.ARROW_RIGHT, Keys.DELETE)
    page.settle()
    assert page.alerts == []
    assert page.texts(f"{FIRST} .source .removed") == ["3"]
    assert "April" in page.texts(f"{FIRST} .heat .column-label")
    assert "3" not in page.texts(f"{FIRST} .heat .column-label")
    page.press(Keys.DELETE)
    page.settle()
    assert not page.all(".source .removed") and page.all(".source .replaced")
    next(node for node in page.all("button") if node.text == "Undo the edit").click()
    page.settle()
    assert not page.all(".source .replaced") and not page.all(".before")


@pytest.mark.slow
@needs_browser
def test_a_candidate_becomes_the_prefix(page):
    page.type("text", TEXT)
    page.all(f"{FIRST} [data-key^=target]")[1].click()
    page.settle()
    assert page.alerts == []
    heading = page.find(f"{FIRST} .candidates").find_element("xpath", "preceding-sibling::h3")
    assert heading.text.startswith("Next token after")
    first = page.texts(f"{FIRST} [data-key^=target]")[0]
    chosen = next(
        node for node in page.all(f"{FIRST} .candidates button")
        if node.is_enabled() and node.get_attribute("aria-pressed") == "false"
    )  # fmt: skip
    word = chosen.text
    chosen.click()
    page.settle()
    for card in (FIRST, SECOND):
        assert page.texts(f"{card} .fixed") == [first, word]
    assert word in page.find("[name=prefix]").get_attribute("value")
    page.type("prefix", "3.")
    assert page.texts(f"{FIRST} .fixed") == ["3", "."]
    page.type("prefix", " ")
    assert not page.all(".fixed")


@needs_browser
def test_a_late_answer_does_not_replace_a_newer_selection(page):
    page.type("text", TEXT)
    page.driver.execute_script("""
      const original = fetch;
      let wait = 500;
      window.fetch = async (...given) => {
        const pause = wait;
        wait = 0;
        await new Promise(done => setTimeout(done, pause));
        return original(...given);
      };
      const tokens = document.querySelectorAll(".run [data-key^=target]");
      tokens[1].click();
      tokens[0].click();
    """)
    page.settle()
    time.sleep(0.6)  # the first click would be answered now
    headings = page.texts(f"{FIRST} h3")
    assert "First token" in headings and not any("Next token after" in h for h in headings)


@needs_browser
def test_the_page_is_ready_only_with_all_answers(page):
    """While an answer is missing, the page says which program the server compiles."""
    page.driver.execute_script("""
      const original = fetch, held = [];
      let open = false;  // requests after the release, such as those of later keys, are not held
      window.compiling = "";
      window.release = () => { open = true; held.forEach(go => go()); };
      window.fetch = async (path, options) => {
        if (path === "/api/translate" && !open) await new Promise(go => held.push(go));
        if (path !== "/api/runs") return original(path, options);
        return Response.json({ done: 1, total: 1, compiling });
      };
    """)
    state = page.find("#progress")
    page.until(lambda: state.text == "ready")
    page.visible("[name=text]")[0].send_keys(TEXT)
    page.until(lambda: state.text == f"waiting for a, {HOSTILE} …")
    page.driver.execute_script("compiling = 'a, beam 7'")
    page.until(lambda: state.text == "compiling for a, beam 7 …")
    page.driver.execute_script("compiling = ''; release()")
    page.settle()
    page.until(lambda: state.text == "ready")
    assert page.find(f"{SECOND} .output").text


@needs_browser
def test_an_answer_that_is_not_json_has_a_message(page):
    message = page.driver.execute_async_script("""
      const done = arguments[0];
      window.fetch = async () => new Response("Service Unavailable", { status: 503 });
      getJson("/api/runs", {}, 0).catch(error => done(error.message));
    """)
    assert message == "The server answered with the status 503: try again."


@needs_browser
@pytest.mark.slow
def test_settings_of_decoding(page):
    assert page.find("[name=beam]").get_attribute("max") == "10"
    page.type("text", TEXT)
    page.find("[name=length_penalty]").send_keys("average")
    page.type("beam", "2")
    options = page.all(f"{FIRST} .line select option")
    assert len(options) == 2 and page.find("[name=alpha]").is_enabled()
    second = options[1].text
    assert page.driver.execute_script("return document.body.scrollWidth <= innerWidth")
    page.choose(f"{FIRST} .line select", second)
    page.until(lambda: page.find(f"{FIRST} .output").text in second)
    page.type("temperature", "1")
    assert page.find("[name=beam]").get_attribute("value") == "1"
    page.find("[name=draw]").click()
    page.settle()
    assert page.find(f"{FIRST} .output").is_displayed()


@pytest.mark.slow
@needs_browser
def test_a_mistake_in_a_setting_has_one_message_below_its_field(page):
    """The runs are not asked, and their cards show the previous answers."""
    page.type("text", TEXT)
    outputs = page.texts(".output")
    field, message = page.find("[name=beam]"), page.find("#beam-error")
    for value in ("99", "0", "2.5"):
        page.type("beam", value)
        assert page.alerts == ["Use a whole number from 1 to 10."], value
        assert field.get_attribute("aria-invalid") == "true"
        assert page.find(".runs").get_property("inert")  # no token can be clicked
        assert page.texts(".output") == outputs and page.find("#progress").text == ""
        assert message.rect["x"] == field.rect["x"]
        assert 0 <= message.rect["y"] - field.rect["y"] - field.rect["height"] < 10
    assert contrast(page.driver, "#beam-error") > 4.5
    page.type("beam", "1")
    assert page.alerts == [] and field.get_attribute("aria-invalid") == "false"
    assert not page.find(".runs").get_property("inert")
    page.until(lambda: page.find("#progress").text == "ready")
    page.find("[name=length_penalty]").send_keys("gnmt")
    page.type("alpha", "-1")
    assert page.alerts == ["Use a number from 0 to 10."]
    page.find("[name=length_penalty]").send_keys("none")  # without a penalty, alpha has no effect
    page.settle()
    assert page.alerts == [] and page.texts(".output") == outputs


def open_tab(page, name):
    next(tab for tab in page.all("#tabs button") if tab.text.startswith(name)).click()


@needs_browser
def test_classification_labelling_and_cloze(page):
    open_tab(page, "Classification")
    page.type("text", "the film was good <b>pizza</b>")
    assert "%" in page.visible(".output")[0].text and "pizza" in page.visible(".content")[0].text
    words = page.visible(".source .token")
    assert len(words) > 4 and sum(float(n.get_attribute("data-weight")) for n in words) > 0.9
    point_at(page.driver, words[3])
    words[3].find_element("css selector", ".remove").click()
    page.settle()
    assert "was" in page.visible(".bars .value")[0].text

    open_tab(page, "Labelling")
    page.type("text", "the DT\nfilm NN\n\n")
    labels = [node.text for node in page.visible(".labelled small")]
    assert len(labels) == 2 and all(labels)

    open_tab(page, "Cloze")
    page.type("passage", "the film was good and long")
    page.type("query", "so XXXXX .")
    page.type("candidates", "film good")
    (output,) = page.visible(".output")
    assert output.text.split()[0] in ("film", "good")
    point_at(page.driver, page.visible(".query .token")[0])
    assert any(node.get_attribute("data-weight") for node in page.visible(".source .token"))


@needs_browser
def test_mistakes_and_hostile_texts_are_shown_as_text(page):
    page.type("text", "1 " * 70)
    assert "at most 63" in page.find(f"{FIRST} [role=alert]").text
    page.type("text", "<img src=x onerror=fail()>")
    assert page.texts(f"{FIRST} .source .token")[0] == "<" and not page.all("main img")
    page.type("text", " ")
    assert not page.all(".output")
