"""Dhrystone, Whetstone, Linpack, NBench and STREAM.

Dhrystone and Whetstone count whole seconds, so few results are possible: their quantum is that step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.benchmarks import needs
from lab.benchmarks.output import cut_time, number, read, refused, rule
from lab.benchmarks.section import ALWAYS, Bench, HarmlessStatus, ParsedReading, Parser, Section, Validity, whole

_FLOAT = r"(\d+(?:\.\d+)?)"
DHRYSTONE_RUNS = 200e6  # of the vendor's build
WHETSTONE_MIP = 10_000  # million Whetstone instructions that its build works off
NBENCH = {
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


def dhrystone(output: bytes) -> list[ParsedReading]:
    """Clock, DMIPS/MHz and Dhrystones a second."""

    def rate(match: re.Match[str]) -> list[ParsedReading]:
        value = float(match[1])
        if not value:
            return []
        return [ParsedReading("dhrystone.rate", value, quantum=cut_time(value, DHRYSTONE_RUNS / value, 1))]

    rules = [
        rule(rf"CPU clock\s*=\s*{_FLOAT} MHz", number("cpu.clock")),
        rule(rf"Dhrystone DMIPS/MHz\s*=\s*{_FLOAT}$", number("dhrystone.per_mhz")),
        rule(rf"Dhrystones per Second:\s*{_FLOAT} *$", rate),
    ]
    return read(output, "runDhrystone", rules, expected=3)


def whetstone(output: bytes) -> list[ParsedReading]:
    """Double-precision Whetstone."""

    def rate(match: re.Match[str]) -> list[ParsedReading]:
        value = float(match[1])
        if not value:
            return []
        return [ParsedReading("whetstone.rate", value, quantum=cut_time(value, WHETSTONE_MIP / value, 1))]

    return read(output, "runWhetstone", [rule(rf"Double Precision Whetstones:? {_FLOAT} MIPS", rate)])


def linpack(output: bytes) -> list[ParsedReading]:
    """Unrolled single precision."""
    return read(output, "runLinpack", [rule(r"Unrolled\s+Single\s+Precision\s+(\d+) Kflops", number("linpack.rate"))])


def nbench(output: bytes) -> list[ParsedReading]:
    """Iterations per second of nine tests; the guides omit BITFIELD."""

    def row(match: re.Match[str]) -> list[ParsedReading]:
        return [ParsedReading("nbench.rate", float(match[2]), {"test": NBENCH[match[1]]})]

    names = "|".join(NBENCH)
    rules = [rule(rf"^({names}) *: *{_FLOAT} +:", row), rule(r"^BITFIELD|^BYTEmark|^TEST +:|^-+:|^ +:")]
    return read(output, "nbench", rules, expected=len(NBENCH))


def stream(output: bytes) -> list[ParsedReading]:
    """Best rates, 10^6 bytes a second."""

    def row(match: re.Match[str]) -> list[ParsedReading]:
        return [ParsedReading("stream.bandwidth", float(match[2]), {"kernel": match[1].lower()})]

    def invalid(match: re.Match[str]) -> list[ParsedReading]:
        raise refused(
            "STREAM", f"its arrays do not hold what they should ({match[0]!r}), so it measured something else"
        )

    rules = [
        rule(rf"^(Copy|Scale|Add|Triad): +{_FLOAT}(?: +{_FLOAT}){{3}}$", row),
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
    _section(
        "dhrystone",
        "Dhrystone",
        "runDhrystone",
        dhrystone,
        ("cpu.clock", "dhrystone.per_mhz", "dhrystone.rate"),
        30,
        _NO_STATUS,
    ),
    _section("whetstone", "Whetstone", "runWhetstone", whetstone, ("whetstone.rate",), 3),
    _section("linpack", "Linpack", "runLinpack", linpack, ("linpack.rate",), 20, _NO_STATUS),
    _section("nbench", "NBench", "runNBench.sh", nbench, ("nbench.rate",), 120),
    _section("stream", "STREAM", "stream_c", stream, ("stream.bandwidth",), 5),
)
