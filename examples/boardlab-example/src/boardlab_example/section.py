"""A section: the kernel's BogoMIPS, which /proc/cpuinfo prints."""

from __future__ import annotations

from collections.abc import Iterator

from lab.benchmarks import needs
from lab.benchmarks.output import read, rule
from lab.benchmarks.section import Bench, ParsedReading, Section, whole
from lab.metrics import Metric

BOGOMIPS = Metric(
    name="example.bogomips",
    unit="MIPS",
    better="higher",
    definition="BogoMIPS of the first processor, as the kernel prints it.",
    resolution=0.01,
    source="Linux, /proc/cpuinfo",
)


def parse(output: bytes) -> list[ParsedReading]:
    """The first line `BogoMIPS : 400.00`."""
    rules = [rule(r"^BogoMIPS\s*: (\d+\.\d+)$", lambda match: [ParsedReading(BOGOMIPS.name, float(match[1]), {})])]
    return read(output, "/proc/cpuinfo", rules)


def measure(bench: Bench) -> Iterator[ParsedReading]:
    """One reading."""
    yield from bench.read(parse, "grep BogoMIPS /proc/cpuinfo | head -n 1")


SECTION = Section(
    name="bogomips",
    title="BogoMIPS",
    chapter="System Benchmarks",
    metrics=(BOGOMIPS.name,),
    rows=whole(measure),
    command="grep BogoMIPS /proc/cpuinfo",
    needs=(needs.path("/proc/cpuinfo", "procfs", "mount it"),),
    declares=(BOGOMIPS,),
    duration_s=1.0,
)
