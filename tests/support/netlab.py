"""Two hosts in network namespaces of this one, with sshd on the one and a wire between them that delays and loses.

It needs root, iproute2, openssh-server and /dev/net/tun, and says which of them is missing. Nothing of it is reachable from
outside: neither namespace has another device than the wire and its own loopback.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil
from attrs import define

DEADLINE_S: Final = 60.0
SSHD: Final = "/usr/sbin/sshd"
HOST, RUNNER = "10.77.0.1", "10.77.0.2"
_CLONE_NEWNET = 0x40000000  # <linux/sched.h>
_TUNSETIFF = 0x400454CA  # <linux/if_tun.h>
_IFF_TUN, _IFF_NO_PI = 1, 0x1000
_PACKET_BYTES = 65536
_QUEUED = 20000  # packets on their way; more are lost, as in netem's `limit`
_LIBC = ctypes.CDLL(None, use_errno=True)


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
        """Let the wire obey before going on: see `carry`."""
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
                [sys.executable, "-P", __file__, names[0], HOST, names[1], RUNNER],
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
            _LIBC.setns(before.fileno(), 0)  # Python 3.12 has os.setns


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


def enter(namespace: str) -> None:
    """Let this thread be in a network namespace."""
    with open(f"/run/netns/{namespace}", "rb") as entered:  # noqa: PTH123 - its number is what is wanted
        if _LIBC.setns(entered.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"namespace {namespace}: {os.strerror(ctypes.get_errno())}")


def device(namespace: str, address: str, peer: str) -> int:
    """A TUN device in the namespace, up, with this address."""
    enter(namespace)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", b"wire", _IFF_TUN | _IFF_NO_PI))
    for words in (
        ("addr", "add", address, "peer", peer, "dev", "wire"),
        ("link", "set", "wire", "up"),
        ("link", "set", "lo", "up"),
    ):
        subprocess.run(["ip", *words], check=True)
    return fd


def carry(one: str, one_address: str, other: str, other_address: str) -> None:
    """Carry IP packets between two TUN devices of two namespaces, as standard input says.

    It prints "ready", and then obeys lines: `DELAY_MS LOSS` (the delay from the first to the second, the share of packets that each direction
    loses), `down` and `up`. It ends at the end of its input. `tc netem` does this where the kernel has it; this does it everywhere.
    """
    ends = device(one, one_address, other_address), device(other, other_address, one_address)
    print("ready", flush=True)
    chance = random.Random(19)
    delay_s, loss, up = 0.0, 0.0, True
    queue: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        wait_s = max(0.0, queue[0][0] - time.monotonic()) if queue else None
        ready, _, _ = select.select([0, *ends], [], [], wait_s)
        if 0 in ready:
            words = sys.stdin.readline().split()
            if not words:
                return
            if words[0] in {"up", "down"}:
                up = words[0] == "up"
            else:
                delay_s, loss = float(words[0]) / 1000, float(words[1])
            print("done", flush=True)
        now = time.monotonic()
        for at, fd in enumerate(ends):
            if fd in ready:
                packet = os.read(fd, _PACKET_BYTES)
                if up and chance.random() >= loss and len(queue) < _QUEUED:
                    number += 1
                    heapq.heappush(queue, (now + (delay_s if at == 0 else 0.0), number, ends[1 - at], packet))
        while queue and queue[0][0] <= time.monotonic():
            _, _, fd, packet = heapq.heappop(queue)
            os.write(fd, packet)


if __name__ == "__main__":
    carry(*sys.argv[1:])
