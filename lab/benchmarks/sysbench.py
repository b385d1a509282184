"""sysbench and stress-ng, which distributions ship and no guide has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from attrs import evolve

from lab.benchmarks import needs
from lab.benchmarks.output import OutputFormat, PrintedNumber, read, rule
from lab.benchmarks.section import Bench, ParsedReading, Parser, Row, Rows, Section, Validity

CHAPTER = "System Benchmarks"
SHARE = 6  # of the time that the sections of the guides take: ten seconds
STRESSORS = ("cpu", "matrix", "cache", "pipe", "switch")
# Everything else that sysbench 1.0 and 1.1 print is titles, settings, latencies and counts.
_TALK = r"^sysbench |^[A-Z][\w /-]+(?::.*|!|\.\.\.)?$|^ +[\w /()%.-]+:? .*$"


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

    rules = [rule(pattern, make), rule(r"^ +total time: +(\d+\.\d+)s$", time), rule(_TALK)]
    return [evolve(reading, seconds=max(took, default=0.0)) for reading in read(output, "sysbench", rules)]


STRESS_NG = OutputFormat(  # the table of `--metrics-brief`: bogo operations a second of real time
    "stress-ng",
    {
        r"^stress-ng: (?:info|metrc): +\[\d+\] (?P<stressor>[a-z][\w-]*) +\d+ +(?P<seconds>\d+\.\d+)(?: +\d+\.\d+){2} +"
        r"(?P<value>\d+\.\d+) +\d+\.\d+": PrintedNumber("stress_ng.rate", by_digits=False)
    },
    other=r"^stress-ng: (?:info|metrc|debug|warn): ",
)


def _read(bench: Bench, parser: Parser, command: str) -> Iterator[ParsedReading]:
    """Run a command that gets its time as `{seconds}`."""
    seconds = max(1, bench.site.seconds // SHARE)
    validity = Validity(seconds)  # interrupted, stress-ng prints its table
    for reading in bench.read(parser, command.format(seconds=seconds), timeout_s=seconds + 30, validity=validity):
        yield evolve(reading, flags=reading.flags | bench.site.doubts)


def _sysbench(bench: Bench) -> Rows:
    yield Row(partial(_read, bench, sysbench_cpu, "sysbench cpu --time={seconds} run"), {"test": "cpu"})
    for operation in ("read", "write"):
        options = f"--memory-block-size=1M --memory-total-size=1T --memory-oper={operation}"
        parser = partial(sysbench_memory, operation=operation)
        command = f"sysbench memory --time={{seconds}} {options} run"
        yield Row(partial(_read, bench, parser, command), {"test": "memory", "operation": operation})


def _stress_ng(bench: Bench) -> Rows:
    for stressor in STRESSORS:
        command = f"stress-ng --{stressor} 1 --timeout {{seconds}}s --metrics-brief 2>&1"
        yield Row(partial(_read, bench, STRESS_NG, command), {"stressor": stressor})


SECTIONS = (
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
