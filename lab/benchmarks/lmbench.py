"""LMBench: bandwidths and latencies of memory, kernel and processor.

Commands and their order: the vendor's scenario LMBENCH_L_PERF_0001. Sizes are 10^6 bytes a second, as lmbench prints
them. `lat_fs` is column 1, the number of files created, as the guides have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import PrintedNumber, missing, read, rule
from lab.benchmarks.section import Bench, ParsedReading, Row, Rows, Section

FILE = "/run/lmbench.test1"  # on the board: in memory, and nobody but root makes files there
OPERATIONS = ("rd", "wr", "rdwr", "cp", "fwr", "frd", "fcp", "bzero", "bcopy")
SIZES_MB = (1, 2, 4, 8, 16)
_SERVERS = ("bw_tcp -s", "lat_connect -s", "lat_tcp -s", "lat_udp -s")
_FLOAT = r"(\d+(?:\.\d+)?)"
# Rows of lat_mem_rd that the guides print, by the array in MB; the first one is 512 bytes, whatever its key says.
_ARRAYS = {
    "0.00049": "50",
    "0.03125": "31k",
    "0.06250": "62k",
    "0.12500": "125k",
    "0.25000": "250k",
    "0.50000": "500k",
    "1.00000": "1000k",
}
_TYPES = {"integer": "int", "int64": "int64", "uint64": "int64", "float": "float", "double": "double"}
_SYSCALLS = {"syscall": "null", "open/close": "open"}


def bandwidth(output: bytes, metric: str, **params: str) -> list[ParsedReading]:
    """bw_mem, bw_file_rd, bw_mmap_rd: size in MB, MB/s."""
    return read(output, metric, [rule(rf"^{_FLOAT} (?P<value>{_FLOAT})$", PrintedNumber(metric, params))])


def bw_unix(output: bytes) -> list[ParsedReading]:
    """bw_unix."""
    return read(
        output,
        "bw_unix",
        [rule(rf"^AF_UNIX sock stream bandwidth: {_FLOAT} MB/sec", PrintedNumber("lmbench.bw_unix"))],
    )


def bw_pipe(output: bytes) -> list[ParsedReading]:
    """bw_pipe."""
    return read(output, "bw_pipe", [rule(rf"^Pipe bandwidth: {_FLOAT} MB/sec", PrintedNumber("lmbench.bw_pipe"))])


def lat_fs(output: bytes) -> list[ParsedReading]:
    """lat_fs: size, files created, creations and deletions a second."""

    def files(match: re.Match[str]) -> list[ParsedReading]:
        return [ParsedReading("lmbench.lat_fs", float(match[2]), {"size": match[1]}, quantum=1.0)]

    return read(output, "lat_fs", [rule(r"^(0k|1k|4k|10k)\t(\d+)\t\d+\t\d+$", files)], expected=4)


def lat_ctx(output: bytes, size: str) -> list[ParsedReading]:
    """lat_ctx of one array size: processes, microseconds."""

    def switch(match: re.Match[str]) -> list[ParsedReading]:
        return [ParsedReading("lmbench.lat_ctx", float(match[2]), {"processes": match[1], "size": size})]

    return read(output, "lat_ctx", [rule(r'^"size=\d+k ovr='), rule(rf"^(\d+) {_FLOAT}$", switch)])


def lat_mem_rd(output: bytes, stride: str = "128") -> list[ParsedReading]:
    """lat_mem_rd: the rows that the guides print."""

    def row(match: re.Match[str]) -> list[ParsedReading]:
        size = _ARRAYS.get(match[1])
        return [ParsedReading("lmbench.lat_mem_rd", float(match[2]), {"stride": stride, "size": size})] if size else []

    rules = [rule(rf'^"stride={stride}$'), rule(rf"^(\d\.\d{{5}}) {_FLOAT}$", row)]
    return read(output, "lat_mem_rd", rules, expected=len(_ARRAYS))


def lat_mmap(output: bytes, size: str = "1m") -> list[ParsedReading]:
    """lat_mmap: size in MB, whole microseconds."""

    def row(match: re.Match[str]) -> list[ParsedReading]:
        return [ParsedReading("lmbench.lat_mmap", float(match[1]), {"size": size}, quantum=1.0)]

    return read(output, "lat_mmap", [rule(rf"^\d\.\d{{6}} {_FLOAT}$", row)])


def lat_ops(output: bytes) -> list[ParsedReading]:
    """lat_ops: nanoseconds of one operation; a 32-bit processor prints some of them."""

    def operation(match: re.Match[str]) -> list[ParsedReading]:
        params = {"type": _TYPES[match[1]], "operation": match[2]}
        return [ParsedReading("lmbench.lat_ops", float(match[3]), params)]

    rules = [
        rule(rf"^(integer|u?int64|float|double) (bit|add|mul|div|mod): {_FLOAT} nanoseconds$", operation),
        rule(rf"^(float|double) bogomflops: {_FLOAT} nanoseconds$"),
    ]
    return read(output, "lat_ops", rules, expected=11)


def latency(output: bytes, *, pattern: str, metric: str, **params: str) -> list[ParsedReading]:
    """Parse a sentence with one number of microseconds."""
    rules = [rule(rf"^{pattern}: {_FLOAT} microseconds$", PrintedNumber(metric, params))]
    return read(output, pattern, rules)


def lat_syscall(output: bytes) -> list[ParsedReading]:
    """lat_syscall."""

    def call(match: re.Match[str]) -> list[ParsedReading]:
        return [ParsedReading("lmbench.lat_syscall", float(match[2]), {"call": _SYSCALLS.get(match[1], match[1])})]

    return read(output, "lat_syscall", [rule(rf"^Simple ([\w/]+): {_FLOAT} microseconds$", call)])


def _sentence(text: str, metric: str, **params: str) -> Callable[[bytes], list[ParsedReading]]:
    def parser(output: bytes) -> list[ParsedReading]:
        return latency(output, pattern=text, metric=metric, **params)

    return parser


def programs() -> Iterator[tuple[str, Callable[[bytes], list[ParsedReading]]]]:
    """Every command in the vendor's order, with its output's parser."""
    for operation in OPERATIONS:
        for size in SIZES_MB:
            parser = partial(bandwidth, metric="lmbench.bw_mem", operation=operation, size=f"{size}mb")
            yield f"bw_mem {size}M {operation}", parser
    yield "bw_unix", bw_unix
    for mode, word in (("o2c", "open2close"), ("io", "io_only")):
        yield f"bw_file_rd 1M {word} {FILE}", partial(bandwidth, metric="lmbench.bw_file_rd", mode=mode, size="1mb")
    for mode, word in (("o2c", "open2close"), ("mo", "mmap_only")):
        yield f"bw_mmap_rd 1M {word} {FILE}", partial(bandwidth, metric="lmbench.bw_mmap_rd", mode=mode, size="1mb")
    yield "bw_pipe", bw_pipe
    yield "lat_connect localhost", _sentence("TCP/IP connection cost to localhost", "lmbench.latency", of="connect")
    yield "lat_fs", lat_fs
    for processes in (2, 4):
        for kilobytes in (128, 256):
            yield f"lat_ctx -s {kilobytes}K -N 100 {processes}", partial(lat_ctx, size=f"{kilobytes}k")
    yield "lat_mem_rd 1M 128", lat_mem_rd
    yield f"lat_mmap 1M {FILE}", lat_mmap
    yield "lat_ops", lat_ops
    yield f"lat_pagefault {FILE}", _sentence(r"Pagefaults on \S+", "lmbench.latency", of="pagefault")
    yield "lat_pipe", _sentence("Pipe latency", "lmbench.latency", of="pipe")
    yield "lat_proc fork", _sentence(r"Process fork\+exit", "lmbench.lat_proc", kind="fork")
    yield "lat_proc exec", _sentence(r"Process fork\+execve", "lmbench.lat_proc", kind="exec")
    yield "lat_proc procedure", _sentence("Procedure call", "lmbench.lat_proc", kind="proccall")
    yield "lat_sem", _sentence("Semaphore latency", "lmbench.latency", of="sem")
    yield "lat_tcp localhost", _sentence("TCP latency using localhost", "lmbench.latency", of="tcp")
    yield "lat_select tcp", _sentence("Select on 200 tcp fd's", "lmbench.latency", of="select")
    yield "lat_sig install", _sentence("Signal handler installation", "lmbench.lat_sig", kind="install")
    yield "lat_sig catch", _sentence("Signal handler overhead", "lmbench.lat_sig", kind="catch")
    yield f"lat_sig prot {FILE}", _sentence("Protection fault", "lmbench.lat_sig", kind="prot")
    yield "lat_unix", _sentence("AF_UNIX sock stream latency", "lmbench.latency", of="unix")
    for call in ("fstat", "stat", "open", "write", "read"):
        yield f"lat_syscall {call} {FILE}", lat_syscall
    yield "lat_syscall null", lat_syscall


def reader(command: str) -> Callable[[bytes], list[ParsedReading]]:
    """The parser of a command's output.

    Raises:
        TestTransientError: the command is none of ours.
    """
    for program, parser in programs():
        if program.replace(FILE, "test1.txt") == command.replace(FILE, "test1.txt"):
            return parser
    raise missing("lmbench", "one of its commands", command)


def _rows(bench: Bench) -> Rows:
    bench.run(f"dd if=/dev/urandom of={FILE} bs=1M count=16", timeout_s=60)
    for server in _SERVERS:
        bench.run(server, check=False)  # they put themselves into the background; the vendor's script expects them
    bench.run("sync")
    for command, parser in programs():
        program = command.removesuffix(f" {FILE}")
        yield Row(partial(bench.read, parser, f"{command} 2>&1", timeout_s=300), {"program": program})


def _restore(bench: Bench) -> None:
    for client in ("bw_tcp", "lat_connect", "lat_tcp", "lat_udp"):
        bench.run(f"{client} -S localhost", check=False)
    bench.run(f"rm -f {FILE}")


SECTION = Section(
    name="lmbench",
    title="LMBench",
    chapter="System Benchmarks",
    metrics=(
        "lmbench.bw_mem",
        "lmbench.bw_file_rd",
        "lmbench.bw_mmap_rd",
        "lmbench.bw_pipe",
        "lmbench.bw_unix",
        "lmbench.lat_ctx",
        "lmbench.lat_fs",
        "lmbench.lat_mem_rd",
        "lmbench.lat_ops",
        "lmbench.lat_syscall",
        "lmbench.lat_proc",
        "lmbench.lat_sig",
        "lmbench.lat_mmap",
        "lmbench.latency",
    ),
    rows=_rows,
    restore=_restore,
    needs=(needs.tool("bw_mem", "lmbench"), needs.tool("lat_mem_rd", "lmbench")),
    command="bw_mem 1M rd … lat_syscall null",
    duration_s=600,
)
