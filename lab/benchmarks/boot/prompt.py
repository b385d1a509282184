"""Which of the texts that look like the Linux prompt is it: the one that somebody waits behind.

A prompt stands at a line's start and ends the output: a text or a newline behind it shows that a program printed it and
went on. Only the kernel writes into a line that waits for input, and terminals are told things that nobody sees. After
the settling time, or some seconds of silence where a program printed on, a carriage return is sent: whoever waits prints
the prompt again, at once.
"""

from __future__ import annotations

import re

from attrs import define, field

from lab.benchmarks.boot.records import MomentLike

KEPT_BYTES = 4096  # of what comes behind a prompt
ANSWERED_NS = 1_000_000_000  # an answer comes sooner; a prompt that comes later may have come by itself
SILENT_NS = 2_000_000_000  # how long a prompt that ends the output may leave a carriage return unanswered
UNANSWERED_NS = 5_000_000_000  # and one with something behind it
QUIET_NS = 100_000_000  # of silence behind a prompt; a program that goes on printing does not pause so long in a line
TALKS_ON_NS = 2_000_000_000  # how long after the settling time output may go on before the board is asked
# The same where a program printed on behind it. Most likely the boot goes on: what is typed into it would wait for the real
# prompt, and be answered there.
REFUTED_QUIET_NS = 5_000_000_000
REFUTED_TALKS_ON_NS = 30_000_000_000
_TERMINAL = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_78=>]|\][^\x07\x1b]*(?:\x07|\x1b\\))|[\x00\x07]")
_KERNEL = re.compile(rb"[\r ]*(?:<\d>)?\[ *\d+\.\d{6}\]")
_KERNEL_LINES = re.compile(rb"(?:^|\n)[\r ]*(?:<\d>)?\[ *\d+\.\d{6}\][^\n]*")


@define
class PromptCandidate:
    """A text that looks like the prompt, and what came behind it.

    Attributes:
        passed: something else came when it was asked for an answer.
    """

    moment: MomentLike
    behind: bytes = b""
    passed: bool = False

    def take(self, data: bytes) -> None:
        """More came."""
        self.behind = (self.behind + data)[:KEPT_BYTES]

    @property
    def waits(self) -> bool:
        """Nothing came behind it but what a terminal is told."""
        return not _TERMINAL.sub(b"", self.behind)

    @property
    def covered(self) -> bool:
        """The kernel wrote behind it, and nobody else on its line."""
        return _KERNEL.match(_TERMINAL.sub(b"", self.behind)) is not None


@define
class PromptWatch:
    """Follows the candidates of a boot.

    Attributes:
        settle_ns: how long a candidate is watched before a carriage return is sent.
        settled: the prompt is as certain as it becomes.
        unanswered: nobody answered the carriage return, and nothing else came.
    """

    settle_ns: int
    settled: bool = field(default=False, init=False)
    unanswered: bool = field(default=False, init=False)
    asked_ns: int | None = field(default=None, init=False)
    _candidates: list[PromptCandidate] = field(factory=list, init=False)
    _since_asked: bytes = field(default=b"", init=False)
    _late_answer: bool = field(default=False, init=False)

    def feed(self, data: bytes) -> None:
        """Take what the console said."""
        if self.asked_ns is not None:
            self._since_asked = (self._since_asked + data)[-KEPT_BYTES:]
        elif self._candidates:
            self._candidates[-1].take(data)

    def moment(self, moment: MomentLike) -> None:
        """The bytes that were just fed end in something that looks like the prompt."""
        if self.asked_ns is not None:
            came_by_itself = _KERNEL_LINES.search(self._since_asked) is not None
            self._late_answer = came_by_itself or moment.t_ns - self.asked_ns > ANSWERED_NS
            self.settled = True
            return
        if self._candidates:
            previous = self._candidates[-1]
            previous.behind = previous.behind[: max(0, moment.position - len(moment.text) - previous.moment.position)]
        self._candidates.append(PromptCandidate(moment))

    @property
    def seen(self) -> bool:
        """Whether anything came that looks like the prompt, and nothing yet that shows it was none."""
        return bool(self._candidates) and (self.asked_ns is not None or not self._candidates[-1].passed)

    def poll(self, now_ns: int, last_byte_ns: int) -> bool:
        """See how certain the prompt is by now. Returns: whether a carriage return is needed."""
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
        """A carriage return was sent."""
        self.asked_ns = now_ns
        self._since_asked = b""

    @property
    def deserted(self) -> bool:
        """Whether nobody waits at what looks like the prompt, although only the kernel spoke since."""
        return self.unanswered and not self.settled

    @property
    def chosen(self) -> MomentLike | None:
        """The prompt: of those that nobody printed on behind the last; else the last."""
        likely = [each for each in self._candidates if each.waits or each.covered]
        return (likely or self._candidates)[-1].moment if self._candidates else None

    @property
    def doubtful(self) -> bool:
        """Whether something else looked like the prompt, something unusual came behind it, or the answer came by itself."""
        unusual = any(not (c.waits or c.covered) for c in self._candidates)
        return len(self._candidates) > 1 or unusual or self._late_answer

    def _look_for_answer(self, last: PromptCandidate, since_ns: int) -> None:
        """What a carriage return has brought, when no prompt came."""
        said = _TERMINAL.sub(b"", self._since_asked)
        if since_ns <= (
            UNANSWERED_NS if _KERNEL_LINES.sub(b"", said).strip() == b"" and not last.waits else SILENT_NS
        ):
            return
        if _KERNEL_LINES.sub(b"", said).strip():  # somebody goes on with something else
            last.take(self._since_asked)
            last.passed = True
            self.asked_ns = None
        else:
            self.unanswered = True
            self.settled = last.waits and not said.strip()
