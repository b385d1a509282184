"""A written guide has the vendor's chapters, and is read back cell by cell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from io import StringIO

import pytest
from docutils.core import publish_string
from hypothesis import example, given
from hypothesis import strategies as st
from support import guide_family
from support.guide_library import RELEASES, SK, reread, texts

from lab.guide import layout, measurements
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import Guide
from lab.guide.read import reader
from lab.guide.read.markup import escape, unescape
from lab.guide.write import rst_writer, stored_release
from lab.guide.write.entries import EntryProvenance, GuideEntry, GuideRelease, Origin
from lab.results import Store


@pytest.mark.parametrize("name", guide_family.NAMES)
def test_a_guide_that_is_imported_and_written_says_the_same(
    library: Store, sheets: Mapping[str, MeasuredGuide], name: str
) -> None:
    assert texts(reread(stored_release.collect(library, RELEASES[name], ()))) == texts(sheets[name], SK)


def test_every_written_row_has_the_width_of_its_header(library: Store) -> None:
    guide = reader.parse("g", rst_writer.write(stored_release.collect(library, "09.02", ())))
    for one in guide.tables:
        rows = Counter(cell.line for cell in one.cells)
        assert set(rows.values()) == {len(one.columns) - 1}


RAW = re.compile(r" (Raw|EXT\d|VFAT)\b")  # the vendor's cards have "Raw" in columns of files


def test_chapters_and_tables_follow_the_vendors_order(library: Store, guides: Mapping[str, Guide]) -> None:
    written = reader.parse("g", rst_writer.write(stored_release.collect(library, "11.01", ())))
    original = guides["am62x-11.01.rst"]
    assert list(dict.fromkeys(t.chapter[0] for t in written.tables)) == list(
        dict.fromkeys(t.chapter[0] for t in original.tables)
    )
    same = [t.title for t in written.tables if t.title in {o.title for o in original.tables}]
    assert list(dict.fromkeys(same)) == [t for t in dict.fromkeys(o.title for o in original.tables) if t in same]
    assert len(set(same)) >= 25
    ours, theirs = (
        {t.title: found for t in g.tables if (found := [RAW.sub("", c.metric) for c in t.columns if c.board == SK])}
        for g in (written, original)
    )
    assert {title: ours[title] for title in same if title in theirs} == {t: theirs[t] for t in same if t in theirs}


def test_conditions_and_modules_go_with_the_numbers(library: Store) -> None:
    written = reader.parse("g", rst_writer.write(stored_release.collect(library, "11.01", [SK])))
    assert [(m.name, m.clock_mhz) for m in written.modules] == [("AM62x SK", 1400.0)]
    card = "SanDisk Max Endurance SD card (SDSQQVR-032G-GN6IA)"
    assert [c.chapter[0] for c in written.conditions if c.text == card] == ["MMCSD", "UBoot MMCSD"]


def docutils_says(text: str) -> str:
    warnings = StringIO()
    settings_overrides = {
        "report_level": 2,
        "warning_stream": warnings,
        "file_insertion_enabled": False,
        "raw_enabled": False,
    }
    publish_string(text, writer="pseudoxml", settings_overrides=settings_overrides)
    return warnings.getvalue()


@pytest.mark.parametrize("name", guide_family.NAMES)
def test_docutils_builds_a_written_guide_without_a_warning(library: Store, name: str) -> None:
    assert docutils_says(rst_writer.write(stored_release.collect(library, RELEASES[name], ()))) == ""


Key = tuple[str, tuple[tuple[str, str], ...], tuple[str, ...], str]


@cache
def keys() -> list[Key]:
    """The subjects of the written guides' numbers."""
    return sorted(
        {
            (r.metric, tuple(sorted(r.params.items())), tuple(c.text for c in r.table.columns if c.is_key), r.cell.row)
            for name in guide_family.NAMES
            for r in measurements.of_guide(reader.parse(name, guide_family.text(guide_family.figures(name)))).readings
            if r.quantity and not r.is_alias and r.cell.metric is not None
        }
    )


_NUMBER = st.decimals(min_value=-999, max_value=10**7, places=2).map(lambda d: f"{d:.2f}")
_TEXT = st.one_of(
    _NUMBER,
    st.tuples(_NUMBER, _NUMBER, _NUMBER).map(lambda v: f"{v[0]} (min {v[1]}, max {v[2]})"),
    st.sampled_from(["n/a", "~11.04", "137", "ov10635", "Full normal boot time (~seconds)"]),
)
_ODD = (
    st.text(st.sampled_from("ab1 -_*`|:.\\()[]<>#+=~\"',;/&@"), min_size=1, max_size=12)
    .map(lambda t: " ".join(t.split()))
    .filter(bool)
)


@st.composite
def releases(draw: st.DrawFn) -> GuideRelease:
    """Numbers of up to three boards, of metrics that guides have and of some that no metric stands for."""
    boards = draw(
        st.lists(
            st.sampled_from(["am62xx_sk-fs", "am64xx-hsevm", "j721e-idk-gw"]), min_size=1, max_size=3, unique=True
        )
    )
    entries = []
    for board in boards:
        for metric, params, _, row in draw(
            st.lists(st.sampled_from(keys()), max_size=12, unique_by=lambda key: key[:2])
        ):
            origin = (
                Origin((), "", (), row, "") if metric in {"glmark2.score", "gfxbench.score", "nbench.rate"} else None
            )
            entries.append(
                GuideEntry(board, metric, dict(params), draw(_TEXT), None, EntryProvenance("drawn", 1), origin=origin)
            )
        for row in draw(st.lists(_ODD, max_size=3, unique_by=str.lower)):
            origin = Origin(("Novelties",), "Novelty", ("Test",), row, "Wobble (turns/s)")
            entries.append(GuideEntry(board, "", {}, draw(_TEXT), None, EntryProvenance("drawn", 1), origin=origin))
    return GuideRelease("12.00", tuple(boards), tuple(entries))


@given(releases())
def test_what_is_written_is_read_back_cell_by_cell(release: GuideRelease) -> None:
    if not release.entries:
        return
    expected = {
        (
            e.board,
            (e.metric, tuple(sorted(e.params.items())))
            if e.metric
            else (e.origin.row if e.origin else "", "Wobble (turns/s)"),
        ): e.text
        for e in release.entries
    }
    text = rst_writer.write(release)
    assert texts(reread(release)) == expected
    assert docutils_says(text) == ""


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=30))
@example("\\\\")  # four when protected, which docutils takes for a line
def test_an_escaped_text_reads_as_itself(text: str) -> None:
    assert unescape(escape(text)) == text


def test_every_metric_of_the_five_has_its_place() -> None:
    assert [key for key in keys() if layout.load().place(key[0], dict(key[1])) is None] == []
