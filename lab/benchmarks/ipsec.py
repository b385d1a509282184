"""An IPSec tunnel to the tester: throughput, packets, board's load.

The keys are set by hand (`ip xfrm`), so that nothing but the kernel's ESP is measured. The vendor's own runner is not
public; its ancestor sums both directions of iperf, as is done here. Packets are those that the interface counted; the
vendor prints thousands, cut off.

In hardware the queue and the software fallback of OMAP's accelerators are set as the AM437x guide says, and put back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks import output as benchmarks_output
from lab.benchmarks.ethernet import line_pps, link_validity
from lab.benchmarks.output import first_line, missing, printed_step, read, refusal, rule
from lab.benchmarks.section import Bench, Need, ParsedReading, Parser, Row, Rows, Section, has_link
from lab.errors import BoardStableError

SECONDS = 60
ALGORITHMS = ("aes128", "aes192", "aes256", "3des")
KEY_BYTES = {"aes128": 16, "aes192": 24, "aes256": 32, "3des": 24}
_CIPHERS = {"aes128": "cbc(aes)", "aes192": "cbc(aes)", "aes256": "cbc(aes)", "3des": "cbc(des3_ede)"}
_AUTH = "auth-trunc 'hmac(sha1)' 0x" + "5a" * 20 + " 96"
FLUSH = ("ip xfrm state flush", "ip xfrm policy flush")
# The AM437x guide's note on its hardware table. Which accelerators it means is not said: all of OMAP's that have both
# files get them (Linux drivers/crypto/omap-aes.c and omap-sham.c). SA2UL has neither.
TUNING: Mapping[str, int] = {"queue_len": 300, "fallback": 9}
_TUNED = "/sys/bus/platform/drivers/omap-*/*"
_OUT = "/run/boardlab.iperf"  # on the board, where nobody but root makes files


def parse(output: bytes, algorithm: str, engine: str, seconds: float = SECONDS) -> list[ParsedReading]:
    """iperf's rates both ways, the interface's packets, and mpstat's average."""
    params = {"algorithm": algorithm, "engine": engine}
    rates: dict[str, float] = {}
    steps: dict[str, float] = {}
    counts: dict[str, int] = {}
    took: list[float] = []

    def rate(match: re.Match[str]) -> list[ParsedReading]:
        rates[match[1]] = float(match[3])
        steps[match[1]] = printed_step(match[3])
        took.append(float(match[2]))
        return []

    def count(match: re.Match[str]) -> list[ParsedReading]:
        counts[match[1]] = int(match[2]) + int(match[3])
        return []

    rules = [
        rule(r"^packets (before|after) (\d+) (\d+)$", count),
        rule(r"^\[ *(\d+)\] +0\.0+-(\d+\.\d+) sec .*? (\d+(?:\.\d+)?) Mbits/sec$", rate),
        rule(r"^-+$|^Client|^Server|^TCP window|^\[|^Linux |^[\d:]+ |^Average|^WARNING"),
    ]
    read(output, "iperf", rules, expected=0)
    if len(rates) != 2 or counts.keys() != {"before", "after"}:
        raise missing("the tunnel test", "two rates of iperf, and the packets before and after it", first_line(output))
    if counts["after"] < counts["before"]:
        raise refusal("the tunnel test", "the interface counts fewer packets than before: its counters began anew")
    packets = (counts["after"] - counts["before"]) / seconds / 1000
    of = partial(ParsedReading, params=params, end=len(output), seconds=min(took))
    return [
        of("ipsec.throughput", sum(rates.values()), quantum=sum(steps.values())),
        of("ipsec.packets", packets),
        of("ipsec.cpu_load", benchmarks_output.parse_mpstat(output).percent),
    ]


def tunnel(algorithm: str, here: str, remote: str) -> list[str]:
    """The commands that make one end of the tunnel."""
    key = "0x" + "a5" * KEY_BYTES[algorithm]
    states = [
        f"ip xfrm state add src {a} dst {b} proto esp spi {spi:#x} mode tunnel enc '{_CIPHERS[algorithm]}' "
        f"{key} {_AUTH}"
        for a, b, spi in ((here, remote, 0x100), (remote, here, 0x200))
    ]
    policies = [
        f"ip xfrm policy add src {a} dst {b} dir {way} tmpl src {a} dst {b} proto esp mode tunnel"
        for a, b, way in ((here, remote, "out"), (remote, here, "in"))
    ]
    return states + policies


def _swap_ends(commands: list[str]) -> list[str]:
    """The other end's commands: the same states by their numbers."""
    return [
        c.replace(" dir out ", " dir X ").replace(" dir in ", " dir out ").replace(" dir X ", " dir in ")
        for c in commands
    ]


