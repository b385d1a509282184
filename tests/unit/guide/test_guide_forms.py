"""HTML, plain text, Markdown, tabs, branches: what each form has of its own."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab.cli import main
from lab.errors import ConfigurationError
from lab.guide import measurements
from lab.guide.model import CellKind
from lab.guide.read import directives, drawn_table, html, plain_text, reader

HEADER = "<tr><th>Benchmarks</th><th>am62xx_sk-fs: perf</th></tr>"


def page(body: str) -> str:
    return f"<!DOCTYPE html>\n<html><body><h1>Linux 11.01 Performance Guide</h1>{body}</body></html>"


def test_a_board_above_its_columns_is_the_board_of_each() -> None:
    text = page(
        '<table><caption>Table 2.1 T</caption><tr><th rowspan="2">Key</th><th colspan="2">am62xx_sk-fs</th>'
        '<th colspan="2">am62xx_lp_sk-fs</th></tr><tr><th>Score</th><th>Fps</th><th>Score</th><th>Fps</th></tr>'
        "<tr><td>a</td><td>1.00</td><td>2.00</td><td>3.00</td><td>4.00</td></tr></table>"
    )
    (table,) = reader.parse("g", text).tables
    assert table.title == "T"
    assert [(c.board, c.metric, c.number) for c in table.cells] == [
        ("am62xx_sk-fs", "Score", 1.0),
        ("am62xx_sk-fs", "Fps", 2.0),
        ("am62xx_lp_sk-fs", "Score", 3.0),
        ("am62xx_lp_sk-fs", "Fps", 4.0),
    ]


SPANNED = {
    "rst": """
+------+-------------+-------------+
| Key  | a1-fs       | b2-fs       |
|      +------+------+------+------+
|      | Fps  | Score| Fps  | Score|
+======+======+======+======+======+
| x    | 1    | 2    | 3    | 4    |
+------+------+------+------+------+
""",
    "plain text": """
+------+-------------+-------------+
| Key  | a1-fs       | b2-fs       |
|      +------+------+------+------+
|      | Fps  | Score| Fps  | Score|
|======|======|======|======|======|
| x    | 1    | 2    | 3    | 4    |
+------+------+------+------+------+
""",
    "html": page(
        "<table><tr><td rowspan=2>Key<td colspan=2>a1-fs<td colspan=2>b2-fs<tr><td>Fps<td>Score<td>Fps<td>Score"
        "<tr><td>x<td>1<td>2<td>3<td>4</table>"
    ),
    "markdown": "|Key|a1-fs||b2-fs||\n|---|---|---|---|---|\n||**Fps**|Score|Fps|Score|\n|`x`|1|2|**3**|4|\n",
    "csv": """
.. csv-table:: T
   :header-rows: 2

   Key,a1-fs,,b2-fs,
   ,Fps,Score,Fps,Score
   x,1,2,3,4
