"""Commands on a board and its tester, with a transcript in order."""

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
        lines: its output, without line ends.
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
    """Arrival times of a console's bytes; see `lab.drivers.consolestamps`."""

    def since_now(self) -> Callable[[Marks], OutputSpan]:
        """Return a function of the time span between marks in later output.

        It raises:
            TestTransientError: a text did not come. LabTransientError: the stamps are unreliable.
        """
        ...


@define
class BoardSession:
    """A `lab.benchmarks.section.Bench`.

    Attributes:
        host: the board's prompt. tester_host: None: the environment has no tester.
        stamps: of the prompt's console; None: the prompt is not at a console.
        transcript: all commands with their output; the artifact behind every number.
        lost: a command did not end, or its host vanished: its state is unknown since.
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
        """Run a command on the board, as `Bench.run`."""
        output, status = self._run("board", self.host, command, timeout_s)
        if check and status != 0:
            raise _failed(command, status, output)
        return output

    def status(self, command: str, *, timeout_s: float = 30.0) -> int:
        """Run a command for its exit status, as `Bench.status`."""
        return self._run("board", self.host, command, timeout_s)[1]

    def tester(self, command: str, *, timeout_s: float = 30.0, check: bool = True) -> bytes:
        """Run a command on the tester, as `Bench.tester`."""
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
        """Read an output as `Bench.read`, with bytes of the transcript."""
        name, host = ("tester", self._tester()) if on_tester else ("board", self.host)
        output, status = self._run(name, host, command, timeout_s)
        if check and status != 0:
            raise (_failed_on_tester if on_tester else _failed)(command, status, output)
        return self._placed(parser, command, output, 0 if on_tester else status)

    def timed(self, parser: SpanParser, command: str, marks: Marks, *, timeout_s: float = 30.0) -> list[ParsedReading]:
        """Time an output by the stamps, as `Bench.timed`."""
        if self.stamps is None:
            raise ConfigurationError(
                f"`{command}` is timed by the console's stamps, and this prompt is at no console that the console server reads; "
                "use a StampedConsoleDriver in the env"
            )
        span = self.stamps.since_now()
        output, status = self._run("board", self.host, command, timeout_s)
        return self._placed(lambda said: parser(said, span(marks)), command, output, status)

    def _placed(self, parser: Parser, command: str, output: bytes, status: int) -> list[ParsedReading]:
        """Parse an output; positions become the transcript's.

        An unparsable output of a failed command is that command's failure.
        """
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
