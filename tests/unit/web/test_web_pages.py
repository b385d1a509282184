"""The pages and the JSON interface over a store of real runs, asked through a real server."""

from __future__ import annotations

import csv
import datetime as dt
import html
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from sqlalchemy import event, update
from support import recorded_run
from support.facts import missing_facts
from support.farm_store import fill
from support.web_serving import serving

from lab import package_data
from lab.host.clock import utc_now
from lab.judge.records import NewVerdict
from lab.judge.store import moved_boards, review, write_verdicts
from lab.results import AttemptRecord, SampleRecord, averages, listing, open_store
from lab.results.listing import ORDERS
from lab.results.models import RunRow
from lab.web import charts
from lab.web.site import Site

HOSTILE = "<script>alert('b')</script>\u202e\x1b]0;x\x07"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("lab")
    with open_store(str(found / "results.db")) as store:
        for _ in range(2):
            recorded_run.record(store, virtual=False, cycles=3)
        plan = {"cycles": 1, "media": ["sd"]}
        run = store.begin_run("boot", "nobody's type", HOSTILE, HOSTILE, plan=plan, provenance={})
        samples = (SampleRecord("boot.time", {"medium": HOSTILE}, 2.0, 0.001),)
        store.record_attempt(
            run.id, AttemptRecord(1, 1, {"medium": HOSTILE}, "ok", None, None, "", utc_now(), 30.0, samples)
        )
        store.finish_run(run.id, "completed")
    return found


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(Site(str(folder / "results.db"), runtime=folder / "runtime", folder=folder)) as address:
        yield address


def get(address: str, **options: object) -> requests.Response:
    return requests.get(address, timeout=60, **options)  # type: ignore[arg-type]


