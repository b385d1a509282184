"""The wall: tiles, and which boards a filter takes; what is said of each type of board of a release."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from attrs import evolve
from markupsafe import Markup
from starlette.requests import Request

from lab.farm.board_state import BoardNow, JobNow
from lab.farm.services import Service
from lab.farm.status import LabNow
from lab.health import Health
from lab.host.clock import utc_now
from lab.results import open_store
from lab.results.listing import OK, ListedRun
from lab.results.records import RunHead
from lab.web.auth import NOBODY
from lab.web.releases import ComparedRelease, ReleaseRun
from lab.web.rendering import Renderer
from lab.web.site import Site
from lab.web.streams import WallParts
from lab.web.wall import MOST_CARDS, MOST_ROWS, Filter, Spark, Tile, far_screen, near_screen, tiles

TILES = [
    Tile("am62-1", "am62xx_sk", "free", release="11.01"),
    Tile("am62-2", "am62xx_sk", "measuring", who="lena, since 12:00", release="11.00", failed=1),
    Tile("j7-1", "j721e_evm", "needs a person", release="11.01", trouble="no console"),
    Tile("j7-2", "j721e_evm", "held", who="helena, since 12:00"),
]


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (Filter(), ["am62-1", "am62-2", "j7-1", "j7-2"]),
        (Filter(board="AM62"), ["am62-1", "am62-2"]),
        (Filter(board_type="j721E"), ["j7-1", "j7-2"]),
        (Filter(release="11.01"), ["am62-1", "j7-1"]),
        (Filter(who="lena"), ["am62-2", "j7-2"]),
        (Filter(mine="lena"), ["am62-2"]),
        (Filter(failed=True), ["am62-2", "j7-1"]),
        (Filter(board_type="am62", failed=True), ["am62-2"]),
        (Filter(board="nosuch"), []),
        (Filter(words="J721E held"), ["j7-2"]),
        (Filter(words="11.01 person"), ["j7-1"]),
    ],
)
def test_a_filter_takes_the_boards_that_it_asks_for(wanted: Filter, taken: list[str]) -> None:
    assert [tile.board for tile in TILES if wanted.takes(tile)] == taken


def test_a_tile_says_cycle_and_expected_end_and_what_needs_a_person_stands_on_top(tmp_path: Path) -> None:
    at = utc_now().replace(hour=13, minute=0)
    with open_store(str(tmp_path / "results.db")) as store:
        run = store.begin_run("boot", "am62xx_sk", "one", "11.01", plan={}, provenance={})
    going = ListedRun(run, {OK: 7, "hang": 1}, [])
    job = JobNow(
        1, "running", "boot", "lena", at, died=False, planned={run.id: 20}, expected_end=at.replace(minute=25)
    )
    boards = (BoardNow("a"), BoardNow("one", job=job, current=going), BoardNow("z", port="its console port is lost"))
    found = tiles(LabNow(at, "host", "", "", boards, ()))
    assert [(each.board, each.state) for each in found] == [
        ("z", "needs a person"),
        ("one", "measuring"),
        ("a", "free"),
    ]
    shown = found[1]
    assert (shown.good, shown.planned, shown.share, shown.eta) == (7, 20, 35, "13:25")
    assert found[0].trouble == "its console port is lost"


def test_how_much_of_a_run_is_done_is_at_most_all_of_it() -> None:
    assert [
        Tile("b", "t", "measuring", good=good, planned=planned).share for good, planned in ((7, 20), (3, 0), (9, 8))
    ] == [35, 0, 100]


def test_a_release_of_two_types_of_boards_has_a_verdict_for_each() -> None:
    def run(board_type: str, counts: dict[str, int]) -> ReleaseRun:
        head = RunHead(1, "boot", board_type, "one", "11.01", "completed", utc_now(), None)
        return ReleaseRun(head, counts, False, Markup(), {})

    first, second = run("am62xx_sk", {"worse": 2, "unchanged": 1}), run("j721e_evm", {"unchanged": 3})
    assert ComparedRelease(None, [first, second, first]).by_type == [
        ("am62xx_sk", "4 worse, 2 unchanged"),
        ("j721e_evm", "3 unchanged"),
    ]
    assert ComparedRelease(None, [first, first]).by_type == []


SCOPE = {"type": "http", "query_string": b"", "headers": [], "state": {"person": NOBODY}}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    with open_store(str(tmp_path / "results.db")):
        return Site(str(tmp_path / "results.db"), runtime=tmp_path / "runtime", folder=tmp_path)


def test_all_viewers_get_the_same_bytes_until_the_wall_changes(site: Site) -> None:
    parts = WallParts(site, Renderer())
    viewers = [Request(SCOPE), Request(SCOPE)]
    first = parts.of(viewers[0])
    assert parts.of(viewers[1]) is first
    seen = site.look()
    site._seen = evolve(seen, at_s=seen.at_s + 0.001)
    assert parts.of(viewers[1]) is first, "another look, the same wall"
    site._seen = evolve(seen, at_s=seen.at_s + 0.002, lab=evolve(seen.lab, boards=(BoardNow("b1"),)))
    assert b"b1" in parts.of(viewers[0]).event
    assert parts.of(viewers[1]).event is not first.event


@pytest.mark.parametrize("screen", ["", "kiosk"])
def test_boards_that_are_not_compared_yet_are_counted_beside_the_free_ones_whatever_else_is_wrong(
    site: Site, screen: str
) -> None:
    seen = site.look()
    boards = tuple(BoardNow(f"b{number}", is_judged=number > 2) for number in range(5))
    services = (Service("buildbot", "bad", "it does not answer", ""),)
    site._seen = evolve(seen, at_s=seen.at_s + 1, lab=evolve(seen.lab, boards=boards, services=services))
    parts = WallParts(site, Renderer()).of(Request({**SCOPE, "query_string": screen.encode()}))
    assert b"3 not compared" in parts.event


@pytest.mark.parametrize("screen", ["", "kiosk"])
def test_free_boards_that_were_silent_for_a_week_and_services_that_are_down_stand_in_the_head(
    site: Site, screen: str
) -> None:
    seen = site.look()
    with site.store() as store:
        run = store.begin_run("boot", "am62xx_sk", "old", "11.01", plan={}, provenance={})
    ends = {"new": seen.lab.at - dt.timedelta(days=1), "old": seen.lab.at - dt.timedelta(days=9)}
    boards = tuple(
        BoardNow(name, last=ListedRun(evolve(run, status="completed", finished_at=end), {}, []))
        for name, end in ends.items()
    )
    assert {board.state.name for board in boards} == {"free"}
    checked = evolve(boards[1], health=Health("old", "healthy", (), None, ends["new"], True))
    services = (Service("pdudaemon", "bad", "nobody at 10.0.0.7", ""),)
    heads = []
    for number, second in enumerate((boards[1], checked), 1):
        lab = evolve(seen.lab, boards=(boards[0], second), services=services)
        site._seen = evolve(seen, at_s=seen.at_s + number, lab=lab)
        heads.append(
            WallParts(site, Renderer()).of(Request({**SCOPE, "query_string": screen.encode()})).event.decode()
        )
    silent = '<tr id="row-6f6c64" class="silent">' if not screen else "old (silent)"
    assert [silent in head for head in heads] == [True, False]
    assert ["1 of the free ones" in head or "1 free, silent" in head for head in heads] == [True, False]
    assert all("nobody at 10.0.0.7" in head for head in heads)


def test_a_service_that_does_not_run_here_is_not_one_without_a_problem(site: Site) -> None:
    seen = site.look()

    def head(*services: Service) -> str:
        site._seen = evolve(site.look(), at_s=site.look().at_s + 0.001, lab=evolve(seen.lab, services=services))
        return WallParts(site, Renderer()).of(Request({**SCOPE, "query_string": b""})).event.decode()

    absent = Service("exporter", "absent", "nothing listens", "")
    assert "Not running here: exporter" in head(absent)
    assert "No problem" not in head(absent)
    assert "No problem" in head(absent, Service("pdudaemon", "ok", "listens"))


def test_of_a_large_wall_only_what_changed_is_rendered_and_sent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = Renderer()
    parts, viewer, seen = WallParts(site, renderer), Request({**SCOPE, "query_string": b"all=1"}), site.look()
    boards = tuple(BoardNow(f"board-{number:04}") for number in range(1000))
    site._seen = evolve(seen, at_s=seen.at_s + 1, lab=evolve(seen.lab, boards=boards))
    first = parts.of(viewer)
    made: list[str] = []
    macro = renderer.macro
    monkeypatch.setattr(Renderer, "macro", lambda _self, *given: made.append(given[1]) or macro(*given))
    lost = BoardNow("board-0500", port="its console port is lost")
    after = (*boards[:500], lost, *boards[501:])
    site._seen = evolve(seen, at_s=seen.at_s + 2, lab=evolve(seen.lab, boards=after))
    second = parts.of(viewer)
    assert made == ["head", "cards", "table", "card"]
    event = second.event_after(first)
    assert event is second.event_after(first), "all viewers who see the same get the same bytes"
    assert event.startswith(b"event: changes\n")
    assert len(event) < len(second.event) / 100
    assert second.event_after(None) is second.event


def test_a_screen_has_no_more_than_can_be_read_and_says_so() -> None:
    free, broken = (
        [Tile(f"{state}-{number:03}", "t", state) for number in range(500)] for state in ("free", "failed")
    )
    near = near_screen([*broken, *free], Filter())
    assert (len(near.cards), len(near.rows), near.hidden) == (MOST_CARDS, MOST_ROWS, 1000 - MOST_CARDS - MOST_ROWS)
    assert near_screen([*broken, *free], Filter(whole=True)).hidden == 0
    far = far_screen([*broken, *free])
    assert (len(far.cards), {tile.state for tile in far.cards}) == (48, {"failed"})
    assert 0 < len(far.rows) < 100
    held = far_screen([broken[0], Tile("j7", "t", "held"), *free])
    assert [tile.state for tile in held.cards] == ["failed", "held"], "what is free is a name in a strip"
    assert held.longest == len("failed-000")


def test_many_equal_problems_hide_no_failed_board_and_no_other_kind_of_problem() -> None:
    gone = [Tile(f"b{number:03}", "t", "needs a person", word="job gone", fault="lab") for number in range(200)]
    others = [
        Tile("c0", "t", "needs a person", word="console"),
        *(Tile(f"d{number}", "t", "failed", word="kernel_panic", fault="board") for number in range(9)),
        Tile("e0", "t", "worse", word="+20 %"),
        Tile("e1", "t", "worse", word="+21 %"),
        Tile("f0", "t", "away"),
    ]
    for screen in (near_screen([*gone, *others], Filter()), far_screen([*gone, *others])):
        boards = [tile.board for tile in screen.cards]
        assert len(boards) == MOST_CARDS
        assert boards[:5] == ["b000", "c0", "d0", "e0", "f0"]
        assert boards[5:13] == [f"d{number}" for number in range(1, 9)]
        assert screen.left_out == f"{200 - (MOST_CARDS - 12)} need a person (job gone), 1 worse"
    few = [*gone[:3], *others]
    assert near_screen(few, Filter()).cards == tuple(few), "where all fit, the order of the states"
    assert near_screen(few, Filter()).left_out == ""


@pytest.mark.parametrize(
    ("names", "common", "longest"),
    [
        (("am62xx_sk-fs-rack1-a", "am62xx_sk-fs-rack12-a"), "am62xx_sk-fs-", len("rack12-a")),
        (("am62xx_sk-fs-rack1-a", "am62xx_sk-fs-rack1-b"), "am62xx_sk-fs-rack1-", 10),
        (("am62xx_sk-fs-rack1-a", "j784s4"), "", len("am62xx_sk-fs-rack1-a")),
        (("rack-1", "rack-2"), "", len("rack-1")),
        (("am62xx_sk-fs-rack1-a",), "", len("am62xx_sk-fs-rack1-a")),
    ],
)
def test_what_long_names_have_in_common_is_apart_on_a_far_screen(
    names: tuple[str, ...], common: str, longest: int
) -> None:
    screen = far_screen([Tile(name, "t", "failed") for name in names])
    assert {tile.board[: screen.common] for tile in screen.cards} == {common}
    assert screen.longest == longest


@pytest.mark.parametrize(("boards", "columns"), [(1, 2), (6, 6), (20, 8), (48, 14)])
def test_a_screen_of_problems_is_about_as_wide_as_the_window(boards: int, columns: int) -> None:
    screen = far_screen([Tile(f"b{number}", "t", "failed") for number in range(boards)])
    assert screen.columns == columns
    assert columns // 2 * -(-columns // 1.6) >= boards, "each has its place"


@pytest.mark.parametrize(
    ("sort", "boards"),
    [
        ("", ["am62-2", "j7-2", "am62-1"]),
        ("board", ["am62-1", "am62-2", "j7-2"]),
        ("-board", ["j7-2", "am62-2", "am62-1"]),
        ("release", ["j7-2", "am62-2", "am62-1"]),
        ("-number", ["am62-1", "j7-2", "am62-2"]),
    ],
)
def test_rows_are_sorted_by_a_column(sort: str, boards: list[str]) -> None:
    sparks = {"am62-2": 2.5, "j7-2": 10.0}
    rows = [
        evolve(tile, spark=Spark("", "", "", sparks[tile.board]) if tile.board in sparks else None)
        for tile in (TILES[2], TILES[1], TILES[3], TILES[0])
    ]
    assert [tile.board for tile in near_screen(rows, Filter(sort=sort)).rows] == boards


def test_a_filter_is_kept_in_the_address() -> None:
    asked = Filter(words="am62 & more", mine="lena", failed=True, sort="-since")
    assert asked.query(whole=True) == "filter=am62+%26+more&failed=1&mine=1&all=1&sort=-since"
    assert Filter().query() == ""
