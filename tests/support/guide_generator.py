"""Invented guides for hypothesis: what is in them is known, cell by cell, and so is what is wrong with them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, field, frozen
from hypothesis import strategies as st

from lab.guide.model import value_of
from support.guide_family import GuideText, TableText, write_rst
from support.guide_forms import cells_of

_NUMBER = re.compile(r"\d+\.\d+")

DEVICES: Mapping[str, Sequence[str]] = {
    "AM62x": ("am62xx_lp_sk-fs", "am62xx_sk-fs", "am62xxsip_sk-fs"),
    "AM62Px": ("am62pxx_sk-fs", "am62pxx_sk-se"),
    "J721E": ("j721e-idk-gw", "j721e-sk"),
    "AM64x": ("am64xx-evm", "am64xx-hsevm"),
    "AM437x": ("am43xx-gpevm",),
}
CORES = {"": "", "TwoCore": "twocore", "FourCore": "fourcore", " for Two Cores": "twocore", "EightCore": "eightcore"}
_WORKLOADS = ("cjpeg-rose7-preset", "core", "nnet_test", "sha-test", "zip-test")

Numbers = Callable[[float, float], str]


@frozen
class Generated:
    """A guide, and every result in it.

    Attributes:
        cells: (board, title, row, header without the board) -> text.
        faults: (rule, row) of each finding that it must have; none where it is sound.
    """

    text: GuideText
    boards: tuple[str, ...]
    cells: Mapping[tuple[str, str, str, str], str]
    faults: frozenset[tuple[str, str]] = field(factory=frozenset)


@frozen
class _Kind:
    """A kind of table: rows and the columns of each board, with the range of their sound numbers."""

    title: str
    chapter: tuple[str, ...]
    keys: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, float, float], ...]
    has_ranges: bool = False


def _kinds() -> list[_Kind]:
    system = "System Benchmarks"
    perf = lambda low, high: (("perf", low, high),)  # noqa: E731
    ops = [(f"lat_ops-{t}-{o} (ns)",) for t in ("int", "float") for o in ("add", "mul", "div")]
    kinds = [
        _Kind("LMBench Benchmarks", (system, "LMBench"), ("Benchmarks",), tuple(ops), perf(4, 5)),
        _Kind(
            "Linpack Benchmarks",
            (system, "Linpack"),
            ("Benchmarks",),
            (("linpack (Kflops)",),),
            perf(300_000, 400_000),
        ),
        _Kind(
            "Stream",
            (system, "Stream"),
            ("Benchmarks",),
            (("copy (MB/s)",), ("triad (MB/s)",)),
            perf(1500, 2500),
            True,
        ),
        _Kind(
            "Linux boot time MMCSD",
            ("Boot-time Measurement", "Boot media: MMCSD"),
            ("Boot Configuration",),
            (("Linux boot time from MMCSD with default rootfs",),),
            (("Boot time in seconds: avg(min,max)", 16, 18),),
            True,
        ),
        _Kind(
            "CPSW TCP Bidirectional Throughput",
            ("Ethernet", "CPSW Ethernet Driver"),
            ("Command Used",),
            (("netperf -H 192.168.0.1 -j -c -C -l 60 -t TCP_STREAM",),),
            (("THROUGHPUT (Mbits/sec)", 1100, 1500), ("CPU Load % (LOCAL_CPU_UTIL)", 40, 60)),
        ),
        _Kind(
            "OpenSSL Performance",
            ("CRYPTO Driver", "OpenSSL Performance"),
            ("Algorithm", "Buffer Size (in bytes)"),
            tuple((a, b) for a in ("aes-128-cbc", "sha256") for b in ("1024", "16384")),
            (("throughput (KBytes/Sec)", 100_000, 120_000),),
        ),
    ]
    rows = tuple((f"{workload} (workloads/)",) for workload in _WORKLOADS)
    for words in CORES:
        title = f"CoreMarkPro{words} Benchmarks" if not words.startswith(" ") else f"CoreMarkPro Benchmarks{words}"
        kinds.append(_Kind(title, (system, "CoreMarkPro"), ("Benchmarks",), rows, perf(10, 11)))
    return kinds


KINDS = tuple(_kinds())


@st.composite
def guides(draw: st.DrawFn, most_tables: int = 6) -> Generated:
    """A sound guide of one device, with each number between its bounds."""
    device = draw(st.sampled_from(sorted(DEVICES)))
    known = DEVICES[device]
    boards = known[: draw(st.integers(1, len(known)))]
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=most_tables, unique_by=_measures))
    source = draw(st.sampled_from(("inline", "before", "after", "rubric")))  # one way throughout a document
    tables, cells = [], {}
    for kind in sorted(kinds, key=KINDS.index):
        lines = [_line([*kind.keys, *(f"{board}: {name}" for board in boards for name, _, _ in kind.columns)])]
        for row in kind.rows:
            texts = []
            for board in boards:
                for name, low, high in kind.columns:
                    text = _number(draw, low, high, is_range=kind.has_ranges and draw(st.booleans()))
                    texts.append(text)
                    cells[board, kind.title, " ".join(row), name] = text
            lines.append(_line([*row, *texts]))
        tables.append(TableText(lines, kind.title, source, kind.chapter))
    return Generated(GuideText(f"Linux 11.01 Performance Guide of {device}", tables=tables), boards, cells)


def _measures(kind: _Kind) -> str:
    """What tells kinds apart: two titles for one number of cores are one table."""
    return kind.title.replace("TwoCore", "").replace(" for Two Cores", "") + str("Two" in kind.title)


def _number(draw: st.DrawFn, low: float, high: float, *, is_range: bool) -> str:
    value = draw(st.integers(round(low * 100), round(high * 100))) / 100
    if not is_range:
        return f"{value:.2f}"
    spread = draw(st.integers(1, 5)) / 100 * value
    return f"{value:.2f} (min {value - spread:.2f}, max {value + spread:.2f})"


def _line(cells: Sequence[str]) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


# --- flaws of form: the cells stay what they are, and one finding says what was mended -----------------------------------


def _table_of(rst: str, table: TableText) -> tuple[int, int, list[str]]:
    """First line of its directive, line after its rows, and all lines of the file."""
    lines = rst.split("\n")
    header = f":header: {table.lines[0]}"
    start = (
        next(i for i, line in enumerate(lines) if line.strip() == header and lines[i + 2].strip() == table.lines[1])
        - 1
    )
    return start, start + 3 + len(table.lines) - 1, lines


def no_blank_line(rst: str, table: TableText) -> str:
    """The rows follow the options directly."""
    start, _, lines = _table_of(rst, table)
    return "\n".join(lines[: start + 2] + lines[start + 3 :])


def quote_in_a_cell(rst: str, table: TableText) -> str:
    """The first row's name holds a quoted word."""
    start, _, lines = _table_of(rst, table)
    lines[start + 3] = lines[start + 3].replace('"', '"the "', 1).replace('"the "', '"the "odd" ', 1)
    return "\n".join(lines)


