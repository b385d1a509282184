"""Linux Industrial I/O through libiio: `local:`, or `ip:HOST` (e.g. BayLibre's ACME).

Channels and attributes as drivers/iio/adc/ina2xx-adc.c has them: voltage0 is the shunt, voltage1 the bus, both with
`raw` and a `scale` in millivolt. pylibiio before 1.0 goes with libiio 0.x, which distributions carry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from lab.errors import ConfigurationError, LabStableError
from lab.rails.config import LOCAL_IIO, RailConfig, RailsConfig, same_sensor
from lab.rails.ina_chips import CHIPS, shunt_range_nv
from lab.rails.model import AdcRange, Channel, SampleSchedule, SensorReading, TraceMark

if TYPE_CHECKING:
    import iio

PERIOD_NS: Final = {AdcRange.ACTIVE: 10_000_000, AdcRange.SLEEP: 200_000_000}  # each attribute is a round trip
SLOWEST_HZ: Final = 0.05  # of the chip: 1,024 conversions of 8.2 ms each for shunt and bus
DEVICES: Final = Path("/sys/bus/iio/devices")
_FREQUENCY: Final = "in_sampling_frequency"  # drivers/iio/adc/ina2xx-adc.c: by averaging and conversion times
_PACKAGE: Final = "libiio0"  # of Debian and Ubuntu


@frozen
class _Attributes:
    """A rail's raw attributes, and their steps in millivolt.

    Attributes:
        device: its id in the context.
        interval_ns: from one conversion to the next, by `in_sampling_frequency`; 0: the driver does not say.
    """

    device: str
    shunt: iio.ChannelAttr
    bus: iio.ChannelAttr
    shunt_mv: float
    bus_mv: float
    shunt_mohm: float
    chip: str
    interval_ns: int


class IioSensor:
    """A `lab.rails.model.RailSensor`; rails are IIO devices by `channel`.

    That is the kernel's name of the device (1-0040; of an iiod its id), its label or its driver's name.
    """

    def __init__(self, config: RailsConfig) -> None:
        """Open the context and find the devices.

        Raises:
            ConfigurationError: libiio is missing, no server answers, or a rail has no device.
        """
        try:
            import iio  # noqa: PLC0415 - loads the distribution's library
        except (ImportError, OSError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{config.port}: libiio is not installed ({error}); install {_PACKAGE} and pylibiio<1"
            ) from error
        self.rails: Sequence[RailConfig] = config.measured
        self._port = config.port
        try:
            self._context = iio.Context(config.port)
        except OSError as error:
            raise ConfigurationError(
                f"{config.port}: no IIO context: {error.strerror}; start iiod there, or mend `port` in the env"
            ) from error
        self._attributes = [self._find(rail) for rail in self.rails]
        for number, (rail, sensor) in enumerate(zip(self.rails, self._attributes, strict=True)):
            if sensor.device in [other.device for other in self._attributes[:number]]:
                raise ConfigurationError(f"{self._port}: {same_sensor(rail, sensor.device)}")

    def start(self, wanted: AdcRange) -> SampleSchedule:
        """Set up; the driver's own averaging stays."""
        interval_ns = max(sensor.interval_ns for sensor in self._attributes)
        period_ns = max(PERIOD_NS[wanted], interval_ns)
        channels = []
        for rail, sensor in zip(self.rails, self._attributes, strict=True):
            chip = CHIPS.get(sensor.chip, CHIPS["ina226"])  # of an unknown chip: the usual one's
            channels.append(
                Channel.of(
                    rail,
                    shunt_mohm=sensor.shunt_mohm,
                    gain=chip.gain,
                    bus_lsb_uv=sensor.bus_mv * 1e3,
                    shunt_lsb_nv=sensor.shunt_mv * 1e6,
                    bus_offset_uv=chip.bus_offset_uv,
                    offset_bound_nv=chip.offset_bound_nv(rail.offset_uv),
                )
            )
        return SampleSchedule(
            tuple(channels),
            period_ns=period_ns,
            window_ns=interval_ns,
            poll_ns=period_ns,
            late_ns=interval_ns,
            text="iio: raw and scale; averaging of the driver",
        )

    def read(self) -> Sequence[SensorReading]:
        """A reading of each rail.

        That of a device without an answer has no values.

        Raises:
            LabStableError: none answers.
        """
        readings = []
        for number, sensor in enumerate(self._attributes):
            try:
                shunt, bus = sensor.shunt.value, sensor.bus.value
            except OSError:
                readings.append(SensorReading(number, 0, 0, TraceMark.NACK))
            else:
                steps = (bus, sensor.bus_mv * 1e3, shunt, sensor.shunt_mv * 1e6)
                readings.append(SensorReading.of(number, *steps, shunt_range_nv(sensor.chip)))
        if all(reading.mark == TraceMark.NACK for reading in readings):
            raise LabStableError(f"{self._port}: no device answers any more; is iiod gone?", failure="power_sensor")
        return readings

    def close(self) -> None:
        """Drop the context, with which libiio ends its connection."""
        del self._attributes, self._context

    def _number(self, where: str, name: str, attributes: Mapping[str, iio.ChannelAttr | iio.DeviceAttr]) -> float:
        """An attribute's positive number; `where`: its device, for the message.

        Raises:
            ConfigurationError: it is missing, or no such number.
        """
        text = attributes[name].value if name in attributes else "nothing"
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise ConfigurationError(
                f"{self._port}: {where}: expected a positive number in `{name}`, got {text!r:.60}; is it a current "
                "monitor, and is its driver right?"
            )
        return number

    def _find(self, rail: RailConfig) -> _Attributes:
        """The attributes of a rail's device.

        Raises:
            ConfigurationError: none or several are called so, or it lacks what a current monitor has.
        """
        source = rail.source
        names = {}
        for device in self._context.devices:
            label = device.attrs["label"].value if "label" in device.attrs else ""
            # The id (iio:device0) follows the order of probing; the kernel's name of the device (1-0040) stays.
            bus_name = (DEVICES / device.id).resolve().parent.name if self._port == LOCAL_IIO else device.id
            names[device.id] = [name for name in (bus_name, device.name, label) if name]
        devices = [device for device in self._context.devices if source in names[device.id]]
        if len(devices) > 1:
            alike = ", ".join("/".join(names[device.id]) for device in devices)
            raise ConfigurationError(
                f"{self._port}: {len(devices)} IIO devices are called {source!r} for rail {rail.name}: {alike}. Name "
                "one with the rail's `channel`"
            )
        if not devices:
            raise ConfigurationError(
                f"{self._port}: no IIO device is called {source!r} for rail {rail.name}; there are: "
                f"{', '.join(map('/'.join, names.values())) or 'none'}. Name it with the rail's `channel`"
            )
        (device,) = devices
        shunt, bus = device.find_channel("voltage0"), device.find_channel("voltage1")
        if shunt is None or bus is None:
            raise ConfigurationError(
                f"{self._port}: {source} has no voltage0 (shunt) and voltage1 (bus); is it a current monitor?"
            )
        shunt_mohm = rail.shunt_mohm
        if not shunt_mohm and "in_shunt_resistor" in device.attrs:  # in ohm
            shunt_mohm = self._number(source, "in_shunt_resistor", device.attrs) * 1000
        if not shunt_mohm:
            raise ConfigurationError(
                f"{self._port}: {source} does not know its shunt; add `shunt_mohm` to {rail.name}"
            )
        interval_ns = 0
        if _FREQUENCY in device.attrs:
            interval_ns = round(1e9 / max(self._number(source, _FREQUENCY, device.attrs), SLOWEST_HZ))
        return _Attributes(
            device=device.id,
            shunt=shunt.attrs["raw"],
            bus=bus.attrs["raw"],
            shunt_mv=self._number(f"{source}, {shunt.id}", "scale", shunt.attrs),
            bus_mv=self._number(f"{source}, {bus.id}", "scale", bus.attrs),
            shunt_mohm=shunt_mohm,
            chip=device.name or "",
            interval_ns=interval_ns,
        )
