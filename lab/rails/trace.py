"""Traces: the samples of a board's rails as the sampler wrote them.

A trace is one file: a line of JSON (`TraceMeta`), then records of 18 bytes, `<qiiBB` little-endian (t_ns, bus_uv,
shunt_nv, rail, mark); the last one of a sampler that ended by itself has the rail 255. It may be read while it is written,
and a torn last record, as a full disk leaves it, is not seen. With numpy alone:
`np.fromfile(path, np.dtype([...]), offset=len(first line))`, see docs/rails.md.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import cattrs
from attrs import asdict, field, frozen

from lab.errors import ConfigurationError, LabStableError
from lab.rails.config import RailConfig
from lab.rails.model import Channel, SensorReading

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAGIC: Final = "boardlab-trace"
VERSION: Final = 1
RECORD: Final = struct.Struct("<qiiBB")
DTYPE: Final = [("t_ns", "<i8"), ("bus_uv", "<i4"), ("shunt_nv", "<i4"), ("rail", "u1"), ("mark", "u1")]
END: Final = 255


@frozen
class TraceMeta:
    """The first line of a trace.

    Attributes:
        rails: all of the board, n/a ones too. channels: those that are measured, by their index in the records.
        backend, port, settings: who measured, and how. wanted: the power range that the settings are for.
        period_ns, window_ns, late_ns: see `lab.rails.model.Schedule`.
        clock: of t_ns. scheduling: what the sampler's process got.
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

    def provenance(self) -> dict[str, object]:
        """What goes into the provenance of a number that comes from this trace."""
        return {
            "sensor": self.backend,
            "sensor_port": self.port,
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
    """Writes a trace; each call of `add` is in the file when it returns, so that a kill loses nothing.

    Raises:
        ConfigurationError: the file cannot be made.
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
        """Say that the sampler ended by itself, and close."""
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
    """A trace in memory, as far as it was written when it was opened.

    Attributes:
        records: fields t_ns, bus_uv, shunt_nv, rail, mark; in the order of writing.
        ended: whether the sampler said that it was done; else it was killed, or it still writes.
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
        import numpy as np  # noqa: PLC0415 - the sampler needs the format, and no numpy

        try:
            with path.open("rb") as file:
                line = file.readline(1 << 20)
                meta = meta_of(path, line)
                records = np.frombuffer(_whole(file.read()), np.dtype(DTYPE))
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
        ended = bool(len(records)) and int(records["rail"][-1]) == END
        return cls(path, meta, records[:-1] if ended else records, ended)

    @property
    def span_ns(self) -> tuple[int, int]:
        """When the first and the last sample were found.

        Raises:
            ConfigurationError: there are none.
        """
        if not len(self.records):
            raise ConfigurationError(f"{self.path}: no samples; was the sampler killed at once?")
        return int(self.records["t_ns"][0]), int(self.records["t_ns"][-1])


def _whole(data: bytes) -> bytes:
    return data[: len(data) // RECORD.size * RECORD.size]


def meta_of(path: Path, line: bytes) -> TraceMeta:
    """The first line of a trace.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        given = json.loads(line)
        known = given.pop("format", None) == MAGIC and given.pop("version", None) == VERSION
        meta = cattrs.structure(given, TraceMeta) if known else None
    except (ValueError, TypeError, AttributeError, cattrs.BaseValidationError):
        meta = None
    if meta is None:
        raise ConfigurationError(
            f"{path}: expected a power trace of version {VERSION}, found {line[:40]!r}; `lab rails trace` writes them"
        )
    return meta
