"""netperf's output with `-k`: keywords and values, one a line."""

from __future__ import annotations

import math
import re

from attrs import frozen

from lab.benchmarks.output import lines, missing

KEYS = "DIRECTION,THROUGHPUT,MEAN_LATENCY,LOCAL_CPU_UTIL,REMOTE_CPU_UTIL,LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,LOCAL_SEND_SIZE"
_HEAD = re.compile(r"^MIGRATED (TCP STREAM|TCP MAERTS|UDP STREAM|OMNI) ")
_PAIR = re.compile(r"^([A-Z_]+)=(-?\w[\w.]*)$")
_PROBLEM = re.compile(r"not compiled in|[Cc]onnection refused|cannot connect|establish control|netperf: ")


@frozen
class Netperf:
    """One test's results.

    Attributes:
        kind: "TCP STREAM", "TCP MAERTS", "UDP STREAM".
        mbit_s: of UDP_STREAM what arrived.
        local_cpu, remote_cpu: percent over all cores; None where not measured.
        sent_bytes, received_bytes, datagram_bytes: of the stream and of one send.
        start, end: its bytes in the output.
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

    @property
    def loss(self) -> float:
        """Share of the bytes sent that did not arrive."""
        return max(0.0, 1 - self.received_bytes / self.sent_bytes) if self.sent_bytes else 0.0


def parse(output: bytes, *kinds: str) -> list[Netperf]:
    """The results of tests of these kinds, in that order.

    Raises:
        TestTransientError: one of them is missing or incomplete, or netperf said that it cannot do what was asked.
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
            known = blocks[kind].setdefault(pair[1], pair[2])
            if known != pair[2]:
                raise missing("netperf", f"one {pair[1]} for each test, found {known} and another", line.text)
            spans[kind] = (spans[kind][0], line.end)
        elif line.text.strip():
            unknown = unknown or line.text
    wanted = KEYS.split(",")
    for name in kinds:
        absent = [key for key in wanted if key not in blocks.get(name, {})]
        if absent:
            raise missing("netperf", f"{absent[0]} of {name}", unknown or _first(output))
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
        )
    except ValueError as error:
        raise missing("netperf", f"numbers for {kind}", str(error)) from error


def _first(output: bytes) -> str:
    return output.decode("utf-8", "replace").partition("\n")[0]
