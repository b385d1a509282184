"""Dhrystone, Whetstone, Linpack, NBench, STREAM, and the EEMBC suites."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lab.virtual.sim import figures
from lab.virtual.sim.linux.session import LoginSession, Tool
from lab.virtual.sim.linux.tool import complain
from lab.virtual.sim.program import Program
from lab.virtual.sim.sample_outputs.player import drawn, known, play
from lab.virtual.sim.sh.interpreter import Interpreter, Streams

_RUNS, _MIP = 200_000_000, 10_000
_NBENCH = ("numeric_sort", "string_sort", "bitfield", "fp_emulation", "fourier", "assignment", "idea", "huffman")
_NBENCH_END = ("neural_net", "lu_decomposition")
_SUITES = {"coremark-pro": "coremark_pro.rate", "multibench": "multibench.rate"}
_MULTIBENCH_AS = ("am62xx_sk", "11.01")  # whose list of workloads boards without one have


def _dhrystone(
    session: LoginSession, _arguments: Sequence[str], streams: Streams, _shell: Interpreter
) -> Program[int]:
    seconds = max(1, round(_RUNS / drawn(session, "dhrystone.rate", 7e6)))
    rate, clock = _RUNS / seconds, session.computer.model.identity.cpu_mhz
    text = (
        f"\nDhrystone Benchmark, Version 2.1 (Language: C)\n\nExecution starts, {_RUNS} runs through Dhrystone\n"
        f"Execution ends\n\nMicroseconds for one run through Dhrystone: {1e6 / rate:6.1f} \n"
        f"Dhrystones per Second:                      {rate:6.1f} \n"
        f"CPU clock = {clock} MHz\nDhrystone DMIPS/MHz = {rate / 1757 / clock:.1f}\n"
    )
    return (yield from play(session, streams, text, seconds))


def _whetstone(
    session: LoginSession, _arguments: Sequence[str], streams: Streams, _shell: Interpreter
) -> Program[int]:
    seconds = max(1, round(_MIP / drawn(session, "whetstone.rate", 5000.0)))
    text = (
        f"\nLoops: 100000, Iterations: 1, Duration: {seconds} sec.\n"
        f"C Converted Double Precision Whetstones: {_MIP / seconds:.1f} MIPS\n"
    )
    return (yield from play(session, streams, text, seconds))


def _linpack(session: LoginSession, _arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    text = f"Unrolled   Single  Precision  {drawn(session, 'linpack.rate', 5e5):.0f} Kflops ; 100 Reps \n"
    return (yield from play(session, streams, text, 12))


def _nbench(session: LoginSession, _arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    text = (
        "\nBYTEmark* Native Mode Benchmark ver. 2 (10/95)\n\n"
        "TEST                : Iterations/sec.  : Old Index   : New Index\n"
        "                    :                  : Pentium 90* : AMD K6/233*\n"
        "--------------------:------------------:-------------:------------\n"
    )
    for test in (*_NBENCH, *_NBENCH_END):
        value = drawn(session, "nbench.rate", 1000.0, test=test)
        shown = f"{value:.5g}" if value < 100_000 else f"{value:.4e}"
        text += f"{test.upper().replace('_', ' '):<20}:{shown:>17}  :{value / 39:12.2f}  :{value / 118:11.2f}\n"
    return (yield from play(session, streams, text, 110))


def _stream(session: LoginSession, _arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    rule = "-" * 61
    text = f"{rule}\nSTREAM version $Revision: 5.10 $\n{rule}\nFunction    Best Rate MB/s  Avg time     Min time     Max time\n"
    for kernel, moved in (("copy", 160), ("scale", 160), ("add", 240), ("triad", 240)):
        value = drawn(session, "stream.bandwidth", 1500.0, kernel=kernel)
        seconds = moved / value
        text += f"{kernel.capitalize() + ':':<12}{value:12.1f}  {seconds * 1.01:11.6f}  {seconds:11.6f}  {seconds * 1.02:11.6f}\n"
    return (yield from play(session, streams, text + rule + "\n", 3))


def _make(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """`make -C …/coremark-pro XCMD=-cN certify-all` and `make -C …/multibench run-all`; nothing else can be made."""
    suite = next((name for name in _SUITES if any(word.endswith("/" + name) for word in arguments)), None)
    if suite is None:
        return (yield from complain(streams, "make: *** No targets specified and no makefile found.  Stop.")) + 1
    two = {"contexts": "twocore"} if "XCMD=-c2" in arguments else {}
    text = ""
    for workload in _workloads(session, _SUITES[suite]):
        value = drawn(session, _SUITES[suite], 1.0, workload=workload, **two)
        name = re.sub(r"(?<=\d)m", "M", workload)
        name = name.replace("rotate-", "rotate\\-", 1) if name.startswith("rotate-") else name
        text += f"-  Info: Starting Run...\n-- {name}:contexts={2 if two else 1}\n-- {name}:workloads/sec=  {value:.2f}\n-- Done:{name}\n"
    if suite == "coremark-pro":
        mark = drawn(session, "coremark_pro.score", 800.0, **two)
        text += f"\nMARK RESULTS TABLE\n\n{'-' * 47}\nCoreMark-PRO {mark:41.2f} {mark:10.2f} {1:10.2f}\n"
    return (yield from play(session, streams, text, 200))


def _workloads(session: LoginSession, metric: str) -> list[str]:
    own = known(session).by_metric.get(metric) or figures.load(*_MULTIBENCH_AS).by_metric[metric]
    return list(dict.fromkeys(figure.params["workload"] for figure in own))


TOOLS: Mapping[str, Tool] = {
    "make": _make,
    "runDhrystone": _dhrystone,
    "runLinpack": _linpack,
    "runNBench.sh": _nbench,
    "runWhetstone": _whetstone,
    "stream_c": _stream,
}
