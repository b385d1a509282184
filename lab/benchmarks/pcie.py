"""iperf over a PCIe network card, by TCP window."""

from __future__ import annotations

from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import OutputFormat, PrintedNumber
from lab.benchmarks.section import Bench, Row, Rows, Section, Validity, has_link

WINDOWS_KIB = (8, 16, 32, 64, 128, 256)
SECONDS = 60
INTERFACE = "enp1s0"


IPERF = OutputFormat(  # of iperf 2 with `-f m`: a line of the whole interval
    "iperf",
    {
        r"^\[ *\d+\] +0\.0+-(?P<seconds>\d+\.\d+) sec .*?(?P<value>\d+(?:\.\d+)?) Mbits/sec$": PrintedNumber(
            "pcie.ethernet.throughput"
        )
    },
    other=r"^-+$|^Client connecting|^TCP window|^\[|^WARNING",
)


def _rows(bench: Bench) -> Rows:
    bench.tester("iperf -s -D", check=False)
    for window in WINDOWS_KIB:
        command = f"iperf -c {bench.site.tester} -m -f m -t {SECONDS} -w {window}K"
        parser = partial(IPERF, window=str(window))
        measure = partial(bench.read, parser, command, timeout_s=SECONDS + 60, validity=Validity(SECONDS))
        yield Row(measure, {"window": str(window)})


SECTION = Section(
    name="pcie-ethernet",
    title="Ethernet over PCIe",
    chapter="PCIe Driver",
    metrics=IPERF.metrics,
    rows=_rows,
    needs=(
        needs.path(
            f"/sys/class/net/{INTERFACE}", "PCIe network card", "plug a card in that the kernel has a driver for"
        ),
        needs.tool("iperf"),
        needs.tool_of_tester("iperf"),
    ),
    command="iperf -c 192.168.0.1 -m -f M -d -t 60 -w 8K",
    fits=has_link(INTERFACE),
    duration_s=390,
)
