"""Every cell of the five guides has a row that is measured on its board, or a reason on the page why not."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import board_rows
import measured_rows
import pytest
from measured_rows import MetricKey, key
from support import guide_family

from lab import boards
from lab.benchmarks.sections import ALL
from lab.boards import SLEEP_MODES
from lab.guide import measurements as sheets
from lab.guide import reader
from lab.guide.catalogue import CellReading
from lab.guide.layout import guide_name
from lab.metrics.catalogue import KERNEL_MODES
from lab.virtual.sim.model import simulated

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
REASONS = tomllib.loads((guide_family.FIXTURES / "other_rows.toml").read_text(encoding="utf-8"))["reason"]


def elsewhere(board_type: str) -> Iterator[MetricKey]:
    """What test_boot.py and test_low_power.py measure on a board, under the guides' names."""
    board = boards.load(board_type)
    for medium in board.media:
        yield key("boot.time", {"medium": medium})
        if board.init:
            yield key("boot.time", {"medium": medium, "init": "/bin/sh"})
    for mode in (mode for mode in KERNEL_MODES if mode in board.sleep):
        numbers: list[tuple[str, dict[str, str]]] = [("power_total", {}), ("resume_kernel", {})]
        numbers += [("power_rail", {"rail": rail.name}) for rail in board.rails]
        for what, params in numbers:
            name = guide_name(f"lpm.{mode}.{what}", params, board_type)
            yield key(name.metric, name.params)


def measured() -> dict[str, set[MetricKey]]:
    return {board: rows | set(elsewhere(board)) for board, rows in measured_rows.kept().items()}


def cells(path: Path) -> Iterator[tuple[CellReading, list[str]]]:
    """The cells of a guide that are no keys, with their board type; with all of the guide where a cell has no board."""
    sheet = sheets.of_guide(reader.read(path))
    types = [board.removesuffix("-fs") for board in sheet.guide.boards]
    for r in sheet.readings:
        if not (r.cell.metric and r.table.columns[r.cell.column].is_key):
            yield r, [r.board.removesuffix("-fs")] if r.board else types


def is_measured(row: MetricKey, of: Mapping[str, set[MetricKey]], on: list[str]) -> bool:
    return any(row in of.get(board, set()) for board in on)


def applies(
    reason: Mapping[str, Any], guide: str, r: CellReading, of: Mapping[str, set[MetricKey]], on: list[str]
) -> bool:
    """Whether a reason is that of a cell, and what it says of our row is so."""
    if reason.get("guide", guide) != guide or not re.fullmatch(reason["metric"], r.metric):
        return False
    if not reason.get("params", {}).items() <= r.params.items():
        return False
    if not re.search(reason.get("column", ""), (r.cell.metric or "").lower()):
        return False
    ours = key(r.metric, {**r.params, **reason.get("renamed", {})})
    if "further" in reason:
        return any(
            metric == r.metric and {k: v for k, v in params if k != reason["further"]} == dict(r.params)
            for board in on
            for metric, params in of[board]
        )
    return not r.metric or is_measured(ours, of, on)


@pytest.mark.parametrize("guide", guide_family.NAMES)
def test_every_cell_of_a_guide_has_its_measured_row_or_a_reason(tmp_path: Path, guide: str) -> None:
    of, path = measured(), guide_family.family(tmp_path)[guide]
    found = list(cells(path))
    assert len(found) > 250
    missing = [
        (r.table.title, r.cell.row, r.cell.metric, on)
        for r, on in found
        if not (r.metric and is_measured(r.key, of, on))
        and not any(applies(reason, guide, r, of, on) for reason in REASONS)
    ]
    assert missing == []


def test_the_six_types_of_boards_that_are_in_the_guides_are_measured(tmp_path: Path) -> None:
    published = {board for path in guide_family.family(tmp_path).values() for _, on in cells(path) for board in on}
    assert published == set(measured_rows.kept()) <= set(simulated())
    assert len(published) == 6


def test_the_page_says_of_every_type_what_is_driven_played_or_out_of_reach() -> None:
    head, _, *rows = board_rows.lines()
    assert set(re.findall(r"`(\S+?)`", head)) == {name for name in boards.shipped() if not boards.load(name).virtual}
    names = [re.search(r"`(\S+?)`", row)[1] for row in rows]  # type: ignore[index]
    assert [name for name in SLEEP_MODES if name not in names] == []
    assert [section.name for section in ALL if section.name not in names] == []
    assert {cell for row in rows for cell in row.strip("| ").split(" | ")[1:]} == {"played", "driven", "–"}
    for name, of_board in measured_rows.kept().items():
        board = boards.load(name)
        metrics = {metric for metric, _ in of_board}
        played = {s.name for s in ALL if board_rows.of_section(s, board, metrics) == board_rows.PLAYED}
        assert played == {s.name for s in ALL if s.fits(board)}, "what fits a type with a guide is played"


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
