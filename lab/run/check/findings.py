"""Findings in a bare log: moments, flow, media, failures."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Final

from attrs import evolve, field, frozen

from lab.benchmarks.boot import ENDS, MomentLike, PowerEdge
from lab.benchmarks.boot.evidence import BootEvidence
from lab.benchmarks.boot.flows import RuledOut, check_foreign, in_order
from lab.benchmarks.output import garbage
from lab.boards import NORMAL, BoardType, MomentPattern, Sign, way_of
from lab.console.model import Chunk, LineTiming
from lab.console.moments import MomentFinder
from lab.errors import BoardlabError, ConfigurationError
from lab.host.clock import NS_PER_S
from lab.metrics import Flag, Moment
from lab.run.rewatch import PromptReply, Rewatched, rewatch

# --- Possible flows of a log ---


@frozen
class FlowCandidate:
    """A flow.

    Attributes:
        why_not: evidence against it in the log; empty: none.
        before, behind: required moments that a log with a late begin, or an early end, lacks.
    """

    why_not: str
    before: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()


def candidates(
    board: BoardType, moments: Sequence[MomentLike], end: int, ruled_out: Mapping[str, int]
) -> dict[str, FlowCandidate]:
    """Every flow of the board type, the usual one first.

    Args:
        end: of the log, in bytes.
        ruled_out: impossible flows, with the lines that show it.
    """
    return {
        name: FlowCandidate(f"line {ruled_out[name]} is of another flow")
        if name in ruled_out
        else _candidate(board, name, moments, end)
        for name in (NORMAL, *board.flows)
    }


def _candidate(board: BoardType, name: str, moments: Sequence[MomentLike], end: int) -> FlowCandidate:
    patterns = board.flow(name)
    came = {moment.name for moment in moments}
    found = [number for number, pattern in enumerate(patterns) if pattern.name in came]
    if not found:
        return FlowCandidate("none of its moments is there")
    first, last = found[0], found[-1]
    behind = tuple(p.name for p in patterns[last + 1 :] if p.required)
    middle = [p for p in patterns[first : last + 1] if p.name not in ENDS]
    before = tuple(p.name for p in patterns[:first] if p.required)
    prompt = next((moment for moment in reversed(moments) if moment.name in ENDS), None)
    ending = [p for p in patterns if p.name in ENDS]
    if prompt is None:
        prompt = Moment(ending[0].name if ending else ENDS[0], max(m.t_ns for m in moments), 0, end, "")
    try:
        if name != NORMAL:
            check_foreign(name, patterns, moments, prompt)
        in_order(board.name, [*middle, *ending], moments, prompt)
    except BoardlabError as error:
        missing = ", ".join(pattern.name for pattern in middle if pattern.required and pattern.name not in came)
        why_not = f"not found: {missing}" if error.failure == "moment_missing" and missing else str(error)
        return FlowCandidate(why_not, before, behind)
    return FlowCandidate("", before, behind)


# --- A bare log without stamps ---


MAX_BYTES: Final = 5_000_000  # a boot prints some 50 kB
GARBAGE_SHARE: Final = 0.3  # of bytes that no console prints, as in a live boot
NUL_SHARE: Final = 0.01  # a UART that is switched on sends one
LINE_NS: Final = 20_000_000  # from a line to the next, made up
LONGEST_NS: Final = 20 * NS_PER_S  # between two lines; a board that is silent for longer counts as hung
FIRST_NS: Final = NS_PER_S  # from power on to the first line
PREFIX_SHARE: Final = 0.9  # of the lines, that begin with a time where a program has put one before each
TYPED_CHARACTERS: Final = 80
AUTOMATIC: Final = "(automatic login)"  # of agetty, behind the user's name: nobody typed it

# A time that a terminal program puts before each line: of day, of the epoch, or of the log in seconds. The kernel's
# own is not among them. What stands before it, e.g. a date or a level, and a port's name behind it look the same on
# each line.
_TIMES = (
    rb"\d{1,2}[:.]\d\d[:.]\d\d(?:[.,:]\d+)?(?: ?[AaPp][Mm])?(?:Z| ?[+-]\d\d:?\d\d| (?:19|20)\d\d)?",
    rb"\d{9,13}(?:[.,]\d+)?",
    rb"\d+\.\d{6} \d+\.\d{6}",
    rb"\d+[.,](?:\d{1,5}|\d{7,9}) ?s?",
)
_PREFIXES = tuple(
    re.compile(rb"(?P<lead>[^\n]{0,32}?)" + time + rb" {0,2}[])}>|:;,-]{0,2}" + port + rb"(?: |\t|\r?$)")
    for time in _TIMES
    for port in (rb"(?P<port> [\w./-]{1,32}[:>|])", rb"(?P<port>)")
)
_NO_DIGITS = re.compile(rb"[\d ]+")
PADDED_SHARE: Final = 0.5  # of the lines, that blanks fill up to one width
_KERNEL_TIME = re.compile(rb"[\r ]*(?:<\d+>)?\[ *(\d{1,6})\.(\d{6})\]")
UNSEEN = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\^_78=>])|[\x00\x07\r]")


@frozen
class BareLog:
    """The text of a log, as for a live boot.

    Attributes:
        where: the file.
        lines: with line ends.
        notes: changes of the text, for people.
    """

    where: str
    lines: tuple[bytes, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(line) for line in self.lines))

    def line_at(self, position: int) -> int:
        """The line number, from 1, of the byte before this position."""
        return bisect_left(self._ends, position) + 1

    def text(self, number: int) -> str:
        """The line of that number."""
        return self.lines[number - 1].decode("latin-1").strip()

    def events(self, timing: LineTiming) -> list[Chunk]:
        """The lines with made-up stamps, at least as fast as kernel times."""
        found: list[Chunk] = []
        t_ns, position = FIRST_NS, 0
        kernel_began_ns: int | None = None
        for line in self.lines:
            earliest_ns = t_ns + LINE_NS + timing.bytes_ns(len(line))
            stamp = _KERNEL_TIME.match(line)
            if stamp is not None:
                kernel_ns = int(stamp[1]) * NS_PER_S + int(stamp[2]) * 1000
                if kernel_began_ns is None:
                    kernel_began_ns = earliest_ns - kernel_ns
                earliest_ns = max(earliest_ns, min(kernel_began_ns + kernel_ns, t_ns + LONGEST_NS))
            t_ns = earliest_ns
            found.append(Chunk(t_ns, position, line))
            position += len(line)
        return found


def read(path: Path, board: BoardType) -> BareLog:
    """The log in a file.

    Raises:
        ConfigurationError: it cannot be read, is empty, too large, or no text.
    """
    return _as_a_boot_prints(str(path), _lines(path), board)


def bare_lines(path: Path) -> Sequence[bytes]:
    """The lines of a log, without what a program put before or behind each.

    Raises:
        ConfigurationError: as of `read`.
    """
    lines: Sequence[bytes] = _lines(path)
    return _without_margins(_without_prefixes(lines) or lines)[0]


def _lines(path: Path) -> list[bytes]:
    data = _content(path)
    if not data.strip():
        raise ConfigurationError(f"{path}: empty; a log of a console is needed")
    if data.count(0) > NUL_SHARE * len(data) or garbage(data) > GARBAGE_SHARE:
        raise ConfigurationError(
            f"{path}: no text: a log of a console is needed, unpacked, in UTF-8 or ASCII. If it is one, the console's "
            "speed was wrong"
        )
    return data.split(b"\n")


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise ConfigurationError(f"{path}: no file")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"{path}: cannot be read: {reason}") from error
    if len(data) > MAX_BYTES:
        raise ConfigurationError(
            f"{path}: larger than {MAX_BYTES // 1_000_000} MB, and a boot prints some 50 kB: cut one boot out of it"
        )
    return data


def _as_a_boot_prints(where: str, lines: Sequence[bytes], board: BoardType) -> BareLog:
    """The lines as a boot prints them, without later changes."""
    notes = []
    shorter = _without_prefixes(lines)
    if shorter is not None:
        lines = shorter
        notes.append("each line's time was left out")
    lines, margins = _without_margins(lines)
    notes += margins
    ends = [re.compile(pattern.regex) for pattern in board.markers if pattern.name in ENDS]
    lines, restored = _with_blanks(lines, ends)
    if restored:
        notes.append(f"the blank behind the prompt was lost, and put back in line {restored[0]}")
    lines, typed = _until_typed(lines, ends)
    if typed:
        notes.append(f"read as far as the prompt in line {typed}, which has typed input")
    while len(lines) > 1 and not lines[-1].strip():
        lines = lines[:-1]
    last = lines[-1].rstrip(b"\r")  # the program that keeps a log ends its last line, not the board
    text = last.decode("latin-1")
    waits = any(end.search(text) for end in ends) or re.match(board.prompts.uboot, text) is not None
    return BareLog(where, (*(line + b"\n" for line in lines[:-1]), last if waits else lines[-1] + b"\n"), tuple(notes))


def _without_prefixes(lines: Sequence[bytes]) -> list[bytes] | None:
    """The lines without a program's time prefixes; None: no prefixes."""
    full = [line for line in lines if line.strip()]
    for prefix in _PREFIXES:
        shapes = Counter(_shape(match) for line in full if (match := prefix.match(line)))
        usual, count = max(shapes.items(), key=lambda found: found[1], default=(None, 0))
        if count >= PREFIX_SHARE * len(full):
            matches = [prefix.match(line) for line in lines]
            return [
                line[match.end() :] if match and _shape(match) == usual else line
                for line, match in zip(lines, matches, strict=True)
            ]
    return None


