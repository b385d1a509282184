"""A machine that systemd has booted: a container of systemd-nspawn over this host's own files, which it sees and cannot change."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import define

LIMIT_S = 300  # of a machine that does other things, too
NSPAWN = "systemd-nspawn"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of a service, systemd.exec(5)
# Alone, and known to nobody on this host.
QUIET = ("--private-network", "--link-journal=no", "--register=no", "--keep-unit", "--console=pipe")

Done = subprocess.CompletedProcess[str]


@define
class Machine:
    """Where its files are, and systemd-nspawn as long as it is on.

    Attributes:
        root: its root folder, on this host.
        log: what systemd-nspawn said.
    """

    root: Path
    log: Path
    _nspawn: subprocess.Popen[bytes] | None = None
    _leader: int = 0

    def boot(self) -> None:
        """Switch it on, and wait until systemd has started what is enabled."""
        with self.log.open("ab") as log:
            self._nspawn = subprocess.Popen(
                [NSPAWN, "--directory", self.root, "--boot", *QUIET],
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._leader = self._wait_for_leader(self._nspawn)
        booted = ("running", "degraded")  # degraded: something of the host's that needs its hardware
        self.wait(lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip() in booted, "a boot")

    def power_off(self) -> None:
        """As if somebody pulled its plug: nothing in it is asked to end."""
        if self._nspawn is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._leader, signal.SIGKILL)  # its first process: the kernel kills all others
        self._nspawn.wait(LIMIT_S)
        self._nspawn = None

    def run(self, *words: str, check: bool = True, user: str = "") -> Done:
        """Run a command in it."""
        assert self._nspawn is not None, "it is off"
        asked = ("runuser", "-u", user, "--", *words) if user else words
        inside = ("nsenter", "--target", str(self._leader), "--all", *asked)
        done = subprocess.run(
            inside,
            env={"PATH": PATH},  # nothing of ours, as PYTHONPATH: it sees our files, too
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0 or not check, f"{words}: {done.stdout}\n{done.stderr}\n{self.journal()}"
        return done

    def before(self, *words: str) -> None:
        """Run a command on its files while it is off; it has this host's network."""
        done = subprocess.run(
            ("unshare", "--mount", "sh", "-ec", _CHROOT, "sh", self.root, *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=5 * LIMIT_S,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"

    def journal(self) -> str:
        """What its units said last."""
        inside = ("nsenter", "--target", str(self._leader), "--all")
        words = (*inside, "journalctl", "--no-pager", "--lines", "120", "--output", "short-monotonic")
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S).stdout

    def wait(self, state: Callable[[], bool], what: str) -> None:
        """Until a state holds."""
        deadline = time.monotonic() + LIMIT_S
        while not state():
            assert self._nspawn is not None
            assert self._nspawn.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"{what} did not come\n{self.journal()}"
            time.sleep(0.2)

    def _wait_for_leader(self, nspawn: subprocess.Popen[bytes]) -> int:
        """The pid here of its first process."""
        children = Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children")
        deadline = time.monotonic() + LIMIT_S
        while True:
            assert nspawn.poll() is None, self.log.read_text()
            for pid in children.read_text().split():
                with contextlib.suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                        return int(pid)
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)


# A chroot with what programs expect below /dev and /proc.
_CHROOT = """\
root=$1; shift
mount --bind /dev "$root/dev"
mount --bind /proc "$root/proc"
exec chroot "$root" "$@"
"""


@contextlib.contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """One that is off; what it writes is in memory, and gone at the end."""
    memory, root = folder / "memory", folder / "root"
    for each in (memory, root):
        each.mkdir()
    with contextlib.ExitStack() as stack:
        _mount(stack, "tmpfs", memory, "size=3g")
        for name in ("upper", "work"):
            (memory / name).mkdir()
        _mount(stack, "overlay", root, f"lowerdir=/,upperdir={memory}/upper,workdir={memory}/work")
        (root / "etc" / "machine-id").write_text("", encoding="ascii")
        found = Machine(root, folder / "nspawn.log")
        stack.callback(found.power_off)
        yield found


def _mount(stack: contextlib.ExitStack, kind: str, where: Path, options: str) -> None:
    subprocess.run(["mount", "-t", kind, "-o", options, kind, where], check=True, timeout=LIMIT_S)
    stack.callback(_unmount, where)


def _unmount(where: Path) -> None:
    subprocess.run(["umount", "--lazy", where], check=False, timeout=LIMIT_S)
