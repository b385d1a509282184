"""Ethernet to the tester: TCP both ways, UDP with and without loss.

netperf as the guides have it. A UDP sender is limited by bursts every 10 ms, so its rate has steps of 100 packets a
second. Throughput counts the bits of whole frames, as guides from 10.00 on do; the packets are not rounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from attrs import define, evolve, field, frozen

from lab.benchmarks import needs
from lab.benchmarks.output import first_line, lines, missing, refused
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
from lab.boards import BoardType
from lab.errors import BoardTransientError
from lab.metrics import Flag

# --- netperf's output with `-k` ---


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
            known = blocks[kind].setdefault(pair[1], pair[2])
            if known != pair[2]:
                raise missing("netperf", f"one {pair[1]} for each test, found {known} and another", line.text)
            spans[kind] = (spans[kind][0], line.end)
        elif line.text.strip():
            unknown = unknown or line.text
    wanted = [key for key in KEYS.split(",") if key != _ELAPSED]
    for name in kinds:
        absent = [key for key in wanted if key not in blocks.get(name, {})]
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


# --- Highest rate without loss: RFC 2544, section 26.1 ---
# The RFC asks for the fastest rate at which the device loses nothing in a trial of 60 s, and leaves the search free.
# This one halves the bracket between the fastest rate that lost nothing and the slowest that lost something, with
# short trials, until the bracket is narrower than the tolerance or than the sender's own step; then a long trial has
# to confirm the rate. Where it does not, the rate counts as lossy and the search goes on below it; where that happens
# twice, short trials do not tell (buffers hide their losses), and the search begins again with long ones only.


TOLERANCE = 0.005  # of the rate that is found
MAX_TRIALS = 60
_WIDE = 2.0  # a bracket whose ends are farther apart is halved on a logarithmic scale


@frozen
class Trial:
    """One trial.

    Attributes:
        rate: offered, in the caller's unit.
        loss: lost share of the sent data.
        is_long: of the RFC's length.
    """

    rate: float
    loss: float
    is_long: bool


@frozen
class Throughput:
    """The result of a search.

    Attributes:
        rate: the fastest that lost nothing in a long trial.
        tolerance: width of the final bracket, in the unit of the rate: the truth may be faster by it.
        trials: in their order.
        is_monotonic: no rate lost anything below one that lost nothing, beyond the tolerance; False hints at a link
            whose losses have another reason than its capacity.
    """

    rate: float
    tolerance: float
    trials: tuple[Trial, ...]
    is_monotonic: bool


@define
class _Search:
    send: Callable[[float, bool], float]
    lowest: float
    tolerance: float
    step: float
    passed: list[float]
    failed: float
    trials: list[Trial] = field(factory=list)
    only_long: bool = False

    def holds(self, rate: float, *, is_long: bool = False) -> bool:
        is_long = is_long or self.only_long
        if len(self.trials) >= MAX_TRIALS:
            raise BoardTransientError(
                f"no stable rate without loss after {MAX_TRIALS} trials, between {self.passed[-1]:g} and "
                f"{self.failed:g}: something else than the load loses packets. Look at the link (ethtool -S) and at "
                "what else runs",
                failure="search_unstable",
            )
        loss = self.send(rate, is_long)
        self.trials.append(Trial(rate, loss, is_long))
        return loss == 0.0

    def narrow(self) -> None:
        """Halve the bracket until it is narrow enough."""
        while self.width > max(self.step, self.tolerance * self.passed[-1]):
            low, high = self.passed[-1], self.failed
            middle = math.sqrt(low * high) if high > _WIDE * low else (low + high) / 2
            if self.holds(middle):
                self.passed.append(middle)
            else:
                self.failed = middle

    @property
    def width(self) -> float:
        return self.failed - self.passed[-1]


def search(
    send: Callable[[float, bool], float],
    *,
    lowest: float,
    highest: float,
    step: float,
    tolerance: float = TOLERANCE,
) -> Throughput:
    """Find the highest rate without loss.

    Args:
        send: offers a rate, for a short or a long time, and returns the lost share.
        lowest: a rate of any working link.
        highest: the link's capacity; nothing is tried above.
        step: the smallest difference of rates that the sender can make.
        tolerance: the bracket's width at which the search ends, as a share of the rate.

    Raises:
        BoardTransientError: even the lowest rate loses packets, or the losses do not depend on the rate.
    """
    state = _Search(send, lowest, tolerance, step, [], highest)
    if state.holds(highest) and state.holds(highest, is_long=True):
        return Throughput(highest, 0.0, tuple(state.trials), is_monotonic=True)
    if not state.holds(lowest):
        raise BoardTransientError(
            f"even {lowest:g} packets a second lost some: the link is broken, or other traffic loads it. Look at the "
            "cable, the link's errors (ethtool -S), and what else runs on both ends",
            failure="link_lossy",
        )
    state.passed = [lowest]
    unconfirmed = 0
    while True:
        state.narrow()
        rate = state.passed[-1]
        if state.holds(rate, is_long=True):
            break
        unconfirmed += 1
        state.failed = rate
        if len(state.passed) > 1:
            state.passed.pop()
        if unconfirmed == 2:
            state.passed, state.only_long = [lowest], True
    return Throughput(rate, state.width, tuple(state.trials), _monotonic(state.trials, tolerance))


def _monotonic(trials: list[Trial], tolerance: float) -> bool:
    best = max(trial.rate for trial in trials if not trial.loss)
    lossy = [trial.rate for trial in trials if trial.loss]
    return not lossy or min(lossy) > best * (1 - 2 * tolerance)


# --- The sections ---
# netperf as the guides have it. A UDP sender is limited by bursts every 10 ms, so its rate has steps of 100 packets a
# second. Throughput counts the bits of whole frames, as guides from 10.00 on do; the packets are not rounded.


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
        raise refused("netperf", "it sent nothing, which is no stream without loss (LOCAL_BYTES_SENT=0)")
    pps = test.received_bytes / FRAMES[frame] / (test.seconds or seconds)
    load = test.remote_cpu if params["direction"] == "ingress" else test.local_cpu
    if load is None:
        raise missing("netperf", "the board's CPU load (option -c or -C)", "CPU_UTIL=-1.00")
    own = {**params, "frame_bytes": str(frame)}
    found = {
        "datagram": test.datagram_bytes,
        "throughput": pps * frame * 8 / 1e6,
        "packets": pps / 1000,
        "cpu_load": load,
    } | ({"loss": 100 * test.loss} if loss else {})
    return [
        ParsedReading(f"ethernet.udp.{name}", value, own, start=test.start, end=test.end, seconds=test.seconds)
        for name, value in found.items()
    ]


def burst(pps: float) -> int:
    """Packets in a burst every 10 ms."""
    return max(1, round(pps * BURST_MS / 1000))


def _limited(pps: float, frame: int, seconds: int, address: str, load: str) -> str:
    rate = f"-b {burst(pps)} -w {BURST_MS} " if pps else ""
    return f"netperf -H {address} -j {load} -l {seconds} -t UDP_STREAM {rate}-- -m {FRAMES[frame]} -k {KEYS}"


def _tcp_command(bench: Bench) -> str:
    def one(test: str) -> str:
        return f"netperf -H {bench.site.tester} -j -c -l {LONG_S} -t {test} -- -k {KEYS} > {_OUT}.{test} 2>&1"

    tests = "TCP_STREAM", "TCP_MAERTS"
    files = " ".join(f"{_OUT}.{test}" for test in tests)
    return (
        f"{one(tests[0])} & {one(tests[1])}; second=$?; wait $!; first=$?; cat {files}; rm -f {files}; "
        "test $first = 0 && first=$second; (exit $first)"
    )


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
    return bench.read(parser, _tcp_command(bench), timeout_s=2 * LONG_S + 60, validity=validity)


def _paced(bench: Bench) -> Iterator[ParsedReading]:
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
    command = _limited(pps, frame, seconds, address, "-C" if ingress else "-c")
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
        found = _one_udp(bench, direction, frame, "0 loss", pps, LONG_S if is_long else SHORT_S)
        lost = next(reading.value for reading in found if reading.metric == "ethernet.udp.loss")
        if is_long and not lost:
            last[:] = [reading for reading in found if reading.metric != "ethernet.udp.loss"]
        return lost / 100

    found = search(send, lowest=LOWEST_PPS, highest=line_pps(line_mbit_s, frame), step=1000 / BURST_MS)
    yield from (_uncertain(reading, found, frame) for reading in last)


def _uncertain(reading: ParsedReading, found: Throughput, frame: int) -> ParsedReading:
    """Add the search's tolerance to a reading's quantum."""
    quanta = {"ethernet.udp.packets": 1e-3, "ethernet.udp.throughput": frame * 8e-6}
    flags = frozenset() if found.is_monotonic else frozenset({Flag.NOT_MONOTONIC})
    return evolve(reading, quantum=2 * found.tolerance * quanta.get(reading.metric, 0.0), flags=flags)


def _with_loss(bench: Bench) -> Rows:
    for frame in FRAMES:
        one = partial(_one_udp, bench, "ingress", frame, "possible loss", 0.0, LONG_S)
        yield Row(one, {"frame_bytes": str(frame)})


def _serving(rows: Callable[[Bench], Rows]) -> Callable[[Bench], Rows]:
    """Run netserver on both ends during the block."""

    def served(bench: Bench) -> Rows:
        for start in (bench.run, bench.tester):
            start("netserver > /dev/null 2>&1", check=False)  # one that runs already answers as well
        yield from rows(bench)

    return served


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
        whole(_paced),
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
