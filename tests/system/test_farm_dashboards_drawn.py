"""The dashboards as Grafana's panels draw them, in Chromium, over three farms that a real Prometheus knows.

An empty farm, one board, and a large farm (64 boards at length) of which one failed, one got slower, one lost its adapter, while the store cannot
be read. What is checked is what stands on the page: texts, their colours, links. At length the pictures stay in pytest's folder.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import grafana_queries
import grafana_renderer
import pytest
from attrs import frozen
from support import dashboards, farm_history, grafana_farm
from support.atlength import LONG, either
from support.farm_history import Farm

pytestmark = pytest.mark.longer

RED = "rgb(242, 73, 92)"  # of Grafana's dark theme
GREEN = "rgb(115, 191, 105)"
NOW = float(int(time.time()) // farm_history.STEP_S * farm_history.STEP_S)
EMPTY, ONE, LARGE = Farm("empty", 0, False, NOW), Farm("one", 1, False, NOW), Farm("large", either(10, 64), True, NOW)
PAGES = [
    (name, farm.name)
    for name in dashboards.ALL
    for farm in (EMPTY, ONE, LARGE)
    if LONG or farm is LARGE or name in {"boardlab-overview", "boardlab-board"}
]
BOARDS = {"failed": LARGE.failed, "slower": LARGE.slower}
LAPTOP = 1050  # what Grafana's menu leaves of 1280 pixels
DOCS = Path(__file__).resolve().parents[2] / "docs"


@frozen
class Page:
    """What stands on a drawn page."""

    facts: dict[str, Any]

    def panel(self, title: str) -> dict[str, Any]:
        """The panel of that title."""
        (found,) = [one for one in self.facts["panels"] if one["title"] == title]
        return found

    def said(self, title: str, text: str) -> dict[str, Any]:
        """A text of a panel, with its colour, and whether it is cut."""
        found = [one for one in self.panel(title)["texts"] if one["text"] == text]
        assert found, f"{title}: {[one['text'] for one in self.panel(title)['texts']]}"
        return found[0]


Pages = dict[str, Page]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Every dashboard of every farm, and that of two boards."""
    folder = tmp_path_factory.mktemp("drawn")
    jobs = []
    with grafana_farm.prometheus_of((EMPTY, ONE, LARGE), folder) as server:
        view = grafana_queries.View(server.url, NOW, scrape_s=farm_history.STEP_S)
        every = list(dashboards.ALL.values())
        for name, farm in PAGES:
            drawing = grafana_queries.drawing(dashboards.ALL[name], view, {"job": [farm]}, every)
            jobs.append(grafana_renderer.Job(drawing, f"{name}-{farm}", picture=LONG))
        laptop = grafana_queries.drawing(dashboards.ALL["boardlab-overview"], view, {"job": [LARGE.name]}, every)
        jobs.append(grafana_renderer.Job(laptop, "laptop", width=LAPTOP, mode="light", picture=LONG))
        for name, board in BOARDS.items():
            chosen = {"job": [LARGE.name], "board": [board], "medium": [farm_history.MEDIUM]}
            drawing = grafana_queries.drawing(dashboards.ALL["boardlab-board"], view, chosen, every)
            jobs.append(grafana_renderer.Job(drawing, f"board-{name}", picture=LONG))
        yield {name: Page(facts) for name, facts in grafana_renderer.draw(jobs, folder).items()}


@pytest.mark.parametrize(("name", "farm"), PAGES)
def test_every_panel_is_drawn(drawn: Pages, name: str, farm: str) -> None:
    page = drawn[f"{name}-{farm}"]
    assert page.facts["complaints"] == []
    for panel in page.facts["panels"]:
        assert panel["broken"] == "", panel["title"]
        assert "No data" not in {one["text"] for one in panel["texts"]}, panel["title"]
        assert panel["not_here"] == (panel["kind"] == "heatmap"), panel["title"]
        if panel["kind"] == "timeseries":
            assert panel["painted"] != panel["nothing"], panel["title"]
        if panel["kind"] == "table":
            assert bool(panel["rows"]) != panel["nothing"], panel["title"]


