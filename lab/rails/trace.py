"""Traces: the samples of a board's rails as the sampler wrote them.

A trace is one file: a line of JSON (`TraceMeta`), then records of 18 bytes, `<qiiBB` little-endian (t_ns, bus_uv,
shunt_nv, rail, mark); the last one of a sampler that ended by itself has the rail 255. It may be read while it is
written, and a torn last record, as a full disk leaves it, is not seen. With numpy alone: `np.fromfile(path,
np.dtype([...]), offset=len(first line))`, see docs/rails.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import cattrs
from attrs import asdict, field, frozen

from lab.errors import BoardlabError, ConfigurationError, LabStableError
from lab.rails.config import RailConfig
from lab.rails.model import Channel, SensorReading

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


MAGIC: Final = "boardlab-trace"
VERSION: Final = 1
RECORD: Final = struct.Struct("<qiiBB")
DTYPE: Final = [("t_ns", "<i8"), ("bus_uv", "<i4"), ("shunt_nv", "<i4"), ("rail", "u1"), ("mark", "u1")]
END: Final = 255  # in place of a rail: the last record of a trace that is complete


@frozen
class TraceMeta:
    """The first line of a trace.

    Attributes:
        rails: all of the board, also those without a sensor.
        channels: the measured ones, by their index in the records.
        backend, port, settings: of the sensor.
        wanted: the power range of the settings.
        period_ns, window_ns, late_ns: see `lab.rails.model.SampleSchedule`.
        clock: of t_ns.
        scheduling: of the sampler's process.
        adapter: identity of the sensors' adapter (`lab.rails.sensors.adapter_of`); empty: unknown.
    """

    board: str
    rails: tuple[RailConfig, ...]
    channels: tuple[Channel, ...]
    backend: str
    port: str
    settings: str
    wanted: str
    period_ns: int
    window_ns: int
    late_ns: int
    clock: str
    scheduling: str
    adapter: str = ""

    def provenance(self) -> dict[str, object]:
        """The provenance of a number from this trace."""
        return {
            "sensor": self.backend,
            "sensor_port": self.port,
            "sensor_adapter": self.adapter,
            "sensor_settings": self.settings,
            "sensor_range": self.wanted,
            "sensor_period_ns": self.period_ns,
            "sensor_clock": self.clock,
            "sensor_scheduling": self.scheduling,
            "shunts_mohm": {channel.rail: channel.shunt_mohm for channel in self.channels},
        }


def pack(t_ns: int, readings: Iterable[SensorReading]) -> bytes:
    """The records of samples that were found at `t_ns`."""
    record = RECORD.pack
    return b"".join([record(t_ns, bus_uv, shunt_nv, rail, mark) for rail, bus_uv, shunt_nv, mark in readings])


class TraceFile:
    """Writes a trace; `add` returns when the data is in the file.

    Raises:
        ConfigurationError: the file cannot be created.
    """

    def __init__(self, path: Path, meta: TraceMeta) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be written: {error.strerror}; choose another place") from error
        self._write(json.dumps({"format": MAGIC, "version": VERSION, **asdict(meta)}).encode() + b"\n")

    def add(self, records: bytes) -> None:
        """Append records, as `pack` makes them.

        Raises:
            LabStableError: the disk is full.
        """
        self._write(records)

    def end(self, t_ns: int) -> None:
        """Mark the trace as complete, and close it."""
        self._write(RECORD.pack(t_ns, 0, 0, END, 0))
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            raise LabStableError(f"{self._path}: cannot be written: {error.strerror}", failure="disk") from error
        if written < len(data):
            raise LabStableError(f"{self._path}: the disk is full", failure="disk")


@frozen(eq=False)
class Trace:
    """A trace in memory, as written when it was opened.

    Attributes:
        records: fields t_ns, bus_uv, shunt_nv, rail, mark; in the order of writing.
        ended: the sampler has finished it; else it was killed, or it still writes.
    """

    path: Path
    meta: TraceMeta
    records: npt.NDArray[np.void] = field(repr=False)
    ended: bool

    @classmethod
    def open(cls, path: Path) -> Self:
        """The trace in a file.

        Raises:
            ConfigurationError: no such file, or it is no trace.
        """
        try:
            return cls.of(path, path.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error

    @classmethod
    def of(cls, path: Path, data: bytes) -> Self:
        """The trace of a file's bytes.

        Raises:
            ConfigurationError: it is no trace.
        """
        import numpy as np  # noqa: PLC0415 - the sampler needs the format, and no numpy

        head = data.find(b"\n", 0, 1 << 20) + 1 or len(data)
        meta = meta_of(path, data[:head])
        count = (len(data) - head) // RECORD.size
        records = np.frombuffer(data, np.dtype(DTYPE), count, head) if count else np.empty(0, np.dtype(DTYPE))
        ended = bool(len(records)) and int(records["rail"][-1]) == END
        return cls(path, meta, records[:-1] if ended else records, ended)

    @property
    def span_ns(self) -> tuple[int, int]:
        """The instants of the first and the last sample.

        Raises:
            ConfigurationError: no samples.
        """
        if not len(self.records):
            raise ConfigurationError(f"{self.path}: no samples; was the sampler killed at once?")
        return int(self.records["t_ns"][0]), int(self.records["t_ns"][-1])


def meta_of(path: Path, line: bytes) -> TraceMeta:
    """The first line of a trace.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        document = json.loads(line)
        is_trace = document.pop("format", None) == MAGIC and document.pop("version", None) == VERSION
        meta = cattrs.structure(document, TraceMeta) if is_trace else None
    except (ValueError, TypeError, AttributeError, cattrs.BaseValidationError):
        meta = None
    if meta is None:
        raise ConfigurationError(
            f"{path}: expected a power trace of version {VERSION}, found {line[:40]!r}; `lab rails trace` writes them"
        )
    return meta


