"""Recognises the prompt at which a shell waits for input.

A prompt stands at a line's start and ends the output: a text or a newline behind it shows that a program printed it
and continued. Only the kernel and invisible terminal sequences write into a line that waits for input. After the
settling time, or some seconds of silence where a program printed on, a carriage return is sent: a waiting shell
prints the prompt again, at once.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import define, field

from lab.benchmarks.boot.records import MomentLike

KEPT_BYTES = 4096  # of what comes behind a prompt
SILENT_NS = 2_000_000_000  # longest delay of a final prompt's answer to a carriage return
UNANSWERED_NS = 5_000_000_000  # and one with something behind it
QUIET_NS = 100_000_000  # of silence behind a prompt; a program that goes on printing does not pause so long in a line
TALKS_ON_NS = 2_000_000_000  # longest further output after the settling time before the board is asked
# The same where a program printed on behind it. Most likely the boot goes on: what is typed into it would wait for the
# real prompt, and be answered there.
REFUTED_QUIET_NS = 5_000_000_000
REFUTED_TALKS_ON_NS = 30_000_000_000
# ECMA-48: control sequences, strings (DCS, OSC, PM, APC, SOS), and other escapes.
TERMINAL = re.compile(
    rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[P\]X^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|[@-OQ-WYZ\\78=>])|[\x00\x07]"
)
# BusyBox init/init.c askfirst ends it with a blank, OpenWrt's procd utils/askfirst.c with a newline.
ASKS: Final = re.compile(r"press Enter to activate this console")
_KERNEL = re.compile(rb"[\r ]*(?:<\d>)?\[ *\d+\.\d{6}(?:@\d+)?\]")
_KERNEL_LINES = re.compile(rb"(?:^|\n)[\r ]*(?:<\d>)?\[ *\d+\.\d{6}(?:@\d+)?\][^\n]*")


@define
class PromptCandidate:
    """A text like the prompt, with its following bytes.

    Attributes:
        passed: other output came in place of an answer.
    """

    moment: MomentLike
    behind: bytes = b""
    passed: bool = False

    def take(self, data: bytes) -> None:
        """Take more bytes."""
        self.behind = (self.behind + data)[:KEPT_BYTES]

    @property
    def waits(self) -> bool:
        """True if nothing but terminal sequences follows it.

        A line that asks for Enter may end, too.
        """
        return not self._output

    @property
    def covered(self) -> bool:
        """True if only the kernel wrote behind it on its line."""
        return _KERNEL.match(self._output) is not None

    @property
    def _output(self) -> bytes:
        behind = TERMINAL.sub(b"", self.behind)
        return behind.lstrip(b" \r\n") if ASKS.search(self.moment.text) else behind


@define
class PromptWatch:
    """Follows the candidates of a boot.

    Attributes:
        settle_ns: time to watch a candidate before a carriage return is sent.
        settled: the prompt is as certain as it becomes.
        unanswered: the carriage return got no answer, and nothing else came.
        answer_ns: from the carriage return to the prompt's answer; None: none came.
    """

    settle_ns: int
    settled: bool = field(default=False, init=False)
    unanswered: bool = field(default=False, init=False)
    asked_ns: int | None = field(default=None, init=False)
    answer_ns: int | None = field(default=None, init=False)
    _candidates: list[PromptCandidate] = field(factory=list, init=False)
    _since_asked: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> None:
        """Take the console's bytes."""
        if self.asked_ns is not None:
            self._since_asked = (self._since_asked + data)[-KEPT_BYTES:]
        elif self._candidates:
            self._candidates[-1].take(data)

    def moment(self, moment: MomentLike) -> None:
        """Take a candidate that ends the fed bytes."""
        if self._candidates and moment.position == self._candidates[-1].moment.position:
            return  # a board without a login has the shell's prompt as its `login`, too
        if self.asked_ns is not None:
            self.answer_ns = moment.t_ns - self.asked_ns
            self.settled = True
            return
        if self._candidates:
            previous = self._candidates[-1]
            previous.behind = previous.behind[: max(0, moment.position - len(moment.text) - previous.moment.position)]
        self._candidates.append(PromptCandidate(moment))

    @property
    def seen(self) -> bool:
        """True if a candidate came that is not refuted yet."""
        return bool(self._candidates) and (self.asked_ns is not None or not self._candidates[-1].passed)

    def poll(self, now_ns: int, last_byte_ns: int) -> bool:
        """Update the certainty; True if a carriage return is needed."""
        if not self.seen or self.settled:
            return False
        last = self._candidates[-1]
        if self.asked_ns is not None:
            self._look_for_answer(last, now_ns - self.asked_ns)
            return False
        over_ns = now_ns - last.moment.t_ns - self.settle_ns
        refuted = not (last.waits or last.covered)
        quiet = now_ns - last_byte_ns >= (REFUTED_QUIET_NS if refuted else QUIET_NS)
        return over_ns >= 0 and (quiet or over_ns >= (REFUTED_TALKS_ON_NS if refuted else TALKS_ON_NS))

    def asked(self, now_ns: int) -> None:
        """Note that a carriage return was sent."""
        self.asked_ns = now_ns
        self._since_asked = b""

    def answered(self, t_ns: int) -> None:
        """Note that a shell came as the answer.

        The text asks for Enter to activate the console.
        """
        if (
            self.asked_ns is not None
            and not self.settled
            and (self._candidates[-1].waits or self._candidates[-1].covered)
        ):
            self.answer_ns = t_ns - self.asked_ns
            self.settled = True

    @property
    def deserted(self) -> bool:
        """True if a candidate gave no answer, although only the kernel wrote."""
        return self.unanswered and not self.settled

    @property
    def chosen(self) -> MomentLike | None:
        """The likeliest prompt: the last unrefuted candidate, else the last."""
        likely = [candidate for candidate in self._candidates if candidate.waits or candidate.covered]
        return (likely or self._candidates)[-1].moment if self._candidates else None

    @property
    def others(self) -> list[MomentLike]:
        """The candidates that are not the likeliest."""
        return [candidate.moment for candidate in self._candidates if candidate.moment is not self.chosen]

    @property
    def open(self) -> bool:
        """True if something unusual came behind the only candidate."""
        return any(not (c.waits or c.covered) for c in self._candidates)

    def _look_for_answer(self, last: PromptCandidate, since_ns: int) -> None:
        """Judge the output after a carriage return without a prompt."""
        output = TERMINAL.sub(b"", self._since_asked)
        if since_ns <= (
            UNANSWERED_NS if _KERNEL_LINES.sub(b"", output).strip() == b"" and not last.waits else SILENT_NS
        ):
            return
        if _KERNEL_LINES.sub(b"", output).strip():  # somebody goes on with something else
            last.take(self._since_asked)
            last.passed = True
            self.asked_ns = None
        else:
            self.unanswered = True
            self.settled = last.waits and not output.strip()
