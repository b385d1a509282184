"""Faults of the PDU, the supply behind it, and rail sensors."""

from __future__ import annotations

from typing import ClassVar

from attrs import define, field, validators

from lab.virtual.sim.faulthooks import Switching
from lab.virtual.sim.faults.base import Fault, FaultOutcome, Hang, share
from lab.virtual.sim.program import NS_PER_S


@define(kw_only=True, eq=False)
class NoPower(Fault):
    """The PDU switches, and the board stays without power."""

    name: ClassVar[str] = "no_power"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("silent",), "board", transient=True)

    def stays_off(self) -> bool:
        return True


@define(kw_only=True, eq=False)
class StuckRelay(Fault):
    """The relay sticks: the PDU says off, and the board stays on."""

    name: ClassVar[str] = "stuck_relay"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("power_off_ineffective",), "lab", transient=False, trial="off")

    def stays_on_ns(self) -> int | None:
        return None


@define(kw_only=True, eq=False)
class SlowDischarge(Fault):
    """The supplies fall slowly: the board lives on after switch-off."""

    name: ClassVar[str] = "slow_discharge"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("power_off_ineffective",), "lab", transient=False, trial="off")
    seconds: float = field(default=30.0, validator=validators.ge(0.0))

    def stays_on_ns(self) -> int | None:
        return round(self.seconds * NS_PER_S)


@define(kw_only=True, eq=False)
class LateRelay(Hang):
    """The board hangs in silence, and the relay switches late."""

    name: ClassVar[str] = "late_relay"
    where: ClassVar[str] = "kernel.middle"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(
        ("hang_kernel",), "board", transient=True, flags=("off_unverified",), from_power_on=True
    )
    seconds: float = field(default=3.0, validator=validators.ge(0.0))

    def stays_on_ns(self) -> int | None:
        return round(self.seconds * NS_PER_S)

    def relay_lag_ns(self) -> int:
        return round(self.seconds * NS_PER_S)


@define(kw_only=True, eq=False)
class _Pdu(Fault):
    """The PDU misbehaves, for some commands."""

    does_instead: ClassVar[Switching]
    times: int = field(default=1, validator=validators.ge(1))
    _struck: int = field(default=0, init=False)

    def switching(self, command: str) -> Switching:
        self._struck += 1
        return self.does_instead if self._struck <= self.times else Switching.OBEY


@define(kw_only=True, eq=False)
class PduError(_Pdu):
    """The PDU answers with an error (HTTP 500)."""

    name: ClassVar[str] = "pdu_error"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("pdu_refused",), "lab", transient=True)
    does_instead: ClassVar[Switching] = Switching.ERROR


@define(kw_only=True, eq=False)
class PduTimeout(_Pdu):
    """The PDU takes a command and never answers."""

    name: ClassVar[str] = "pdu_timeout"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("pdu_timeout", "pdu_refused"), "lab", transient=True)
    does_instead: ClassVar[Switching] = Switching.HANG


@define(kw_only=True, eq=False)
class PduRefused(_Pdu):
    """The PDU closes the connection without an answer."""

    name: ClassVar[str] = "pdu_connection_refused"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("pdu_unreachable", "pdu_refused"), "lab", transient=True)
    does_instead: ClassVar[Switching] = Switching.REFUSE


@define(kw_only=True, eq=False)
class PduLies(Fault):
    """The PDU answers that it has switched on, and does nothing."""

    name: ClassVar[str] = "pdu_lies"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("silent",), "board", transient=True)

    def switching(self, command: str) -> Switching:
        return Switching.LIE if command == "on" else Switching.OBEY


_ON_UNVERIFIED = FaultOutcome(flags=("on_unverified",), from_power_on=True)


@define(kw_only=True, eq=False)
class PowerReturns(Fault):
    """The power comes back by itself after the first switch-off, before the next power on."""

    name: ClassVar[str] = "power_returns"
    outcome: ClassVar[FaultOutcome] = _ON_UNVERIFIED
    seconds: float = field(default=1.85, validator=validators.ge(0.0))
    _struck: bool = field(default=False, init=False)

    def returns_ns(self, now_ns: int) -> int | None:
        if self._struck:
            return None
        self._struck = True
        return now_ns + round(self.seconds * NS_PER_S)


