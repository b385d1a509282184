"""The records of power: readings, and power of phases."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, Self

from attrs import field, frozen

from lab.metrics import Flag, uncertainty
from lab.rails.config import RailConfig
from lab.rails.ina_chips import BUS_OFFSET_UV


class TraceMark(enum.IntFlag):
    """The mark of a trace's record; 0: a good sample."""

    NACK = 1  # the sensor did not answer: no values
    SATURATED = 2  # the shunt voltage is at the end of the sensor's range
    RESET = 4  # the sensor had lost its settings, and was given them again
    STALE = 8  # the sensor answers and converts no more: no values
    IMPLAUSIBLE = 16  # the sensor's answer is no number, or too large for a record: no values


NO_VALUES: Final = int(TraceMark.NACK | TraceMark.STALE | TraceMark.IMPLAUSIBLE)
LARGEST: Final = 2**31 - 1  # microvolt or nanovolt in a record: 2 kV on the rail, 2 V on the shunt


class AdcRange(enum.StrEnum):
    """The expected power, which decides on a sensor's averaging (`lab.rails.ina`)."""

    ACTIVE = "active"  # a board that boots, idles or works: about a thousand samples a second
    SLEEP = "sleep"  # a board that sleeps at some milliwatt: about one sample a second


class SensorReading(NamedTuple):
    """One conversion of one sensor.

    Attributes:
        rail: its index among the measured rails.
        bus_uv: microvolt.
        shunt_nv: nanovolt, before any correction.
        mark: see `TraceMark`.
    """

    rail: int
    bus_uv: int
    shunt_nv: int
    mark: int = 0

    @classmethod
    def of(
        cls,
        rail: int,
        bus: str | float,
        bus_step_uv: float,
        shunt: str | float,
        shunt_step_nv: float,
        range_nv: float = math.inf,
    ) -> Self:
        """A reading of unchecked values, scaled by their steps.

        Values beyond all bounds, or beyond the shunt's range of the chip, get a mark.
        """
        try:
            bus_uv, shunt_nv = round(float(bus) * bus_step_uv), round(float(shunt) * shunt_step_nv)
        except (ValueError, OverflowError):  # no number, nan, inf
            return cls(rail, 0, 0, TraceMark.IMPLAUSIBLE)
        if max(abs(bus_uv), abs(shunt_nv)) > LARGEST or abs(shunt_nv) > range_nv:
            return cls(rail, 0, 0, TraceMark.IMPLAUSIBLE)
        return cls(rail, bus_uv, shunt_nv)


@frozen
class Channel:
    """A sensor's properties on one rail, as in the trace.

    Attributes:
        shunt_mohm: for its currents.
        tolerance: of the shunt.
        gain: greatest gain error of the sensor, as a share.
        bus_lsb_uv, shunt_lsb_nv: one step of its registers.
        offset_nv: subtracted from each shunt voltage.
        offset_bound_nv: bound of the rest.
        bus_offset_uv: bound of the bus voltage's offset.
        noise_nv: standard deviation of one sample's shunt voltage.
        max_w: maximum power of the rail; 0: unknown.
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
    bus_offset_uv: float = BUS_OFFSET_UV

    @classmethod
    def of(cls, rail: RailConfig, **sensor: float) -> Self:
        """A rail's channel; `sensor`: the fields that the environment does not tell."""
        offset_nv = (rail.offset_uv or 0.0) * 1000
        return cls(rail.name, rail.volts, tolerance=rail.tolerance, offset_nv=offset_nv, max_w=rail.max_w, **sensor)


@frozen
class SampleSchedule:
    """The timing of a started sensor.

    Attributes:
        channels: one per measured rail.
        period_ns: from one sample of a rail to the next.
        window_ns: of which each is the mean.
        poll_ns: period of looks for new samples.
        late_ns: maximum delay of a sample's discovery.
        text: the sensor's settings, for the provenance.
    """

    channels: tuple[Channel, ...]
    period_ns: int
    window_ns: int
    poll_ns: int
    late_ns: int
    text: str


class RailSensor(Protocol):
    """A backend's sensors of a board's rails, used by the sampler.

    Attributes:
        rails: the measured ones, by index.
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
    """The components of a mean power's ±, in watt (docs/rails.md).

    Attributes:
        resolution_w: one step of the shunt register.
        sensor_w: its offset and gain.
        shunt_w: the shunt's tolerance.
        noise_w: the standard error of the averaged samples, times Student's t.
        edges_w: uncertainty of the cut's two instants.
    """

    resolution_w: float
    sensor_w: float
    shunt_w: float
    noise_w: float
    edges_w: float


@frozen
class RailPower:
    """The power of a rail, or of all, in a phase.

    Without a value all fields of it are None.

    Attributes:
        rail: its name; "total" for all.
        volts: nominal.
        mean_v: measured.
        uncertainty_v: ± of it.
        mean_w: time-weighted.
        uncertainty_w: ± of it.
        min_w, max_w: of single samples.
        energy_j: by trapezoids.
        energy_uncertainty_j: ± of it.
        samples: their number.
        expected: their expected number.
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
    """A board's power between two instants.

    Attributes:
        start_ns, end_ns: on CLOCK_MONOTONIC_RAW.
        rails: in the order of the configuration, n/a ones included.
        total: sum of the unrounded rails; without a value if a measured rail has none.
        inputs: names of the rails that feed the others, and are not in the total.
    """

    start_ns: int
    end_ns: int
    rails: tuple[RailPower, ...] = field()
    total: RailPower = field()
    inputs: tuple[str, ...] = ()

    @property
    def efficiency(self) -> tuple[float, float] | None:
        """The total by the power of the inputs, and its ±, in percent; None: no input, or a power is missing."""
        fed = [rail for rail in self.rails if rail.rail in self.inputs]
        total, total_bound = self.total.mean_w, self.total.uncertainty_w
        if not fed or total is None or total_bound is None:
            return None
        watts = [rail.mean_w for rail in fed if rail.mean_w is not None]
        input_w = sum(watts)
        if len(watts) < len(fed) or input_w <= 0:
            return None
        given_bound = uncertainty.combine([rail.uncertainty_w or 0.0 for rail in fed])
        share = total / input_w
        return 100 * share, 100 * uncertainty.combine((total_bound / input_w, share * given_bound / input_w))

    @property
    def flags(self) -> frozenset[Flag]:
        """The flags of all rails."""
        return frozenset().union(self.total.flags, *(rail.flags for rail in self.rails))

    def rail(self, name: str) -> RailPower:
        """The rail of that name.

        Raises:
            KeyError: no such rail.
        """
        by_name = {rail.rail: rail for rail in self.rails}
        return by_name[name]
