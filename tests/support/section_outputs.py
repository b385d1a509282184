"""Outputs of benchmark programs for tests: recorded real ones, and those that simulated boards play for every section."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from attrs import frozen

from lab.benchmarks import (
    audio,
    can,
    ethernet,
    graphics,
    iperf3,
    ipsec,
    lmbench,
    openssl,
    pcie,
    processor,
    realtime,
    storage,
    uboottransfer,
    usbdevice,
)
from lab.benchmarks.section import Parser

FOLDER = Path(__file__).parents[1] / "fixtures" / "outputs"
_BLOCK = re.compile(rb"^\|TEST START\|(\w+)\|\n(.*?)^\|TEST RESULT\|PASS\|\1\|\n", re.MULTILINE | re.DOTALL)
_TRACE = re.compile(rb"^\|TRACE LOG\|\s*([\w ]+?)\s*- (.*?)\|\n", re.MULTILINE)
_UNREAD = {"bw_tcp", "lat_udp"}  # run by the vendor's scenario and not published


@frozen
class Output:
    """An output and what reads it."""

    name: str
    text: bytes
    parser: Parser


def recorded(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def lmbench_blocks() -> Iterator[tuple[str, bytes]]:
    """(command, output) of every program in the recorded log of the vendor's scenario."""
    for block in _BLOCK.finditer(recorded("lmbench-3.0-a9.txt")):
        program = block[1].decode()
        trace = {name.decode().lower(): value.decode() for name, value in _TRACE.findall(block[2])}
        output = re.sub(rb"^\|TRACE LOG\|.*\n", b"", block[2], flags=re.MULTILINE)
        if program not in _UNREAD and trace.get("type") != "shell":
            yield _command(program, trace), output


_FORMS = {
    "bw_mem": "bw_mem {memory blk size} {operation}",
    "bw_file_rd": "bw_file_rd 1M {operation} test1.txt",
    "bw_mmap_rd": "bw_mmap_rd 1M {operation} test1.txt",
    "lat_connect": "lat_connect localhost",
    "lat_ctx": "lat_ctx -s {size_in_kbytes} -N 100 {procs}",
    "lat_mem_rd": "lat_mem_rd 1M 128",
    "lat_mmap": "lat_mmap 1M test1.txt",
    "lat_pagefault": "lat_pagefault test1.txt",
    "lat_proc": "lat_proc {type}",
    "lat_select": "lat_select tcp",
    "lat_sig": "lat_sig {type}",
    "lat_syscall": "lat_syscall {syscall} test1.txt",
    "lat_tcp": "lat_tcp localhost",
}


def _command(program: str, trace: dict[str, str]) -> str:
    command = _FORMS.get(program, program).format_map(trace)
    return {"lat_sig prot": "lat_sig prot test1.txt", "lat_syscall null test1.txt": "lat_syscall null"}.get(
        command, command
    )


def real() -> list[Output]:
    """Recorded outputs of real programs."""
    found = [Output(f"lmbench {command}", text, lmbench.reader(command)) for command, text in lmbench_blocks()]
    file = {"medium": "sd", "filesystem": "ext4", "buffer": "256k"}
    files: dict[str, Parser] = {
        "openssl-3.0-aes-128-cbc.txt": partial(openssl.parse, algorithm="aes-128-cbc"),
        "openssl-3.0-sha256.txt": partial(openssl.parse, algorithm="sha256"),
        "fio-3.33-write.txt": partial(storage.fio, params=file),
        "fio-3.33-slow-read.txt": partial(storage.fio, params=file),
        "cyclictest-2.4.txt": realtime.parse,
        "iperf3-3.12-bidir.txt": partial(iperf3.tcp, params={"port": "cpsw"}),
        "iperf-2.1.8.txt": partial(pcie.IPERF, window="8"),
        "dd-time-p.txt": storage.ospi,
        "iperf3-3.12-udp.txt": partial(iperf3.udp, frame=128, params={"direction": "egress"}),
        "sysbench-1.0.20-cpu.txt": processor.sysbench_cpu,
        "sysbench-1.0.20-memory.txt": partial(processor.sysbench_memory, operation="read"),
        "stress-ng-0.15.06.txt": processor.STRESS_NG,
        "dd-coreutils-9.1-file.txt": partial(storage.dd_file, params=file),
        "dd-fast.txt": partial(usbdevice.parse, direction="read"),
    }
    return found + [Output(name, recorded(name), parser) for name, parser in files.items()]


@cache
def played() -> tuple[Output, ...]:
    """An output of every other program, as simulated boards play it."""
    file = {"medium": "sd", "filesystem": "ext4"}
    return tuple(
        Output(name, text.encode(), parser)
        for name, text, parser in (
            ("dhrystone", _DHRYSTONE, processor.DHRYSTONE),
            ("whetstone", "C Converted Double Precision Whetstones: 5000.0 MIPS\n", processor.WHETSTONE),
            ("linpack", "Unrolled   Single  Precision  575242 Kflops ; 100 Reps \n", processor.LINPACK),
            ("nbench", _NBENCH, processor.NBENCH),
            ("stream", _STREAM, processor.stream),
            ("coremark-pro", _coremark(), processor.COREMARK_PRO),
            ("multibench", _multibench(), processor.MULTIBENCH),
            ("alsa", _ALSA, partial(audio.PARSERS["capture"], direction="capture", rate_hz="48000")),
            (
                "glmark2",
                f"{'=' * 55}\n{'glmark2 Score: 217 ':>53}\n",
                partial(graphics.glmark2, test="glmark2-wayland"),
            ),
            ("gfxbench", _GFXBENCH, partial(graphics.gfxbench, test="gfxbench 3.x gl_trex_off")),
            ("glbenchmark", _GLBENCHMARK, partial(graphics.glbenchmark, test="GLB25_FillTestC24Z16")),
            ("netperf tcp", _TCP, partial(ethernet.tcp, params={"port": "cpsw"})),
            ("netperf udp", _UDP, partial(ethernet.udp, frame=64, params={"direction": "egress"}, loss=True)),
            ("filesystem_tests", _FILES, partial(storage.file_test, params=file)),
            ("u-boot mmc", _MMC, partial(uboottransfer.parse, size=0x2000000, medium="emmc", direction="read")),
            ("ipsec", _ipsec(), partial(ipsec.parse, algorithm="aes128", engine="software")),
            ("can", "real 2.70\nuser 0.10\nsys 2.10\n", can.parse),
        )
    )


