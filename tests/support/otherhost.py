"""A second host on this one: a console server whose clock is another (time_namespaces(7)), and its exporter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.console.client import ConsoleClient
from lab.host.runtime import prepare, server_pid, socket_path
from lab.rails.server import rails_socket
from support.coordinator import DEADLINE_S
from support.prometheus_server import until

AHEAD_S = 100_000  # of this host's clock


def _in_another_time() -> list[str]:
    """The words that give a program another clock; without root through a user namespace."""
    alone = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    offsets = ["--monotonic", str(AHEAD_S), "--boottime", str(AHEAD_S)]
    return ["unshare", *alone, "--time", *offsets, "--fork", "--kill-child"]


def on_its_host(console: Path) -> list[str]:
    """The words that give a program the clock of the console server at this socket."""
    joined = ["nsenter", "--target", str(server_pid(console.parent)), "--time"]
    return joined + ([] if os.geteuid() == 0 else ["--user", "--preserve-credentials"])


@contextmanager
def rails_server_beside(console: Path) -> Iterator[Path]:
    """The socket of a rails server with the clock of the console server at this socket."""
    address, runtime = rails_socket(console.parent), console.parent
    lab = str(Path(sys.executable).with_name("lab"))
    with subprocess.Popen([*on_its_host(console), lab, "rails", "serve", "--runtime", str(runtime)]) as process:
        try:
            until(
                lambda: address.is_socket() or process.poll() is not None,
                "the rails server of the other host listens",
            )
            assert process.poll() is None
            yield address
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


@contextmanager
def console_server_with_another_clock(runtime: Path) -> Iterator[Path]:
    """Its socket. The test fails where the kernel lets nobody have a clock of his own; it needs root, or user namespaces."""
    address = socket_path(prepare(runtime))
    command = [*_in_another_time(), sys.executable, "-m", "lab.console.server", "--runtime", str(runtime)]
    with subprocess.Popen(command) as process:
        try:
            until(
                lambda: address.is_socket() or process.poll() is not None,
                "the console server of the other host listens",
            )
            assert process.poll() is None, (
                "no time namespace: this test needs root, or a kernel that allows user namespaces"
            )
            yield address
        finally:
            if process.poll() is None:
                with ConsoleClient(address) as client:
                    client.stop()
            process.wait(DEADLINE_S)
