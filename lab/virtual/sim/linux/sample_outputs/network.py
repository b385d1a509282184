"""Board's end of network tests, with losses of the simulated link.

The programs are netperf, iperf, iperf3, mpstat, ip.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from attrs import frozen

from lab.virtual.sim.figures import PublishedValues
from lab.virtual.sim.linux.session import LoginSession, Tool, drawn, known, option, play
from lab.virtual.sim.model import Model
from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Interpreter, Streams
from lab.virtual.sim.timing import Normal

FRAMES = {18: 64, 82: 128, 210: 256, 978: 1024, 1472: 1518}  # UDP payload -> frame, bytes
JITTER = Normal(1.0, 0.002)  # of what the link can do in one trial
_PAYLOAD_UNTIL = (9,)  # guides of this generation count the bits of the payload, later ones those of the frame
_IDLE_LOAD = 0.5
_GAP_BYTES = 20  # preamble and gap between frames


@frozen
class Udp:
    """A UDP stream: packets/s offered and received, load in percent."""

    offered: float
    received: float
    load: float


def udp(
    model: Model, figures: PublishedValues, dice: random.Random, direction: str, payload: int, offered: float
) -> Udp:
    """Result of a stream that offers so many packets a second.

    0: as many as the sender can.
    """
    frame = FRAMES.get(payload, payload + 46)
    port = model.port
    if not offered and direction == "ingress":
        params = {"direction": direction, "frame_bytes": str(frame), "loss": "possible loss", "port": port}
        received = _packets(
            model, figures.draw(dice, "ethernet.udp.throughput", 0.5 * model.line_mbit_s, **params), frame, payload
        )
        loss = min(figures.draw(dice, "ethernet.udp.loss", 1.0, **params), 99.9) / 100
        load = figures.draw(dice, "ethernet.udp.cpu_load", 40.0, **params)
        return Udp(received / (1 - loss), received, load)
    params = {"direction": direction, "frame_bytes": str(frame), "loss": "0 loss", "port": port}
    published = figures.figure("ethernet.udp.throughput", 0.4 * model.line_mbit_s, **params).value
    can = _packets(model, published, frame, payload) * JITTER.draw(dice)
    offered = offered or can * 1.2
    received = min(offered, can)
    load = figures.draw(dice, "ethernet.udp.cpu_load", 30.0, **params) * received / can + _IDLE_LOAD
    return Udp(offered, received, min(load, 100.0))


def _packets(model: Model, mbit_s: float, frame: int, payload: int) -> float:
    """Packets a second; no more than the line takes, where a relative's figure is of larger frames."""
    old = tuple(int(part) for part in model.release_name.split(".")[:1]) <= _PAYLOAD_UNTIL
    return min(mbit_s / (payload if old else frame), model.line_mbit_s / (frame + _GAP_BYTES)) * 1e6 / 8


def netperf_text(kind: str, values: Mapping[str, object]) -> str:
    """A test's output with `-k`."""
    head = f"MIGRATED {kind} TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.168.0.1 () port 0 AF_INET : demo\n"
    return head + "".join(f"{name}={value}\n" for name, value in values.items())


def udp_text(stream: Udp, payload: int, seconds: float, *, local: bool) -> str:
    """netperf's output about a UDP stream; `local`: the board is the sender."""
    load = f"{stream.load:.2f}"
    sent, received = round(stream.offered * seconds), round(stream.received * seconds)
    return netperf_text(
        "UDP STREAM",
        {
            "DIRECTION": "Send",
            "THROUGHPUT": f"{stream.received * payload * 8 / 1e6:.2f}",
            "MEAN_LATENCY": f"{1e6 / max(stream.offered, 1):.2f}",
            "LOCAL_CPU_UTIL": load if local else "-1.00",
            "REMOTE_CPU_UTIL": "-1.00" if local else load,
            "LOCAL_BYTES_SENT": sent * payload,
            "REMOTE_BYTES_RECVD": received * payload,
            "LOCAL_SEND_SIZE": payload,
            "ELAPSED_TIME": f"{seconds:.2f}",
        },
    )


