"""iperf3: TCP in both directions at once, UDP with possible loss.

The server runs on the tester. UDP goes as fast as its sender can; what arrived is counted in packets, since iperf3
rounds its rates, and throughput counts the bits of whole frames, as in `lab.benchmarks.ethernet`. The count must agree
with iperf3's own rate, which comes from another counter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from attrs import evolve

from lab.benchmarks import needs
from lab.benchmarks.ethernet import CHAPTER, FRAMES, frame_limits, link_validity, port
from lab.benchmarks.output import printed_step, read, refusal, rule
from lab.benchmarks.section import Bench, ParsedReading, Row, Rows, Section, has_link, whole

# Beyond its test. The server ends first: one that floods a board which cannot tell it to stop would spoil all that
# follows.
_SERVER_SPARE_S, _CLIENT_SPARE_S = 30, 60
_WAYS = {"TX": "egress", "RX": "ingress"}
_AGREED = 0.05  # of the rate: the packets' count and iperf3's own rate are of the same time
_KNOWN = rule(r"^\[|^Connecting|^Reverse mode|^- -|^iperf Done|^$")


def _refuse(match: re.Match[str]) -> list[ParsedReading]:
    raise refusal("iperf3", f"it failed on the way ({match[0]!r}), so its rates are those of a part")


_FAILED = rule(r"^iperf3: (?:error|interrupt).*", _refuse)


def tcp(output: bytes, params: dict[str, str]) -> list[ParsedReading]:
    """`iperf3 --bidir`: the received rates of both directions."""

    def receiver(match: re.Match[str]) -> list[ParsedReading]:
        if not float(match[3]):
            return []  # what a server that is gone received
        own, step = {**params, "direction": _WAYS[match[1]]}, printed_step(match[3])
        return [
            ParsedReading("ethernet.iperf3.throughput", float(match[3]), own, quantum=step, seconds=float(match[2]))
        ]

    pattern = r"^\[ *\d+\]\[([TR]X)-C\] +0\.00-(\d+\.\d+) +sec .*? (\d+(?:\.\d+)?) Mbits/sec +(?:\d+ +)?receiver$"
    return read(output, "iperf3", [rule(pattern, receiver), _FAILED, _KNOWN], expected=2)


def udp(output: bytes, frame: int, params: dict[str, str]) -> list[ParsedReading]:
    """`iperf3 -u`: the receiver's summary.

    After the last packet that came, iperf3 takes the sender's count for the receiver's, and loses none. What came is
    then counted by its bytes.
    """

    def receiver(match: re.Match[str]) -> list[ParsedReading]:
        seconds, lost, total = float(match[1]), int(match[3]), int(match[4])
        if seconds <= 0 or total <= 0:
            return []
        if lost > total:
            raise refusal("iperf3", f"more packets were lost than were sent ({match[0]!r})")
        packets = (total - lost) / seconds
        counted, printed = packets * FRAMES[frame] * 8 / 1e6, float(match[2])
        rounded = printed_step(match[2]) + counted * printed_step(match[1]) / seconds
        step = packets * printed_step(match[1]) / seconds
        if counted > printed + rounded and _packets_sent(output, frame) == total:
            packets = printed * 1e6 / 8 / FRAMES[frame]
            step = packets * printed_step(match[2]) / printed
            lost = total - round(packets * seconds)
        elif abs(counted - printed) > _AGREED * printed + printed_step(match[2]):
            raise refusal(
                "iperf3",
                f"its count of packets is one of {counted:.6g} Mbit/s, and its own rate {printed:g} ({match[0]!r}): a "
                "counter overflowed",
            )
        own = {**params, "frame_bytes": str(frame)}
        per_packet = {"throughput": frame * 8 / 1e6, "packets": 1 / 1000}
        values = {name: (packets * per_one, step * per_one) for name, per_one in per_packet.items()}
        values["loss"] = (100 * max(lost, 0) / total, 0.0)  # fewer than none: some came twice
        return [
            ParsedReading(f"ethernet.iperf3.udp.{name}", value, own, quantum=quantum, seconds=seconds)
            for name, (value, quantum) in values.items()
        ]

    pattern = r"^\[ *\d+\] +0\.00-(\d+\.\d+) +sec .* (\d+(?:\.\d+)?) Mbits/sec .* (-?\d+)/(\d+) \([^)]*\) +receiver$"
    return read(output, "iperf3", [rule(pattern, receiver), _FAILED, _KNOWN], expected=3)


def _packets_sent(output: bytes, frame: int) -> int | None:
    """Number of packets by the sender's summary, if its rate agrees."""
    pattern = rb"^\[ *\d+\] +0\.00-(\d+\.\d+) +sec .* (\d+(?:\.\d+)?) Mbits/sec .* 0/(\d+) \([^)]*\) +sender\r?$"
    for match in re.finditer(pattern, output, re.MULTILINE):
        seconds, rate, packets = float(match[1]), float(match[2]), int(match[3])
        if seconds and abs(packets / seconds * FRAMES[frame] * 8 / 1e6 - rate) <= _AGREED * rate:
            return packets
    return None


