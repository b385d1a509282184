"""Running commands: the tree becomes effects of the commands it names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from attrs import define, evolve, field, frozen

from lab.virtual.sim.program import Program
from lab.virtual.sim.sh import expand
from lab.virtual.sim.sh.parser import (
    AndOr,
    Command,
    For,
    Function,
    Group,
    If,
    Items,
    Pipeline,
    Redirection,
    Simple,
    While,
    parse,
)
from lab.virtual.sim.sh.words import ShellSyntaxError

NOT_FOUND = 127
SYNTAX = 2
_LOOP_LIMIT = 100_000  # a loop without an end would stop the simulation

Write: TypeAlias = Callable[[bytes], Program[None]]


class InterruptedCommandError(Exception):
    """Ctrl-C: the command line ends."""


class ExitError(Exception):
    """`exit`: the shell ends with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@frozen
class Streams:
    """Streams of a command.

    Attributes:
        stdin: what was piped or redirected into it; None: the terminal.
    """

    out: Write
    err: Write
    stdin: bytes | None = None


Runner: TypeAlias = Callable[[Sequence[str], Streams, "Interpreter"], Program[int]]


class ShellHost(Protocol):
    """The system that commands run on."""

    def runner(self, name: str) -> Runner | None:
        """The command of that name; None: there is none."""
        ...

    def unknown(self, name: str) -> str:
        """Error text for an unknown command."""
        ...

    def read_file(self, path: str) -> Program[bytes | None]:
        """A file's content; None: no such file."""
        ...

    def write_file(self, path: str, data: bytes, *, append: bool) -> Program[str]:
        """Write a file; returns what went wrong, or nothing."""
        ...

    def matching(self, pattern: str) -> list[str]:
        """The files that a pattern names."""
        ...


