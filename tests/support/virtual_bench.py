"""A virtual bench for tests: brought up and down with `lab virtual`, watched through /proc and its ptys."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from lab.virtual import straps
from lab.virtual.state import BenchState, expect
from lab.virtual.truth_log import Truth, read_truth

LAB = Path(sys.executable).with_name("lab")
DEADLINE_S = 90.0


def lab_virtual(
    *words: str | Path, largest_file: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `lab virtual ...`, perhaps where no file can grow beyond `largest_file` bytes."""
    limit = [] if largest_file is None else ["prlimit", f"--fsize={largest_file}"]
    return subprocess.run(
        [*limit, LAB, "virtual", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
    )


class Console:
    """A reader of a board's pty, as a terminal program would be."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        self.data = bytearray()

    def until(self, pattern: bytes) -> re.Match[bytes]:
        """Read until `pattern` has come; what was read up to its end is taken away."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := re.search(pattern, self.data)) is None:
            remaining_s = deadline - time.monotonic()
            assert remaining_s > 0, f"{pattern!r} did not come; the last of the console: {bytes(self.data[-500:])!r}"
            select.select([self.fd], [], [], remaining_s)
            self.drain()
        found = re.search(pattern, bytes(self.data))
        assert found is not None
        del self.data[: found.end()]
        return found

    def drain(self) -> int:
        """Read what is there; returns how much it was. A hang-up raises OSError."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.fd, 4096):
                self.data += data
                count += len(data)
        return count

    def write(self, data: bytes) -> None:
        """Type."""
        os.write(self.fd, data)

    def close(self) -> None:
        """Leave."""
        os.close(self.fd)


class BenchProcess:
    """A running bench with one board."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state: BenchState = expect(folder)
        self.board = self.state.boards[0]

    def power(self, command: str, pdu: str = "bench", outlet: int = 1) -> int:
        """Ask pdudaemon; returns its HTTP status."""
        with requests.Session() as session:
            session.trust_env = False
            return session.get(
                f"http://{self.state.pdudaemon}/power/control/{command}",
                params={"hostname": pdu, "port": str(outlet)},
                timeout=DEADLINE_S,
            ).status_code

    def set_straps(self, word: int) -> None:
        """Drive the boot-mode lines, as a digital output would."""
        for bit in range(2):
            straps.path(Path(self.board.straps), bit).write_text(f"{word >> bit & 1}\n")

    def status(self) -> dict[str, Any]:
        """The board, as `lab virtual status --json` has it."""
        board: dict[str, Any] = json.loads(lab_virtual("status", "--dir", self.folder, "--json").stdout)["boards"][0]
        return board

    def truth(self) -> Truth:
        """What really happened so far."""
        return read_truth(Path(self.board.truth))

    def child(self, program: str) -> int:
        """The process of the bench that runs `program`.

        Raises:
            LookupError: there is none.
        """
        for child in children(self.state.pid):
            with contextlib.suppress(OSError):
                if program.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                    return child
        raise LookupError(f"the bench has no {program}")

    @contextlib.contextmanager
    def console(self) -> Iterator[Console]:
        """Open the board's console."""
        console = Console(self.board.uarts["uart0"])
        try:
            yield console
        finally:
            console.close()


@contextlib.contextmanager
def running_bench(folder: Path, *words: str) -> Iterator[BenchProcess]:
    """A bench of our own, with free ports; taken down at the end. `words` go to `lab virtual up`."""
    done = lab_virtual("up", *words, "--dir", folder, "--pdu-port", "0", "--switch-port", "0")
    assert done.returncode == 0, done.stderr
    try:
        yield BenchProcess(folder)
    finally:
        lab_virtual("down", "--dir", folder)


def wait_for_listener(address: str) -> None:
    """Wait until somebody listens on host:port."""
    host, _, port = address.partition(":")
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=DEADLINE_S).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, f"nobody listens on {address}"
            time.sleep(0.01)
        else:
            return


def children(pid: int) -> list[int]:
    """The child processes of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def listening_ports(pid: int) -> list[int]:
    """The TCP ports (IPv4) that a process listens on."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed by now
            inodes.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sorted(int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes)


@contextlib.contextmanager
def watched(*pids: int) -> Iterator[list[int]]:
    """Descriptors that become readable when these processes end, whatever becomes of their numbers."""
    descriptors = [os.pidfd_open(pid) for pid in pids]
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def all_end(descriptors: list[int]) -> bool:
    """Whether all watched processes end before the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    return all(select.select([one], [], [], max(deadline - time.monotonic(), 0))[0] for one in descriptors)
