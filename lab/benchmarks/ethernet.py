"""Ethernet to the tester: TCP both ways, UDP with and without loss.

netperf as the guides have it. A UDP sender is limited by bursts every 10 ms, so its rate has steps of 100 packets a
second. Throughput counts the bits of whole frames, as guides from 10.00 on do; the packets are not rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from attrs import evolve

from lab.benchmarks import needs
from lab.benchmarks.netperf import KEYS, parse
from lab.benchmarks.output import missing, refusal
from lab.benchmarks.section import (
    Bench,
    Need,
    ParsedReading,
    Parser,
    Row,
    Rows,
    Section,
    Validity,
    has_link,
    link_mbit_s,
    whole,
)
from lab.benchmarks.throughput_search import search
from lab.boards import BoardType
from lab.metrics import Flag

CHAPTER = "Ethernet"
FRAMES = {64: 18, 128: 82, 256: 210, 1024: 978, 1518: 1472}  # frame -> UDP payload, bytes
GAP_BYTES = 20  # preamble and gap between frames
BURST_MS = 10  # the shortest wait of the tester's netperf
LONG_S, SHORT_S = 60, 10  # RFC 2544, section 24, asks for 60 s; short trials only narrow the search
LOWEST_PPS = 100.0
_OUT = "/run/boardlab.netperf"  # on the board, where nobody but root makes files


def tcp(output: bytes, params: dict[str, str]) -> list[ParsedReading]:
    """Both directions at once: their sum, and the board's load."""
    sending, receiving = parse(output, "TCP STREAM", "TCP MAERTS")
    loads = [test.local_cpu for test in (sending, receiving) if test.local_cpu is not None]
    if not loads:
        raise missing("netperf", "LOCAL_CPU_UTIL (option -c)", "LOCAL_CPU_UTIL=-1.00")
    values = {"throughput": sending.mbit_s + receiving.mbit_s, "cpu_load": sum(loads) / len(loads)}
    end, seconds = max(sending.end, receiving.end), min(sending.seconds, receiving.seconds)
    return [
        ParsedReading(f"ethernet.tcp.{name}", value, params, start=sending.start, end=end, seconds=seconds)
        for name, value in values.items()
    ]


def udp(
    output: bytes, frame: int, params: dict[str, str], *, seconds: float = LONG_S, loss: bool
) -> list[ParsedReading]:
    """One UDP stream, by the packets that arrived."""
    (test,) = parse(output, "UDP STREAM")
    if test.sent_bytes <= 0:
        raise refusal("netperf", "it sent nothing, which is no stream without loss (LOCAL_BYTES_SENT=0)")
    pps = test.received_bytes / FRAMES[frame] / (test.seconds or seconds)
    load = test.remote_cpu if params["direction"] == "ingress" else test.local_cpu
    if load is None:
        raise missing("netperf", "the board's CPU load (option -c or -C)", "CPU_UTIL=-1.00")
    own = {**params, "frame_bytes": str(frame)}
    values = {
        "datagram": test.datagram_bytes,
        "throughput": pps * frame * 8 / 1e6,
        "packets": pps / 1000,
        "cpu_load": load,
    } | ({"loss": 100 * test.loss} if loss else {})
    return [
        ParsedReading(f"ethernet.udp.{name}", value, own, start=test.start, end=test.end, seconds=test.seconds)
        for name, value in values.items()
    ]


def burst(pps: float) -> int:
    """Packets in a burst every 10 ms."""
    return max(1, round(pps * BURST_MS / 1000))


def _params(bench: Bench) -> dict[str, str]:
    return {"port": port(bench.board, bench.site.interface)}


def _tcp_params(bench: Bench) -> dict[str, str]:
    """The TCP window if the board's guide names one (AM437x).

    It is that of iperf, which is the system's; later guides have none.
    """
    window = bench.board.benchmarks.tcp_window
    return _params(bench) | ({"window": window} if window else {})


def link_validity(bench: Bench, seconds: float, highest: Callable[[float], Mapping[str, float]]) -> Validity:
    """The validity of numbers that came over the site's link.

    Args:
        highest: the link's rate in Mbit/s -> the most that a metric can be.
    """
    rate = link_mbit_s(bench.board, bench.site.interface)
    return Validity(seconds, highest(rate), f"{bench.site.interface} at {rate:g} Mbit/s")


