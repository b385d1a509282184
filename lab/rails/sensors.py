"""From a configuration to the sensors behind it."""

from __future__ import annotations

from lab.rails.config import INA, RailsConfig
from lab.rails.model import RailSensor


def open_sensor(config: RailsConfig) -> RailSensor:
    """The sensors of a board's rails, not started yet. Only the backend that is asked for is loaded.

    Raises:
        ConfigurationError: the port or its library is not there.
        LabError: it does not answer.
    """
    if config.backend in INA:
        from lab.rails.buses import open_bus  # noqa: PLC0415
        from lab.rails.chips import CHIPS  # noqa: PLC0415
        from lab.rails.ina import InaSensor  # noqa: PLC0415

        return InaSensor(config, CHIPS[config.backend], open_bus(config))
    if config.backend == "automation":
        from lab.rails.automation import AutomationSensor  # noqa: PLC0415

        return AutomationSensor(config)
    if config.backend == "iio":
        from lab.rails.iio import IioSensor  # noqa: PLC0415

        return IioSensor(config)
    from lab.rails.hwmon import HwmonSensor  # noqa: PLC0415

    return HwmonSensor(config)
