"""Sleep and wake-up of a board that runs Linux.

It enters a mode, wakes the board and judges the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from attrs import define, evolve, field, frozen

from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.benchmarks.boot.crosscheck import DMESG
from lab.benchmarks.lowpower.judge import Observed, judge
from lab.benchmarks.lowpower.kernellog import read_again, read_log
from lab.benchmarks.lowpower.modes import (
    MCU,
    MCU_ONLY,
    RTC,
    UART,
    SuspendPlan,
    check_plan,
    constraint,
    mode_of,
    release_of,
    woken_by,
)
from lab.benchmarks.lowpower.power import Off, SteadyPower, asleep_ns, cycle_ns, off, why_no_mean
from lab.benchmarks.lowpower.preflight import (
    PrintkSettings,
    Stats,
    arm,
    boot_facts,
    fill_memory,
    preflight,
    select,
    stats,
    write,
)
from lab.benchmarks.lowpower.result import RTC_OFF_S, SuspendResult
from lab.benchmarks.lowpower.script import FILE, commands, install
from lab.benchmarks.lowpower.watch import ANY_BYTE, EARLY_S, SuspendWatch, WakeEdge, moments
from lab.boards import SdkRelease
from lab.console.model import LATE_WINDOW_NS, Lateness
from lab.console.moments import MomentFinder, feed_watch
from lab.control import powerstates
from lab.control.boot_progress import bound_ns, follow, power_asked, widened
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import CONSOLE, RAILS, SHELL, WAKE_PIN
from lab.drivers.prompt import type_line
from lab.errors import BoardlabError, BoardStableError, BoardTransientError, ConfigurationError
from lab.rails import AdcRange, PhasePower, Sampler
from lab.rails.phase import check_sleep, cut
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
        before_ns: when the board said the counters.
        taken: how much of the console's capture the watch has.
    """

    board: Board
    watch: SuspendWatch
    finders: list[MomentFinder]
    found: PrintkSettings
    before: Stats | None
    before_ns: int
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
        after = _answered(lambda: stats(shell, self.board.type))
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

    After whatever failure, also an interrupt, the board's status is unknown, and the next transition power-cycles it.
    The board itself puts its consoles, log level and constraint back as soon as it is awake, whatever has become of
    the host.

    Attributes:
        release: the name of the software's release; how a mode is selected depends on it.
    """

    board: Board
    release: str = ""
    _monitor: SuspendMonitor | None = field(default=None, init=False)
    _sampler: Sampler | None = field(default=None, init=False)
    _preflown: dict[str, tuple[PrintkSettings, SdkRelease | None]] = field(factory=dict, init=False)
    _script: list[str] = field(factory=list, init=False)  # that the board has
    _down: Down | None = field(default=None, init=False)

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

    def steady(self, state: str, seconds: int, trace: Path) -> SteadyPower:
        """The power of the board off, idle or at full load.

        Raises:
            As of lab.control.powerstates.measure.
        """
        try:
            return powerstates.measure(self.board, state, seconds, trace)
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
        if mode_of(self.board.type, plan).boots:
            self._down = enter(self.board, plan)
        else:
            self._monitor = monitor = self._sent(plan, alarm_s)
            while plan.wake != RTC and not monitor.asleep(self._now_ns()):
                monitor.step()
        if plan.wake != RTC or self._down is not None:
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
            # It leaves the adapter within its latency; the first bit of the key wakes some boards, the last one
            # others.
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

        Where its shell is silent then, the status becomes `unknown`.

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
        after = _answered(lambda: stats(shell, self.board.type))
        apart_s = (self._now_ns() - monitor.before_ns) / 1e9
        observed = Observed(
            monitor.found, monitor.before, after, dmesg, mcu_text, power, energy, no_power, again, apart_s
        )
        result = judge(monitor.watch, observed)
        silent = after is None and monitor.before is not None  # a shell that may be within a command
        self.board.status = Status.unknown if silent else Status.linux
        self.board.lives = True
        return result

    def rails_off(self, plan: SuspendPlan, trace: Path) -> Off | None:
        """Read the rails in a mode that is left by a boot; None: they are not measured.

        Raises:
            BoardlabError: one that must be off is up, the board woke, or the rails cannot be sampled.
        """
        try:
            return rails_off(self.board, plan, trace, self._off())
        except BaseException:
            self.board.status = Status.unknown
            raise

    def cold_boot(self) -> BootWatch:
        """Wake the board out of a mode that is left by a boot; its status is then `unknown`.

        Raises:
            BoardlabError: it did not boot.
        """
        down = self._off()
        self.board.status = Status.unknown
        guarded_calls.deactivate(self.board.shell, SHELL)
        return cold_boot(self.board, down)

    def check_kept(self) -> None:
        """At the shell of the booted board: it did boot, and its RTC went on while it was off.

        Raises:
            BoardTransientError: neither of them.
        """
        down = self._off()
        facts = _answered(lambda: boot_facts(self.board.linux, self.board.type))
        check_kept(down, facts or ("", None), self._now_ns())
        self._down = None

    def _off(self) -> Down:
        if self._down is None:
            raise ConfigurationError("the board is not in a mode that is left by a boot: enter one first")
        return self._down

    def forget(self) -> None:
        """Forget all findings on a board that was switched off."""
        self._monitor = self._down = None
        self._preflown.clear()
        self._script = []

    def _sent(self, plan: SuspendPlan, alarm_s: int) -> SuspendMonitor:
        """Arm, select and send the command that suspends the board."""
        shell, type_, console = self.board.linux, self.board.type, self.board.console
        found, release = self._preflight(plan)
        selection = constraint(type_, release)
        if plan.mode == MCU_ONLY and selection is None:
            raise ConfigurationError(
                f"{type_.name}: how MCU-only is selected in release {self.release or '(none named)'} is not known: "
                f"add its `low_power` to lab/boards/types; known are {', '.join(type_.releases) or 'none'}"
            )
        mode = mode_of(type_, plan)
        arm(shell, type_, plan)
        before = stats(shell, type_)
        before_ns = self._now_ns()
        if selection is not None:
            value = selection.value if plan.mode == MCU_ONLY else selection.cleared
            write(shell, selection.path, value, f"{plan.mode} is not selected")
        shell.run("dmesg -c > /dev/null")
        if self.board.mcu is not None:
            self.board.activate(self.board.mcu, CONSOLE)
            self.board.mcu.take()
        afterwards = {**type_.low_power.wakes[plan.wake].afterwards, **select(shell, mode)}
        alarm = alarm_s if RTC in woken_by(type_, plan.mode) else None
        script = commands(mode, found, selection, rtc=type_.low_power.rtc, alarm_s=alarm, afterwards=afterwards)
        if script != self._script:
            install(shell, script)
            self._script = script
        taken = len(console.capture)
        watch = SuspendWatch(type_, plan, self._now_ns(), alarm_s)
        finders = [MomentFinder(moments(type_), self.board.timing())]
        type_line(console, SHELL, f"sh {FILE}")
        return SuspendMonitor(self.board, watch, finders, found, before, before_ns, taken)

    def _preflight(self, plan: SuspendPlan) -> tuple[PrintkSettings, SdkRelease | None]:
        """Check once per boot and mode; sleep changes nothing of it."""
        if plan.mode not in self._preflown:
            shell, type_ = self.board.linux, self.board.type
            release = release_of(type_, self.release, "".join(shell.run("uname -r")[0]))
            fill_memory(shell)
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
        return check_sleep(self._sampler.trace(span[1]), power, (watch.sent_ns, watch.answer.t_ns), bounds_mw)

    def _check_wiring(self, plan: SuspendPlan) -> None:
        jumper = mode_of(self.board.type, plan).jumper
        if jumper and jumper not in self.board.jumpers:
            raise ConfigurationError(
                f"{plan.mode} needs a jumper that nothing reports: {jumper}. Set it, and say so in the env: "
                f"BoardStrategy's `jumpers: ['{jumper}']`"
            )
        if plan.wake == MCU and self.board.mcu is None:
            raise ConfigurationError(
                "a key on the MCU's UART is to wake the board: add a SideConsoleDriver for that port to the env"
            )
        if plan.wake not in {RTC, UART, MCU}:
            pins = self.board.wake_pins
            if pins is None or plan.wake not in pins.pins:
                raise ConfigurationError(
                    f"the pin {plan.wake!r} is to wake the board: add a WakePinsDriver with `pins: {{{plan.wake}: "
                    "OUTPUT}` to the env"
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


# --- Modes that are left by a boot: Linux switches the board off but for what wakes it, and that is a cold boot ---


POLL_S = 0.05
_DOWN = "reboot: Power down"
# A kernel whose firmware did not switch off restarts 5 s later (Linux drivers/firmware/ti_sci.c,
# ti_sci_sys_off_handler).
RESTART_S = 6.0
SHUTDOWN_S = 30  # from the command until the board is off, when its alarm is to end that
_TEXT = re.compile(r"[ -~]{8,}(?=[\r\n])")  # no noise of a line whose driver lost its power


@frozen
class Down:
    """A board that switched itself off, to be woken by a boot.

    Attributes:
        boot_id, rtc_s: of the boot before; empty, None: unknown.
        asked_ns: when it said them.
        alarm_ns: between these the RTC wakes it; None: it does not.
    """

    plan: SuspendPlan
    boot_id: str
    rtc_s: int | None
    asked_ns: int
    alarm_ns: tuple[int, int] | None


def enter(board: Board, plan: SuspendPlan) -> Down:
    """`poweroff` with an armed wake-up source; the console says whether the mode was understood.

    Raises:
        BoardTransientError: it did not power down, or not into the mode.
        BoardStableError: something is known to stand in the way.
    """
    shell, type_, mode = board.linux, board.type, mode_of(board.type, plan)
    preflight(shell, type_, None, plan)
    arm(shell, type_, plan)
    select(shell, mode)
    shell.run("dmesg -n 8")  # its last lines are the evidence
    console, clock = board.console, board.power.clock
    boot_id, rtc_s = boot_facts(shell, type_)
    asked_ns = clock.now_ns()
    alarm_ns = _set_alarm(board, plan.sleep_s + SHUTDOWN_S) if plan.wake == RTC else None
    from_ = len(console.captured())
    sent_ns = last_ns = clock.now_ns()
    type_line(console, SHELL, "poweroff")
    silence_ns = round(max(type_.low_power.asleep_s, RESTART_S) * 1e9)
    last_line = re.compile(mode.entered or re.escape(_DOWN))
    while True:
        said = console.captured()[from_:].decode("latin-1")
        if clock.now_ns() - last_ns >= silence_ns and _DOWN in said:
            break
        if console.poll(POLL_S):
            last_ns = clock.now_ns()
        reached = last_line.search(said)
        if reached and (more := _TEXT.search(said[reached.end() :].partition("\n")[2])):
            raise BoardTransientError(
                f"the board did not stay in {mode.title}: behind {reached[0]!r} came {more[0]!r}. Its firmware "
                "refused, or something woke it at once: look at what wakes it "
                f"({', '.join(woken_by(type_, plan.mode))})",
                failure="wrong_sleep_mode",
            )
        if clock.now_ns() - sent_ns > type_.timeouts.hang_silence_s * 1e9:
            raise BoardTransientError(
                f"poweroff did not end in {_DOWN!r} within {type_.timeouts.hang_silence_s:g} s; look at the "
                "attempt's log for the service that does not stop",
                failure="did_not_suspend",
            )
    if not last_line.search(said):
        says = type_.low_power.wakes[plan.wake].says
        raise BoardTransientError(
            f"the board is off, and not in {mode.title}: the kernel did not say {mode.entered!r}. Its wake-up source "
            f"({plan.wake}) was not armed" + (f"; {says}" if says else ""),
            failure="wrong_sleep_mode",
        )
    return Down(plan, boot_id, rtc_s, asked_ns, alarm_ns)


def _set_alarm(board: Board, seconds: int) -> tuple[int, int]:
    """Set the RTC's alarm; return its earliest and its latest instant."""
    clock, alarm = board.power.clock, f"/sys/class/rtc/{board.type.low_power.rtc}/wakealarm"
    before_ns = clock.now_ns()
    board.linux.run(f"echo 0 > {alarm}")
    if board.linux.run(f"echo +{seconds} > {alarm}")[2] != 0:
        raise BoardStableError(
            f"{alarm} does not take an alarm: nothing would wake the board. Is {board.type.low_power.rtc} the SoC's?",
            failure="setting_refused",
        )
    return before_ns + (seconds - 1) * 10**9, clock.now_ns() + seconds * 10**9


