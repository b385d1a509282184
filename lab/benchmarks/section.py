"""A benchmark: a section of a guide's chapter, as data and function.

A section is data and one function. The function prepares the board and yields rows, which can be measured, and can
fail, independently. A row runs commands on a `Bench` and gives readings; pure functions parse output from bytes to
readings, so that recorded output can be parsed again years later.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from functools import wraps
from typing import Final, Literal, Protocol, TypeAlias

from attrs import Factory, field, frozen

from lab.benchmarks.lab_site import LabSite
from lab.boards import BoardType
from lab.metrics import Flag, Metric, by_name

DEFAULT_REPEATS: Final = 3  # the fewest of which a spread is more than one difference
PromptKind: TypeAlias = Literal["linux", "uboot"]


@frozen
class ParsedReading:
    """A number parsed from an output.

    Attributes:
        metric: its name in `lab.metrics`.
        value: in the metric's unit.
        params: distinguish it from the metric's other numbers.
        quantum: the smallest step between two values of this program here, in the metric's unit; half of it is the
            sample's uncertainty. 0: the metric's resolution suffices.
        start, end: its bytes in the output.
        flags: doubts about it.
        seconds: duration of the measurement as the program printed it; 0: not printed.
    """

    metric: str
    value: float
    params: Mapping[str, str] = field(factory=dict)
    quantum: float = 0.0
    start: int = 0
    end: int = 0
    flags: frozenset[Flag] = frozenset()
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The key among readings of the same output."""
        return self.metric, tuple(sorted(self.params.items()))


Parser: TypeAlias = Callable[[bytes], "list[ParsedReading]"]


@frozen
class Marks:
    """The begin and end of a span: patterns searched in output lines.

    Attributes:
        begin, end: the span is from the arrival of the last byte of one to that of the other.
    """

    begin: str
    end: str


@frozen
class OutputSpan:
    """The time between two texts of output, by the console's stamps.

    Attributes:
        seconds: from the arrival of the last byte of the first to that of the second.
        uncertainty_s: bound of the error of `seconds`, as an interval between two moments has it.
        line_s: duration of the first text's line on the wire. A board continues while its UART still sends, so its
            work behind the text began up to so much earlier.
        between_s: duration on the wire of all bytes from the first text to the second's last byte: a board that waits
            for its UART was not at work meanwhile.
    """

    seconds: float
    uncertainty_s: float
    line_s: float
    between_s: float = 0.0


SpanParser: TypeAlias = Callable[[bytes, OutputSpan], "list[ParsedReading]"]


@frozen
class HarmlessStatus:
    """Exit statuses other than 0 with which a program's numbers are valid.

    Attributes:
        statuses: those.
        reason: why the numbers are valid.
        output: regular expression that the output has then; empty: any output.
    """

    statuses: Container[int]
    reason: str
    output: str = ""


@frozen
class Validity:
    """The conditions under which the numbers of a command are valid.

    `lab.run.session` checks them for all sections.

    Attributes:
        seconds: the duration that the command asks for; 0: it asks for none.
        highest: metric -> the most that the carrier can do, in the metric's unit; 0: unknown.
        carrier: the link or medium behind `highest`, for messages.
        harmless: exit statuses other than 0 with which the numbers are valid.
    """

    seconds: float = 0.0
    highest: Mapping[str, float] = Factory(dict)
    carrier: str = ""
    harmless: tuple[HarmlessStatus, ...] = ()


ALWAYS: Final = Validity()  # of a command that ends by itself, and whose status counts


class Bench(Protocol):
    """A board's prompt and its tester; all commands are recorded."""

    @property
    def board(self) -> BoardType:
        """The board's type."""
        ...

    @property
    def site(self) -> LabSite:
        """The lab around the board, from the environment."""
        ...

    def run(self, command: str, *, timeout_s: float = 30.0, check: bool = True) -> bytes:
        """Run a command on the board; its output, whole lines.

        Raises:
            BoardTransientError: it failed (unless `check` is off) or did not end in time.
        """
        ...

    def status(self, command: str, *, timeout_s: float = 30.0) -> int:
        """Run a command on the board; its exit status."""
        ...

    def tester(self, command: str, *, timeout_s: float = 30.0, check: bool = True) -> bytes:
        """Run a command on the tester.

        Raises:
            LabTransientError: it failed or did not end in time.
            ConfigurationError: the environment has no tester.
        """
        ...

    def read(
        self,
        parser: Parser,
        command: str,
        *,
        timeout_s: float = 30.0,
        on_tester: bool = False,
        validity: Validity = ALWAYS,
    ) -> list[ParsedReading]:
        """Run a command and parse its output; readings know their bytes.

        A command that failed has no numbers.

        Raises:
            BoardTransientError: the command failed on the board.
            LabTransientError: it failed on the tester.
            TestTransientError: the output lacks expected numbers, is of a shorter run than asked for, or has a number
                that the carrier cannot reach.
        """
        ...

    def timed(
        self,
        parser: SpanParser,
        command: str,
        marks: Marks,
        *,
        timeout_s: float = 30.0,
        validity: Validity = ALWAYS,
    ) -> list[ParsedReading]:
        """Run a command and parse its output with the marks' span.

        Raises:
            BoardTransientError: the command failed.
            TestTransientError: a text did not come, or as of `read`.
            LabTransientError: the stamps of the span are unreliable.
            ConfigurationError: the board's console gives no stamps.
        """
        ...


