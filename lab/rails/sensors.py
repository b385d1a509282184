"""Sensors and buses of a configuration, loaded on demand."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final, cast

from lab import extensions
from lab.errors import ConfigurationError, LabStableError
from lab.host import devices
from lab.host.devices import DeviceIdentity
from lab.rails.config import AUTOMATION, BACKENDS, INA, RailsConfig
from lab.rails.i2c import I2cBus
from lab.rails.model import RailSensor

_MODULES: Final = {  # backend -> where its sensor is; only the one that is asked for is imported
    AUTOMATION: ("lab.rails.automation", "AutomationSensor"),
    "iio": ("lab.rails.iio", "IioSensor"),
    "hwmon": ("lab.rails.hwmon", "HwmonSensor"),
}
UNIX: Final = "unix:"
FTDI: Final = "ftdi:"


def open_bus(config: RailsConfig) -> I2cBus:
    """The bus that a configuration names.

    Raises:
        ConfigurationError: the bus or its library is missing.
        LabStableError: the bus cannot be opened.
    """
    if config.port.startswith(UNIX):
        from lab.rails.i2c import SocketBus  # noqa: PLC0415 - only the one that is asked for

        return SocketBus(config.port.removeprefix(UNIX))
    if config.port.startswith(FTDI):
        try:
            from lab.rails.ftdi import open_ftdi  # noqa: PLC0415
        except ImportError as error:
            raise ConfigurationError(f"{config.port}: needs pyftdi: install boardlab[ftdi]") from error
        return open_ftdi(config.port, config.bus_khz)
    if config.port.startswith("/dev/i2c-"):
        from lab.rails.i2c import open_linux  # noqa: PLC0415

        return open_linux(config.port)
    raise ConfigurationError(
        f"the rails of {config.board}: port {config.port!r} is no I2C bus; expected /dev/i2c-N, "
        "ftdi://VENDOR:PRODUCT/1 or unix:PATH"
    )


def adapter_of(config: RailsConfig) -> str:
    """Identity of the adapter with the sensors, or of each sensor's device; empty: sysfs has none.

    Raises:
        ConfigurationError: a rail has no device, and none was sampled before.
        LabStableError: another one than the configuration's has the port now, or one of its devices is gone.
    """
    if config.backend == "hwmon":
        from lab.rails.hwmon import find_channel  # noqa: PLC0415 - only the one that is asked for

        try:
            folders = [find_channel(Path(config.port), rail).folder for rail in config.measured]
        except ConfigurationError as error:
            if not config.adapter:
                raise
            raise LabStableError(
                f"a sensor that was sampled before is gone; was its driver unbound, or its adapter unplugged? {error}",
                failure="power_sensor",
            ) from error
        paths = [str(folder.with_name("hwmon")) for folder in folders]  # without its number
    elif config.port.startswith("/dev/"):
        paths = [f"{devices.SYSFS}{devices.sysfs_path(Path(config.port))}"]
    else:
        paths = []
    within = [path.removeprefix(f"{devices.SYSFS}/") for path in paths if path.startswith(f"{devices.SYSFS}/")]
    adapter = ", ".join(sorted({str(DeviceIdentity.of_path(f"/{path}")) for path in within}))
    if config.adapter and config.adapter != adapter:
        raise LabStableError(
            f"the rails of {config.board}: {config.port} is {adapter or 'no device'} now, and was {config.adapter} "
            "before; nothing was measured. Plug the adapter into its socket again",
            failure="power_sensor",
        )
    return adapter


def open_sensor(config: RailsConfig) -> RailSensor:
    """Return a configuration's sensors, not started yet.

    Raises:
        ConfigurationError: the port or its library is missing.
        LabError: the sensor does not answer.
    """
    if config.backend in INA:
        from lab.rails.ina import InaSensor  # noqa: PLC0415
        from lab.rails.ina_chips import CHIPS  # noqa: PLC0415

        return InaSensor(config, CHIPS[config.backend], open_bus(config))
    if config.backend in _MODULES:
        module, name = _MODULES[config.backend]
        return cast("RailSensor", getattr(importlib.import_module(module), name)(config))
    if config.backend in BACKENDS:
        raise ConfigurationError(
            f"the rails of {config.board}: no module of boardlab serves the backend {config.backend!r}; report this"
        )
    sensor = extensions.load_one(extensions.RAILS, config.backend)(config)
    if not all(callable(getattr(sensor, name, None)) for name in ("start", "read", "close")):
        raise extensions.wrong(
            extensions.RAILS, config.backend, "a function from a RailsConfig to a RailSensor", sensor
        )
    return cast("RailSensor", sensor)
