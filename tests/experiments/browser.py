"""A headless Chromium for the tests of the page: nothing is downloaded, nothing is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

DRIVER = "/usr/bin/chromedriver"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1280,900",
)


def find_browser() -> str:
    """Where Chromium is; the test that asks is skipped where there is none."""
    pytest.importorskip("selenium")
    browser = shutil.which("chromium")
    if browser is None or not Path(DRIVER).exists():
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    return browser


@contextmanager
def open_browser(browser: str, profile: Path) -> Iterator[WebDriver]:
    """A browser with an empty profile that notes every request and every message of the console."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def emulate(driver: WebDriver, *, scheme: str = "light", width: int = 1280) -> None:
    """Show the page as to a reader who prefers a color scheme, in a window so wide."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def requests(driver: WebDriver) -> list[str]:
    """The addresses asked for since the last call."""
    entries: list[dict[str, Any]] = driver.get_log("performance")
    events = [json.loads(entry["message"])["message"] for entry in entries]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


ACCESSIBILITY = """
const visible = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest("[aria-hidden=true]");
const named = (one) => (one.getAttribute("aria-label") || one.labels?.[0]?.textContent || one.textContent ||
  document.getElementById(one.getAttribute("aria-labelledby"))?.textContent || "").trim();
const all = (selector) => [...document.querySelectorAll(selector)].filter(visible);
return {
  headings: all("h1, h2, h3, h4, h5, h6").map((one) => Number(one.tagName[1])),
  nameless: all("a, button, input, select, summary, section, aside, [role=region], [role=img], [role=search]")
    .filter((one) => !named(one)).map((one) => one.outerHTML.slice(0, 120)),
  pictures: [...document.querySelectorAll("img")].filter((one) => !one.alt).length,
  tables: [...document.querySelectorAll("table")].filter((one) => !one.caption?.textContent.trim() ||
    [...one.querySelectorAll("th")].some((head) => !["col", "row"].includes(head.scope))).length,
  landmarks: ["header", "main"].map((name) => document.querySelectorAll(`body > ${name}`).length),
  positive: document.querySelectorAll("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").length,
  language: document.documentElement.lang,
  twice: [...document.querySelectorAll("[id]")].map((one) => one.id)
    .filter((id, index, every) => every.indexOf(id) !== index),
};
"""
"""What can be told of names, roles and order without a library."""

CONTRAST = """
const parse = (text) => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
const over = (top, below) => top.slice(0, 3).map((part, index) => part * top[3] + below[index] * (1 - top[3]));
const light = (color) => color.slice(0, 3).map((part) => part / 255)
  .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
  .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
const ground = (one) => {
  if (!one) return parse(getComputedStyle(document.documentElement).colorScheme.includes("dark") &&
    matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(0,0,0)" : "rgb(255,255,255)");
  const own = parse(getComputedStyle(one).backgroundColor);
  return own[3] === 0 ? ground(one.parentElement) : [...over(own, own[3] === 1 ? own : ground(one.parentElement)), 1];
};
const poor = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const one = node.parentElement;
  if (!node.data.trim() || !one.checkVisibility() || one.closest("script, style, title, .skip, option")) continue;
  const style = getComputedStyle(one);
  const below = ground(one instanceof SVGElement ? one.closest("svg").parentElement : one);
  const color = over(parse(one instanceof SVGElement ? style.fill : style.color), below);
  const [high, low] = [light(color), light(below)].sort((a, b) => b - a);
  const ratio = (high + 0.05) / (low + 0.05);
  if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${one.outerHTML.slice(0, 80)}`);
}
return [...new Set(poor)];
"""
"""Every visible text whose contrast to what is painted under it is below the 4.5 of WCAG 2.2 AA."""

LINES = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number).slice(0, 3);
const light = (color) => color.map((part) => part / 255)
  .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
  .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
const paper = light(parse(getComputedStyle(document.body).backgroundColor));
return [...document.querySelectorAll(".line, .level, .whisker, .station .range")].map((one) => {
  const [high, low] = [light(parse(getComputedStyle(one).stroke)), paper].sort((a, b) => b - a);
  return [(high + 0.05) / (low + 0.05), one.className.baseVal];
}).filter(([ratio]) => ratio < 3);
"""
"""Every line of a chart whose contrast to the paper is below the 3 of WCAG 2.2 AA for graphics."""
