"""Faults of the sensors on a board's rails. They spoil no boot: the power that is measured carries flags."""

from __future__ import annotations

from typing import ClassVar

from attrs import define, field, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome, share


def _flags(*flags: str) -> FaultOutcome:
    return FaultOutcome(flags=flags, trial="rails")


@define(kw_only=True, eq=False)
class SensorNack(Fault):
    """A rail's sensor does not acknowledge now and then: a bad contact, or a bus that is too long."""

    name: ClassVar[str] = "sensor_nack"
    outcome: ClassVar[FaultOutcome] = _flags("power_nack", "power_gap")
    rail: str = "vdd_core"
    share: float = field(default=0.05, validator=share)

    def nacks(self, rail: str) -> bool:
        """See `FaultHooks`."""
        return rail == self.rail and self.dice.random() < self.share


@define(kw_only=True, eq=False)
class SensorStuck(Fault):
    """A rail's sensor repeats its last values, and still says that it converts."""

    name: ClassVar[str] = "sensor_stuck"
    outcome: ClassVar[FaultOutcome] = _flags("power_stuck")
    rail: str = "vdd_core"

    def sticks(self, rail: str) -> bool:
        """See `FaultHooks`."""
        return rail == self.rail


@define(kw_only=True, eq=False)
class WrongShunt(Fault):
    """A rail's shunt is another one than the environment says."""

    name: ClassVar[str] = "wrong_shunt"
    outcome: ClassVar[FaultOutcome] = _flags("power_implausible")
    rail: str = "vdd_core"
    factor: float = field(default=5.0, validator=validators.gt(0.0))

    def shunt_factor(self, rail: str) -> float:
        """See `FaultHooks`."""
        return self.factor if rail == self.rail else 1.0


@define(kw_only=True, eq=False)
class SwappedRails(Fault):
    """Two rails are exchanged: each one's sensor is on the other."""

    name: ClassVar[str] = "swapped_rails"
    outcome: ClassVar[FaultOutcome] = _flags("power_implausible")
    rail: str = "soc_dvdd_3v3"
    other: str = "vdda_1v8"

    def soldered_to(self, rail: str) -> str:
        """See `FaultHooks`."""
        return {self.rail: self.other, self.other: self.rail}.get(rail, rail)


@define(kw_only=True, eq=False)
class SensorReset(Fault):
    """A rail's sensor loses its power for an instant, and with it its settings."""

    name: ClassVar[str] = "sensor_reset"
    outcome: ClassVar[FaultOutcome] = _flags("sensor_reset", "power_gap")
    rail: str = "vdd_core"
    _lost: bool = field(default=False, init=False)

    def loses_power(self, rail: str) -> bool:
        """See `FaultHooks`."""
        loses = rail == self.rail and not self._lost
        self._lost = self._lost or loses
        return loses