def asked(arguments: Sequence[str]) -> tuple[str, float, float, int]:
    """Kind, seconds, offered packets a second, and payload of a netperf command."""
    burst, wait_ms = option(arguments, "-b"), option(arguments, "-w", "10")
    offered = float(burst) * 1000 / float(wait_ms) if burst else 0.0
    return (
        option(arguments, "-t", "TCP_STREAM"),
        float(option(arguments, "-l", "10")),
        offered,
        int(option(arguments, "-m", "1472")),
    )


def _netperf(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    if "-V" in arguments:
        return (yield from play(session, streams, "Netperf version 2.7.1\n", 0.01))
    kind, seconds, offered, payload = asked(arguments)
    computer = session.computer
    if kind == "UDP_STREAM":
        dice = computer.dice("netperf", computer.now_ns)
        stream = udp(computer.model, known(session), dice, "egress", payload, offered)
        return (yield from play(session, streams, udp_text(stream, payload, seconds, local=True), seconds))
    return (yield from play(session, streams, _tcp_text(session, kind, seconds), seconds))


def _tcp_text(session: LoginSession, kind: str, seconds: float) -> str:
    pacing = {"pacing": "interrupt pacing"} if session.kernel.settings.get("rx_usecs", "0") != "0" else {}
    model = session.computer.model
    port = model.port
    half = drawn(session, "ethernet.tcp.throughput", 1.5 * model.line_mbit_s, port=port, **pacing) / 2
    load = drawn(session, "ethernet.tcp.cpu_load", 50.0, port=port, **pacing)
    sends, moved = kind == "TCP_STREAM", round(half * 1e6 / 8 * seconds)
    return netperf_text(
        kind.replace("_", " "),
        {
            "DIRECTION": "Send" if sends else "Receive",
            "THROUGHPUT": f"{half:.2f}",
            "MEAN_LATENCY": "153.20",
            "LOCAL_CPU_UTIL": f"{load:.2f}",
            "REMOTE_CPU_UTIL": "-1.00",
            "LOCAL_BYTES_SENT": moved if sends else 0,
            "REMOTE_BYTES_RECVD": moved if sends else 0,
            "LOCAL_SEND_SIZE": 16384 if sends else 0,
            "ELAPSED_TIME": f"{seconds:.2f}",
        },
    )


def _iperf3(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    seconds = int(option(arguments, "-t", "10"))
    head = "Connecting to host 192.168.0.1, port 5201\n"
    text = _iperf3_udp(session, arguments, seconds) if "--udp" in arguments else _iperf3_tcp(session, seconds)
    return (yield from play(session, streams, f"{head}{text}\niperf Done.\n", seconds))


def _iperf3_tcp(session: LoginSession, seconds: int) -> str:
    half = drawn(session, "ethernet.tcp.throughput", 1.5 * session.computer.model.line_mbit_s, port="cpsw") / 2
    text = "[ ID][Role] Interval           Transfer     Bitrate         Retr\n"
    for number, role in ((5, "TX-C"), (7, "RX-C")):
        amount = f"{half * seconds / 8 / 1024:.2f} GBytes"
        for who, retries in (("sender", "   0"), ("receiver", "    ")):
            row = f"[ {number:2}][{role}]   0.00-{seconds}.00  sec  {amount}  {half:.0f} Mbits/sec {retries}"
            text += f"{row}             {who}\n"
    return text


def _iperf3_udp(session: LoginSession, arguments: Sequence[str], seconds: int) -> str:
    direction = "ingress" if "--reverse" in arguments else "egress"
    payload = int(option(arguments, "--length", "1472"))
    computer = session.computer
    stream = udp(computer.model, known(session), computer.dice("iperf3", computer.now_ns), direction, payload, 0.0)
    sent, received = round(stream.offered * seconds), round(stream.received * seconds)
    text = "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n"
    for packets, lost, who in ((sent, 0, "sender"), (received, sent - received, "receiver")):
        rate = f"{packets * payload / 2**20:.0f} MBytes  {packets * payload * 8 / seconds / 1e6:.0f} Mbits/sec"
        share = f"{lost}/{sent} ({100 * lost / sent:.2g}%)"
        text += f"[  5]   0.00-{seconds}.00  sec  {rate}  0.012 ms  {share}  {who}\n"
    return text


def _iperf(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    seconds = float(option(arguments, "-t", "10"))
    rule, head = "-" * 60, f"Client connecting to {option(arguments, '-c')}, TCP port 5001\n"
    if "-d" in arguments:  # over the tunnel that `ip xfrm` made
        algorithm = session.kernel.settings.get("xfrm", "aes128")
        engine = "hardware" if session.kernel.settings.get("accelerator") else "software"
        rate = drawn(session, "ipsec.throughput", 200.0, algorithm=algorithm, engine=engine)
        packets = drawn(session, "ipsec.packets", rate / 11.2, algorithm=algorithm, engine=engine)
        load = drawn(session, "ipsec.cpu_load", 50.0, algorithm=algorithm, engine=engine)
        settings = session.kernel.settings
        settings["packets"] = str(int(settings.get("packets", "1000")) + round(packets * 1000 * seconds))
        settings["load"] = f"{load:.2f}"
        lines = [
            f"[{number:3}] 0.0000-{seconds:.4f} sec  {rate * seconds / 16:.1f} MBytes  {rate / 2:.2f} Mbits/sec"
            for number in (4, 5)
        ]
    else:
        window = option(arguments, "-w", "8K").rstrip("K")
        rate = drawn(session, "pcie.ethernet.throughput", 0.0, window=window) or 400 + float(window)
        lines = [f"[  3] 0.0000-{seconds:.4f} sec  {rate * seconds / 8:.1f} MBytes  {rate:.1f} Mbits/sec"]
    text = f"{rule}\n{head}{rule}\n[ ID] Interval       Transfer     Bandwidth\n" + "\n".join(lines) + "\n"
    return (yield from play(session, streams, text, seconds))


def _mpstat(session: LoginSession, _arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """sysstat's output with the load of the program beside it.

    The settings have that load.
    """
    model = session.computer.model
    load = float(session.kernel.settings.pop("load", "1.00"))
    head = "CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle"
    row = f"all    {load * 0.3:.2f}    0.00    {load * 0.7:.2f}    0.00    0.00    0.00    0.00    0.00    0.00   {100 - load:.2f}"
    text = f"Linux {model.release.kernel} ({model.identity.hostname}) \t01/08/25 \t_aarch64_\t({model.identity.cpus} CPU)\n\n"
    text += f"18:22:59     {head}\n18:23:54     {row}\n\nAverage:     {head}\nAverage:     {row}\n"
    return (yield from play(session, streams, text, 50))


def _ip(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """`ip`: notes ciphers, answers `route get`; the rest succeeds.

    `ip xfrm state add` notes the cipher, of AES by its key's length; `ip route get` goes by eth0.
    """
    words = list(arguments[1:])
    if words[:2] == ["route", "get"]:
        yield from streams.out(f"{words[2]} dev eth0 src 192.168.0.2 uid 0\n    cache\n".encode())
    key = next((word for word in words if word.startswith("0xa5a5")), "")
    if key:
        triple = "cbc(des3_ede)" in words
        session.kernel.settings["xfrm"] = "3des" if triple else f"aes{(len(key) - 2) * 4}"
    return 0


def _modprobe(session: LoginSession, arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    """Note the crypto accelerator's driver; other modules are loaded already."""
    yield from ()
    if arguments[-1] == session.computer.model.board.benchmarks.crypto_module:
        session.kernel.settings["accelerator"] = "" if "-r" in arguments else arguments[-1]
    return 0


def _serve(_session: LoginSession, _arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    yield from ()
    return 0


def _wait(_session: LoginSession, _arguments: Sequence[str], _streams: Streams, shell: Interpreter) -> Program[int]:
    """`wait $!`."""
    yield from ()
    return shell.background


TOOLS: Mapping[str, Tool] = {
    **dict.fromkeys(("netserver", "killall"), _serve),
    "ip": _ip,
    "iperf": _iperf,
    "iperf3": _iperf3,
    "modprobe": _modprobe,
    "mpstat": _mpstat,
    "netperf": _netperf,
    "wait": _wait,
}