def every() -> list[Output]:
    """All of them."""
    return [*real(), *played()]


_DHRYSTONE = """
Dhrystone Benchmark, Version 2.1 (Language: C)

Microseconds for one run through Dhrystone:    0.1
Dhrystones per Second:                      7142857.1
CPU clock = 1400 MHz
Dhrystone DMIPS/MHz = 2.9
"""
_NBENCH = "TEST                : Iterations/sec.  : Old Index   : New Index\n" + "".join(
    f"{name:<20}:{value:>17}  :{1.0:12.2f}  :{1.0:11.2f}\n"
    for name, value in zip(
        [*processor.NBENCH_TESTS, "BITFIELD"],
        (629.58, 163.94, 215.64, 22832, 14.49, 3444.7, 1184.2, 8.66, 530.04, 1e8),
        strict=True,
    )
)
_STREAM = """-------------------------------------------------------------
Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:            1638.0     0.098222     0.097680     0.099113
Scale:           1792.7     0.090110     0.089251     0.091005
Add:             1447.9     0.167003     0.165757     0.168411
Triad:           1477.1     0.163510     0.162480     0.164912
-------------------------------------------------------------
"""
_ALSA = """|TEST START|alsa_perf_tests|
|TRACE LOG|Sampling Rate	|48000|
|TRACE LOG|Read: Duration in Sec | 54.613333|
|TRACE LOG|Read: No. of bits/Sec | 1535997|
|TRACE LOG|Read: percentage cpu load | 0.11%|
|TEST RESULT|PASS|alsa_perf_tests|
"""
_GFXBENCH = '[INFO ]: {\n  "results": [\n    {\n      "fps": 2.2543,\n      "score": 125.7712,\n      "test_id": "x"\n    }\n  ]\n}\n'
_GLBENCHMARK = (
    "Log: FPS = 29.50\nLog: FPS = 29.70\n"
    "Log: Application::FinishCurrentTest(GLB25_FillTestC24Z16: 61234567.00 texels/s, 29.60 FPS)\n"
)
_UDP = """MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.168.0.1 () port 0 AF_INET : demo
DIRECTION=Send
THROUGHPUT=5.33
MEAN_LATENCY=27.02
LOCAL_CPU_UTIL=10.12
REMOTE_CPU_UTIL=-1.00
LOCAL_BYTES_SENT=39960000
REMOTE_BYTES_RECVD=39960000
LOCAL_SEND_SIZE=18
"""
_TCP = """MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.168.0.1 () port 0 AF_INET : demo
DIRECTION=Send
THROUGHPUT=900.10
MEAN_LATENCY=140.11
LOCAL_CPU_UTIL=66.50
REMOTE_CPU_UTIL=-1.00
LOCAL_BYTES_SENT=6750750000
REMOTE_BYTES_RECVD=6750750000
LOCAL_SEND_SIZE=16384
MIGRATED TCP MAERTS TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.168.0.1 () port 0 AF_INET : demo
DIRECTION=Receive
THROUGHPUT=867.44
MEAN_LATENCY=38.82
LOCAL_CPU_UTIL=66.90
REMOTE_CPU_UTIL=-1.00
LOCAL_BYTES_SENT=0
REMOTE_BYTES_RECVD=0
LOCAL_SEND_SIZE=0
"""
_FILES = (
    "|TEST START|filesystem_tests|\n|TRACE LOG||PERFDATA|bsize:102400|iomode:write|throughput:51.83MB/S|cpuload:5.03%||\n"
    "|TEST RESULT|PASS|filesystem_tests|\n"
)
_MMC = "\nMMC read: dev # 0, block # 0, count 65536 ... 65536 blocks read: OK\n\ntime: 0.191 seconds\n"


def _rates(names: Callable[[], Iterator[str]]) -> str:
    return "".join(f"-- {name}:workloads/sec=  {index + 1}.25\n-- Done:{name}\n" for index, name in enumerate(names()))


def _coremark() -> str:
    names = "cjpeg-rose7-preset core linear_alg-mid-100x100-sp loops-all-mid-10k-sp nnet_test parser-125k radix2-big-64k sha-test zip-test"
    return (
        _rates(lambda: iter(names.split()))
        + "MARK RESULTS TABLE\nCoreMark-PRO          887.88     887.88       1.00\n"
    )


def _multibench() -> str:
    return _rates(lambda: iter([*(f"4M-check{n}" for n in range(27)), "rotate\\-4Ms64w1"]))


def _ipsec() -> str:
    average = recorded("fio-3.33-write.txt").decode().partition("boardlab:")[0]
    rates = "".join(
        f"[{n:3}] 0.0000-60.0120 sec  967 MBytes  {r} Mbits/sec\n" for n, r in ((4, "133.10"), (5, "134.30"))
    )
    return f"packets before 1000 500\n{average}packets after 1000500 400500\n{rates}"
