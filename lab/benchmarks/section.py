"""What a benchmark is: a section of a guide's chapter, what it needs, what it runs, and what its output says.

A section is data and one function. The function prepares the board and yields rows: what can be measured, and can fail,
without the others. A row runs commands on a `Bench` and gives readings; the reading of an output is left to pure
functions from bytes to readings, so that recorded output can be read again years later.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import wraps
from typing import Final, Literal, Protocol, TypeAlias

from attrs import Factory, field, frozen

from lab.benchmarks.site import LabSite
from lab.boards import BoardType
from lab.metrics import Flag

DEFAULT_REPEATS: Final = 3  # the fewest of which a spread is more than one difference
PromptKind: TypeAlias = Literal["linux", "uboot"]


@frozen
class ParsedReading:
    """One number that an output says.

    Attributes:
        metric: its name in `lab.metrics`.
        value: in the metric's unit.
        params: what distinguishes it from the metric's other numbers.
        quantum: the smallest step between two values of this program here, in the metric's unit; half of it is the
            sample's uncertainty. 0 where the metric's resolution says it all.
        start, end: the bytes of the output that it was read from.
        flags: what is doubtful about it.
    """

    metric: str
    value: float
    params: Mapping[str, str] = field(factory=dict)
    quantum: float = 0.0
    start: int = 0
    end: int = 0
    flags: frozenset[Flag] = frozenset()

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What tells it from other readings of the same output."""
        return self.metric, tuple(sorted(self.params.items()))


Parser: TypeAlias = Callable[[bytes], "list[ParsedReading]"]


@frozen
class Marks:
    """Where a span begins and ends in what the board prints: regular expressions, each searched in a line.

    Attributes:
        begin, end: the span is from the arrival of the last byte of one to that of the other.
    """

    begin: str
    end: str


@frozen
class OutputSpan:
    """How long the board took from one text to another, by the console's stamps.

    Attributes:
        seconds: from the arrival of the last byte of the first to that of the second.
        uncertainty_s: bound of the error of `seconds`, as an interval between two moments has it.
        line_s: how long the first text's line was on the wire. A board goes on while its UART still sends, so what it did behind
            the text began up to so much earlier.
        between_s: how long all that came behind the first text, as far as the second's last byte, was on the wire: a board that waits
            for its UART was not at work meanwhile.
    """

    seconds: float
    uncertainty_s: float
    line_s: float
    between_s: float = 0.0


SpanParser: TypeAlias = Callable[[bytes, OutputSpan], "list[ParsedReading]"]


class Bench(Protocol):
    """A board at its prompt, and the PC at the other end of its links. Everything that is run is kept."""

    @property
    def board(self) -> BoardType:
        """What kind of board it is."""
        ...

    @property
    def site(self) -> LabSite:
        """What the environment says about the lab around it."""
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
        check: bool = False,
    ) -> list[ParsedReading]:
        """Run a command and read its output; the readings know their bytes in what is kept.

        Args:
            check: what a command says that fails is no number. Off for programs whose exit status means nothing.

        Raises:
            TestTransientError: the output does not say what it should.
            BoardTransientError: nor does it, and the command failed on the board; or it failed, and `check` is on.
            LabTransientError: it failed on the tester, and `check` is on.
        """
        ...

    def timed(self, parser: SpanParser, command: str, marks: Marks, *, timeout_s: float = 30.0) -> list[ParsedReading]:
        """Run a command at the console, and read its output with the span between two texts of it.

        Raises:
            TestTransientError: a text did not come, or the output does not say what it should.
            BoardTransientError: nor does it, and the command failed.
            LabTransientError: the stamps of the span are not to be trusted.
            ConfigurationError: the board's console gives no stamps.
        """
        ...


@frozen
class Need:
    """Something that must hold before a section is measured.

    Attributes:
        name: of the preflight, as a skipped section shows it, e.g. "tool openssl".
        check: what is wrong and how to mend it; empty where it holds.
    """

    name: str
    check: Callable[[Bench], str]


@frozen
class Row:
    """What a section measures at one of its parameters, e.g. at one sampling rate: it can fail without the others.

    Attributes:
        measure: runs it; may be called in each of the section's cycles, but only while the section's function waits at it.
        params: which row it is, e.g. {"rate_hz": "8000"}: unique within the section, and the same in each cycle. Empty:
            the section has no other row.
    """

    measure: Callable[[], Iterable[ParsedReading]]
    params: Mapping[str, str] = field(factory=dict)


Rows: TypeAlias = Generator[Row, None, None]  # closed by whoever stops before its end


def whole(measure: Callable[[Bench], Iterator[ParsedReading]]) -> Callable[[Bench], Rows]:
    """The rows of a section that has but one."""

    @wraps(measure)
    def rows(bench: Bench) -> Rows:
        yield Row(lambda: measure(bench))

    return rows


def _always(_board: BoardType) -> bool:
    return True


def _nothing(_bench: Bench) -> None: ...


@frozen
class Section:
    """A benchmark.

    Attributes:
        name: unique, e.g. "lmbench". title: for people.
        chapter: the heading of the guides' chapter that it belongs to.
        metrics: the names of all that it can read. params: those that all its numbers have.
        rows: prepares the board and yields the rows, each when its turn has come; what it does behind a row is done
            whether the row went well or not. `whole` makes one of a function that measures all at once.
        needs: in the order in which they are checked.
        where: the prompt that it runs at.
        overwrites: the scratch medium of the site that it destroys; empty for a section that leaves everything as it was.
        restore: puts back what `measure` changed, whether it ended well or not.
        fits: whether a board type has what is measured.
        duration_s: about how long one cycle takes, until there is a history.
        command: the vendor's command.
        once: why a run measures it once, unless somebody says otherwise; empty: DEFAULT_REPEATS times.
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
    fits: Callable[[BoardType], bool] = _always
    duration_s: float = 30.0
    params: Mapping[str, str] = Factory(dict)
    once: str = ""

    @property
    def repeats(self) -> int:
        """How many cycles of it a run measures, unless somebody says otherwise."""
        return 1 if self.once else DEFAULT_REPEATS

    def measure(self, bench: Bench) -> Iterator[ParsedReading]:
        """All rows once, as they come; the first that fails ends it."""
        for row in self.rows(bench):
            yield from row.measure()


@frozen
class Preflight:
    """What the checks of a section found.

    Attributes:
        failed: name of the need -> what is wrong and how to mend it; empty where all hold.
    """

    failed: Mapping[str, str] = Factory(dict)


def preflight(section: Section, bench: Bench) -> Preflight:
    """Check the needs of a section until one does not hold; those behind it may depend on it."""
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


def named(sections: Iterable[Section]) -> dict[str, Section]:
    """Sections by name."""
    return {section.name: section for section in sections}
