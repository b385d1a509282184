"""A disk that can be full: a small tmpfs of our own, in a mount namespace that ends with this program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from attrs import define, field

ROOM_BYTES = 1 << 30  # an hour of eight boards needs a third of it
MARK = "BOARDLAB_CHAOS_MOUNTS"  # set where we are in our own namespace
# As root; else as a user whom the kernel lets be root over mounts of its own (user_namespaces(7)).
_WAYS = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))
_TRIES = 5


def with_own_mounts() -> None:
    """Start this program again where it may mount, and where what it mounts goes away with it.

    Raises:
        SystemExit: the host lets us mount nothing.
    """
    if os.environ.get(MARK):
        return
    for way in _WAYS:
        trial = subprocess.run([*way, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False, capture_output=True)
        if trial.returncode == 0:
            os.environ[MARK] = "1"
            os.execvp(way[0], [*way, sys.executable, *sys.argv])  # noqa: S606 - this very program
    raise SystemExit(
        "chaos.py fills disks of its own, and this host lets it mount none. Run it as root, in a container with "
        "--cap-add SYS_ADMIN, or allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    )


@define
class Disk:
    """A file system at `path`; while it is `full`, every write that needs a further page fails with ENOSPC."""

    path: Path
    full: bool = field(default=False, init=False)

    def mount(self) -> None:
        """Make it."""
        self.path.mkdir()
        _mount("-t", "tmpfs", "-o", f"size={ROOM_BYTES},mode=700", "tmpfs", str(self.path))

    def fill(self, spare_bytes: int) -> None:
        """Leave so much room, in whole pages, that others may use up meanwhile."""
        self.full = True
        for _ in range(_TRIES - 1):
            try:
                self._resize(self.used_bytes + spare_bytes)
            except subprocess.CalledProcessError:  # somebody wrote since we looked
                continue
            return
        self._resize(self.used_bytes + spare_bytes + (1 << 16))

    def empty(self) -> None:
        """Have room again."""
        self._resize(ROOM_BYTES)
        self.full = False

    def unmount(self) -> str:
        """Give it back, whatever else; why that did not go at once, or nothing."""
        done = subprocess.run(["umount", str(self.path)], check=False, capture_output=True, text=True)
        if done.returncode:
            subprocess.run(["umount", "--lazy", str(self.path)], check=False, capture_output=True)
        return done.stderr.strip()

    @property
    def used_bytes(self) -> int:
        """What is in use."""
        found = os.statvfs(self.path)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def _resize(self, size: int) -> None:
        _mount("-o", f"remount,size={max(size, 1 << 12)}", str(self.path))  # 0 would mean: no limit


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


def mounts_below(folder: Path) -> list[str]:
    """Where something is mounted in this folder."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [point for line in lines if (point := line.split()[4]).startswith(f"{folder}/")]