PAGES = [
    "/",
    "/runs",
    "/runs/1",
    "/runs/3",
    "/releases",
    "/releases/11.01",
    "/metrics",
    "/metrics/boot.time",
    "/audit",
]
PAGES += [
    "/guides",
    "/guides/11.01",
    "/search?q=boot",
    "/look",
    "/search?q=script",
    "/boards/SK-AM62-0042",
    f"/boards/{quote(HOSTILE)}",
    f"/releases/{quote(HOSTILE)}",
    f"/releases/{quote(HOSTILE)}?against=11.01&against={quote(HOSTILE)}",
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_whole_and_no_name_of_the_store_is_markup_in_it(url: str, page: str) -> None:
    answer = get(url + page)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text.rstrip().endswith("</html>")
    assert "<script>alert" not in answer.text
    assert "\u202e" not in answer.text
    assert "\x1b" not in answer.text


@pytest.mark.parametrize("page", [*PAGES, "/nosuch", "/api/v1/runs", "/static/site.css"])
def test_every_answer_forbids_scripts_of_others_and_being_framed(url: str, page: str) -> None:
    headers = get(url + page).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"


def test_every_link_of_every_page_leads_to_a_page(url: str) -> None:
    seen, waiting = set(), ["/"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        answer = get(url + page)
        assert answer.status_code == 200, page
        if "html" in answer.headers["content-type"]:
            found = {html.unescape(link) for link in re.findall(r'(?:href|src)="(/[^"#]*)', answer.text)}
            waiting += [link for link in found - seen if link not in waiting]
    assert {"/runs", "/releases/11.01", "/metrics/boot.time", "/boards/SK-AM62-0042", "/runs/2"} <= seen


def test_what_is_not_there_is_said_with_what_there_is(url: str) -> None:
    for page, said in (
        ("/boards/nosuch", "no board 'nosuch'"),
        ("/runs/99", "no run 99"),
        ("/releases/10.00", "of release '10.00'; there are: "),
        ("/metrics/nosuch", "/metrics lists the metrics"),
        ("/nosuch", "Not Found"),
    ):
        answer = get(url + page)
        assert (answer.status_code, "Traceback" in answer.text) == (404, False)
        assert said in html.unescape(answer.text)
    assert "no run 99" in get(f"{url}/api/v1/runs/99").json()["detail"]
    assert get(f"{url}/runs/0").status_code == 422
    assert get(f"{url}/api/v1/runs?limit=0").status_code == 422


DOCUMENTS = [
    "runs",
    "runs/1",
    "runs/1/verdicts",
    "releases",
    "releases/11.01",
    "metrics",
    "metrics/boot.time",
    "audit",
    "guides",
    "verdicts",
]
DOCUMENTS += ["boards/SK-AM62-0042", "search?q=boot"]


@pytest.mark.parametrize(
    "page", ["/runs", "/runs/1", "/metrics/boot.time", *(f"/api/v1/{each}" for each in DOCUMENTS)]
)
def test_what_the_browser_has_is_not_sent_again(url: str, page: str) -> None:
    first = get(url + page)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    for known in (tag, f'W/{tag}, "another"'):
        again = get(url + page, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert "default-src" in again.headers["content-security-policy"]
    other = get(url + page, headers={"If-None-Match": '"another"'})
    assert (other.status_code, other.content) == (200, first.content)


@pytest.mark.parametrize("page", [*PAGES, "/nosuch", "/api/v1/runs", "/static/site.css"])
def test_head_is_answered_as_get_without_the_body(url: str, page: str) -> None:
    whole, head = get(url + page), requests.head(url + page, timeout=60)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers.keys() == whole.headers.keys()
    if page != "/" and not page.startswith("/boards/"):  # which say how long ago something was
        assert head.headers.get("etag") == whole.headers.get("etag")
        assert head.headers["content-length"] == whole.headers["content-length"]


@pytest.mark.parametrize("page", ["/events/wall", "/events/rails/nosuch", "/events/consoles/nosuch", "/events/nosuch"])
def test_the_head_of_a_stream_is_that_of_its_beginning(url: str, page: str) -> None:
    with requests.get(url + page, stream=True, timeout=60) as whole:
        head = requests.head(url + page, timeout=60)
        assert (head.status_code, head.content) == (whole.status_code, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]


def test_a_stream_has_no_tag_and_no_end(url: str) -> None:
    with requests.get(f"{url}/events/wall", stream=True, timeout=60) as wall:
        assert "etag" not in wall.headers
        assert next(wall.iter_lines()) == b"event: wall"


def test_the_interface_has_what_the_pages_of_boards_and_the_search_show(url: str) -> None:
    board = get(f"{url}/api/v1/boards/SK-AM62-0042").json()
    assert [run["id"] for run in board["runs"]] == [2, 1]
    assert (board["now"]["board"], board["wiring"], board["comments"]) == ("SK-AM62-0042", [], [])
    (tile,) = [each for each in get(f"{url}/api/v1/wall").json() if each["board"] == "SK-AM62-0042"]
    assert tile["spark"]["text"].startswith("sd, last 2: ")
    found = get(f"{url}/api/v1/search", params={"q": "0042"}).json()
    assert found == {"Boards": [{"name": "SK-AM62-0042", "page": "/boards/SK-AM62-0042"}]}
    assert get(f"{url}/api/v1/search", params={"q": "2"}).json()["Runs"] == [{"name": "run 2", "page": "/runs/2"}]
    for kind, named in get(f"{url}/api/v1/search", params={"q": "script"}).json().items():
        assert all(get(url + each["page"]).status_code == 200 for each in named), kind
    assert "11.01" in {each["release"] for each in get(f"{url}/api/v1/guides").json()}
    assert "no board 'nosuch'" in get(f"{url}/api/v1/boards/nosuch").json()["detail"]


def test_lists_are_paged_by_the_number_of_the_last_run(url: str) -> None:
    seen, before = [], {}
    for _ in range(3):
        page = get(f"{url}/api/v1/runs", params={"limit": 1, **before}).json()
        seen += [run["id"] for run in page["runs"]]
        before = {"before": page["next"]}
    assert (seen, page["next"]) == ([3, 2, 1], None)
    assert [run["id"] for run in get(f"{url}/api/v1/runs", params={"type": "am62xx_sk"}).json()["runs"]] == [2, 1]


COLUMNS = {"what": "kind", "board": "board", "type": "board_type", "release": "release", "status": "status"}


@pytest.mark.parametrize("order", [sign + name for name in ORDERS for sign in ("", "-")])
def test_a_sorted_list_has_each_run_once_over_its_pages(url: str, order: str) -> None:
    whole = get(f"{url}/api/v1/runs").json()["runs"]
    wanted = sorted(whole, key=lambda run: run[COLUMNS[order.removeprefix("-")]], reverse=order.startswith("-"))
    seen, before = [], {}
    while not seen or before["before"]:
        page = get(f"{url}/api/v1/runs", params={"limit": 1, "sort": order, **before}).json()
        seen += page["runs"]
        before = {"before": page["next"]}
    assert [run["id"] for run in seen] == [run["id"] for run in wanted]
    first = re.search(r'<th scope="row"><a href="/runs/(\d+)">', get(f"{url}/runs", params={"sort": order}).text)
    assert first is not None
    assert int(first[1]) == wanted[0]["id"]


def test_the_tables_of_runs_and_releases_are_csv_behind_the_address_of_their_json(url: str) -> None:
    for page, name in (("runs", "run"), ("releases", "release")):
        address = f"{url}/api/v1/{page}"
        answer = get(address, params={"format": "csv"})
        assert answer.headers["content-type"].startswith("text/csv")
        found = get(address).json()
        rows, documents = list(csv.DictReader(io.StringIO(answer.text))), found["runs"] if page == "runs" else found
        assert [row[name] for row in rows] == [str(each["id" if page == "runs" else "release"]) for each in documents]
        assert get(f"{url}/{page}").text.count("format=csv") == 1
    assert get(f"{url}/runs?sort=nosuch").status_code == 422


def test_the_interface_gives_what_the_store_has(url: str, folder: Path) -> None:
    with open_store(str(folder / "results.db")) as store:
        (measurement,) = [
            m for m in store.measurements(2) if (m.metric.name, m.params) == ("boot.time", {"medium": "sd"})
        ]
    points = get(f"{url}/api/v1/metrics/boot.time", params={"board": "SK-AM62-0042"}).json()
    (point,) = [each for each in points if (each["run"], each["params"]) == (2, {"medium": "sd"})]
    values = [sample.value for sample in measurement.samples]
    assert point["value"] == pytest.approx(sum(values) / len(values))
    assert (point["n"], point["unit"], point["release"]) == (3, "s", "11.01")
    verdicts = get(f"{url}/api/v1/runs/2/verdicts").json()
    assert (verdicts["run"], verdicts["against"]) == (2, "the last accepted runs")
    assert {each["metric"] for each in verdicts["numbers"]} >= {"boot.time", "boot.stage"}
    assert "SK-AM62-0042" in {board["board"] for board in get(f"{url}/api/v1/lab").json()["boards"]}


def test_a_metrics_page_of_many_boards_has_the_moved_ones_first_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    database = fill(tmp_path / "results.db", boards=30, metrics=2, samples=2, releases=40, last=utc_now())
    moved = {"board-0003": 30 * 39 + 4, "board-0020": 30 * 39 + 21}
    with open_store(database) as store:
        for run in moved.values():
            verdict = NewVerdict("boot.time", 1, {"medium": "sd"}, "regression", 1, run, 4, 0.5, 0.4, 0.6)
            write_verdicts(store, run, [verdict])
    with serving(Site(database, runtime=tmp_path / "runtime", folder=tmp_path)) as url:
        page, word, few = (
            get(f"{url}/metrics/boot.time", params={"board": words}).text
            for words in ([], ["board-00"], ["board-0001"])
        )
    rows = re.findall(r"(board-\d+), sd</a></th>.*?data-label=\"runs\">(\d+)<", page, re.DOTALL)
    assert [board for board, _ in rows[:2]] == sorted(moved)
    assert {runs for _, runs in rows} == {"30"}, "of each board as many"
    assert page.count("<polyline") == len(rows) == 12
    assert not missing_facts(page, "12 of 30 boards", "moved last", "Search for another", "the last 30 runs")
    assert not missing_facts(word, "12 of 30 boards", "moved last")
    assert word.count('name="board" value=') == 12, "the boards that are drawn, not all that match"
    assert re.findall(r"(board-\d+), sd</a></th>", few) == ["board-0001"]
    assert "1 of 30 boards" not in few
    assert "runs are here" not in few


def test_a_line_of_a_metric_passes_by_what_is_crossed_out(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        for status, value in (("completed", 4.0), ("interrupted", 9.0), ("completed", 4.1)):
            run = store.begin_run("boot", "am62xx_sk", "board-a", "12.00", plan={}, provenance={})
            sample = (SampleRecord("boot.time", {"medium": "sd"}, value, 0.5),)
            attempt = AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", utc_now(), 30.0, sample)
            store.record_attempt(run.id, attempt)
            store.finish_run(run.id, status)  # type: ignore[arg-type] # of the run statuses
    with serving(Site(str(tmp_path / "results.db"), runtime=tmp_path / "runtime", folder=tmp_path)) as url:
        page = get(f"{url}/metrics/boot.time").text
    dots = re.findall(r'run (\d), 12.00: .*?<circle cx="([\d.]+)" cy="([\d.]+)"', page)
    assert [run for run, *_ in dots] == ["1", "2", "3"]
    assert page.count('class="broken"') == 1
    (line,) = re.findall(r'<polyline fill="none" points="([^"]*)"', page)
    assert line.split() == [f"{x},{y}" for run, x, y in dots if run != "2"]


def test_a_metrics_page_reads_no_table_from_its_beginning(tmp_path: Path) -> None:
    asked: list[tuple[str, Any]] = []
    with open_store(fill(tmp_path / "results.db", boards=30, metrics=2, samples=2, releases=40)) as store:
        event.listen(
            store._engine,
            "before_cursor_execute",
            lambda _connection, _cursor, text, values, _context, _many: asked.append((text, values)),
        )
        assert len(averages.points_of(store, "boot.time", averages.boards(store, "boot.time"))) == averages.POINTS
        moved_boards(store, "boot.time", utc_now())
        values = {
            column: listing.column_values(store, column) for column in ("board", "board_type", "release", "kind")
        }
        queries = [each for each in asked if each[0].startswith(("SELECT", "WITH"))]
        with store._engine.connect() as connection:
            plans = [
                row[3]
                for text, parameters in queries
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters)
            ]
    assert {column: len(names) for column, names in values.items()} == {
        "board": 30,
        "board_type": 1,
        "release": 40,
        "kind": 1,
    }
    assert plans
    assert not [plan for plan in plans if re.search(r"SCAN (runs|measurements|samples|verdicts|attempts)", plan)], (
        plans
    )


def test_a_metrics_page_has_all_boards_on_one_axis_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    days = {"board-a": (0, 10), "board-b": (5,), "board-c": (2,)}
    with open_store(str(tmp_path / "results.db")) as store:
        for board, its in days.items():
            for day in its:
                release = f"12.0{day % 10}"
                run = store.begin_run("boot", "am62xx_sk", board, release, plan={}, provenance={})
                sample = SampleRecord("boot.time", {"medium": "sd"}, 4.0, 0.5)
                store.record_attempt(
                    run.id, AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", at, 30.0, (sample,))
                )
                store.finish_run(run.id, "completed")
                begun = update(RunRow).where(RunRow.id == run.id).values(started_at=at + dt.timedelta(days=day))
                store.write(lambda session, begun=begun: session.execute(begun))
    with serving(Site(str(tmp_path / "results.db"), runtime=tmp_path / "runtime", folder=tmp_path)) as url:
        page = get(f"{url}/metrics/boot.time").text
        some = get(f"{url}/metrics/boot.time", params={"board": ["board-a", "board-b"], "release": ["12.00", ""]})
        part, one = (get(f"{url}/metrics/boot.time", params={"board": word}).text for word in ("ARD", "d-c"))
        monkeypatch.setattr(charts, "MOST_SERIES", 2)
        few = get(f"{url}/metrics/boot.time").text
        asked = html.unescape(re.findall(r'href="([^"]*format=csv)"', some.text)[0])
        table = list(csv.DictReader(io.StringIO(get(url + asked).text)))
    (chart,) = re.findall(r'<svg [^>]*class="lines".*?</svg>', page, re.DOTALL)
    dots = re.findall(r'aria-label="(board-.), sd: run [^"]*">.*?cx="([\d.]+)" cy="([\d.]+)"', chart)
    places: dict[str, list[float]] = {board: [float(x) for name, x, _ in dots if name == board] for board in days}
    assert len({y for *_, y in dots}) == 1, "what is equal is equally high, whatever the board"
    assert re.findall(r">(\d\d-\d\d)</text>", chart)[0] == "11-02"
    first, last = places["board-a"]
    assert places["board-b"] == [pytest.approx((first + last) / 2, abs=0.2)]
    assert places["board-c"] == [pytest.approx(first + (last - first) / 5, abs=0.2)]
    assert re.findall(r">(12.\d\d)</text>", chart) == ["12.00", "12.02", "12.05"]
    assert [(name, text) for name, text in re.findall(r"(board-.), sd</a></th>\s*<td[^>]*>([^<]*)<", page)] == [
        (board, "4.00 ± 0.50 s") for board in days
    ]
    assert re.findall(r"(board-.), sd</a></th>", some.text) == ["board-a"]
    assert re.findall(r"(board-.), sd</a></th>", part) == ["board-a", "board-b", "board-c"], (
        "a part of a name is enough"
    )
    assert re.findall(r"(board-.), sd</a></th>", one) == ["board-c"]
    assert re.findall(r"(board-.), sd</a></th>", few) == ["board-a", "board-b"]
    assert not missing_facts(few, "1 more", "choose boards")
    assert [(row["board"], row["release"], row["params.medium"], row["value"]) for row in table] == [
        ("board-a", "12.00", "sd", "4.0")
    ] * 2


def test_another_sites_name_leads_nowhere(url: str) -> None:
    answer = get(url, headers={"Host": "attacker.example"})
    assert answer.status_code == 400


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2f..%2ferrors.py"])
def test_no_path_leaves_the_static_files(url: str, path: str) -> None:
    session = requests.Session()
    asked = requests.Request("GET", url).prepare()
    asked.url = url + path  # as it stands: a library would tidy it
    assert session.send(asked, timeout=60).status_code == 404


def test_results_that_cannot_be_read_are_said_on_every_page(tmp_path: Path) -> None:
    with serving(Site(str(tmp_path / "none.db"), runtime=tmp_path / "runtime", folder=tmp_path)) as address:
        wall = get(address)
        assert wall.status_code == 200
        assert "none.db" in wall.text
        for page in (
            "/runs",
            "/runs/1",
            "/releases",
            "/metrics/boot.time",
            "/audit",
            "/api/v1/runs",
            "/api/v1/releases",
        ):
            answer = get(address + page)
            assert (answer.status_code, "none.db" in answer.text, "Traceback" in answer.text) == (503, True, False), (
                page
            )


def test_a_page_is_made_again_when_a_person_decides_or_another_attempt_came(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        run = recorded_run.record(store, virtual=False, cycles=1)
        site, made = Site(str(tmp_path / "results.db")), []

        def page() -> int:
            site.page(("run", "1"), lambda _store: made.append(1) or "page")  # type: ignore[func-returns-value]
            return len(made)

        assert [page(), page()] == [1, 1]
        review(store, run.id, "accepted", "lena", "")
        assert [page(), page()] == [2, 2]
        begun = store.begin_run("boot", "am62xx_sk", "b", "11.01", plan={}, provenance={})
        assert [page(), page()] == [3, 3]
        store.finish_run(begun.id, "completed")
        assert [page(), page()] == [4, 4]


def test_the_documents_are_served_where_they_are_built_and_linked_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_data, "folder", lambda name: tmp_path / name)
    with serving(Site()) as url:
        assert get(f"{url}/docs/").status_code == 404
        assert "/docs/" not in get(f"{url}/nosuch").text
    (tmp_path / package_data.SITE / "farm").mkdir(parents=True)
    (tmp_path / package_data.SITE / "index.html").write_text("<p>the overview")
    (tmp_path / package_data.SITE / "farm" / "index.html").write_text("<p>the farm")
    with serving(Site()) as url:
        assert 'href="/docs/"' in get(f"{url}/nosuch").text
        assert get(f"{url}/docs/").text == "<p>the overview"
        answer = get(f"{url}/docs/farm/")
    assert answer.text == "<p>the farm"
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self' 'unsafe-inline'"