# --- The writing process ---
# write(2) returns at once most of the time, since it goes to the page cache; but now and then it waits for the file
# system's journal, on a busy disk for tens of milliseconds, in which the sensors overwrite unread values. So the
# sampler writes into a pipe, and a fork of it empties the pipe. It ends when the pipe is closed, by the kernel if need
# be: a killed sampler's delivered samples are kept. A thread would not do: it holds Python's lock while it works.


NAP_S: Final = 0.01  # between two batches: so far behind may a reader of the file be
PIPE_BYTES: Final = 1 << 20  # the kernel's limit for users; ten seconds of samples while the disk does not answer


class TraceWriter:
    """Hands bytes to a writing process; complete at the block's end."""

    def __init__(self, store: Callable[[bytes], None]) -> None:
        """Fork; `store` takes the bytes in order, in the other process."""
        source, self._pipe = os.pipe()
        self._complaint, complaint = os.pipe()
        with contextlib.suppress(OSError):  # all pipes of this user together may take only so much
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._pipe)
            _work(source, complaint, store)
        os.close(source)
        os.close(complaint)

    def put(self, data: bytes) -> None:
        """Hand bytes on; waits only when they are some ten seconds behind.

        Raises:
            LabStableError: earlier ones could not be written.
        """
        try:
            os.write(self._pipe, data)
        except BrokenPipeError:
            raise self._broken() from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait until all bytes are written.

        Raises:
            LabStableError: bytes could not be written, and no `put` has raised it.
        """
        os.close(self._pipe)
        status = os.waitpid(self._pid, 0)[1]
        broken = self._broken() if status else None
        os.close(self._complaint)
        if broken is not None and kind is None:
            raise broken

    def _broken(self) -> LabStableError:
        complaint = os.read(self._complaint, 1 << 16).decode()
        return LabStableError(
            complaint or f"pid {self._pid}, which keeps the samples, ended too early", failure="disk"
        )


def _work(source: int, complaint: int, store: Callable[[bytes], None]) -> None:
    """Run the writing process; never returns.

    Args:
        source: descriptor of the pipe with the bytes to store.
        complaint: descriptor for the message of an error, which the sampler raises.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the sampler's end is its end
    status = 1
    try:
        # A write of less than PIPE_BUF is there as a whole or not at all, and a read takes all that is there: pipe(7).
        while data := os.read(source, PIPE_BYTES):
            store(data)
            time.sleep(NAP_S)
        status = 0
    except BoardlabError as error:
        os.write(complaint, str(error).encode())
    finally:
        os._exit(status)
