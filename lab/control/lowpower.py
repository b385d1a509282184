"""Sleep and wake-up of a board that runs Linux.

It enters a mode, wakes the board and judges the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from attrs import define, evolve, field

from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.benchmarks.boot.crosscheck import DMESG
from lab.benchmarks.lowpower.judge import Observed, judge
from lab.benchmarks.lowpower.kernellog import read_again, read_log
from lab.benchmarks.lowpower.modes import (
    CAN,
    MCU,
    MCU_ONLY,
    PARTIAL_IO,
    RTC,
    UART,
    SuspendPlan,
    check_plan,
    constraint,
    release_of,
)
from lab.benchmarks.lowpower.power import Off, asleep_ns, cycle_ns, off, why_no_mean
from lab.benchmarks.lowpower.preflight import PrintkSettings, Stats, arm, preflight, stats, write
from lab.benchmarks.lowpower.result import SuspendResult
from lab.benchmarks.lowpower.script import FILE, commands, install
from lab.benchmarks.lowpower.watch import ANY_BYTE, MOMENTS, SuspendWatch, WakeEdge
from lab.boards import SdkRelease
from lab.console.model import LATE_WINDOW_NS, Lateness
from lab.console.moments import MomentFinder, feed_watch
from lab.control.boot_progress import bound_ns, follow, power_asked, widened
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import CONSOLE, RAILS, SHELL, WAKE_PIN
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError
from lab.rails import AdcRange, PhasePower, Sampler
from lab.rails.phase import cut, sleep_checked
from lab.run.board import Board, Status

T = TypeVar("T")


def _answered(question: Callable[[], T]) -> T | None:
    """The board's answer; None: it gave none, which is a flag of the number and loses no cycle."""
    try:
        return question()
    except BoardlabError:
        return None


# --- A suspend that is under way, as the console shows it ---


@define(eq=False)
class SuspendMonitor:
    """Feeds what the console says to the watch of a suspend.

    Attributes:
        finders: of the watch's moments.
        found, before: the kernel's consoles and counters before it.
        taken: how much of the console's capture the watch has.
    """

    board: Board
    watch: SuspendWatch
    finders: list[MomentFinder]
    found: PrintkSettings
    before: Stats | None
    taken: int
    _late: bool = field(default=False, init=False)

    def step(self) -> None:
        """Take what the console says.

        Raises:
            BoardTransientError: the suspend has failed.
            LabTransientError: the host was suspended meanwhile.
        """
        console, watch = self.board.console, self.watch
        console.poll(POLL_S)
        for event in console.capture[self.taken :]:
            feed_watch(watch, event, self.finders)
        self.taken = len(console.capture)
        try:
            with power_asked(self.board, rails=False):
                watch.check(self.board.power.clock.now_ns())
            self._late = False
        except BoardTransientError as error:
            if self._has_link and not self._late:
                self._late = True
                console.sync()  # bytes on a slow link may still come from the board
                self.step()
                return
            if watch.done:
                raise self._explained(error) from error
            raise

    def asleep(self, now_ns: int) -> bool:
        """Return whether the board sleeps, after a sync with its console."""
        return self.watch.asleep(now_ns) and not (self._has_link and self.board.console.sync())

    @property
    def _has_link(self) -> bool:
        return getattr(self.board.console, "relation", None) is not None

    def settle_edge(self) -> None:
        """Add the lateness of a busy host to the wake-up edge."""
        edge = self.watch.edge
        if edge is not None:
            late = [
                event.lateness_ns
                for event in self.board.console.capture
                if isinstance(event, Lateness) and abs(event.t_ns - edge.t_ns) <= LATE_WINDOW_NS
            ]
            self.watch.edge = evolve(edge, late_ns=max(late, default=0))

    def drain(self) -> None:
        """Whatever came so far is no answer to the next command."""
        while self.board.console.poll(POLL_S):
            pass
        self.board.console.forget_input()

    def _explained(self, error: BoardTransientError) -> BoardTransientError:
        """A failure of a board that answers, with what its kernel says."""
        self.drain()
        shell, before = self.board.linux, self.before
        reason = read_log(_answered(lambda: shell.run(DMESG)[0]) or (), self.board.type).reason
        after = _answered(lambda: stats(shell))
        failed = before is not None and after is not None and after.fail > before.fail and after.last_failed
        reasons = [*([repr(reason)] if reason else []), *([f"its suspend_stats name {failed}"] if failed else [])]
        text = f"{error}. The kernel: {', '.join(reasons)}"
        return BoardTransientError(text, failure=error.failure) if reasons else error


# --- Sleep and wake-up of a board that runs Linux: enter a mode, wake the board, and judge what became of it ---


