"""What the console server says about itself and its ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import NOTHING, AttrsInstance, fields, frozen

from lab.console.recording import RecordingMeta
from lab.errors import LabStableError

Record = TypeVar("Record")


@frozen
class PortInfo:
    """An open port.

    Attributes:
        meta: what its recording says about it.
        recording: path of the recording, without suffix.
        position: where in the stream the next byte belongs.
    """

    meta: RecordingMeta
    recording: str
    position: int

    @property
    def name(self) -> str:
        """What to attach to."""
        return self.meta.name


@frozen
class PortStatus:
    """How a port is doing.

    Attributes:
        state: "open", or why it is lost.
        last_byte_age_s: since the last byte; None when none came yet.
        board: name of the board that hangs on it, where a measurement has said so.
        writer: process id of who may write. writer_since: wall time, UTC, ISO 8601.
        gaps: how often the port was lost. dropped: how many readers were too slow.
        line_errors: the kernel's counters of the UART (overrun, buf_overrun, frame, parity, brk) since its start;
            None where the port has none, as a pty.
        lateness_max_ns: the largest evidence of a late stamp since the port was opened.
        recording_broken: why nothing is recorded at the moment; empty while all is well.
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


@frozen
class ServerStatus:
    """How the server is doing.

    Attributes:
        late_p99_ns: 99 of 100 bytes of the last minute came no later through this host than this; None: too few came.
        more: there are more ports, which are asked for with this as `after`; None: there are none.
        version: of its boardlab; empty: it is of one that did not say.
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
        """As JSON has it. (`asdict` goes through every value, and no port is read meanwhile.)"""
        ports = [
            _values(port) | {"info": _values(port.info) | {"meta": _values(port.info.meta)}} for port in self.ports
        ]
        return _values(self) | {"ports": ports}


def port_info(answer: Mapping[str, Any]) -> PortInfo:
    """An open port from the server's answer; what only a newer server says is passed over.

    Raises:
        LabStableError: the server is of an older boardlab, and says less than is needed.
    """
    return _record(PortInfo, answer, meta=_record(RecordingMeta, answer.get("meta", {})))


def server_status(answer: Mapping[str, Any]) -> ServerStatus:
    """The server's answer to `status`; raises as `port_info`."""
    ports = [_record(PortStatus, port, info=port_info(port.get("info", {}))) for port in answer.get("ports", [])]
    return _record(ServerStatus, answer, ports=ports)


def of_another_boardlab(lacks: str) -> LabStableError:
    """The error of a server that was started by another boardlab than this one, and goes on running."""
    return LabStableError(
        f"the console server that runs was started by another boardlab, and does not know {lacks}: end it with `lab console "
        "stop` when nothing measures, and the next command starts a fitting one",
        failure="console_protocol",
    )


def _values(record: AttrsInstance) -> dict[str, Any]:
    return {each.name: getattr(record, each.name) for each in fields(type(record))}


def _record(kind: type[Record], answer: Mapping[str, Any], **known: object) -> Record:
    """Our own server wrote it, so values are not checked; a converter for these alone takes a tenth of a second to import."""
    each = fields(kind)  # type: ignore[arg-type]
    values = {field.name: answer[field.name] for field in each if field.name in answer} | known
    missing = [repr(field.name) for field in each if field.default is NOTHING and field.name not in values]
    if missing:
        raise of_another_boardlab(", ".join(missing))
    return kind(**values)
