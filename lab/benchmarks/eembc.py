"""EEMBC's CoreMark-Pro (one, two contexts) and MultiBench: workloads per second."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import OutputFormat, PrintedNumber
from lab.benchmarks.section import Bench, Need, ParsedReading, Section, whole

TWO_CORES = "twocore"
_RATE = r"^(?:-- *)?(?P<workload>[\w\\.-]+):workloads/sec=\s*(?P<value>\d+(?:\.\d+)?)$"
_OTHER = r"^-+ *(?:Info|Workload|Done|[\w\\.-]+:)|^(?:WORKLOAD|MARK) RESULTS|^\w+ Name|^-+ "
COREMARK_PRO = OutputFormat(  # nine workloads and the mark; no official score
    "CoreMark-Pro",
    {
        _RATE: PrintedNumber("coremark_pro.rate", by_digits=False),
        r"^CoreMark-PRO\s+(\d+\.\d+)(?:\s|$)": PrintedNumber("coremark_pro.score", by_digits=False),
    },
    other=_OTHER,
    expected=9 + 1,
)
MULTIBENCH = OutputFormat(  # 28 workloads; the raw names of some hold a backslash
    "MultiBench",
    {_RATE: PrintedNumber("multibench.rate", by_digits=False, spelling=lambda name: name.replace("\\", "").lower())},
    other=_OTHER,
    expected=28,
)


def _params(contexts: int) -> dict[str, str]:
    return {"contexts": TWO_CORES} if contexts == 2 else {}


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
            partial(COREMARK_PRO, **_params(contexts)), command.format(bench.site.eembc), timeout_s=3600
        )

    return Section(
        name="coremark-pro" if contexts == 1 else "coremark-pro-two-core",
        title="CoreMark-Pro" if contexts == 1 else "CoreMark-Pro, two cores",
        chapter="System Benchmarks",
        metrics=COREMARK_PRO.metrics,
        rows=whole(measure),
        needs=(needs.tool("make"), _suite("coremark-pro")),
        command=command.format("EEMBC"),
        fits=lambda board: board.identity is None or board.identity.cpus >= contexts,
        duration_s=300,
        params=_params(contexts),
    )


def _multibench(bench: Bench) -> Iterator[ParsedReading]:
    command = f"make -s -C {bench.site.eembc}/multibench TARGET=linux64 run-all"
    yield from bench.read(MULTIBENCH, command, timeout_s=7200)


SECTIONS = (
    _coremark(1),
    _coremark(2),
    Section(
        name="multibench",
        title="MultiBench",
        chapter="System Benchmarks",
        metrics=MULTIBENCH.metrics,
        rows=whole(_multibench),
        needs=(needs.tool("make"), _suite("multibench")),
        command="make -C EEMBC/multibench TARGET=linux64 run-all",
        duration_s=900,
    ),
)
