"""The page in a real browser: what a person does with it, and that nothing of it leaves the file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from experiments.report import Beside, write_page
from tests.experiments import browser as chromium
from tests.experiments import made_up_results as made_up

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver
    from selenium.webdriver.remote.webelement import WebElement

HOSTILE = '</td></table><script>window.hacked = 1</script>"><img src=x onerror="window.hacked = 2"> {{ 7*7 }}'
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 60"><rect width="90" height="60"/></svg>'


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    scores = made_up.scores("refusal")
    scores.loc[3::7, ["text", "completion", "stratum"]] = HOSTILE
    results = made_up.results(refusal=made_up.task_result())
    picture = folder / "picture.svg"
    picture.write_text(PICTURE)
    return write_page(
        results,
        scores,
        {"refusal": {"roc": picture, "causal-steering": picture}},
        folder / "report.html",
        beside=Beside(
            location={"tasks": {"refusal": made_up.location()}},
            causal={"tasks": {"refusal": made_up.causal()}},
            claims={"refusal": made_up.claims()},
        ),
    )


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    browser = chromium.find_browser()
    with chromium.open_browser(browser, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(driver: WebDriver, written: Path) -> WebDriver:
    """The page as it is when it is opened."""
    chromium.emulate(driver)
    # What an empty tab or the page before it asked for is not this page's.
    driver.get("about:blank")
    chromium.requests(driver)
    driver.get(written.as_uri())
    return driver


def find(page: WebDriver, selector: str) -> WebElement:
    return page.find_element("css selector", selector)


def shown(page: WebDriver) -> list[dict[str, Any]]:
    """The rows of the table of disagreements that can be seen, from top to bottom."""
    rows: list[dict[str, Any]] = page.execute_script("""
        return [...document.querySelectorAll("table.items tbody tr")].filter((row) => row.checkVisibility())
          .map((row) => ({ text: row.textContent, right: row.querySelector(".right").textContent,
            probe: Number(row.cells[2].textContent), apart: Number(row.cells[4].textContent),
            prompt: row.cells[0].textContent.trim() }));
    """)
    return rows


def count(page: WebDriver) -> str:
    return find(page, ".count").text


def keys(page: WebDriver, *names: str) -> WebElement:
    """Press keys where the focus is, and say where it is then."""
    from selenium.webdriver import ActionChains, Keys

    for name in names:
        ActionChains(page).send_keys(getattr(Keys, name, name)).perform()
    focused: WebElement = page.switch_to.active_element
    return focused


def test_the_verdict_is_there_and_nothing_leaves_the_page(page: WebDriver) -> None:
    assert "its words do not carry it" in find(page, ".verdict").text
    assert find(page, ".tag").text == "refusal Lost between the answer slot and the words"
    broken = find(page, ".link.lost").text
    for part in ("lost here", "-0.30", "[-0.38, -0.22]", "layer 12 [9, none], prompt_last"):
        assert part in broken
    page.execute_script(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
    )
    asked = chromium.requests(page)
    assert any(url.startswith("file:") for url in asked)
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
    assert page.get_log("browser") == []


def test_what_a_model_wrote_stays_text(page: WebDriver) -> None:
    assert page.execute_script("return window.hacked ?? null") is None
    assert page.execute_script("return document.scripts.length") == 1
    assert page.find_elements("css selector", "img[src=x]") == []
    assert any(HOSTILE in row["text"] for row in shown(page))
    # Chromium says in the console when it refuses a script: that the policy holds is seen by breaking it.
    page.execute_script("""
        const script = document.createElement("script");
        script.textContent = "window.hacked = 3";
        document.body.append(script);
        const button = document.createElement("button");
        button.setAttribute("onclick", "window.hacked = 4");
        document.body.append(button);
        button.click();
    """)
    assert page.execute_script("return window.hacked ?? null") is None
    assert all("Content Security Policy" in entry["message"] for entry in page.get_log("browser"))


def test_the_verdicts_of_the_shift_test_can_be_read_whole(page: WebDriver) -> None:
    """Sentences among figures wrap: none reaches beyond its table's frame, to where one would have to scroll."""
    beyond: list[str] = page.execute_script("""
        const details = [...document.querySelectorAll("details")]
          .find((one) => one.querySelector("summary").textContent.includes("hift test"));
        details.open = true;
        const right = details.getBoundingClientRect().right;
        return [...details.querySelectorAll("td")].filter((one) => one.getBoundingClientRect().right > right + 1)
          .map((one) => one.textContent);
    """)
    assert beyond == []
    assert "flipped to 0, at least 5 groups are needed" in find(page, "body").text


def test_searching_and_filtering_count_what_is_left(page: WebDriver) -> None:
    every = shown(page)
    assert len(every) > 12
    assert count(page) == f"{len(every)} of {len(every)} shown"
    search = find(page, ".finder input")
    search.send_keys("ALDER phone")
    fitting = [row for row in every if "Alder's phone" in row["prompt"]]
    assert 0 < len(fitting) < len(every)
    assert shown(page) == fitting
    assert count(page) == f"{len(fitting)} of {len(every)} shown"
    find(page, "select[data-by=right]").send_keys("words")
    both = [row for row in fitting if row["right"] == "words"]
    assert 0 < len(both) < len(fitting)
    assert shown(page) == both
    find(page, "select[data-by=stratum]").send_keys("actions")
    assert shown(page) == [row for row in both if "actions ·" in row["prompt"]]
    find(page, "[data-reset]").click()
    assert shown(page) == every
    search.send_keys("no such item")
    assert (shown(page), count(page)) == ([], f"0 of {len(every)} shown")
    assert find(page, ".count").get_attribute("role") == "status"


