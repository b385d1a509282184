"""What a bare log has of a board type: its moments, its flow, who named which medium, what went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import evolve, field, frozen

from lab.benchmarks.boot import ENDS, MomentLike, PowerEdge
from lab.benchmarks.boot.evidence import BootEvidence
from lab.benchmarks.boot.flows import RuledOut
from lab.boards import NORMAL, BoardType, MomentPattern, Sign, way_of
from lab.console.model import Chunk, LineTiming, Moment
from lab.console.moments import MomentFinder
from lab.metrics import Flag
from lab.run.check.barelog import BareLog
from lab.run.check.flows import FlowCandidate, candidates
from lab.run.rewatch import PromptReply, Rewatched, rewatch

TAIL_LINES: Final = 30  # behind a prompt, up to which it may be the one that the board waits at
RESET: Final = "reset"
NO_LIMIT_S: Final = 1e6  # stamps are made up: no boot is too slow
# Flags that do not depend on stamps.
FLAGS: Final = (Flag.MEDIUM_UNVERIFIED, Flag.PROMPT_REPEATED, Flag.KERNEL_ERRORS, Flag.CONSOLE_OVERRUN)


@frozen
class FoundMoment:
    """A moment of the board type, and the lines that it was found in.

    Attributes:
        flows: the flows that it belongs to.
    """

    pattern: MomentPattern
    flows: tuple[str, ...]
    lines: tuple[int, ...]
    text: str


@frozen
class Witness:
    """A source of evidence, and what it said; `line` 0: nothing.

    Attributes:
        medium: empty: the board type knows no such medium.
        confirmed: whether the line came that it counts by.
    """

    source: str
    line: int = 0
    said: str = ""
    medium: str = ""
    confirmed: bool = False


@frozen
class Known:
    """A line that one of the types' `failures` or `troubles` fits."""

    line: int
    text: str
    means: str


@frozen
class Findings:
    """All that a log says of a boot of this type.

    Attributes:
        ends: the prompts, and the lines that they are in.
        flows: by name, what speaks for and against each.
        result: what a live run would have made of it, on the first medium that was named.
    """

    log: BareLog
    board: BoardType = field(repr=False)
    moments: tuple[FoundMoment, ...]
    flows: dict[str, FlowCandidate]
    witnesses: tuple[Witness, ...]
    software: dict[str, str]
    failures: tuple[Known, ...]
    troubles: tuple[Known, ...]
    result: Rewatched

    @property
    def media(self) -> tuple[str, ...]:
        """The media that were named; several: a mixed boot."""
        return tuple(dict.fromkeys(w.medium for w in self.witnesses if w.confirmed and w.medium))

    @property
    def too_often(self) -> tuple[FoundMoment, ...]:
        """The moments of a boot that began anew which came more often than in a healthy one."""
        error = self.result.error
        began_anew = error is not None and error.failure == RESET
        return tuple(found for found in self.moments if began_anew and 0 < found.pattern.times < len(found.lines))

    @property
    def prompts(self) -> tuple[FoundMoment, ...]:
        """The prompts of Linux that were found."""
        return tuple(found for found in self.moments if found.pattern.name in ENDS and found.lines)

    @property
    def flow(self) -> str:
        """The flow that the boot had, as far as it goes; empty: none of the type's."""
        for sample in self.result.samples:
            return sample.params.get("flow", NORMAL)
        return next((name for name, candidate in self.flows.items() if not candidate.why_not), "")

    @property
    def way(self) -> str:
        """The same as the type names it, however the kernel speaks."""
        return way_of(self.flow)

    @property
    def flags(self) -> tuple[str, ...]:
        """What a live run would flag its numbers with."""
        return tuple(str(flag) for flag in FLAGS if any(flag in s.sample.flags for s in self.result.samples))


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
    """The moments; and the flows that it cannot be, with the lines that show that."""
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
    """What each source said; the versions of the software."""
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


def _known(log: BareLog, signs: dict[str, Sign]) -> Iterable[Known]:
    for number, raw in enumerate(log.lines, start=1):
        line = raw.decode("latin-1").removesuffix("\n")
        for pattern, sign in signs.items():
            if re.search(pattern, line):
                yield Known(number, line.strip(), sign.means)
                break


def _live(
    board: BoardType, medium: str, events: Sequence[Chunk], timing: LineTiming, moments: Sequence[Moment], log: BareLog
) -> Rewatched:
    """What a live run would have made of it, if the board waits at a prompt that the log ends with."""
    prompts = [moment for moment in moments if moment.name in ENDS]
    waits = prompts and len(log.lines) - log.line_at(prompts[-1].position) <= TAIL_LINES
    answer = PromptReply(b"\r\n" + prompts[-1].text.encode(), events[-1].t_ns) if waits else None
    patient = evolve(board, timeouts=evolve(board.timeouts, boot_s=NO_LIMIT_S))
    return rewatch(events, patient, medium, PowerEdge(0, 0), timing, answer)
