"""Cells and headers: the smallest things that a guide says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.guide.model import CellKind, Value, release_of, row_unit, unmark, value_of
from lab.guide.read import raw_table
from lab.judge.labels import release_key


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16.24 (min 15.96, max 16.42)", Value(CellKind.RANGE, "16.24 (min 15.96, max 16.42)", 16.24, 15.96, 16.42)),
        ("5.0(MIN 4,MAX 6)", Value(CellKind.RANGE, "5.0(MIN 4,MAX 6)", 5.0, 4.0, 6.0)),
        ("5 (4, 6)", Value(CellKind.RANGE, "5 (4, 6)", 5.0, 4.0, 6.0)),
        ("0.00", Value(CellKind.VALUE, "0.00", 0.0)),
        ("-1.00", Value(CellKind.VALUE, "-1.00", -1.0)),
        ("1,234.5", Value(CellKind.VALUE, "1,234.5", 1234.5)),
        ("137", Value(CellKind.VALUE, "137", 137.0)),
        ("35%", Value(CellKind.VALUE, "35%", 35.0, unit="%")),
        ("886.84 MB/s", Value(CellKind.VALUE, "886.84 MB/s", 886.84, unit="MB/s")),
        ("16 s (min 15 s, max 17 s)", Value(CellKind.RANGE, "16 s (min 15 s, max 17 s)", 16.0, 15.0, 17.0, unit="s")),
        ("9.3 (8.9-9.5)", Value(CellKind.RANGE, "9.3 (8.9-9.5)", 9.3, 8.9, 9.5)),
        ("9.3 (8.9 – 9.5)", Value(CellKind.RANGE, "9.3 (8.9 – 9.5)", 9.3, 8.9, 9.5)),
        ("9.3 [8.9 .. 9.5]", Value(CellKind.RANGE, "9.3 [8.9 .. 9.5]", 9.3, 8.9, 9.5)),
        ("avg 9.3, min 8.9, max 9.5", Value(CellKind.RANGE, "avg 9.3, min 8.9, max 9.5", 9.3, 8.9, 9.5)),
        ("9 (min=8; max=10)", Value(CellKind.RANGE, "9 (min=8; max=10)", 9.0, 8.0, 10.0)),
        ("5 ± 2", Value(CellKind.RANGE, "5 ± 2", 5.0, 3.0, 7.0)),
        ("1.5 x 10^3", Value(CellKind.VALUE, "1.5 x 10^3", 1500.0)),
        ("33.7*", Value(CellKind.VALUE, "33.7", 33.7)),
        ("33.7^1", Value(CellKind.VALUE, "33.7", 33.7)),
        ("10^3", Value(CellKind.TEXT, "10^3")),
        ("**33.7**", Value(CellKind.VALUE, "33.7", 33.7)),
        ("33.7 [#tested]_", Value(CellKind.VALUE, "33.7", 33.7)),
        ("1\u202f234.5", Value(CellKind.VALUE, "1234.5", 1234.5)),
        ("\u22121.5", Value(CellKind.VALUE, "-1.5", -1.5)),
        ("approx. 5", Value(CellKind.APPROXIMATE, "approx. 5", 5.0)),
        ("9.3 (10-11)", Value(CellKind.TEXT, "9.3 (10-11)")),  # a bare range that is not around its number
        ("1/2/3", Value(CellKind.TEXT, "1/2/3")),
        ("1 234", Value(CellKind.TEXT, "1 234")),
        ("< 1", Value(CellKind.TEXT, "< 1")),
        ("33.7 (1)", Value(CellKind.TEXT, "33.7 (1)")),
        ("2A", Value(CellKind.TEXT, "2A")),
        ("~11.04", Value(CellKind.APPROXIMATE, "~11.04", 11.04)),
        ("n/a", Value(CellKind.NOT_AVAILABLE, "n/a")),
        ("N/A", Value(CellKind.NOT_AVAILABLE, "N/A")),
        (" ", Value(CellKind.EMPTY, "")),
        ("", Value(CellKind.EMPTY, "")),
        ("ov10635", Value(CellKind.TEXT, "ov10635")),
        ("Full normal boot time (~seconds)", Value(CellKind.TEXT, "Full normal boot time (~seconds)")),
        ("4k", Value(CellKind.TEXT, "4k")),
        ("nan", Value(CellKind.NOT_AVAILABLE, "nan")),
        ("infk", Value(CellKind.TEXT, "infk")),
        ("1.2.3", Value(CellKind.TEXT, "1.2.3")),
        ("5 (min 4)", Value(CellKind.TEXT, "5 (min 4)")),
    ],
)
def test_a_cell_is_what_it_says(text: str, value: Value) -> None:
    assert value_of(text) == value


@given(st.text())
def test_any_text_is_a_cell_and_keeps_its_text_but_for_marks(text: str) -> None:
    assert unmark(text).startswith(value_of(text).text)
    assert unmark(text) == text.strip() or not text.isalnum()


@given(st.decimals(min_value=0, max_value=10**9, places=2, allow_nan=False, allow_infinity=False))
def test_a_number_is_read_to_its_last_digit(number: object) -> None:
    assert value_of(f"{number:.2f}").number == float(f"{number:.2f}")


@pytest.mark.parametrize(
    ("header", "board", "metric", "unit"),
    [
        ("am62xx_sk-fs: perf", "am62xx_sk-fs", "perf", None),
        (
            "am62xx_sk-fs: Boot time in seconds: avg(min,max)",
            "am62xx_sk-fs",
            "Boot time in seconds: avg(min,max)",
            "seconds",
        ),
        ("am62xx_sk-fs: THROUGHPUT (Mbits/sec)", "am62xx_sk-fs", "THROUGHPUT (Mbits/sec)", "Mbits/sec"),
        ("am62xx_sk-fs: CPU Load % (LOCAL_CPU_UTIL)", "am62xx_sk-fs", "CPU Load % (LOCAL_CPU_UTIL)", "%"),
        ("x: UDP Datagram Size(bytes) (LOCAL_SEND_SIZE)", "x", "UDP Datagram Size(bytes) (LOCAL_SEND_SIZE)", "bytes"),
        ("am62xx_sk-fs: Packets Per Second (kPPS)", "am62xx_sk-fs", "Packets Per Second (kPPS)", "kPPS"),
        ("am62xx_sk-fs: Packet Loss %", "am62xx_sk-fs", "Packet Loss %", "%"),
        ("am62xx_sk-fs: throughput (KBytes/Sec)", "am62xx_sk-fs", "throughput (KBytes/Sec)", "KBytes/Sec"),
        ("am43xx-gpevm: boot time (sec)", "am43xx-gpevm", "boot time (sec)", "sec"),
        ("am43xx-gpevm: Rate (triangles/sec)", "am43xx-gpevm", "Rate (triangles/sec)", "triangles/sec"),
        ("am62xx_sk-fs: Score", "am62xx_sk-fs", "Score", None),
        ("am62xx_sk-fs", "am62xx_sk-fs", "", None),
        ("j721e-idk-gw", "j721e-idk-gw", "", None),
        ("am68_sk-fs - Throughput (MB/s)", "am68_sk-fs", "Throughput (MB/s)", "MB/s"),
        ("Throughput [MB/s] (am68_sk-fs)", "am68_sk-fs", "Throughput [MB/s]", "MB/s"),
        ("am68_sk-fs CPU Load, %", "am68_sk-fs", "CPU Load, %", "%"),
        ("aes256-cbc Throughput", None, "aes256-cbc Throughput", None),
        ("Power (mW)", None, "Power (mW)", "mW"),
        ("Total Resume Latency (ms)", None, "Total Resume Latency (ms)", "ms"),
        ("Note: see below", "Note", "see below", None),
        ("a note: see below", None, "a note: see below", None),
    ],
)
def test_a_header_splits_at_its_first_colon_and_blank(
    header: str, board: str | None, metric: str, unit: str | None
) -> None:
    column = raw_table.columns(["Key", header])[1]
    assert (column.board, column.metric, column.unit) == (board, metric, unit)


@pytest.mark.parametrize(
    ("header", "keys"),
    [
        (["Benchmarks", "am62xx_sk-fs: perf"], [True, False]),
        (["Algorithm", "Buffer Size (in bytes)", "am62xx_sk-fs: throughput (KBytes/Sec)"], [True, True, False]),
        (["Resolution", "Format", "am57xx-evm: Fps", "am57xx-evm: Sensor"], [True, True, False, False]),
        (["Rail name", "Rail voltage(V)", "Power (mW)"], [True, True, False]),
        (["Low Power Mode", "Total Resume Latency (ms)"], [True, False]),
        (["Algorithm", "Size (bytes)", "Accelerator (MB/s)", "ARM CE (MB/s)"], [True, True, False, False]),
        (["Algorithm", "Accelerator (%)", "ARM (%)"], [True, False, False]),
        (["File size (Mbytes)"], [True]),
        ([], []),
    ],
)
def test_the_columns_left_of_the_first_board_are_keys(header: list[str], keys: list[bool]) -> None:
    assert [column.is_key for column in raw_table.columns(header)] == keys


def test_a_board_that_another_table_names_is_known_alone() -> None:
    assert raw_table.columns(["Rail", "beagleplay"], {"beagleplay"})[1].board == "beagleplay"
    assert raw_table.columns(["Rail", "beagleplay"])[1].board is None


@pytest.mark.parametrize(
    ("row", "name", "unit"),
    [
        ("bw_pipe (MB/s)", "bw_pipe", "MB/s"),
        ("coremark-pro ()", "coremark-pro", None),
        ("af_unix_socket_stream_bandwidth (mb\\s)", "af_unix_socket_stream_bandwidth", "mb\\s"),
        ("64", "64", None),
        ("a (b) c", "a (b) c", None),
    ],
)
def test_a_row_may_name_its_unit(row: str, name: str, unit: str | None) -> None:
    assert row_unit(row) == (name, unit)


def test_the_release_is_found_in_titles_and_file_names() -> None:
    assert release_of("Linux 09.02.00 Performance Guide") == "09.02.00"
    assert release_of("am62x-11.01") == "11.01"
    assert release_of("Linux Performance Guide") is None
    assert sorted(["11.01", "9.2.1", "09.02.00", "10.00"], key=release_key) == ["09.02.00", "9.2.1", "10.00", "11.01"]