def line_pps(mbit_s: float, frame: int) -> float:
    """Frames a second that fill a line."""
    return mbit_s * 1e6 / 8 / (frame + GAP_BYTES)


def frame_limits(mbit_s: float, metric: str, frame: int) -> dict[str, float]:
    """The most packets and throughput of frames on a line."""
    pps = line_pps(mbit_s, frame)
    return {f"{metric}.packets": pps / 1000, f"{metric}.throughput": pps * frame * 8 / 1e6}


def port(board: BoardType, interface: str) -> str:
    """The guides' name of the port behind an interface."""
    return next((link.port for link in board.links if link.name == interface), "cpsw")


def _tcp(bench: Bench) -> Iterator[ParsedReading]:
    yield from _read_tcp(bench, partial(tcp, params=_tcp_params(bench)))


def _read_tcp(bench: Bench, parser: Parser) -> list[ParsedReading]:
    validity = link_validity(bench, LONG_S, lambda rate: {"ethernet.tcp.throughput": 2 * rate})

    def netperf(test: str) -> str:
        return f"netperf -H {bench.site.tester} -j -c -l {LONG_S} -t {test} -- -k {KEYS} > {_OUT}.{test} 2>&1"

    tests = "TCP_STREAM", "TCP_MAERTS"
    files = " ".join(f"{_OUT}.{test}" for test in tests)
    return bench.read(
        parser,
        f"{netperf(tests[0])} & {netperf(tests[1])}; second=$?; wait $!; first=$?; cat {files}; rm -f {files}; "
        "test $first = 0 && first=$second; (exit $first)",
        timeout_s=2 * LONG_S + 60,
        validity=validity,
    )


def _with_pacing(bench: Bench) -> Iterator[ParsedReading]:
    parser = partial(tcp, params={**_tcp_params(bench), "pacing": "interrupt pacing"})
    interface, pacing = bench.site.interface, bench.site.pacing_us
    output = bench.run(f"ethtool -c {interface}", check=False).decode("utf-8", "replace")
    match = re.search(r"^rx-usecs:\s+(\d+)$", output, re.MULTILINE)
    before = match[1] if match else "0"  # as of a driver that shows nothing
    bench.run(f"ethtool -C {interface} rx-usecs {pacing}")
    try:
        yield from _read_tcp(bench, parser)
    finally:  # a driver that shows nothing may refuse the 0
        bench.run(f"ethtool -C {interface} rx-usecs {before}", check=match is not None)


def _netserver(bench: Bench) -> None:
    bench.run("killall -q netserver", check=False)


def _one_udp(bench: Bench, direction: str, frame: int, loss: str, pps: float, seconds: int) -> list[ParsedReading]:
    params = {**_params(bench), "direction": direction, "loss": loss}
    parser = partial(udp, frame=frame, params=params, seconds=seconds, loss=True)
    ingress = direction == "ingress"
    address = bench.site.board if ingress else bench.site.tester
    rate = f"-b {burst(pps)} -w {BURST_MS} " if pps else ""
    load = "-C" if ingress else "-c"
    command = f"netperf -H {address} -j {load} -l {seconds} -t UDP_STREAM {rate}-- -m {FRAMES[frame]} -k {KEYS}"
    validity = link_validity(bench, seconds, partial(frame_limits, metric="ethernet.udp", frame=frame))
    return bench.read(parser, command, timeout_s=seconds + 60, on_tester=ingress, validity=validity)


def _without_loss(bench: Bench, direction: str) -> Rows:
    for frame in FRAMES:
        yield Row(partial(_fastest, bench, direction, frame), {"frame_bytes": str(frame)})


