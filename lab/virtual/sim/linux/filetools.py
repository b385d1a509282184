"""Linux' commands for files and folders."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.session import LoginSession, Tool, complain, say
from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Interpreter, Streams


def _ls(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
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


def _find(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    words = list(arguments[1:])
    name = words[words.index("-name") + 1] if "-name" in words[:-1] else "*"
    for start in [word for word in words[: words.index("-name") if "-name" in words else None] if word[0] != "-"]:
        below = session.path(start).rstrip("/") + "/"
        for path in sorted(p for p in session.files.all() if p.startswith(below)):
            if fnmatch.fnmatchcase(posixpath.basename(path), name):
                yield from say(streams, start.rstrip("/") + "/" + path.removeprefix(below))
    return 0


def _change(session: LoginSession, arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
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


def _make(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """mkdir and touch."""
    for name in [a for a in arguments[1:] if not a.startswith("-") and not a.isdigit()]:
        path = session.path(name)
        if arguments[0] == "mkdir":
            session.files.make_folder(path)
        elif problem := (yield from session.files.write(path, b"", append=True)):
            return (yield from complain(streams, f"touch: {problem}"))
    return 0


def _remove(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    forced = any("f" in a for a in arguments[1:] if a.startswith("-"))
    status = 0
    for name in [a for a in arguments[1:] if not a.startswith("-")]:
        if not session.files.remove(session.path(name)) and not forced:
            status = yield from complain(streams, f"rm: cannot remove '{name}': No such file or directory")
    return status


def _copy(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
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


def _tee(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
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
