"""The console server and its ports."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import LabelledValue, counter, gauge
from lab.console.client import ConsoleClient
from lab.console.status import PortStatus, ServerStatus
from lab.host.runtime import socket_path

OPEN = "open"


@frozen
class Consoles:
    """The console server of a runtime folder."""

    runtime: Path

    def read(self) -> list[Metric]:
        """How the server is.

        Raises:
            LabTransientError: it does not answer.
        """
        with ConsoleClient(socket_path(self.runtime)) as client:
            return families(client.status())


def families(status: ServerStatus) -> list[Metric]:
    """The families of what a server says."""
    ports = [(port.info.name, port) for port in status.ports]
    return [
        _gauge("open", "Whether the port is open, and not lost.", [(n, float(p.state == OPEN)) for n, p in ports]),
        _counter("received_bytes", "Bytes that came.", [(n, p.received_bytes) for n, p in ports]),
        _counter("reads", "Reads that brought bytes.", [(n, p.reads) for n, p in ports]),
        _counter("gaps", "How often the port was lost.", [(n, p.gaps) for n, p in ports]),
        _counter("dropped_readers", "Readers that were too slow.", [(n, p.dropped) for n, p in ports]),
        _gauge("readers", "Programs that read the port.", [(n, p.readers) for n, p in ports]),
        _gauge("written", "Whether a program may write.", [(n, float(p.writer is not None)) for n, p in ports]),
        _gauge(
            "last_byte_age_seconds",
            "Since the last byte; absent before the first.",
            [(n, p.last_byte_age_s) for n, p in ports if p.last_byte_age_s is not None],
        ),
        _gauge(
            "adapter_latency_seconds",
            "How long the adapter may hold a byte back: its latency timer.",
            [(n, p.info.meta.adapter_latency_ns / 1e9) for n, p in ports],
        ),
        _gauge(
            "lateness_max_seconds",
            "The largest evidence of a late stamp since the port was opened.",
            [(n, p.lateness_max_ns / 1e9) for n, p in ports],
        ),
        _gauge(
            "recording_broken",
            "Whether nothing is recorded at the moment.",
            [(n, float(bool(p.recording_broken))) for n, p in ports],
        ),
        counter(
            "boardlab_console_line_errors",
            "The driver's counters of lost and damaged characters since its start.",
            ["port", "error"],
            [row for _, port in ports for row in _line_errors(port)],
        ),
    ]


def _line_errors(port: PortStatus) -> list[LabelledValue]:
    return [((port.info.name, error), count) for error, count in (port.line_errors or {}).items()]


def _gauge(name: str, about: str, rows: list[tuple[str, float]]) -> Metric:
    return gauge(f"boardlab_console_{name}", about, ["port"], [((port,), value) for port, value in rows])


def _counter(name: str, about: str, rows: list[tuple[str, int]]) -> Metric:
    return counter(f"boardlab_console_{name}", about, ["port"], [((port,), value) for port, value in rows])
