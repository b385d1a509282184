"""Power during a sleep, and energy of a whole suspend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from attrs import frozen

from lab.benchmarks.lowpower.watch import SuspendWatch
from lab.boards import BoardType
from lab.errors import BoardTransientError
from lab.metrics import Flag

SETTLE_NS: Final = 1_500_000_000  # from the console's last byte until supplies and averages are those of sleep
ALARM_NS: Final = (
    1_500_000_000  # an alarm's instant is known to a second, and what follows until the first byte is not
)


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
            f"a mean needs the rails while the board surely sleeps: the console's longest silence before the board's answer was "
            f"{watch.asleep_s:.3f} s of the {watch.plan.sleep_s} s that it was to sleep, and up to {(SETTLE_NS + ALARM_NS) / 1e9:g} s at its ends "
            "do not count. Sleep longer (--sleep), or find what printed meanwhile (lab results show --log)"
        )
    without = [each.rail for each in power.rails if each.measured and each.mean_w is None]
    if without:
        return (
            f"no good sample of {', '.join(without)} in the {(power.end_ns - power.start_ns) / 1e9:.3f} s in which the board surely slept. Do the "
            "sensors answer (lab rails)?"
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
        rail: which. volts: its mean. uncertainty_v: ± of it.
        flags: of all rails that must be off.
    """

    rail: str
    volts: float
    uncertainty_v: float
    flags: frozenset[Flag]


def off(rails: Sequence[RailPowerProtocol], board: BoardType, mode: str) -> Off | None:
    """The highest of the rails that must be off, or None.

    Raises:
        BoardTransientError: a rail is up.
    """
    known = board.low_power.modes[mode]
    stay = {*known.rails_on, *(rail.name for rail in board.rails if rail.always_on)}
    must = [rail for rail in rails if rail.measured and rail.rail not in stay]
    read = {rail.rail: (rail.mean_v, rail.uncertainty_v or 0.0) for rail in must if rail.mean_v is not None}
    near_0_v = board.low_power.near_0_v
    up = [f"{name} {volts:.2f} V" for name, (volts, _) in read.items() if volts > near_0_v]
    if up:
        raise BoardTransientError(
            f"the board entered {known.title}, and has rails that are up: {', '.join(up)}, where {near_0_v:g} V is the "
            "most. Something feeds them, as a debugger or USB; or they stay on by design: `always_on = true` of the rail in the "
            "board type" + (f". Or the jumper is not as this mode needs it: {known.jumper}" if known.jumper else ""),
            failure="rails_up",
        )
    if not read:
        return None
    rail = max(read, key=lambda name: read[name][0])
    return Off(rail, *read[rail], frozenset().union(*(each.flags for each in must)))
