"""What `lab web` keeps of judged releases: no more than there is room for, and never less than a page needs that is open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field
from markupsafe import escape

from lab.web import releases
from lab.web.releases import IN_USE_S, ReleaseJudge, ReleaseRun, WantedComparison

PAGE = 1000  # bytes of a run's part of a page


@define
class Judge(ReleaseJudge):
    """Its judge says the same of all runs. asked: about which."""

    asked: list[int] = field(factory=list)

    def _judge_run(self, _snapshot: Any, head: Any, _against: str | None) -> ReleaseRun:
        self.asked.append(head.id)
        return ReleaseRun(head, {}, bad=False, shown=escape("x" * PAGE), document={})


def wanted(number: int) -> WantedComparison:
    head: Any = SimpleNamespace(id=number, status="completed")
    return WantedComparison(head, None, None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(releases, "CACHE_BYTES", 3 * (releases._LEAST_BYTES + releases._PAGE_BYTES * PAGE))
    return [0.0]


def test_what_was_asked_for_longest_ago_makes_room(clock: list[float]) -> None:
    judge, snapshot = Judge(Any, lambda: clock[0]), Any
    for number in range(5):
        judge.judge(snapshot, wanted(number))
        clock[0] += IN_USE_S + 1
    assert [number for number in range(5) if judge.find_stored(wanted(number))] == [2, 3, 4]
    judge.judge(snapshot, wanted(0))
    assert judge.asked == [0, 1, 2, 3, 4, 0]


def test_a_page_that_needs_more_than_there_is_room_for_becomes_whole(clock: list[float]) -> None:
    judge = Judge(Any, lambda: clock[0])
    for number in range(10):
        judge.judge(Any, wanted(number))
        clock[0] += 5
        for earlier in range(number):
            assert judge.find_stored(wanted(earlier)), "the page asks for all of its runs again"
    clock[0] += IN_USE_S + 1
    judge.judge(Any, wanted(10))
    assert sum(judge.find_stored(wanted(number)) is not None for number in range(11)) == 3
