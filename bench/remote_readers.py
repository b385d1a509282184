"""The readers of bench/remote.py: one on the host with the ports for all of them, and on the other host a process for each."""

from __future__ import annotations

import json
import mmap
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import netlab
import numpy as np
from attrs import define, field
from remote_reader import COUNT, DRAIN_S
from remote_ways import BySsh
from stamps_peers import BENCH, ConsoleServer, Stamp

from lab.console import Chunk

LEAST_S, MOST_S = 0.2, 1.0  # between the return of the last reader and the next cut


@define
class Elsewhere:
    """Readers on the other host.

    Attributes:
        cuts: how often they are to be cut off; each time all of them stream again.
        made: how many cuts there were.
    """

    hosts: netlab.Hosts
    way: BySsh
    folder: Path
    markers: dict[str, str]
    cuts: int = 0
    made: int = 0
    _processes: list[subprocess.Popen[str]] = field(factory=list, init=False)
    _counts: mmap.mmap | None = field(default=None, init=False)
    _chance: random.Random = field(factory=lambda: random.Random(19), init=False)  # noqa: S311  (cuts, not keys)
    _next_cut: float | None = field(default=None, init=False)

    def start(self, devices: Sequence[str]) -> None:
        """Connect one for each device, and wait until all are."""
        self.folder.mkdir()
        (self.folder / "counts").write_bytes(bytes(COUNT.size * len(devices)))
        with (self.folder / "counts").open("r+b") as shared:
            self._counts = mmap.mmap(shared.fileno(), 0)
        common = {"folder": str(self.folder), "markers": self.markers, "devices": devices, "host": netlab.HOST}
        order = json.dumps(common | self.way.order())
        for number in range(len(devices)):
            words = ["ip", "netns", "exec", self.hosts.runner, sys.executable, BENCH / "remote_reader.py", str(number)]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._processes.append(process)
            self._say(process, order)
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", "a reader did not start"

    def cut_if_due(self) -> None:
        """Cut all of them off, if all have bytes again since the last time."""
        if self.made == self.cuts:
            return
        if self._next_cut is None:
            if min(self.back()) >= self.made:
                self._next_cut = time.monotonic() + self._chance.uniform(LEAST_S, MOST_S)
        elif time.monotonic() >= self._next_cut and self.way.cut():
            self.made += 1
            self._next_cut = None

    def back(self) -> list[int]:
        """From how many cuts each has come back."""
        assert self._counts is not None
        return [count for (count,) in COUNT.iter_unpack(self._counts)]

    def finish(self, sizes: Sequence[int]) -> None:
        """Wait until each has so many bytes."""
        for process, size in zip(self._processes, sizes, strict=True):
            self._say(process, str(size))
        for process in self._processes:
            assert process.wait(2 * DRAIN_S) == 0, "a reader failed"

    def stamps(self) -> list[list[Stamp]]:
        """The moments of each console."""
        return [[Stamp(*each) for each in self._found(number)["stamps"]] for number in range(len(self._processes))]

    def fewest_cuts(self) -> int:
        """Of the reader that was cut off least often."""
        return min(self._found(number)["cuts"] for number in range(len(self._processes)))

    def behind_ms(self) -> list[float]:
        """Of each read of each reader: how long after its stamp it was there."""
        parts = [np.fromfile(self.folder / f"behind{number}") for number in range(len(self._processes))]
        return [float(each) for each in np.concatenate(parts)]

    def lost_bytes(self, said: Sequence[bytes]) -> int:
        """How many bytes they did not get of what was said, or got otherwise."""
        pairs = [(data, (self.folder / f"data{number}").read_bytes()) for number, data in enumerate(said)]
        return sum(
            abs(len(here) - len(there)) + sum(a != b for a, b in zip(here, there, strict=False))
            for here, there in pairs
        )

    def stop(self) -> None:
        """End everything."""
        for process in self._processes:
            process.kill()
            process.wait()
        self.way.stop()

    def _found(self, number: int) -> dict[str, list[list[object]]]:
        found: dict[str, list[list[object]]] = json.loads((self.folder / f"found{number}").read_text())
        return found

    def _say(self, process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()


@define
class Both(ConsoleServer):
    """The console server with a reader on its host, and with others on the other one."""

    elsewhere: Elsewhere = field(kw_only=True)

    def start(self, ports: Sequence[Path], boots: int, silent: Sequence[Path] = ()) -> None:
        """Start the server and attach to all ports, twice."""
        super().start(ports, boots, silent)
        self.elsewhere.start([str(port.parent.resolve() / port.name) for port in ports])

    def take(self, timeout_s: float) -> None:
        """Read what the server sends."""
        super().take(timeout_s)
        self.elsewhere.cut_if_due()

    def said(self) -> list[bytes]:
        """What came on each console."""
        return [b"".join(each.data for each in events if isinstance(each, Chunk)) for events in self._events]

    def stop(self) -> None:
        """End everything."""
        self.elsewhere.stop()
        super().stop()
