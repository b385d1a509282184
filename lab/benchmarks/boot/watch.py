"""Watches a boot from power-on to its certain prompt or failure."""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

from attrs import define, field

from lab.benchmarks.boot.evidence import SPOKEN, BootEvidence, manner
from lab.benchmarks.boot.flows import BootFlow, RuledOut, recognise
from lab.benchmarks.boot.kernellog import BootKernelLog, kernel_time_s
from lab.benchmarks.boot.prompt import TERMINAL, PromptWatch
from lab.benchmarks.boot.records import ENDS, START, MomentLike, PowerEdge
from lab.benchmarks.boot.samples import boot_samples, stages
from lab.benchmarks.boot.starts import FAKE_START, FIRST_PRINTK, Starts
from lab.benchmarks.boot.timeline import KERNEL, TimeLine, place_in
from lab.benchmarks.output import garbage, in_pieces, last_line, unreadable
from lab.boards import NORMAL, BoardType
from lab.errors import BoardlabError, BoardTransientError, LabTransientError, TestTransientError
from lab.metrics import Flag, Moment, SampleRecord

LINE_LIMIT = 4096  # bytes of a line that are searched; longer lines are garbage
GARBAGE_SHARE = 0.3  # of bytes that no console prints, in the last kilobyte, at which it is called garbled
GARBLED_BYTES = 3  # in a line, which is then damaged; fewer are glitches of a UART that is switched on
FLOOD_BYTES = 1_000_000  # between two moments; a talkative kernel prints some 50 kB
PROMPT_LINES = 50  # before the prompt, among which a damaged one is looked for
READ_LINES = 100  # of one read of 4 KiB, among which a moment's line is looked for
NEARLY_SHARE = 0.8  # of the characters of a text and its damaged form that both have
CR_ONLY = (
    "Its lines end with a carriage return alone, and no pattern finds a line's start: have the board send a "
    "newline, too"
)
PAUSE_S = 0.02  # between two lines, less is none: a USB adapter waits 16 ms
BITS_PER_BYTE = 10  # with start and stop
SETTLE_NS = 300_000_000  # silence after a U-Boot prompt that shows that it waits for somebody
# Failure classes of texts that decide nothing alone: a program may quote them, and a bootloader tries one place after
# the other.
_OF_BOOTLOADERS: Final = frozenset({"uboot_abort", "no_boot_device", "authentication", "bad_image"})
_OF_KERNELS: Final = frozenset({"kernel_panic", "kernel_oops", "kernel_lockup", "io_error", "no_root"})
_OF_SHELLS: Final = frozenset({"emergency_mode"})  # a login prompt refutes it
_OF_REBOOTS: Final = frozenset({"reset"})  # a later prompt of the same kernel refutes it: a program wrote to /dev/kmsg
_NO_STOP: Final = frozenset({"silent", "rom_no_medium"})  # failures that no earlier text explains
_KERNEL_TEXT: Final = re.compile(r"(?:<\d>)?\[ *\d+\.\d{6}(?:@\d+)?\].*")
_IO_ERROR: Final = re.compile(r"I/O error, dev (\w+)")