def rails_off(board: Board, plan: SuspendPlan, trace: Path, down: Down) -> Off | None:
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
        end_ns = start_ns + plan.sleep_s * 10**9
        if down.alarm_ns is not None:
            end_ns = max(min(end_ns, down.alarm_ns[0]), start_ns + 10**9)
        while clock.now_ns() < end_ns:
            console.poll(POLL_S)
        end_ns = clock.now_ns()
        rails = cut(sampler.trace(end_ns), start_ns, end_ns, bound_ns(clock), bound_ns(clock)).rails
    if len(console.captured()) > heard:
        raise BoardTransientError(_early(board, plan), failure="early_wake")
    return off(rails, board.type, plan.mode)


def _early(board: Board, plan: SuspendPlan) -> str:
    mode = mode_of(board.type, plan)
    return (
        f"the board left {mode.title} by itself: its console spoke before {plan.wake} woke it. Look at what else "
        f"wakes it: {', '.join(woken_by(board.type, plan.mode))}"
    )


def cold_boot(board: Board, down: Down) -> BootWatch:
    """Wake a board out of a mode that is left by a boot, up to the login prompt.

    Raises:
        BoardlabError: it did not boot, or before it was woken.
    """
    clock, console = board.power.clock, board.console
    if down.alarm_ns is not None:
        requested_ns, acknowledged_ns = down.alarm_ns
        heard = len(console.captured())
        while clock.now_ns() < requested_ns - round(EARLY_S * 1e9):
            if console.poll(POLL_S) and _TEXT.search(console.captured()[heard:].decode("latin-1")):
                raise BoardTransientError(_early(board, down.plan), failure="early_wake")
    else:
        requested_ns, acknowledged_ns = board.wake_pins.press(down.plan.wake)
    edge = widened(PowerEdge(requested_ns, acknowledged_ns), clock)
    watch = BootWatch(board.type, board.medium, edge)
    follow(board, watch, woken=True)
    board.software = dict(watch.software)
    return watch


def check_kept(down: Down, facts: tuple[str, int | None], now_ns: int) -> None:
    """Require another boot, and an RTC that went on if it woke the board.

    Args:
        facts: the boot's id and the RTC's seconds at `now_ns`.

    Raises:
        BoardTransientError: the boot is the same, or the RTC lost its time.
    """
    boot_id, rtc_s = facts
    if down.boot_id and boot_id == down.boot_id:
        raise BoardTransientError(
            f"the board should have been off and booted, and its boot_id is still {boot_id}",
            failure="wrong_sleep_mode",
        )
    if down.plan.wake != RTC or rtc_s is None or down.rtc_s is None:
        return
    off_s = rtc_s - down.rtc_s - (now_ns - down.asked_ns) / 1e9
    if abs(off_s) > RTC_OFF_S:
        raise BoardTransientError(
            f"the board's RTC went {rtc_s - down.rtc_s} s while {(now_ns - down.asked_ns) / 1e9:.1f} s passed: it "
            "lost its supply or its time, so the mode was another one, or its alarm proves nothing. Is the PMIC kept "
            "from switching off the RTC's supply?",
            failure="rtc_lost",
        )