@pytest.mark.parametrize(("name", "farm"), PAGES)
def test_no_raw_column_and_no_cut_title(drawn: Pages, name: str, farm: str) -> None:
    raw = {"Time", "Value", "__name__", "job", "instance", "board_type", "kind", "version"}
    for panel in drawn[f"{name}-{farm}"].facts["panels"]:
        if panel["rows"]:
            assert not raw & set(panel["rows"][0]), panel["title"]
            assert not any(one.startswith("Value #") for one in panel["rows"][0]), panel["title"]
            assert [one["text"] for one in panel["texts"] if one["text"] in panel["rows"][0] and one["cut"]] == []
        (title, *_) = [one for one in panel["texts"] if one["text"] == panel["title"].strip()]
        assert not title["cut"], panel["title"]


@pytest.mark.parametrize(("name", "farm"), PAGES)
def test_the_names_of_boards_are_whole(drawn: Pages, name: str, farm: str) -> None:
    for panel in drawn[f"{name}-{farm}"].facts["panels"]:
        cut = [one["text"] for one in panel["texts"] if one["text"].startswith(farm_history.TYPE) and one["cut"]]
        assert cut == [], panel["title"]


def test_titles_and_names_are_whole_on_a_laptop_too(drawn: Pages) -> None:
    for panel in drawn["laptop"].facts["panels"]:
        assert {one["behind"] for one in panel["texts"]} == {"rgb(255, 255, 255)"}, "its theme is the light one"
        whole = {panel["title"], LARGE.failed, LARGE.slower, LARGE.gone}
        assert [one["text"] for one in panel["texts"] if one["text"] in whole and one["cut"]] == [], panel["title"]


@pytest.mark.parametrize("farm", [EMPTY.name, ONE.name])
def test_where_nothing_is_wrong_nothing_is_red(drawn: Pages, farm: str) -> None:
    for page in (drawn[f"{name}-{its}"] for name, its in PAGES if its == farm):
        for panel in page.facts["panels"]:
            red = [one["text"] for one in panel["texts"] if one["color"] == RED]
            assert red == [], panel["title"]


def test_one_axis_has_few_lines(drawn: Pages) -> None:
    for name in dashboards.ALL:
        for panel in drawn[f"{name}-{LARGE.name}"].facts["panels"]:
            if panel["kind"] == "timeseries":
                named = [one for one in panel["texts"] if farm_history.TYPE in one["text"]]
                assert len(named) <= 5, panel["title"]


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Failed attempts, 1 day", "1"),
        ("Regressions", "2"),
        ("USB devices missing", "1"),
        ("Sources down", "1"),
        ("Results", "STALE"),
        ("Boards with a problem", "1"),
    ],
)
def test_the_overview_says_in_red_what_is_wrong(drawn: Pages, title: str, text: str) -> None:
    large, one = drawn[f"boardlab-overview-{LARGE.name}"], drawn[f"boardlab-overview-{ONE.name}"]
    assert large.said(title, text)["color"] == RED
    assert one.said(title, "of now" if title == "Results" else "none")["color"] == GREEN


def test_the_overview_names_the_failure_and_its_board(drawn: Pages) -> None:
    page = drawn[f"boardlab-overview-{LARGE.name}"]
    assert page.panel("Failed attempts, 7 days")["rows"][1:] == [[LARGE.failed, farm_history.FAILURE, "1"]]
    assert page.said("Failed attempts, 7 days", farm_history.FAILURE)["color"] == RED
    assert not page.said("Failed attempts, 7 days", LARGE.failed)["cut"]


def test_the_overview_lists_what_it_counts(drawn: Pages) -> None:
    page = drawn[f"boardlab-overview-{LARGE.name}"]
    ((board, cause, numbers),) = page.panel("Worse numbers")["rows"][1:]
    assert (board, numbers) == (LARGE.slower, "2")
    assert cause.startswith(farm_history.REGRESSED)
    assert page.said("Regressions", numbers)["color"] == RED
    assert [LARGE.slower, "worse"] in [row[:2] for row in page.panel("Boards with a problem, by cause")["rows"][1:]]