""",
}


@pytest.mark.parametrize("form", SPANNED)
def test_a_header_of_two_lines_names_board_and_metric_of_each_column(form: str) -> None:
    (table,) = reader.parse("g", f"G\n=\n{SPANNED[form]}" if form != "html" else SPANNED[form]).tables
    assert [(c.board, c.metric, c.row, c.number) for c in table.cells] == [
        ("a1-fs", "Fps", "x", 1), ("a1-fs", "Score", "x", 2), ("b2-fs", "Fps", "x", 3), ("b2-fs", "Score", "x", 4),
    ]  # fmt: skip


def test_a_cell_over_several_rows_is_a_key_of_each_and_a_number_over_several_boards_is_nobodys() -> None:
    header = "<tr><th>Algorithm<th>Buffer size<th>a1-fs: KB/s<th>b2-fs: KB/s"
    rows = "<tr><td rowspan=2>aes<td>64<td>1<td>2<tr><td>128<td>3<td>4<tr><td>des<td>64<td colspan=2>5"
    (table,) = reader.parse("g", page(f"<table>{header}{rows}</table>")).tables
    assert [(c.row, c.params["Buffer size"], c.board, c.number) for c in table.cells if c.column > 1] == [
        ("aes", "64", "a1-fs", 1), ("aes", "64", "b2-fs", 2), ("aes", "128", "a1-fs", 3), ("aes", "128", "b2-fs", 4),
        ("des", "64", None, 5),
    ]  # fmt: skip


@pytest.mark.parametrize(("second", "sections"), [("4k", ["Write", "Read"]), ("8k", [None, None])])
def test_a_text_across_a_table_tells_rows_of_one_name_apart(second: str, sections: list[str | None]) -> None:
    rows = f"<tr><th colspan=2>Write<tr><td>4k<td>1<tr><td colspan=2><b>Read</b><tr><td>{second}<td>2"
    (table,) = reader.parse(
        "g", page(f"<table><thead><tr><th>Size<th>a1-fs: MB/s</thead><tbody>{rows}</table>")
    ).tables
    results = [cell for cell in table.cells if cell.board]
    assert [(c.row, c.params.get("Section"), c.number) for c in results] == [
        ("4k", sections[0], 1), (second, sections[1], 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("title", "expected"), [("**Audio Capture**", "Audio Capture"), ("**Measured with care.**", "Chapter")]
)
def test_a_bold_line_above_a_table_is_its_title_and_a_bold_sentence_is_none(title: str, expected: str) -> None:
    rows = ".. csv-table::\n   :header: Key,a1-fs: Fps\n\n   x,1\n"
    bold = title.replace("**", "<b>", 1).replace("**", "</b>")
    html_page = page(f"<h2>Chapter</h2><p>{bold}</p><table><tr><th>Key<th>a1-fs: Fps<tr><td>x<td>1</table>")
    for text in (f"Chapter\n-------\n\n{title}\n\n{rows}", html_page):
        assert [table.title for table in reader.parse("g", text).tables] == [expected]


def test_marks_of_footnotes_and_of_emphasis_are_no_part_of_a_name_or_number() -> None:
    cells = "<tr><td><b>bw_pipe (MB/s)</b><sup>2</sup><td>5.25<sup>1</sup><td>10<sup>3</sup>"
    guide = reader.parse("g", page(f"<table><tr><th>Key<th>a1-fs: perf<sup>1</sup><th>b2-fs: perf{cells}</table>"))
    assert [(c.row, c.metric, c.number) for t in guide.tables for c in t.cells] == [
        ("bw_pipe (MB/s)", "perf", 5.25), ("bw_pipe (MB/s)", "perf", None),
    ]  # fmt: skip
    assert ["10^3" in part.reason for part in guide.unread] == [True]


def test_a_column_that_counts_the_rows_is_no_name_and_a_column_of_units_no_parameter() -> None:
    def table(*rows: str) -> str:
        body = "\n".join(f"   {row}" for row in rows)
        return f".. csv-table:: LMBench\n   :header: No.,Benchmarks,Unit,a1-fs: perf\n\n{body}\n"

    def names(text: str) -> list[tuple[str, str | None, float | None]]:
        readings = measurements.of_guide(reader.parse("g", text)).by_metric.values()
        return [(r.cell.row, r.cell.unit, r.number) for rows in readings for r in rows if not r.params.get("unit")]

    assert names(table("1,bw_pipe,MB/s,5", "2,bw_unix,MB/s,6")) == [("bw_pipe", "MB/s", 5), ("bw_unix", "MB/s", 6)]
    assert names(table("4,bw_pipe,MB/s,5", "2,bw_unix,MB/s,6")) == []  # it counts something else


@pytest.mark.parametrize(
    "text",
    [
        page(
            "<h2>C</h2><figure><figcaption>T</figcaption><table><tr><th>K<th>a1-fs: x<tr><td>r<td>1</table></figure>"
        ),
        '# C\n\n<p align="center"><b>T</b></p>\n\n|K|a1-fs: x|\n|---|---|\n|r|1|\n',
    ],
)
def test_a_caption_of_html_above_a_table_is_its_title(text: str) -> None:
    assert [table.title for table in reader.parse("g", text).tables] == ["T"]


def test_a_board_that_a_heading_names_is_that_of_a_table_that_names_none() -> None:
    def table(title: str, header: str, value: int) -> str:
        return f"{title}\n{'-' * len(title)}\n\n.. csv-table:: T\n   :header: Key,{header}\n\n   x,{value}\n\n"

    guide = reader.parse("g", table("One", "a1-fs: Fps", 1) + table("a1-fs", "Fps", 2) + table("b2-fs", "Fps", 3))
    assert [(c.board, c.number) for t in guide.tables for c in t.cells] == [("a1-fs", 1), ("a1-fs", 2), (None, 3)]


def test_what_navigates_a_page_is_no_part_of_the_guide() -> None:
    menu = "<ul><li>Some condition</li></ul>"
    text = page(
        f'<div role="navigation"><h2>Menu</h2>{menu}</div><h2>LMBench</h2><table>{HEADER}<tr><td>bw_pipe (MB/s)<td>5.00</tr>'
        f'</table><div class="sphinxsidebar">{menu}</div><nav>{menu}</nav><script>"<table><tr><td>1</table>"</script>'
    )
    guide = reader.parse("g", text)
    assert [(t.chapter, t.title, [c.number for c in t.cells]) for t in guide.tables] == [
        (("LMBench",), "LMBench", [5.0])
    ]
    assert guide.conditions == ()


def test_html_without_end_tags_is_read() -> None:
    text = page(f"<h2>LMBench<table>{HEADER}<tr><td>bw_pipe (MB/s)<td>5.00<tr><td>bw_unix (MB/s)<td>6.00")
    assert [c.number for t in reader.parse("g", text).tables for c in t.cells] == [5.0, 6.0]


def test_a_row_that_a_page_fills_at_its_end_is_short_again() -> None:
    header = "| Key | a1-fs: Score | b1-fs: Score |\n| --- | --- | --- |\n"
    guide = reader.parse("g", f"# G\n\n{header}| a | 1.00 | 2.00 |\n| b | 3.00 |  |\n")
    assert [c.kind for t in guide.tables for c in t.cells] == [CellKind.VALUE, CellKind.VALUE, CellKind.UNATTRIBUTED]
    hole = reader.parse("g", f"# G\n\n{header}| a |  | 2.00 |\n| b | 3.00 |  |\n")
    assert [c.board for t in hole.tables for c in t.cells if c.number == 3.0] == ["a1-fs"]


def test_words_that_a_narrow_column_cut_are_whole_again() -> None:
    drawn = """\
