"""The records of power: a reading, and what a phase of a trace drew."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, Self

from attrs import field, frozen

from lab.metrics import Flag
from lab.rails.config import RailConfig


class TraceMark(enum.IntFlag):
    """What a record of a trace says about itself; 0 is a good sample."""

    NACK = 1  # the sensor did not answer: no values
    SATURATED = 2  # the shunt voltage is at the end of the sensor's range
    RESET = 4  # the sensor had lost its settings, and was given them again
    STALE = 8  # the sensor answers and converts no more: no values
    IMPLAUSIBLE = 16  # what the sensor says is no number, or beyond what a record holds: no values


NO_VALUES: Final = int(TraceMark.NACK | TraceMark.STALE | TraceMark.IMPLAUSIBLE)
LARGEST: Final = 2**31 - 1  # microvolt or nanovolt in a record: 2 kV on the rail, 2 V on the shunt


class AdcRange(enum.StrEnum):
    """What power is expected, which decides how long a sensor averages (`lab.rails.ina`)."""

    ACTIVE = "active"  # a board that boots, idles or works: about a thousand samples a second
    SLEEP = "sleep"  # a board that sleeps at some milliwatt: about one sample a second


class SensorReading(NamedTuple):
    """One conversion of one sensor.

    Attributes:
        rail: its index among the measured rails.
        bus_uv: microvolt. shunt_nv: nanovolt, before any correction.
        mark: see `TraceMark`.
    """

    rail: int
    bus_uv: int
    shunt_nv: int
    mark: int = 0

    @classmethod
    def of(cls, rail: int, bus: str | float, bus_step_uv: float, shunt: str | float, shunt_step_nv: float) -> Self:
        """A reading of values that nothing bounds, as numbers or text, each in steps of so many microvolt or nanovolt."""
        try:
            bus_uv, shunt_nv = round(float(bus) * bus_step_uv), round(float(shunt) * shunt_step_nv)
        except (ValueError, OverflowError):  # no number, nan, inf
            return cls(rail, 0, 0, TraceMark.IMPLAUSIBLE)
        if max(abs(bus_uv), abs(shunt_nv)) > LARGEST:
            return cls(rail, 0, 0, TraceMark.IMPLAUSIBLE)
        return cls(rail, bus_uv, shunt_nv)


@frozen
class Channel:
    """What a sensor can do on one rail, as the trace has it.

    Attributes:
        shunt_mohm: with which its currents are computed.
        tolerance: of the shunt. gain: greatest gain error of the sensor, as a share.
        bus_lsb_uv, shunt_lsb_nv: what one step of its registers is.
        offset_nv: what is subtracted from each shunt voltage. offset_bound_nv: how wrong the rest may be.
        noise_nv: standard deviation of one sample's shunt voltage.
        max_w: more than this the rail cannot take; 0: no limit is known.
    """

    rail: str
    volts: float
    shunt_mohm: float
    tolerance: float
    gain: float
    bus_lsb_uv: float
    shunt_lsb_nv: float
    offset_nv: float = 0.0
    offset_bound_nv: float = 0.0
    noise_nv: float = 0.0
    max_w: float = 0.0


@frozen
class SampleSchedule:
    """How a started sensor samples.

    Attributes:
        channels: one per measured rail.
        period_ns: from one sample of a rail to the next. window_ns: of which each is the mean.
        poll_ns: how often to look for new samples. late_ns: how long after its end a sample is found, at most.
        text: the sensor's settings in words, for the provenance.
    """

    channels: tuple[Channel, ...]
    period_ns: int
    window_ns: int
    poll_ns: int
    late_ns: int
    text: str


class RailSensor(Protocol):
    """The sensors of a board's rails behind one backend. Only the sampler's process uses one.

    Attributes:
        rails: those that are measured, in the order of their indices.
    """

    rails: Sequence[RailConfig]

    def start(self, wanted: AdcRange) -> SampleSchedule:
        """Set the sensors up.

        Raises:
            LabError: a sensor does not answer.
        """
        ...

    def read(self) -> Sequence[SensorReading]:
        """The samples that are new since the last call.

        Raises:
            LabError: the backend itself is gone.
        """
        ...

    def close(self) -> None:
        """Leave the sensors as they are."""
        ...


@frozen
class UncertaintyBudget:
    """What the ± of a mean power consists of, in watt (docs/rails.md).

    Attributes:
        resolution_w: one step of the shunt register. sensor_w: its offset and gain. shunt_w: the shunt's tolerance.
        noise_w: the standard error of the averaged samples, times Student's t.
        edges_w: what the two instants of the cut may have let in.
    """

    resolution_w: float
    sensor_w: float
    shunt_w: float
    noise_w: float
    edges_w: float


@frozen
class RailPower:
    """The power of a rail, or of all, in a phase. A rail without a value has none of them.

    Attributes:
        rail: its name; "total" for all.
        volts: nominal. mean_v: measured. uncertainty_v: ± of it.
        mean_w: time-weighted. uncertainty_w: ± of it. min_w, max_w: of single samples.
        energy_j: by trapezoids. energy_uncertainty_j: ± of it.
        samples: how many it is made of. expected: how many there should be.
        measured: False: n/a, the rail has no sensor of its own.
    """

    rail: str
    volts: float = 0.0
    mean_v: float | None = None
    uncertainty_v: float | None = None
    mean_w: float | None = None
    uncertainty_w: float | None = None
    min_w: float | None = None
    max_w: float | None = None
    energy_j: float | None = None
    energy_uncertainty_j: float | None = None
    samples: int = 0
    expected: int = 0
    measured: bool = True
    parts: UncertaintyBudget | None = None
    flags: frozenset[Flag] = frozenset()


@frozen
class PhasePower:
    """What a board drew between two instants.

    Attributes:
        start_ns, end_ns: on CLOCK_MONOTONIC_RAW.
        rails: in the order of the configuration, n/a ones included.
        total: sum of the unrounded rails; without a value where a measured rail has none.
    """

    start_ns: int
    end_ns: int
    rails: tuple[RailPower, ...] = field()
    total: RailPower = field()

    @property
    def flags(self) -> frozenset[Flag]:
        """The flags of all rails."""
        return frozenset().union(self.total.flags, *(rail.flags for rail in self.rails))

    def rail(self, name: str) -> RailPower:
        """The rail of that name.

        Raises:
            KeyError: there is none.
        """
        found = {rail.rail: rail for rail in self.rails}
        return found[name]