def _rows(bench: Bench, engine: str) -> Rows:
    site = bench.site
    if site.crypto_module:
        bench.run(f"modprobe {'' if engine == 'hardware' else '-r '}{site.crypto_module}")
    if problem := _wrong_engine(bench, engine):
        raise BoardStableError(problem, failure="wrong_engine")
    before: dict[str, str] = {}  # the accelerators' tuning files (queue, fallback) -> their values
    if engine == "hardware":
        files = " ".join(f"{_TUNED}/{name}" for name in TUNING)
        output = bench.run(f"grep -H . {files} 2> /dev/null", check=False).decode("utf-8", "replace")
        before = dict(re.findall(r"^(/sys/\S+):(\d+)$", output, re.MULTILINE))
    try:
        for path in before:
            bench.run(f"echo {TUNING[path.rpartition('/')[2]]} > {path}")
        yield from _algorithms(bench, engine)
    finally:
        for path, value in before.items():
            bench.run(f"echo {value} > {path}")


def _algorithms(bench: Bench, engine: str) -> Rows:
    for algorithm in ALGORITHMS:
        commands = tunnel(algorithm, bench.site.board, bench.site.tester)
        if algorithm == "3des" and not _takes(bench, commands[0]):
            continue  # newer kernels may be built without DES; their messages are in the log
        parser = partial(parse, algorithm=algorithm, engine=engine)
        yield Row(partial(_measure_tunnel, bench, commands, parser), {"algorithm": algorithm})


def _measure_tunnel(bench: Bench, commands: list[str], parser: Parser) -> list[ParsedReading]:
    site = bench.site
    for command in (*FLUSH, *commands):
        bench.run(command)
    for command in (*FLUSH, *_swap_ends(commands)):
        bench.tester(command)
    bench.tester("iperf -s -D > /dev/null", check=False)
    folder = f"/sys/class/net/{site.interface}/statistics"
    count = f"cat {folder}/tx_packets {folder}/rx_packets"
    command = (
        f"echo packets before $({count}); iperf -c {site.tester} -d -f m -t {SECONDS} > {_OUT} 2>&1 & sleep 5; "
        f"mpstat -P ALL {SECONDS - 10} 1; wait $!; status=$?; echo packets after $({count}); cat {_OUT}; rm -f "
        f"{_OUT}; (exit $status)"
    )
    validity = link_validity(
        bench, SECONDS, lambda rate: {"ipsec.throughput": 2 * rate, "ipsec.packets": 2 * line_pps(rate, 64) / 1000}
    )
    return bench.read(parser, command, timeout_s=SECONDS + 120, validity=validity)


def _takes(bench: Bench, state: str) -> bool:
    """True if both kernels accept a state, after a flush.

    An existing state would be refused.
    """
    for command in FLUSH:
        bench.run(command)
        bench.tester(command)
    return bench.status(state) == 0 and b"refused" not in bench.tester(f"{state} || echo refused", check=False)


def _restore(bench: Bench) -> None:
    """Remove the tunnel, which would carry the numbers of later sections."""
    for flush in FLUSH:
        bench.run(flush)
        bench.tester(flush)


def _wrong_engine(bench: Bench, engine: str) -> str:
    """The reason why ESP would use the wrong driver; or nothing.

    It uses the driver of the highest priority in /proc/crypto.
    """
    text = bench.run("cat /proc/crypto", check=False).decode("utf-8", "replace")
    drivers = re.findall(r"^name +: cbc\(aes\)\ndriver +: (\S+)\n(?:.*\n)*?priority +: (\d+)", text, re.MULTILINE)
    if not drivers:
        return "the kernel has no cbc(aes) (/proc/crypto); load its module (modprobe aes_generic)"
    driver = max(drivers, key=lambda pair: int(pair[1]))[0]
    accelerated = re.search(r"sa2ul|omap|caam|dthe|qce", driver) is not None
    if accelerated == (engine == "hardware"):
        return ""
    return (
        f"ESP would use {driver}, which is not the {engine} engine; set `benchmarks: {{crypto_module: ...}}` "
        "in the env"
    )


def _engine(engine: str) -> Need:
    def check(bench: Bench) -> str:
        return "" if bench.site.crypto_module else _wrong_engine(bench, engine)

    return Need(f"{engine} engine", check)


def _section(engine: str) -> Section:
    return Section(
        name=f"ipsec-{engine}",
        title=f"IPSec in {engine}",
        chapter="CRYPTO Driver",
        metrics=("ipsec.throughput", "ipsec.packets", "ipsec.cpu_load"),
        rows=partial(_rows, engine=engine),
        restore=_restore,
        needs=(
            needs.link_speed(),
            needs.private_link(),
            needs.tool("ip", "iproute2"),
            needs.tool("iperf"),
            needs.tool("mpstat", "sysstat"),
            needs.tool_of_tester("iperf"),
            _engine(engine),
        ),
        command="ip xfrm …; iperf -c 192.168.0.1 -d -t 60",
        fits=has_link("eth0"),
        duration_s=280,
        params={"engine": engine},
    )


SECTIONS = (_section("software"), _section("hardware"))
