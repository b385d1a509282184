"""CPU clocks that contradict each other, the table of modules or the rows that follow them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lab.guide import boards
from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide, group
from lab.guide.model import Module
from lab.guide.rulebook import Remark, Severity, rule
from lab.judge import noise

_APART = 1.01


@rule("clock-average", "An average over two clocks", Severity.WARNING)
def clock_average(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find averages over two clocks.

    The clock row is averaged over runs: 1310 MHz beside a range of 1250 to 1400 is neither board's clock.

    Finding: A clock row whose runs differ by 1 % or more.
    """
    for reading in sheet.of("cpu.clock"):
        value = reading.cell.value
        if value.low and value.high and value.high >= _APART * value.low:
            yield Remark(
                f"averages runs at {value.low:g} and {value.high:g} MHz: no run had {value.number:g} MHz, and "
                "numbers that follow the CPU clock may be an average over both",
                reading,
            )


_TOLERANCE = 0.02


@rule("clock-contradicts", "The clock contradicts the table of modules", Severity.WARNING)
def clock_contradicts(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find clocks that contradict the table of modules.

    A board's clock stands in the table of modules, typed by hand, and in Dhrystone's row `cpu_clock`. Latencies of
    arithmetic operations tell it, too: int add takes 0.80 ns at 1250 MHz and 0.72 ns at 1400.

    Finding: A contradiction of more than 2 % and more than the printed digits. A sister board with a sure clock
    decides which place is wrong; without one the finding is a suspicion.
    """
    clocks = {r.board: r for r in sheet.of("cpu.clock") if r.board and r.number}
    modules = {board: boards.module_of(sheet.guide, board) for board in clocks}
    sound = [board for board, reading in clocks.items() if _agrees(reading.number, modules[board])]
    for board, reading in clocks.items():
        module = modules[board]
        if module is not None and module.clock_mhz and not _agrees(reading.number, module):
            yield _remark(sheet, reading, module, sound)


def _remark(sheet: MeasuredGuide, reading: CellReading, module: Module, sound: list[str]) -> Remark:
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


def _measured_mhz(sheet: MeasuredGuide, board: str, sound: list[str]) -> float | None:
    """Clock from lat_ops, relative to a sister board with a certain clock."""
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
    """Return whether a clock equals the module's within its printed digits.

    1.2 GHz may be 1.25 GHz.
    """
    if clock is None or module is None or module.clock_mhz is None:
        return False
    return _close(clock, module.clock_mhz) or abs(clock - module.clock_mhz) <= module.clock_step_mhz / 2 + 1e-6


def _close(a: float | None, b: float | None) -> bool:
    return bool(a and b) and abs((a or 0.0) / (b or 1.0) - 1) <= _TOLERANCE


_LEAST_ROWS = 5
_SPREAD = 0.01  # of the ratios: they are one
_EXACT = 0.01  # of a ratio of clocks
_MOVED = 0.05
# Clocks at which the family's cores run, in MHz; a guide's own clocks come first.
CLOCKS_MHZ = (200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200, 1250, 1300, 1400, 1500, 1700, 1800, 2000)
_JUDGED = ("nbench.", "coremark_pro.", "multibench.", "openssl.throughput", "lmbench.lat_ops")

_Key = tuple[str, tuple[tuple[str, str], ...]]
_Clocks = Mapping[str | None, float]


@rule("clock-ratio", "Another clock than the printed one", Severity.WARNING)
def clock_ratio(sheet: MeasuredGuide, older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find numbers that follow another clock than the printed one.

    nbench, CoreMark-Pro, MultiBench, openssl and arithmetic latencies follow the clock. A new compiler moves their
    rows differently, another clock moves all alike.

    Finding: Five or more rows of a metric with one ratio (within 1 %) to the older guide or to another board of
    the product, where that ratio is one of usual clocks and not that of the printed ones. Only the slower board is
    named.

    Limits: A change that slows every row by the same percentage looks the same.
    """
    clocks = _clocks(sheet)
    for readings in group(_numbers(sheet, _JUDGED), lambda r: (r.board, r.metric)).values():
        board = readings[0].board
        for peers, who, their_clock in _peers(sheet, older, board):
            remark = _compare(readings, peers, who, clocks.get(board), their_clock)
            if remark is not None:
                yield remark
                break


def _peers(
    sheet: MeasuredGuide, older: MeasuredGuide | None, board: str | None
) -> Iterator[tuple[Mapping[_Key, float], str, float | None]]:
    """Yield references: the older guide, then boards of the same product."""
    if older is not None:
        yield (
            {r.key: r.number for r in _numbers(older, _JUDGED) if r.board == board and r.number},
            "the older guide's",
            _clocks(older).get(board),
        )
    for other in sheet.guide.boards:
        if other != board and boards.product_of(other) == boards.product_of(board):
            numbers = {r.key: r.number for r in _numbers(sheet, _JUDGED) if r.board == other and r.number}
            yield numbers, f"{other}'s", _clocks(sheet).get(other)


def _compare(
    readings: Sequence[CellReading],
    peers: Mapping[_Key, float],
    who: str,
    clock: float | None,
    their_clock: float | None,
) -> Remark | None:
    pairs = [(r, r.number / peers[r.key]) for r in readings if r.number and r.key in peers]
    if len(pairs) < _LEAST_ROWS or clock is None or their_clock is None:
        return None
    logs = [math.log(ratio) for _, ratio in pairs]
    middle = statistics.median(logs)
    if max(abs(log - middle) for log in logs) > _SPREAD:
        return None
    lower = readings[0].quantity is not None and readings[0].quantity.better == "lower"
    speed = math.exp(-middle if lower else middle)  # this board's clock over the other's
    if speed > 1 - _MOVED or abs(speed * their_clock / clock - 1) <= _MOVED:
        return None  # it is the faster one, or the printed clocks explain it
    real = min(CLOCKS_MHZ, key=lambda step: abs(step / (speed * their_clock) - 1))
    if abs(real / (speed * their_clock) - 1) > _EXACT:
        return None
    return Remark(
        f"all {len(pairs)} rows of {readings[0].metric} are {math.exp(middle):.3f} times {who}, within "
        f"{_SPREAD:.0%}: that is "
        f"{real} of {their_clock:g} MHz, so the CPU ran at {real} MHz, though the clock row says {clock:g}",
        pairs[0][0],
        also=tuple(r for r, _ in pairs[1:]),
    )


def _numbers(sheet: MeasuredGuide, metrics: tuple[str, ...]) -> Iterable[CellReading]:
    """Attributed numbers of metrics with one of these beginnings."""
    return (r for r in sheet.of(*(m for m in sheet.by_metric if m.startswith(metrics))) if r.cell.metric is not None)


def _clocks(sheet: MeasuredGuide) -> _Clocks:
    return {r.board: r.number for r in sheet.of("cpu.clock") if r.number}


_FOLLOWING = (*_JUDGED, "dhrystone.rate", "whetstone.rate", "linpack.rate")
_CALCULATED = "dhrystone.per_mhz"  # from the printed clock


@rule("clock-alone", "The clock moved without its rows", Severity.SUSPECT)
def clock_alone(sheet: MeasuredGuide, older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find clocks that moved while the rows that follow them did not.

    Dhrystone, Whetstone, Linpack, nbench, CoreMark-Pro, MultiBench, openssl and arithmetic latencies follow the clock.
    A printed clock of 1250 MHz instead of 400 beside the same Dhrystones a second is one that the benchmark was told
    wrong, in one of the two guides.

    Finding: With `--against`: the clock row and DMIPS/MHz, which is calculated from it, where the rows' median speed
    is nearer to the older guide's than to the ratio of the clocks. Comparisons do not use such a clock.

    Limits: The two guides do not tell which of the clocks is wrong.
    """
    if older is None:
        return
    clocks, older_clocks = _clocks(sheet), _clocks(older)
    for board, speed in speeds_beside_clock(older, sheet).items():
        old, new = older_clocks[board], clocks[board]
        if is_confirmed(speed, old, new):
            continue
        printed = [r for r in sheet.of("cpu.clock", _CALCULATED) if r.board == board]
        yield Remark(
            f"the clock row says {new:g} MHz, {new / old:.2f} times the older guide's {old:g}, while the rows that "
            f"follow the clock are {speed:.2f} times as fast: one of the two clocks is not that of the run",
            printed[0],
            also=tuple(printed[1:]),
        )


def is_confirmed(speed: float, old_mhz: float, new_mhz: float) -> bool:
    """Return whether a speed is nearer to the ratio of two clocks than to none."""
    return abs(math.log(speed) - math.log(new_mhz / old_mhz)) < abs(math.log(speed))


def speeds_beside_clock(old: MeasuredGuide, new: MeasuredGuide) -> dict[str | None, float]:
    """Speed of the rows that follow the clock, new over old, by board.

    Of boards whose printed clock differs, and that have such rows in both guides. Each benchmark has one vote.
    """
    old_clocks, new_clocks = _clocks(old), _clocks(new)
    old_numbers = {(r.board, r.key): r.number for r in _numbers(old, _FOLLOWING) if r.number}
    speeds: dict[str | None, dict[str, list[float]]] = {}
    for r in _numbers(new, _FOLLOWING):
        old_number, old_mhz, new_mhz = (
            old_numbers.get((r.board, r.key)),
            old_clocks.get(r.board),
            new_clocks.get(r.board),
        )
        if r.number and old_number and old_mhz and new_mhz and noise.is_another_clock(old_mhz, new_mhz):
            is_time = r.quantity is not None and r.quantity.better == "lower"
            speed = old_number / r.number if is_time else r.number / old_number
            speeds.setdefault(r.board, {}).setdefault(r.metric, []).append(speed)
    return {
        board: statistics.median(statistics.median(values) for values in by_metric.values())
        for board, by_metric in speeds.items()
    }
