"""How the readers of bench/remote.py come to the consoles of the other host: through ssh, and by TLS. Both can be cut off."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final, Protocol

import netlab
from attrs import define, field

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support import certificates

from lab.host.runtime import socket_path
from lab.host.sshlink import SshLink

LAB: Final = Path(sys.executable).with_name("lab")


class Way(Protocol):
    """One of them.

    Attributes:
        name: in the table.
    """

    name: str

    def order(self) -> dict[str, object]:
        """What a reader has to know."""

    def cut(self) -> bool:
        """Cut all connections off; False: there are none."""

    def stop(self) -> None:
        """Give back what it has."""


@define
class BySsh:
    """Through ssh: one connection for all."""

    hosts: netlab.Hosts
    folder: Path
    name: str = "boardlab, through ssh"

    def order(self) -> dict[str, object]:
        """See `Way`."""
        server = str(socket_path(self.folder / "run"))
        return {"sockets": str(self.folder / "ssh"), "config": str(self.hosts.ssh_config), "server": server}

    def cut(self) -> bool:
        """See `Way`."""
        return self.hosts.cut() > 0

    def stop(self) -> None:
        """See `Way`."""
        SshLink(netlab.HOST, self.folder / "ssh", str(self.hosts.ssh_config)).reset()


@define
class ByTls:
    """By TCP with TLS: a connection for each console."""

    hosts: netlab.Hosts
    folder: Path
    name: str = "boardlab, TLS"
    _port: int = 0
    _front: subprocess.Popen[str] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Make certificates."""
        made = self.folder / "certificates"
        made.mkdir()
        certificates.authority(made)
        for name in ("server", "client"):
            certificates.sign(made, name, hosts=f"IP:{netlab.HOST}")
            certificates.identity(made, name, self.folder / name)

    def order(self) -> dict[str, object]:
        """See `Way`."""
        self._serve()
        return {"port": self._port, "identity": str(self.folder / "client")}

    def cut(self) -> bool:
        """See `Way`."""
        assert self._front is not None
        assert self._front.poll() is None, "the front has ended"
        self.stop()
        self._serve()
        return True

    def stop(self) -> None:
        """See `Way`."""
        if self._front is not None:
            self._front.kill()
            self._front.wait()

    def _serve(self) -> None:
        words = ["console", "tls", "--listen", f"{netlab.HOST}:{self._port}", "--runtime", self.folder / "run"]
        self._front = subprocess.Popen(
            self.hosts.on_host(LAB, *words, "--certificates", self.folder / "server"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._front.stdout is not None
        found = re.search(r":(\d+) \(TLS\)", self._front.stdout.readline())
        assert found, "lab console tls did not start"
        self._port = int(found[1])


WAYS: Final[dict[str, type[BySsh] | type[ByTls]]] = {"ssh": BySsh, "tls": ByTls}
