"""The excerpt of a log keeps what matters and says what it leaves out."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from lab.report.view import LogGap, excerpt
from lab.results import Moment
from lab.results.formatting import LogLine


def log(lengths: list[int], marked: Collection[int] = ()) -> list[LogLine]:
    moment = (Moment("login", 0, 1, 1),)
    return [LogLine(i * 1000, "x" * n, moment if i in marked else ()) for i, n in enumerate(lengths)]


def test_a_short_log_is_whole() -> None:
    lines = log([10] * 20)
    assert excerpt(lines, 200) == lines
    assert excerpt([]) == []


def test_a_long_log_keeps_its_ends_and_the_lines_around_its_moments() -> None:
    lines = log([10] * 100, marked={40})
    kept = excerpt(lines, 90)
    assert [line.start // 1000 for line in kept if isinstance(line, LogLine)] == [0, 1, 2, 38, 39, 40, 41, 98, 99]
    assert [gap.lines for gap in kept if isinstance(gap, LogGap)] == [35, 56]


@given(st.lists(st.integers(0, 2000), max_size=60), st.sets(st.integers(0, 59)), st.integers(0, 5000))
def test_nothing_is_lost_without_being_counted(lengths: list[int], marked: set[int], limit: int) -> None:
    lines = log(lengths, marked)
    kept = excerpt(lines, limit)
    shown = [line for line in kept if isinstance(line, LogLine)]
    assert len(shown) + sum(gap.lines for gap in kept if isinstance(gap, LogGap)) == len(lines)
    assert [line.start for line in shown] == sorted(line.start for line in shown)
    assert sum(min(len(lines[line.start // 1000].text), 400) for line in shown) <= limit or len(shown) == 1
    assert all(len(line.text) < 440 for line in shown)
