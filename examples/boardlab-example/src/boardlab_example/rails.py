"""A rail backend that reads voltage and current from files.

`port` is the folder; the file of a rail has two numbers, in volt and ampere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabStableError
from lab.rails.config import RailConfig, RailsConfig
from lab.rails.model import AdcRange, Channel, SampleSchedule, SensorReading, TraceMark

PERIOD_NS = 10_000_000
SHUNT_MOHM = 10.0  # of a supply that says the current itself, any carries it
STEP_UV, STEP_NV = 1000, 10_000  # 1 mV, and 1 mA through that shunt


class BenchSupply:
    """A `lab.rails.model.RailSensor`."""

    def __init__(self, config: RailsConfig) -> None:
        self.rails: Sequence[RailConfig] = config.measured
        self._files = [Path(config.port) / rail.source for rail in self.rails]

    def start(self, wanted: AdcRange) -> SampleSchedule:  # noqa: ARG002 - it has one setting
        """Describe the samples."""
        channels = tuple(
            Channel.of(rail, shunt_mohm=SHUNT_MOHM, gain=0.001, bus_lsb_uv=STEP_UV, shunt_lsb_nv=STEP_NV)
            for rail in self.rails
        )
        return SampleSchedule(channels, PERIOD_NS, 0, PERIOD_NS, 0, "bench supply: volt and ampere of a file")

    def read(self) -> Sequence[SensorReading]:
        """One sample of each rail.

        Raises:
            LabStableError: a file is gone.
        """
        found = []
        for number, file in enumerate(self._files):
            try:
                volt, ampere = file.read_text().split()
            except OSError as error:
                raise LabStableError(
                    f"{file}: {error.strerror}; is the supply's program up?", failure="power_sensor"
                ) from error
            except ValueError:  # it is being written
                found.append(SensorReading(number, 0, 0, TraceMark.NACK))
            else:
                found.append(SensorReading.of(number, volt, 1e6, ampere, SHUNT_MOHM * 1e6))
        return found

    def close(self) -> None:
        """Do nothing: the files stay."""
