"""A session of a section: commands on the board and on its tester, with one transcript of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from attrs import define, evolve, field, frozen

from lab.benchmarks.lab_site import LabSite
from lab.benchmarks.output import refusal, transcript_head, transcript_status
from lab.benchmarks.section import ALWAYS, Marks, OutputSpan, ParsedReading, Parser, SpanParser, Validity
from lab.boards import BoardType
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError, LabTransientError, TestTransientError
from lab.host.clock import Clock
from lab.metrics.catalogue import find

# A program may run for less than the requested duration: it rounds, and starts its clock late.
SHORTEST_SHARE: Final = 0.95
# A value may exceed the limit of its carrier: buffers, and the difference of the clocks of both ends.
HIGHEST_SHARE: Final = 1.05
EMULATED_PATIENCE: Final = 4  # an emulated processor is as slow as its host is busy
# The line in which a program names its error. With `time -v` and others it is not the last line of the output.
_ERROR: Final = re.compile(
    r"\b(?:error|fail(?:ed|ure)?|cannot|could "
    r"not|can't|unable|refused|denied|terminat\w+|killed|interrupt\w*|invalid|no such|no space|not found|timed out)\b",
    re.IGNORECASE,
)


@frozen
class CommandResult:
    """The result of a command.

    Attributes:
        lines: its output, without line ends.
        status: its exit status.
    """

    lines: Sequence[str]
    status: int


@frozen
class _TimedCommand:
    """A command with its result and its duration.

    Attributes:
        host: where it ran, "board" or "tester".
        seconds: time from sending the command to its end, by the lab host's clock.
    """

    host: str
    command: str
    output: bytes
    status: int
    seconds: float


class CommandHost(Protocol):
    """A shell that runs commands: labgrid's CommandProtocol behind an adapter (`lab.pytest_plugin.sections`)."""

    def run(self, command: str, timeout_s: float) -> CommandResult:
        """Run a command to its end.

        Raises:
            BoardlabError: it did not end in time, or the host is gone.
        """
        ...


class Stamps(Protocol):
    """The arrival times of a console's bytes (`lab.pytest_plugin.labgrid_host.ConsoleStamps`)."""

    def since_now(self) -> Callable[[Marks], OutputSpan]:
        """Return a function that takes two marks, and returns the time between them in the output from now on.

        The returned function raises TestTransientError if a mark did not come, and LabTransientError if the stamps
        are unreliable.
        """
        ...


