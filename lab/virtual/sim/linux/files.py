"""The file system: what the image has, what was written, and the nodes of proc and sysfs."""

from __future__ import annotations

import fnmatch
import posixpath

from lab.virtual.sim.linux import nodes
from lab.virtual.sim.linux.kernel import Kernel
from lab.virtual.sim.linux.sleep import Sleeper
from lab.virtual.sim.program import Program

_FOLDERS = frozenset({"/", "/home", "/home/root", "/root", "/tmp", "/dev", "/dev/shm", "/run", "/var", "/opt", "/mnt"})  # noqa: S108
_DEVICES = frozenset({"/dev/null", "/dev/zero", "/dev/rtc", "/dev/rtc0", "/dev/console", "/dev/kmsg", "/dev/tty"})
_VOLATILE = ("/tmp/", "/dev/shm/", "/run/")  # noqa: S108


def normalise(name: str, folder: str) -> str:
    """An absolute path without dots."""
    path = posixpath.normpath(posixpath.join(folder, name))
    return "/" + path.lstrip("/")


class Files:
    """All files as one session sees them.

    Attributes:
        sleeper: suspends the kernel when /sys/power/state is written.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.sleeper = Sleeper(kernel)
        self._nodes = nodes.make(kernel, self.sleeper)
        self._kept = kernel.computer.storage.files
        self._volatile: dict[str, bytes] = {}
        self._folders = set(_FOLDERS)

    def read(self, path: str) -> bytes | None:
        """A file's content; None: there is none."""
        if path in self._nodes:
            return self._nodes[path].read().encode()
        if path in _DEVICES:
            return b""
        return self._volatile.get(path, self._kept.get(path))

    def write(self, path: str, data: bytes, *, append: bool = False) -> Program[str]:
        """Write a file; returns what went wrong."""
        node = self._nodes.get(path)
        if node is not None:
            if node.write is None:
                return f"{path}: Permission denied"
            problem = yield from node.write(data.decode(errors="replace").strip())
            return problem and f"{path}: {problem}"
        if path == "/dev/kmsg":
            yield from self._kernel.printk(data.decode(errors="replace").rstrip("\n"))
        elif path.startswith(("/sys/", "/proc/")):
            return f"{path}: No such file or directory"
        elif path in _DEVICES:
            pass
        elif self.is_folder(path):
            return f"{path}: Is a directory"
        elif not self.is_folder(posixpath.dirname(path)):
            return f"{path}: No such file or directory"
        else:
            before = (self.read(path) or b"") if append else b""
            store = self._volatile if path.startswith(_VOLATILE) else self._kept
            store[path] = before + data
        return ""

    def remove(self, path: str) -> bool:
        """Whether there was such a file, which is gone now."""
        return self._volatile.pop(path, self._kept.pop(path, None)) is not None

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        while path != "/":
            self._folders.add(path)
            path = posixpath.dirname(path)

    def is_folder(self, path: str) -> bool:
        """Whether it is one."""
        return path in self._folders or any(name.startswith(path.rstrip("/") + "/") for name in self.all())

    def all(self) -> list[str]:
        """Every file's path."""
        return [*self._nodes, *_DEVICES, *self._kept, *self._volatile]

    def matching(self, pattern: str) -> list[str]:
        """Files and folders that a pattern names; `*` stays within one folder."""
        wanted = pattern.rstrip("/").split("/")
        found = set()
        for path in [*self.all(), *self._folders]:
            parts = path.split("/")[: len(wanted)]
            if len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted)):
                found.add("/".join(parts) + ("/" if pattern.endswith("/") else ""))
        return sorted(found)
