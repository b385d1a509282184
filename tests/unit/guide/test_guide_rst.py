"""Guides in reStructuredText: what the vendor writes, in the ways it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.facts import missing_facts
from support.guide_family import GuideText, TableText, mini, table, write_rst

from lab.guide import measurements
from lab.guide.check.findings import run_rules
from lab.guide.model import CellKind, Guide
from lab.guide.read import reader

PERF = TableText(['"Benchmarks","am62xx_sk-fs: perf"', '"bw_pipe (MB/s)","507.32"'])


def read(folder: Path, text: str, name: str = "guide.rst") -> Guide:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return reader.read(path)


def titles(guide: Guide) -> list[tuple[str, str]]:
    return [(one.title, one.title_source) for one in guide.tables]


def captioned(*sources: str) -> str:
    tables = [TableText(PERF.lines, f"Title {n}", source, ("Chapter",)) for n, source in enumerate(sources)]
    return write_rst(GuideText("Linux 10.00 Performance Guide", tables=tables))


@pytest.mark.parametrize("source", ["inline", "before", "after"])
def test_captions_all_go_one_way(tmp_path: Path, source: str) -> None:
    guide = read(tmp_path, captioned(source, source, source))
    assert titles(guide) == [("Title 0", source), ("Title 1", source), ("Title 2", source)]


def test_a_caption_between_two_tables_follows_the_others_of_the_document(tmp_path: Path) -> None:
    untitled = TableText(PERF.lines, "", "inherited", ("Performance (Fps)",))
    after = TableText(PERF.lines, "GLBenchmark", "after", ("Performance (Fps)",))
    guide = read(tmp_path, write_rst(GuideText("Linux Performance Guide", tables=[untitled, after])))
    assert titles(guide) == [("Performance (Fps)", "inherited"), ("GLBenchmark", "after")]


def test_an_untitled_table_inherits_the_heading_that_is_no_board(tmp_path: Path) -> None:
    bare = TableText(PERF.lines, "", "inherited", ("EMMC Driver", "AM62XX-SK"))
    rubric = TableText(PERF.lines, "UBIFS", "rubric", ("Linux OSPI Flash Driver", "AM62XX-SK"))
    guide = read(tmp_path, write_rst(GuideText("Linux 9.0 Performance Guide", tables=[bare, rubric])))
    assert titles(guide) == [("EMMC Driver", "inherited"), ("UBIFS", "inherited")]
    assert guide.tables[0].chapter == ("EMMC Driver", "AM62XX-SK")


def test_a_rubric_ends_with_its_section(tmp_path: Path) -> None:
    rubric = TableText(PERF.lines, "UBIFS", "rubric", ("OSPI", "AM62XX-SK"))
    later = TableText(PERF.lines, "", "inherited", ("EMMC Driver",))
    guide = read(tmp_path, write_rst(GuideText("Guide", tables=[rubric, later])))
    assert titles(guide)[1] == ("EMMC Driver", "inherited")


def test_the_title_and_the_front_matter_are_no_chapters(tmp_path: Path) -> None:
    text = """
#################################
 Linux 12.01.00 Performance Guide
#################################

*****************
About This Manual
*****************

System Benchmarks
-------------------

LMBench
^^^^^^^

.. csv-table:: LMBench Benchmarks
    :header: "Benchmarks","am62xx_sk-fs: perf"

    "bw_pipe (mb/s)","507.32 (min 500.00, max 510.00)"
