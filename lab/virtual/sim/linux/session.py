"""A shell session: prompt, lines, and what its commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from lab.virtual.sim import figures
from lab.virtual.sim.editor import INTERRUPT, EndOfInputError, read_line
from lab.virtual.sim.linux.files import LOGIN_PID, SHELL_PID, Files, normalise
from lab.virtual.sim.linux.kernel import Kernel
from lab.virtual.sim.program import NS_PER_S, Hear, Program
from lab.virtual.sim.sh.interpreter import (
    ExitError,
    Interpreter,
    InterruptedCommandError,
    Runner,
    Streams,
    execute_line,
)
from lab.virtual.sim.sh.words import IncompleteError

# A command gets the session, its words, its streams and its shell, and returns its status.
Tool: TypeAlias = Callable[["LoginSession", Sequence[str], Streams, Interpreter], Program[int]]

_NAME = "-sh"


class LoginSession:
    """A login shell on the console, and host of its commands.

    Args:
        tools: its commands by name (`lab.virtual.sim.boot.TOOLS`).
        prompt: instead of the usual one with host and folder.
    """

    def __init__(self, kernel: Kernel, files: Files, user: str, tools: Mapping[str, Tool], prompt: str = "") -> None:
        self.kernel = kernel
        self._tools = tools
        self.computer = kernel.computer
        self.user = user
        self.files = files
        self.folder = "/home/root" if user == "root" else f"/home/{user}"
        self._prompt_text = prompt
        variables = {"HOME": self.folder, "USER": user, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "PWD": self.folder}
        variables |= {"$": str(SHELL_PID), "PPID": str(LOGIN_PID)}
        self.shell = Interpreter(self, variables=variables)
        self._streams = Streams(self.computer.write, self.computer.write)

    @property
    def prompt(self) -> str:
        """Text of the prompt."""
        shown = "~" if self.folder == self.shell.variable("HOME") else self.folder
        return self._prompt_text or f"{self.user}@{self.computer.model.identity.hostname}:{shown}# "

    def run(self) -> Program[None]:
        """Serve lines until `exit`."""
        while True:
            yield from self.computer.at("shell.prompt")
            yield from self.computer.write(self.prompt.encode())
            try:
                yield from self._serve((yield from read_line(self.computer, interrupted="^C\n", ends=True)))
            except InterruptedCommandError:
                self.shell.status = 130
            except EndOfInputError:
                yield from self.computer.write(b"logout\n")
                return
            except ExitError:
                return

    def _serve(self, line: str) -> Program[None]:
        while True:
            try:
                yield from self.computer.at("shell.command")
                yield from execute_line(self.shell, line, self._streams, _NAME)
            except IncompleteError:
                yield from self.computer.write(b"> ")
                line += "\n" + (yield from read_line(self.computer, interrupted="^C\n"))
            else:
                return

    def path(self, name: str) -> str:
        """A name as an absolute path."""
        return normalise(name.replace("~", self.shell.variable("HOME"), 1) if name[:1] == "~" else name, self.folder)

    def runner(self, name: str) -> Runner | None:
        """The command of that name."""
        tool = self._tools.get(name.rsplit("/", 1)[-1])
        if tool is None:
            return None

        def run(arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
            for trouble in self.computer.troubles:
                if said := trouble.refuses(" ".join(arguments)):
                    yield from streams.out(f"{said}\n".encode())
                    return 1
                if (cut := trouble.interruption(" ".join(arguments))) is not None:
                    yield from tool(self, cut.shortened(arguments), streams, shell)
                    yield from streams.err(f"{cut.text}\n".encode())
                    return cut.status
            return (yield from tool(self, arguments, streams, shell))

        return run

    def unknown(self, name: str) -> str:
        """Error text for an unknown command."""
        return f"{_NAME}: {name}: command not found"

    def read_file(self, path: str) -> Program[bytes | None]:
        """A file's content."""
        yield from ()
        return self.files.read(self.path(path))

    def write_file(self, path: str, data: bytes, *, append: bool) -> Program[str]:
        """Write a file; some of sysfs do things that take their time."""
        return (yield from self.files.write(self.path(path), data, append=append))

    def matching(self, pattern: str) -> list[str]:
        """The files that a pattern names, as they were asked for."""
        if pattern.startswith("/"):
            return self.files.matching(pattern)
        ahead = self.path("").rstrip("/") + "/"
        return [path.removeprefix(ahead) for path in self.files.matching(ahead + pattern)]


# --- Shared parts of Linux' commands, and of the benchmarks that print published figures ---


def say(streams: Streams, text: str) -> Program[None]:
    """Print a line."""
    yield from streams.out(text.encode() + b"\n")


def complain(streams: Streams, text: str) -> Program[int]:
    """Print a line to standard error, and fail."""
    yield from streams.err(text.encode() + b"\n")
    return 1


def inputs(
    session: LoginSession, paths: Sequence[str], streams: Streams, name: str
) -> Program[list[tuple[str, bytes]]]:
    """Named files, or standard input; reports missing ones."""
    if not paths:
        return [("-", streams.stdin or b"")]
    found = []
    for path in paths:
        content = streams.stdin or b"" if path == "-" else session.files.read(session.path(path))
        if content is None:
            yield from complain(streams, f"{name}: {path}: No such file or directory")
        else:
            found.append((path, content))
    return found


def wait(session: LoginSession, ns: float) -> Program[None]:
    """A command works or sleeps; ctrl-C ends it.

    Raises:
        InterruptedCommandError: ctrl-C.
    """
    computer = session.computer
    due_ns = computer.now_ns + round(ns * computer.time_scale)
    ahead: list[int] = []
    while computer.now_ns < due_ns:
        typed = yield Hear((computer.console,), due_ns - computer.now_ns)
        if typed is not None and typed.byte == INTERRUPT:
            yield from computer.write(b"^C\n")
            raise InterruptedCommandError
        if typed is not None:
            ahead.append(typed.byte)
    computer.machine.unread(computer.console, bytes(ahead))


def drawn(session: LoginSession, metric: str, otherwise: float = 1.0, **params: str) -> float:
    """A published number of this board with this run's noise."""
    computer = session.computer
    dice = computer.dice("played", metric, sorted(params.items()), computer.now_ns)
    return known(session).draw(dice, metric, otherwise, **params)


def known(session: LoginSession) -> figures.PublishedValues:
    """The figures of this board."""
    model = session.computer.model
    return figures.load(model.board.name, model.release_name)


def play(session: LoginSession, streams: Streams, text: str, seconds: float) -> Program[int]:
    """Work so long, then print."""
    yield from wait(session, seconds * NS_PER_S)
    yield from streams.out(text.encode())
    return 0


def option(arguments: Sequence[str], name: str, default: str = "") -> str:
    """The word behind an option."""
    words = list(arguments)
    return words[words.index(name) + 1] if name in words[:-1] else default


def took_part(session: LoginSession, percent: float) -> None:
    """Set the CPU share that `time -v` will report."""
    session.kernel.settings["cpu_share"] = f"{percent:.0f}"
