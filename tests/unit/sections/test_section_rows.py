"""Every cell of the five guides has a row that is measured on its board, or a reason on the page why not."""

from __future__ import annotations

import re
from pathlib import Path

import board_rows
import pytest
from board_rows import REASONS, applies, cells, is_measured, measured
from support import guide_family

from lab import boards
from lab.benchmarks.sections import ALL
from lab.boards import SLEEP_MODES
from lab.virtual.sim.model import simulated

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("guide", guide_family.NAMES)
def test_every_cell_of_a_guide_has_its_measured_row_or_a_reason(tmp_path: Path, guide: str) -> None:
    of, path = measured(), guide_family.family(tmp_path)[guide]
    found = list(cells(path))
    assert len(found) > 250
    missing = [
        (r.table.title, r.cell.row, r.cell.metric, on) for r, on in found if not board_rows.state(guide, r, of, on)
    ]
    assert missing == []


def test_the_six_types_of_boards_that_are_in_the_guides_are_measured(tmp_path: Path) -> None:
    published = {board for path in guide_family.family(tmp_path).values() for _, on in cells(path) for board in on}
    assert published == set(board_rows.kept()) <= set(simulated())
    assert len(published) == 6


def test_the_page_says_of_every_type_what_is_driven_played_or_out_of_reach() -> None:
    head, _, *rows = board_rows.lines()
    assert set(re.findall(r"`(\S+?)`", head)) == {name for name in boards.shipped() if not boards.load(name).virtual}
    names = [re.search(r"`(\S+?)`", row)[1] for row in rows]  # type: ignore[index]
    assert [name for name in SLEEP_MODES if name not in names] == []
    assert [section.name for section in ALL if section.name not in names] == []
    assert {cell for row in rows for cell in row.strip("| ").split(" | ")[1:]} == {"played", "driven", "–"}
    for name, of_board in board_rows.kept().items():
        board = boards.load(name)
        metrics = {metric for metric, _ in of_board}
        played = {s.name for s in ALL if board_rows.of_section(s, board, metrics) == board_rows.PLAYED}
        assert played == {s.name for s in ALL if s.fits(board)}, "what fits a type with a guide is played"


def test_the_page_counts_every_cell_of_the_five_guides(tmp_path: Path) -> None:
    _, _, *rows = board_rows.guide_lines()
    counts = [[int(number) for number in row.strip("| ").split(" | ")[2:]] for row in rows]
    assert {row.split(" ")[1] for row in rows} == set(guide_family.NAMES)
    assert sum(total for total, _, _ in counts) == sum(
        len(list(cells(path))) for path in guide_family.written(tmp_path).values()
    )
    assert all(total == played + out_of_reach for total, played, out_of_reach in counts)
    assert [row.split(" | ")[1] for row, count in zip(rows, counts, strict=True) if count[2]] == [
        "Graphics SGX/RGX Driver"
    ]


def test_every_reason_is_needed_and_is_on_the_page(tmp_path: Path) -> None:
    of = measured()
    read = {name: list(cells(path)) for name, path in guide_family.family(tmp_path).items()}
    for reason in REASONS:
        assert any(
            applies(reason, name, r, of, on) and not is_measured(r.key, of, on)
            for name, found in read.items()
            for r, on in found
        ), reason["why"]
        assert reason["why"] in " ".join(PAGE.split())


def test_a_row_that_nobody_measures_is_missed(tmp_path: Path) -> None:
    path = guide_family.family(tmp_path)["am437x.rst"]
    of = {board: {row for row in rows if row[0] != "usb.device.throughput"} for board, rows in measured().items()}
    lost = {r.metric for r, on in cells(path) if r.metric and not is_measured(r.key, of, on)}
    assert lost == {"usb.device.throughput"}
