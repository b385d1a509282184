"""The wall: tiles, and which boards a filter takes; what is said of each type of board of a release."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from markupsafe import Markup
from starlette.requests import Request

from lab.farm.board_state import BoardNow, JobNow
from lab.farm.status import LabNow
from lab.host.clock import utc_now
from lab.results import open_store
from lab.results.listing import OK, ListedRun
from lab.results.records import RunHead
from lab.web.auth import NOBODY
from lab.web.releases import ComparedRelease, ReleaseRun
from lab.web.rendering import Renderer
from lab.web.site import Site
from lab.web.streams import WallParts
from lab.web.wall import Filter, Tile, tiles

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


def test_of_a_large_wall_only_what_changed_is_rendered_and_sent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = Renderer()
    parts, viewer, seen = WallParts(site, renderer), Request(SCOPE), site.look()
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
    assert made == ["one", "head"]
    event = second.event_after(first)
    assert event is second.event_after(first), "all viewers who see the same get the same bytes"
    assert event.startswith(b"event: changes\n")
    assert len(event) < len(second.event) / 200
    assert second.event_after(None) is second.event