KEY = b" "  # harmless at a shell's prompt
SAFETY_S = 60  # the alarm that wakes a board that the host was to wake, beyond its time asleep
FOR_GOOD_S = 24 * 3600  # of a board that was told to sleep until somebody wakes it


@define(eq=False)
class LowPower:
    """The low-power modes of a board.

    After whatever failure, also an interrupt, the board's status is unknown, and the next transition power-cycles it. The
    board itself puts its consoles, log level and constraint back as soon as it is awake, whatever has become of the host.

    Attributes:
        release: the name of the software's release; how a mode is selected depends on it.
    """

    board: Board
    release: str = ""
    _monitor: SuspendMonitor | None = field(default=None, init=False)
    _sampler: Sampler | None = field(default=None, init=False)
    _preflown: dict[str, tuple[PrintkSettings, SdkRelease | None]] = field(factory=dict, init=False)
    _script: list[str] = field(factory=list, init=False)  # that the board has

    def cycle(self, plan: SuspendPlan, trace: Path | None = None) -> SuspendResult:
        """Linux, asleep for `plan.sleep_s`, awake again, and judged.

        Args:
            trace: where the power of the rails is written meanwhile; they are not sampled without it.

        Raises:
            BoardlabError: by whose fault it failed.
            ConfigurationError: the board, its release or the env cannot do this.
        """
        try:
            with self._sampling(trace, AdcRange.ACTIVE if plan.energy else AdcRange.SLEEP):
                self.enter(plan, plan.sleep_s if plan.wake == RTC else plan.sleep_s + SAFETY_S)
                if plan.wake != RTC:
                    self._wait_asleep(plan.sleep_s)
                    self.wake()
                return self.finish()
        except BaseException:
            self.board.status = Status.unknown
            raise

    def enter(self, plan: SuspendPlan, alarm_s: int = FOR_GOOD_S) -> None:
        """Put the board to sleep; its status becomes the mode.

        It stays `unknown` if the RTC wakes the board.

        Args:
            alarm_s: when the RTC wakes the board, if nothing else has.

        Raises:
            BoardlabError: by whose fault it failed.
        """
        check_plan(self.board.type, plan)
        self._check_wiring(plan)
        self.board.transition(Status.linux)
        self.board.status = Status.unknown
        self.board.lives = False  # until it is awake again, its silence is no sign that it is off
        if plan.mode == PARTIAL_IO:
            enter(self.board, plan)
        else:
            self._monitor = monitor = self._sent(plan, alarm_s)
            while plan.wake != RTC and not monitor.asleep(self._now_ns()):
                monitor.step()
        if plan.wake != RTC:
            self.board.status = Status[plan.mode]

    def wake(self) -> WakeEdge:
        """Wake the sleeping board by the source of its plan.

        Raises:
            ConfigurationError: it does not sleep.
            LabError: the key or the pin could not be pressed.
        """
        monitor, timing = self._suspending(), self.board.timing()
        self.board.status = Status.unknown
        source = monitor.watch.plan.wake
        if source in {UART, MCU}:
            requested_ns = self._now_ns()
            if source == UART:
                self.board.console.write(KEY)
            else:
                self.board.mcu.send(KEY)
            # It leaves the adapter within its latency; the first bit of the key wakes some boards, the last one others.
            out_ns = timing.adapter_latency_ns + timing.scheduling_ns + timing.bytes_ns(len(KEY))
            acknowledged_ns = self._now_ns() + out_ns
        else:
            requested_ns, acknowledged_ns = self.board.wake_pins.press(source)
        apart_ns = bound_ns(self.board.power.clock)
        monitor.watch.edge = WakeEdge(source, requested_ns - apart_ns, acknowledged_ns + apart_ns)
        monitor.finders.append(MomentFinder(ANY_BYTE, timing))
        return monitor.watch.edge

    def finish(self) -> SuspendResult:
        """Wait for the board, judge the suspend; its status becomes `linux`.

        Raises:
            BoardTransientError: it hangs, woke early, did not suspend or reached another mode.
        """
        monitor = self._suspending()
        while not monitor.watch.done:
            monitor.step()
        self._monitor = None
        monitor.drain()
        monitor.settle_edge()
        shell, mcu = self.board.linux, self.board.mcu
        dmesg = shell.run(DMESG)[0]
        log = read_log(dmesg, self.board.type)
        again = _answered(lambda: read_again(shell, log))
        mcu_text = mcu.take() if mcu is not None else None
        power = self._asleep_power(monitor.watch)
        energy = self._power(cycle_ns(monitor.watch), whole=True) if monitor.watch.plan.energy else None
        no_power = why_no_mean(monitor.watch, power) if self._sampler is not None else ""
        after = _answered(lambda: stats(shell))
        observed = Observed(monitor.found, monitor.before, after, dmesg, mcu_text, power, energy, no_power, again)
        result = judge(monitor.watch, observed)
        self.board.status = Status.linux
        self.board.lives = True
        return result

    def rails_off(self, plan: SuspendPlan, trace: Path) -> Off | None:
        """Read the rails in partial I/O; None: they are not measured.

        Raises:
            BoardlabError: one that must be off is up, the board woke, or the rails cannot be sampled.
        """
        try:
            return rails_off(self.board, plan, trace)
        except BaseException:
            self.board.status = Status.unknown
            raise

    def cold_boot(self) -> BootWatch:
        """Wake the board out of partial I/O; its status is then `unknown`.

        Raises:
            BoardlabError: it did not boot.
        """
        self.board.status = Status.unknown
        guarded_calls.deactivate(self.board.shell, SHELL)
        return cold_boot(self.board)

    def forget(self) -> None:
        """Forget all findings on a board that was switched off."""
        self._monitor = None
        self._preflown.clear()
        self._script = []

    def _sent(self, plan: SuspendPlan, alarm_s: int) -> SuspendMonitor:
        """Arm, select and send the command that suspends the board."""
        shell, type_, console = self.board.linux, self.board.type, self.board.console
        found, release = self._preflight(plan)
        selection = constraint(type_, release)
        if plan.mode == MCU_ONLY and selection is None:
            raise ConfigurationError(
                f"{type_.name}: how MCU-only is selected in release {self.release or '(none named)'} is not known: add its "
                f"`low_power` to lab/boards/types; known are {', '.join(type_.releases) or 'none'}"
            )
        arm(shell, type_, plan.wake)
        before = stats(shell)
        if selection is not None:
            value = selection.value if plan.mode == MCU_ONLY else selection.cleared
            write(shell, selection.path, value, f"{plan.mode} is not selected")
        shell.run("dmesg -c > /dev/null")
        if self.board.mcu is not None:
            self.board.activate(self.board.mcu, CONSOLE)
            self.board.mcu.take()
        afterwards = type_.low_power.wakes[plan.wake].afterwards
        script = commands(plan, found, selection, rtc=type_.low_power.rtc, alarm_s=alarm_s, afterwards=afterwards)
        if script != self._script:
            install(shell, script)
            self._script = script
        taken = len(console.capture)
        watch = SuspendWatch(type_, plan, self._now_ns(), alarm_s)
        finders = [MomentFinder(MOMENTS, self.board.timing())]
        console.sendline(f"sh {FILE}")
        return SuspendMonitor(self.board, watch, finders, found, before, taken)

    def _preflight(self, plan: SuspendPlan) -> tuple[PrintkSettings, SdkRelease | None]:
        """Check once per boot and mode; sleep changes nothing of it."""
        if plan.mode not in self._preflown:
            shell, type_ = self.board.linux, self.board.type
            release = release_of(type_, self.release, "".join(shell.run("uname -r")[0]))
            self._preflown[plan.mode] = (preflight(shell, type_, release, plan), release)
        return self._preflown[plan.mode]

    @contextmanager
    def _sampling(self, trace: Path | None, wanted: AdcRange) -> Iterator[None]:
        """Sample the rails, where there are any and somebody wants their trace."""
        rails = self.board.rails
        if trace is None or rails is None:
            yield
            return
        self.board.activate(rails, RAILS)
        rails.check_clock()
        with rails.sampling(trace, wanted) as sampler:
            self._sampler = sampler
            try:
                yield
            finally:
                self._sampler = None

    def _power(self, span: tuple[int, ...] | None, *, whole: bool = False) -> PhasePower | None:
        if self._sampler is None or span is None:
            return None
        return cut(self._sampler.trace(span[1]), *span, whole=whole)

    def _asleep_power(self, watch: SuspendWatch) -> PhasePower | None:
        span = asleep_ns(watch)
        power = self._power(span)
        if self._sampler is None or span is None or power is None or watch.answer is None:
            return power
        bounds_mw = self.board.type.low_power.total_mw.get(watch.plan.mode)
        return sleep_checked(self._sampler.trace(span[1]), power, (watch.sent_ns, watch.answer.t_ns), bounds_mw)

    def _check_wiring(self, plan: SuspendPlan) -> None:
        if plan.wake == MCU and self.board.mcu is None:
            raise ConfigurationError(
                "a key on the MCU's UART is to wake the board: add a SideConsoleDriver for that port to the env"
            )
        if plan.wake not in {RTC, UART, MCU}:
            pins = self.board.wake_pins
            if pins is None or plan.wake not in pins.pins:
                raise ConfigurationError(
                    f"the pin {plan.wake!r} is to wake the board: add a WakePinsDriver with `pins: {{{plan.wake}: OUTPUT}}` "
                    "to the env"
                )
            self.board.activate(pins, WAKE_PIN)

    def _suspending(self) -> SuspendMonitor:
        if self._monitor is None:
            raise ConfigurationError("the board does not sleep: enter a low-power mode first")
        return self._monitor

    def _wait_asleep(self, seconds: float) -> None:
        """Follow the sleeping board until that long after the command."""
        monitor = self._suspending()
        while self._now_ns() < monitor.watch.sent_ns + round(seconds * 1e9):
            monitor.step()

    def _now_ns(self) -> int:
        now_ns: int = self.board.power.clock.now_ns()
        return now_ns


