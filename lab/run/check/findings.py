"""A boot's moments, flow, medium and failures, from a bare log."""

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
from lab.run.rewatch import PromptReply, RewatchResult, rewatch


@frozen
class FlowCandidate:
    """One flow of the board type, and whether the boot can be of it.

    Attributes:
        why_not: evidence against the flow in the log; empty: there is none.
        before: required moments that would have come before the log's first one.
        behind: required moments that would come after its last one.
    """

    why_not: str
    before: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()


def candidates(
    board: BoardType, moments: Sequence[MomentLike], end: int, ruled_out: Mapping[str, int]
) -> dict[str, FlowCandidate]:
    """Judge each flow of the board type, the usual one first.

    Args:
        moments: moments of the log.
        end: length of the log in bytes.
        ruled_out: impossible flow -> number of the line that shows it.

    Returns:
        Name of the flow -> its judgement.
    """
    return {
        name: FlowCandidate(f"line {ruled_out[name]} belongs to another flow")
        if name in ruled_out
        else _candidate(board, name, moments, end)
        for name in (NORMAL, *board.flows)
    }


def _candidate(board: BoardType, name: str, moments: Sequence[MomentLike], end: int) -> FlowCandidate:
    """Judge a flow by the moments of the log."""
    patterns = board.flow(name)
    names = {moment.name for moment in moments}
    present = [number for number, pattern in enumerate(patterns) if pattern.name in names]
    if not present:
        return FlowCandidate("the log has none of its moments")
    first, last = present[0], present[-1]
    before = tuple(pattern.name for pattern in patterns[:first] if pattern.required)
    behind = tuple(pattern.name for pattern in patterns[last + 1 :] if pattern.required)
    middle = [pattern for pattern in patterns[first : last + 1] if pattern.name not in ENDS]
    ending = [pattern for pattern in patterns if pattern.name in ENDS]
    prompt = next((moment for moment in reversed(moments) if moment.name in ENDS), None)
    if prompt is None:  # the log ends early: judge it as if a prompt stood at its end
        last_ns = max(moment.t_ns for moment in moments)
        prompt = Moment(ending[0].name if ending else ENDS[0], last_ns, 0, end, "")
    try:
        if name != NORMAL:
            check_foreign(name, patterns, moments, prompt)
        in_order(board.name, [*middle, *ending], moments, prompt)
    except BoardlabError as error:
        missing = ", ".join(pattern.name for pattern in middle if pattern.required and pattern.name not in names)
        why_not = f"not found: {missing}" if error.failure == "moment_missing" and missing else str(error)
        return FlowCandidate(why_not, before, behind)
    return FlowCandidate("", before, behind)


TAIL_LINES: Final = 30  # lines of the kernel after a prompt at which the board may still be waiting
RESET: Final = "reset"
NO_LIMIT_S: Final = 1e6  # the stamps are made up, so no boot may count as too slow
# Flags that do not depend on stamps.
FLAGS: Final = (Flag.MEDIUM_UNVERIFIED, Flag.PROMPT_REPEATED, Flag.KERNEL_ERRORS, Flag.CONSOLE_OVERRUN)


@frozen
class FoundMoment:
    """A moment of the board type, and where the log has it.

    Attributes:
        flows: names of the flows that it belongs to.
        lines: numbers of its lines, from 1; empty: the log lacks it.
        text: text of the first one.
    """

    pattern: MomentPattern
    flows: tuple[str, ...]
    lines: tuple[int, ...]
    text: str


@frozen
class Witness:
    """A source of evidence of the medium, and what it says in the log.

    Attributes:
        source: e.g. "spl", "kernel".
        line: number of its line, from 1; 0: it says nothing.
        said: its word for the medium.
        medium: the medium of that word; empty: the board type does not know the word.
        confirmed: True if the line came that confirms it, or none is needed.
    """

    source: str
    line: int = 0
    said: str = ""
    medium: str = ""
    confirmed: bool = False


@frozen
class KnownLine:
    """A line that matches an entry of the type's `failures` or `troubles`.

    Attributes:
        means: the failure class, or the trouble, that it shows.
    """

    line: int
    text: str
    means: str


