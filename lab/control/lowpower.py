"""Sleep and wake-up of a board that runs Linux.

It enters a mode, wakes the board and judges the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from lab.benchmarks.boot import BootWatch
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
from lab.benchmarks.lowpower.power import Off, SteadyPower, asleep_ns, cycle_ns, why_no_mean
from lab.benchmarks.lowpower.preflight import (
    PrintkSettings,
    arm,
    boot_facts,
    fill_memory,
    preflight,
    select,
    stats,
    write,
)
from lab.benchmarks.lowpower.result import SuspendResult
from lab.benchmarks.lowpower.script import FILE, commands, install
from lab.benchmarks.lowpower.watch import ANY_BYTE, SuspendWatch, WakeEdge, moments
from lab.boards import SdkRelease
from lab.console.moments import MomentFinder
from lab.control import powerstates
from lab.control.cold_boot import Down, check_kept, cold_boot, enter, rails_off
from lab.control.power_edge import bound_ns
from lab.control.suspend_monitor import SuspendMonitor, answer_or_none
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import CONSOLE, RAILS, SHELL, WAKE_PIN
from lab.drivers.prompt import type_line
from lab.errors import ConfigurationError
from lab.rails import AdcRange, PhasePower, Sampler
from lab.rails.phase import check_sleep, cut
from lab.run.board import Board, Status

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
    _checked_modes: dict[str, tuple[PrintkSettings, SdkRelease | None]] = field(factory=dict, init=False)
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
                    monitor = self._suspending()
                    while self._now_ns() < monitor.watch.sent_ns + plan.sleep_s * 10**9:
                        monitor.step()
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
            self._monitor = monitor = self._send_command(plan, alarm_s)
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
        again = answer_or_none(lambda: read_again(shell, log))
        mcu_text = mcu.take() if mcu is not None else None
        power = self._asleep_power(monitor.watch)
        energy = self._power(cycle_ns(monitor.watch), whole=True) if monitor.watch.plan.energy else None
        no_power = why_no_mean(monitor.watch, power) if self._sampler is not None else ""
        after = answer_or_none(lambda: stats(shell, self.board.type))
        apart_s = (self._now_ns() - monitor.before_ns) / 1e9
        observed = Observed(
            monitor.printk, monitor.before, after, dmesg, mcu_text, power, energy, no_power, again, apart_s
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
        facts = answer_or_none(lambda: boot_facts(self.board.linux, self.board.type))
        check_kept(down, facts or ("", None), self._now_ns())
        self._down = None

    def _off(self) -> Down:
        if self._down is None:
            raise ConfigurationError("the board is not in a mode that is left by a boot: enter one first")
        return self._down

    def forget(self) -> None:
        """Forget all findings on a board that was switched off."""
        self._monitor = self._down = None
        self._checked_modes.clear()
        self._script = []

    def _send_command(self, plan: SuspendPlan, alarm_s: int) -> SuspendMonitor:
        """Arm, select and send the command that suspends the board."""
        shell, type_, console = self.board.linux, self.board.type, self.board.console
        printk, release = self._preflight(plan)
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
        script = commands(mode, printk, selection, rtc=type_.low_power.rtc, alarm_s=alarm, afterwards=afterwards)
        if script != self._script:
            install(shell, script)
            self._script = script
        taken = len(console.capture)
        watch = SuspendWatch(type_, plan, self._now_ns(), alarm_s)
        finders = [MomentFinder(moments(type_), self.board.timing())]
        type_line(console, SHELL, f"sh {FILE}")
        return SuspendMonitor(self.board, watch, finders, printk, before, before_ns, taken)

    def _preflight(self, plan: SuspendPlan) -> tuple[PrintkSettings, SdkRelease | None]:
        """Check once per boot and mode; sleep changes nothing of it."""
        if plan.mode not in self._checked_modes:
            shell, type_ = self.board.linux, self.board.type
            release = release_of(type_, self.release, "".join(shell.run("uname -r")[0]))
            fill_memory(shell)
            self._checked_modes[plan.mode] = (preflight(shell, type_, release, plan), release)
        return self._checked_modes[plan.mode]

    @contextmanager
    def _sampling(self, trace: Path | None, adc_range: AdcRange) -> Iterator[None]:
        """Sample the rails, where there are any and somebody wants their trace."""
        rails = self.board.rails
        if trace is None or rails is None:
            yield
            return
        self.board.activate(rails, RAILS)
        rails.check_clock()
        with rails.sampling(trace, adc_range) as sampler:
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

    def _now_ns(self) -> int:
        now_ns: int = self.board.power.clock.now_ns()
        return now_ns