@define
class BootWatch:
    """Watches one boot.

    Feed it bytes and moments in their order (lab.console.moments.feed_watch); call `check` in between, then ask
    `done`. If `asks`, send a carriage return and call `asked`: only this proves that a shell waits at the prompt.

    Attributes:
        flow, start: the boot's flow, and its kernel's start where the time counts from there; known when it is
            finished.
        spoken: the first moment that a kernel prints behind its time 0; None: none, or not finished. Its very first
            line is one if it comes again, since an early console has it before.
        begins_again: that first line came more than once, and not in a log that was printed again.
        events: number of the captured events that belong to the boot, set by the feeder; None: all.
    """

    board: BoardType
    medium: str
    power: PowerEdge
    moments: list[MomentLike] = field(factory=list, init=False)
    asks: bool = field(default=False, init=False)
    flow: str = field(default=NORMAL, init=False)
    start: MomentLike | None = field(default=None, init=False)
    spoken: MomentLike | None = field(default=None, init=False)
    begins_again: bool = field(default=False, init=False)
    events: int | None = field(default=None, init=False)
    log: BootKernelLog = field(init=False)
    _evidence: BootEvidence = field(init=False)
    _prompt: PromptWatch = field(init=False)
    _starts: Starts = field(init=False)
    _ruled_out: RuledOut = field(init=False)
    _line: bytes = field(default=b"", init=False)
    _recent: bytes = field(default=b"", init=False)
    _unmarked_bytes: int = field(default=0, init=False)
    _last_byte_ns: int | None = field(default=None, init=False)
    _line_ns: int = field(default=0, init=False)  # when the last text of the unfinished line was read
    _failure: BoardlabError | None = field(default=None, init=False)
    # Of a boot that does not reach its prompt
    _suspected: BoardTransientError | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    # Behind the kernel's start, with when each was read
    _lines: deque[tuple[int, bytes]] = field(factory=lambda: deque(maxlen=PROMPT_LINES), init=False)
    _garbled: int = field(default=0, init=False)  # lines, from the first moment on
    _tries: int = field(default=0, init=False)  # errors of the bootloader, after which it tried another place
    _stages_s: dict[str, float] = field(factory=dict, init=False)  # as of `TimeLine`
    _texts: list[str] = field(factory=list, init=False)  # lines until the prompt
    # Position of a bootloader's moment -> number of its line
    _line_of: dict[int, int] = field(factory=dict, init=False)
    _places: dict[str, str] = field(factory=dict, init=False)  # as of `TimeLine`
    _quoted: list[str] = field(factory=list, init=False)  # as of `TimeLine`

    def __attrs_post_init__(self) -> None:
        self.log = BootKernelLog(self.board.troubles)
        self._evidence = BootEvidence(self.board, self.medium)
        self._starts = Starts(self.board)
        self._ruled_out = RuledOut(self.board)
        self._prompt = PromptWatch(round(self.board.timeouts.settle_s * 1e9))

    @property
    def done(self) -> bool:
        """True if the prompt came, and nothing refuted it while settling."""
        return self._prompt.settled and self._failure is None

    @property
    def prompt(self) -> MomentLike | None:
        """The prompt that ended the boot."""
        return self._prompt.chosen

    @property
    def answered_ns(self) -> int | None:
        """When the prompt answered the carriage return; None: it did not."""
        asked_ns, answer_ns = self._prompt.asked_ns, self._prompt.answer_ns
        return None if asked_ns is None or answer_ns is None else asked_ns + answer_ns

    @property
    def seen(self) -> dict[str, str]:
        """Source of evidence -> its named medium."""
        return self._evidence.seen

    @property
    def software(self) -> dict[str, str]:
        """Versions by name, as of `BootVersions`."""
        return self._evidence.software

    def lacks(self, name: str) -> bool:
        """Return whether a moment that the board type has did not come."""
        return any(marker.name == name for marker in self.board.markers) and all(
            moment.name != name for moment in self.moments
        )

    @property
    def init(self) -> str:
        """The kernel's `init=`; empty: the default."""
        return self._evidence.init

    def moment(self, moment: MomentLike) -> None:
        """Take a moment, directly after its bytes were fed."""
        if moment.name in ENDS:
            self._prompt.moment(moment)
            if self._prompt.asked_ns is not None:
                return  # the answer to a carriage return is no moment of the boot
            if moment.name == "shell" and self._suspected is not None and self._suspected.failure in _OF_SHELLS:
                self._fail(self._suspected)
        if self._starts.is_foreign(moment, self.log.stamped):  # a program printed it, unless the board reset
            self._fail(self._starts.moment(moment, self.log.stamped))
            self._suspect(self._starts.suspected)
            return
        self.moments.append(moment)
        self._unmarked_bytes = 0
        self._ruled_out.moment(moment)
        in_bootloader = not self._starts.kernel
        if in_bootloader or moment.name == FIRST_PRINTK:  # what the kernel prints later stands between other lines
            near = [*self._texts[-READ_LINES:], self._line.decode("latin-1")]
            back = next((at for at, line in enumerate(reversed(near)) if moment.text.strip() in line), 0)
            self._line_of[moment.position] = len(self._texts) - back
        self._fail(self._starts.moment(moment, self.log.stamped))
        if in_bootloader and self._starts.kernel:
            self._suspected = None  # the bootloader found a way
            self.log.begin()
        self._suspect(self._starts.suspected)

    def feed(self, data: bytes, t_ns: int) -> None:
        """Take bytes of one read, stamped `t_ns`."""
        self._last_byte_ns = t_ns
        self._unmarked_bytes += len(data)
        self._prompt.feed(data)
        self._recent = (self._recent + data)[-1024:]
        *complete, rest = (self._line + data).split(b"\n")
        for line in complete:
            self._whole_line(line, self._line_ns if line.rstrip() == self._line.rstrip() else t_ns)
            self._line = b""
        if rest.rstrip() != self._line.rstrip():
            self._line_ns = t_ns
        self._line = rest[-LINE_LIMIT:]
        waiting = self._line.decode("latin-1")
        self._stopped = not self._starts.kernel and re.match(self.board.prompts.uboot, waiting) is not None
        if self._prompt.asked_ns is not None and re.search(self.board.prompts.shell, waiting):
            self._prompt.answered(t_ns)

    def suspended(self, missing_ns: int) -> None:
        """The clock of the stamps stood still, or jumped."""
        self._fail(
            LabTransientError(
                f"the host's clock went {abs(missing_ns) / 1e9:.3f} s {'behind' if missing_ns > 0 else 'ahead'} "
                "during the boot: the host was suspended, or its virtual machine paused or moved. Keep it awake "
                "while it measures (systemctl mask sleep.target)",
                failure="host_suspended",
            )
        )

    @property
    def order(self) -> dict[str, MomentLike]:
        """Name -> the moment that the boot's stages use; empty: no flow fits."""
        try:
            flow = None if self._prompt.chosen is None else self._recognise(self._prompt.chosen)
        except BoardlabError:
            flow = None
        return {moment.name: moment for moment in flow.order} if flow else {}

    def _recognise(self, prompt: MomentLike) -> BootFlow:
        return recognise(self.board, self._own_moments(), prompt, frozenset(self._ruled_out.flows))

    def _own_moments(self) -> list[MomentLike]:
        """The moments without kernel lines that a program quotes: they lack the kernel's time."""
        timed = self.log.has_times
        return [m for m in self.moments if not timed or m.name not in SPOKEN or kernel_time_s(m.text) is not None]

    def root_is_on(self, device: str, card: str = "") -> None:
        """Check the root file system's device that a login found, and its card's kind.

        Raises:
            LabTransientError: the device is another medium's.
        """
        wrong = self._evidence.root_is_on(device, card)
        if wrong is not None:
            raise wrong

    def asked(self, now_ns: int) -> None:
        """Note that the carriage return was sent."""
        self.asks = False
        self._lines.append((self._line_ns, self._line))
        self._prompt.asked(now_ns)

    def check(self, now_ns: int) -> None:
        """Check the boot's progress, and raise if it has failed.

        A text that decides nothing alone is to blame once the boot does not go on.

        Raises:
            BoardTransientError: silent, hung, panicked, reset, flooding, stopped at the U-Boot prompt, too slow, or an
                apparent prompt does not answer.
            TestTransientError: the login prompt came, but in pieces.
            LabTransientError: booted from another medium than the straps selected, an unreadable console, or a host
                that was suspended.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self._check_progress(now_ns)
        except BoardTransientError as error:
            raise self._blamed(error) from None

    def _check_progress(self, now_ns: int) -> None:
        if self._prompt.settled:
            return
        if self._last_byte_ns is None:
            self._check_first_byte(now_ns)
            return
        if self._prompt.seen:
            self._check_prompt(now_ns, self._last_byte_ns)
        else:
            self._check_silence(now_ns - self._last_byte_ns)
            self._check_text()
        since_power_s = (now_ns - self.power.acknowledged_ns) / 1e9
        if not self.done and since_power_s > self.board.timeouts.boot_s:
            raise BoardTransientError(
                f"no login prompt within {self.board.timeouts.boot_s:g} s after power on; last line "
                f"{self._last_text()!r}",
                failure="too_slow",
            )

    def finish(
        self, extra_flags: frozenset[Flag] = frozenset(), *, started_once: bool = False, judged: bool = False
    ) -> list[SampleRecord]:
        """The samples of a boot that is done.

        Args:
            started_once: the board itself says that its kernel started once, and when.
            judged: the boot's time line will tell whether the prompt is the first one.

        Raises:
            BoardTransientError: a required moment is missing or out of order, and no other flow explains that; or the
                kernel's clock began anew.
            LabTransientError: a time is negative, or far too little is known of the boot time.
        """
        prompt = self._prompt.chosen
        if prompt is None:
            raise BoardTransientError(
                "there is no login prompt yet: nothing can be measured", failure="moment_missing"
            )
        if (restart := self._restart()) is not None and not started_once:
            raise restart
        params = {"medium": self.medium} | ({"init": self.init} if self.init else {})
        flags = extra_flags | self._flags(judged=judged)
        if prompt.name == "shell" and not self.init:  # of an initial RAM disk, a rescue, or an image without a login
            flags |= {Flag.FLOW_UNVERIFIED}
        flow = self._recognise(prompt)
        manner_of_boot = manner(flow, self.log, lost=Flag.CONSOLE_OVERRUN in flags)
        self.flow = manner_of_boot.flow.name
        order, start = manner_of_boot.flow.order, manner_of_boot.flow.start
        self.start = next((moment for moment in order if moment.name == start == START), None)
        start_at = self.start.position if self.start else 0
        spoken = [moment for moment in self._own_moments() if moment.name in SPOKEN and moment.position > start_at]
        self.begins_again = sum(m.name == FIRST_PRINTK for m in spoken) > 1 and not self.log.printed_again
        lines: list[MomentLike] = [m for m in spoken if self.begins_again or m.name != FIRST_PRINTK]
        for text, since_power_s in self.log.first.items():
            lines.append(Moment("kernel", self.power.requested_ns + round(since_power_s * 1e9), 0, 0, text))
        self.spoken = min(lines, key=lambda line: line.t_ns, default=None)
        is_doubtful = self._starts.doubtful or (self._starts.again > 0 and not judged)
        sure = manner_of_boot.is_sure and self._ruled_out.shown(flow.name) and not is_doubtful
        flags |= frozenset(() if sure else {Flag.FLOW_UNVERIFIED})
        moments = self._own_moments()
        for _, begin, moment in stages(manner_of_boot.flow, moments, prompt):
            begin_ns = self.power.acknowledged_ns if begin is None else begin.t_ns
            since_s = None if begin is None else kernel_time_s(begin.text)
            until_s = kernel_time_s(moment.text)
            name, length_s = f"{begin.name if begin else 'on'} {moment.name}", (moment.t_ns - begin_ns) / 1e9
            if since_s is not None and until_s is not None:
                name, length_s = name + KERNEL, length_s - (until_s - since_s)
            self._stages_s[name] = length_s
        for moment in manner_of_boot.flow.order:
            if moment.position in self._line_of:
                self._places[moment.name] = place_in(self._texts, self._line_of[moment.position])
            if self._is_quoted(moment):
                self._quoted.append(moment.name)
        return boot_samples(manner_of_boot.flow, moments, prompt, self.power, params, flags)

    def _check_first_byte(self, now_ns: int) -> None:
        limit_s = self.board.timeouts.first_byte_s
        if (now_ns - self.power.acknowledged_ns) / 1e9 > limit_s:
            raise BoardTransientError(
                f"no byte within {limit_s:g} s after power on. Look at the outlet, the boot-mode straps "
                "(a wrong one leaves the ROM silent) and the console's cable",
                failure="silent",
            )

    def _check_prompt(self, now_ns: int, last_byte_ns: int) -> None:
        self.asks = self._prompt.poll(now_ns, last_byte_ns)
        if self._prompt.deserted:
            raise BoardTransientError(
                "text like the login prompt came, without an answer to a carriage return; the last line is "
                f"{self._last_text()!r}. Does it hang, or does the `login` pattern of board type {self.board.name} "
                "fit something else?",
                failure="prompt_unanswered",
            )

    def _check_silence(self, silence_ns: int) -> None:
        if self._stopped and silence_ns > SETTLE_NS:
            raise BoardTransientError(
                f"U-Boot stopped at its prompt instead of booting from {self.medium}: a key came during autoboot, or "
                f"bootcmd failed. Last line before it: {self._last_text()!r}",
                failure="stopped_at_uboot",
            )
        is_hung = silence_ns / 1e9 > self.board.timeouts.hang_silence_s
        if silence_ns > SETTLE_NS and in_pieces(self._recent, self._ends, anywhere=is_hung):
            raise TestTransientError(
                "the login prompt came in pieces, with kernel messages between them, so its moment is not known. Let "
                "the release print less while it starts (loglevel=4 on the kernel's command line), or "
                "measure once more",
                failure="prompt_broken",
            )
        if is_hung:
            stage = self._stage()
            raise BoardTransientError(
                f"hung in {stage}: nothing for {self.board.timeouts.hang_silence_s:g} s after "
                f"{self._last_text()!r}{self._hint()}",
                failure=f"hang_{stage}",
            )

    def _hint(self) -> str:
        """A reason why a prompt is not known; empty: none seen."""
        line = TERMINAL.sub(b"", self._line)
        if re.search(self.board.prompts.shell, line.decode("latin-1")):
            return ". The board seems to log in by itself: let the type's `login` moment be the shell's prompt"
        if line != self._line and any(re.search(regex, line.decode("latin-1")) for regex in self._ends):
            return ". The prompt has terminal sequences in it, e.g. colours: let the type's `login` pattern allow them"
        if b"\n" not in self._recent and self._recent.count(b"\r") > 1:
            return f". {CR_ONLY}"
        return ""

    def _check_text(self) -> None:
        if self._unmarked_bytes > FLOOD_BYTES:
            raise BoardTransientError(
                f"the console is flooded: {self._unmarked_bytes} bytes since the last moment, and no prompt. "
                f"The last line: {self._last_text()!r}",
                failure="log_flood",
            )
        if self.board.rom and not self.moments and re.search(self.board.rom, self._recent.decode("latin-1")):
            raise BoardTransientError(
                f"the boot ROM found nothing to boot on {self.medium} and asks for it over the UART "
                f"({self._last_text()[-20:]!r}). Look at the boot-mode straps, and whether {self.medium} is there and "
                "holds a bootloader",
                failure="rom_no_medium",
            )
        if garbage(self._recent) > GARBAGE_SHARE and len(self._recent) == 1024:
            raise LabTransientError(
                f"the console is unreadable (more than {GARBAGE_SHARE:.0%} of the last kilobyte is no text): check "
                f"the speed ({self.board.console.speed_bd} Bd), the ground wire and the adapter",
                failure="garbled",
            )

    def _flags(self, *, judged: bool) -> frozenset[Flag]:
        is_open = not judged and (self._prompt.open or any(self._find_other_prompts()))
        doubts = {
            Flag.MEDIUM_UNVERIFIED: not self._evidence.verified,
            Flag.PROMPT_REPEATED: self._prompt.unanswered or is_open,
            Flag.KERNEL_ERRORS: bool(self.log.counts),
            Flag.CONSOLE_OVERRUN: bool(self.log.torn or self._garbled),
            Flag.SIMULATED: self.board.virtual,
        }
        return frozenset(flag for flag, holds in doubts.items() if holds)

    def _find_other_prompts(self) -> Iterator[int]:
        """Instants of texts that may be the prompt: whole, damaged or interrupted."""
        prompt = self._prompt.chosen
        yield from (other.t_ns for other in self._prompt.others)
        text, before = "" if prompt is None else prompt.text.strip(), ""
        for t_ns, raw in self._lines:
            line = TERMINAL.sub(b"", raw).decode("latin-1")
            user = _KERNEL_TEXT.sub("", line).strip()
            is_joined = bool(before and user and _is_nearly((before + user)[: len(text)], text))
            is_whole = any(re.search(regex, line) for regex in self._ends)
            if is_joined or (not is_whole and _is_nearly(user[: len(text)], text)):
                yield t_ns
            before = before + user if user != line.strip() and not is_whole else ""

    def _is_quoted(self, moment: MomentLike) -> bool:
        """Return whether another line with the same kernel time may be the moment's, damaged.

        Then one of them is a quote. A time in µs is one line's alone, however damaged; many lines have a time in ms.
        """
        stamp, end, text = moment.text.strip().partition("] ")
        if not end or kernel_time_s(moment.text) is None:
            return False
        rests = [line.partition(stamp + end)[2] for line in self._texts if stamp + end in line]
        is_in_us = not stamp.endswith("000")
        return sum(is_in_us or text.startswith(rest) or _is_nearly(rest[: len(text)], text) for rest in rests) > 1

    def _whole_line(self, raw: bytes, t_ns: int) -> None:
        line = raw[-LINE_LIMIT:].decode("latin-1")
        self._garbled += bool(self.moments) and unreadable(raw) >= GARBLED_BYTES
        if FAKE_START.search(line) and self.moments and self.moments[-1].name == START:
            self.moments.pop()
            self._starts.forget_start()
        if not self._prompt.seen:
            self._texts.append(line.rstrip("\r"))
        if self._starts.kernel and self._prompt.asked_ns is None:
            self._lines.append((t_ns, raw[-LINE_LIMIT:]))
        self._ruled_out.whole_line(line)
        self.log.whole_line(line, (t_ns - self.power.requested_ns) / 1e9)
        for pattern, sign in self.board.failures.items():
            if re.search(pattern, line):
                self._take_failure(sign.means, line.strip())
        self._fail(self._starts.whole_line(line))
        self._suspect(self._starts.suspected)
        self._fail(self._evidence.whole_line(line))

    def _take_failure(self, means: str, line: str) -> None:
        """Take a line with the text of a failure."""
        error = BoardTransientError(
            f"the board printed {line!r}; the attempt's log has the lines before it (lab results show --log)",
            failure=means,
        )
        device = _IO_ERROR.search(line)
        if means in _OF_BOOTLOADERS:
            if not self._starts.kernel:
                self._tries += 1
                self._suspect(error)
        elif means in _OF_KERNELS and device and self._evidence.medium_of(device[1]) != self.medium:
            self.log.note(means, line)  # of another medium than the boot's
        elif (
            means in _OF_SHELLS
            or (means in _OF_REBOOTS and not self._prompt.seen)
            or (means in _OF_KERNELS and not (self._starts.kernel and self.log.own))
        ):
            self.log.note(means, line)
            self._suspect(error)
        else:  # it needs no other's blame
            self._failure = self._failure or error

    def _fail(self, error: BoardlabError | None) -> None:
        """Note a failure; the first counts."""
        if error is not None:
            self._failure = self._failure or self._blamed(error)

    def _blamed(self, error: BoardlabError) -> BoardlabError:
        """The error, or what was suspected before it."""
        suspected = self._suspected or self._restart()
        if suspected is None or not isinstance(error, BoardTransientError) or error.failure in _NO_STOP:
            return error
        if str(error) == str(suspected):
            return error
        return BoardTransientError(f"{suspected}. Then: {error}", failure=suspected.failure)

    @property
    def split_ns(self) -> int:
        """When the last line came that went on with the first kernel's clock."""
        return self.power.requested_ns + round(self.log.split_s * 1e9)

    @property
    def time_line(self) -> TimeLine:
        """The console's account of the prompt; `drawn` are seconds before it."""
        end_ns = 0 if self._prompt.chosen is None else self._prompt.chosen.t_ns
        return TimeLine(
            answer=None if self._prompt.answer_ns is None else self._prompt.answer_ns / 1e9,
            drawn=tuple((end_ns - t_ns) / 1e9 for t_ns in self._find_other_prompts()),
            tries=float(self._tries),
            again=float(self._starts.again) or None,
            begun=self._begun_s(),
            busy=self._busy_s() or None,
            open=self._prompt.open,
            stages=self._stages_s,
            places=self._places,
            quoted=tuple(self._quoted),
        )

    def _begun_s(self) -> float | None:
        """Seconds from the start to the kernel's time 0, by its first line."""
        text, since_power_s = next(iter(self.log.first.items()), ("", 0.0))
        kernel_s = kernel_time_s(text)
        if self.start is None or kernel_s is None or f"{kernel_s:.6f}" not in self.log.marks:
            return None
        return since_power_s - kernel_s - (self.start.t_ns - self.power.requested_ns) / 1e9

    def _busy_s(self) -> float:
        """For how long the kernel's lines kept the console busy until the prompt."""
        prompt = self._prompt.chosen
        if prompt is None:
            return 0.0
        byte_s = BITS_PER_BYTE / self.board.console.speed_bd
        text = prompt.text.strip().encode("latin-1")
        begin_s, busy_s = prompt.t_ns / 1e9 - byte_s * len(text), 0.0
        until_prompt = itertools.dropwhile(lambda line: text not in line[1], reversed(self._lines))
        for t_ns, raw in itertools.islice(until_prompt, 1, None):
            if begin_s - t_ns / 1e9 > PAUSE_S:
                break
            length_s = byte_s * (len(raw) + 1)
            busy_s += length_s * (_KERNEL_TEXT.match(raw.decode("latin-1")) is not None)
            begin_s = min(begin_s, t_ns / 1e9) - length_s
        return busy_s

    def _restart(self) -> BoardTransientError | None:
        """The error of a kernel whose clock began anew."""
        if not self.log.restarted:
            return None
        return BoardTransientError(
            f"the board reset while booting: the kernel's clock began anew at {self.log.restarted!r}. Look for a "
            "kexec, a watchdog or a weak supply; only a log that is printed again in other words looks the same",
            failure="reset",
        )

    def _suspect(self, error: BoardTransientError | None) -> None:
        """Note what is to blame if the boot does not go on; the first counts."""
        self._suspected = self._suspected or error

    def _stage(self) -> str:
        names = {m.name for m in self.moments}
        if "init" in names:
            return "before_login"
        if START in names or "first_printk" in names:
            return "kernel"
        return "uboot" if "uboot" in names else "spl"

    @property
    def _ends(self) -> list[str]:
        return [pattern.regex for pattern in self.board.moments if pattern.name in ENDS]

    def _last_text(self) -> str:
        return last_line(self._recent, before=int(self._stopped))  # the prompt itself says nothing


def _is_nearly(line: str, text: str) -> bool:
    """Return whether a line may be the text, damaged."""
    matcher = SequenceMatcher(None, line, text)
    return matcher.real_quick_ratio() >= NEARLY_SHARE and matcher.ratio() >= NEARLY_SHARE
