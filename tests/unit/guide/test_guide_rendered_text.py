"""Guides as rendered text: one cell a line, nothing that marks a heading."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import guide_family
from support.guide_family import GuideText, TableText, table, write_text

from lab.guide.model import CellKind, Table
from lab.guide.read import assemble, reader, rendered_text, rst

POWER = [
    "Rail name",
    "Rail voltage(V)",
    "Power (mW)",
    "vdd_core",
    "0.85",
    "8.53",
    "vddr_core",
    "0.85",
    "n/a",
    "Total",
    "24.37",
]


def lines(*cells: str, title: str = "T", after: str = "") -> str:
    return f"Table 2.1 {title}\n\n" + "\n\n".join(cells) + f"\n\n{after}"


def tables(text: str) -> tuple[Table, ...]:
    return assemble.tables(rendered_text.read(text).tables)


def values(built: Table) -> list[tuple[str, str]]:
    return [(cell.row, cell.value.text) for cell in built.cells]


def test_prose_after_a_table_is_no_row() -> None:
    (built,) = tables(
        lines("Benchmarks", "am654x-evm: perf", "linpack (Kflops)", "326161.00", after="NBench measures 3 things.")
    )
    assert values(built) == [("linpack (Kflops)", "326161.00")]


def test_an_announcement_may_follow_code_without_a_blank_line() -> None:
    first, second = tables(
        "./run -s X\n"
        + lines("K", "am654x-evm: perf", "a", "1.00", after="time -v openssl speed\n")
        + "Table 2.2 Second\n\nK\n\nam654x-evm: Score\n\nb\n\n2.00"
    )
    assert (first.title, values(first)) == ("T", [("a", "1.00")])
    assert (second.title, values(second)) == ("Second", [("b", "2.00")])


def test_several_columns_and_boards_are_counted_by_the_header() -> None:
    header = [
        "Frame Size(bytes)",
        "a1-evm: THROUGHPUT (Mbits/sec)",
        "a1-evm: CPU Load %",
        "b2-evm: THROUGHPUT (Mbits/sec)",
        "b2-evm: CPU Load %",
    ]
    (built,) = tables(lines(*header, "64", "1.00", "2.00", "3.00", "4.00", "128", "5.00", "6.00", "7.00", "8.00"))
    assert [(c.row, c.board, c.number) for c in built.cells][2:5] == [
        ("64", "b2-evm", 3.0),
        ("64", "b2-evm", 4.0),
        ("128", "a1-evm", 5.0),
    ]


def test_two_key_columns_stand_before_the_first_board() -> None:
    (built,) = tables(
        lines(
            "Algorithm",
            "Buffer Size (in bytes)",
            "a1-evm: throughput (KBytes/Sec)",
            "aes",
            "1024",
            "15611.90",
            "aes",
            "16",
            "245.21",
        )
    )
    assert values(built) == [("aes", "1024"), ("aes", "15611.90"), ("aes", "16"), ("aes", "245.21")]
    assert built.cells[3].params == {"Algorithm": "aes", "Buffer Size (in bytes)": "16"}


def test_a_header_without_a_board_is_found_by_the_rows() -> None:
    (built,) = tables(
        lines(*POWER, title="Deep Sleep Power Performance", after="Partial I/O Data - All rails were near 0V")
    )
    assert built.header == ("Rail name", "Rail voltage(V)", "Power (mW)")
    assert values(built)[:4] == [
        ("vdd_core", "0.85"),
        ("vdd_core", "8.53"),
        ("vddr_core", "0.85"),
        ("vddr_core", "n/a"),
    ]


def test_an_empty_cell_leaves_a_short_row_that_is_not_filled() -> None:
    (built,) = tables(lines(*POWER))
    total = [c for c in built.cells if c.row == "Total"]
    assert [c.value.text for c in total] == ["24.37"]


def test_a_cell_of_text_stays_in_its_row() -> None:
    (built,) = tables(
        lines(
            "Low Power Mode",
            "Total Resume Latency (ms)",
            "DeepSleep",
            "171",
            "RTC Only",
            "Full normal boot time (~seconds)",
            "MCU",
            "385",
        )
    )
    assert values(built) == [("DeepSleep", "171"), ("RTC Only", "Full normal boot time (~seconds)"), ("MCU", "385")]


def test_numbers_without_decimals_begin_the_rows_of_a_ragged_table() -> None:
    header = ["Frame Size(bytes)", "a1-evm: Size(bytes)", "a1-evm: THROUGHPUT (Mbits/sec)"]
    (built,) = tables(lines(*header, "64", "3.38", "128", "82.00", "6.76"))
    assert [(c.row, c.value.text, c.kind) for c in built.cells] == [
        ("64", "3.38", CellKind.UNATTRIBUTED),
        ("128", "82.00", CellKind.VALUE),
        ("128", "6.76", CellKind.VALUE),
    ]


def test_rows_that_cannot_be_told_apart_are_said_to_be_unread(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text(lines("Window", "a1-evm: Size(bytes)", "a1-evm: Rate (MB/s)", "8", "1", "16", "2", "3", "32", "4"))
    guide = reader.read(path)
    assert guide.tables[0].cells == ()
    assert [part.line for part in guide.unread] == [9]
    assert "cannot be told apart" in guide.unread[0].reason


def test_an_announcement_without_a_table_is_said_to_be_unread(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text("Table 2.1 Nothing\n\nOnly prose follows here.\n")
    guide = reader.read(path)
    assert [(part.line, "no header" in part.reason) for part in guide.unread] == [(1, True)]


def test_numbered_headings_are_chapters_and_the_guides_is_its_title(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text(
        "2.3. RT-linux 09.03 Performance Guide\n\n2.3.1. System Benchmarks\n\n2.3.1.1. LMBench\n\n"
        + lines("K", "am654x-evm: perf", "a", "1.00")
    )
    guide = reader.read(path)
    assert (guide.release, guide.tables[0].chapter) == ("09.03", ("System Benchmarks", "LMBench"))


def test_the_modules_and_conditions_are_found(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    text = GuideText(
        "Linux 09.03 Performance Guide",
        form="text",
        modules=[("AM65x EVM", "AM65x Evaluation Module with ARM running at 800MHz")],
        tables=[table("K,am654x-evm: perf", "a,1.00", title="T")],
        conditions=[(1, "SanDisk 8GB MicroSDHC Class 10 Memory Card")],
    )
    path.write_text(write_text(text), encoding="utf-8")
    guide = reader.read(path)
    assert [m.clock_mhz for m in guide.modules] == [800.0]
    assert [c.text for c in guide.conditions] == ["SanDisk 8GB MicroSDHC Class 10 Memory Card"]


_VALUE = st.decimals(min_value=0, max_value=10**6, places=2).map(lambda d: f"{d:.2f}")
_RANGE = st.tuples(_VALUE, _VALUE, _VALUE).map(lambda v: f"{v[0]} (min {v[1]}, max {v[2]})")


@st.composite
def plain_tables(draw: st.DrawFn) -> TableText:
    """A table whose rows are full, with text or whole numbers as keys."""
    boards = draw(st.integers(1, 3))
    metrics = draw(
        st.lists(
            st.sampled_from(["THROUGHPUT (Mbits/sec)", "CPU Load %", "Score", "Read: fast (MB/s)"]),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    keys = draw(
        st.sampled_from(
            [["64", "128", "1518", "4096"], ["4k", "1m", "256k", "4m"], ["bw_pipe (MB/s)", "lat (us)", "a b", "c-d"]]
        )
    )
    rows = draw(st.integers(1, 4))
    width = boards * len(metrics)
    cells = draw(st.lists(st.lists(_VALUE | _RANGE, min_size=width, max_size=width), min_size=rows, max_size=rows))
    header = ["Key", *(f"am6{board}xx_sk-fs: {metric}" for board in range(boards) for metric in metrics)]
    lines_of = [header, *([keys[n], *row] for n, row in enumerate(cells))]
    return TableText([",".join(f'"{cell}"' for cell in line) for line in lines_of], "Some Table")


@given(st.lists(plain_tables(), min_size=1, max_size=3))
@pytest.mark.parametrize("form", ["rst", "text"])
def test_both_forms_of_a_guide_hold_the_same_cells(form: str, generated: list[TableText]) -> None:
    source = guide_family.text(GuideText("Linux 10.00 Performance Guide", form=form, tables=generated))
    document = rst.read("g", source) if form == "rst" else rendered_text.read(source)
    built = assemble.tables(document.tables)
    assert [[c.value.text for c in one.cells] for one in built] == [
        [text for line in one.lines[1:] for text in line.strip('"').split('","')[1:]] for one in generated
    ]
    assert all(cell.board for one in built for cell in one.cells)