"""
    guide = read(tmp_path, text)
    assert guide.release == "12.01.00"
    assert guide.tables[0].chapter == ("System Benchmarks", "LMBench")


def test_a_cell_knows_its_place(tmp_path: Path) -> None:
    text = mini(table("Frame Size(bytes),am62xx_sk-fs: THROUGHPUT (Mbits/sec)", "64,40.95", "128,89.57", title="UDP"))
    guide = read(tmp_path, text)
    cell = guide.tables[0].cells[1]
    assert (cell.row, cell.board, cell.metric, cell.unit) == (
        "128",
        "am62xx_sk-fs",
        "THROUGHPUT (Mbits/sec)",
        "Mbits/sec",
    )
    assert cell.params == {"Frame Size(bytes)": "128"}
    assert text.split("\n")[cell.line - 1].strip() == '"128","89.57"'
    assert text.split("\n")[guide.tables[0].line - 1] == ".. csv-table:: UDP"


def test_the_unit_of_a_perf_column_is_in_the_row(tmp_path: Path) -> None:
    cell = read(tmp_path, mini(PERF)).tables[0].cells[0]
    assert (cell.row, cell.unit) == ("bw_pipe (MB/s)", "MB/s")


def test_indents_blanks_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    text = (
        "Guide\r\n=====\r\n\r\n.. csv-table:: LPM Resume Latency Performance\r\n"
        '     :header: "Low Power Mode", "Total Resume Latency (ms)"   \r\n     :widths: 20, 30\r\n\r\n'
        '     "Deep Sleep", "137.03"  \r\n\r\n     "MCU Only",  "86.12"\r\n'
    )
    guide = read(tmp_path, text)
    assert [(c.row, c.number, c.line) for c in guide.tables[0].cells] == [
        ("Deep Sleep", 137.03, 8),
        ("MCU Only", 86.12, 10),
    ]
    assert guide.unread == ()


def test_a_table_may_take_its_header_from_its_first_row(tmp_path: Path) -> None:
    text = 'Guide\n=====\n\n.. csv-table:: T\n   :header-rows: 1\n\n   "Benchmark","am62xx_sk-fs: Score"\n   "Glmark2-DRM","61.00"\n'
    guide = read(tmp_path, text)
    assert guide.tables[0].header == ("Benchmark", "am62xx_sk-fs: Score")
    assert [c.number for c in guide.tables[0].cells] == [61.0]


def test_other_delimiters_and_cells_over_two_lines_are_read(tmp_path: Path) -> None:
    text = (
        "Guide\n=====\n\n.. csv-table:: T\n   :header: 'Command Used';'am62xx_sk-fs: Score'\n   :delim: ;\n   :quote: '\n\n"
        "   'netperf;\n   netserver';'61.00'\n   'b';'62.00'\n"
    )
    guide = read(tmp_path, text)
    assert [(c.row.split(), c.number) for c in guide.tables[0].cells] == [
        (["netperf;", "netserver"], 61.0),
        (["b"], 62.0),
    ]


GRID = """
Guide
=====

EMMC
----

+-------------+------------------------------+
| Buffer size | am62xx_sk-fs: Speed (MB/sec) |
+=============+==============================+
| 4k          | 5.32                         |
+-------------+------------------------------+
| 1m          | 44.60 (min 44.00, max 45.00) |
+-------------+------------------------------+

.. table:: Simple

   ==========  =====================
   Benchmark   am62xx_sk-fs: Score
   ==========  =====================
   DRM         61.00
   Wayland     217.00
   ==========  =====================

.. list-table:: List
   :header-rows: 1

   * - Benchmark
     - am62xx_sk-fs: Fps
   * - trex
     - 2.25