def test_a_click_sorts_and_a_second_one_turns_the_order(page: WebDriver) -> None:
    every = shown(page)
    heads = page.find_elements("css selector", "table.items th")
    assert [row["apart"] for row in every] == sorted((r["apart"] for r in every), reverse=True)
    assert heads[4].get_attribute("aria-sort") == "descending"
    heads[2].find_element("css selector", "button").click()
    falling = [row["probe"] for row in shown(page)]
    assert falling == sorted(falling, reverse=True)
    heads[2].find_element("css selector", "button").click()
    rising = [row["probe"] for row in shown(page)]
    assert rising == sorted(falling)
    assert [head.get_attribute("aria-sort") for head in heads] == [
        None,
        None,
        "ascending",
        None,
        None,
        None,
    ]
    find(page, ".finder input").send_keys("harbor")
    assert [row["probe"] for row in shown(page)] == [
        row["probe"] for row in sorted(shown(page), key=lambda row: row["probe"])
    ]


def test_the_table_can_be_worked_by_keyboard(page: WebDriver) -> None:
    page.execute_script("document.querySelector('.finder input').focus()")
    focused = keys(page, "Alder", "TAB", "TAB", "TAB", "TAB", "TAB")
    assert focused.text.startswith("Prompt")
    assert (
        page.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        == "solid"
    )
    focused = keys(page, "TAB", "TAB", "ENTER")
    assert find(page, "th[aria-sort]").text.startswith("Probe")
    falling = [row["probe"] for row in shown(page)]
    assert falling == sorted(falling, reverse=True)
    keys(page, "SPACE")
    assert [row["probe"] for row in shown(page)] == sorted(falling)
    assert page.switch_to.active_element == focused


def test_the_first_key_leads_to_the_verdict(page: WebDriver) -> None:
    skip = keys(page, "TAB")
    assert skip.text == "Skip to the verdict"
    assert skip.rect["y"] >= 0
    assert keys(page, "ENTER").get_attribute("id") == "verdict"
    assert keys(page, "TAB").text.startswith("Figures and evidence")
    keys(page, "ENTER")
    top = page.execute_script(
        "return document.querySelector('#task-1').getBoundingClientRect().top"
    )
    assert abs(top) < 5


def test_the_values_of_a_layer_are_told_to_mouse_and_keyboard(page: WebDriver) -> None:
    from selenium.webdriver import ActionChains

    chart = find(page, "figure.chart")
    told, slider = (chart.find_element("css selector", part) for part in (".told", "input"))
    curve = made_up.task_result()["curves"]["task"]["prompt_last"]
    assert told.text.startswith(f"layer 17: probe, task prompt (prompt_last) {curve[17]:.2f};")
    column = chart.find_elements("css selector", ".column")[4]
    page.execute_script("arguments[0].scrollIntoView({ block: 'center' })", chart)
    ActionChains(page).move_to_element(column).perform()
    assert told.text.startswith(f"layer 4: probe, task prompt (prompt_last) {curve[4]:.2f};")
    page.execute_script("arguments[0].focus()", slider)
    keys(page, "ARROW_RIGHT", "ARROW_RIGHT")
    assert told.text.startswith("layer 6:")
    assert slider.get_attribute("aria-valuetext") == told.text
    chart.find_element("css selector", "summary").click()
    row = chart.find_elements("css selector", "tbody tr")[6]
    assert row.text.split()[:2] == ["6", f"{curve[6]:.2f}"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_and_line_stands_out(page: WebDriver, scheme: str) -> None:
    chromium.emulate(page, scheme=scheme)
    page.execute_script(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
    )
    assert page.execute_script(chromium.CONTRAST) == []
    assert page.execute_script(chromium.LINES) == []
    paper = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


def test_names_roles_and_headings(page: WebDriver) -> None:
    found = page.execute_script(chromium.ACCESSIBILITY)
    levels = found.pop("headings")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert found == {
        "nameless": [],
        "pictures": 0,
        "tables": 0,
        "landmarks": [1, 1],
        "positive": 0,
        "language": "en",
        "twice": [],
    }


def test_a_narrow_window_scrolls_tables_within_themselves(page: WebDriver) -> None:
    chromium.emulate(page, width=360)
    page.execute_script(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
    )
    assert page.execute_script("return document.documentElement.scrollWidth") == 360
    wide = page.execute_script("""
        return [...document.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth)
          .map((one) => one.tabIndex);
    """)
    assert len(wide) > 3
    assert set(wide) == {0}


def test_without_its_script_the_page_shows_the_same(page: WebDriver) -> None:
    n_rows = len(shown(page))
    with_script = page.execute_script("return document.querySelector('main').textContent")
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.refresh()
        assert not find(page, ".finder").is_displayed()
        assert not find(page, ".teller").is_displayed()
        assert len(shown(page)) == n_rows
        assert (
            page.execute_script("return document.querySelector('main').textContent") == with_script
        )
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
