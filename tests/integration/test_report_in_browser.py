"""The report in a browser: whole on a desk and on a telephone, light and dark, to be read by everyone, leading to its evidence."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grafana_renderer
import pytest
import reported_runs
from attrs import define, field
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, sync_playwright

DESK, TELEPHONE = 1400, 400
HEIGHT = 900
SERIOUS = {"serious", "critical"}
SIDEWAYS = "() => document.scrollingElement.scrollWidth - document.documentElement.clientWidth"


@define
class Shown:
    """A page in the browser, and what it did that it should not."""

    page: Page
    complaints: list[str] = field(factory=list)
    asked: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return reported_runs.write(tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The distribution's Chromium; where it has none, the one that draws the dashboards."""
    found, environ = shutil.which("chromium"), dict(os.environ)
    packed = grafana_renderer.cache() / "chromium"
    if found is None and (packed / "chromium").exists():
        found = str(packed / "chromium")
        environ["LD_LIBRARY_PATH"] = str(packed / "lib")
    if found is None:
        pytest.fail("no Chromium; `./run setup test` installs one")
    with sync_playwright() as playwright:
        # The sandbox is for strangers' pages, and root has none; /dev/shm is small in a container.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        started = playwright.chromium.launch(executable_path=found, args=arguments, env={**environ})
        yield started
        started.close()


@pytest.fixture
def show(browser: Browser, reports: dict[str, Path]) -> Iterator[Any]:
    """Opens a report at a width, light or dark."""
    contexts = []

    def open_page(name: str, width: int = DESK, scheme: Any = "light") -> Shown:
        context = browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
        contexts.append(context)
        shown = Shown(context.new_page())
        shown.page.goto(reports[name].as_uri())
        return shown

    yield open_page
    for context in contexts:
        context.close()


def inside(element: Locator, width: int) -> bool:
    """Whether none of it is beyond the left or right edge of the window."""
    box = element.bounding_box()
    return box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width


def covered(element: Locator) -> str:
    """What is seen at its upper left corner in place of it; empty where that is the element or a part of it."""
    return str(
        element.evaluate(
            """element => {
                const box = element.getBoundingClientRect();
                const seen = document.elementFromPoint(box.left + 2, box.top + 2);
                return element.contains(seen) ? '' : seen ? seen.outerHTML.slice(0, 200) : 'nothing: it is not in the window';
            }"""
        )
    )


@pytest.mark.parametrize("name", reported_runs.REPORTS)
@pytest.mark.parametrize("width", [DESK, TELEPHONE])
def test_a_report_fits_its_window_and_asks_for_nothing(
    show: Any, reports: dict[str, Path], name: str, width: int
) -> None:
    shown = show(name, width)
    assert shown.page.evaluate(SIDEWAYS) <= 0
    shown.page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert shown.page.evaluate(SIDEWAYS) <= 0, "with every fold open"
    assert shown.complaints == []
    assert shown.asked == [reports[name].as_uri()]


@pytest.mark.parametrize("name", ["against-run", "failed", "low-power", "sections"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, TELEPHONE])
def test_no_report_has_a_serious_fault_of_accessibility(show: Any, name: str, scheme: str, width: int) -> None:
    shown = show(name, width, scheme)
    shown.page.evaluate("for (const fold of [...document.querySelectorAll('details')].slice(0, 5)) fold.open = true")
    found = Axe().run(shown.page, options={"resultTypes": ["violations"]}).response
    assert found["testEngine"]["name"] == "axe-core"
    assert [
        (fault["id"], node["html"][:200], node["failureSummary"])
        for fault in found["violations"]
        if fault["impact"] in SERIOUS
        for node in fault["nodes"][:3]
    ] == []


def test_dark_is_dark(show: Any) -> None:
    def lightness(scheme: str) -> float:
        colour = show("boot", DESK, scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(float, re.findall(r"\d+", colour)[:3])) / 3

    assert lightness("dark") < 64
    assert lightness("light") > 192


@pytest.mark.parametrize("name", ["boot", "low-power", "sections"])
def test_each_number_has_its_uncertainty_beside_it_on_a_telephone(show: Any, name: str) -> None:
    shown = show(name, TELEPHONE)
    cells = shown.page.locator("td[data-label='±']")
    assert cells.count() > 0
    for number in range(min(cells.count(), 12)):
        cell = cells.nth(number)
        assert cell.is_visible()
        assert inside(cell, TELEPHONE)
        assert re.fullmatch(r"\d+(\.\d+)?", cell.inner_text().strip()), cell.inner_text()


def test_a_verdict_is_whole_on_a_telephone_and_on_a_desk(show: Any) -> None:
    for width in (DESK, TELEPHONE):
        shown = show("against-run", width)
        rows = shown.page.locator("section:has(#verdict) tbody tr")
        assert "regression" in rows.first.inner_text()
        for cell in rows.first.locator("th, td").all():
            assert inside(cell, width), cell.inner_text()


@pytest.mark.parametrize("width", [DESK, TELEPHONE])
@pytest.mark.parametrize(
    ("where", "says"), [("SD (virtio-blk), cycle 5: ", "login"), ("SD (virtio-blk), cycle 7: hang", "probing")]
)
def test_a_dot_leads_to_its_part_of_the_log(show: Any, width: int, where: str, says: str) -> None:
    shown = show("boot", width)
    dot = shown.page.locator(f"svg a[aria-label^='{where}']")
    dot.locator("circle, text").click()
    fold = shown.page.locator("details:has(p:target)")
    assert fold.count() == 1
    cycle = where.partition("cycle ")[2].partition(":")[0]
    assert fold.locator("summary").inner_text().startswith(f"cycle {cycle}")
    log = fold.locator("pre")
    assert log.is_visible()
    assert says in log.inner_text()
    assert covered(fold.locator("p:target")) == ""


def test_a_dot_is_reached_and_followed_by_the_keyboard(show: Any) -> None:
    shown = show("boot")
    shown.page.locator("svg a").first.focus()
    shown.page.keyboard.press("Tab")
    name = shown.page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert name.startswith("SD (virtio-blk), cycle 2: ")
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_function("location.hash.startsWith('#log-')")
    assert shown.page.locator("details:has(p:target) summary").inner_text().startswith("cycle 2:")


@pytest.mark.parametrize("width", [DESK, TELEPHONE])
@pytest.mark.parametrize("name", ["boot", "sections"])
def test_the_contents_stay_in_sight_and_lead_to_headings_that_they_do_not_hide(
    show: Any, name: str, width: int
) -> None:
    shown = show(name, width)
    page = shown.page
    contents = page.locator("nav")
    page.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
    page.wait_for_function("scrollY > innerHeight")
    for link in contents.locator("a").all():
        assert covered(contents) == ""
        box = contents.bounding_box()
        assert box is not None
        assert abs(box["y"]) < 1
        link.click()
        target = (link.get_attribute("href") or "").removeprefix("#")
        heading = page.locator(f"[id='{target}']")
        assert heading.evaluate("element => element === document.querySelector(':target')")
        assert covered(heading) == "", target


def test_the_figures_of_a_telephone_have_room_for_every_cycle(show: Any) -> None:
    shown = show("boot", TELEPHONE)
    dots = shown.page.locator("svg .dot circle")
    assert dots.count() == 60
    assert all(inside(dot, TELEPHONE) for dot in dots.all())
    lanes = shown.page.locator(".lane i")
    assert lanes.count() == 2 * 3 * 7, "stages of three media, and those of the run before"
    assert all(inside(lane, TELEPHONE) for lane in lanes.all())