"""


def test_grid_simple_and_list_tables_are_read_too(tmp_path: Path) -> None:
    guide = read(tmp_path, GRID)
    assert titles(guide) == [("EMMC", "inherited"), ("Simple", "inline"), ("List", "inline")]
    assert [[(c.row, c.board, c.number) for c in one.cells] for one in guide.tables] == [
        [("4k", "am62xx_sk-fs", 5.32), ("1m", "am62xx_sk-fs", 44.6)],
        [("DRM", "am62xx_sk-fs", 61.0), ("Wayland", "am62xx_sk-fs", 217.0)],
        [("trex", "am62xx_sk-fs", 2.25)],
    ]


def test_the_table_of_modules_gives_the_clocks(tmp_path: Path) -> None:
    modules = [
        ("AM62x SK", "AM62x Starter Kit with ARM running at 1.4GHz, DDR data rate 1600 MT/S"),
        ("AM65x EVM", "AM65x Evaluation Module rev 1.0 with ARM running at 800MHz"),
        ("Cable", "A cable"),
    ]
    guide = read(tmp_path, mini(PERF, modules=modules))
    assert [(m.name, m.clock_mhz, m.clock_step_mhz) for m in guide.modules] == [
        ("AM62x SK", 1400.0, 100.0),
        ("AM65x EVM", 800.0, 1.0),
        ("Cable", None, 0.0),
    ]
    assert len(guide.tables) == 1


@pytest.mark.parametrize(
    "around",
    [
        ".. ifconfig:: CONFIG_part_variant in ('AM62X')\n\n{}",
        ".. tabs::\n\n   .. tab:: One\n\n{}",
        ".. only:: html\n\n{}",
        ".. note::\n\n{}",
        ".. some-directive-of-the-future:: with arguments\n   :option: x\n\n{}",
        "- a list\n\n{}",
        "Text:\n\n{}",
    ],
)
def test_a_table_inside_something_is_read(tmp_path: Path, around: str) -> None:
    indent = "      " if "tabs" in around else "  " if around.startswith("-") else "   "
    inside = "\n".join(
        indent + line for line in [".. csv-table:: T", '   :header: "K","am62xx_sk-fs: Score"', "", '   "a","1.00"']
    )
    text = "Guide\n=====\n\n" + around.format(inside) + "\n"
    guide = read(tmp_path, text)
    assert [(c.row, c.number) for c in guide.tables[0].cells] == [("a", 1.0)]
    assert text.split("\n")[guide.tables[0].cells[0].line - 1].strip() == '"a","1.00"'


def test_headings_inside_a_container_are_chapters(tmp_path: Path) -> None:
    text = """
Guide
=====

.. ifconfig:: CONFIG_part_variant in ('AM62X')

   EMMC Driver
   -----------

   .. csv-table::
      :header: "K","am62xx_sk-fs: Score"

      "a","1.00"
