"""The sampler's process: `python -m lab.rails.sampler --trace FILE --range active`.

Its configuration comes on stdin, a line for each sampling.

It prints `ready` on stdout when the sensors convert and the trace exists. An empty line ends the sampling, and it
prints `done`: a process that is kept spares the next sampling a start of Python. It ends when its stdin is closed: by
its parent, or by the kernel after the parent's death. It has its own session, so that a Ctrl-C in the terminal reaches
the measuring process, which then ends it. An error is one line on stderr.
"""

from __future__ import annotations

import argparse
import gc
import os
import select
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final

from attrs import define, evolve

from lab.errors import BoardlabError, ConfigurationError
from lab.host import process, status_files
from lab.host.clock import NS_PER_S, Clock, MonotonicRaw, utc_now
from lab.host.runtime import runtime_dir
from lab.host.scheduling import IdleStates, raise_priority
from lab.host.status_files import SamplerStatus
from lab.rails.config import RailsConfig
from lab.rails.model import AdcRange, RailSensor, SampleSchedule
from lab.rails.sensors import adapter_of, open_sensor
from lab.rails.trace import RECORD, TraceFile, TraceMeta, TraceWriter, pack
from lab.terminal import plain_text


class SensorRecorder:
    """Records one sensor.

    Attributes:
        poll_ns: period of calls of `poll`.
    """

    def __init__(
        self,
        config: RailsConfig,
        sensor: RailSensor,
        wanted: AdcRange,
        path: Path,
        clock: Clock,
        scheduling: str,
        runtime: Path | None = None,
    ) -> None:
        """Start the sensor and the trace.

        Args:
            runtime: the runtime folder for the sampling's status; None: no status.

        Raises:
            LabError: a sensor does not answer.
            ConfigurationError: the trace cannot be written.
        """
        schedule = sensor.start(wanted)
        self.poll_ns = schedule.poll_ns
        self._sensor = sensor
        self._clock = clock
        self._reporter = (
            StatusReporter(config.board, schedule, runtime / status_files.RAILS)
            if runtime is not None and config.reported
            else None
        )
        self._told = SamplerStatus(config.board, str(path.absolute()), process.identity())
        self._samplers = None if runtime is None else runtime / status_files.SAMPLERS
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
                adapter=config.adapter,
            ),
        )
        if self._samplers is not None:
            status_files.write(self._samplers, config.board, self._told)

    def poll(self) -> bytes:
        """Return the records of new samples; empty: none.

        Raises:
            LabError: the sensor's backend has vanished.
        """
        readings = self._sensor.read()
        return pack(self._clock.now_ns(), readings) if readings else b""

    def store(self, records: bytes) -> None:
        """Append records to the trace; may wait for the disk.

        Raises:
            LabStableError: the disk is full.
        """
        self._writer.add(records)
        if self._reporter is not None:
            self._reporter.count(records)

    def close(self) -> None:
        """Complete the trace."""
        if self._samplers is not None:
            status_files.forget(self._samplers, self._told.board, self._told)
        self._writer.end(self._clock.now_ns())
        self._sensor.close()


INTERVAL_NS: Final = 2 * NS_PER_S  # between two words about a rail


@define
class _Tally:
    samples: int = 0
    gaps: int = 0
    last_ns: int = 0
    reported_samples: int = 0
    reported_ns: int = 0


