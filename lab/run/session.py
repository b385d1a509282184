"""A board and its tester while a section is measured: every command and its output is kept, in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import define, evolve, field, frozen

from lab.benchmarks.section import Marks, OutputSpan, ParsedReading, Parser, SpanParser
from lab.benchmarks.site import LabSite
from lab.boards import BoardType
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError, LabTransientError, TestTransientError
from lab.host.clock import Clock


@frozen
class CommandResult:
    """A command that ended.

    Attributes:
        lines: what it printed, without ends of line.
        status: its exit status.
    """

    lines: Sequence[str]
    status: int


class CommandHost(Protocol):
    """Something that runs commands; labgrid's CommandProtocol behind an adapter (lab.pytest_plugin.sections)."""

    def run(self, command: str, timeout_s: float) -> CommandResult:
        """Run it to its end.

        Raises:
            BoardlabError: it did not end in time, or the host is gone.
        """
        ...


class Stamps(Protocol):
    """When the bytes of a console came; `lab.drivers.consolestamps`."""

    def since_now(self) -> Callable[[Marks], OutputSpan]:
        """What gives the span between the texts of what comes from now on.

        It raises:
            TestTransientError: a text did not come. LabTransientError: the stamps are not to be trusted.
        """
        ...


@define
class BoardSession:
    """A `lab.benchmarks.section.Bench`.

    Attributes:
        host: the board's prompt. tester_host: None where the environment has no tester.
        stamps: of the console that the prompt is at; None where it is at none.
        transcript: everything that was run and what came of it; the artifact behind every number.
        lost: a command did not end, or its host was gone: its state was not known from then on.
    """

    board: BoardType
    site: LabSite
    clock: Clock
    host: CommandHost
    tester_host: CommandHost | None = None
    stamps: Stamps | None = None
    transcript: bytearray = field(factory=bytearray, init=False)
    lost: bool = field(default=False, init=False)

    def run(self, command: str, *, timeout_s: float = 30.0, check: bool = True) -> bytes:
        """See `Bench.run`."""
        output, status = self._run("board", self.host, command, timeout_s)
        if check and status != 0:
            raise _failed(command, status, output)
        return output

    def status(self, command: str, *, timeout_s: float = 30.0) -> int:
        """See `Bench.status`."""
        return self._run("board", self.host, command, timeout_s)[1]

    def tester(self, command: str, *, timeout_s: float = 30.0, check: bool = True) -> bytes:
        """See `Bench.tester`."""
        output, status = self._run("tester", self._tester(), command, timeout_s)
        if check and status != 0:
            raise _failed_on_tester(command, status, output)
        return output

    def read(
        self,
        parser: Parser,
        command: str,
        *,
        timeout_s: float = 30.0,
        on_tester: bool = False,
        check: bool = False,
    ) -> list[ParsedReading]:
        """See `Bench.read`; the readings' bytes are those of the transcript."""
        name, host = ("tester", self._tester()) if on_tester else ("board", self.host)
        output, status = self._run(name, host, command, timeout_s)
        if check and status != 0:
            raise (_failed_on_tester if on_tester else _failed)(command, status, output)
        return self._placed(parser, command, output, 0 if on_tester else status)

    def timed(self, parser: SpanParser, command: str, marks: Marks, *, timeout_s: float = 30.0) -> list[ParsedReading]:
        """See `Bench.timed`."""
        if self.stamps is None:
            raise ConfigurationError(
                f"`{command}` is timed by the console's stamps, and this prompt is at no console that the console server reads; "
                "use a StampedConsoleDriver in the env"
            )
        span = self.stamps.since_now()
        output, status = self._run("board", self.host, command, timeout_s)
        return self._placed(lambda said: parser(said, span(marks)), command, output, status)

    def _placed(self, parser: Parser, command: str, output: bytes, status: int) -> list[ParsedReading]:
        """What an output says, with its bytes in the transcript; one that says nothing is a failure of a command that failed."""
        base = len(self.transcript) - len(output)
        try:
            readings = parser(output)
        except TestTransientError as error:
            if status == 0:
                raise
            raise _failed(command, status, output) from error
        return [evolve(r, start=r.start + base, end=r.end + base) for r in readings]

    def _tester(self) -> CommandHost:
        if self.tester_host is None:
            raise ConfigurationError(
                "this section needs commands on the tester, and the env has no target `tester` (docs/benchmarks.md); add one"
            )
        return self.tester_host

    def _run(self, name: str, host: CommandHost, command: str, timeout_s: float) -> tuple[bytes, int]:
        self.transcript += f"{name}$ {command}\n".encode()
        start_ns = self.clock.now_ns()
        try:
            ended = host.run(command, timeout_s)
        except BoardlabError:
            self.lost = True
            raise
        seconds = (self.clock.now_ns() - start_ns) / 1e9
        head = f"# status {ended.status}, {seconds:.1f} s as the lab host saw it\n"
        output = "".join(f"{line}\n" for line in ended.lines).encode("utf-8", "replace")
        self.transcript += head.encode() + output
        return output, ended.status


def _failed(command: str, status: int, output: bytes) -> BoardTransientError:
    return BoardTransientError(
        f"`{command}` failed on the board with status {status}: {_last(output)!r}. Its output is in the attempt's log",
        failure="command_failed",
    )


def _failed_on_tester(command: str, status: int, output: bytes) -> LabTransientError:
    return LabTransientError(
        f"`{command}` failed on the tester with status {status}: {_last(output)!r}. Its output is in the attempt's log",
        failure="tester_command_failed",
    )


def _last(output: bytes) -> str:
    text = output.decode("utf-8", "replace").strip()
    return text.splitlines()[-1] if text else ""
