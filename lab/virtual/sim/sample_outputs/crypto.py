"""openssl speed, and `time` in its two forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.session import LoginSession, Tool
from lab.virtual.sim.linux.tool import complain
from lab.virtual.sim.program import NS_PER_S, Program
from lab.virtual.sim.sample_outputs.player import drawn, option, play, took_part
from lab.virtual.sim.sh.interpreter import NOT_FOUND, Interpreter, Streams

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


TOOLS: Mapping[str, Tool] = {"env": _env, "openssl": _openssl, "time": _time}