"""
    assert read(tmp_path, text).tables[0].title == "EMMC Driver"


def test_roles_substitutions_and_targets_are_harmless(tmp_path: Path) -> None:
    text = (
        ".. include:: <isonum.txt>\n.. _guide: http://example.invalid/\n.. |x| replace:: y\n\nGuide\n=====\n\n"
        "CoreMark\\ |reg|-Pro and :command:`lat_mem_rd` and :unknown-role:`this <that>` and `unclosed\n\n"
        ":ref:`The <target>` chapter\n---------------------------\n\n"
        + "\n".join(write_rst(GuideText("", tables=[PERF])).split("\n")[3:])
    )
    guide = read(tmp_path, text)
    assert [c.number for c in guide.tables[0].cells] == [507.32]
    assert guide.unread == ()


def test_a_list_after_tables_states_the_conditions(tmp_path: Path) -> None:
    text = write_rst(
        GuideText("Guide", tables=[PERF, PERF], conditions=[(2, "SanDisk 8GB MicroSDHC Class 10 Memory Card")])
    )
    (condition,) = read(tmp_path, text).conditions
    assert (condition.text, condition.after_table) == ("SanDisk 8GB MicroSDHC Class 10 Memory Card", 2)


def test_identifiers_are_no_numbers(tmp_path: Path) -> None:
    text = mini(table("Benchmark,am43xx-gpevm: Test Number,am43xx-gpevm: Fps", "Egypt,2500005.00,4.50"))
    identifier, fps = read(tmp_path, text).tables[0].cells
    assert (identifier.kind, identifier.number, identifier.value.text) == (CellKind.IDENTIFIER, None, "2500005.00")
    assert (fps.kind, fps.number) == (CellKind.VALUE, 4.5)


def _grid(*rows: str, overrun: int = 0) -> str:
    cells = [[cell.strip() for cell in row.split(",")] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    border = "+" + "+".join("-" * (width + 2) for width in (*widths[:-1], widths[-1] - overrun)) + "+"
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    return "\n".join(["", *(f"{border}\n{line}" for line in lines), border, ""])


BOLD = ("**Benchmarks**,**a1-fs: perf**,**b2-fs: perf**", "lat_pipe (us),11.5,12.5", "**bw_pipe (MB/s)**,620,**630**")


@pytest.mark.parametrize("overrun", [0, 3])
def test_a_bold_first_row_of_a_drawn_table_is_its_header(overrun: int) -> None:
    guide = reader.parse("guide.rst", f"Guide\n=====\n{_grid(*BOLD, overrun=overrun)}")
    (grid,) = guide.tables
    assert [(c.row, c.board, c.metric, c.number) for c in grid.cells] == [
        ("lat_pipe (us)", "a1-fs", "perf", 11.5),
        ("lat_pipe (us)", "b2-fs", "perf", 12.5),
        ("bw_pipe (MB/s)", "a1-fs", "perf", 620),
        ("bw_pipe (MB/s)", "b2-fs", "perf", 630),
    ]
    assert guide.unread == ()
    assert [missing_facts(repair.reason, "drawn table", "borders") for repair in guide.repairs] == [[]] * bool(overrun)


@pytest.mark.parametrize("directive", ["", ".. table:: LMBench\n\n"])
def test_a_bar_beside_its_border_ends_a_cell_that_docutils_takes_for_a_spanning_one(directive: str) -> None:
    border = "+---------------+---------------+---------------+"
    rows = (
        "| **Benchmarks** | **a1-fs: perf** | **b2-fs: perf**|",
        "| lat_pipe (us) | 11.5          | 12.5          |",
        "| bw_pipe of 1mb (MB/s) | 620   | 630           |",
    )
    grid = "\n".join([*(f"{border}\n{row}" for row in rows), border])
    grid = grid if not directive else directive + "\n".join(f"   {line}" for line in grid.split("\n"))
    guide = reader.parse("guide.rst", f"Guide\n=====\n\n{grid}\n\nBelow.\n")
    (table,) = guide.tables
    assert [(c.row, c.board, c.number, c.line) for c in table.cells] == [
        ("lat_pipe (us)", "a1-fs", 11.5, table.line + 3),
        ("lat_pipe (us)", "b2-fs", 12.5, table.line + 3),
        ("bw_pipe of 1mb (MB/s)", "a1-fs", 620, table.line + 5),
        ("bw_pipe of 1mb (MB/s)", "b2-fs", 630, table.line + 5),
    ]
    assert table.title == ("LMBench" if directive else "Guide")
    (repair,) = guide.repairs
    assert not missing_facts(repair.reason, "drawn table", "borders")
    assert guide.unread == ()


def test_a_text_row_above_numbers_is_a_header_and_one_among_numbers_is_none() -> None:
    guide = reader.parse("guide.rst", f"Guide\n=====\n{_grid('Benchmarks,perf', 'lat_pipe (us),11.5')}")
    assert [(c.row, c.metric, c.number) for c in guide.tables[0].cells] == [("lat_pipe (us)", "perf", 11.5)]
    guide = reader.parse("guide.rst", f"Guide\n=====\n{_grid('lat_pipe (us),11.5', 'lat_sem (us),3.5')}")
    assert {c.metric for c in guide.tables[0].cells} == {None}
    (part,) = guide.unread
    assert not missing_facts(part.reason, "no header", "2 rows")
    assert not [f for f in run_rules(measurements.of_guide(guide)) if f.rule.id == "overlong-row"]


def test_a_grid_that_runs_over_its_borders_with_other_numbers_of_cells_is_not_read() -> None:
    grid = _grid(*BOLD, overrun=3).replace("| 12.5", "  12.5")
    guide = reader.parse("guide.rst", f"Guide\n=====\n{grid}{_grid(*BOLD)}")
    assert len(guide.tables) == 1
    assert [part.reason for part in guide.unread] == ["Malformed table"]


def test_a_heading_that_skips_a_level_is_a_heading() -> None:
    rows = '.. csv-table::\n    :header: "Benchmarks","a1-fs: perf"\n\n    "lat_pipe (us)","11.5"\n'
    headings = (("One", "-"), ("Two", "~"), ("Three", "^"), ("Four", "-"), ("Skips", "^"), ("Five", "~"))
    sections = (f"{text}\n{len(text) * mark}\n\n{rows}" for text, mark in headings)
    guide = reader.parse("guide.rst", "\n".join(["Performance Guide", 17 * "=", "", *sections]))
    assert [one.chapter for one in guide.tables] == [
        ("One",),
        ("One", "Two"),
        ("One", "Two", "Three"),
        ("Four",),
        ("Four", "Skips"),
        ("Four", "Five"),
    ]
    assert guide.unread == ()