+---------+---------+
| Frame S | am62xx_ |
| ize(byt | lp_sk-  |
| es)     | fs: UDP |
|         | Datagra |
|         | m Size( |
|         | bytes)  |
|=========|=========|
| 64      | 705595. |
|         | 00 (min |
|         | 1, max  |
|         | 2)      |
+---------+---------+"""
    grid = drawn_table.parse(list(enumerate(drawn.split("\n"))), {"udp", "datagram"})
    assert grid.header == ("Frame Size(bytes)", "am62xx_lp_sk-fs: UDP Datagram Size(bytes)")
    assert grid.rows[0].cells == ("64", "705595.00 (min 1, max 2)")


DRAWN = """\
Dhrystone
---------

Execute the benchmark with the following:

   runDhrystone

%s
+----------------------+--------------------+
| Benchmarks           | am62xx_sk-fs: perf |
|======================|====================|
| cpu_clock (MHz)      | 1250               |
+----------------------+--------------------+
"""


@pytest.mark.parametrize("between", ["", "3. Format - S16_LE\n\n4. Period size - 64\n"])
def test_neither_a_command_nor_an_item_of_a_list_is_the_title_of_the_table_below(between: str) -> None:
    assert [table.title for table in reader.parse("g", DRAWN % between).tables] == ["Dhrystone"]


def test_each_form_is_known_by_its_tables() -> None:
    assert plain_text.form("+--+\n| a |\n|==|\n| b |") == "plain text"
    assert plain_text.form("| a | b |\n|---|:-:|\n| 1 | 2 |") == "markdown"
    assert plain_text.form("a\tb\nc\td\n") == "tab-separated"
    assert plain_text.form("\tnetperf -H\n\tnetserver\n") is None
    assert html.looks_like("<!-- saved from url=(0014)about:internet -->\n<html lang='en'>")
    assert not html.looks_like("a < b and <table> in prose")


BRANCHED = """\
T
====

.. |__DEVICE__| replace:: am62xx_sk-fs

.. ifconfig:: CONFIG_part in ('AM62X')

   .. csv-table:: Linpack
       :header: "Benchmarks","|__DEVICE__|: perf"

       "linpack (Kflops)","300.00"

.. ifconfig:: CONFIG_part in ('AM64X', 'AM65X')

   .. csv-table:: Linpack
       :header: "Benchmarks","|__BOARD__|: perf"

       "linpack (Kflops)","400.00"
