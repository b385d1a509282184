"""`lab console tls` as a program, with identities of one authority for both ends."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define

from lab.console.tlsdoor import TlsDoor
from lab.console.tlsway import TlsWay
from lab.host.tls import Identity
from support import certificates
from support.prometheus_server import until

HOST = "127.0.0.1"
ENDED_S = 60


@define
class Front:
    """One that runs.

    Attributes:
        folder: with the authority (ca.key). log: what it says. pdudaemons: addresses that it is told of.
    """

    folder: Path
    runtime: Path
    log: Path
    pdudaemons: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    port: int = 0

    def start(self) -> None:
        """Start it, the first time at a free port, then at the same one."""
        self.log.write_bytes(b"")
        words = ["console", "tls", "--listen", f"{HOST}:{self.port}", "--certificates", str(self.folder / "server")]
        words += [word for each in self.pdudaemons for word in ("--pdudaemon", each)]
        with self.log.open("ab") as said:
            self.process = subprocess.Popen(
                [Path(sys.executable).with_name("lab"), *words, "--runtime", str(self.runtime)],
                stdout=said,
                stderr=said,
            )
        until(
            lambda: self.process is None or self.process.poll() is not None or b"serving" in self.said(), "it serves"
        )
        found = re.search(rb":(\d+) \(TLS\)", self.said())
        assert found, self.said()
        self.port = int(found[1])

    def said(self) -> bytes:
        return self.log.read_bytes()

    def kill(self) -> None:
        """Kill it; it ran."""
        assert self.process is not None
        assert self.process.poll() is None, self.said()
        self.process.kill()
        self.process.wait(ENDED_S)

    def stop(self) -> int:
        """End it as systemd does. Returns: its exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(ENDED_S)

    def identity(self, name: str = "client") -> Identity:
        return Identity(self.folder / name)

    def way(self, name: str = "client", host: str = HOST) -> TlsWay:
        return TlsWay(host, self.port, self.identity(name))

    def door(self, wanted: str, name: str = "client") -> TlsDoor:
        return TlsDoor(self.way(name), wanted)


def identities(folder: Path) -> None:
    """Folders `server` and `client` of one authority."""
    made = folder / "made"
    made.mkdir()
    certificates.make(made, "server", "client")
    for name in ("server", "client"):
        certificates.identity(made, name, folder / name)


@contextmanager
def running_front(folder: Path, runtime: Path, *pdudaemons: str) -> Iterator[Front]:
    """It, in front of the servers of this folder."""
    identities(folder)
    front = Front(folder, runtime, folder / "front.log", pdudaemons)
    front.start()
    try:
        yield front
    finally:
        if front.process is not None and front.process.poll() is None:
            front.kill()
