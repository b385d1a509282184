"""Power during a sleep or a steady state, and energy of a suspend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from attrs import Factory, frozen

from lab.benchmarks.lowpower.watch import SuspendWatch
from lab.boards import BoardType
from lab.errors import BoardTransientError, LabTransientError
from lab.metrics import Flag

SETTLE_NS: Final = 1_500_000_000  # from the console's last byte until supplies and averages are those of sleep
# An alarm's instant is known to a second, and what follows until the first byte is not
ALARM_NS: Final = 1_500_000_000


class RailPowerProtocol(Protocol):
    """The used part of lab.rails.RailPower."""

    @property
    def rail(self) -> str: ...
    @property
    def measured(self) -> bool: ...
    @property
    def mean_w(self) -> float | None: ...
    @property
    def uncertainty_w(self) -> float | None: ...
    @property
    def energy_j(self) -> float | None: ...
    @property
    def energy_uncertainty_j(self) -> float | None: ...
    @property
    def mean_v(self) -> float | None: ...
    @property
    def uncertainty_v(self) -> float | None: ...
    @property
    def flags(self) -> frozenset[Flag]: ...


class PhasePowerProtocol(Protocol):
    """The used part of lab.rails.PhasePower."""

    @property
    def start_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def rails(self) -> Sequence[RailPowerProtocol]: ...
    @property
    def total(self) -> RailPowerProtocol: ...
    @property
    def efficiency(self) -> tuple[float, float] | None: ...


def asleep_ns(watch: SuspendWatch) -> tuple[int, int] | None:
    """The interval of certain sleep, on the console's clock; None: too short."""
    start_ns, end_ns = watch.silence
    start_ns += SETTLE_NS
    end_ns = min(end_ns, watch.edge.requested_ns) if watch.edge is not None else end_ns - ALARM_NS
    return (start_ns, end_ns) if end_ns > start_ns else None


def why_no_mean(watch: SuspendWatch, power: PhasePowerProtocol | None) -> str:
    """The reason why sampled rails have no mean power; or ""."""
    if power is None:
        return (
            "a mean needs the rails while the board surely sleeps: the console's longest silence before the board's "
            f"answer was {watch.asleep_s:.3f} s of the {watch.plan.sleep_s} s that it was to sleep, and up to "
            f"{(SETTLE_NS + ALARM_NS) / 1e9:g} s at its ends do not count. Sleep longer (--sleep), or find what "
            "printed meanwhile (lab results show --log)"
        )
    without = [rail.rail for rail in power.rails if rail.measured and rail.mean_w is None]
    if without:
        return (
            f"no good sample of {', '.join(without)} in the {(power.end_ns - power.start_ns) / 1e9:.3f} s in which "
            "the board surely slept. Do the sensors answer (lab rails)?"
        )
    return ""


def cycle_ns(watch: SuspendWatch) -> tuple[int, int, int, int] | None:
    """From the suspend command to the answer, with both ±; or None."""
    if watch.answer is None:
        return None
    return watch.sent_ns, watch.answer.t_ns, 0, watch.answer.uncertainty_ns


@frozen
class Off:
    """The highest of the rails that are off.

    Attributes:
        rail: which.
        volts: its mean.
        uncertainty_v: ± of it.
        flags: of all rails that must be off.
    """

    rail: str
    volts: float
    uncertainty_v: float
    flags: frozenset[Flag]


def off(rails: Sequence[RailPowerProtocol], board: BoardType, mode: str, inputs: Sequence[str] = ()) -> Off | None:
    """The highest rail that must be off in a mode or in `OFF`.

    Args:
        inputs: rails before the board's switch, which may be up.

    Raises:
        BoardTransientError: a rail is up.
    """
    sleep_mode = board.low_power.modes.get(mode)
    stay = {*inputs}
    if sleep_mode is not None:
        stay |= {*sleep_mode.rails_on, *(rail.name for rail in board.rails if rail.always_on)}
    must = [rail for rail in rails if rail.measured and rail.rail not in stay]
    read = {rail.rail: (rail.mean_v, rail.uncertainty_v or 0.0) for rail in must if rail.mean_v is not None}
    near_0_v = board.low_power.near_0_v
    up = [f"{name} {volts:.2f} V" for name, (volts, _) in read.items() if volts > near_0_v]
    if up:
        raise BoardTransientError(
            f"the board {'is off' if sleep_mode is None else 'entered ' + sleep_mode.title}, and has rails that are "
            f"up: {', '.join(up)}, where {near_0_v:g} V is the most. Something feeds them, as a debugger or USB; or "
            "they stay on by design: `always_on = true` of the rail in the board type, `input: true` in the env"
            + (
                f". Or the jumper is not as this mode needs it: {sleep_mode.jumper}"
                if sleep_mode and sleep_mode.jumper
                else ""
            ),
            failure="rails_up",
        )
    if not read:
        return None
    rail = max(read, key=lambda name: read[name][0])
    return Off(rail, *read[rail], frozenset().union(*(checked.flags for checked in must)))


