"""labgrid's reader of bench/remote.py: its SerialDriver on the TCP ports that `lab farm export` serves, from the other host."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import netlab
from attrs import define, field
from stamps_peers import BENCH, LABGRID_PATIENCE_S, ConsoleServer, Stamp

from lab.host.runtime import socket_path


@define
class Labgrid(ConsoleServer):
    """One process for each port, beside a reader on the host."""

    hosts: netlab.Hosts = field(kw_only=True)
    name: str = "labgrid NetworkSerialPort + expect"
    _processes: list[subprocess.Popen[str]] = field(factory=list)
    _bridge: subprocess.Popen[str] | None = None

    def start(self, ports: Sequence[Path], boots: int, silent: Sequence[Path] = ()) -> None:
        """Start the server, its TCP ports, and the processes that expect the first marker."""
        super().start(ports, boots, silent)
        for client, port in zip(self._clients, self._ports, strict=True):
            client.attach(port.name)
        command = [sys.executable, BENCH / "remote_bridge.py", socket_path(self.task.folder / "run"), netlab.HOST]
        self._bridge = subprocess.Popen(
            self.hosts.on_host(*command, *ports), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._bridge.stdout is not None
        markers = json.dumps(dict(self.task.markers))
        for tcp in self._bridge.stdout.readline().split():
            words = [sys.executable, BENCH / "stamps_labgrid.py", markers, f"{netlab.HOST}:{tcp}", str(boots)]
            self._processes.append(
                subprocess.Popen(["ip", "netns", "exec", self.hosts.runner, *words], stdout=subprocess.PIPE, text=True)
            )
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline(), "a labgrid console did not start"

    def stamps(self) -> list[list[Stamp]]:
        """What each process printed; nothing of one that did not find all of its markers in time."""
        end = time.monotonic() + LABGRID_PATIENCE_S
        printed = []
        for process in self._processes:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
            printed.append(process.stdout.readline() if ready else "")
        return [[Stamp(name, t_ns) for name, t_ns in json.loads(text or "[[]]")[0]] for text in printed]

    def stop(self) -> None:
        """End everything."""
        for process in self._processes:
            process.terminate()
            process.wait()
        if self._bridge is not None:
            self._bridge.kill()
            self._bridge.wait()
        super().stop()
