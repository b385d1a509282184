"""How `lab console` writes things for people."""

from __future__ import annotations

from collections.abc import Iterator

from lab.console.model import Gap, RecordKind
from lab.console.printk import PrintkFit
from lab.console.recording import Recording
from lab.console.replay import Replay
from lab.console.status import PortStatus, ServerStatus
from lab.console.text import stamped_lines
from lab.host.clock import NS_PER_S
from lab.host.process import described
from lab.shown import bad, plain_bytes, table

_NS_PER_MS = 1e6
_GAPS = {
    RecordKind.LOST: "the port was lost",
    RecordKind.BACK: "the port was opened again",
    RecordKind.UNRECORDED: "bytes are missing here: they could not be written",
    RecordKind.DROPPED: "bytes are missing here: the reader was too slow",
}


def replay_lines(result: Replay) -> list[str]:
    """The moments of a boot, and how sure they are."""
    timing = result.timing
    rows = [
        [
            f"{first.seconds:.6f}",
            f"{previous.seconds:+.6f}",
            f"{moment.uncertainty_ns / _NS_PER_MS:.2f}",
            moment.name,
            moment.text,
        ]
        for moment, first, previous in zip(result.moments, result.since_first(), result.since_previous(), strict=True)
    ]
    head = f"{result.board}: {len(rows)} moments at {timing.speed_bd} Bd"
    if timing.adapter_latency_ns:
        head += f", adapter latency {timing.adapter_latency_ns / _NS_PER_MS:g} ms"
    lines = [head]
    if rows:
        lines += table(["since first s", "since last s", "± ms", "moment", "line"], rows, ">>><<")
    lines.append(_printk_line(result.printk))
    if result.lateness_max_ns:
        lines.append(f"worst evidence of late stamps: {result.lateness_max_ns / _NS_PER_MS:.2f} ms (in the ± near it)")
    if result.gaps:
        lines.append(f"gaps: {result.gaps}; bytes may be missing there, see `lab console show`")
    return lines


def log_lines(recording: Recording) -> Iterator[str]:
    """Each line of a recording with the time since the first one."""
    start_ns: int | None = None
    for line in stamped_lines(recording.events(), recording.meta.timing):
        start_ns = line.t_ns if start_ns is None else start_ns
        text = f"--- {_GAPS[line.kind]} ---" if isinstance(line, Gap) else plain_bytes(line.data.rstrip(b"\r\n"))
        yield f"{(line.t_ns - start_ns) / NS_PER_S:12.6f}  {text}"


def status_lines(state: ServerStatus) -> list[str]:
    """The server and its ports."""
    lines = [f"pid {state.pid} since {state.started}, {state.scheduling}; log: {state.log}"]
    if not state.ports:
        return [*lines, "no port is open"]
    header = ["port", "board", "bytes", "last byte", "readers", "gaps", "dropped", "late ms", "state", "writer"]
    return [*lines, *table(header, [_status_row(port) for port in state.ports], "<<>>>>>><<")]


def _status_row(port: PortStatus) -> list[str]:
    troubles = [port.state]
    if port.recording_broken:
        troubles.append(f"not recorded: {port.recording_broken}")
    if port.line_errors is not None:
        troubles += [f"{name} {count}" for name, count in port.line_errors.items() if count]
    return [
        port.info.name,
        port.board or "-",
        str(port.received_bytes),
        "never" if port.last_byte_age_s is None else f"{port.last_byte_age_s:.1f} s ago",
        str(port.readers),
        str(port.gaps),
        str(port.dropped),
        f"{port.lateness_max_ns / _NS_PER_MS:.2f}",
        port.state if troubles == ["open"] else bad(", ".join(troubles)),
        "-" if port.writer is None else described(port.writer),
    ]


def _printk_line(fit: PrintkFit | None) -> str:
    if fit is None:
        return "kernel's clock: too few lines with a time to compare with the host's"
    residual = f"median {fit.residual_median_ns / _NS_PER_MS:.2f}, p95 {fit.residual_p95_ns / _NS_PER_MS:.2f}"
    return (
        f"kernel's clock: {fit.rate_ppm:+.0f} ppm against the host's over {fit.span_s:.1f} s and {fit.n} of {fit.lines} lines; "
        f"lines waited for the UART: {residual}, max {fit.residual_max_ns / _NS_PER_MS:.2f} ms"
    )