def test_the_benchmarks_name_the_regression_with_its_sign(drawn: Pages) -> None:
    page = drawn[f"boardlab-benchmarks-{LARGE.name}"]
    found = page.panel("Regressed metrics")
    rows = [row[:5] for row in found["rows"][1:]]
    metrics = [farm_history.REGRESSED, "boot.power_on_to_prompt"]
    assert rows == [[LARGE.slower, metric, farm_history.MEDIUM, "11.01", "10.00"] for metric in metrics]
    changes = [one for one in found["texts"] if one["text"].endswith("%")]
    assert [one["color"] for one in changes] == [RED, RED]
    assert all(0 < float(one["text"].rstrip("%")) < 20 for one in changes)


def test_a_regression_is_marked_in_red_on_each_time_line(drawn: Pages) -> None:
    wanted = {
        f"{metric} of {LARGE.slower} got worse in 11.01 {farm_history.MEDIUM}"
        for metric in (farm_history.REGRESSED, "boot.power_on_to_prompt")
    }
    lines = [
        one for one in drawn["board-slower"].facts["panels"] if one["kind"] == "timeseries" and not one["nothing"]
    ]
    assert lines
    for panel in lines:
        assert {one["text"] for one in panel["annotations"]} == wanted, panel["title"]
        assert {one["color"] for one in panel["annotations"]} == {RED}


@pytest.mark.parametrize(
    "name",
    [*(f"boardlab-overview-{farm.name}" for farm in (ONE, LARGE)), "board-failed", f"boardlab-health-{LARGE.name}"],
)
def test_no_time_line_has_a_mark_of_another_board(drawn: Pages, name: str) -> None:
    assert [one["annotations"] for one in drawn[name].facts["panels"] if one["annotations"]] == []


def test_what_changed_is_sorted_by_direction(drawn: Pages) -> None:
    rows = drawn["board-slower"].panel("Change from the release before")["rows"]
    changes = [float(row[rows[0].index("Change")].rstrip("%")) for row in rows[1:]]
    verdicts = [row[rows[0].index("Verdict")] for row in rows[1:]]
    worse = verdicts.count("worse")
    assert worse == 2
    assert set(verdicts[worse:]) <= {""}
    assert changes[:worse] == sorted(changes[:worse], reverse=True)
    assert changes[worse:] == sorted(changes[worse:], reverse=True)


def test_a_missing_adapter_is_red_and_first(drawn: Pages) -> None:
    page = drawn[f"boardlab-health-{LARGE.name}"]
    assert page.panel("USB devices")["rows"][1][:4] == [LARGE.gone, "adapter", f"usb-0:{63 % LARGE.boards}", "MISSING"]
    assert page.said("USB devices", "MISSING")["color"] == RED
    assert page.said("USB devices", "there")["color"] == GREEN
    assert page.said("USB devices missing", "1")["color"] == RED
    assert not page.said("USB devices", LARGE.gone)["cut"]


def test_a_stale_source_is_red_and_first(drawn: Pages) -> None:
    page = drawn[f"boardlab-health-{LARGE.name}"]
    assert page.panel("Sources")["rows"][1][:2] == ["results", "DOWN"]
    assert page.said("Sources", "DOWN")["color"] == RED


def test_the_board_shows_its_failure_in_red(drawn: Pages) -> None:
    page = drawn["board-failed"]
    assert page.said("Failed attempts, 1 day", "1")["color"] == RED
    (row,) = page.panel("Failed attempts of all time")["rows"][1:]
    assert row == [farm_history.FAILURE, farm_history.MEDIUM, "11.01", "board", "1"]
    assert page.said("Failed attempts of all time", farm_history.FAILURE)["color"] == RED


def test_attempts_that_failed_have_bars_of_their_own(drawn: Pages) -> None:
    legend = {one["text"] for one in drawn["board-failed"].panel("Attempts")["texts"]}
    assert {"ok", farm_history.FAILURE} <= legend
    assert farm_history.FAILURE not in {one["text"] for one in drawn["board-slower"].panel("Attempts")["texts"]}


