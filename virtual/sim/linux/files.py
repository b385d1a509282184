"""The file system: what the image has, what was written, and the nodes of proc and sysfs."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from virtual.sim.linux import nodes
from virtual.sim.linux.kernel import Kernel
from virtual.sim.linux.sleep import Sleeper
from virtual.sim.linux.tool import Tool, complain, say
from virtual.sim.program import Program
from virtual.sim.sh.interpreter import Interpreter, Streams

if TYPE_CHECKING:
    from virtual.sim.linux.session import Session

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


def _ls(session: Session, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    status = 0
    for name in [a for a in arguments[1:] if not a.startswith("-")] or ["."]:
        path = session.path(name)
        if session.files.is_folder(path):
            ahead = path.rstrip("/") + "/"
            inside = {p.removeprefix(ahead).split("/")[0] for p in session.files.matching(ahead + "*")}
            for entry in sorted(inside):
                yield from say(streams, entry)
        elif session.files.read(path) is not None:
            yield from say(streams, name)
        else:
            status = yield from complain(streams, f"ls: {name}: No such file or directory")
    return status


def _find(session: Session, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    words = list(arguments[1:])
    name = words[words.index("-name") + 1] if "-name" in words[:-1] else "*"
    for start in [word for word in words[: words.index("-name") if "-name" in words else None] if word[0] != "-"]:
        below = session.path(start).rstrip("/") + "/"
        for path in sorted(p for p in session.files.all() if p.startswith(below)):
            if fnmatch.fnmatchcase(posixpath.basename(path), name):
                yield from say(streams, start.rstrip("/") + "/" + path.removeprefix(below))
    return 0


def _change(session: Session, arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
    """cd and pwd."""
    if arguments[0] == "pwd":
        yield from say(streams, session.folder)
        return 0
    path = session.path(arguments[1] if len(arguments) > 1 else shell.variable("HOME"))
    if not session.files.is_folder(path):
        return (yield from complain(streams, f"-sh: cd: {arguments[1]}: No such file or directory"))
    session.folder = path
    shell.variables["PWD"] = path
    return 0


def _make(session: Session, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """mkdir and touch."""
    for name in [a for a in arguments[1:] if not a.startswith("-") and not a.isdigit()]:
        path = session.path(name)
        if arguments[0] == "mkdir":
            session.files.make_folder(path)
        elif problem := (yield from session.files.write(path, b"", append=True)):
            return (yield from complain(streams, f"touch: {problem}"))
    return 0


def _remove(session: Session, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    forced = any("f" in a for a in arguments[1:] if a.startswith("-"))
    status = 0
    for name in [a for a in arguments[1:] if not a.startswith("-")]:
        if not session.files.remove(session.path(name)) and not forced:
            status = yield from complain(streams, f"rm: cannot remove '{name}': No such file or directory")
    return status


def _copy(session: Session, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """cp and mv."""
    words = [a for a in arguments[1:] if not a.startswith("-")]
    if len(words) != 2:
        return (yield from complain(streams, f"{arguments[0]}: expected a source and a target"))
    source, target = map(session.path, words)
    content = session.files.read(source)
    if content is None:
        return (yield from complain(streams, f"{arguments[0]}: {words[0]}: No such file or directory"))
    if session.files.is_folder(target):
        target = posixpath.join(target, posixpath.basename(source))
    if problem := (yield from session.files.write(target, content)):
        return (yield from complain(streams, f"{arguments[0]}: {problem}"))
    if arguments[0] == "mv":
        session.files.remove(source)
    return 0


def _tee(session: Session, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    for name in [a for a in arguments[1:] if not a.startswith("-")]:
        if problem := (yield from session.files.write(session.path(name), streams.stdin or b"")):
            return (yield from complain(streams, f"tee: {problem}"))
    yield from streams.out(streams.stdin or b"")
    return 0


TOOLS: Mapping[str, Tool] = {
    "cd": _change,
    "cp": _copy,
    "find": _find,
    "ls": _ls,
    "mkdir": _make,
    "mv": _copy,
    "pwd": _change,
    "rm": _remove,
    "tee": _tee,
    "touch": _make,
}