@define
class Interpreter:
    """One shell: its variables and functions, and the commands of its host.

    Attributes:
        background: exit status of the last command with `&`. It ends before the next one begins.
    """

    host: ShellHost
    variables: dict[str, str] = field(factory=dict)
    functions: dict[str, Items] = field(factory=dict)
    parameters: tuple[str, ...] = ()
    status: int = 0
    background: int = 0

    def execute(self, source: str, streams: Streams) -> Program[int]:
        """Run a text; returns its exit status.

        Raises:
            IncompleteError: the text is only the beginning of a command; nothing was run.
            ShellSyntaxError: it is no command; nothing was run.
        """
        return (yield from self._items(parse(source), streams))

    def subshell(self) -> Interpreter:
        """A copy whose changes stay its own."""
        return evolve(self, variables=dict(self.variables), functions=dict(self.functions))

    def variable(self, name: str) -> str:
        """A variable's value; empty when unset."""
        if name == "?":
            return str(self.status)
        if name == "#":
            return str(len(self.parameters))
        if name.isdigit():
            number = int(name)
            return self.parameters[number - 1] if 0 < number <= len(self.parameters) else ""
        return self.variables.get(name, "")

    def arguments(self) -> Sequence[str]:
        """The positional parameters."""
        return self.parameters

    def matching(self, pattern: str) -> list[str]:
        """The files that a pattern names."""
        return self.host.matching(pattern)

    def output_of(self, script: str) -> Program[str]:
        """Output of a script."""
        collected = bytearray()
        inner = self.subshell()
        yield from inner.execute(script, Streams(_into(collected), _into(bytearray())))
        self.status = inner.status
        return collected.decode(errors="replace")

    def _items(self, items: Items, streams: Streams) -> Program[int]:
        for item in items.items:
            yield from self._and_or(item, streams)
            if item.background:
                self.background, self.status = self.status, 0
        return self.status

    def _and_or(self, item: AndOr, streams: Streams) -> Program[None]:
        yield from self._pipeline(item.first, streams)
        for operator, pipeline in item.rest:
            if (self.status == 0) == (operator == "&&"):
                yield from self._pipeline(pipeline, streams)

    def _pipeline(self, pipeline: Pipeline, streams: Streams) -> Program[None]:
        *producers, last = pipeline.commands
        stdin = streams.stdin
        for command in producers:
            piped = bytearray()
            yield from self.subshell()._command(command, evolve(streams, out=_into(piped), stdin=stdin))
            stdin = bytes(piped)
        yield from self._command(last, evolve(streams, stdin=stdin))
        if pipeline.negated:
            self.status = int(self.status == 0)

    def _command(self, command: Command, streams: Streams) -> Program[None]:
        match command:
            case Simple():
                yield from self._simple(command, streams)
            case Group(body, redirections, subshell):
                shell = self.subshell() if subshell else self
                try:
                    yield from self._redirected(redirections, streams, lambda inner: shell._items(body, inner))
                except ExitError as end:
                    if not subshell:
                        raise
                    self.status = end.status
            case Function(name, body):
                self.functions[name] = body
                self.status = 0
            case If():
                yield from self._if(command, streams)
            case For(name, words, body):
                self.status = 0
                for value in (yield from expand.fields(words, self)):
                    self.variables[name] = value
                    yield from self._items(body, streams)
            case While():
                yield from self._while(command, streams)

    def _if(self, command: If, streams: Streams) -> Program[None]:
        for condition, body in command.branches:
            if (yield from self._items(condition, streams)) == 0:
                self.status = 0
                yield from self._items(body, streams)
                return
        self.status = 0
        yield from self._items(command.other, streams)

    def _while(self, command: While, streams: Streams) -> Program[None]:
        status = 0
        for _ in range(_LOOP_LIMIT):
            met = (yield from self._items(command.condition, streams)) == 0
            if met == command.until:
                break
            status = yield from self._items(command.body, streams)
        self.status = status

    def _simple(self, command: Simple, streams: Streams) -> Program[None]:
        arguments = yield from expand.fields(command.words, self)
        values = {}
        for name, word in command.assignments:
            values[name] = yield from expand.text(word, self)
        if not arguments:
            self.variables.update(values)
            self.status = 0
            if command.redirections:
                yield from self._redirected(command.redirections, streams, _nothing)
            return
        before = {name: self.variables.get(name) for name in values}
        self.variables.update(values)
        try:
            yield from self._redirected(command.redirections, streams, lambda inner: self._call(arguments, inner))
        finally:
            for name, value in before.items():
                if value is None:
                    self.variables.pop(name, None)
                else:
                    self.variables[name] = value

    def _call(self, arguments: Sequence[str], streams: Streams) -> Program[int]:
        name = arguments[0]
        if name in self.functions:
            outer, self.parameters = self.parameters, tuple(arguments[1:])
            try:
                return (yield from self._items(self.functions[name], streams))
            finally:
                self.parameters = outer
        runner = self.host.runner(name)
        if runner is None:
            yield from streams.err(self.host.unknown(name).encode() + b"\n")
            return NOT_FOUND
        return (yield from runner(arguments, streams, self))

    def _redirected(
        self, redirections: Sequence[Redirection], streams: Streams, body: Callable[[Streams], Program[int]]
    ) -> Program[None]:
        files: list[tuple[str, bytearray, bool]] = []
        for redirection in redirections:
            operator = redirection.operator
            path = yield from expand.text(redirection.target, self)
            if operator == "<":
                content = yield from self.host.read_file(path)
                if content is None:
                    yield from streams.err(f"sh: {path}: No such file or directory\n".encode())
                    self.status = 1
                    return
                streams = evolve(streams, stdin=content)
            elif operator == "2>&1":
                streams = evolve(streams, err=streams.out)
            elif operator == ">&2":
                streams = evolve(streams, out=streams.err)
            else:
                collected = bytearray()
                files.append((path, collected, operator.endswith(">>")))
                sink = _into(collected)
                out = streams.out if operator.startswith("2") else sink
                err = streams.err if operator in {">", ">>"} else sink
                streams = evolve(streams, out=out, err=err)
        self.status = yield from body(streams)
        for path, collected, append in files:
            problem = yield from self.host.write_file(path, bytes(collected), append=append)
            if problem:
                yield from streams.err(f"sh: {problem}\n".encode())
                self.status = 1


def _into(collected: bytearray) -> Write:
    def write(data: bytes) -> Program[None]:
        collected.extend(data)
        yield from ()

    return write


def _nothing(_streams: Streams) -> Program[int]:
    yield from ()
    return 0


def execute_line(interpreter: Interpreter, source: str, streams: Streams, name: str) -> Program[int]:
    """Run a text and say so when it is no command.

    Raises:
        IncompleteError: more lines are needed.
    """
    try:
        return (yield from interpreter.execute(source, streams))
    except ShellSyntaxError as error:
        if type(error) is not ShellSyntaxError:
            raise
        yield from streams.err(f"{name}: syntax error: {error}\n".encode())
        interpreter.status = SYNTAX
        return SYNTAX
