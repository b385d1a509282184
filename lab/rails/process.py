"""Sampling in a process of its own during a `with` block."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from attrs import frozen

from lab.errors import ConfigurationError, LabTransientError
from lab.rails.config import RailsConfig
from lab.rails.model import AdcRange
from lab.rails.sampler import DONE, EXIT_CONFIGURATION, READY
from lab.rails.trace import NAP_S, Trace

START_S: Final = 30.0  # a Python start on a loaded host, and the first samples
STOP_S: Final = 20.0
LAG_S: Final = 5.0


class SamplingProcess(Protocol):
    """The sampling process, local or remote; see `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...


@frozen(eq=False)
class Sampler:
    """A running sampler.

    Attributes:
        path: its trace, readable while it grows.
        lag_s: maximum delay of the written samples.
    """

    path: Path
    _process: SamplingProcess
    lag_s: float = LAG_S

    @property
    def pid(self) -> int:
        """Its process id; 0 on another host."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while it samples."""
        return self._process.poll() is None

    def trace(self, until_ns: int = 0) -> Trace:
        """The trace so far; waits for `until_ns` if the sampler runs.

        Recent samples may still be on their way to the disk. A cut of a phase waits for its end; a disk that does
        not answer for `lag_s` leaves a flagged gap.
        """
        deadline = time.monotonic() + self.lag_s
        while True:
            trace = Trace.open(self.path)
            reached_ns = int(trace.records["t_ns"][-1]) if len(trace.records) else 0
            # The next sample may be a period away, and is found late by so much.
            missing = reached_ns + trace.meta.period_ns + trace.meta.late_ns < until_ns
            if not missing or not self.alive or time.monotonic() > deadline:
                return trace
            time.sleep(NAP_S)


def spawn(trace_path: Path, wanted: AdcRange = AdcRange.ACTIVE) -> subprocess.Popen[bytes]:
    """Start a sampler's process, which takes some tenths of a second of a core; it waits for its configuration."""
    return subprocess.Popen(
        [
            sys.executable,
            "-P",
            # Of a module that its package has imported already: it would begin each message.
            "-Wignore::RuntimeWarning:runpy",
            "-m",
            "lab.rails.sampler",
            "--trace",
            str(trace_path.absolute()),
            "--range",
            wanted.value,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )


@contextlib.contextmanager
def sampling(
    config: RailsConfig,
    trace_path: Path,
    wanted: AdcRange = AdcRange.ACTIVE,
    spawned: subprocess.Popen[bytes] | None = None,
) -> Iterator[Sampler]:
    """Sample a board's rails into a trace while the block runs.

    The sensors convert when the block begins. The sampler ends with the block, and with this process: it watches a
    pipe that the kernel closes.

    Args:
        spawned: the process for this trace, if it was started before; it is kept for another sampling into it.

    Raises:
        ConfigurationError: the configuration or the path of the trace is wrong.
        LabTransientError: the sampler could not start, or ended early; the trace has its samples.
    """
    process = spawned or spawn(trace_path, wanted)
    is_kept = False
    try:
        _start(process, config)
        yield Sampler(trace_path, process)
    except BaseException:
        end(process)
        raise
    else:
        alive = process.poll() is None
        is_kept = alive and spawned is not None and _stops(process)
        reason = "" if is_kept else end(process)
        if not is_kept and (not alive or process.returncode):
            raise _error(process.returncode, reason, "ended on the way; its samples so far are in its trace")
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not is_kept:
                with contextlib.suppress(OSError):
                    pipe.close()


def _start(process: subprocess.Popen[bytes], config: RailsConfig) -> None:
    if process.stdin is None or process.stdout is None:
        raise ConfigurationError("the sampler has no pipes")
    with contextlib.suppress(BrokenPipeError):  # it has ended already, and says why
        process.stdin.write(config.dumps().encode() + b"\n")
        process.stdin.flush()
    if not _says(process, READY, START_S):
        late = process.poll() is None and not select.select([process.stdout], [], [], 0)[0]
        reason = end(process)
        raise _error(process.returncode, reason, f"gave no sample within {START_S:.0f} s" if late else "did not start")


def _stops(process: subprocess.Popen[bytes]) -> bool:
    """End a sampling, and keep the process; False: it does not say that the trace is complete."""
    try:
        if process.stdin is not None:
            process.stdin.write(b"\n")
            process.stdin.flush()
    except BrokenPipeError:
        return False
    return _says(process, DONE, STOP_S)


def _says(process: subprocess.Popen[bytes], text: bytes, limit_s: float) -> bool:
    """Wait until the process says a text on its stdout."""
    heard = b""
    deadline = time.monotonic() + limit_s
    while process.stdout is not None and not heard.endswith(text):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        more = os.read(process.stdout.fileno(), 100) if ready else b""
        if not more:
            return False
        heard += more
    return True


def end(process: subprocess.Popen[bytes]) -> str:
    """Close the process's stdin, wait for its end, and return stderr."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return process.stderr.read().decode(errors="replace").strip() if process.stderr else ""


def _error(status: int, reason: str, what: str) -> ConfigurationError | LabTransientError:
    if status == EXIT_CONFIGURATION:
        return ConfigurationError(reason)
    last = reason.splitlines()[-1] if reason else f"it left no message, its exit status is {status}"
    return LabTransientError(f"the power sampler {what}: {last}", failure="power_sampler")