def no_last_quote(rst: str, table: TableText) -> str:
    """The last row lacks its last quote."""
    _, end, lines = _table_of(rst, table)
    lines[end - 1] = lines[end - 1].rstrip()[:-1]
    return "\n".join(lines)


def commas_at_the_end(rst: str, table: TableText) -> str:
    """Every row ends in a comma."""
    start, end, lines = _table_of(rst, table)
    lines[start + 3 : end] = [f"{line}," for line in lines[start + 3 : end]]
    return "\n".join(lines)


def header_on_two_lines(rst: str, table: TableText) -> str:
    """The header is broken after its first comma."""
    start, _, lines = _table_of(rst, table)
    first, _, rest = lines[start + 1].partition(',"')
    lines[start + 1] = f'{first},\n        "{rest}'
    return "\n".join(lines)


def rows_without_indent(rst: str, table: TableText) -> str:
    """The rows stand at the margin."""
    start, end, lines = _table_of(rst, table)
    lines[start + 3 : end] = [line.strip() for line in lines[start + 3 : end]]
    return "\n".join(lines)


def no_first_header(rst: str, table: TableText) -> str:
    """Nothing stands above the first column."""
    start, _, lines = _table_of(rst, table)
    lines[start + 1] = lines[start + 1].replace(f'"{cells_of(table)[0][0]}",', "", 1)
    return "\n".join(lines)


def another_spelling(rst: str, table: TableText) -> str:
    """This table spells its boards in capitals."""
    start, _, lines = _table_of(rst, table)
    for board in {cell.partition(": ")[0] for cell in cells_of(table)[0] if ": " in cell}:
        lines[start + 1] = lines[start + 1].replace(f'"{board}: ', f'"{board.upper()}: ')
    return "\n".join(lines)


FLAWS: Mapping[str, Callable[[str, TableText], str]] = {
    "no blank line": no_blank_line,
    "no last quote": no_last_quote,
    "commas at the end": commas_at_the_end,
    "rows without indent": rows_without_indent,
    "no first header": no_first_header,
    "another spelling": another_spelling,
}
HARMLESS: Mapping[str, Callable[[str, TableText], str]] = {"header on two lines": header_on_two_lines}


