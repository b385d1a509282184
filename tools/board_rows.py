"""Tables by board type for mkdocs: rows and the guides' cells (docs/board-rows.md), boot-mode switches (docs/first-day.md)."""

from __future__ import annotations

import csv
import re
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from lab import boards
from lab.benchmarks.section import Section
from lab.benchmarks.sections import ALL
from lab.boards import SLEEP_MODES, BoardType
from lab.guide import measurements as sheets
from lab.guide.catalogue import CellReading
from lab.guide.layout import guide_name
from lab.guide.read import reader
from lab.metrics.catalogue import STATES
from lab.virtual.rails.levels import env_lines
from lab.virtual.sim.model import simulated

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import guide_family

KEPT: Final = guide_family.FIXTURES / "measured_rows.csv"
REASONS: Final = tomllib.loads((guide_family.FIXTURES / "other_rows.toml").read_text(encoding="utf-8"))["reason"]
PLAYED, DRIVEN, OUT_OF_REACH = "played", "driven", "–"
_MARK, _GUIDES_MARK, _SWITCHES_MARK = "<!-- the rows -->", "<!-- the guides -->", "<!-- the switches -->"
MetricKey: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]  # as `lab.guide.catalogue.CellReading.key`


# --- Board types ---


def types() -> list[BoardType]:
    """The vendor's board types."""
    return [board for name in boards.shipped() if not (board := boards.load(name)).virtual]


def key(metric: str, params: Mapping[str, str]) -> MetricKey:
    """The key by which a number of ours is compared with a guide's."""
    return metric, tuple(sorted(params.items()))


def kept() -> dict[str, set[MetricKey]]:
    """Board type -> rows that the sections measured on its simulated board (tools/measured_rows.py)."""
    found: dict[str, set[MetricKey]] = defaultdict(set)
    with KEPT.open(encoding="utf-8", newline="") as file:
        for metric, params, names in csv.reader(file):
            row = key(metric, dict(pair.split("=", 1) for pair in params.split(";") if pair))
            for name in names.split():
                found[name].add(row)
    return dict(found)


def of_section(section: Section, board: BoardType, metrics: set[str]) -> str:
    """State of a section on a board."""
    if not section.fits(board):
        return OUT_OF_REACH
    return PLAYED if metrics & set(section.metrics) else DRIVEN


def of_mode(mode: str, board: BoardType) -> str:
    """State of a low-power mode on a board."""
    if mode not in board.sleep:
        return OUT_OF_REACH
    return PLAYED if board.name in simulated() else DRIVEN


def lines() -> Iterator[str]:
    """The table's rows."""
    there = types()
    metrics = {name: {metric for metric, _ in rows} for name, rows in kept().items()}
    yield "| Row | " + " | ".join(f"`{board.name}`" for board in there) + " |"
    yield "|---" * (len(there) + 1) + "|"
    for medium in dict.fromkeys(medium for board in there for medium in board.media):
        yield _line(f"boot, `{medium}`", [PLAYED if medium in board.media else OUT_OF_REACH for board in there])
    for mode in SLEEP_MODES:
        yield _line(f"low power, `{mode}`", [of_mode(mode, board) for board in there])
    for state in STATES:
        cells = [PLAYED if board.name in simulated() and env_lines(board) else DRIVEN for board in there]
        yield _line(f"power, `{state}`", cells)
    for section in ALL:
        cells = [of_section(section, board, metrics.get(board.name, set())) for board in there]
        yield _line(f"section `{section.name}`", cells)


def _line(row: str, cells: list[str]) -> str:
    return f"| {row} | " + " | ".join(cells) + " |"


# --- The guides ---


def _elsewhere(board_type: str) -> Iterator[MetricKey]:
    """The numbers of test_boot.py and test_low_power.py, under the guides' names."""
    board = boards.load(board_type)
    for medium in board.media:
        yield key("boot.time", {"medium": medium})
        if board.init:
            yield key("boot.time", {"medium": medium, "init": "/bin/sh"})
    for mode in (mode for mode in board.sleep if not SLEEP_MODES[mode].boots):
        numbers: list[tuple[str, dict[str, str]]] = [("power_total", {}), ("resume_kernel", {})]
        numbers += [("power_rail", {"rail": rail.name}) for rail in board.rails]
        for what, params in numbers:
            name = guide_name(f"lpm.{mode}.{what}", params, board_type)
            yield key(name.metric, name.params)


def measured() -> dict[str, set[MetricKey]]:
    """Board type -> all rows that are measured on its simulated board."""
    return {board: rows | set(_elsewhere(board)) for board, rows in kept().items()}


def cells(path: Path) -> Iterator[tuple[CellReading, list[str]]]:
    """The cells of a guide that are no keys, with their board type; with all of the guide where a cell has no board."""
    sheet = sheets.of_guide(reader.read(path))
    types = [board.removesuffix("-fs") for board in sheet.guide.boards]
    for r in sheet.readings:
        if not (r.cell.metric and r.table.columns[r.cell.column].is_key):
            yield r, [r.board.removesuffix("-fs")] if r.board else types


def is_measured(row: MetricKey, of: Mapping[str, set[MetricKey]], on: list[str]) -> bool:
    """Return whether a row is measured on one of these board types."""
    return any(row in of.get(board, set()) for board in on)


def applies(
    reason: Mapping[str, Any], guide: str, r: CellReading, of: Mapping[str, set[MetricKey]], on: list[str]
) -> bool:
    """Return whether a reason is a cell's, and true of our row."""
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


def state(guide: str, r: CellReading, of: Mapping[str, set[MetricKey]], on: list[str]) -> str:
    """State of a guide's cell; empty: nothing measures it, and no reason is known."""
    if r.metric and is_measured(r.key, of, on):
        return PLAYED
    reason = next((reason for reason in REASONS if applies(reason, guide, r, of, on)), None)
    return "" if reason is None else PLAYED if r.metric else OUT_OF_REACH


def guide_lines() -> Iterator[str]:
    """The table of the guides' cells, by chapter."""
    of = measured()
    yield "| Guide | Chapter | Cells | played | out of reach |"
    yield "|---|---|--:|--:|--:|"
    with tempfile.TemporaryDirectory() as folder:
        for name, path in guide_family.written(Path(folder)).items():
            counts: dict[str, Counter[str]] = defaultdict(Counter)
            for r, on in cells(path):
                counts["".join(r.table.chapter[:1])][state(name, r, of, on)] += 1
            for chapter, count in counts.items():
                numbers = f"{count.total()} | {count[PLAYED]} | {count.total() - count[PLAYED]}"
                yield f"| {name} | {chapter or 'all'} | {numbers} |"


def switch_lines() -> Iterator[str]:
    """The table of boot-mode switches: a row for each board type and medium, or way to the ROM."""
    yield from ("| Board | Boots from | Straps | Switches, B0 first |", "|---|---|---|---|")
    for board in types():
        media = {name: medium.boot_mode for name, medium in board.media.items()} | dict(board.recovery)
        for name, value in media.items():
            yield f"| {board.title} (`{board.name}`) | {name} | `{value:#06x}` | `{board.switches(value)}` |"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the tables in place of their marks."""
    for mark, table in ((_MARK, lines), (_GUIDES_MARK, guide_lines), (_SWITCHES_MARK, switch_lines)):
        markdown = markdown.replace(mark, "\n".join(table())) if mark in markdown else markdown
    return markdown
