"""Boot time: from a board's moments to stages and samples, or to the class of its failure.

Definition: the performance guide's "Boot-time Measurement", from "Starting kernel" to the Linux prompt, which is the
login prompt, or the shell's where the kernel was given init=/bin/sh. The module is pure: who reads the console feeds it
bytes and moments, and asks it what became of the boot.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Protocol

from attrs import define, field, frozen

from lab.benchmarks.consoletext import garbage, in_pieces, last_line
from lab.boards import BoardType
from lab.errors import BoardlabError, BoardTransientError, LabTransientError, TestTransientError
from lab.metrics import Flag, Metric, Sample
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, BOOT_TIME

START = "starting_kernel"
ENDS = ("login", "shell")  # whichever comes first
LINE_LIMIT = 4096  # bytes of a line that are searched; longer lines are garbage
GARBAGE_SHARE = 0.3  # of bytes that no console prints, in the last kilobyte, at which it is called garbled
FLOOD_BYTES = 1_000_000  # between two moments; a talkative kernel prints some 50 kB
SETTLE_NS = 300_000_000  # silence after a U-Boot prompt that shows that it waits for somebody


class MomentLike(Protocol):
    """What this module needs of a moment (lab.console.moments.Moment)."""

    @property
    def name(self) -> str: ...
    @property
    def t_ns(self) -> int: ...
    @property
    def uncertainty_ns(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def text(self) -> str: ...


@frozen
class BootSample:
    """One number of one boot.

    Attributes:
        params: e.g. {"medium": "sd", "stage": "Kernel"}.
        log_start, log_end: the window of the console stream behind it, in bytes of the stream.
    """

    metric: Metric
    params: Mapping[str, str]
    sample: Sample
    log_start: int
    log_end: int


@frozen
class PowerEdge:
    """Power was switched on somewhere between the request and its acknowledgement (ns, the console's clock)."""

    requested_ns: int
    acknowledged_ns: int


@define
class BootWatch:
    """Watches one boot, from power on to the Linux prompt.

    Feed it every chunk and every moment in their order, then ask `done`; `check` raises what went wrong.
    """

    board: BoardType
    medium: str
    power: PowerEdge
    moments: list[MomentLike] = field(factory=list, init=False)
    seen: dict[str, str] = field(factory=dict, init=False)  # source of evidence -> medium it named
    software: dict[str, str] = field(factory=dict, init=False)
    init: str = field(default="", init=False)  # what the kernel was told to run instead of the default
    _line: bytes = field(default=b"", init=False)
    _recent: bytes = field(default=b"", init=False)
    _unmarked_bytes: int = field(default=0, init=False)
    _last_byte_ns: int | None = field(default=None, init=False)
    _failure: BoardlabError | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)

    @property
    def done(self) -> bool:
        """Whether the Linux prompt came."""
        return any(m.name in ENDS for m in self.moments)

    def moment(self, moment: MomentLike) -> None:
        """Take note of a moment; a banner that comes once too often is a reset."""
        self.moments.append(moment)
        self._unmarked_bytes = 0
        pattern = next(p for p in self.board.moments if p.name == moment.name)
        count = sum(m.name == moment.name for m in self.moments)
        is_banner = pattern.required and self.board.moments.index(pattern) <= self._index("uboot")
        if is_banner and count > pattern.times and self._failure is None:
            self._failure = BoardTransientError(
                f"the board reset while booting: {moment.text.strip()!r} came for the {_ordinal(count)} time "
                f"(a healthy boot prints it {pattern.times} ×). Look for a watchdog, a weak supply or a panic before it",
                failure="reset",
            )

    def feed(self, data: bytes, t_ns: int) -> None:
        """Take the bytes of one read, stamped `t_ns`."""
        self._last_byte_ns = t_ns
        self._unmarked_bytes += len(data)
        self._recent = (self._recent + data)[-1024:]
        *complete, rest = (self._line + data).split(b"\n")
        for line in complete:
            self._whole_line(line)
        self._line = rest[-LINE_LIMIT:]
        prompt = re.match(self.board.prompts.uboot, self._line.decode("latin-1"))
        self._stopped = prompt is not None

    def check(self, now_ns: int) -> None:
        """Raise when the boot has failed by now.

        Raises:
            BoardTransientError: silent, hung, panicked, reset, flooding, stopped at the U-Boot prompt, too slow.
            TestTransientError: the login prompt came, but in pieces.
            LabTransientError: booted from another medium than the straps selected, or an unreadable console.
        """
        if self._failure is not None:
            raise self._failure
        if self.done:
            return
        limits = self.board.timeouts
        since_power_s = (now_ns - self.power.acknowledged_ns) / 1e9
        if self._last_byte_ns is None:
            if since_power_s > limits.first_byte_s:
                raise BoardTransientError(
                    f"no byte within {limits.first_byte_s:g} s after power on. Look at the outlet, the boot-mode straps "
                    "(a wrong one leaves the ROM silent) and the console's cable",
                    failure="silent",
                )
            return
        silence_ns = now_ns - self._last_byte_ns
        if self._stopped and silence_ns > SETTLE_NS:
            raise BoardTransientError(
                f"U-Boot stopped at its prompt instead of booting from {self.medium}: a key came during autoboot, or "
                f"bootcmd failed. Last line before it: {self._last_text()!r}",
                failure="stopped_at_uboot",
            )
        if silence_ns > SETTLE_NS and self._prompt_in_pieces():
            raise TestTransientError(
                "the login prompt came in pieces, with kernel messages between them, so its moment is not known. Let the "
                "release print less while it starts (loglevel=4 on the kernel's command line), or measure once more",
                failure="prompt_broken",
            )
        if self._unmarked_bytes > FLOOD_BYTES:
            raise BoardTransientError(
                f"the console is flooded: {self._unmarked_bytes} bytes since the last moment, and no prompt. "
                f"The last line: {self._last_text()!r}",
                failure="log_flood",
            )
        if silence_ns / 1e9 > limits.hang_silence_s:
            stage = self._stage()
            raise BoardTransientError(
                f"hung in {stage}: nothing for {limits.hang_silence_s:g} s after {self._last_text()!r}",
                failure=f"hang_{stage}",
            )
        if garbage(self._recent) > GARBAGE_SHARE and len(self._recent) == 1024:
            raise LabTransientError(
                f"the console is unreadable (more than {GARBAGE_SHARE:.0%} of the last kilobyte is no text): check the "
                f"speed ({self.board.console.speed_bd} Bd), the ground wire and the adapter",
                failure="garbled",
            )
        if since_power_s > limits.boot_s:
            raise BoardTransientError(
                f"no login prompt within {limits.boot_s:g} s after power on; last line {self._last_text()!r}",
                failure="too_slow",
            )

    def finish(self, cycle: int, extra_flags: frozenset[Flag] = frozenset()) -> list[BootSample]:
        """The samples of a boot that is done.

        Raises:
            BoardTransientError: a required moment is missing or out of order.
        """
        first: dict[str, MomentLike] = {}
        for moment in self.moments:
            first.setdefault(moment.name, moment)
        order = [first[p.name] for p in self.board.moments if p.name in first]
        missing = [p.name for p in self.board.moments if p.required and p.name not in first]
        if missing:
            raise BoardTransientError(
                f"the login prompt came, but not: {', '.join(missing)}. Characters were lost, or the patterns of board "
                f"type {self.board.name} do not fit this release",
                failure="moment_missing",
            )
        if any(later.t_ns < earlier.t_ns for earlier, later in itertools.pairwise(order)):
            raise BoardTransientError(
                "the moments came out of order: " + " ".join(m.name for m in order), failure="moment_order"
            )
        flags = extra_flags | self._flags()
        return self._samples(order, first, cycle, flags)

    def _samples(
        self, order: list[MomentLike], first: dict[str, MomentLike], cycle: int, flags: frozenset[Flag]
    ) -> list[BootSample]:
        params = {"medium": self.medium} | ({"init": self.init} if self.init else {})
        start = first[START]
        end = next(m for m in self.moments if m.name in ENDS)
        on_ns, on_u_ns = self.power.acknowledged_ns, self.power.acknowledged_ns - self.power.requested_ns

        def sample(
            metric: Metric, extra: dict[str, str], span: tuple[int, int, int], window: tuple[int, int]
        ) -> BootSample:
            begin_ns, end_ns, u_ns = span
            reading = Sample((end_ns - begin_ns) / 1e9, u_ns / 1e9, cycle, flags)
            return BootSample(metric, params | extra, reading, *window)

        span = (start.t_ns, end.t_ns, max(start.uncertainty_ns, end.uncertainty_ns))
        samples = [sample(BOOT_TIME, {}, span, (start.position - len(start.text.encode()), end.position))]
        if not self.init:  # else U-Boot's prompt was used on the way: nothing before the kernel took its own time
            span = (on_ns, end.t_ns, max(on_u_ns, end.uncertainty_ns))
            samples.append(sample(BOOT_POWER_ON, {}, span, (0, end.position)))
        stages = {p.name: p.stage for p in self.board.moments if p.stage}
        before_ns, before_u_ns, before_position = on_ns, on_u_ns, 0
        for moment in order:
            if moment.name not in stages:
                continue
            u_ns = max(before_u_ns, moment.uncertainty_ns)
            window = (before_position, moment.position)
            if not self.init or moment.t_ns > start.t_ns:
                stage, span = {"stage": stages[moment.name]}, (before_ns, moment.t_ns, u_ns)
                samples.append(sample(BOOT_STAGE, stage, span, window))
            before_ns, before_u_ns, before_position = moment.t_ns, moment.uncertainty_ns, moment.position
        return samples

    def _flags(self) -> frozenset[Flag]:
        flags = set()
        if len(self.seen) < min(2, len(self.board.evidence)):
            flags.add(Flag.MEDIUM_UNVERIFIED)
        if self.board.virtual:
            flags.add(Flag.SIMULATED)
        return frozenset(flags)

    def _whole_line(self, raw: bytes) -> None:
        line = raw[-LINE_LIMIT:].decode("latin-1")
        for pattern, failure in self.board.failures.items():
            if self._failure is None and re.search(pattern, line):
                self._failure = BoardTransientError(
                    f"the board printed {line.strip()!r}; what led to it is in the attempt's log (lab results show --log)",
                    failure=failure,
                )
        for evidence in self.board.evidence:
            match = re.search(evidence.pattern, line)
            if match:
                self._witness(evidence.source, match[1], evidence.media.get(match[1]))
        match = re.search(r"Kernel command line: (?:.* )?init=(\S+)", line)
        if match:
            self.init = match[1]
        for name, pattern in (("uboot", r"U-Boot 20\d\d\.\d\d.*"), ("kernel", r"Linux version .*")):
            match = re.search(pattern, line)
            if match:
                self.software.setdefault(name, match[0].strip())

    def _witness(self, source: str, said: str, medium: str | None) -> None:
        if medium is not None:
            self.seen[source] = medium
        if medium != self.medium and self._failure is None:
            self._failure = LabTransientError(
                f"booted from the wrong medium: {self.medium} was selected, {source} says {said!r}"
                f"{f' ({medium})' if medium else ''}. Check the boot-mode straps, and whether {self.medium} is bootable",
                failure="wrong_medium",
            )

    def _stage(self) -> str:
        names = {m.name for m in self.moments}
        if "init" in names:
            return "before_login"
        if START in names or "first_printk" in names:
            return "kernel"
        return "uboot" if "uboot" in names else "spl"

    def _prompt_in_pieces(self) -> bool:
        return in_pieces(self._recent, [p.pattern for p in self.board.moments if p.name in ENDS])

    def _last_text(self) -> str:
        return last_line(self._recent, before=int(self._stopped))  # the prompt itself says nothing

    def _index(self, name: str) -> int:
        return next(i for i, p in enumerate(self.board.moments) if p.name == name)


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
