"""Suspend and resume: from the console's lines to the mode that was reached and the resume latency, or to the failure.

Definition of the latency: the performance guide's "Resume Latency Performance", from the kernel's "Enabling non-boot
CPUs" to its "PM: suspend exit", on the kernel's own clock, which stands still while the board sleeps. The module is
pure: who reads the console feeds it bytes, and asks it what became of the suspend.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import define, field, frozen

from lab.boards import BoardType, Release
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError

DEEP_SLEEP, MCU_ONLY = "deep_sleep", "mcu_only"
ENTRY_S = 10.0  # from the command until the kernel has begun to suspend
RESUME_S = 10.0  # from the alarm until the prompt
EARLY_S = 0.5  # a wake-up so long before the alarm is none of the alarm's
_QOS = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"
_STAMPED = re.compile(r"^\[ *(\d+\.\d{6})\] (.*)")
_SOURCE = re.compile(r"wakeup source: ?(0x[0-9a-f]+)")
_MCU_ONLY = re.compile(r"wakeup source:.*mode:0x1\b|sending max CPU latency|set_latency_constraint: latency: [1-9]")


@frozen
class Suspended:
    """A suspend that went well.

    Attributes:
        mode: what the kernel's lines say that was reached.
        latency_s: of the resume, on the kernel's clock.
        asleep_s: how long the console was silent, on the host's clock.
        wake_source: as the device manager reports it, e.g. "0x50" (RTC); empty where it does not.
    """

    mode: str
    latency_s: float
    asleep_s: float
    wake_source: str


@define
class SuspendWatch:
    """Watches one suspend that the RTC's alarm ends.

    Attributes:
        mode: the low-power mode that was asked for.
        alarm_s: how long the board shall sleep.
        started_ns: when the command was sent, on the clock of the stamps.
    """

    board: BoardType
    mode: str
    alarm_s: float
    started_ns: int
    _line: str = field(default="", init=False)
    _last_ns: int = field(init=False)
    _asleep_ns: int = field(default=0, init=False)
    _entered: bool = field(default=False, init=False)
    _mcu_only: bool = field(default=False, init=False)
    _source: str = field(default="", init=False)
    _stamps: dict[str, float] = field(factory=dict, init=False)
    _failure: BoardlabError | None = field(default=None, init=False)
    _prompt: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._last_ns = self.started_ns

    @property
    def done(self) -> bool:
        """Whether the kernel is back and the prompt came."""
        return self._prompt and "PM: suspend exit" in self._stamps

    def feed(self, data: bytes, t_ns: int) -> None:
        """Take the bytes of one read, stamped `t_ns`."""
        if self._entered:
            self._asleep_ns = max(self._asleep_ns, t_ns - self._last_ns)
        self._last_ns = t_ns
        *lines, self._line = (self._line + data.decode("latin-1")).split("\n")
        for line in lines:
            self._whole_line(line.rstrip("\r"))
        if self._entered and re.match(self.board.prompts.shell, self._line):
            self._prompt = True

    def check(self, now_ns: int) -> None:
        """Raise when the suspend has failed by now.

        Raises:
            BoardTransientError: refused, woken early, woken and not back, or in another mode than asked for.
        """
        if self._failure is not None:
            raise self._failure
        since_s = (now_ns - self.started_ns) / 1e9
        if not self._entered and since_s > ENTRY_S:
            raise BoardTransientError(
                f"the kernel did not begin to suspend within {ENTRY_S:g} s; is the console attached to it, and the log "
                "level high enough (dmesg -n 8)?",
                failure="did_not_suspend",
            )
        if not self.done and since_s > self.alarm_s + RESUME_S:
            raise BoardTransientError(
                f"the alarm was {since_s - self.alarm_s:.0f} s ago, and the board has not resumed: nothing since "
                f"{(now_ns - self._last_ns) / 1e9:.0f} s. It needs a power cycle; look at its wake-up sources",
                failure="hung_resume",
            )

    def finish(self) -> Suspended:
        """The result of a suspend that is done.

        Raises:
            BoardTransientError: it woke too early, or reached another mode than the one that was asked for.
        """
        asleep_s = self._asleep_ns / 1e9
        if asleep_s < self.alarm_s - EARLY_S:
            raise BoardTransientError(
                f"the board woke after {asleep_s:.1f} s, {self.alarm_s - asleep_s:.1f} s before its alarm: something else "
                f"woke it (source {self._source or 'unknown'})",
                failure="early_wake",
            )
        reached = MCU_ONLY if self._mcu_only else DEEP_SLEEP
        if reached != self.mode:
            raise BoardTransientError(
                f"{self.mode} was asked for, the kernel's lines say {reached}: how the mode is selected depends on the "
                "release (lab/boards: releases.*.low_power) and on the firmware",
                failure="wrong_sleep_mode",
            )
        latency_s = self._stamps["PM: suspend exit"] - self._stamps["Enabling non-boot CPUs"]
        return Suspended(reached, latency_s, asleep_s, self._source)

    def _whole_line(self, line: str) -> None:
        stamped = _STAMPED.match(line)
        text = stamped[2] if stamped else line
        self._entered = self._entered or text.startswith("PM: suspend entry")
        self._mcu_only = self._mcu_only or _MCU_ONLY.search(text) is not None
        if found := _SOURCE.search(text):
            self._source = found[1]
        for mark in ("Enabling non-boot CPUs", "PM: suspend exit"):
            if stamped and text.startswith(mark):
                self._stamps[mark] = float(stamped[1])
        if "failed to suspend" in text and self._failure is None:
            self._failure = BoardTransientError(
                f"the kernel turned back: {text!r}. A device refused to suspend; its driver's name stands before it",
                failure="suspend_refused",
            )


def selection(board: BoardType, release: Release, mode: str) -> list[str]:
    """The commands that select a mode before a suspend; they have to be given before each.

    Raises:
        ConfigurationError: the board or the release does not have this mode.
    """
    mcu = board.identity.mcu if board.identity else ""
    commands: Mapping[str, str] = {
        "wakeup_device": f"echo enabled > /sys/bus/platform/devices/{mcu}/power/wakeup",
        "qos_ms": f"echo 100 > {_QOS}",
        "qos_us": f"echo 100000 > {_QOS}",
    }
    if mode not in board.sleep or (mode == MCU_ONLY and release.low_power not in commands):
        raise ConfigurationError(
            f"board type {board.name} has no mode {mode!r} in this release; it has: {', '.join(board.sleep) or 'none'}"
        )
    return [commands[release.low_power]] if mode == MCU_ONLY else []
