"""Findings in a bare log: moments, flow, media, failures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import evolve, field, frozen

from lab.benchmarks.boot import ENDS, START, MomentLike, PowerEdge
from lab.benchmarks.boot.evidence import BootEvidence
from lab.benchmarks.boot.flows import RuledOut, check_foreign, in_order
from lab.benchmarks.boot.starts import FAKE_START
from lab.boards import NORMAL, BoardType, MomentPattern, Sign, way_of
from lab.console.model import Chunk, LineTiming
from lab.console.moments import MomentFinder
from lab.errors import BoardlabError
from lab.metrics import Flag, Moment
from lab.run.check.bare_log import _KERNEL_TIME, BareLog
from lab.run.rewatch import PromptReply, Rewatched, rewatch


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
    places = [number for number, pattern in enumerate(patterns) if pattern.name in came]
    if not places:
        return FlowCandidate("none of its moments is there")
    first, last = places[0], places[-1]
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
        moments: those of the type, prompts included, each with the lines where it came.
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
        return tuple(moment for moment in self.moments if began_anew and 0 < moment.pattern.times < len(moment.lines))

    @property
    def prompts(self) -> tuple[FoundMoment, ...]:
        """The prompts of Linux that were found."""
        return tuple(moment for moment in self.moments if moment.pattern.name in ENDS and moment.lines)

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
    rows = []
    for pattern in board.markers:
        of_it = [moment for moment in moments if moment.name == pattern.name]
        flows = tuple(
            name
            for name in (NORMAL, *board.flows)
            if any(flow_moment.name == pattern.name for flow_moment in board.flow(name))
        )
        lines = tuple(log.line_at(moment.position) for moment in of_it)
        rows.append(FoundMoment(pattern, flows, lines, of_it[0].text if of_it else ""))
    return Findings(
        log,
        board,
        tuple(rows),
        candidates(board, moments, events[-1].end, ruled_out),
        tuple(witnesses),
        software,
        tuple(_signs_in(log, board.failures)),
        tuple(_signs_in(log, board.troubles)),
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
        line = event.data.decode("latin-1")
        ruling.whole_line(line)  # its newline comes after its moments
        if FAKE_START.search(line) and moments and moments[-1].name == START:
            moments.pop()
        for name in ruling.flows:
            ruled_out.setdefault(name, number)
    return moments, ruled_out


def _witnesses(log: BareLog, board: BoardType) -> tuple[list[Witness], dict[str, str]]:
    """The line of each source, and the versions of the software."""
    readers = {
        evidence.source: BootEvidence(evolve(board, evidence=[evidence]), medium="") for evidence in board.evidence
    }  # each hears one source, and a medium without a name is never the right one
    witnesses = {evidence.source: Witness(evidence.source) for evidence in board.evidence}
    for number, raw in enumerate(log.lines, start=1):
        line = raw.decode("latin-1").removesuffix("\n")
        for evidence in board.evidence:
            match = re.search(evidence.pattern, line)
            if match and not (witnesses[evidence.source].confirmed and evidence.confirmed_by):
                witnesses[evidence.source] = Witness(
                    evidence.source, number, match[1], evidence.media.get(match[1], "")
                )
            if readers[evidence.source].whole_line(line) is not None:
                witnesses[evidence.source] = evolve(witnesses[evidence.source], confirmed=True)
    software = next(iter(readers.values())).software if readers else {}
    return list(witnesses.values()), software


def _signs_in(log: BareLog, signs: dict[str, Sign]) -> Iterable[KnownLine]:
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
    reply = log.answer or prompts[-1].text.encode() if waits else b""
    answer = PromptReply(b"\r\n" + reply, events[-1].t_ns) if waits else None
    patient = evolve(board, timeouts=evolve(board.timeouts, boot_s=NO_LIMIT_S))
    return rewatch(events, patient, medium, PowerEdge(0, 0), timing, answer)
