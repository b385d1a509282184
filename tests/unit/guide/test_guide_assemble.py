"""Rows whose length is not the header's: nothing is dropped, invented or given to a neighbour."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.guide_family import mini, table

from lab.guide.model import CellKind, Table
from lab.guide.read import assemble, reader
from lab.guide.read.raw_table import RawRow, RawTable

GLMARK = "Benchmark,am62xx_lp_sk-fs: Score,am62xx_sk-fs: Score,am62xxsip_sk-fs: Score"
IPSEC = ",".join(
    ["Algorithm", *(f"{b}: {m}" for b in ("a1-fs", "b2-fs", "c3-fs") for m in ("Throughput (Mbps)", "CPU Load"))]
)
UDP = ",".join(
    [
        "Frame Size(bytes)",
        *(
            f"{b}: {m}"
            for b in ("a1-fs", "b2-fs", "c3-fs")
            for m in ("UDP Datagram Size(bytes)", "THROUGHPUT (Mbits/sec)")
        ),
    ]
)


def of(header: str, *rows: str | list[str]) -> Table:
    split = (row.split(",") if isinstance(row, str) else row for row in rows)
    raw = [RawRow(n, tuple(row)) for n, row in enumerate(split, start=1)]
    (built,) = assemble.tables([RawTable((), "T", "inline", 1, tuple(header.split(",")), tuple(raw))])
    return built


def test_a_full_row_gives_each_cell_its_board() -> None:
    assert [(c.board, c.number) for c in of(GLMARK, "DRM,51.00,61.00,54.00").cells] == [
        ("am62xx_lp_sk-fs", 51.0),
        ("am62xx_sk-fs", 61.0),
        ("am62xxsip_sk-fs", 54.0),
    ]


def test_a_short_row_is_no_boards() -> None:
    cells = of(GLMARK, "DRM,51.00,61.00,54.00", "1080p,63.00,66.00").cells[3:]
    assert [(c.kind, c.board, c.metric, c.number) for c in cells] == [
        (CellKind.UNATTRIBUTED, None, None, 63.0),
        (CellKind.UNATTRIBUTED, None, None, 66.0),
    ]


def test_a_placeholder_is_an_empty_cell_and_keeps_its_place() -> None:
    cells = of(GLMARK, "empty-wld,1.00,,1.00").cells
    assert [(c.kind, c.board) for c in cells] == [
        (CellKind.VALUE, "am62xx_lp_sk-fs"),
        (CellKind.EMPTY, "am62xx_sk-fs"),
        (CellKind.VALUE, "am62xxsip_sk-fs"),
    ]


def test_a_short_row_of_one_board_keeps_the_board_but_no_metric() -> None:
    cells = of("Buffer,a1-fs: Write (MB/s),a1-fs: CPU (%),a1-fs: Read (MB/s)", "4k,1.00,2.00").cells
    assert [(c.board, c.metric, c.kind) for c in cells] == [("a1-fs", None, CellKind.UNATTRIBUTED)] * 2


def test_key_columns_of_a_short_row_stand_firm() -> None:
    header = "Algorithm,Buffer Size (in bytes),a1-fs: throughput (KBytes/Sec),b2-fs: throughput (KBytes/Sec)"
    size, throughput = of(header, "aes,16,344.83").cells
    assert (size.metric, size.number, size.kind) == ("Buffer Size (in bytes)", 16.0, CellKind.VALUE)
    assert throughput.params == {"Algorithm": "aes", "Buffer Size (in bytes)": "16"}
    assert throughput.kind is CellKind.UNATTRIBUTED


def test_an_overlong_row_is_no_boards() -> None:
    cells = of(GLMARK, "a,1,2,3,4").cells
    assert [c.number for c in cells] == [1.0, 2.0, 3.0, 4.0]
    assert {c.kind for c in cells} == {CellKind.UNATTRIBUTED}


def test_a_table_without_a_header_attributes_nothing() -> None:
    raw = RawTable((), "T", "inline", 1, (), (RawRow(2, ("a", "1.0")),))
    (cell,) = assemble.tables([raw])[0].cells
    assert (cell.kind, cell.number, cell.board) == (CellKind.UNATTRIBUTED, 1.0, None)


def test_the_metric_of_a_short_row_is_known_where_every_board_has_the_same_columns() -> None:
    cells = of(IPSEC, "aes128,1,2,3,4,5,6", "aes256,274.00,47.04").cells[6:]
    assert [c.likely_metric for c in cells] == ["Throughput (Mbps)", "CPU Load"]
    assert [c.likely_board for c in cells] == [None, None]
    assert [c.likely_metric for c in of(IPSEC, "aes256,1,2,3").cells] == [None] * 3


def test_the_columns_that_a_board_leaves_empty_tell_whose_a_short_row_is() -> None:
    cells = of(
        UDP, "64,,3.38,,3.07,,2.92", "128,82.00,6.76,82.00,7.58,,7.17", "1518,1472.00,38.86,1472.00,2.43"
    ).cells[12:]
    assert [c.likely_board for c in cells] == ["a1-fs", "a1-fs", "b2-fs", "b2-fs"]
    assert {c.board for c in cells} == {None}


def test_without_such_a_column_nothing_is_likely() -> None:
    cells = of(UDP, "64,18,1,18,2,18,3", "128,82,1,82,2,82,3", "1518,1472.00,38.86,1472.00,2.43").cells[12:]
    assert {c.likely_board for c in cells} == {None}


_CELL = st.sampled_from(["1.00", "2.50 (min 1.00, max 3.00)", "", "n/a", "text", "~3"])


@given(st.lists(st.lists(_CELL, min_size=1, max_size=9), min_size=1, max_size=6))
def test_every_cell_that_stands_is_kept_and_none_is_invented(rows: list[list[str]]) -> None:
    built = of(IPSEC, *(["key", *row] for row in rows))
    assert [c.value.text for c in built.cells] == [text for row in rows for text in row]
    full = [c for c in built.cells if c.board is not None]
    assert len(full) == 6 * sum(len(row) == 6 for row in rows)


@pytest.mark.parametrize("number", range(1, 6))
def test_a_value_of_a_short_row_never_has_a_neighbours_board(tmp_path: Path, number: int) -> None:
    row = ",".join(["aes256", *(f"{n}.00" for n in range(number))])
    text = mini(table(IPSEC, "aes128,1,2,3,4,5,6", row))
    (tmp_path / "g.rst").write_text(text)
    cells = reader.read(tmp_path / "g.rst").tables[0].cells[6:]
    assert [(c.board, c.metric) for c in cells] == [(None, None)] * number