def test_flagged_samples_are_not_red(drawn: Pages) -> None:
    for name in ("boardlab-board-one", "board-failed"):
        for title in ("Flagged samples", "Flagged samples by flag"):
            assert RED not in {one["color"] for one in drawn[name].panel(title)["texts"]}


def test_what_the_judge_said_leads_to_the_run(drawn: Pages) -> None:
    page = drawn[f"boardlab-overview-{LARGE.name}"]
    panel = page.panel("Verdicts that wait for a decision")
    (row,) = panel["rows"][1:]
    assert row[:2] == [LARGE.slower, "regression"]
    assert page.said(panel["title"], "regression")["color"] == RED
    (link,) = [one["href"] for one in panel["links"] if one["text"] == "open"]
    assert re.fullmatch(r"https://lab\.example\.org/runs/\d+\.html#boot\.time", link)


def links(page: Page) -> list[dict[str, str]]:
    """Links with a text."""
    every = [*page.facts["links"], *(one for panel in page.facts["panels"] for one in panel["links"])]
    return [one for one in every if one["text"]]


@pytest.mark.parametrize(("name", "farm"), [*PAGES, ("board", "failed"), ("board", "slower")])
def test_every_link_carries_the_variables_with_their_values(drawn: Pages, name: str, farm: str) -> None:
    wanted = {
        "var-datasource": ["prometheus"],
        "var-job": [LARGE.name if name == "board" else farm],
        "var-instance": ["$__all"],
    }
    own = {} if name != "board" else {"var-board": [BOARDS[farm]], "var-medium": [farm_history.MEDIUM]}
    found = links(drawn[f"{name}-{farm}"])
    assert len([one for one in found if one["href"].startswith("/d/")]) >= len(dashboards.ALL)
    for one in found:
        address = urlsplit(one["href"])
        assert "$" not in one["href"].replace("%24__all", "").replace("$__all", ""), one
        if not address.path.startswith("/d/"):
            continue
        assert address.path.removeprefix("/d/") in dashboards.ALL
        given = parse_qs(address.query, keep_blank_values=True)
        assert (given.pop("from"), given.pop("to")) == (["now-7d"], ["now"])
        assert {name: given.get(name) for name in wanted} == wanted, one
        for variable, value in own.items():
            own_link = f"{variable}={value[0]}" in one["href"] or one["text"] in given[variable]
            assert own_link, one
        there = {f"var-{name}" for name in dashboards.variables(dashboards.ALL[address.path.removeprefix("/d/")])}
        assert set(given) & there >= set(wanted)


def test_a_boards_name_leads_to_its_dashboard(drawn: Pages) -> None:
    for title in ("Failed attempts, 7 days", "Needs action"):
        panel = drawn[f"boardlab-overview-{LARGE.name}"].panel(title)
        (link,) = [one["href"] for one in panel["links"] if one["text"] == LARGE.failed]
        assert urlsplit(link).path == "/d/boardlab-board"
        assert parse_qs(urlsplit(link).query)["var-board"] == [LARGE.failed]


def test_a_run_leads_to_its_numbers(drawn: Pages) -> None:
    panel = drawn["board-slower"].panel("Latest completed runs")
    (link, *_) = [one["href"] for one in panel["links"] if one["text"] == "boot"]
    address = urlsplit(link)
    assert address.path == "/d/boardlab-boot"
    given = parse_qs(address.query)
    assert (given["var-board"], given["var-release"], given["var-medium"]) == ([LARGE.slower], ["11.01"], ["emmc"])


def test_an_alert_leads_to_its_runbook(drawn: Pages) -> None:
    panel = drawn[f"boardlab-overview-{LARGE.name}"].panel("Needs action")
    alerts = {"BoardlabAttemptFailed", "BoardlabAdapterGone", "BoardlabResultsStale"}
    found = {one["text"]: one["href"] for one in panel["links"] if one["text"] in alerts}
    assert set(found) == alerts
    for name, link in found.items():
        assert urlsplit(link).fragment == name
        assert f'<a id="{name}"></a>' in (DOCS / "runbooks.md").read_text(encoding="utf-8")