OFF, IDLE, FULL_LOAD = "off", "idle", "full_load"
IDLE_MOST: Final = 0.1  # busy share of the processors at the prompt; asking them is part of it
LOAD_LEAST: Final = 0.9  # of each processor under load; starting and asking is not part of the load
_HZ: Final = 100  # USER_HZ, of /proc/stat
_COUNTED: Final = 0.2  # of an interval: by as much /proc/stat may count another one
_COUNTED_S: Final = 0.5
CPUS: Final = 'grep "^cpu[0-9]" /proc/stat'  # Linux Documentation/filesystems/proc.rst, 1.7
_CPU: Final = re.compile(r"(cpu\d+) (\d{1,12}(?: \d{1,12}){7,9})")
# Name -> command for so many seconds. stress-ng(1): 0 is one for each processor, and matrixprod its method that heats
# most; without it the shell's own loop, which draws less.
STRESS_NG: Final = "stress-ng"
LOADS: Final[Mapping[str, str]] = {
    STRESS_NG: "stress-ng --cpu 0 --cpu-method matrixprod --timeout {seconds}s > /dev/null 2>&1",
    "sh": "(for i in $(seq $(nproc)); do timeout {seconds} sh -c 'while :; do :; done' & done; wait)",
}


@frozen
class SteadyPower:
    """The power of a board in a state of `OFF`, `IDLE`, `FULL_LOAD`.

    Attributes:
        program: of the load; empty: none.
        busy: busy share of each processor meanwhile; empty: it is off.
        temperatures_c: thermal zone or sensor of the board -> its temperature at the end.
        throttled: cooling devices that slowed a processor down.
    """

    state: str
    power: PhasePowerProtocol
    program: str = ""
    busy: tuple[float, ...] = ()
    temperatures_c: Mapping[str, float] = Factory(dict)
    throttled: tuple[str, ...] = ()


def busy_shares(
    before: Iterable[str], after: Iterable[str], seconds: float, *, emulated: bool = False
) -> tuple[float, ...]:
    """Busy share of each processor between two answers to `CPUS`, so many seconds apart.

    Args:
        emulated: the processor loses ticks while its host is busy.

    Raises:
        LabTransientError: they do not fit, as after lost characters.
    """
    first, last = (
        {match[1]: _ticks(match[2]) for line in lines if (match := _CPU.fullmatch(line.strip()))}
        for lines in (before, after)
    )
    if not first or first.keys() != last.keys():
        raise _garbled_error(f"{', '.join(first) or 'no processor'} before, and {', '.join(last) or 'none'} after")
    shares = []
    for cpu, (total, idle) in first.items():
        ticks, idled = last[cpu][0] - total, last[cpu][1] - idle
        apart_s, most_s = ticks / _HZ - seconds, _COUNTED * seconds + _COUNTED_S
        if not 0 <= idled <= ticks or not ticks or apart_s > most_s or (apart_s < -most_s and not emulated):
            raise _garbled_error(
                f"{ticks / _HZ:g} s of {cpu}, {idled / _HZ:g} s of them idle, where {seconds:.1f} s passed"
            )
        shares.append(1 - idled / ticks)
    return tuple(shares)


def _ticks(text: str) -> tuple[int, int]:
    """All ticks and the idle ones; a guest's are in the user's."""
    numbers = [int(number) for number in text.split()]
    return sum(numbers[:8]), numbers[3] + numbers[4]


def _garbled_error(what: str) -> LabTransientError:
    return LabTransientError(f"/proc/stat has {what}: characters were lost on the console", failure="characters_lost")


def check_busy(state: str, shares: Sequence[float], program: str) -> None:
    """Require that the processors idle, or are all at work.

    Raises:
        BoardTransientError: they are not.
    """
    if state == IDLE and (mean := sum(shares) / len(shares)) > IDLE_MOST:
        raise BoardTransientError(
            f"the board does not idle: its processors are busy for {mean:.0%}, where {IDLE_MOST:.0%} is the most. "
            "`top` names the program",
            failure="wrong_load",
        )
    if state == FULL_LOAD and min(shares) < LOAD_LEAST:
        raise BoardTransientError(
            f"{program} did not keep all processors at work: they were busy for "
            f"{', '.join(f'{share:.0%}' for share in shares)}, where {LOAD_LEAST:.0%} is the least. Did it end early, "
            "or is a processor off?",
            failure="wrong_load",
        )
