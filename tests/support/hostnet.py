"""Several hosts on this machine: network namespaces at one switch, each with a name, a clock and an sshd of its own.

It needs root, iproute2 and openssh-server, and says which of them is missing. Nothing of it is reachable from outside: the switch has no
other ports than the hosts'.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import define, field

from support.netlab import SSHD, inside, missing, serve_by

DEADLINE_S = 120.0
AHEAD_S = 100_000  # of the next host's clock
POLL_S = 0.05


def problem() -> str:
    """Why this machine cannot do it; empty: it can."""
    if why := missing():
        return why
    tried = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "v0", "type", "veth"], check=False, capture_output=True
    )
    return "" if tried.returncode == 0 else f"this kernel makes no veth devices: {tried.stderr.decode().strip()}"


@define
class Host:
    """One of them.

    Attributes:
        port: of the switch. folder: of what it keeps. ahead_s: of its clock; 0: it has this machine's, and its name.
    """

    name: str
    namespace: str
    address: str
    switch: str
    folder: Path
    ahead_s: int = 0
    sshd: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def command(self, *words: str | Path) -> list[str | Path]:
        """As something in its network runs it, whatever its clock."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def _own(self, *words: str | Path) -> list[str | Path]:
        """With its name and its clock."""
        if not self.ahead_s:
            return self.command(*words)
        clock = ["--time", "--monotonic", str(self.ahead_s), "--boottime", str(self.ahead_s)]
        named = ["--fork", "sh", "-c", f'hostname {self.name} && exec "$@"', "sh"]
        return self.command("unshare", "--uts", *clock, *named, *words)

    def run(self, *words: str | Path) -> str:
        """What a command said on this host; the test fails where it does."""
        with (self.folder / "said").open("w+") as said:  # a pipe would stay open in what it leaves behind
            done = subprocess.run(
                self._own(*words), cwd=self.folder, stdout=said, stderr=said, check=False, timeout=3 * DEADLINE_S
            )
            said.seek(0)
            text = said.read()
        assert done.returncode == 0, f"{self.name}: {words}: {text}"
        return text

    def pids(self) -> list[int]:
        """Its processes, without the test's own."""
        mine = Path("/run/netns", self.namespace).stat().st_ino
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # it ended just now
                if entry.name.isdecimal() and (entry / "ns" / "net").stat().st_ino == mine:
                    found.append(int(entry.name))
        return [pid for pid in found if pid != os.getpid()]

    def plug(self, *, connected: bool) -> None:
        """Put its cable into the switch, or pull it."""
        state = "up" if connected else "down"
        subprocess.run(["ip", "-n", self.switch, "link", "set", self.name, state], check=True)

    def switch_off(self) -> None:
        """End all that runs there, as a loss of power does."""
        deadline = time.monotonic() + DEADLINE_S
        while there := self.pids():
            assert time.monotonic() < deadline, f"{self.name}: {there} do not end"
            for pid in there:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.sshd is not None:
                self.sshd.wait(DEADLINE_S)
                self.sshd = None
            time.sleep(POLL_S)

    def serve_ssh(self) -> None:
        """As its distribution does from its boot on."""
        words = self.command(SSHD, "-D", "-e", "-f", self.folder / "sshd_config")
        with (self.folder / "sshd.log").open("ab") as log:
            self.sshd = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def end(self) -> None:
        """Its sshd, and whatever hangs on that."""
        if self.sshd is not None:
            self.sshd.terminate()
            self.sshd.wait(DEADLINE_S)
            self.sshd = None


@contextmanager
def network(folder: Path, names: Sequence[str], ahead: Sequence[str]) -> Iterator[dict[str, Host]]:
    """Make them, with addresses 10.78.0.1 and so on; no namespace is left behind.

    Args:
        ahead: those that have a name and a clock of their own.
    """
    assert not problem(), problem()
    short = f"bc{os.getpid()}"
    switch = f"{short}s"
    with ExitStack() as stack:
        _add(stack, switch)
        _ip("-n", switch, "link", "add", "hub", "type", "bridge")
        _ip("-n", switch, "link", "set", "hub", "up")
        found = {}
        for number, name in enumerate(names, 1):
            namespace = f"{short}{number}"
            _add(stack, namespace)
            _ip("-n", switch, "link", "add", name, "type", "veth", "peer", "name", "lan", "netns", namespace)
            _ip("-n", switch, "link", "set", name, "master", "hub", "up")
            _ip("-n", namespace, "addr", "add", f"10.78.0.{number}/24", "dev", "lan")
            _ip("-n", namespace, "link", "set", "lan", "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
            (folder / name).mkdir()
            clock_s = AHEAD_S * number if name in ahead else 0
            found[name] = Host(name, namespace, f"10.78.0.{number}", switch, folder / name, clock_s)
            stack.callback(found[name].switch_off)
        _keys(folder, [found[name] for name in ahead])
        yield found


def ssh_config(folder: Path) -> Path:
    """How ssh gets to the hosts, by their names."""
    return folder / "ssh_config"


def left(hosts: Sequence[Host]) -> dict[int, str]:
    """Processes of them, with their command lines."""
    found = {}
    for pid in (pid for host in hosts for pid in host.pids()):
        with contextlib.suppress(OSError):
            found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return {pid: words for pid, words in found.items() if words}  # a zombie has none


def await_ssh(host: Host, runner: Host, config: Path) -> None:
    """Until it answers."""
    deadline = time.monotonic() + DEADLINE_S
    with inside(runner.namespace):
        while subprocess.run(["ssh", "-F", config, host.name, "true"], check=False, capture_output=True).returncode:
            assert host.sshd is not None, host.name
            assert host.sshd.poll() is None, f"sshd of {host.name} ended"
            assert time.monotonic() < deadline, f"sshd of {host.name} does not answer"
            time.sleep(POLL_S)


def _add(stack: ExitStack, namespace: str) -> None:
    _ip("netns", "add", namespace)
    stack.callback(_ip, "netns", "del", namespace)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _keys(folder: Path, served: Sequence[Host]) -> None:
    """Keys, each sshd's configuration, and ssh's."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "user_key"], check=True)
    known, config = [], []
    for host in served:
        alive = "ClientAliveInterval 5", "ClientAliveCountMax 3"  # a runner that lost its power is forgotten
        known.append(serve_by(host.folder, host.address, folder / "user_key.pub", *alive))
        config += [f"Host {host.name}", f"  HostName {host.address}"]
    (folder / "known_hosts").write_text("".join(known))
    config += ["Host *", "  User root", f"  IdentityFile {folder / 'user_key'}", "  IdentitiesOnly yes"]
    config += [f"  UserKnownHostsFile {folder / 'known_hosts'}"]
    ssh_config(folder).write_text("\n".join(config) + "\n")
