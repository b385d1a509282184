"""Watches a suspend on the console: asleep, woken, back, or failed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from attrs import define, evolve, field, frozen

from lab.benchmarks.boot import MomentLike
from lab.benchmarks.lowpower.modes import RTC, SuspendPlan
from lab.benchmarks.lowpower.script import BACK, GOING, RESTORED
from lab.benchmarks.output import last_line
from lab.boards import BoardType, MomentPattern
from lab.errors import BoardTransientError, LabTransientError

BEGUN, ANSWER, CLEAN, FIRST_BYTE = "going", "answer", "restored", "first_byte"
MOMENTS: Final = (
    MomentPattern(BEGUN, rf"{GOING} \d+"),
    MomentPattern(ANSWER, rf"{BACK} \d+"),
    MomentPattern(CLEAN, rf"{RESTORED} \d+"),
)
ANY_BYTE: Final = (MomentPattern(FIRST_BYTE, r"[^\n]"),)  # looked for from the wake-up edge on
_BOOT = "boot."  # before the name of a boot's moment
_NO_SIGN: Final = frozenset({"shell", "kernel_load"})  # moments that are seen without a boot
ENTRY_S = 10.0  # from the command until the shell has begun with it
FLOOD_BYTES = 65_536  # from the command on, without an answer; a board that suspends says nothing
# From the command; a freezer gives up after 20 s (/sys/power/pm_freeze_timeout), and then the shell answers
FREEZE_S = 25.0
RESTORE_S = 30.0  # from the answer until everything is put back
EARLY_S = 1.5  # an alarm counts whole seconds from one that has begun; a wake-up so long before it is none of its own


def moments(board: BoardType) -> Sequence[MomentPattern]:
    """The moments of a suspend, and those of a boot, which none should have."""
    signs = [moment for moment in board.moments if moment.name not in _NO_SIGN]
    return (*MOMENTS, *(evolve(moment, name=f"{_BOOT}{moment.name}") for moment in signs))


@frozen
class WakeEdge:
    """A wake-up edge between the host's request and its acknowledgement.

    Times are in ns of the console's clock.

    Attributes:
        acknowledged_ns: the latest instant at which the edge can have reached the board, unless the host was busy.
        late_ns: evidence of a busy host: possible delay of the edge.
    """

    source: str
    requested_ns: int
    acknowledged_ns: int
    late_ns: int = 0

    @property
    def t_ns(self) -> int:
        """Its stamp; the edge did not come later than `late_ns` after it."""
        return self.acknowledged_ns

    @property
    def uncertainty_ns(self) -> int:
        """Maximum earliness of the edge."""
        return self.acknowledged_ns - self.requested_ns


@define
class SuspendWatch:
    """Watches a suspend by the console's bytes and moments in order.

    See lab.console.moments.feed_watch.

    A board that answers is judged after it has restored everything.

    Attributes:
        sent_ns: when the command was sent, on the clock of the stamps.
        alarm_s: when the RTC wakes the board, if nothing else has.
        said: text of the console from the command to the answer.
        edge: the host's wake-up edge, once there was one.
        begun: the shell has taken the command.
        silence: begin and end of the console's longest silence from the command to the answer, in ns.
    """

    board: BoardType
    plan: SuspendPlan
    sent_ns: int
    alarm_s: int
    edge: WakeEdge | None = field(default=None, init=False)
    first_byte: MomentLike | None = field(default=None, init=False)
    answer: MomentLike | None = field(default=None, init=False)
    begun: bool = field(default=False, init=False)
    said: str = field(default="", init=False)
    _text: str = field(default="", init=False)
    _boot: Counter[str] = field(factory=Counter, init=False)
    _last_ns: int = field(init=False)
    silence: tuple[int, int] = field(init=False)
    _restored: bool = field(default=False, init=False)
    _unanswered_bytes: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._last_ns = self.sent_ns
        self.silence = (self.sent_ns, self.sent_ns)

    @property
    def done(self) -> bool:
        """True if the shell waits again, with everything restored."""
        return self._restored and re.search(self.board.prompts.shell, self._text.rpartition(RESTORED)[2]) is not None

    @property
    def asleep_s(self) -> float:
        """The longest silence of the console from the command to the answer."""
        return (self.silence[1] - self.silence[0]) / 1e9

    def feed(self, data: bytes, t_ns: int) -> None:
        """Take bytes of one read, stamped `t_ns`."""
        self._text = (self._text + data.decode("latin-1"))[-8192:]
        if self.answer is None:
            self.said += data.decode("latin-1")
            if t_ns - self._last_ns > self.silence[1] - self.silence[0]:
                self.silence = (self._last_ns, t_ns)
            self._unanswered_bytes += len(data)
        self._last_ns = t_ns

    def moment(self, moment: MomentLike) -> None:
        """Take a moment of MOMENTS or ANY_BYTE, after its bytes."""
        match moment.name:
            case "first_byte":
                self.first_byte = self.first_byte or moment
            case "answer":
                self.answer = self.answer or moment
            case "going":
                self.begun = True
            case name if name.startswith(_BOOT):
                self._boot[name.removeprefix(_BOOT)] += self.answer is None
            case _:
                self._restored = True

    def suspended(self, missing_ns: int) -> None:
        """Fail: the stamping clock stopped or jumped, so times are unknown.

        Raises:
            LabTransientError: always.
        """
        raise LabTransientError(
            f"the host's clock went {abs(missing_ns) / 1e9:.3f} s {'behind' if missing_ns > 0 else 'ahead'} while the "
            "board slept: the host was suspended, or its virtual machine paused or moved. Keep it awake while it "
            "measures (systemctl mask sleep.target)",
            failure="host_suspended",
        )

    def asleep(self, now_ns: int) -> bool:
        """True if the console's silence means that the board sleeps."""
        return self.begun and self.answer is None and now_ns - self._last_ns >= self.board.low_power.asleep_s * 1e9

    def check(self, now_ns: int) -> None:
        """Raise when the suspend has failed by now.

        Raises:
            BoardTransientError: did not suspend, woke early, hangs, or did not put its console back.
        """
        if self.answer is not None:
            if self.done:
                self._check_answer(self.answer)
            elif now_ns - self.answer.t_ns > RESTORE_S * 1e9:
                raise BoardTransientError(
                    f"the board is back, and has not put its console back within {RESTORE_S:g} s; the last it said "
                    f"was {last_line(self._text.encode('latin-1'))!r}",
                    failure="console_not_restored",
                )
            return
        self._check_boot(now_ns)
        if self._unanswered_bytes > FLOOD_BYTES:
            raise BoardTransientError(
                f"the console does not fall silent: {self._unanswered_bytes} bytes since the board was told to sleep. "
                f"The last line: {last_line(self._text.encode('latin-1'))!r}",
                failure="log_flood",
            )
        if not self.begun and now_ns - self.sent_ns > ENTRY_S * 1e9:
            raise BoardTransientError(
                f"the shell did not take the command within {ENTRY_S:g} s; the last on the console was "
                f"{last_line(self._text.encode('latin-1'))!r}. Characters were lost, or the shell does not listen",
                failure="did_not_suspend",
            )
        limit_s = self.board.low_power.resume_s
        if now_ns > max(self.due_ns + limit_s * 1e9, self.sent_ns + FREEZE_S * 1e9):
            raise BoardTransientError(
                f"the board was woken ({self.plan.wake}) {(now_ns - self.due_ns) / 1e9:.0f} s ago and has not "
                "answered: it hangs, or the wake-up did not reach it. It is power-cycled; look at its wake-up sources",
                failure="hung_resume",
            )

    def _check_boot(self, now_ns: int) -> None:
        """A way back may run the loaders before U-Boot once; it has no other moment of a boot."""
        names = [moment.name for moment in self.board.moments]
        loaders = names[: names.index("uboot")] if "uboot" in names else []
        signs = [name for name, times in self._boot.items() if times > (name in loaders)]
        if signs:
            early = " before anything woke it" if self.edge is None and now_ns < self.alarm_ns else ""
            raise BoardTransientError(
                f"the board should have resumed, and booted{early} ({signs[0]}; the last line is "
                f"{last_line(self._text.encode('latin-1'))!r}): its memory or its session is lost. Look at what it "
                "printed, at its power, and at the boot loader: it must be the vendor's, which knows this mode",
                failure="woke_by_boot",
            )

    @property
    def alarm_ns(self) -> int:
        """The earliest instant of the alarm, also of one that only wakes a board whose source is lost."""
        return self.sent_ns + round((self.alarm_s - EARLY_S) * 1e9)

    @property
    def due_ns(self) -> int:
        """The latest instant of the wake-up."""
        if self.edge is not None:
            return self.edge.t_ns
        return self.sent_ns + round((self.alarm_s + ENTRY_S) * 1e9)

    def _check_answer(self, answer: MomentLike) -> None:
        status = answer.text.rpartition(" ")[2]
        if status != "0":
            raise BoardTransientError(
                f"the board did not suspend: writing /sys/power/state failed (exit status {status}). A device "
                "refused, or something woke it on the way; its kernel log is kept with the attempt",
                failure="suspend_refused",
            )
        early_s = self.alarm_s - EARLY_S - (answer.t_ns - self.sent_ns) / 1e9
        if self.plan.wake == RTC and early_s > 0:
            raise BoardTransientError(
                f"the board woke {early_s + EARLY_S:.1f} s before its alarm: something else woke it",
                failure="early_wake",
            )
        if self.plan.wake != RTC and (self.edge is None or answer.t_ns < self.edge.requested_ns):
            raise BoardTransientError(
                f"the board woke by itself, before {self.plan.wake} did: something else woke it", failure="early_wake"
            )
