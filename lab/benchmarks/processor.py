"""Dhrystone, Whetstone, Linpack, NBench and STREAM.

Dhrystone and Whetstone count whole seconds, so few results are possible: their quantum is that step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.benchmarks import needs
from lab.benchmarks.output import OutputFormat, PrintedNumber, read, refused, rule
from lab.benchmarks.section import ALWAYS, Bench, HarmlessStatus, ParsedReading, Parser, Section, Validity, whole

_FLOAT = r"(\d+(?:\.\d+)?)"
DHRYSTONE_RUNS = 200e6  # of the vendor's build
WHETSTONE_MIP = 10_000  # million Whetstone instructions that its build works off
NBENCH_TESTS = {
    "NUMERIC SORT": "numeric_sort",
    "STRING SORT": "string_sort",
    "FP EMULATION": "fp_emulation",
    "FOURIER": "fourier",
    "ASSIGNMENT": "assignment",
    "IDEA": "idea",
    "HUFFMAN": "huffman",
    "NEURAL NET": "neural_net",
    "LU DECOMPOSITION": "lu_decomposition",
}
KERNELS = ("copy", "scale", "add", "triad")
# They print their numbers when all work is done. From 126 on it is the shell that failed, or a signal.
_NO_STATUS = Validity(
    harmless=(HarmlessStatus(range(1, 126), "its main() of before C89 returns no value, so its status is arbitrary"),)
)


DHRYSTONE = OutputFormat(
    "runDhrystone",
    {
        rf"CPU clock\s*=\s*{_FLOAT} MHz": PrintedNumber("cpu.clock"),
        rf"Dhrystone DMIPS/MHz\s*=\s*{_FLOAT}$": PrintedNumber("dhrystone.per_mhz"),
        rf"Dhrystones per Second:\s*{_FLOAT} *$": PrintedNumber("dhrystone.rate", work=DHRYSTONE_RUNS),
    },
    expected=3,
)
WHETSTONE = OutputFormat(
    "runWhetstone",
    {rf"Double Precision Whetstones:? {_FLOAT} MIPS": PrintedNumber("whetstone.rate", work=WHETSTONE_MIP)},
)
LINPACK = OutputFormat("runLinpack", {r"Unrolled\s+Single\s+Precision\s+(\d+) Kflops": PrintedNumber("linpack.rate")})
NBENCH = OutputFormat(  # the guides omit BITFIELD
    "nbench",
    {
        rf"^(?P<test>{'|'.join(NBENCH_TESTS)}) *: *(?P<value>{_FLOAT}) +:": PrintedNumber(
            "nbench.rate", by_digits=False, spelling=NBENCH_TESTS.__getitem__
        )
    },
    other=r"^BITFIELD|^BYTEmark|^TEST +:|^-+:|^ +:",
    expected=len(NBENCH_TESTS),
)


def stream(output: bytes) -> list[ParsedReading]:
    """Best rates, 10^6 bytes a second."""

    def invalid(match: re.Match[str]) -> list[ParsedReading]:
        raise refused(
            "STREAM", f"its arrays do not hold what they should ({match[0]!r}), so it measured something else"
        )

    rules = [
        rule(
            rf"^(?P<kernel>Copy|Scale|Add|Triad): +(?P<value>{_FLOAT})(?: +{_FLOAT}){{3}}$",
            PrintedNumber("stream.bandwidth", by_digits=False),
        ),
        rule(r"^Failed Validation.*", invalid),
        rule(r"^-+$|^STREAM|^Function"),
    ]
    return read(output, "STREAM", rules, expected=len(KERNELS))


def _section(
    name: str,
    title: str,
    command: str,
    parser: Parser,
    metrics: tuple[str, ...],
    seconds: float,
    validity: Validity = ALWAYS,
) -> Section:
    def measure(bench: Bench) -> Iterator[ParsedReading]:
        yield from bench.read(parser, command, timeout_s=max(120.0, 10 * seconds), validity=validity)

    return Section(
        name=name,
        title=title,
        chapter="System Benchmarks",
        metrics=metrics,
        rows=whole(measure),
        needs=(needs.tool(command),),
        command=command,
        duration_s=seconds,
    )


SECTIONS = (
    _section("dhrystone", "Dhrystone", "runDhrystone", DHRYSTONE, DHRYSTONE.metrics, 30, _NO_STATUS),
    _section("whetstone", "Whetstone", "runWhetstone", WHETSTONE, WHETSTONE.metrics, 3),
    _section("linpack", "Linpack", "runLinpack", LINPACK, LINPACK.metrics, 20, _NO_STATUS),
    _section("nbench", "NBench", "runNBench.sh", NBENCH, NBENCH.metrics, 120),
    _section("stream", "STREAM", "stream_c", stream, ("stream.bandwidth",), 5),
)
