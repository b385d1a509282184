"""The sampler's process: `python -m lab.rails.sampler --trace FILE --range active`, with the configuration on stdin.

It says `ready` on stdout when the sensors convert and the trace is there, and ends when its stdin is closed: by whoever started it,
or by the kernel when that one died, however it died. It is in a session of its own, so that a Ctrl-C in the terminal
reaches the one that measures, which then ends it. An error is one line on stderr.
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

from lab.errors import BoardlabError, ConfigurationError
from lab.host.clock import MonotonicRaw
from lab.host.runtime import runtime_dir
from lab.host.scheduling import IdleStates, raise_priority
from lab.rails.backends import open_sensor
from lab.rails.config import RailsConfig
from lab.rails.model import Range
from lab.rails.recorder import SensorRecorder
from lab.rails.tracewriter import TraceWriter
from lab.shown import plain_text

EXIT_LAB, EXIT_CONFIGURATION = 1, 2
READY: Final = b"ready\n"
LISTEN_NS: Final = 50_000_000  # how often to look whether stdin has ended
_STDIN, _STDOUT = 0, 1


class _Ending:
    """Set by SIGTERM."""

    def __init__(self) -> None:
        self.now = False
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.now = True


def record(config: RailsConfig, wanted: Range, path: Path) -> None:
    """Sample until stdin is closed or SIGTERM comes.

    Raises:
        BoardlabError: it cannot go on.
    """
    ending = _Ending()
    clock = MonotonicRaw()
    sensor = open_sensor(config)
    scheduling = raise_priority()
    idle_states = IdleStates()
    idle_states.forbid(wanted is Range.ACTIVE)  # a sleeping board has a sample a second, and those may be late
    gc.disable()  # nothing here makes cycles, and a collection would make a poll late
    recorder = SensorRecorder(config, sensor, wanted, path, clock, scheduling.text, runtime_dir())
    period_ns = recorder.poll_ns
    due_ns = clock.now_ns()
    listened_ns = due_ns
    with TraceWriter(recorder.store) as writer:
        os.write(_STDOUT, READY)
        while not ending.now:
            if records := recorder.poll():
                writer.put(records)
            due_ns += period_ns
            late_ns = clock.now_ns() - due_ns
            if late_ns >= period_ns:
                due_ns += late_ns // period_ns * period_ns  # what was missed is missing; the trace shows it
            else:
                time.sleep(max(0, -late_ns) / 1e9)
            if due_ns - listened_ns >= LISTEN_NS:
                listened_ns = due_ns
                if _closed():
                    break
    recorder.close()
    idle_states.forbid(False)


def _line() -> str:
    """The first line of stdin, read without a buffer, since the pipe is watched later."""
    line = b""
    while not line.endswith(b"\n") and (more := os.read(_STDIN, 1 << 16)):
        line += more
    return line.decode()


def _closed() -> bool:
    """Whether stdin has ended."""
    ready, _, _ = select.select([_STDIN], [], [], 0)
    return bool(ready) and not os.read(_STDIN, 1)


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m lab.rails.sampler", description="boardlab's power sampler")
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--range", type=Range, default=Range.ACTIVE)
    given = parser.parse_args()
    try:
        record(RailsConfig.loads(_line()), given.range, given.trace)
    except BoardlabError as error:
        sys.stderr.write(f"{plain_text(str(error))}\n")
        return EXIT_CONFIGURATION if isinstance(error, ConfigurationError) else EXIT_LAB
    return 0


if __name__ == "__main__":
    sys.exit(main())