class StatusReporter:
    """Counts samples and gaps, and writes each rail's status periodically."""

    def __init__(self, board: str, schedule: SampleSchedule, folder: Path) -> None:
        """Start counting. `folder`: of the status files."""
        self._board = board
        self._rails = [channel.rail for channel in schedule.channels]
        # Two samples that follow each other are found so far apart at most; half a period more is certainly a gap.
        self._gap_ns = schedule.late_ns + schedule.period_ns * 3 // 2
        self._folder = folder
        self._tallies = [_Tally() for _ in self._rails]
        self._next_ns = 0

    def count(self, records: bytes) -> None:
        """Count new records; write the status if it is due."""
        t_ns = 0
        for t_ns, _, _, rail, _ in RECORD.iter_unpack(records):
            tally = self._tallies[rail]
            tally.gaps += bool(tally.last_ns) and t_ns - tally.last_ns > self._gap_ns
            tally.samples += 1
            tally.last_ns = t_ns
        if t_ns >= self._next_ns:
            self._next_ns = t_ns + INTERVAL_NS
            for rail, tally in zip(self._rails, self._tallies, strict=True):
                elapsed_s = (t_ns - tally.reported_ns) / NS_PER_S
                rate_hz = (tally.samples - tally.reported_samples) / elapsed_s if tally.reported_ns else 0.0
                tally.reported_samples, tally.reported_ns = tally.samples, t_ns
                status = status_files.RailStatus(
                    self._board, rail, rate_hz, tally.samples, tally.gaps, utc_now().timestamp()
                )
                status_files.write(self._folder, f"{self._board}/{rail}", status)


EXIT_LAB, EXIT_CONFIGURATION = 1, 2
READY: Final = b"ready\n"
DONE: Final = b"done\n"
LISTEN_NS: Final = 50_000_000  # interval of checks for the end of stdin
_STDIN, _STDOUT = 0, 1


class _Ending:
    """Set by SIGTERM."""

    def __init__(self) -> None:
        self.now = False
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.now = True


def record(config: RailsConfig, wanted: AdcRange, path: Path) -> bool:
    """Sample until an empty line comes on stdin, its end, or SIGTERM; True: another sampling may follow.

    Raises:
        BoardlabError: it cannot go on.
    """
    ending = _Ending()
    clock = MonotonicRaw()
    sensor = open_sensor(config)
    config = evolve(config, adapter=adapter_of(config))
    scheduling = raise_priority()
    idle_states = IdleStates()
    idle_states.forbid(wanted is AdcRange.ACTIVE)  # a sleeping board has a sample a second, and those may be late
    gc.disable()  # nothing here makes cycles, and a collection would make a poll late
    recorder = SensorRecorder(config, sensor, wanted, path, clock, scheduling.text, runtime_dir())
    period_ns = recorder.poll_ns
    due_ns = clock.now_ns()
    listened_ns = due_ns
    stop: bytes | None = None
    with TraceWriter(recorder.store) as writer:
        os.write(_STDOUT, READY)
        while stop is None and not ending.now:
            if records := recorder.poll():
                writer.put(records)
            due_ns += period_ns
            late_ns = clock.now_ns() - due_ns
            if late_ns >= period_ns:
                due_ns += late_ns // period_ns * period_ns  # missed samples stay missing; the trace shows it
            else:
                time.sleep(max(0, -late_ns) / 1e9)
            if due_ns - listened_ns >= LISTEN_NS:
                listened_ns = due_ns
                # The empty line that ends a sampling; empty: stdin has ended; None: neither.
                ready, _, _ = select.select([_STDIN], [], [], 0)
                stop = os.read(_STDIN, 1) if ready else None
    recorder.close()
    idle_states.forbid(False)
    if stop:
        os.write(_STDOUT, DONE)
    return bool(stop)


def _line() -> str:
    """Read a line of stdin unbuffered: the pipe is watched later. Empty: it has ended."""
    line = b""
    while not line.endswith(b"\n") and (more := os.read(_STDIN, 1 << 16)):
        line += more
    return line.decode()


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m lab.rails.sampler", description="boardlab's power sampler")
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--range", type=AdcRange, default=AdcRange.ACTIVE)
    options = parser.parse_args()
    try:
        line = _line()
        while line and record(RailsConfig.loads(line), options.range, options.trace):
            line = _line()
    except BoardlabError as error:
        sys.stderr.write(f"{plain_text(str(error))}\n")
        return EXIT_CONFIGURATION if isinstance(error, ConfigurationError) else EXIT_LAB
    return 0


if __name__ == "__main__":
    sys.exit(main())
