"""The output of netperf with -k."""

from __future__ import annotations

import math
import re

from attrs import frozen

from lab.benchmarks.output import first_line, lines, missing

_ELAPSED = "ELAPSED_TIME"  # outputs of earlier runs lack it
KEYS = (
    "DIRECTION,THROUGHPUT,MEAN_LATENCY,LOCAL_CPU_UTIL,REMOTE_CPU_UTIL,LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,"
    f"LOCAL_SEND_SIZE,{_ELAPSED}"
)
_HEAD = re.compile(r"^MIGRATED (TCP STREAM|TCP MAERTS|UDP STREAM|OMNI) ")
_PAIR = re.compile(r"^([A-Z_]+)=(-?\w[\w.]*)$")
_PROBLEM = re.compile(r"not compiled in|[Cc]onnection refused|cannot connect|establish control|netperf: ")


@frozen
class Netperf:
    """One test's results.

    Attributes:
        kind: "TCP STREAM", "TCP MAERTS", "UDP STREAM".
        mbit_s: for UDP_STREAM the received rate.
        local_cpu, remote_cpu: percent over all cores; None: not measured.
        sent_bytes, received_bytes, datagram_bytes: of the stream and of one send.
        start, end: its bytes in the output.
        seconds: its duration; 0: not printed.
    """

    kind: str
    mbit_s: float
    local_cpu: float | None
    remote_cpu: float | None
    sent_bytes: float
    received_bytes: float
    datagram_bytes: float
    start: int
    end: int
    seconds: float = 0.0

    @property
    def loss(self) -> float:
        """Share of the bytes sent that did not arrive."""
        return max(0.0, 1 - self.received_bytes / self.sent_bytes) if self.sent_bytes else 0.0


def parse(output: bytes, *kinds: str) -> list[Netperf]:
    """The results of tests of these kinds, in that order.

    Raises:
        TestTransientError: a result is missing or incomplete, or netperf refused the test.
    """
    blocks: dict[str, dict[str, str]] = {}
    spans: dict[str, tuple[int, int]] = {}
    kind, unknown = "", ""
    for line in lines(output):
        head, pair = _HEAD.match(line.text), _PAIR.match(line.text.strip())
        if _PROBLEM.search(line.text):
            raise missing("netperf", "results", line.text)
        if head:
            kind = head[1]
            blocks.setdefault(kind, {})
            spans.setdefault(kind, (line.start, line.end))
        elif pair and kind:
            first_value = blocks[kind].setdefault(pair[1], pair[2])
            if first_value != pair[2]:
                raise missing("netperf", f"one {pair[1]} for each test, found {first_value} and another", line.text)
            spans[kind] = (spans[kind][0], line.end)
        elif line.text.strip():
            unknown = unknown or line.text
    required = [key for key in KEYS.split(",") if key != _ELAPSED]
    for name in kinds:
        absent = [key for key in required if key not in blocks.get(name, {})]
        if absent:
            raise missing("netperf", f"{absent[0]} of {name}", unknown or first_line(output))
    return [_result(name, blocks[name], spans[name]) for name in kinds]


def _result(kind: str, values: dict[str, str], span: tuple[int, int]) -> Netperf:
    def number(name: str) -> float:
        value = float(values[name])
        if not math.isfinite(value):
            raise ValueError(f"{name}={values[name]}")
        return value

    def load(name: str) -> float | None:
        value = number(name)
        return None if value < 0 else value

    try:
        return Netperf(
            kind=kind,
            mbit_s=number("THROUGHPUT"),
            local_cpu=load("LOCAL_CPU_UTIL"),
            remote_cpu=load("REMOTE_CPU_UTIL"),
            sent_bytes=number("LOCAL_BYTES_SENT"),
            received_bytes=number("REMOTE_BYTES_RECVD"),
            datagram_bytes=number("LOCAL_SEND_SIZE"),
            start=span[0],
            end=span[1],
            seconds=number(_ELAPSED) if _ELAPSED in values else 0.0,
        )
    except ValueError as error:
        raise missing("netperf", f"numbers for {kind}", str(error)) from error