def _shape(match: re.Match[bytes]) -> tuple[bytes, bytes]:
    """The parts of a prefix that all lines have."""
    return _NO_DIGITS.sub(b"0", match["lead"]), match["port"]


def _without_margins(lines: Sequence[bytes]) -> tuple[Sequence[bytes], list[str]]:
    """The lines without an indent that all have, and without blanks that fill them up; and notes on it."""
    notes = []
    full = [line.rstrip(b"\r") for line in lines if line.strip()]
    indent = min((len(line) - len(line.lstrip(b" \t")) for line in full), default=0)
    if indent:
        lines = [line[indent:] if line.strip() else b"" for line in lines]
        notes.append(f"all lines are indented; {indent} characters of each were left out")
    widths = Counter(len(line) for line in full if line.endswith(b"  "))
    if widths and max(widths.values()) >= PADDED_SHARE * len(full):
        lines = [line.rstrip(b" \r") for line in lines]
        notes.append("the blanks that fill up the lines were left out")
    return lines, notes


def _with_blanks(lines: Sequence[bytes], ends: Sequence[re.Pattern[str]]) -> tuple[list[bytes], list[int]]:
    """The lines with prompts' trailing blanks restored, and their numbers."""
    found, restored = [], []
    for number, line in enumerate(lines, start=1):
        text = line.rstrip(b"\r").decode("latin-1")
        if not any(end.search(text) for end in ends) and any(end.search(text + " ") for end in ends):
            found.append(line.rstrip(b"\r") + b" ")
            restored.append(number)
        else:
            found.append(line)
    return found, restored


