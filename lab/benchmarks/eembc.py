"""EEMBC's CoreMark-Pro (one, two contexts) and MultiBench: workloads per second."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import read, rule
from lab.benchmarks.section import Bench, Need, ParsedReading, Section, whole

WORKLOADS = 9  # of CoreMark-Pro
MULTIBENCH_WORKLOADS = 28
TWO_CORES = "twocore"
_RATE = r"^(?:-- *)?([\w\\.-]+):workloads/sec=\s*(\d+(?:\.\d+)?)$"
_KNOWN = r"^-+ *(?:Info|Workload|Done|[\w\\.-]+:)|^(?:WORKLOAD|MARK) RESULTS|^\w+ Name|^-+ "


def _params(contexts: int) -> dict[str, str]:
    return {"contexts": TWO_CORES} if contexts == 2 else {}


def coremark_pro(output: bytes, contexts: int = 1) -> list[ParsedReading]:
    """The workloads' rates and the mark; no official score."""
    params = _params(contexts)

    def row(match: re.Match[str]) -> list[ParsedReading]:
        return [ParsedReading("coremark_pro.rate", float(match[2]), {"workload": match[1].lower(), **params})]

    def mark(match: re.Match[str]) -> list[ParsedReading]:
        return [ParsedReading("coremark_pro.score", float(match[1]), params)]

    rules = [rule(_RATE, row), rule(r"^CoreMark-PRO\s+(\d+\.\d+)(?:\s|$)", mark), rule(_KNOWN)]
    return read(output, "CoreMark-Pro", rules, expected=WORKLOADS + 1)


def multibench(output: bytes) -> list[ParsedReading]:
    """The workloads' rates; the raw names of some hold a backslash."""

    def row(match: re.Match[str]) -> list[ParsedReading]:
        name = match[1].replace("\\", "").lower()
        return [ParsedReading("multibench.rate", float(match[2]), {"workload": name})]

    return read(output, "MultiBench", [rule(_RATE, row), rule(_KNOWN)], expected=MULTIBENCH_WORKLOADS)


def _suite(folder: str) -> Need:
    return needs.path(
        "{site.eembc}/" + folder,
        f"EEMBC {folder}",
        "install the licensed suite there, or set `benchmarks: {eembc: ...}`",
    )


def _coremark(contexts: int) -> Section:
    command = f"make -s -C {{}}/coremark-pro TARGET=linux64 XCMD=-c{contexts} certify-all"

    def measure(bench: Bench) -> Iterator[ParsedReading]:
        yield from bench.read(
            partial(coremark_pro, contexts=contexts), command.format(bench.site.eembc), timeout_s=3600
        )

    return Section(
        name="coremark-pro" if contexts == 1 else "coremark-pro-two-core",
        title="CoreMark-Pro" if contexts == 1 else "CoreMark-Pro, two cores",
        chapter="System Benchmarks",
        metrics=("coremark_pro.rate", "coremark_pro.score"),
        rows=whole(measure),
        needs=(needs.tool("make"), _suite("coremark-pro")),
        command=command.format("EEMBC"),
        fits=lambda board: board.identity is None or board.identity.cpus >= contexts,
        duration_s=300,
        params=_params(contexts),
    )


def _multibench(bench: Bench) -> Iterator[ParsedReading]:
    command = f"make -s -C {bench.site.eembc}/multibench TARGET=linux64 run-all"
    yield from bench.read(multibench, command, timeout_s=7200)


SECTIONS = (
    _coremark(1),
    _coremark(2),
    Section(
        name="multibench",
        title="MultiBench",
        chapter="System Benchmarks",
        metrics=("multibench.rate",),
        rows=whole(_multibench),
        needs=(needs.tool("make"), _suite("multibench")),
        command="make -C EEMBC/multibench TARGET=linux64 run-all",
        duration_s=900,
    ),
)
