"""lmbench's programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.session import LoginSession, Tool, drawn, play
from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Interpreter, Streams

_ARRAYS = {50: 0.00049, 31: 0.03125, 62: 0.0625, 125: 0.125, 250: 0.25, 500: 0.5, 1000: 1.0}
_STEPS = (
    *(0.00049, 0.00098, 0.00195, 0.00293, 0.00391, 0.00586, 0.00781, 0.01172, 0.01562, 0.02344, 0.03125, 0.04688),
    *(0.0625, 0.09375, 0.125, 0.1875, 0.25, 0.375, 0.5, 0.75, 1.0),
)
_MODES = {"open2close": "o2c", "io_only": "io", "mmap_only": "mo"}
_SENTENCES = {
    "bw_unix": ("lmbench.bw_unix", {}, "AF_UNIX sock stream bandwidth: {:.2f} MB/sec"),
    "bw_pipe": ("lmbench.bw_pipe", {}, "Pipe bandwidth: {:.2f} MB/sec"),
    "lat_connect": ("lmbench.latency", {"of": "connect"}, "TCP/IP connection cost to localhost: {:.4f} microseconds"),
    "lat_pagefault": ("lmbench.latency", {"of": "pagefault"}, "Pagefaults on {argument}: {:.4f} microseconds"),
    "lat_pipe": ("lmbench.latency", {"of": "pipe"}, "Pipe latency: {:.4f} microseconds"),
    "lat_sem": ("lmbench.latency", {"of": "sem"}, "Semaphore latency: {:.4f} microseconds"),
    "lat_tcp": ("lmbench.latency", {"of": "tcp"}, "TCP latency using localhost: {:.4f} microseconds"),
    "lat_udp": ("lmbench.latency", {"of": "tcp"}, "UDP latency using localhost: {:.4f} microseconds"),
    "lat_select": ("lmbench.latency", {"of": "select"}, "Select on 200 tcp fd's: {:.4f} microseconds"),
    "lat_unix": ("lmbench.latency", {"of": "unix"}, "AF_UNIX sock stream latency: {:.4f} microseconds"),
}
_KINDS = {
    ("lat_proc", "fork"): ("lmbench.lat_proc", "fork", "Process fork+exit"),
    ("lat_proc", "exec"): ("lmbench.lat_proc", "exec", "Process fork+execve"),
    ("lat_proc", "procedure"): ("lmbench.lat_proc", "proccall", "Procedure call"),
    ("lat_sig", "install"): ("lmbench.lat_sig", "install", "Signal handler installation"),
    ("lat_sig", "catch"): ("lmbench.lat_sig", "catch", "Signal handler overhead"),
    ("lat_sig", "prot"): ("lmbench.lat_sig", "prot", "Protection fault"),
}
_CALLS = {"null": "syscall", "open": "open/close"}
_OPERATIONS = {
    "int": ("integer", ("bit", "add", "mul", "div", "mod")),
    "int64": ("int64", ("bit", "add", "mul", "div", "mod")),
    "float": ("float", ("add", "mul", "div")),
    "double": ("double", ("add", "mul", "div")),
}


def _lmbench(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    name, words = arguments[0].rsplit("/", 1)[-1], list(arguments[1:])
    if words[:1] in (["-s"], ["-S"]) and name != "lat_ctx":
        return 0
    return (yield from play(session, streams, _said(session, name, words), 1.2))


def _said(session: LoginSession, name: str, words: list[str]) -> str:
    if name in _SENTENCES:
        metric, params, form = _SENTENCES[name]
        return form.format(drawn(session, metric, 1.0, **params), argument=words[0] if words else "") + "\n"
    if words and (name, words[0]) in _KINDS:
        metric, kind, sentence = _KINDS[name, words[0]]
        return f"{sentence}: {drawn(session, metric, kind=kind):.4f} microseconds\n"
    match name, words:
        case "bw_mem", [size, operation, *_]:
            value = drawn(session, "lmbench.bw_mem", operation=operation, size=size.lower() + "b")
            return f"{float(size[:-1]):.2f} {value:.2f}\n"
        case (("bw_file_rd" | "bw_mmap_rd"), [size, mode, *_]):
            value = drawn(session, f"lmbench.{name}", mode=_MODES[mode], size=size.lower() + "b")
            return f"{float(size[:-1]):.2f} {value:.2f}\n"
        case "bw_tcp", _:
            return f"0.065536 {0.4 * drawn(session, 'lmbench.bw_unix'):.2f} MB/sec\n"
        case "lat_ctx", ["-s", size, "-N", _, processes]:
            value = drawn(session, "lmbench.lat_ctx", processes=processes, size=size.lower())
            return f'\n"size={size.lower()} ovr={value / 2:.2f}\n{processes} {value:.2f}\n'
        case "lat_syscall", [call, *_]:
            value = drawn(session, "lmbench.lat_syscall", call=call)
            return f"Simple {_CALLS.get(call, call)}: {value:.4f} microseconds\n"
        case "lat_mmap", _:
            return f"1.000000 {drawn(session, 'lmbench.lat_mmap', size='1m'):.0f}\n"
        case "lat_fs", _:
            files = {size: round(drawn(session, "lmbench.lat_fs", size=size)) for size in ("0k", "1k", "4k", "10k")}
            return "".join(f"{size}\t{count}\t{count * 51}\t{count * 240}\n" for size, count in files.items())
        case "lat_mem_rd", _:
            return _loads(session)
        case "lat_ops", _:
            return _operations(session)
    return f"usage: {name}\n"


def _loads(session: LoginSession) -> str:
    values = {at: drawn(session, "lmbench.lat_mem_rd", stride="128", size=_key(kib)) for kib, at in _ARRAYS.items()}
    nearest = {step: min(values, key=lambda at: abs(at - step)) for step in _STEPS}
    return '"stride=128\n' + "".join(f"{step:.5f} {values[nearest[step]]:.3f}\n" for step in _STEPS) + "\n"


def _key(kib: int) -> str:
    return "50" if kib == 50 else f"{kib}k"


def _operations(session: LoginSession) -> str:
    text = ""
    for kind, (word, operations) in _OPERATIONS.items():
        for operation in operations:
            value = drawn(session, "lmbench.lat_ops", type=kind, operation=operation)
            shown = "uint64" if (kind, operation) == ("int64", "add") else word
            text += f"{shown} {operation}: {value:.2f} nanoseconds\n"
    return text + "float bogomflops: 7.15 nanoseconds\ndouble bogomflops: 7.15 nanoseconds\n"


_NAMES = (
    *("bw_mem", "bw_file_rd", "bw_mmap_rd", "bw_tcp", "lat_ctx", "lat_fs", "lat_mem_rd", "lat_mmap", "lat_ops"),
    *("lat_proc", "lat_sig", "lat_syscall", *_SENTENCES),
)
TOOLS: Mapping[str, Tool] = dict.fromkeys(_NAMES, _lmbench)