@define
class BoardSession:
    """A try of a section on one board; it implements `lab.benchmarks.section.Bench`.

    Attributes:
        site: addresses and devices of the lab that sections need.
        host: the board's prompt.
        tester_host: shell of the tester; None: the environment has no tester.
        stamps: stamps of the prompt's console; None: the prompt is not at a console.
        transcript: all commands with their output, in order; every number refers to its place in it.
        lost: True if a command did not end, or its host vanished: the board's state is unknown since then.
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
        result = self._run("board", self.host, command, timeout_s)
        if check and result.status != 0:
            raise _failure(result)
        return result.output

    def status(self, command: str, *, timeout_s: float = 30.0) -> int:
        """Run a command for its exit status, as `Bench.status`."""
        return self._run("board", self.host, command, timeout_s).status

    def tester(self, command: str, *, timeout_s: float = 30.0, check: bool = True) -> bytes:
        """Run a command on the tester, as `Bench.tester`."""
        result = self._run("tester", self._tester(), command, timeout_s)
        if check and result.status != 0:
            raise _failure(result)
        return result.output

    def read(
        self,
        parser: Parser,
        command: str,
        *,
        timeout_s: float = 30.0,
        on_tester: bool = False,
        validity: Validity = ALWAYS,
    ) -> list[ParsedReading]:
        """Run a command and read its output, as `Bench.read`; readings refer to bytes of the transcript."""
        name, host = ("tester", self._tester()) if on_tester else ("board", self.host)
        return self._valid_readings(parser, self._run(name, host, command, timeout_s), validity)

    def timed(
        self,
        parser: SpanParser,
        command: str,
        marks: Marks,
        *,
        timeout_s: float = 30.0,
        validity: Validity = ALWAYS,
    ) -> list[ParsedReading]:
        """Run a command and time its output by the console's stamps, as `Bench.timed`."""
        if self.stamps is None:
            raise ConfigurationError(
                f"`{command}` is timed by the console's stamps, and this prompt is at no console that the console "
                "server reads; use a StampedConsoleDriver in the env"
            )
        span = self.stamps.since_now()
        result = self._run("board", self.host, command, timeout_s)
        return self._valid_readings(lambda output: parser(output, span(marks)), result, validity)

    def _valid_readings(self, parser: Parser, result: _TimedCommand, validity: Validity) -> list[ParsedReading]:
        """Parse the output of a command, and check its readings.

        Raises:
            BoardTransientError, LabTransientError, TestTransientError: as `Bench.read`.
        """
        text = result.output.decode("utf-8", "replace")
        if result.status != 0 and not any(
            result.status in harmless.statuses and re.search(harmless.output, text) for harmless in validity.harmless
        ):
            raise _failure(result)
        base = len(self.transcript) - len(result.output)
        try:
            readings = parser(result.output)
        except TestTransientError as error:
            if result.status == 0:
                raise
            raise _failure(result) from error
        for reading in readings:
            _check_validity(reading, result, validity)
        return [evolve(reading, start=reading.start + base, end=reading.end + base) for reading in readings]

    def _tester(self) -> CommandHost:
        """Return the tester's shell.

        Raises:
            ConfigurationError: the environment has none.
        """
        if self.tester_host is None:
            raise ConfigurationError(
                "this section needs commands on the tester, and the env has no target `tester` "
                "(docs/benchmarks.md); add one"
            )
        return self.tester_host

    def _run(self, name: str, host: CommandHost, command: str, timeout_s: float) -> _TimedCommand:
        """Run a command, and add it with its output to the transcript.

        Raises:
            BoardlabError: it did not end in time, or the host is gone; the session is lost then.
        """
        self.transcript += transcript_head(name, command)
        start_ns = self.clock.now_ns()
        try:
            result = host.run(command, timeout_s * (EMULATED_PATIENCE if self.board.virtual else 1))
        except BoardlabError:
            self.lost = True
            raise
        seconds = (self.clock.now_ns() - start_ns) / 1e9
        output = "".join(f"{line}\n" for line in result.lines).encode("utf-8", "replace")
        self.transcript += transcript_status(result.status, seconds) + output
        return _TimedCommand(name, command, output, result.status, seconds)


def _check_validity(reading: ParsedReading, result: _TimedCommand, validity: Validity) -> None:
    """Check the duration and the value of a reading.

    The duration is that which the program prints, else the time from the command to the prompt.

    Raises:
        TestTransientError: the program ran for less than the requested time, or the value exceeds the carrier's limit.
    """
    seconds = reading.seconds or result.seconds
    if seconds < validity.seconds * SHORTEST_SHARE:
        raise refusal(
            f"`{result.command}` on the {result.host}",
            f"it ran for {seconds:.3g} of the requested {validity.seconds:g} s, so its numbers cover only a part: "
            f"something ended it early ({_own_error(result.output)!r})",
        )
    highest = validity.highest.get(reading.metric, 0.0)
    if highest and reading.value - min(reading.quantum, reading.value) / 2 > highest * HIGHEST_SHARE:
        metric = find(reading.metric)
        unit = metric.unit if metric else ""  # the catalogue lacks the metrics of other packages' sections
        raise refusal(
            f"`{result.command}` on the {result.host}",
            f"{reading.metric} is {reading.value:.6g} {unit}, and {validity.carrier} carries at most {highest:.6g} "
            f"{unit}: a counter or a clock of the program is wrong, or its output is damaged. Try another version of "
            "the program, or another program",
        )


def _failure(result: _TimedCommand) -> BoardTransientError | LabTransientError:
    """Return the error of a command with a bad exit status: the board's, or of a tester's command the lab's."""
    kind, failure = (
        (LabTransientError, "tester_command_failed")
        if result.host == "tester"
        else (BoardTransientError, "command_failed")
    )
    return kind(
        f"`{result.command}` failed on the {result.host} with status {result.status}: "
        f"{_own_error(result.output)!r}. Its output is in the attempt's log",
        failure=failure,
    )


def _own_error(output: bytes) -> str:
    """Return the line in which a program names its error; if no line does, its last one."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1] if lines else "")
