"""sysbench and stress-ng. No guide has their numbers; these are of the size that a Cortex-A53 gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.session import LoginSession, Tool
from lab.virtual.sim.program import Program
from lab.virtual.sim.sample_outputs.player import drawn, option, play
from lab.virtual.sim.sh.interpreter import Interpreter, Streams

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
    return (yield from play(session, Streams(streams.err, streams.err), text, seconds))


TOOLS: Mapping[str, Tool] = {"stress-ng": _stress_ng, "sysbench": _sysbench}
