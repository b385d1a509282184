"""Consoles stamped with labgrid's SerialDriver and `expect`, for bench/stamps.py, sim.py and remote.py: the time just after `expect` returned.

Each port has a process of its own, since labgrid is not made for several in one. They are forked once labgrid is loaded, so that
hundreds share its memory and start in a second.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection

from labgrid import Target
from labgrid.driver import SerialDriver
from labgrid.resource import NetworkSerialPort, RawSerialPort

from lab.host.clock import MonotonicRaw

TIMEOUT_S = 30.0
FOR_EVER_S = 86_400.0


def main() -> None:
    """`stamps_labgrid.py MARKERS PORT BOOTS [PORT BOOTS ...]`: expect the markers of so many boots on each port, a device or HOST:PORT.

    With 0 boots expect the first marker for as long as it takes. Prints the processes' ids as JSON when all have begun, then the markers'
    names and times of each port that has boots, and ends with its stdin.
    """
    markers, words = json.loads(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # which ends the others, too
    fork = multiprocessing.get_context("fork")
    pids, playing = [], []
    for port, boots in zip(words[::2], map(int, words[1::2]), strict=True):
        ours, theirs = fork.Pipe()
        process = fork.Process(target=expect, args=(theirs, port, boots, markers), daemon=True)
        process.start()
        ours.recv()
        pids.append(process.pid)
        if boots:
            playing.append(ours)
    print(json.dumps(pids), flush=True)
    print(json.dumps([pipe.recv() for pipe in playing]), flush=True)
    sys.stdin.read()  # what the processes took is counted as long as they are there


def expect(parent: Connection, port: str, boots: int, markers: Mapping[str, str]) -> None:
    """Say that it begins, expect the markers, and send what came when."""
    clock = MonotonicRaw()
    target = Target("main")
    host, _, tcp = port.rpartition(":")
    if host:
        NetworkSerialPort(target, name=None, host=host, port=int(tcp), speed=115200, protocol="rfc2217")
    else:
        RawSerialPort(target, name=None, port=port, speed=115200)
    console = SerialDriver(target, name=None)
    target.activate(console)
    parent.send("ready")
    stamps: list[tuple[str, int]] = []
    if not boots:
        console.expect(next(iter(markers.values())), timeout=FOR_EVER_S)
    for _ in range(boots):
        for name, pattern in markers.items():
            console.expect(pattern, timeout=TIMEOUT_S)
            stamps.append((name, clock.now_ns()))
    parent.send(stamps)
    signal.pause()


if __name__ == "__main__":
    main()
