"""Invented pairs of guides: where nothing changed nothing is said, and what was planted is one cause that names it."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import guide_generator as generator
from support.guide_generator import PROCESSOR, Generated

from lab.guide import measurements
from lab.guide.check.rules.clocks import CLOCKS_MHZ
from lab.guide.compare import causes
from lab.guide.compare import comparison as compare
from lab.guide.compare.causes import Kind
from lab.guide.compare.comparison import Comparison
from lab.guide.read import reader
from lab.judge.compare import Verdict

pytestmark = pytest.mark.filterwarnings("error")
QUIET = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}


def compared(old: Generated, new: Generated) -> Comparison:
    return compare.compare(*(measurements.of_guide(reader.parse("guide", generator.rst(each))) for each in (old, new)))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Generated, Generated]:
    """Two releases of the same boards in which nothing changed."""
    old = draw(generator.guides())
    return old, draw(generator.measured_again(old))


@given(pair=pairs())
def test_where_nothing_was_changed_nothing_is_worse_better_or_suspect(pair: tuple[Generated, Generated]) -> None:
    found = compared(*pair)
    assert [(c.board, c.metric, c.printed, c.reason) for c in found.changes if c.verdict not in QUIET] == []
    assert len(found.changes) == len(pair[0].cells), "each result of one guide has its partner in the other"
    assert [cause.text for cause in causes.find_causes(found) if cause.kind is not Kind.KNOWN] == []
    assert causes.verdict_line(found) == f"0 worse, 0 better, {len(found.changes)} noise"


@given(pair=pairs(), percent=st.integers(30, 75), faster=st.booleans(), data=st.data())
def test_a_factor_that_was_planted_in_the_processor_s_rows_is_one_cause_that_names_it(
    pair: tuple[Generated, Generated], percent: int, faster: bool, data: st.DataObject
) -> None:
    old, new = pair
    titles = [table.title for table in old.text.tables if table.title.startswith(PROCESSOR)]
    benchmarks = {title.partition("Pro")[0].partition(" ")[0] for title in titles}
    assume(len(benchmarks) > 1)
    boards = old.boards if data.draw(st.booleans()) else old.boards[:1]
    factor = percent / 100 if not faster else 100 / percent
    found = compared(old, generator.slowed_down(new, titles, factor, boards))
    (cause,) = [each for each in causes.find_causes(found) if each.kind is not Kind.KNOWN]
    assert cause.kind is (Kind.BETTER if faster else Kind.WORSE)
    assert cause.boards == tuple(sorted(boards))
    assert cause.count == sum(board in boards and title in titles for board, title, _, _ in old.cells)
    assert all(benchmark.casefold() in cause.what.casefold() for benchmark in benchmarks)
    assert cause.factors is not None
    assert cause.factors[0] / 1.04 <= factor <= cause.factors[1] * 1.04 or _only_times(titles, cause.factors, factor)
    if cause.why:
        (clock,) = re.findall(r"^as if the CPU ran at (\d+) MHz", cause.why)
        assert min(abs(step / int(clock) - 1) for step in CLOCKS_MHZ) < 0.02, "no other clock is named"


def _only_times(titles: list[str], factors: tuple[float, float], factor: float) -> bool:
    return (
        all(title.startswith("LMBench") for title in titles) and factors[0] / 1.04 <= 1 / factor <= factors[1] * 1.04
    )


@given(pair=pairs(), percent=st.integers(30, 70), data=st.data())
def test_a_table_that_got_slower_on_all_boards_is_one_cause(
    pair: tuple[Generated, Generated], percent: int, data: st.DataObject
) -> None:
    old, new = pair
    title = data.draw(st.sampled_from([table.title for table in old.text.tables]))
    found = compared(old, generator.slowed_down(new, [title], percent / 100, old.boards))
    worse = [each for each in causes.find_causes(found) if each.kind is Kind.WORSE]
    assert len(worse) == 1
    assert worse[0].boards == tuple(sorted(old.boards))
    assert {change.board for change in worse[0].changes} == set(old.boards)
    others = [each for each in causes.find_causes(found) if each.kind not in {Kind.WORSE, Kind.KNOWN}]
    assert all("TCP" in each.what and "work was another" in each.why for each in others), (
        "its load belongs to less work"
    )
