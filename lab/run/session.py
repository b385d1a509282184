"""Commands on a board and its tester, with a transcript in order."""

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

# Of the asked duration: programs round it and begin their clocks late. Beyond a carrier's limit: clocks and buffers of
# both ends.
SHORTEST_SHARE: Final = 0.95
HIGHEST_SHARE: Final = 1.05
EMULATED_PATIENCE: Final = 4  # an emulated processor is as slow as its host is busy
# A program's own words for its failure. In the output of `time -v` and others they are not the last line.
_ERROR: Final = re.compile(
    r"\b(?:error|fail(?:ed|ure)?|cannot|could "
    r"not|can't|unable|refused|denied|terminat\w+|killed|interrupt\w*|invalid|no such|no space|not found|timed out)\b",
    re.IGNORECASE,
)


@frozen
class CommandResult:
    """A command that ended.

    Attributes:
        lines: its output, without line ends.
        status: its exit status.
    """

    lines: Sequence[str]
    status: int


@frozen
class _Ended:
    """A command that ended on the board or the tester.

    Attributes:
        host: "board" or "tester".
        seconds: from the command to its end, by the lab host's clock.
    """

    host: str
    command: str
    output: bytes
    status: int
    seconds: float


class CommandHost(Protocol):
    """Something that runs commands; labgrid's CommandProtocol behind an adapter (lab.pytest_plugin.sections)."""

    def run(self, command: str, timeout_s: float) -> CommandResult:
        """Run it to its end.

        Raises:
            BoardlabError: it did not end in time, or the host is gone.
        """
        ...


class Stamps(Protocol):
    """Arrival times of a console's bytes; see `lab.pytest_plugin.labgrid_host.ConsoleStamps`."""

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
        host: the board's prompt.
        tester_host: None: the environment has no tester.
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
        ended = self._run("board", self.host, command, timeout_s)
        if check and ended.status != 0:
            raise _failure(ended)
        return ended.output

    def status(self, command: str, *, timeout_s: float = 30.0) -> int:
        """Run a command for its exit status, as `Bench.status`."""
        return self._run("board", self.host, command, timeout_s).status

    def tester(self, command: str, *, timeout_s: float = 30.0, check: bool = True) -> bytes:
        """Run a command on the tester, as `Bench.tester`."""
        ended = self._run("tester", self._tester(), command, timeout_s)
        if check and ended.status != 0:
            raise _failure(ended)
        return ended.output

    def read(
        self,
        parser: Parser,
        command: str,
        *,
        timeout_s: float = 30.0,
        on_tester: bool = False,
        validity: Validity = ALWAYS,
    ) -> list[ParsedReading]:
        """Read an output as `Bench.read`, with bytes of the transcript."""
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
        """Time an output by the stamps, as `Bench.timed`."""
        if self.stamps is None:
            raise ConfigurationError(
                f"`{command}` is timed by the console's stamps, and this prompt is at no console that the console "
                "server reads; use a StampedConsoleDriver in the env"
            )
        span = self.stamps.since_now()
        ended = self._run("board", self.host, command, timeout_s)
        return self._valid_readings(lambda output: parser(output, span(marks)), ended, validity)

    def _valid_readings(self, parser: Parser, ended: _Ended, validity: Validity) -> list[ParsedReading]:
        """A command's readings that pass its conditions, by transcript position.

        Raises:
            BoardTransientError, LabTransientError, TestTransientError: as of `Bench.read`.
        """
        text = ended.output.decode("utf-8", "replace")
        if ended.status != 0 and not any(
            ended.status in harmless.statuses and re.search(harmless.output, text) for harmless in validity.harmless
        ):
            raise _failure(ended)
        base = len(self.transcript) - len(ended.output)
        try:
            readings = parser(ended.output)
        except TestTransientError as error:
            if ended.status == 0:
                raise
            raise _failure(ended) from error
        for reading in readings:
            _check(reading, ended, validity)
        return [evolve(r, start=r.start + base, end=r.end + base) for r in readings]

    def _tester(self) -> CommandHost:
        if self.tester_host is None:
            raise ConfigurationError(
                "this section needs commands on the tester, and the env has no target `tester` "
                "(docs/benchmarks.md); add one"
            )
        return self.tester_host

    def _run(self, name: str, host: CommandHost, command: str, timeout_s: float) -> _Ended:
        self.transcript += transcript_head(name, command)
        start_ns = self.clock.now_ns()
        try:
            ended = host.run(command, timeout_s * (EMULATED_PATIENCE if self.board.virtual else 1))
        except BoardlabError:
            self.lost = True
            raise
        seconds = (self.clock.now_ns() - start_ns) / 1e9
        output = "".join(f"{line}\n" for line in ended.lines).encode("utf-8", "replace")
        self.transcript += transcript_status(ended.status, seconds) + output
        return _Ended(name, command, output, ended.status, seconds)


def _check(reading: ParsedReading, ended: _Ended, validity: Validity) -> None:
    """Check a reading's duration and value.

    The duration is the program's; of one that prints none, the lab host's between command and prompt.

    Raises:
        TestTransientError: its duration is shorter than asked for, or its value is beyond the carrier's limit.
    """
    seconds = reading.seconds or ended.seconds
    if seconds < validity.seconds * SHORTEST_SHARE:
        raise refusal(
            f"`{ended.command}` on the {ended.host}",
            f"it ran for {seconds:.3g} of the {validity.seconds:g} s that it was asked for, so its numbers are of a "
            f"part: something ended it early ({_own_error(ended.output)!r})",
        )
    highest = validity.highest.get(reading.metric, 0.0)
    if highest and reading.value - min(reading.quantum, reading.value) / 2 > highest * HIGHEST_SHARE:
        metric = find(reading.metric)
        unit = metric.unit if metric else ""  # of another package's section
        raise refusal(
            f"`{ended.command}` on the {ended.host}",
            f"{reading.metric} is {reading.value:.6g} {unit}, and {validity.carrier} carries at most {highest:.6g} "
            f"{unit}: a counter or a clock of the program is wrong, or its output is damaged. Another program or "
            "version may count right",
        )


def _failure(ended: _Ended) -> BoardTransientError | LabTransientError:
    kind, failure = (
        (LabTransientError, "tester_command_failed")
        if ended.host == "tester"
        else (BoardTransientError, "command_failed")
    )
    return kind(
        f"`{ended.command}` failed on the {ended.host} with status {ended.status}: {_own_error(ended.output)!r}. Its "
        "output is in the attempt's log",
        failure=failure,
    )


def _own_error(output: bytes) -> str:
    """The line in which a program names its error; its last line if none does."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1] if lines else "")
