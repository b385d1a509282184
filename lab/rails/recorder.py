"""The sampler's work without its process: from a sensor into a trace."""

from __future__ import annotations

from pathlib import Path

from lab.host import process
from lab.host import runtime as host_runtime
from lab.host.clock import Clock
from lab.host.runtime import SamplerStatus
from lab.rails.config import RailsConfig
from lab.rails.model import RailSensor, Range
from lab.rails.statusreporter import StatusReporter
from lab.rails.trace import TraceFile, TraceMeta, pack


class SensorRecorder:
    """Records one sensor.

    Attributes:
        poll_ns: how often `poll` wants to be called.
    """

    def __init__(
        self,
        config: RailsConfig,
        sensor: RailSensor,
        wanted: Range,
        path: Path,
        clock: Clock,
        scheduling: str,
        runtime: Path | None = None,
    ) -> None:
        """Start the sensor and the trace.

        Args:
            runtime: the runtime folder, in which whoever looks on is told how the sampling goes and where the trace is; None: nobody is.

        Raises:
            LabError: a sensor does not answer.
            ConfigurationError: the trace cannot be written.
        """
        schedule = sensor.start(wanted)
        self.poll_ns = schedule.poll_ns
        self._sensor = sensor
        self._clock = clock
        self._reporter = (
            None if runtime is None else StatusReporter(config.board, schedule, runtime / host_runtime.RAILS)
        )
        self._told = SamplerStatus(config.board, str(path.absolute()), process.identity())
        self._samplers = None if runtime is None else runtime / host_runtime.SAMPLERS
        self._writer = TraceFile(
            path,
            TraceMeta(
                board=config.board,
                rails=config.rails,
                channels=schedule.channels,
                backend=config.backend,
                port=config.port,
                settings=schedule.text,
                wanted=wanted.value,
                period_ns=schedule.period_ns,
                window_ns=schedule.window_ns,
                late_ns=schedule.late_ns,
                clock=clock.name,
                scheduling=scheduling,
            ),
        )
        if self._samplers is not None:
            host_runtime.write(self._samplers, config.board, self._told)

    def poll(self) -> bytes:
        """The records of the samples that are new; empty: there are none.

        Raises:
            LabError: the sensor's backend is gone.
        """
        readings = self._sensor.read()
        return pack(self._clock.now_ns(), readings) if readings else b""

    def store(self, records: bytes) -> None:
        """Append records to the trace; it may have to wait for the disk.

        Raises:
            LabStableError: the disk is full.
        """
        self._writer.add(records)
        if self._reporter is not None:
            self._reporter.count(records)

    def close(self) -> None:
        """The trace says that it is complete."""
        if self._samplers is not None:
            host_runtime.forget(self._samplers, self._told.board, self._told)
        self._writer.end(self._clock.now_ns())
        self._sensor.close()