def _until_typed(lines: Sequence[bytes], ends: Sequence[re.Pattern[str]]) -> tuple[Sequence[bytes], int]:
    """The lines up to the first typed command, and its number.

    0: nothing is typed.
    """
    for number, line in enumerate(lines, start=1):
        text = line.decode("latin-1")
        for end in ends:
            match = end.search(text)
            typed = UNSEEN.sub("", text[match.end() :]).strip() if match else ""
            if (
                match
                and typed
                and not typed.endswith(AUTOMATIC)
                and len(typed) <= TYPED_CHARACTERS
                and not _KERNEL_TIME.match(typed.encode("latin-1"))
            ):
                return [*lines[: number - 1], text[: match.end()].encode("latin-1")], number
    return lines, 0


# --- Findings ---


TAIL_LINES: Final = 30  # behind a prompt, up to which it may be the one that the board waits at
RESET: Final = "reset"
NO_LIMIT_S: Final = 1e6  # stamps are made up: no boot is too slow
# Flags that do not depend on stamps.
FLAGS: Final = (Flag.MEDIUM_UNVERIFIED, Flag.PROMPT_REPEATED, Flag.KERNEL_ERRORS, Flag.CONSOLE_OVERRUN)


@frozen
class FoundMoment:
    """A moment of the board type with its lines.

    Attributes:
        flows: the flows that it belongs to.
    """

    pattern: MomentPattern
    flows: tuple[str, ...]
    lines: tuple[int, ...]
    text: str


@frozen
class Witness:
    """A source of evidence with its line; `line` 0: none.

    Attributes:
        medium: empty: unknown to the board type.
        confirmed: the confirming line came.
    """

    source: str
    line: int = 0
    said: str = ""
    medium: str = ""
    confirmed: bool = False


@frozen
class KnownLine:
    """A line that one of the types' `failures` or `troubles` fits."""

    line: int
    text: str
    means: str


@frozen
class Findings:
    """All findings about a boot of this type in a log.

    Attributes:
        ends: the prompts with their lines.
        flows: the candidates by name.
        result: of a live run of it, on the first named medium.
    """

    log: BareLog
    board: BoardType = field(repr=False)
    moments: tuple[FoundMoment, ...]
    flows: dict[str, FlowCandidate]
    witnesses: tuple[Witness, ...]
    software: dict[str, str]
    failures: tuple[KnownLine, ...]
    troubles: tuple[KnownLine, ...]
    result: Rewatched

    @property
    def media(self) -> tuple[str, ...]:
        """The media that were named; several: a mixed boot."""
        return tuple(dict.fromkeys(w.medium for w in self.witnesses if w.confirmed and w.medium))

    @property
    def too_often(self) -> tuple[FoundMoment, ...]:
        """The moments of a restarted boot that came too often."""
        error = self.result.error
        began_anew = error is not None and error.failure == RESET
        return tuple(found for found in self.moments if began_anew and 0 < found.pattern.times < len(found.lines))

    @property
    def prompts(self) -> tuple[FoundMoment, ...]:
        """The prompts of Linux that were found."""
        return tuple(found for found in self.moments if found.pattern.name in ENDS and found.lines)

    @property
    def flow(self) -> str:
        """The boot's flow, as far as it goes; empty: none."""
        for sample in self.result.samples:
            return sample.params.get("flow", NORMAL)
        return next((name for name, candidate in self.flows.items() if not candidate.why_not), "")

    @property
    def way(self) -> str:
        """The flow's name in the type, without "quiet"."""
        return way_of(self.flow)

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of a live run's numbers."""
        return tuple(str(flag) for flag in FLAGS if any(flag in s.flags for s in self.result.samples))