@define(kw_only=True, eq=False)
class SlowSwitch(Fault):
    """The PDU answers the next power on at once, and its relay closes seconds later."""

    name: ClassVar[str] = "slow_switch"
    outcome: ClassVar[FaultOutcome] = _ON_UNVERIFIED
    seconds: float = field(default=3.0, validator=validators.ge(0.0))

    def relay_lag_ns(self) -> int:
        return round(self.seconds * NS_PER_S)


@define(kw_only=True, eq=False)
class AdapterFedByBoard(Fault):
    """The board feeds the console's USB adapter, which comes back some time after power on."""

    name: ClassVar[str] = "adapter_fed_by_board"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("adapter_fed_by_board",), "lab", transient=False, trial="off")
    seconds: float = field(default=0.8, validator=validators.ge(0.0))

    def feeds_adapter_ns(self) -> int | None:
        return round(self.seconds * NS_PER_S)


# --- Rail sensors: flags, and no failed boot ---


def _flags(*flags: str) -> FaultOutcome:
    return FaultOutcome(flags=flags, trial="rails")


@define(kw_only=True, eq=False)
class SensorNack(Fault):
    """A rail's sensor sometimes does not acknowledge.

    The cause is a bad contact, or a bus that is too long.
    """

    name: ClassVar[str] = "sensor_nack"
    outcome: ClassVar[FaultOutcome] = _flags("power_nack", "power_gap")
    rail: str = "vdd_core"
    share: float = field(default=0.05, validator=share)

    def nacks(self, rail: str) -> bool:
        return rail == self.rail and self.dice.random() < self.share


@define(kw_only=True, eq=False)
class SensorStuck(Fault):
    """A rail's sensor repeats its last values as new ones."""

    name: ClassVar[str] = "sensor_stuck"
    outcome: ClassVar[FaultOutcome] = _flags("power_stuck")
    rail: str = "vdd_core"

    def sticks(self, rail: str) -> bool:
        return rail == self.rail


@define(kw_only=True, eq=False)
class FrozenBus(Fault):
    """The sensors' bus repeats its last answers, with some jitter."""

    name: ClassVar[str] = "bus_frozen"
    outcome: ClassVar[FaultOutcome] = _flags("power_stuck")
    rail: str = "*"
    jitter: int = field(default=0, validator=validators.ge(0))

    def repeats(self, rail: str) -> int | None:
        return self.jitter if self.rail in {rail, "*"} else None


@define(kw_only=True, eq=False)
class NoBusVoltage(Fault):
    """A rail's sensor measures the current, and its bus pin hangs in the air."""

    name: ClassVar[str] = "no_bus_voltage"
    outcome: ClassVar[FaultOutcome] = _flags("power_implausible")
    rail: str = "vdd_core"

    def bus_factor(self, rail: str) -> float:
        return 0.0 if rail == self.rail else 1.0


@define(kw_only=True, eq=False)
class WrongShunt(Fault):
    """A rail's shunt is another one than the environment says."""

    name: ClassVar[str] = "wrong_shunt"
    outcome: ClassVar[FaultOutcome] = _flags("power_implausible")
    rail: str = "vdd_core"
    factor: float = field(default=5.0, validator=validators.gt(0.0))

    def shunt_factor(self, rail: str) -> float:
        return self.factor if rail == self.rail else 1.0


@define(kw_only=True, eq=False)
class SwappedRails(Fault):
    """Two rails are exchanged: each one's sensor is on the other."""

    name: ClassVar[str] = "swapped_rails"
    outcome: ClassVar[FaultOutcome] = _flags("power_implausible")
    rail: str = "soc_dvdd_3v3"
    other: str = "vdda_1v8"

    def soldered_to(self, rail: str) -> str:
        return {self.rail: self.other, self.other: self.rail}.get(rail, rail)


@define(kw_only=True, eq=False)
class SensorReset(Fault):
    """A rail's sensor loses power for an instant, with its settings."""

    name: ClassVar[str] = "sensor_reset"
    outcome: ClassVar[FaultOutcome] = _flags("sensor_reset", "power_gap")
    rail: str = "vdd_core"
    _lost: bool = field(default=False, init=False)

    def loses_power(self, rail: str) -> bool:
        loses = rail == self.rail and not self._lost
        self._lost = self._lost or loses
        return loses
