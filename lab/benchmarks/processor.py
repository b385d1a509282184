"""Processor and memory: Dhrystone to STREAM, EEMBC, sysbench and stress-ng.

Dhrystone and Whetstone count whole seconds, so few results are possible: their quantum is that step. EEMBC's are
CoreMark-Pro (one, two contexts) and MultiBench: workloads per second. Distributions ship sysbench and stress-ng, and no
guide has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from attrs import evolve

from lab.benchmarks import needs
from lab.benchmarks.output import OutputFormat, PrintedNumber, read, refusal, rule
from lab.benchmarks.section import (
    ALWAYS,
    Bench,
    HarmlessStatus,
    Need,
    ParsedReading,
    Parser,
    Row,
    Rows,
    Section,
    Validity,
    whole,
)

CHAPTER = "System Benchmarks"
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
        raise refusal(
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
        chapter=CHAPTER,
        metrics=metrics,
        rows=whole(measure),
        needs=(needs.tool(command),),
        command=command,
        duration_s=seconds,
    )


TWO_CORES = "twocore"
_EEMBC_RATE = r"^(?:-- *)?(?P<workload>[\w\\.-]+):workloads/sec=\s*(?P<value>\d+(?:\.\d+)?)$"
_EEMBC_OTHER = r"^-+ *(?:Info|Workload|Done|[\w\\.-]+:)|^(?:WORKLOAD|MARK) RESULTS|^\w+ Name|^-+ "
COREMARK_PRO = OutputFormat(  # nine workloads and the mark; no official score
    "CoreMark-Pro",
    {
        _EEMBC_RATE: PrintedNumber("coremark_pro.rate", by_digits=False),
        r"^CoreMark-PRO\s+(\d+\.\d+)(?:\s|$)": PrintedNumber("coremark_pro.score", by_digits=False),
    },
    other=_EEMBC_OTHER,
    expected=9 + 1,
)
MULTIBENCH = OutputFormat(  # 28 workloads; the raw names of some hold a backslash
    "MultiBench",
    {
        _EEMBC_RATE: PrintedNumber(
            "multibench.rate", by_digits=False, spelling=lambda name: name.replace("\\", "").lower()
        )
    },
    other=_EEMBC_OTHER,
    expected=28,
)


def _params(contexts: int) -> dict[str, str]:
    return {"contexts": TWO_CORES} if contexts == 2 else {}


def _eembc_suite(folder: str) -> Need:
    return needs.path(
        "{site.eembc}/" + folder,
        f"EEMBC {folder}",
        "install the licensed suite there, or set `benchmarks: {eembc: ...}`",
    )


def _coremark(contexts: int) -> Section:
    command = f"make -s -C {{}}/coremark-pro TARGET=linux64 XCMD=-c{contexts} certify-all"

    def measure(bench: Bench) -> Iterator[ParsedReading]:
        yield from bench.read(
            partial(COREMARK_PRO, **_params(contexts)), command.format(bench.site.eembc), timeout_s=3600
        )

    return Section(
        name="coremark-pro" if contexts == 1 else "coremark-pro-two-core",
        title="CoreMark-Pro" if contexts == 1 else "CoreMark-Pro, two cores",
        chapter=CHAPTER,
        metrics=COREMARK_PRO.metrics,
        rows=whole(measure),
        needs=(needs.tool("make"), _eembc_suite("coremark-pro")),
        command=command.format("EEMBC"),
        fits=lambda board: board.identity is None or board.identity.cpus >= contexts,
        duration_s=300,
        params=_params(contexts),
    )


def _multibench(bench: Bench) -> Iterator[ParsedReading]:
    command = f"make -s -C {bench.site.eembc}/multibench TARGET=linux64 run-all"
    yield from bench.read(MULTIBENCH, command, timeout_s=7200)


SECTIONS = (
    _section("dhrystone", "Dhrystone", "runDhrystone", DHRYSTONE, DHRYSTONE.metrics, 30, _NO_STATUS),
    _section("whetstone", "Whetstone", "runWhetstone", WHETSTONE, WHETSTONE.metrics, 3),
    _section("linpack", "Linpack", "runLinpack", LINPACK, LINPACK.metrics, 20, _NO_STATUS),
    _section("nbench", "NBench", "runNBench.sh", NBENCH, NBENCH.metrics, 120),
    _section("stream", "STREAM", "stream_c", stream, ("stream.bandwidth",), 5),
    _coremark(1),
    _coremark(2),
    Section(
        name="multibench",
        title="MultiBench",
        chapter=CHAPTER,
        metrics=MULTIBENCH.metrics,
        rows=whole(_multibench),
        needs=(needs.tool("make"), _eembc_suite("multibench")),
        command="make -C EEMBC/multibench TARGET=linux64 run-all",
        duration_s=900,
    ),
)

SHARE = 6  # of the time that the sections of the guides take: ten seconds
STRESSORS = ("cpu", "matrix", "cache", "pipe", "switch")
# Everything else that sysbench 1.0 and 1.1 print is titles, settings, latencies and counts.
_SYSBENCH_TALK = r"^sysbench |^[A-Z][\w /-]+(?::.*|!|\.\.\.)?$|^ +[\w /()%.-]+:? .*$"


def sysbench_cpu(output: bytes) -> list[ParsedReading]:
    """`sysbench cpu run`."""
    return _sysbench_read(output, r"^ +events per second: +(\d+\.\d+)$", PrintedNumber("sysbench.events"))


def sysbench_memory(output: bytes, operation: str) -> list[ParsedReading]:
    """`sysbench memory run`."""
    pattern = r"^\d+\.\d+ MiB transferred \((\d+\.\d+) MiB/sec\)$"
    return _sysbench_read(output, pattern, PrintedNumber("sysbench.memory", {"operation": operation}))


def _sysbench_read(
    output: bytes, pattern: str, make: Callable[[re.Match[str]], list[ParsedReading]]
) -> list[ParsedReading]:
    """A number, with the time that sysbench prints below it."""
    took: list[float] = []

    def time(match: re.Match[str]) -> list[ParsedReading]:
        took.append(float(match[1]))
        return []

    rules = [rule(pattern, make), rule(r"^ +total time: +(\d+\.\d+)s$", time), rule(_SYSBENCH_TALK)]
    return [evolve(reading, seconds=max(took, default=0.0)) for reading in read(output, "sysbench", rules)]


STRESS_NG = OutputFormat(  # the table of `--metrics-brief`: bogo operations a second of real time
    "stress-ng",
    {
        r"^stress-ng: (?:info|metrc): +\[\d+\] (?P<stressor>[a-z][\w-]*) +\d+ +(?P<seconds>\d+\.\d+)(?: +\d+\.\d+){2} +"
        r"(?P<value>\d+\.\d+) +\d+\.\d+": PrintedNumber("stress_ng.rate", by_digits=False)
    },
    other=r"^stress-ng: (?:info|metrc|debug|warn): ",
)


def _timed_readings(bench: Bench, parser: Parser, command: str) -> Iterator[ParsedReading]:
    """Run a command that gets its time as `{seconds}`."""
    seconds = max(1, bench.site.seconds // SHARE)
    validity = Validity(seconds)  # interrupted, stress-ng prints its table
    for reading in bench.read(parser, command.format(seconds=seconds), timeout_s=seconds + 30, validity=validity):
        yield evolve(reading, flags=reading.flags | bench.site.doubts)


def _sysbench(bench: Bench) -> Rows:
    yield Row(partial(_timed_readings, bench, sysbench_cpu, "sysbench cpu --time={seconds} run"), {"test": "cpu"})
    for operation in ("read", "write"):
        options = f"--memory-block-size=1M --memory-total-size=1T --memory-oper={operation}"
        parser = partial(sysbench_memory, operation=operation)
        command = f"sysbench memory --time={{seconds}} {options} run"
        yield Row(partial(_timed_readings, bench, parser, command), {"test": "memory", "operation": operation})


def _stress_ng(bench: Bench) -> Rows:
    for stressor in STRESSORS:
        command = f"stress-ng --{stressor} 1 --timeout {{seconds}}s --metrics-brief 2>&1"
        yield Row(partial(_timed_readings, bench, STRESS_NG, command), {"stressor": stressor})


DISTRIBUTION_SECTIONS = (
    Section(
        name="sysbench",
        title="sysbench",
        chapter=CHAPTER,
        metrics=("sysbench.events", "sysbench.memory"),
        rows=_sysbench,
        needs=(needs.tool("sysbench"),),
        command="sysbench cpu run; sysbench memory run",
        duration_s=32,
    ),
    Section(
        name="stress-ng",
        title="stress-ng",
        chapter=CHAPTER,
        metrics=STRESS_NG.metrics,
        rows=_stress_ng,
        needs=(needs.tool("stress-ng"),),
        command="stress-ng --cpu 1 --metrics-brief",
        duration_s=55,
    ),
)
