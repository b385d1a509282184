"""Two hosts in network namespaces of this one, with sshd on the one and a wire between them that delays and loses.

It needs root, iproute2, openssh-server and /dev/net/tun, and says which of them is missing. Nothing of it is reachable from
outside: neither namespace has another device than the wire and its own loopback.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil
from attrs import define
from netlab_wire import enter

WIRE: Final = Path(__file__).with_name("netlab_wire.py")
DEADLINE_S: Final = 60.0
SSHD: Final = "/usr/sbin/sshd"
HOST, RUNNER = "10.77.0.1", "10.77.0.2"


def missing() -> str:
    """What hosts in namespaces need and this machine has not; empty: nothing."""
    if os.geteuid() != 0:
        return "making network namespaces needs root; run it as root"
    for program, package in (("ip", "iproute2"), ("ssh", "openssh-client"), (SSHD, "openssh-server")):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install {package}"
    return ""


def problem() -> str:
    """Why this machine cannot do it; empty: it can."""
    no_tun = "" if Path("/dev/net/tun").exists() else "/dev/net/tun is missing: this kernel has no TUN devices"
    return missing() or no_tun


def serve_by(folder: Path, address: str, authorized_keys: Path, *more: str) -> str:
    """Make a host key and sshd's configuration in a folder; what ssh knows that host by."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host_key"], check=True)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd's unprivileged half lives
    lines = [f"ListenAddress {address}", f"HostKey {folder / 'host_key'}", f"AuthorizedKeysFile {authorized_keys}"]
    lines += ["UsePAM no", "StrictModes no", "PasswordAuthentication no", "PidFile none", "UseDNS no"]
    lines += ["PermitRootLogin prohibit-password", *more]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    return f"{address} {(folder / 'host_key.pub').read_text()}"


@define
class Hosts:
    """The two hosts.

    Attributes:
        host: namespace of the one with boards and sshd. runner: namespace of the one that measures.
        ssh_config: how ssh gets from the runner to the host.
    """

    folder: Path
    host: str
    runner: str
    ssh_config: Path
    wire: subprocess.Popen[str]
    sshd: subprocess.Popen[bytes]

    def tell(self, order: str) -> None:
        """Obey before going on: see netlab_wire.py."""
        assert self.wire.stdin is not None
        assert self.wire.stdout is not None
        self.wire.stdin.write(f"{order}\n")
        self.wire.stdin.flush()
        assert self.wire.stdout.readline() == "done\n"

    def connections(self) -> list[psutil.Process]:
        """The processes of sshd that serve a connection each."""
        return [child for child in psutil.Process(self.sshd.pid).children() if "sshd" in child.name()]

    def cut(self) -> int:
        """Kill every ssh connection; how many there were."""
        found = self.connections()
        for process in found:
            for each in [*process.children(recursive=True), process]:
                each.kill()
        return len(found)

    def on_host(self, *command: str | Path) -> list[str | Path]:
        """A command as the host runs it."""
        return ["ip", "netns", "exec", self.host, *command]


@contextmanager
def hosts(folder: Path, congestion: str = "reno", ssh_options: Sequence[str] = ()) -> Iterator[Hosts]:
    """Make them; nothing of them is left behind.

    Args:
        congestion: how their TCP takes losses, whatever this machine's does. Reno is to be had everywhere; Linux's default, cubic, does the
            same at such losses (RFC 9438, section 4.3).
        ssh_options: of ssh_config(5), for the runner.

    Raises:
        RuntimeError: this machine cannot do it.
    """
    if why := problem():
        raise RuntimeError(why)
    names = f"bl{os.getpid()}h", f"bl{os.getpid()}r"
    with ExitStack() as stack:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            stack.callback(subprocess.run, ["ip", "netns", "del", name], check=True)
            with inside(name):
                Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text(congestion)
        wire = stack.enter_context(
            subprocess.Popen(
                [sys.executable, WIRE, names[0], HOST, names[1], RUNNER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        assert wire.stdin is not None
        assert wire.stdout is not None
        stack.callback(wire.stdin.close)
        assert wire.stdout.readline() == "ready\n", "the wire did not start"
        config = _keys(folder, ssh_options)
        sshd = stack.enter_context(
            subprocess.Popen(["ip", "netns", "exec", names[0], SSHD, "-D", "-e", "-f", folder / "sshd_config"])
        )
        found = Hosts(folder, *names, config, wire, sshd)
        stack.callback(_end, found)
        _await_sshd(found)
        yield found


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Let this thread, and what it starts, be in a network namespace."""
    with Path("/proc/thread-self/ns/net").open("rb") as before:
        enter(namespace)
        try:
            yield
        finally:
            os.setns(before.fileno()) if hasattr(os, "setns") else _back(before.fileno())


def _back(fd: int) -> None:
    import ctypes  # noqa: PLC0415 - Python 3.12 has os.setns

    ctypes.CDLL(None).setns(fd, 0)


def _keys(folder: Path, ssh_options: Sequence[str]) -> Path:
    """Keys, sshd's configuration, and ssh's, which is returned."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "user_key"], check=True)
    (folder / "known_hosts").write_text(serve_by(folder, HOST, folder / "user_key.pub"))
    ssh = [
        "Host *",
        "User root",
        f"IdentityFile {folder / 'user_key'}",
        "IdentitiesOnly yes",
        f"UserKnownHostsFile {folder / 'known_hosts'}",
        *ssh_options,
    ]
    config = folder / "ssh_config"
    config.write_text("\n  ".join(ssh) + "\n")
    return config


def _await_sshd(found: Hosts) -> None:
    deadline = time.monotonic() + DEADLINE_S
    with inside(found.runner):
        while subprocess.run(
            ["ssh", "-F", found.ssh_config, HOST, "true"], check=False, capture_output=True
        ).returncode:
            assert found.sshd.poll() is None, "sshd ended"
            assert time.monotonic() < deadline, "sshd does not answer"
            time.sleep(0.1)


def _end(found: Hosts) -> None:
    found.cut()
    found.sshd.send_signal(signal.SIGTERM)
    found.sshd.wait(DEADLINE_S)