def _fastest(bench: Bench, direction: str, frame: int) -> Iterator[ParsedReading]:
    """The fastest rate without loss."""
    line_mbit_s = next((link.mbit_s for link in bench.board.links if link.name == bench.site.interface), 1000.0)
    last: list[ParsedReading] = []

    def send(pps: float, is_long: bool) -> float:
        readings = _one_udp(bench, direction, frame, "0 loss", pps, LONG_S if is_long else SHORT_S)
        lost = next(reading.value for reading in readings if reading.metric == "ethernet.udp.loss")
        if is_long and not lost:
            last[:] = [reading for reading in readings if reading.metric != "ethernet.udp.loss"]
        return lost / 100

    result = search(send, lowest=LOWEST_PPS, highest=line_pps(line_mbit_s, frame), step=1000 / BURST_MS)
    quanta = {"ethernet.udp.packets": 1e-3, "ethernet.udp.throughput": frame * 8e-6}
    flags = frozenset() if result.is_monotonic else frozenset({Flag.NOT_MONOTONIC})
    for reading in last:  # its quantum is the search's tolerance
        yield evolve(reading, quantum=2 * result.tolerance * quanta.get(reading.metric, 0.0), flags=flags)


def _with_loss(bench: Bench) -> Rows:
    for frame in FRAMES:
        measure = partial(_one_udp, bench, "ingress", frame, "possible loss", 0.0, LONG_S)
        yield Row(measure, {"frame_bytes": str(frame)})


def _serving(rows: Callable[[Bench], Rows]) -> Callable[[Bench], Rows]:
    """Run netserver on both ends during the block."""

    def serve(bench: Bench) -> Rows:
        for start in (bench.run, bench.tester):
            start("netserver > /dev/null 2>&1", check=False)  # one that runs already answers as well
        yield from rows(bench)

    return serve


_LINK = (needs.link_speed(), needs.private_link())
_NETPERF = (*_LINK, needs.tool("netperf"), needs.tool_of_tester("netserver", "netperf"))
_UDP = ("datagram", "throughput", "packets", "cpu_load")
_TCP = ("ethernet.tcp.throughput", "ethernet.tcp.cpu_load")
_SEARCH = "each frame is a search of some 15 trials, which states its own ±; it takes a quarter of an hour"
_COMMAND = "netperf -H 192.168.0.1 -j -c -l 60 -t"


def _section(
    name: str,
    title: str,
    rows: Callable[[Bench], Rows],
    metrics: tuple[str, ...],
    command: str,
    *more: Need,
    seconds: float,
    once: str = "",
    **params: str,
) -> Section:
    return Section(
        name=name,
        title=title,
        chapter=CHAPTER,
        metrics=metrics,
        rows=_serving(rows),
        restore=_netserver,
        needs=(*_NETPERF, *more),
        command=command,
        fits=has_link("eth0", "eth1"),
        duration_s=seconds,
        params=params,
        once=once,
    )


SECTIONS = (
    _section("tcp", "TCP bidirectional", whole(_tcp), _TCP, f"{_COMMAND} TCP_STREAM & … TCP_MAERTS", seconds=65),
    _section(
        "tcp-pacing",
        "TCP bidirectional with interrupt pacing",
        whole(_with_pacing),
        _TCP,
        "ethtool -C eth0 rx-usecs N",
        needs.tool("ethtool"),
        seconds=65,
        pacing="interrupt pacing",
    ),
    _section(
        "udp-egress",
        "UDP egress without loss",
        partial(_without_loss, direction="egress"),
        tuple(f"ethernet.udp.{name}" for name in _UDP),
        f"{_COMMAND} UDP_STREAM -b BURST -w 10",
        needs.netperf_options(on_tester=False),
        seconds=1000,
        once=_SEARCH,
        direction="egress",
        loss="0 loss",
    ),
    _section(
        "udp-ingress",
        "UDP ingress without loss",
        partial(_without_loss, direction="ingress"),
        tuple(f"ethernet.udp.{name}" for name in _UDP),
        "tester: netperf -H BOARD -j -C -l 60 -t UDP_STREAM -b BURST -w 10",
        needs.tool_of_tester("netperf"),
        needs.netperf_options(on_tester=True),
        seconds=1000,
        once=_SEARCH,
        direction="ingress",
        loss="0 loss",
    ),
    _section(
        "udp-ingress-loss",
        "UDP ingress with possible loss",
        _with_loss,
        tuple(f"ethernet.udp.{name}" for name in (*_UDP, "loss")),
        "tester: netperf -H BOARD -j -C -l 60 -t UDP_STREAM",
        needs.tool_of_tester("netperf"),
        seconds=310,
        direction="ingress",
        loss="possible loss",
    ),
)
