"""Power of a board that does not sleep: off, idle, and at full load."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from lab.benchmarks.boot.crosscheck import THERMAL, read_thermal
from lab.benchmarks.lowpower.power import (
    CPUS,
    FULL_LOAD,
    IDLE,
    LOADS,
    OFF,
    SETTLE_NS,
    STRESS_NG,
    SteadyPower,
    busy_shares,
    check_busy,
    off,
)
from lab.console.model import Chunk
from lab.control.power_edge import bound_ns
from lab.drivers.guarded_calls import RAILS
from lab.errors import BoardTransientError, ConfigurationError, LabStableError
from lab.rails import AdcRange, PhasePower, Sampler
from lab.rails.phase import check_awake, cut
from lab.run.board import Board, Status

_POLL_S: Final = 0.05
_PROBE_S: Final = 2.0
_SETTLE_S: Final = 60.0  # from the prompt until start-up has ended, at most
_END_NS: Final = 200_000_000  # of a load: its programs do not end at the same instant
_SLACK_S: Final = 15.0  # for the begin and the end of a load's program


def measure(board: Board, state: str, seconds: int, trace: Path) -> SteadyPower:
    """Bring a board into `OFF`, `IDLE` or `FULL_LOAD`; read its rails.

    Args:
        trace: where their samples are written.

    Raises:
        ConfigurationError: nothing measures the rails.
        BoardTransientError: it does not idle, or the load does not run; or rails of a board that is off are up.
        LabError: the rails cannot be sampled.
    """
    if board.rails is None:
        raise ConfigurationError(
            f"{state}: nothing measures this board's rails; add RailSensors and a RailsDriver to the env"
        )
    board.transition(Status.off if state == OFF else Status.linux)
    board.activate(board.rails, RAILS)
    board.rails.check_clock()
    if state == IDLE:
        _settle(board)
    with board.rails.sampling(trace, AdcRange.ACTIVE) as sampler:
        return {OFF: _off, IDLE: _idle, FULL_LOAD: _full_load}[state](board, seconds, sampler)


def _off(board: Board, seconds: int, sampler: Sampler) -> SteadyPower:
    silent_bytes = len(board.console.captured())
    start_ns = _now_ns(board) + SETTLE_NS
    _wait(board, start_ns + seconds * 10**9)
    power = _cut(board, sampler, start_ns, start_ns + seconds * 10**9)
    if len(board.console.captured()) > silent_bytes:
        raise LabStableError(
            f"{board.board} spoke while it was switched off: {board.tail()!r} came on its console. Does another "
            "supply feed it?",
            failure="power_off_ineffective",
        )
    off(power.rails, board.type, OFF, power.inputs)
    return SteadyPower(OFF, power)


def _idle(board: Board, seconds: int, sampler: Sampler) -> SteadyPower:
    asked_ns, before = _now_ns(board), board.linux.run(CPUS)[0]
    start_ns = _now_ns(board) + SETTLE_NS
    end_ns = start_ns + seconds * 10**9
    _wait(board, end_ns)
    after = board.linux.run(CPUS)[0]
    busy = busy_shares(before, after, (_now_ns(board) - asked_ns) / 1e9, emulated=board.type.virtual)
    check_busy(IDLE, busy, "")
    return SteadyPower(IDLE, _cut(board, sampler, start_ns, end_ns), "", busy, *_thermal(board))


def _full_load(board: Board, seconds: int, sampler: Sampler) -> SteadyPower:
    shell, console = board.linux, board.console
    program = next(name for name in LOADS if name != STRESS_NG or shell.run(f"command -v {name}")[2] == 0)
    lasts_s = seconds + (SETTLE_NS + _END_NS) // 10**9 + 1
    taken = len(console.capture)
    lines = shell.run(f"{CPUS}; {LOADS[program].format(seconds=lasts_s)}; {CPUS}", timeout=lasts_s + _SLACK_S)[0]
    temperatures_c, throttled = _thermal(board)
    stamps = [event.t_ns for event in console.capture[taken:] if isinstance(event, Chunk)]
    start_ns, end_ns = max(pairwise(stamps), key=lambda gap: gap[1] - gap[0], default=(0, 0))
    lasted_s = (end_ns - start_ns) / 1e9
    if not lasts_s - 1 <= lasted_s <= lasts_s + _SLACK_S:
        raise BoardTransientError(
            f"{program} was to work for {lasts_s} s, and the console was silent for {lasted_s:.1f} s: it ended early, "
            "or something printed meanwhile",
            failure="wrong_load",
        )
    half = len(lines) // 2
    busy = busy_shares(lines[:half], lines[half:], lasted_s, emulated=board.type.virtual)
    check_busy(FULL_LOAD, busy, program)
    start_ns += SETTLE_NS
    power = _cut(board, sampler, start_ns, min(start_ns + seconds * 10**9, end_ns - _END_NS))
    return SteadyPower(FULL_LOAD, power, program, busy, temperatures_c, throttled)


def _settle(board: Board) -> None:
    """Wait until the board idles, if that comes."""
    until_ns = _now_ns(board) + round(_SETTLE_S * 1e9)
    while _now_ns(board) < until_ns:
        asked_ns, before = _now_ns(board), board.linux.run(CPUS)[0]
        _wait(board, asked_ns + round(_PROBE_S * 1e9))
        after = board.linux.run(CPUS)[0]
        busy = busy_shares(before, after, (_now_ns(board) - asked_ns) / 1e9, emulated=board.type.virtual)
        try:
            check_busy(IDLE, busy, "")
        except BoardTransientError:
            continue
        return


def _thermal(board: Board) -> tuple[dict[str, float], tuple[str, ...]]:
    return read_thermal(board.linux.run(f'grep -H "" {THERMAL} 2>/dev/null')[0])


def _cut(board: Board, sampler: Sampler, start_ns: int, end_ns: int) -> PhasePower:
    bound = bound_ns(board.power.clock)
    power = cut(sampler.trace(end_ns), start_ns, end_ns, bound, bound)
    return power if board.status == Status.off else check_awake(power)


def _wait(board: Board, until_ns: int) -> None:
    while _now_ns(board) < until_ns:
        board.console.poll(_POLL_S)


def _now_ns(board: Any) -> int:
    now_ns: int = board.power.clock.now_ns()
    return now_ns
