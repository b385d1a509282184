"""Parsing of console output: kernel lines, carriage returns, lost ends.

A parser takes every line that its rules match. It never invents a number: a missing number is an error that shows the
first unmatched line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import evolve, field, frozen

from lab.benchmarks.section import ParsedReading
from lab.errors import TestTransientError

FAILURE = "unreadable_output"
_STATUS = b"# status "  # begins the line between a command of a transcript and its output
_COMMAND = re.compile(r"(board|tester)\$ (.+)")
_KERNEL_LINE = re.compile(
    rb"(?:<\d+>)?\[ *\d+\.\d{6}(?:@\d+)?\](?:\[ *[TC]\d+\])? .*"
)  # a caller: CONFIG_PRINTK_CALLER
# dd's last line, of coreutils or BusyBox: bytes, seconds
DD_SUMMARY = r"^(\d+) bytes (?:\([^)]*\) )?copied, (\d+(?:\.\d+)?(?:e-\d+)?) s(?:econds)?, "
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def transcript_head(host: str, command: str) -> bytes:
    """A transcript's line of a command on the board or the tester."""
    return f"{host}$ {command}\n".encode()


def transcript_status(status: int, seconds: float) -> bytes:
    """The line of a transcript before a command's output."""
    return _STATUS + f"{status}, {seconds:.1f} s as the lab host saw it\n".encode()


def command_at(transcript: bytes, position: int) -> str:
    """The command whose output is at a position; empty: that is not sure."""
    before, status, _ = transcript[:position].rpartition(b"\n" + _STATUS)
    match = _COMMAND.fullmatch(before.rpartition(b"\n")[2].decode("utf-8", "replace")) if status else None
    if match is None:
        return ""
    return match[2] if match[1] == "board" else f"{match[1]}: {match[2]}"


@frozen
class OutputLine:
    """A whole line of output, without its end and kernel messages.

    Attributes:
        start, end: its bytes in the output.
    """

    text: str
    start: int
    end: int


@frozen
class LineRule:
    """The meaning of a line.

    Attributes:
        pattern: searched in a line.
        make: readings of a match; empty: the line is known and has none.
    """

    pattern: re.Pattern[str]
    make: Callable[[re.Match[str]], Iterable[ParsedReading]]


def lines(output: bytes) -> list[OutputLine]:
    """The whole lines, without an unfinished last one.

    A kernel line that came in the middle of another one is taken out, and the two halves are one line again.
    """
    whole_lines = []
    text, start, at = b"", 0, 0
    while (newline := output.find(b"\n", at)) >= 0:
        part = output[at:newline]
        start = start if text else at
        kernel = _KERNEL_LINE.search(part)
        if kernel:
            text += part[: kernel.start()]
        else:
            whole = _ESCAPES.sub("", (text + part).decode("utf-8", "replace").replace("\r", ""))
            whole_lines.append(OutputLine(whole, start, newline + 1))
            text = b""
        at = newline + 1
    return whole_lines


def printed_step(text: str) -> float:
    """The step of a printed number's last digit: 0.01 of "3.14"."""
    return 10.0 ** -len(text.partition(".")[2])


def cut_time(value: float, seconds: float, step_s: float) -> float:
    """The quantum of a rate whose time was truncated.

    Such a time is wrong by up to a step, and not by half of one.
    """
    return 2 * value * step_s / seconds


@frozen
class PrintedNumber:
    """For a rule: the number of a line.

    The pattern's group `value`, or its first, is the number; a group `seconds` is the time that it took; each other
    named group is a parameter.

    Attributes:
        params: beside those that the line has.
        by_digits: it is precise to its last digit; else to the metric's resolution.
        work: done in a time that was cut to whole seconds, in the metric's unit times a second; 0: no such time.
        spelling: a parameter as printed -> as the metric has it.
    """

    metric: str
    params: Mapping[str, str] = field(factory=dict)
    by_digits: bool = True
    work: float = 0.0
    spelling: Callable[[str], str] = str.lower

    def __call__(self, match: re.Match[str]) -> list[ParsedReading]:
        groups = match.groupdict()
        text, seconds = groups.pop("value", match[1]), float(groups.pop("seconds", 0.0))
        value, quantum = float(text), printed_step(text) if self.by_digits else 0.0
        if self.work:
            if not value:
                return []
            quantum = cut_time(value, self.work / value, 1)
        params = {name: self.spelling(printed) for name, printed in groups.items()}
        return [ParsedReading(self.metric, value, {**params, **self.params}, quantum=quantum, seconds=seconds)]


def ignore(_match: re.Match[str]) -> list[ParsedReading]:
    """For a rule: a known line without readings."""
    return []


def rule(pattern: str, make: Callable[[re.Match[str]], Iterable[ParsedReading]] = ignore) -> LineRule:
    """A rule from the text of its pattern."""
    return LineRule(re.compile(pattern), make)


def read(output: bytes, program: str, rules: Sequence[LineRule], *, expected: int = 1) -> list[ParsedReading]:
    """All readings of an output.

    Args:
        program: of the output, for the message.
        expected: minimum number of readings of a complete output.

    Raises:
        TestTransientError: fewer readings than that, or two that contradict each other.
    """
    readings: dict[object, ParsedReading] = {}
    unknown: OutputLine | None = None
    for line in lines(output):
        matched = next(((r, m) for r in rules if (m := r.pattern.search(line.text))), None)
        if matched is None:
            unknown = unknown or (line if line.text.strip() else None)
            continue
        used, match = matched
        for reading in used.make(match):
            earlier = readings.setdefault(reading.key, evolve(reading, start=line.start, end=line.end))
            if earlier.value != reading.value:
                params = ", ".join(f"{name} {value}" for name, value in reading.params.items())
                metric = f"{reading.metric} ({params})" if params else reading.metric
                raise TestTransientError(
                    f"{program} says {metric} twice, {earlier.value:g} and {reading.value:g}: its output is "
                    "damaged, or two programs wrote at once. Measure once more",
                    failure=FAILURE,
                )
    if len(readings) < expected:
        raise missing(
            program, f"{expected} numbers, found {len(readings)}", unknown.text if unknown else first_line(output)
        )
    return list(readings.values())


