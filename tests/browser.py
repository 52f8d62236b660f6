"""A headless browser for the tests of pages."""

import shutil
from pathlib import Path

import pytest

DRIVER, BROWSER = shutil.which("chromedriver"), shutil.which("chromium")
needs_browser = pytest.mark.skipif(
    not (DRIVER and BROWSER), reason="no chromium and chromedriver on this machine"
)


def start_browser(profile):
    """Start headless Chromium with a new profile; the caller must quit it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def open_file(driver, path: Path, width=1400, scheme="light"):
    """Open a page with a given width and color scheme."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    driver.get(path.as_uri())
    return driver


def script_errors(driver):
    """Return the errors that the browser has reported, such as a call of an unknown function."""
    return [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def point_at(browser, element):
    from selenium.webdriver import ActionChains

    ActionChains(browser).move_to_element(element).perform()


# Return the luminance of an element's background and of its text. Colors may be translucent, so all
# backgrounds from the page to the element are drawn on top of one another.
_CONTRAST = """
const node = document.querySelector(arguments[0]), stack = [];
for (let n = node; n; n = n.parentElement) stack.unshift(getComputedStyle(n).backgroundColor);
const pen = new OffscreenCanvas(1, 1).getContext("2d");
const luminance = colors => {
  for (const color of colors) { pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); }
  const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map(
    x => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
};
return [luminance(stack), luminance([...stack, getComputedStyle(node).color])];
"""


def contrast(browser, selector):
    """Return the contrast ratio of an element's text, as WCAG defines it."""
    low, high = sorted(browser.execute_script(_CONTRAST, selector))
    return (high + 0.05) / (low + 0.05)