"""


def test_branches_are_chosen_by_what_is_defined() -> None:
    one = reader.parse("g", BRANCHED, {"CONFIG_part": "am62x"})
    assert [(c.board, c.number) for t in one.tables for c in t.cells] == [("am62xx_sk-fs", 300.0)]
    other = reader.parse("g", BRANCHED, {"CONFIG_part": "AM65X", "__BOARD__": "am654x-evm"})
    assert [(c.board, c.number) for t in other.tables for c in t.cells] == [("am654x-evm", 400.0)]
    assert other.repairs == ()


def test_branches_that_nobody_chose_are_all_read_and_it_is_said() -> None:
    guide = reader.parse("g", BRANCHED)
    assert [(c.board, c.number) for t in guide.tables for c in t.cells] == [("am62xx_sk-fs", 300.0), (None, 400.0)]
    assert ["--define CONFIG_part=VALUE" in part.reason for part in guide.repairs] == [True, True]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("CONFIG_part in ('AM62X', 'AM64X')", True),
        ("CONFIG_part == 'am64x'", False),
        ("CONFIG_part not in ('AM64X')", True),
        ("not CONFIG_part == 'AM62X'", False),
        ("CONFIG_part == 'AM62X' or CONFIG_sdk == 'RT'", True),
        ("CONFIG_part == 'AM64X' and CONFIG_sdk == 'RT'", False),
        ("CONFIG_part == 'AM62X' and CONFIG_sdk == 'RT'", None),
        ("CONFIG_sdk", None),
        ("CONFIG_part", True),
        ("__import__('os').abort()", None),
        ("(", None),
        ("a" * 5, None),
        ("not " * 2000 + "a", None),
    ],
)
def test_a_condition_is_decided_without_running_it(condition: str, expected: bool | None) -> None:
    assert directives.holds(condition, {"CONFIG_part": "AM62X"}) is expected


@pytest.mark.parametrize("word", ["read", "check"])
def test_a_guide_without_a_number_is_never_fine(word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "guide.md"
    path.write_text("# Performance Guide\n\n| a | b |\n|---|---|\n| c | d |\n")
    assert main(["guide", word, str(path)]) != 0
    assert "have no number" in capsys.readouterr().err


def test_numbers_without_a_metric_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "guide.md"
    path.write_text("# G\n\n| Key | a1-fs: Bogons |\n|---|---|\n| x | 7.00 |\n")
    assert main(["guide", "read", "--unknown", str(path)]) == 0
    out = capsys.readouterr().out
    assert not missing_facts(out, "1 of 1 numbers", "no metric")
    assert "x | a1-fs: Bogons: 7.00" in out


def test_a_mistaken_define_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.rst").write_text(BRANCHED)
    assert main(["guide", "read", "--define", "AM62X", str(tmp_path / "g.rst")]) != 0
    assert not missing_facts(capsys.readouterr().err, "--define AM62X", "NAME=VALUE")


@pytest.mark.parametrize(
    ("title", "header", "row", "metric", "params"),
    [
        ("CPSW2g UDP Egress Throughput (0% loss)", "Frame Size(bytes)", "64", "ethernet.udp.throughput", {"loss": "0 loss", "direction": "egress", "port": "cpsw", "frame_bytes": "64"}),
        ("UDP Ingress Throughput (possible loss)", "UDP Datagram Size(bytes)", "18", "ethernet.udp.throughput", {"loss": "possible loss", "direction": "ingress", "datagram_bytes": "18"}),
    ],
)  # fmt: skip
def test_udp_tables_of_other_spellings_have_their_metric(
    title: str, header: str, row: str, metric: str, params: dict[str, str]
) -> None:
    from lab.guide import measurements  # noqa: PLC0415

    text = (
        f"# G\n\nTable: {title}\n\n| {header} | am62xx_sk-fs: THROUGHPUT (Mbits/sec) |\n|---|---|\n| {row} | 7.00 |\n"
    )
    (r,) = measurements.of_guide(reader.parse("g", text)).readings
    assert (r.metric, dict(r.params)) == (metric, params)


@pytest.mark.parametrize(
    ("title", "header", "row", "params"),
    [
        ("Cyclictest", "am62xx_sk-fs:per-core", "Max Latency (us)", {"statistic": "max", "scope": "per-core"}),
        ("Cyclictest Latency", "am62xx_sk-fs: perf", "cyclictest-average (us)", {"statistic": "avg"}),
        ("Cyclictest", "am62xx_sk-fs: Maximum Latency (us)", "stress-ng", {"statistic": "max", "case": "stress-ng"}),
    ],
)
def test_latencies_of_real_time_guides_have_their_metric(
    title: str, header: str, row: str, params: dict[str, str]
) -> None:
    from lab.guide import measurements  # noqa: PLC0415

    text = f"# G\n\nTable: {title}\n\n| Benchmarks | {header} |\n|---|---|\n| {row} | 7.00 |\n"
    (r,) = measurements.of_guide(reader.parse("g", text)).readings
    assert (r.metric, r.board) == ("cyclictest.latency", "am62xx_sk-fs")
    assert params.items() <= dict(r.params).items()


def test_io_only_with_ddr_is_a_mode_of_its_own() -> None:
    from lab.guide import measurements  # noqa: PLC0415

    tables = "".join(
        f"\n\nTable: {mode} Power Performance\n\n| Rail name | Rail voltage(V) | Power (mW) |\n|---|---|---|\n| vdd_core | 0.85 | 7.00 |\n"
        for mode in ("I/O Only", "I/O Only + DDR", "RTC + I/O + DDR")
    )
    readings = [r for r in measurements.of_guide(reader.parse("g", f"# G{tables}")).readings if r.metric]
    assert [r.params["mode"] for r in readings] == ["i/oonly", "i/oonly+ddr", "rtc+i/o+ddr"]


def test_a_page_that_is_no_guide_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"no table"):
        reader.parse("g", page("<p>Nothing here</p>"))


def test_a_body_that_has_a_sidebar_is_no_sidebar() -> None:
    for tag in ('<body class="sidebar-visible">', '<div class="sidebar-layout">'):
        text = f"<html>{tag}<h1>LMBench</h1><table>{HEADER}<tr><td>bw_pipe (MB/s)<td>5.00</table></html>"
        assert [c.number for t in reader.parse("g", text).tables for c in t.cells] == [5.0]


def test_markdown_escapes_are_undone() -> None:
    text = "# LMBench\n\n| Benchmarks | am62xx\\_lp\\_sk-fs: perf |\n|:--|--:|\n| bw\\_pipe (MB/s) | 5.00 |\n\n  : LMBench Benchmarks\n"
    (table,) = reader.parse("g", text).tables
    assert [(t.row, t.board, t.number) for t in table.cells] == [("bw_pipe (MB/s)", "am62xx_lp_sk-fs", 5.0)]
    assert table.title == "LMBench Benchmarks"


def test_nothing_may_stand_above_the_first_column_of_tabs() -> None:
    (table,) = reader.parse("g", "LMBench\n\tam62xx_sk-fs: perf\nbw_pipe (MB/s)\t5.00\nbw_unix (MB/s)\t6.00\n").tables
    assert [(c.row, c.board, c.number) for c in table.cells] == [
        ("bw_pipe (MB/s)", "am62xx_sk-fs", 5.0),
        ("bw_unix (MB/s)", "am62xx_sk-fs", 6.0),
    ]
    assert table.title == "LMBench"


def test_a_blank_before_the_colon_does_not_hide_a_board() -> None:
    (table,) = reader.parse("g", "# G\n\n| Benchmarks | am62xx_sk-fs : perf |\n|---|---|\n| linpack | 5.00 |\n").tables
    assert [c.board for c in table.cells] == ["am62xx_sk-fs"]


def test_a_cause_is_one_line_of_a_check_and_said_nowhere_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.rst").write_text(BRANCHED + "\n.. include:: a.rst\n\n.. include:: b.rst\n")
    assert main(["guide", "check", str(tmp_path / "g.rst")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("is not followed") == 1
    assert not missing_facts(out, "1 more", "last in line")
    assert main(["guide", "read", str(tmp_path / "g.rst")]) == 0
    assert capsys.readouterr().err.count("is not followed") == 1


def test_a_complaint_about_prose_that_costs_nothing_is_not_told() -> None:
    prose = "\n\nUnexpected\n   indentation\n here.\n"
    guide = reader.parse("g", BRANCHED + prose, {"CONFIG_part": "AM62X"})
    assert (guide.unread, guide.repairs) == ((), ())


BOMBS = {
    "one cell of 100000 lines": "+--+\n" + "| a |\n" * 100_000 + "|==|\n",
    "a border that is none": "|" + "-" * 100_000 + "x\n|---|\n",
    "blank lines": "\n" * 300_000 + "|==|\n",
    "headings": "a\n==\n" * 30_000 + "\n|=|\n",
    "nested": "<html>" + "<div>" * 50_000 + "<table><tr><td>1",
    "spans": "<html><table><thead>" + ("<tr>" + "<th colspan=64 rowspan=64>a" * 60) * 60,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_of_these_forms_does_not_go_off(bomb: str) -> None:
    with contextlib.suppress(ConfigurationError):
        reader.parse("g", BOMBS[bomb])