# --- Partial I/O: Linux switches the board off but for its CAN pins, and activity on them is a cold boot ---


POLL_S = 0.05
_DOWN, _REACHED = b"reboot: Power down", b"Entering Partial-IO"
# A kernel whose firmware did not switch off restarts 5 s later (Linux drivers/firmware/ti_sci.c, ti_sci_sys_off_handler).
RESTART_S = 6.0
_TEXT = re.compile(rb"[ -~]{8,}(?=[\r\n])")  # no noise of a line whose driver lost its power


def enter(board: Board, plan: SuspendPlan) -> None:
    """`poweroff` with an armed CAN pin; the kernel says whether it understood.

    Raises:
        BoardTransientError: it did not power down, or not into partial I/O.
        BoardStableError: something is known to stand in the way.
    """
    preflight(board.linux, board.type, None, plan)
    arm(board.linux, board.type, plan.wake)
    board.linux.run("dmesg -n 8")  # its last lines are the evidence
    console, clock = board.console, board.power.clock
    from_ = len(console.captured())
    sent_ns = last_ns = clock.now_ns()
    console.sendline("poweroff")
    silence_ns = round(max(board.type.low_power.asleep_s, RESTART_S) * 1e9)
    while clock.now_ns() - last_ns < silence_ns or _DOWN not in console.captured()[from_:]:
        if console.poll(POLL_S):
            last_ns = clock.now_ns()
        _, reached, behind = console.captured()[from_:].partition(_REACHED)
        if reached and (more := _TEXT.search(behind.partition(b"\n")[2])):
            raise BoardTransientError(
                f"the board did not stay in partial I/O: behind {_REACHED.decode()!r} came {more[0].decode()!r}. Its firmware "
                "refused, or something woke it at once: look at the CAN pins",
                failure="wrong_sleep_mode",
            )
        if clock.now_ns() - sent_ns > board.type.timeouts.hang_silence_s * 1e9:
            raise BoardTransientError(
                f"poweroff did not end in {_DOWN.decode()!r} within {board.type.timeouts.hang_silence_s:g} s; look at the "
                "attempt's log for the service that does not stop",
                failure="did_not_suspend",
            )
    known = board.type.low_power.wakes.get("can")
    if _REACHED not in console.captured()[from_:]:
        raise BoardTransientError(
            f"the board is off, and not in partial I/O: the kernel did not say {_REACHED.decode()!r}. No CAN pin was armed"
            + (f"; {known.says}" if known and known.says else ""),
            failure="wrong_sleep_mode",
        )