# --- faults of content: each has its one finding -------------------------------------------------------------------------


def with_cell(guide: Generated, title: str, row: int, column: int, text: str) -> Generated:
    """The guide with another text in one cell, counted from the table's first row and column."""
    tables = []
    for table in guide.text.tables:
        rows = cells_of(table)
        if table.title == title:
            rows[row + 1][column] = text
        tables.append(evolve(table, lines=[_line(cells) for cells in rows]))
    return evolve(guide, text=evolve(guide.text, tables=tables))


def dead_tcp(guide: Generated) -> tuple[Generated, str] | None:
    """The first board's TCP moves a tenth of a megabit."""
    title = "CPSW TCP Bidirectional Throughput"
    return _planted(guide, title, "0.10", "tcp-dead")


def average_outside(guide: Generated) -> tuple[Generated, str] | None:
    """The first cell's average lies below its range."""
    return _planted(guide, "Stream", "1500.00 (min 1600.00, max 1700.00)", "range-order")


def load_of_200(guide: Generated) -> tuple[Generated, str] | None:
    """The first board's load is 200 percent."""
    return _planted(guide, "CPSW TCP Bidirectional Throughput", "200.00", "cpu-load-range", column=2)


def _planted(guide: Generated, title: str, text: str, rule: str, column: int = 1) -> tuple[Generated, str] | None:
    if not any(table.title == title for table in guide.text.tables):
        return None
    return with_cell(guide, title, 0, column, text), rule


FAULTS = (dead_tcp, average_outside, load_of_200)


# --- the same boards in another release: nothing changed, or what was planted ---------------------------------------------

PROCESSOR = ("LMBench", "Linpack", "OpenSSL", "CoreMark")  # how the titles of what follows the clock begin
_RUN_TO_RUN = 0.015  # less than equal runs of any metric differ by, which is 2 % or more
_HIGHER_IS_BETTER = {kind.title: not kind.title.startswith(("LMBench", "Linux boot")) for kind in KINDS}


@st.composite
def measured_again(draw: st.DrawFn, guide: Generated, release: str = "12.00") -> Generated:
    """Another release in which nothing changed: what runs differ by, and ranges that are printed or not.

    A single number is anywhere in the range that was printed before.
    """

    def again(_board: str, _title: str, text: str) -> str:
        was = value_of(text)
        value = was.number or 0.0
        if was.low is not None and was.high is not None and draw(st.booleans()):
            return f"{draw(st.integers(math.ceil(100 * was.low), math.floor(100 * was.high))) / 100:.2f}"
        value *= 1 + draw(st.integers(-100, 100)) / 100 * _RUN_TO_RUN
        if was.low is None or was.high is None:
            return f"{value:.2f}"
        return f"{value:.2f} (min {value * 0.97:.2f}, max {value * 1.03:.2f})"

    return _changed(guide, release, again)


def slowed_down(guide: Generated, titles: Sequence[str], factor: float, boards: Sequence[str]) -> Generated:
    """The guide with the speed of some tables times a factor: rates times it, times divided by it; loads stay."""

    def slower(board: str, title: str, text: str) -> str:
        if title not in titles or board not in boards:
            return text
        by = factor if _HIGHER_IS_BETTER[title] else 1 / factor
        return _NUMBER.sub(lambda number: f"{float(number[0]) * by:.2f}", text)

    return _changed(guide, "", slower)


def _changed(guide: Generated, release: str, change: Callable[[str, str, str], str]) -> Generated:
    """The guide with other texts in the cells of results, loads left alone."""
    tables, cells = [], {}
    for table in guide.text.tables:
        header, *rows = cells_of(table)
        for row in rows:
            name = " ".join(cell for cell, title in zip(row, header, strict=True) if ": " not in title)
            for place, title in enumerate(header):
                board, colon, column = title.partition(": ")
                if not colon:
                    continue
                if "Load" not in column:
                    row[place] = change(board, table.title, row[place])
                cells[board, table.title, name, column] = row[place]
        tables.append(evolve(table, lines=[_line(row) for row in (header, *rows)]))
    title = guide.text.title.replace("11.01", release) if release else guide.text.title
    return evolve(guide, text=evolve(guide.text, title=title, tables=tables), cells=cells)


def rst(guide: Generated) -> str:
    """The guide as reStructuredText."""
    return write_rst(guide.text)
