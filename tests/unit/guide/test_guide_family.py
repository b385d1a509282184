"""The five guides of the family: every table, every cell, and what the vendor's tool did to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from support import guide_family

from lab.guide.check.findings import run_rules
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import CellKind, Guide
from lab.guide.read import reader
from lab.guide.rulebook import Severity
from lab.guide.write import export

# Counted in the files without this reader: lines that begin with a quoted cell inside a csv-table, and the cells after
# the first of each; in the rendered text the lines that are a number with two decimals, and the second key of OpenSSL.
GOLDEN = {
    "am62x-11.01.rst": (55, 412, 1549, 24),
    "am62x-09.02.rst": (33, 324, 1104, 5),
    "am437x.rst": (22, 185, 257, 0),
    "am62ax-09.02.rst": (15, 232, 310, 0),
    "am65x-09.03-rt.txt": (18, None, 353, 0),
}
SHORT_ROWS = {
    "am62x-11.01.rst": {
        "GFXBench 3.x gl_manhattan_off": 2,
        "GFXBench 3.x gl_trex_off": 2,
        "Glmark2-Wayland 1920x1080": 2,
        "1518": 18,
    },
    "am62x-09.02.rst": {"Glmark2-Wayland 1920x1080": 2, "aes256": 3},
}


@pytest.mark.parametrize("name", guide_family.NAMES)
def test_every_table_and_cell_is_read(guides: Mapping[str, Guide], name: str) -> None:
    guide = guides[name]
    tables, rows, cells, unattributed = GOLDEN[name]
    assert len(guide.tables) == tables
    assert sum(len(one.cells) for one in guide.tables) == cells
    assert sum(c.kind is CellKind.UNATTRIBUTED for one in guide.tables for c in one.cells) == unattributed
    assert rows is None or len({(c.table, c.line) for one in guide.tables for c in one.cells}) == rows
    assert guide.unread == ()


@pytest.mark.parametrize("name", guide_family.NAMES)
def test_every_cell_is_in_the_line_that_it_names(guides: Mapping[str, Guide], name: str) -> None:
    guide = guides[name]
    with open(guide.path, encoding="utf-8") as file:  # noqa: PTH123 - the path may be the originals'
        lines = file.read().split("\n")
    for one in guide.tables:
        assert ("csv-table" if guide.format == "rst" else one.title) in lines[one.line - 1]
        for cell in one.cells:
            assert cell.row in lines[cell.line - 1]
            if guide.format == "rst":
                assert f'"{cell.value.text}"' in lines[cell.line - 1] or not cell.value.text


def test_short_rows_are_unattributed_and_nothing_else_is(guides: Mapping[str, Guide]) -> None:
    for name, guide in guides.items():
        loose = Counter(c.row for one in guide.tables for c in one.cells if c.kind is CellKind.UNATTRIBUTED)
        assert loose == SHORT_ROWS.get(name, {})
        assert all(c.board is None for one in guide.tables for c in one.cells if c.kind is CellKind.UNATTRIBUTED)


def test_the_udp_rows_of_11_01_likely_belong_to_the_two_boards_that_print_a_datagram(
    guides: Mapping[str, Guide],
) -> None:
    cells = [c for one in guides["am62x-11.01.rst"].tables for c in one.cells if c.row == "1518" and c.likely_board]
    assert [c.likely_board for c in cells] == ["am62xx_lp_sk-fs"] * 4 + ["am62xx_sk-fs"] * 4 + [
        "am62xx_lp_sk-fs"
    ] * 5 + ["am62xx_sk-fs"] * 5


def test_the_four_tables_under_one_heading_of_09_02_are_told_apart_by_their_chapters(
    guides: Mapping[str, Guide],
) -> None:
    tables = [one for one in guides["am62x-09.02.rst"].tables if one.chapter[-1:] == ("AM62XX-SK",)]
    assert [(one.chapter[0], one.title) for one in tables] == [
        ("UBoot QSPI/OSPI Driver", "UBoot QSPI/OSPI Driver"),
        *[("EMMC Driver", "EMMC Driver")] * 3,
        *[("UBoot EMMC Driver", "UBOOT EMMC RAW")] * 3,
        *[("MMC/SD Driver", "MMC/SD Driver")] * 3,
        ("UBoot MMC/SD Driver", "UBOOT MMCSD FAT"),
    ]


def test_every_result_of_the_five_has_a_metric(sheets: Mapping[str, MeasuredGuide]) -> None:
    for sheet in sheets.values():
        assert export.unknown_rows(sheet) == []


def test_no_two_results_of_a_board_have_one_key(sheets: Mapping[str, MeasuredGuide]) -> None:
    for sheet in sheets.values():
        keys = Counter(
            (r.board, r.key) for r in sheet.of(*sheet.by_metric) if r.cell.kind is not CellKind.UNATTRIBUTED
        )
        assert [key for key, count in keys.items() if count > 1] == []


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("am62x-11.01.rst", 96),
        ("am62x-09.02.rst", 96),
        ("am437x.rst", 32),
        ("am62ax-09.02.rst", 32),
        ("am65x-09.03-rt.txt", 32),
    ],
)
def test_all_288_paired_cells_are_found_and_recovered_to_a_printed_sample(
    sheets: Mapping[str, MeasuredGuide], name: str, pairs: int
) -> None:
    sheet = sheets[name]
    found = [f for f in run_rules(sheet) if f.rule.id == "lmbench-pairing"]
    assert {f.severity for f in found} == {Severity.ERROR}
    assert len(found) == pairs
    assert all(f.reading and f.corrected in {f.reading.cell.value.low, f.reading.cell.value.high} for f in found)


@pytest.mark.parametrize(
    ("board", "own"),
    [
        (
            "am62xx_sk-fs",  # 11.01, 1 MB, from its printed samples by hand
            {
                "rd": 1303.54,
                "wr": 648.72,
                "rdwr": 646.62,
                "cp": 430.17,
                "fwr": 1876.88,
                "frd": 1280.64,
                "fcp": 884.80,
                "bzero": 1735.81,
            },
        ),
    ],
)
def test_the_own_values_of_a_chain(sheets: Mapping[str, MeasuredGuide], board: str, own: Mapping[str, float]) -> None:
    found = {
        f.reading.params["operation"]: f.corrected
        for f in run_rules(sheets["am62x-11.01.rst"])
        if f.rule.id == "lmbench-pairing"
        and f.reading
        and f.reading.board == board
        and f.reading.params["size"] == "1mb"
    }
    assert found == own


# How often each rule speaks about each guide; docs/guide-findings.md has the reasons.
FINDINGS = {
    "am62x-11.01.rst": {
        ("audio-rate", "warning"): 6,
        ("clock-contradicts", "warning"): 1,
        ("ddr-voltage", "suspect"): 2,
        ("ingress-cpu-label", "info"): 2,
        ("ipsec-broken", "error"): 5,
        ("ipsec-kilopackets", "warning"): 1,
        ("left-packed", "warning"): 5,
        ("lmbench-false-zero", "error"): 3,
        ("lmbench-pairing", "error"): 96,
        ("outlier-boards", "suspect"): 2,
        ("printed-resolution", "info"): 3,
        ("quantised-dd", "info"): 1,
        ("quantised-dhrystone", "info"): 6,
        ("quantised-uboot", "info"): 6,
        ("quantised-whetstone", "info"): 3,
        ("raw-label", "warning"): 9,
        ("sensor-resolution", "note"): 3,
        ("udp-definition", "info"): 9,
        ("udp-link-broken", "error"): 2,
        ("udp-packets-rounded", "info"): 16,
        ("udp-search-stuck", "error"): 14,
        ("udp-search-stuck", "suspect"): 3,
        ("units-lie", "warning"): 2,
        ("usb-blocks", "info"): 6,
    },
    "am62x-09.02.rst": {
        ("audio-rate", "warning"): 3,
        ("glmark-size", "error"): 1,
        ("ingress-cpu-label", "info"): 2,
        ("ipsec-kilopackets", "warning"): 10,
        ("left-packed", "warning"): 2,
        ("lmbench-false-zero", "error"): 3,
        ("lmbench-pairing", "error"): 96,
        ("printed-resolution", "info"): 3,
        ("quantised-dhrystone", "info"): 6,
        ("quantised-uboot", "info"): 4,
        ("quantised-whetstone", "info"): 3,
        ("sensor-resolution", "note"): 1,
        ("udp-definition", "info"): 9,
        ("udp-packets-rounded", "info"): 1,
        ("udp-search-stuck", "error"): 4,
        ("udp-search-stuck", "suspect"): 6,
        ("units-lie", "warning"): 1,
    },
    "am437x.rst": {
        ("audio-rate", "warning"): 2,
        ("identifier", "info"): 4,
        ("ipsec-broken", "error"): 4,
        ("lmbench-false-zero", "error"): 1,
        ("lmbench-pairing", "error"): 32,
        ("printed-resolution", "info"): 2,
        ("printed-resolution", "warning"): 2,
        ("quantised-dhrystone", "info"): 2,
        ("quantised-whetstone", "info"): 1,
        ("units-lie", "info"): 1,
        ("usb-blocks", "info"): 2,
        ("wide-range", "warning"): 5,
    },
    "am62ax-09.02.rst": {
        ("ipsec-kilopackets", "warning"): 1,
        ("lmbench-false-zero", "error"): 1,
        ("lmbench-pairing", "error"): 32,
        ("load-floor", "note"): 1,
        ("printed-resolution", "info"): 1,
        ("quantised-dhrystone", "info"): 2,
        ("quantised-whetstone", "info"): 1,
        ("units-lie", "warning"): 1,
    },
    "am65x-09.03-rt.txt": {
        ("all-zero", "error"): 1,
        ("ipsec-kilopackets", "warning"): 1,
        ("lmbench-false-zero", "error"): 1,
        ("lmbench-pairing", "error"): 32,
        ("printed-resolution", "info"): 1,
        ("quantised-dhrystone", "info"): 2,
        ("quantised-whetstone", "info"): 1,
        ("raw-label", "warning"): 1,
        ("udp-definition", "info"): 1,
        ("units-lie", "warning"): 1,
    },
}


@pytest.mark.parametrize("name", guide_family.NAMES)
def test_the_rules_say_what_the_page_of_findings_counts(sheets: Mapping[str, MeasuredGuide], name: str) -> None:
    found = Counter((f.rule.id, str(f.severity)) for f in run_rules(sheets[name]))
    assert dict(sorted(found.items())) == FINDINGS[name]


def test_the_written_guides_are_the_originals(
    paths: Mapping[str, object], guides: Mapping[str, Guide], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The figures that the repository carries say what the originals say, where those are at hand."""
    for name, path in guide_family.written(tmp_path_factory.mktemp("written")).items():
        written, read = reader.read(path), guides[name]
        assert [(t.chapter, t.title, t.title_source, t.header) for t in written.tables] == [
            (t.chapter, t.title, t.title_source, t.header) for t in read.tables
        ]
        for one, other in zip(written.tables, read.tables, strict=True):
            assert [(c.row, c.board, c.metric, c.value) for c in one.cells] == [
                (c.row, c.board, c.metric, c.value) for c in other.cells
            ]