@frozen
class OutputFormat:
    """A parser as data, of a program with one number in a line.

    Attributes:
        program: for messages, with parameters in braces.
        numbers: pattern of a line -> the number in it.
        other: pattern of the known lines without a number; empty: there are none.
        expected: the fewest numbers of a complete output.
    """

    program: str
    numbers: Mapping[str, PrintedNumber]
    other: str = ""
    expected: int = 1

    def __call__(self, output: bytes, /, **params: str) -> list[ParsedReading]:
        """The numbers, with these parameters beside those of their lines.

        Raises:
            TestTransientError: as of `read`.
        """
        rules = [
            *(rule(pattern, evolve(number, params=params)) for pattern, number in self.numbers.items()),
            *([rule(self.other)] if self.other else []),
        ]
        return read(output, self.program.format_map(params), rules, expected=self.expected)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of its numbers."""
        return tuple(number.metric for number in self.numbers.values())


def refusal(program: str, why: str) -> TestTransientError:
    """The error of an output with invalid numbers."""
    return TestTransientError(f"{program}: {why}. Look at the kept output", failure=FAILURE)


def missing(program: str, wanted: str, line: str) -> TestTransientError:
    """The error of an output without an expected part."""
    finding = (
        f"the first line that is not understood is {line.strip()!r}" if line.strip() else "there is no whole line"
    )
    return TestTransientError(
        f"{program}: expected {wanted}; {finding}. Look at the kept output: the program may have failed, or its "
        "version writes another format",
        failure=FAILURE,
    )


def first_line(output: bytes) -> str:
    """The first line that is not blank; empty: none."""
    return next((line for line in output.decode("utf-8", "replace").splitlines() if line.strip()), "")


_UNPRINTED = bytes(set(range(0x80)) - set(range(0x20, 0x7F)) - set(b"\b\t\n\f\r\x1b"))  # of ASCII, by no console
_NO_TEXT = bytes(set(range(0x20)) - set(b"\0\a\b\t\n\v\f\r\x1b"))  # a UART that is switched on sends a NUL
_STAMPED_LINE = re.compile(r"(?:<\d+>)?\[ *\d+\.\d{6}(?:@\d+)?\](?:\[ *[TC]\d+\])? [^\n]*\n")


def garbage(data: bytes) -> float:
    """The share of bytes that no console prints; valid UTF-8 is text."""
    text = data.decode("utf-8", errors="ignore").encode()  # what is left out is no character
    return (len(data) - len(text.translate(None, _UNPRINTED))) / len(data) if data else 0.0


def unreadable(line: bytes) -> int:
    """Count the bytes of a line that are neither printable nor UTF-8."""
    text = line.decode("utf-8", errors="ignore").encode()  # what is left out is no character
    return len(line) - len(text.translate(None, _NO_TEXT))


def last_line(data: bytes, *, before: int = 0) -> str:
    """The last non-empty line, or one some lines `before` it."""
    lines = [part for part in data.decode("latin-1").splitlines() if part.strip()]
    return lines[-1 - before].strip() if len(lines) > before else ""


def in_pieces(data: bytes, patterns: Iterable[str], *, anywhere: bool) -> bool:
    """True if a pattern matches the last line, or any that kernel lines cut, without these."""
    text = data.decode("latin-1")
    lines, whole = _STAMPED_LINE.sub("", text).split("\n"), text.split("\n")
    pieces = [line for line in lines if line not in whole] if anywhere else lines[-1:]
    return any(re.search(pattern, line) for pattern in patterns for line in pieces)


# In percent. mpstat rounds each of some ten columns, and does not read all times of the processor at once.
ROUNDED = 1.0


@frozen
class CpuLoad:
    """A load over all cores, with its line's position."""

    percent: float
    start: int
    end: int


def parse_mpstat(output: bytes) -> CpuLoad:
    """The load by mpstat: 100 - %iowait - %idle of its line `Average: all`.

    The columns are found by name. The vendor takes columns 6 and 11, which are %iowait and %idle in BusyBox only: with
    sysstat from 10.1.2 on column 11 is %gnice, and the load comes out near 100 %.

    Raises:
        TestTransientError: the line or its columns are missing, or they are no percentages of one whole.
    """
    names: list[str] = []
    for line in lines(output):
        columns = line.text.split()
        if "CPU" in columns[:3] and "%idle" in columns:
            names = columns[columns.index("CPU") :]
        if columns[:2] == ["Average:", "all"] and len(columns) - 1 == len(names):
            values = dict(zip(names[1:], columns[2:], strict=True))
            try:
                whole = sum(map(float, values.values()))
                load = 100 - float(values["%iowait"]) - float(values["%idle"])
            except (KeyError, ValueError) as error:
                raise missing("mpstat", "the columns %iowait and %idle", line.text) from error
            if not math.isclose(whole, 100, abs_tol=ROUNDED):
                raise refusal("mpstat", f"its columns add up to {whole:g} %, not to 100 ({line.text!r})")
            return CpuLoad(max(0.0, load), line.start, line.end)
    raise missing("mpstat", "a header with %idle and a line `Average: all`", first_line(output))
