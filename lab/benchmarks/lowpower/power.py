"""What the board drew while it slept, and from one end of a suspend to the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from lab.benchmarks.lowpower.watch import SuspendWatch
from lab.metrics import Flag

SETTLE_NS: Final = 1_500_000_000  # from the console's last byte until supplies and averages are those of sleep
ALARM_NS: Final = (
    1_500_000_000  # an alarm's instant is known to a second, and what follows until the first byte is not
)


class RailPowerProtocol(Protocol):
    """What this package needs of lab.rails.RailPower."""

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
    def flags(self) -> frozenset[Flag]: ...


class PhasePowerProtocol(Protocol):
    """What this package needs of lab.rails.PhasePower."""

    @property
    def start_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def rails(self) -> Sequence[RailPowerProtocol]: ...
    @property
    def total(self) -> RailPowerProtocol: ...


def asleep_ns(watch: SuspendWatch) -> tuple[int, int] | None:
    """When the board surely slept, on the console's clock; None where that is too short to say."""
    start_ns, end_ns = watch.silence
    start_ns += SETTLE_NS
    end_ns = min(end_ns, watch.edge.requested_ns) if watch.edge is not None else end_ns - ALARM_NS
    return (start_ns, end_ns) if end_ns > start_ns else None


def why_no_mean(watch: SuspendWatch, power: PhasePowerProtocol | None) -> str:
    """Why a suspend with sampled rails has no mean power of them; empty: it has one."""
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
    """From the command that sends the board to sleep to its answer, on the console's clock, and the ± of both; None: it has not answered."""
    if watch.answer is None:
        return None
    return watch.sent_ns, watch.answer.t_ns, 0, watch.answer.uncertainty_ns
