"""CAN loopback: frames per second of a controller (not in the guides)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.benchmarks import needs
from lab.benchmarks.output import cut_time, read, refusal, rule
from lab.benchmarks.section import Bench, ParsedReading, Section, Validity, has_link, link_mbit_s, whole

FRAMES = 20_000
BITRATE = 1_000_000
INTERFACE = "can0"
_ALMOST_ALL = 0.95  # the last ones are still queued
FRAME_BITS = 111  # of eight bytes with a standard identifier and the gap behind it, without stuff bits (ISO 11898-1)


def parse(output: bytes) -> list[ParsedReading]:
    """`time -p cangen`: frames of eight bytes over real time.

    cangen exits 0 when it is interrupted; the interface's packet counters show how many frames were sent.
    """
    counts: dict[str, int] = {}

    def count(match: re.Match[str]) -> list[ParsedReading]:
        counts[match[1]] = int(match[2])
        return []

    def real(match: re.Match[str]) -> list[ParsedReading]:
        seconds = float(match[1])
        if seconds <= 0:
            return []
        value = FRAMES / seconds
        return [
            ParsedReading("can.throughput", value, {"bitrate": str(BITRATE)}, quantum=cut_time(value, seconds, 0.01))
        ]

    rules = [
        rule(r"^real +(\d+\.\d+)$", real),
        rule(r"^packets (before|after) (\d+)$", count),
        rule(r"^(?:user|sys) "),
    ]
    readings = read(output, "cangen", rules)
    sent = counts.get("after", 0) - counts.get("before", 0)
    if 0 < sent < _ALMOST_ALL * FRAMES:  # a driver without statistics says 0
        raise refusal("cangen", f"the interface sent {sent} of {FRAMES} frames, so the time is that of a part")
    return readings


def _measure(bench: Bench) -> Iterator[ParsedReading]:
    bench.run(f"ip link set {INTERFACE} down", check=False)
    bench.run(f"ip link set {INTERFACE} type can bitrate {BITRATE} loopback on")
    bench.run(f"ip link set {INTERFACE} up")
    count = f"$(cat /sys/class/net/{INTERFACE}/statistics/tx_packets)"
    command = (
        f"echo packets before {count}; env time -p cangen {INTERFACE} -g 0 -p 1 -n {FRAMES} -L 8 2>&1; status=$?; "
        f"echo packets after {count}; (exit $status)"
    )
    most = {"can.throughput": link_mbit_s(bench.board, INTERFACE) * 1e6 / FRAME_BITS}
    yield from bench.read(parse, command, timeout_s=120, validity=Validity(0, most, INTERFACE))


def _restore(bench: Bench) -> None:
    bench.run(f"ip link set {INTERFACE} down; ip link set {INTERFACE} type can loopback off")


SECTION = Section(
    name="can",
    title="CAN loopback",
    chapter="DCAN Driver",
    metrics=("can.throughput",),
    rows=whole(_measure),
    restore=_restore,
    needs=(
        needs.path(f"/sys/class/net/{INTERFACE}", "CAN controller", "enable it in the device tree and the kernel"),
        needs.tool("cangen", "can-utils"),
        needs.program_time("-p"),
    ),
    command="cangen can0 -g 0 -n 20000 -L 8",
    fits=has_link(INTERFACE),
    duration_s=10,
)
