"""The CPU clock of a board and the table of evaluation modules disagree."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from lab.guide import boards
from lab.guide.catalogue import CellReading
from lab.guide.model import Module
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet

_TOLERANCE = 0.02


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """Arithmetic latencies count clock cycles, so a sister board with a known clock says which of the two is right."""
    clocks = {r.board: r for r in sheet.of("cpu.clock") if r.board and r.number}
    modules = {board: boards.module_of(sheet.guide, board) for board in clocks}
    sound = [board for board, reading in clocks.items() if _agrees(reading.number, modules[board])]
    for board, reading in clocks.items():
        module = modules[board]
        if module is not None and module.clock_mhz and not _agrees(reading.number, module):
            yield _remark(sheet, reading, module, sound)


def _remark(sheet: Sheet, reading: CellReading, module: Module, sound: list[str]) -> Remark:
    text = (
        f"the benchmark was told {reading.cell.value.text} MHz, but line {module.line} says that {module.name} runs at "
        f"{module.clock_mhz:g} MHz"
    )
    measured = _measured_mhz(sheet, reading.board or "", sound)
    if measured is None:
        return Remark(f"{text}; the guide does not tell which is right", reading, severity=Severity.SUSPECT)
    if _close(measured, reading.number):
        return Remark(
            f"{text}; the arithmetic latencies say {measured:.0f} MHz, so the table of modules is out of date", reading
        )
    if _close(measured, module.clock_mhz):
        return Remark(
            f"{text}; the arithmetic latencies say {measured:.0f} MHz, so the printed clock is wrong",
            reading,
            corrected=module.clock_mhz,
        )
    return Remark(f"{text}; the arithmetic latencies say {measured:.0f} MHz, which is neither", reading)


def _measured_mhz(sheet: Sheet, board: str, sound: list[str]) -> float | None:
    """The clock from lat_ops, by a board of the same device family whose clock is not in doubt."""
    clocks = {r.board: r.number for r in sheet.of("cpu.clock")}
    latencies = {(r.board, r.key): r.number for r in sheet.of("lmbench.lat_ops") if r.number}
    family = [other for other in sound if other[:4] == board[:4] and other != board]
    estimates = [
        clock * theirs / ours
        for (b, key), ours in latencies.items()
        if b == board and ours
        for other in family
        if (theirs := latencies.get((other, key))) and (clock := clocks[other])
    ]
    return statistics.median(estimates) if estimates else None


def _agrees(clock: float | None, module: Module | None) -> bool:
    """Whether a clock is the module's, as far as its printed digits go: 1.2 GHz may be 1.25 GHz."""
    if clock is None or module is None or module.clock_mhz is None:
        return False
    return _close(clock, module.clock_mhz) or abs(clock - module.clock_mhz) <= module.clock_step_mhz / 2 + 1e-6


def _close(a: float | None, b: float | None) -> bool:
    return bool(a and b) and abs((a or 0.0) / (b or 1.0) - 1) <= _TOLERANCE


RULE = Rule(
    id="clock-contradicts", title="The clock contradicts the table of modules", severity=Severity.WARNING, check=check
)