@frozen
class Need:
    """Something that must hold before a section is measured.

    Attributes:
        name: of the preflight, as a skipped section shows it, e.g. "tool openssl".
        check: returns fault and remedy; empty: it holds.
    """

    name: str
    check: Callable[[Bench], str]


@frozen
class Row:
    """A section's measurement at one parameter; rows fail independently.

    Attributes:
        measure: runs it; may be called in each of the section's cycles, but only while the section's function waits at
            it.
        params: identify the row, e.g. {"rate_hz": "8000"}: unique within the section, and the same in each cycle.
            Empty: the section has no other row.
    """

    measure: Callable[[], Iterable[ParsedReading]]
    params: Mapping[str, str] = field(factory=dict)


Rows: TypeAlias = Generator[Row, None, None]  # a consumer that stops before its end closes it


def whole(measure: Callable[[Bench], Iterator[ParsedReading]]) -> Callable[[Bench], Rows]:
    """The rows of a section with only one."""

    @wraps(measure)
    def rows(bench: Bench) -> Rows:
        yield Row(lambda: measure(bench))

    return rows


def _nothing(_bench: Bench) -> None: ...


@frozen
class Section:
    """A benchmark.

    Attributes:
        name: unique, e.g. "lmbench".
        title: for people.
        chapter: the heading of its chapter in the guides.
        metrics: the names of all its possible metrics.
        params: common to all its numbers.
        rows: prepares the board and yields the rows in turn; code behind a row also runs after its
            failure. `whole` makes one of a function that measures all at once.
        needs: in the order of their checks.
        where: its prompt.
        overwrites: the scratch medium of the site that it destroys; empty: none.
        restore: undoes changes of `measure`, also after a failure.
        fits: True if a board type has the measured part.
        duration_s: estimate for one cycle, until there is a history.
        command: the vendor's command.
        once: reason for one cycle by default; empty: DEFAULT_REPEATS cycles.
        declares: the metrics that boardlab's catalogue lacks, of a section of another package.
    """

    name: str
    title: str
    chapter: str
    metrics: tuple[str, ...]
    rows: Callable[[Bench], Rows]
    command: str
    needs: tuple[Need, ...] = ()
    where: PromptKind = "linux"
    overwrites: str = ""
    restore: Callable[[Bench], None] = _nothing
    fits: Callable[[BoardType], bool] = lambda _board: True
    duration_s: float = 30.0
    params: Mapping[str, str] = Factory(dict)
    once: str = ""
    declares: tuple[Metric, ...] = ()

    def metric(self, name: str) -> Metric:
        """A metric of its own, or of the catalogue.

        Raises:
            TestStableError: there is none.
        """
        return next((metric for metric in self.declares if metric.name == name), None) or by_name(name)

    @property
    def repeats(self) -> int:
        """The default number of its cycles in a run."""
        return 1 if self.once else DEFAULT_REPEATS

    def measure(self, bench: Bench) -> Iterator[ParsedReading]:
        """All rows once, as they come; the first that fails ends it."""
        for row in self.rows(bench):
            yield from row.measure()


@frozen
class Preflight:
    """The results of a section's checks.

    Attributes:
        failed: name of the need -> fault and remedy; empty: all hold.
    """

    failed: Mapping[str, str] = Factory(dict)


def preflight(section: Section, bench: Bench) -> Preflight:
    """Check a section's needs in order, up to the first failure."""
    for need in section.needs:
        problem = need.check(bench)
        if problem:
            return Preflight({need.name: problem})
    return Preflight()


def has_link(*names: str) -> Callable[[BoardType], bool]:
    """Boards with one of these links."""
    return lambda board: any(link.name in names for link in board.links)


def has_feature(name: str) -> Callable[[BoardType], bool]:
    """Boards with this feature of lab.boards.FEATURES."""
    return lambda board: name in board.features


def has_medium(medium: str) -> Callable[[BoardType], bool]:
    """Boards with this medium."""
    return lambda board: medium in board.media


def link_mbit_s(board: BoardType, interface: str) -> float:
    """The line rate of an interface; 0: unknown, or of a virtual board, whose links have none."""
    if board.virtual:
        return 0.0
    return next((link.mbit_s for link in board.links if link.name == interface), 0.0)


def bus_validity(bench: Bench, medium: str, factors: Mapping[str, float], seconds: float = 0.0) -> Validity:
    """The validity of numbers that came over a medium's bus.

    Args:
        factors: metric -> its unit's value of 1 MB/s.
    """
    mb_s = bench.board.media[medium].mb_s if medium in bench.board.media else 0.0
    highest = {metric: factor * mb_s for metric, factor in factors.items()}
    return Validity(seconds, highest, f"the bus of {medium}")