def _serve(bench: Bench) -> None:
    """Start a server for one test on the tester.

    Only `timeout`, its parent, signals it: a recorded process id may belong to another process when it is used.
    """
    server = f"timeout {bench.site.seconds + _SERVER_SPARE_S} iperf3 --server --one-off"
    bench.tester(f"({server} < /dev/null > /dev/null 2>&1 &)")


def _stop(bench: Bench) -> None:
    """End an unused server by a client that sends a byte."""
    bench.tester("iperf3 --client 127.0.0.1 --connect-timeout 1000 --bytes 1 > /dev/null 2>&1", check=False)


def _with_doubts(bench: Bench, readings: list[ParsedReading]) -> Iterator[ParsedReading]:
    for reading in readings:
        yield evolve(reading, flags=reading.flags | bench.site.doubts)


def _tcp(bench: Bench) -> Iterator[ParsedReading]:
    seconds, params = bench.site.seconds, {"port": port(bench.board, bench.site.interface)}
    _serve(bench)
    command = f"iperf3 -c {bench.site.tester} -t {seconds} --bidir -f m"
    parser, limit_s = partial(tcp, params=params), seconds + _CLIENT_SPARE_S
    validity = link_validity(bench, seconds, lambda rate: {"ethernet.iperf3.throughput": rate})
    yield from _with_doubts(bench, bench.read(parser, command, timeout_s=limit_s, validity=validity))


def _udp(bench: Bench) -> Rows:
    for way in ("egress", "ingress"):
        for frame in FRAMES:
            yield Row(partial(_one_udp, bench, way, frame), {"direction": way, "frame_bytes": str(frame)})


def _one_udp(bench: Bench, way: str, frame: int) -> Iterator[ParsedReading]:
    seconds, option = bench.site.seconds, " --reverse" if way == "ingress" else ""
    _serve(bench)
    command = f"iperf3 -c {bench.site.tester} -t {seconds} --udp --bitrate 0 --length {FRAMES[frame]} -f m{option}"
    parser = partial(udp, frame=frame, params={"port": port(bench.board, bench.site.interface), "direction": way})
    validity = link_validity(bench, seconds, partial(frame_limits, metric="ethernet.iperf3.udp", frame=frame))
    readings = bench.read(parser, command, timeout_s=seconds + _CLIENT_SPARE_S, validity=validity)
    yield from _with_doubts(bench, readings)


_NEEDS = (needs.link_speed(), needs.private_link(), needs.tool("iperf3"), needs.tool_of_tester("iperf3"))

SECTIONS = (
    Section(
        name="iperf3",
        title="TCP bidirectional by iperf3",
        chapter=CHAPTER,
        metrics=("ethernet.iperf3.throughput",),
        rows=whole(_tcp),
        restore=_stop,
        needs=_NEEDS,
        command="iperf3 -c 192.168.0.1 -t 60 --bidir",
        fits=has_link("eth0", "eth1"),
        duration_s=65,
    ),
    Section(
        name="iperf3-udp",
        title="UDP with possible loss by iperf3",
        chapter=CHAPTER,
        metrics=tuple(f"ethernet.iperf3.udp.{name}" for name in ("throughput", "packets", "loss")),
        rows=_udp,
        restore=_stop,
        needs=_NEEDS,
        command="iperf3 -c 192.168.0.1 -t 60 --udp --bitrate 0 --length 1472 [--reverse]",
        fits=has_link("eth0", "eth1"),
        duration_s=620,
    ),
)
