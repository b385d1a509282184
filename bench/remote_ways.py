"""The ssh connection of bench/remote.py's readers to the other host."""

from __future__ import annotations

from pathlib import Path

import netlab
from attrs import define

from lab.host.runtime import socket_path
from lab.host.ssh import SshLink


@define
class BySsh:
    """Through ssh: one connection for all."""

    hosts: netlab.Hosts
    folder: Path
    name: str = "boardlab, through ssh"

    def order(self) -> dict[str, object]:
        """Say what a reader has to know."""
        server = str(socket_path(self.folder / "run"))
        return {"sockets": str(self.folder / "ssh"), "config": str(self.hosts.ssh_config), "server": server}

    def cut(self) -> bool:
        """Cut all connections off; False: there are none."""
        return self.hosts.cut() > 0

    def stop(self) -> None:
        """Give back what it has."""
        SshLink(netlab.HOST, self.folder / "ssh", str(self.hosts.ssh_config)).reset()
