"""The status records of the console server and its ports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from attrs import NOTHING, AttrsInstance, fields, frozen

from lab.console.recording import RecordingMeta
from lab.errors import LabStableError

Record = TypeVar("Record")


@frozen
class PortInfo:
    """An open port.

    Attributes:
        meta: its recording's metadata.
        recording: path of the recording, without suffix.
        position: of the next byte in the stream.
    """

    meta: RecordingMeta
    recording: str
    position: int

    @property
    def name(self) -> str:
        """Name to attach to."""
        return self.meta.name


@frozen
class PortStatus:
    """The state of a port.

    Attributes:
        state: "open", or why it is lost.
        last_byte_age_s: since the last byte; None: none came yet.
        board: name of its board, from a measurement.
        writer: the writer's process id.
        writer_since: wall time, UTC, ISO 8601.
        gaps: number of losses of the port.
        dropped: number of readers that were too slow.
        line_errors: the kernel's counters of the UART (overrun, buf_overrun, frame, parity, brk) since its start;
            None: the port has none, e.g. a pty.
        lateness_max_ns: the largest evidence of a late stamp since the port was opened.
        recording_broken: why it does not record now; empty: it records.
    """

    info: PortInfo
    state: str
    received_bytes: int
    reads: int
    last_byte_age_s: float | None
    readers: int
    writer: int | None
    writer_since: str | None
    gaps: int
    dropped: int
    line_errors: dict[str, int] | None
    lateness_max_ns: int
    recording_broken: str
    board: str = ""


def ports_of(ports: Iterable[PortStatus], name: str) -> list[PortStatus]:
    """The ports with a name or of a board, the one in use first.

    A board that was measured at another adapter before has two.
    """
    matching = [port for port in ports if name in {port.info.name, port.board}]
    return sorted(
        matching,
        key=lambda port: (
            port.info.name != name,
            port.state != "open",
            port.writer is None,
            math.inf if port.last_byte_age_s is None else port.last_byte_age_s,
        ),
    )


@frozen
class ServerStatus:
    """The state of the server.

    Attributes:
        late_p99_ns: 99th percentile of the latency of the last minute's bytes; None: too few.
        more: the next `after` for further ports; None: no more ports.
        version: of its boardlab; empty: an older one without it.
    """

    pid: int
    started: str
    scheduling: str
    log: str
    ports: list[PortStatus]
    late_p99_ns: int | None = None
    more: int | None = None
    version: str = ""

    def document(self) -> dict[str, Any]:
        """Return it for JSON, faster than `asdict`: no port is read meanwhile."""
        ports = [
            _values(port) | {"info": _values(port.info) | {"meta": _values(port.info.meta)}} for port in self.ports
        ]
        return _values(self) | {"ports": ports}


def port_info(answer: Mapping[str, Any]) -> PortInfo:
    """Return the open port from an answer; ignore unknown fields.

    Raises:
        LabStableError: the server is of an older boardlab, and a field is missing.
    """
    return _record(PortInfo, answer, meta=_record(RecordingMeta, answer.get("meta", {})))


def server_status(answer: Mapping[str, Any]) -> ServerStatus:
    """The server's answer to `status`; raises as `port_info`."""
    ports = [_record(PortStatus, port, info=port_info(port.get("info", {}))) for port in answer.get("ports", [])]
    return _record(ServerStatus, answer, ports=ports)


def of_another_boardlab(lacks: str) -> LabStableError:
    """Return the error of a running server of another boardlab."""
    return LabStableError(
        f"the console server that runs was started by another boardlab, and does not know {lacks}: end it with `lab "
        "console stop` when nothing measures, and the next command starts a fitting one",
        failure="console_protocol",
    )


def _values(record: AttrsInstance) -> dict[str, Any]:
    return {attribute.name: getattr(record, attribute.name) for attribute in fields(type(record))}


def _record(kind: type[Record], answer: Mapping[str, Any], **given_values: object) -> Record:
    """Build a record from our own server's answer, without checking values.

    A converter for these alone takes 0.1 s to import.
    """
    attributes = fields(kind)  # type: ignore[arg-type]
    values = {
        attribute.name: answer[attribute.name] for attribute in attributes if attribute.name in answer
    } | given_values
    missing = [
        repr(attribute.name)
        for attribute in attributes
        if attribute.default is NOTHING and attribute.name not in values
    ]
    if missing:
        raise of_another_boardlab(", ".join(missing))
    return kind(**values)
