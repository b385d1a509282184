"""The table of rows by board type, which mkdocs puts into docs/board-rows.md."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lab import boards
from lab.benchmarks.section import Section
from lab.benchmarks.sections import ALL
from lab.boards import SLEEP_MODES, BoardType
from lab.metrics.catalogue import STATES
from lab.virtual.rails.levels import env_lines
from lab.virtual.sim.model import simulated

KEPT: Final = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "guides" / "measured_rows.csv"
PLAYED, DRIVEN, OUT_OF_REACH = "played", "driven", "–"
_MARK: Final = "<!-- the rows -->"


def types() -> list[BoardType]:
    """The vendor's board types."""
    return [board for name in boards.shipped() if not (board := boards.load(name)).virtual]


def played() -> dict[str, set[str]]:
    """Board type -> metrics that the sections measured on its simulated board (tools/measured_rows.py)."""
    found: dict[str, set[str]] = {}
    with KEPT.open(encoding="utf-8", newline="") as file:
        for metric, _params, names in csv.reader(file):
            for name in names.split():
                found.setdefault(name, set()).add(metric)
    return found


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
    there, metrics = types(), played()
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


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the table in place of its mark."""
    return markdown.replace(_MARK, "\n".join(lines())) if _MARK in markdown else markdown