def examine(log: BareLog, board: BoardType) -> Findings:
    """Read a log as a boot of this type."""
    timing = LineTiming(board.console.speed_bd)
    events = log.events(timing)
    moments, ruled_out = _moments(board, events, timing)
    witnesses, software = _witnesses(log, board)
    named = [witness.medium for witness in witnesses if witness.confirmed and witness.medium]
    medium = next(iter(named), next(iter(board.media)))
    return Findings(
        log,
        board,
        _found(board, log, moments),
        candidates(board, moments, events[-1].end, ruled_out),
        tuple(witnesses),
        software,
        tuple(_known(log, board.failures)),
        tuple(_known(log, board.troubles)),
        _live(board, medium, events, timing, moments, log),
    )


def _moments(board: BoardType, events: Sequence[Chunk], timing: LineTiming) -> tuple[list[Moment], dict[str, int]]:
    """The moments, and the impossible flows with their lines."""
    finder = MomentFinder(board.markers, timing)
    ruling = RuledOut(board)
    moments: list[Moment] = []
    ruled_out: dict[str, int] = {}
    for number, event in enumerate(events, start=1):
        for moment in finder.feed(event):
            ruling.moment(moment)
            moments.append(moment)
        ruling.whole_line(event.data.decode("latin-1"))  # its newline comes after its moments
        for name in ruling.flows:
            ruled_out.setdefault(name, number)
    return moments, ruled_out


def _found(board: BoardType, log: BareLog, moments: Sequence[MomentLike]) -> tuple[FoundMoment, ...]:
    found = []
    for pattern in board.markers:
        of_it = [moment for moment in moments if moment.name == pattern.name]
        flows = tuple(
            name for name in (NORMAL, *board.flows) if any(each.name == pattern.name for each in board.flow(name))
        )
        lines = tuple(log.line_at(moment.position) for moment in of_it)
        found.append(FoundMoment(pattern, flows, lines, of_it[0].text if of_it else ""))
    return tuple(found)


def _witnesses(log: BareLog, board: BoardType) -> tuple[list[Witness], dict[str, str]]:
    """The line of each source, and the versions of the software."""
    readers = {
        each.source: BootEvidence(evolve(board, evidence=[each]), medium="") for each in board.evidence
    }  # each hears one source, and a medium without a name is never the right one
    found = {each.source: Witness(each.source) for each in board.evidence}
    for number, raw in enumerate(log.lines, start=1):
        line = raw.decode("latin-1").removesuffix("\n")
        for each in board.evidence:
            match = re.search(each.pattern, line)
            if match and not (found[each.source].confirmed and each.confirmed_by):
                found[each.source] = Witness(each.source, number, match[1], each.media.get(match[1], ""))
            if readers[each.source].whole_line(line) is not None:
                found[each.source] = evolve(found[each.source], confirmed=True)
    software = next(iter(readers.values())).software if readers else {}
    return list(found.values()), software


def _known(log: BareLog, signs: dict[str, Sign]) -> Iterable[KnownLine]:
    for number, raw in enumerate(log.lines, start=1):
        line = raw.decode("latin-1").removesuffix("\n")
        for pattern, sign in signs.items():
            if re.search(pattern, line):
                yield KnownLine(number, line.strip(), sign.means)
                break


def _live(
    board: BoardType, medium: str, events: Sequence[Chunk], timing: LineTiming, moments: Sequence[Moment], log: BareLog
) -> Rewatched:
    """A live run's result, if the log ends at a prompt."""
    prompts = [moment for moment in moments if moment.name in ENDS]
    tail = log.lines[log.line_at(prompts[-1].position) :] if prompts else ()
    waits = prompts and len(tail) <= TAIL_LINES and all(_KERNEL_TIME.match(line) or not line.strip() for line in tail)
    answer = PromptReply(b"\r\n" + prompts[-1].text.encode(), events[-1].t_ns) if waits else None
    patient = evolve(board, timeouts=evolve(board.timeouts, boot_s=NO_LIMIT_S))
    return rewatch(events, patient, medium, PowerEdge(0, 0), timing, answer)