def rails_off(board: Board, plan: SuspendPlan, trace: Path) -> Off | None:
    """Read the rails for `plan.sleep_s`; None: they are not measured.

    Raises:
        BoardTransientError: one that must be off is up; or the board came back by itself.
        LabError: the rails cannot be sampled.
    """
    if board.rails is None:
        return None
    board.activate(board.rails, RAILS)
    board.rails.check_clock()
    clock, console = board.power.clock, board.console
    heard = len(console.captured())
    with board.rails.sampling(trace, AdcRange.ACTIVE) as sampler:
        start_ns = clock.now_ns()
        while clock.now_ns() < start_ns + plan.sleep_s * 10**9:
            console.poll(POLL_S)
        end_ns = clock.now_ns()
        rails = cut(sampler.trace(end_ns), start_ns, end_ns, bound_ns(clock), bound_ns(clock)).rails
    if len(console.captured()) > heard:
        raise BoardTransientError(
            "the board left partial I/O by itself: its console spoke before the host woke it. Look at the CAN pins: what drives "
            "them?",
            failure="early_wake",
        )
    return off(rails, board.type)


def cold_boot(board: Board) -> BootWatch:
    """Wake a board out of partial I/O, up to the login prompt.

    Raises:
        BoardlabError: it did not boot.
    """
    requested_ns, acknowledged_ns = board.wake_pins.press(CAN)
    edge = widened(PowerEdge(requested_ns, acknowledged_ns), board.power.clock)
    watch = BootWatch(board.type, board.medium, edge)
    follow(board, watch, woken=True)
    board.software = dict(watch.software)
    return watch
