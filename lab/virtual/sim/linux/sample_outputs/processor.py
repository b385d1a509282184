"""Dhrystone, Linpack, NBench, STREAM, EEMBC, openssl, sysbench, stress-ng."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lab.virtual.sim import figures
from lab.virtual.sim.linux.session import LoginSession, Tool, complain, drawn, known, option, play, took_part
from lab.virtual.sim.program import NS_PER_S, Program
from lab.virtual.sim.sh.interpreter import NOT_FOUND, Interpreter, Streams

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
    """`make` of coremark-pro's certify-all and multibench's run-all only.

    `make -C …/coremark-pro XCMD=-cN certify-all` and `make -C …/multibench run-all`.
    """
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


# --- openssl speed, and `time` in its two forms ---


_BLOCKS = (16, 64, 256, 1024, 8192, 16384)
_SECONDS = 3
_VERSION = "OpenSSL 3.2.4 11 Feb 2025"


def _openssl(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    if arguments[1:2] == ["version"]:
        return (yield from play(session, streams, f"{_VERSION} (Library: {_VERSION})\n", 0.01))
    algorithm = option(arguments, "-evp")
    if arguments[1:2] != ["speed"] or not algorithm:
        return (yield from complain(streams, "help:\n\nStandard commands\nspeed             version"))
    values = [drawn(session, "openssl.throughput", 1e4, algorithm=algorithm, buffer=str(block)) for block in _BLOCKS]
    text = "You have chosen to measure elapsed time instead of user CPU time.\n"
    for block, value in zip(_BLOCKS, values, strict=True):
        count = round(value * 1000 / block * _SECONDS)
        text += f"Doing {algorithm.upper()} ops for {_SECONDS}s on {block} size blocks: {count} {algorithm.upper()} ops in 3.00s\n"
    text += (
        "version: 3.2.4\nbuilt on: Tue Feb 11 14:26:46 2025 UTC\noptions: bn(64,64)\ncompiler: aarch64-oe-linux-gcc\n"
        "CPUINFO: OPENSSL_armcap=0x99\nThe 'numbers' are in 1000s of bytes per second processed.\n"
        "type        " + "".join(f"{f'{block} bytes':>13}" for block in _BLOCKS).rstrip() + "\n"
    )
    text += f"{algorithm.upper():<15}" + "".join(f"{f'{value:.2f}k':>13}" for value in values) + "\n"
    took_part(session, drawn(session, "openssl.cpu_load", 95.0, algorithm=algorithm))
    return (yield from play(session, streams, text, _SECONDS * len(_BLOCKS)))


def _time(session: LoginSession, arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
    words = list(arguments[1:])
    form = words.pop(0) if words[:1] in (["-v"], ["-p"]) else ""
    runner = session.runner(words[0]) if words else None
    if runner is None:
        yield from complain(streams, f"time: can't execute '{words[0] if words else ''}': No such file or directory")
        return NOT_FOUND
    session.kernel.settings.pop("cpu_share", None)
    start_ns = session.computer.now_ns
    status = yield from runner(words, streams, shell)
    seconds = (session.computer.now_ns - start_ns) / NS_PER_S / session.computer.time_scale
    if form == "-v":
        share = session.kernel.settings.get("cpu_share", "99")
        text = (
            f'\tCommand being timed: "{" ".join(words)}"\n\tUser time (seconds): {seconds * float(share) / 100:.2f}\n'
            f"\tSystem time (seconds): 0.00\n\tPercent of CPU this job got: {share}%\n"
            f"\tElapsed (wall clock) time (h:mm:ss or m:ss): {int(seconds // 60)}m {seconds % 60:.2f}s\n\tExit status: {status}\n"
        )
    elif form == "-p":
        text = f"real {seconds:.2f}\nuser 0.00\nsys 0.00\n"
    else:
        text = f"real\t{int(seconds // 60)}m {seconds % 60:.2f}s\nuser\t0m 0.00s\nsys\t0m 0.00s\n"
    yield from streams.err(text.encode())
    return status


def _env(session: LoginSession, arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
    runner = session.runner(arguments[1]) if len(arguments) > 1 else None
    if runner is None:
        yield from complain(streams, f"env: can't execute '{arguments[-1]}': No such file or directory")
        return NOT_FOUND
    return (yield from runner(arguments[1:], streams, shell))


# --- sysbench and stress-ng, without published numbers ---


_STRESSORS = {"cpu": 160.0, "matrix": 210.0, "cache": 5.0, "pipe": 260_000.0, "switch": 90_000.0}


def _sysbench(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    words = dict(word.lstrip("-").split("=", 1) for word in arguments if "=" in word)
    seconds = float(words.get("time", "10"))
    if "memory" in arguments:
        rate = drawn(session, "sysbench.memory", 2500.0, operation=words.get("memory-oper", "write"))
        result = f"{rate * seconds:.2f} MiB transferred ({rate:.2f} MiB/sec)\n\n"
    else:
        rate = drawn(session, "sysbench.events", 850.0)
        result = f"CPU speed:\n    events per second:  {rate:7.2f}\n"
    text = (
        "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\nRunning the test with following options:\nNumber of threads: 1\n"
        f"\nThreads started!\n\n{result}\nGeneral statistics:\n    total time:                          {seconds:.4f}s\n"
    )
    return (yield from play(session, streams, text, seconds))


def _stress_ng(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    name = next((word.lstrip("-") for word in arguments if word.lstrip("-") in _STRESSORS), "cpu")
    seconds = float(option(arguments, "--timeout", "10s").rstrip("s"))
    rate = drawn(session, "stress_ng.rate", _STRESSORS[name], stressor=name)
    head, row = "stress-ng: info:  [812]", "stress-ng: metrc: [812]"
    text = (
        f"{head} setting to a {seconds:.0f} second run per stressor\n{head} dispatching hogs: 1 {name}\n"
        f"{row} stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s\n"
        f"{row} {name:<13}{rate * seconds:10.0f}{seconds:10.2f}{seconds:10.2f}{0.02:10.2f}{rate:13.2f}{rate:15.2f}\n"
        f"{head} successful run completed in {seconds:.2f}s\n"
    )
    if option(arguments, "--cpu") != "0":
        return (yield from play(session, Streams(streams.err, streams.err), text, seconds))
    # On each processor: somebody reads the rails meanwhile, in real time.
    session.computer.enter("load")
    begin_ns = session.computer.now_ns
    try:
        return (yield from play(session, streams, "", seconds / session.computer.time_scale))
    finally:
        session.kernel.busy_ns += session.computer.now_ns - begin_ns
        session.computer.enter("shell")


TOOLS: Mapping[str, Tool] = {
    "env": _env,
    "make": _make,
    "openssl": _openssl,
    "runDhrystone": _dhrystone,
    "runLinpack": _linpack,
    "runNBench.sh": _nbench,
    "runWhetstone": _whetstone,
    "stream_c": _stream,
    "stress-ng": _stress_ng,
    "sysbench": _sysbench,
    "time": _time,
}
