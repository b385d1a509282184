"""Wiring of a board's rails to their sensors, per board serial."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import cattrs
from attrs import asdict, evolve, field, fields, frozen, validators

from lab import extensions
from lab.boards import BoardType
from lab.errors import ConfigurationError
from lab.rails.ina_chips import CHIPS

INA: Final = frozenset(CHIPS)
AUTOMATION: Final = "automation"
BACKENDS: Final = (*CHIPS, AUTOMATION, "iio", "hwmon")
LOCAL_IIO: Final = "local:"
STANDARD_KHZ: Final = 400  # fast mode; I2C-bus specification UM10204


def backends() -> tuple[str, ...]:
    """All backends: boardlab's, and those of installed packages."""
    return (*BACKENDS, *extensions.names(extensions.RAILS))


def _pair(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(values)


@frozen
class RailConfig:
    """A rail and its current monitor.

    Attributes:
        name: as the guides spell it, e.g. "vdd_core".
        volts: nominal; expected by the self-test while the board is on.
        address: I2C address; 0: the backend has no addresses.
        shunt_mohm: in milliohm; 0: the backend reports currents.
        tolerance: of the shunt, as a share; 1 % unless the board's parts list says better.
        max_w: maximum power, e.g. the limit of its supply; 0: unknown.
        shared_with: the rail whose supply also feeds this one: it has no monitor of its own and stays n/a.
        offset_uv: the shunt voltage that is read at no current, which is subtracted (`lab rails selftest --zero`).
        channel: the backend's name of the rail (the kernel's name of a hwmon or IIO device, e.g. 1-0040, or its label);
            empty: the rail's name.
        scaled, range_v: as of lab.boards.hardware.Rail.
        input: it feeds the other rails: it is not in their total, which cannot be above it.
    """

    name: str
    volts: float = field(validator=validators.gt(0.0))
    address: int = field(default=0, validator=validators.in_(range(0x78)))
    shunt_mohm: float = field(default=0.0, validator=validators.ge(0.0))
    tolerance: float = field(default=0.01, validator=[validators.ge(0.0), validators.lt(1.0)])
    max_w: float = field(default=0.0, validator=validators.ge(0.0))
    shared_with: str = ""
    offset_uv: float | None = None
    channel: str = ""
    scaled: bool = False
    range_v: tuple[float, ...] = field(default=(), converter=_pair)
    input: bool = False

    @property
    def source(self) -> str:
        """The backend's name of its sensor."""
        return self.channel or self.name

    @range_v.validator
    def _check_range(self, _attribute: object, value: tuple[float, ...]) -> None:
        if value and (not self.scaled or len(value) != 2 or not 0.0 < value[0] <= value[1]):
            raise ValueError(
                f"rail {self.name!r}: range_v: expected the lowest and the highest voltage of a rail with `scaled: "
                f"true`, got {list(value)}"
            )


def same_sensor(rail: RailConfig, sensor: str) -> str:
    """The message for a rail whose sensor another rail has, too."""
    return (
        f"rail {rail.name!r}: {sensor} is another rail's too: both would have the numbers of one sensor, and the "
        "total would count it twice. Name the sensor of each rail, or, where a rail has "
        "none, `shared_with` the rail that feeds it"
    )


@frozen
class RailsConfig:
    """The rails of one board and their backend.

    Attributes:
        board: the board's name in the results.
        backend: one of `backends`.
        port: of the sensors. INA2xx: /dev/i2c-N, an FTDI adapter as `ftdi://...`, or `unix:PATH` of a virtual
            board. automation: its serial port. iio: `local:` or `ip:HOST`. hwmon: a folder, e.g. /sys/class/hwmon.
        bus_khz: the I2C clock; it bounds the sampling rate.
        dut: the Automation Interface's name of the board, for `auto set dut`: one word, since a line break would begin
            another command.
        adapter: the identity that the sensors' adapter must have (`lab.rails.sensors.adapter_of`); empty: any.
        reported: its samples and gaps count in the host's metrics; False: no energy is measured from them.
    """

    board: str
    backend: str = field()
    port: str = field(validator=validators.min_len(1))
    rails: tuple[RailConfig, ...]
    bus_khz: int = field(default=STANDARD_KHZ, validator=validators.in_(range(10, 5001)))
    dut: str = field(default="", validator=validators.matches_re(r"[!-~]*"))
    reported: bool = True
    adapter: str = ""

    @backend.validator
    def _check_backend(self, _attribute: object, value: str) -> None:
        if value not in (names := backends()):
            raise ValueError(
                f"backend {value!r}: there are {', '.join(names)}; a package adds "
                f"one by the entry point {extensions.RAILS}"
            )

    def __attrs_post_init__(self) -> None:
        names = [rail.name for rail in self.rails]
        addresses = [rail.address for rail in self.measured]
        channels = [rail.source for rail in self.measured]
        if all(rail.input for rail in self.measured):
            raise ValueError("expected at least one rail with a sensor of its own, beside that of the input")
        for rail in self.rails:
            if names.count(rail.name) > 1:
                raise ValueError(f"rail {rail.name!r} is there twice")
            if rail.shared_with and rail.shared_with not in names:
                raise ValueError(f"rail {rail.name!r}: shared_with names {rail.shared_with!r}, which is no rail")
            if rail.shared_with:
                continue
            if self.backend not in INA:
                if channels.count(rail.source) > 1:
                    raise ValueError(same_sensor(rail, f"channel {rail.source!r}"))
                if self._is_probed_number(rail.source):
                    raise ValueError(
                        f"rail {rail.name!r}: {rail.source} is another device's when the kernel finds them in another "
                        "order; name the device itself, e.g. `channel: 1-0040` (bus 1, address 0x40: "
                        "`ls -l /sys/class/hwmon/*/device /sys/bus/iio/devices`)"
                    )
                continue
            if not rail.address or not rail.shunt_mohm:
                raise ValueError(
                    f"rail {rail.name!r}: needs `address` and `shunt_mohm`; the board's schematic has them, "
                    "`lab rails selftest` says what answers where"
                )
            if addresses.count(rail.address) > 1:
                raise ValueError(same_sensor(rail, f"address {rail.address:#04x}"))

    def _is_probed_number(self, source: str) -> bool:
        """True for a kernel's number; an iiod's context has no other name of most devices."""
        match self.backend:
            case "hwmon":
                return re.fullmatch(r"hwmon\d+(/\d+)?", source) is not None
            case "iio":
                return self.port == LOCAL_IIO and re.fullmatch(r"iio:device\d+", source) is not None
        return False

    @property
    def measured(self) -> tuple[RailConfig, ...]:
        """The rails with a sensor, in order."""
        return tuple(rail for rail in self.rails if not rail.shared_with)

    def dumps(self) -> str:
        """Encode as JSON for the sampler."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> RailsConfig:
        """Decode the JSON of `dumps`."""
        return cattrs.structure(json.loads(text), cls)


def from_env(
    board: str,
    backend: str,
    port: str,
    rails: Mapping[str, Mapping[str, Any] | None],
    board_type: BoardType,
    **more: Any,
) -> RailsConfig:
    """A board's configuration from its type and its environment.

    Args:
        rails: rail -> fields of RailConfig to add or replace; a rail unknown to the type needs `volts`.
        more: `bus_khz`, `dut`.

    Raises:
        ConfigurationError: an unknown key, a wrong value, or a rail without its address or shunt.
    """
    try:
        configs = {
            rail.name: RailConfig(
                rail.name,
                rail.volts,
                rail.address,
                rail.shunt_mohm,
                scaled=rail.scaled,
                range_v=tuple(rail.range_v),
            )
            for rail in board_type.rails
        }
        for name, changes in rails.items():
            configs[name] = _override(name, configs.get(name), changes or {})
        return RailsConfig(board, backend, port, tuple(configs.values()), **more)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"the rails of {board}: {error.args[0] if error.args else error}") from error


def _override(name: str, rail: RailConfig | None, given: Mapping[str, Any]) -> RailConfig:
    takes = [attribute.name for attribute in fields(RailConfig) if attribute.name != "name"]
    for key in given:
        if key not in takes:
            raise ValueError(f"rail {name!r}: unknown key {key!r}; it takes: {', '.join(takes)}")
    if rail is None:
        if "volts" not in given:
            raise ValueError(f"rail {name!r}: the board type does not know it, so it needs `volts`")
        return RailConfig(name, **given)
    return evolve(rail, **given)