@frozen
class Findings:
    """All that a log shows, read as a boot of one board type.

    Attributes:
        moments: all moments of the type, with the prompts.
        flows: name -> judgement of each flow, the usual one first.
        witnesses: one for each source of evidence.
        software: name -> version that the boot printed.
        result: what a live run would have measured, with the first named medium.
    """

    log: BareLog
    board: BoardType = field(repr=False)
    moments: tuple[FoundMoment, ...]
    flows: dict[str, FlowCandidate]
    witnesses: tuple[Witness, ...]
    software: dict[str, str]
    failures: tuple[KnownLine, ...]
    troubles: tuple[KnownLine, ...]
    result: RewatchResult

    @property
    def media(self) -> tuple[str, ...]:
        """The media that confirmed evidence names; several mean a mixed boot."""
        return tuple(dict.fromkeys(w.medium for w in self.witnesses if w.confirmed and w.medium))

    @property
    def too_often(self) -> tuple[FoundMoment, ...]:
        """The moments that came more often than in a healthy boot, if the board restarted; else empty."""
        error = self.result.error
        if error is None or error.failure != RESET:
            return ()
        return tuple(moment for moment in self.moments if 0 < moment.pattern.times < len(moment.lines))

    @property
    def prompts(self) -> tuple[FoundMoment, ...]:
        """The prompts of Linux that the log has."""
        return tuple(moment for moment in self.moments if moment.pattern.name in ENDS and moment.lines)

    @property
    def flow(self) -> str:
        """The boot's flow, as a run would store it; empty: it is none of the type's flows."""
        for sample in self.result.samples:
            return sample.params.get("flow", NORMAL)
        return next((name for name, candidate in self.flows.items() if not candidate.why_not), "")

    @property
    def way(self) -> str:
        """The flow's name in the type: a stored flow may have "quiet" in it."""
        return way_of(self.flow)

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that the numbers of a live run would have, as far as they do not depend on stamps."""
        return tuple(str(flag) for flag in FLAGS if any(flag in sample.flags for sample in self.result.samples))


def examine(log: BareLog, board: BoardType) -> Findings:
    """Read a log as a boot of this board type."""
    timing = LineTiming(board.console.speed_bd)
    events = log.events(timing)
    moments, ruled_out = _moments(board, events, timing)
    witnesses, software = _witnesses(log, board)
    named = [witness.medium for witness in witnesses if witness.confirmed and witness.medium]
    medium = next(iter(named), next(iter(board.media)))
    found_moments = []
    for pattern in board.markers:
        matches = [moment for moment in moments if moment.name == pattern.name]
        flows = tuple(
            name
            for name in (NORMAL, *board.flows)
            if any(flow_moment.name == pattern.name for flow_moment in board.flow(name))
        )
        lines = tuple(log.line_at(match.position) for match in matches)
        found_moments.append(FoundMoment(pattern, flows, lines, matches[0].text if matches else ""))
    return Findings(
        log,
        board,
        tuple(found_moments),
        candidates(board, moments, events[-1].end, ruled_out),
        tuple(witnesses),
        software,
        tuple(_signs_in(log, board.failures)),
        tuple(_signs_in(log, board.troubles)),
        _live(board, medium, events, timing, moments, log),
    )


def _moments(board: BoardType, events: Sequence[Chunk], timing: LineTiming) -> tuple[list[Moment], dict[str, int]]:
    """Find the moments of a log, and the flows that its lines rule out.

    Returns:
        The moments in their order; flow that is ruled out -> number of the first line that does.
    """
    finder = MomentFinder(board.markers, timing)
    ruling = RuledOut(board)
    moments: list[Moment] = []
    ruled_out: dict[str, int] = {}
    for number, event in enumerate(events, start=1):
        for moment in finder.feed(event):
            ruling.moment(moment)
            moments.append(moment)
        line = event.data.decode("latin-1")
        ruling.whole_line(line)  # after its moments, as in a live boot: the newline arrives last
        if FAKE_START.search(line) and moments and moments[-1].name == START:
            moments.pop()
        for name in ruling.flows:
            ruled_out.setdefault(name, number)
    return moments, ruled_out


def _witnesses(log: BareLog, board: BoardType) -> tuple[list[Witness], dict[str, str]]:
    """Find the line of each source of evidence, and the versions that the boot printed."""
    # Each reader gets one source only, and a medium without a name, which no source can confirm as the right one.
    readers = {
        evidence.source: BootEvidence(evolve(board, evidence=[evidence]), medium="") for evidence in board.evidence
    }
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
    """Yield the lines of a log that match a sign, each once.

    Args:
        signs: regular expression -> sign.
    """
    for number, raw in enumerate(log.lines, start=1):
        line = raw.decode("latin-1").removesuffix("\n")
        for pattern, sign in signs.items():
            if re.search(pattern, line):
                yield KnownLine(number, line.strip(), sign.means)
                break


def _live(
    board: BoardType, medium: str, events: Sequence[Chunk], timing: LineTiming, moments: Sequence[Moment], log: BareLog
) -> RewatchResult:
    """Watch a log as a live run would; a board whose log ends at a prompt answers a carriage return there."""
    prompts = [moment for moment in moments if moment.name in ENDS]
    answer = None
    if prompts:
        tail = log.lines[log.line_at(prompts[-1].position) :]
        if len(tail) <= TAIL_LINES and all(_KERNEL_TIME.match(line) or not line.strip() for line in tail):
            text = log.answer or prompts[-1].text.encode()
            answer = PromptReply(b"\r\n" + text, events[-1].t_ns)
    patient = evolve(board, timeouts=evolve(board.timeouts, boot_s=NO_LIMIT_S))
    return rewatch(events, patient, medium, PowerEdge(0, 0), timing, answer)
