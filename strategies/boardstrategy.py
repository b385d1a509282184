"""BoardStrategy: verified states off, bootloader and linux of a medium.

Environments import this file by its path, and a lab may change its copy; `lab.control` is the library that it uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attr
from labgrid.binding import BindingState
from labgrid.exceptions import NoResourceFoundError
from labgrid.factory import target_factory
from labgrid.step import step
from labgrid.strategy import Strategy
from pexpect import TIMEOUT

from lab import boards
from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.benchmarks.identity import BoardIdentity, check_board, identify
from lab.benchmarks.lowpower.modes import SuspendPlan, wake_of
from lab.boards import BoardType
from lab.console.holders import explaining_shared_port
from lab.console.model import LineTiming
from lab.control.boot_progress import adapter_fed, check_still_off, falls_silent, follow
from lab.control.lost_power import explain_silence
from lab.control.lowpower import LowPower
from lab.control.place_holders import PlaceHolders
from lab.control.power_edge import bound_ns, prepare_rails, rails_at_power_on, relate, widen
from lab.control.provisioning import check_expected, writing
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import ACTIVATE_LIMIT_S, CONSOLE, POWER, SHELL, STRAP, UBOOT, DriverRole
from lab.drivers.powerdriver import switch_of
from lab.drivers.prompt import Prompt, type_line, type_question
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError, LabStableError, LabTransientError
from lab.host.clock import utc_now
from lab.provision.provisioning import Provisioner
from lab.provision.release import Recovery, read_answer
from lab.provision.writer import ProvisionProtocol, Writer
from lab.run.board import Status

OFF_ATTEMPTS = 2


@target_factory.reg_driver
@attr.s(eq=False)
class BoardStrategy(Strategy):
    """BoardStrategy - power, boot medium, U-Boot and Linux of one board.

    Args:
        board_type (str): a type of lab/boards, e.g. "am62xx_sk"
        board (str): this board's own name, e.g. its serial number
        identity (str): what tells this board from others of its type: its device tree's serial-number, or a MAC
            address
        medium (str): what it boots from unless told otherwise; default the first of the board type
        security (str): the state of its device, "gp", "hs-fs" or "hs-se", where a release file says one
        wake (str): what wakes it from a low-power state, of lab.boards.WAKE_SOURCES; default: what is usual for the
            mode
        jumpers (list): positions of jumpers that modes of its type need, as the type says them; they are set so

    Beside `off`, `bootloader` and `linux` its states are the low-power modes of its type; `low_power` does more with
    them; and `provisioned`: what `putting` says is on its media, and it is off; and `ram_linux`: a Linux in its
    memory, as a driver that writes says.

    It can be used again after a failure: nothing is remembered but that the state is unknown.

    Attributes:
        lives: it was seen to live, and nothing has been done to it since; so silence after power off means that it is
            off.
        on_at: when it was switched on last, seconds since 1970.
        edge: the same on the console's clock.
        from_nothing: brings a board without software to U-Boot's prompt, in place of its medium; see
            lab.control.provisioning.recover_by.
        ram_linux: starts a Linux in its memory, of the files in `recovery` or others; see
            lab.drivers.linuxwriterdriver.
    """

    bindings = {
        "power": "PowerProtocol",
        "console": "StampedConsoleDriver",
        "boot_mode": {"BootModeDriver", "AutomationBootModeDriver", None},
        "uboot": {"UBootDriver", None},
        "shell": {"ShellDriver", None},
        "mcu": {"SideConsoleDriver", None},
        "wake_pins": {"WakePinsDriver", None},
        "rails": {"RailsDriver", None},
    }

    board_type: str = attr.ib(validator=attr.validators.instance_of(str))
    board: str = attr.ib(validator=attr.validators.instance_of(str))
    identity: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    medium: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    security: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    wake: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    jumpers: list[str] = attr.ib(factory=list, validator=attr.validators.instance_of(list))
    status: Status = attr.ib(default=Status.unknown, init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.power: Any = switch_of(self.power, self.board)  # any PowerProtocol: with its instants, and with limits
        self.type: BoardType = boards.load(self.board_type)
        self._off_ns = 0
        self.lives = False
        self.on_at = 0.0
        self.edge: PowerEdge | None = None
        self._off_ordered = False  # and not verified yet
        self._off_verified = False
        self._off_bytes = 0  # of the console's capture, when the board was off
        self.software: dict[str, str] = {}
        self.low_power = LowPower(self)
        self.putting: Provisioner | None = None
        self.from_nothing: Callable[[Any], None] | None = None
        self.ram_linux: Callable[[Any], None] | None = None
        self.recovery = Recovery()
        self.expected: Mapping[str, Mapping[str, str]] = {}
        self.places = PlaceHolders(self.target)
        self.medium = self.medium or next(iter(self.type.media))
        self.select_medium(self.medium)
        self.console.board = self.board
        self.sleep: Callable[[float], None] = time.sleep

    @property
    def media(self) -> list[str]:
        """Selectable media: all of the board type, or without straps one."""
        return [self.medium] if self.boot_mode is None else list(self.type.media)

    @property
    def wired(self) -> list[str]:
        """The environment's wake-up sources, beside the RTC and the console."""
        pins = [] if self.wake_pins is None else list(self.wake_pins.pins)
        return pins if self.mcu is None else [*pins, "mcu"]

    def check_medium(self, medium: str) -> None:
        """Refuse a medium that cannot be selected.

        Raises:
            ConfigurationError: the board type has no such medium, or no straps are wired to select another one.
        """
        if medium not in self.type.media:
            raise ConfigurationError(
                f"board type {self.type.name} has no medium {medium!r}; it has: {', '.join(self.type.media)}"
            )
        if medium not in self.media:
            raise ConfigurationError(
                f"medium {medium!r} cannot be selected: the env has no BootModeDriver, and the switches are taken to "
                f"be set to {self.medium!r} (BoardStrategy: medium). Name only this one, or set the switches and name "
                "their medium there"
            )

    def select_medium(self, medium: str) -> None:
        """Boot from `medium` at the next power on.

        Raises:
            ConfigurationError: see `check_medium`.
        """
        self.check_medium(medium)
        if medium != self.medium:
            self.medium = medium
            self.status = Status.unknown

    def check_lab(self) -> None:
        """Reach the console and the power switch; the board stays untouched.

        Raises:
            LabError: one of them is missing or in use, or the board's place is another's.
        """
        self.places.check()
        self.activate(self.console, CONSOLE)
        self.activate(self.power.driver, POWER)
        relate(self.console, self.power, self.wake_pins)

    @step(args=["status"])
    def transition(self, status: Status | str) -> None:
        """Bring the board into `status`, if needed by a power cycle.

        Raises:
            BoardlabError: by whose fault it failed; the status is unknown then.
        """
        status = Status.of(status)
        if status is Status.unknown:
            raise ConfigurationError("a board cannot be brought into the state 'unknown'")
        if status is self.status and not self._lacks_shell:
            return
        try:
            with explaining_shared_port(self.console):
                self._bring(status)
        except BaseException:
            self.status = Status.unknown
            raise
        self.status = status

    def _bring(self, status: Status) -> None:
        match status:
            case Status.off:
                self.off()
            case Status.bootloader:
                self._to_bootloader()
            case Status.linux:
                self._to_linux()
            case Status.provisioned:
                self.provision()
            case Status.ram_linux:
                if self.ram_linux is None:
                    raise ConfigurationError(
                        "nothing says which Linux shall run in the board's memory: give `boot_from: ram` to a "
                        "LinuxWriterDriver of the env"
                    )
                self._to_bootloader()
                self.ram_linux(self)
            case _:
                wake = self.wake
                if not wake and status.name in self.type.sleep:
                    wake = wake_of(self.type, status.name, "uart", self.wired)
                self.low_power.enter(SuspendPlan(status.name, wake))

    def _to_bootloader(self) -> None:
        if self.from_nothing is not None:
            self.from_nothing(self)
            return
        self.off()
        self.switch_on()
        self.interrupt()

    def _to_linux(self) -> None:
        self.bound("shell", "ShellDriver")
        if self.status.asleep and self.type.low_power.modes[self.status.name].boots:
            self.low_power.cold_boot()
        elif self.status.asleep:
            self.low_power.wake()
            self.low_power.finish()
            return
        elif self.status is not Status.linux:
            self.boot()
        self._log_in()
        if self.identity:
            self._read_identity()

    @step(args=["status"])
    def force(self, status: Status | str) -> None:
        """Assume that the board is in `status`, e.g. by hand."""
        status = Status.of(status)
        self.check_lab()
        if status is Status.bootloader:
            self.activate(self.bound("uboot", "UBootDriver"), UBOOT)
        elif status is Status.linux:
            self.activate(self.bound("shell", "ShellDriver"), SHELL)
        self.status = status

    @step()
    def order_off(self) -> None:
        """Order the power off of a board that lives; `off` verifies it, and the caller uses the time between.

        A switch that does not obey is `off`'s matter.
        """
        if not self.lives:
            return
        self.status = Status.unknown
        with suppress(BoardlabError):
            self.check_lab()
            self.power.off()
            self._off_ns = self.power.clock.now_ns()
            self._off_ordered = True

    @step()
    def off(self) -> None:
        """Switch off and verify it by the console's silence.

        Raises:
            LabStableError: the board is still there after the second try (a stuck relay, a second supply).
        """
        self.status = Status.unknown
        self.low_power.forget()
        for driver in (self.uboot, self.shell):
            if driver is not None:
                guarded_calls.deactivate(driver, CONSOLE)
        self.check_lab()
        # A loss of the adapter before the order is no sign of one that the board feeds.
        spoke = not self._off_ordered and self.console.catch_up()
        # A board that was silent anyway shows nothing by its silence.
        lived = self.lives or spoke or self.console.answers(self.type.timeouts.off_silence_s / 2)
        self.lives = False
        for _ in range(OFF_ATTEMPTS):
            if not self._off_ordered:
                self.power.off()
                self._off_ns = self.power.clock.now_ns()
            self._off_ordered = False
            with adapter_fed(self.console, self.board):
                silent = falls_silent(self) and not self.console.answers(self.type.timeouts.off_silence_s / 2)
            if silent:
                self.status = Status.off
                self._off_verified = lived
                self._off_bytes = len(self.console.captured())
                return
        raise LabStableError(
            f"{self.board} is still alive after power off ({OFF_ATTEMPTS} tries): {self.tail()!r} came on its "
            "console. Check that the outlet is the board's, that its relay moves, that no USB cable feeds the board, "
            "and pdudaemon's log: its localcmdline says OK also where the command failed",
            failure="power_off_ineffective",
        )

    @step()
    def boot(
        self, init: str = "", *, arguments: str = "", at_uboot: Callable[[Prompt], None] | None = None
    ) -> BootWatch:
        """Power-cycle and boot from `medium` to the login prompt.

        The console is not touched on the way. The status is `unknown` afterwards, without a login;
        `transition("linux")` does both.

        Args:
            init: the kernel's init in place of the default, e.g. "/bin/sh"; it is set at U-Boot's prompt.
            arguments: more of the kernel's command line, set there, too.
            at_uboot: asks or sets U-Boot before that.

        Returns:
            the finished boot; the console's `capture` holds its bytes from before power on.

        Raises:
            BoardlabError: by whose fault it failed. ConfigurationError: the board type has no `init`, or the
            env has no UBootDriver.
        """
        self.status = Status.unknown
        prepare_rails(self)
        self.off()
        if init or arguments or at_uboot is not None:
            edge = self.switch_on()
            self._set_arguments(init, arguments, at_uboot)
        else:
            with rails_at_power_on(self) as add_rise:
                edge = self.edge = add_rise(self.switch_on())
        watch = BootWatch(self.type, self.medium, edge)
        with explaining_shared_port(self.console):
            follow(self, watch, taken=0)
        self.software = dict(watch.software)
        check_expected(self)
        return watch

    def _set_arguments(self, init: str, arguments: str, at_uboot: Callable[[Prompt], None] | None) -> None:
        """Set the kernel's init or arguments at U-Boot's prompt after power on, and boot."""
        variable, has_init, value = self.type.init.partition("=")
        if (init or arguments) and not has_init:
            raise ConfigurationError(
                f"board type {self.type.name} does not say how its kernel is given another init: add `init` to "
                "lab/boards/types, e.g. init = 'optargs=init={init}'"
            )
        uboot = self.interrupt()
        prompt = Prompt(uboot, UBOOT)
        if at_uboot is not None:
            at_uboot(prompt)
        if init or arguments:
            words = value.format(init=init) if init else f"${{{variable}}}"
            quote = "'" if init else '"'
            prompt.run_check(f"setenv {variable} {quote}{words} {arguments}".rstrip() + quote)
        guarded_calls.deactivate(uboot, UBOOT)
        type_line(self.console, UBOOT, "boot")

    def timing(self) -> LineTiming:
        """Uncertainty of the console's stamps."""
        self.activate(self.console, CONSOLE)
        timing: LineTiming = self.console.info.meta.timing
        return timing

    def switch_on(self, boot_mode: int | None = None) -> PowerEdge:
        """Switch the board on, from its medium or with other boot-mode pins.

        Raises:
            LabError: it printed while it was off, or a switch or strap did not obey.
        """
        if self.boot_mode is not None:
            self.activate(self.boot_mode, STRAP)
            self.boot_mode.set(self.type.media[self.medium].boot_mode if boot_mode is None else boot_mode)
        discharged_ns = self._off_ns + round(self.type.timeouts.discharge_s * 1e9)
        self.sleep(max(0, discharged_ns - self.power.clock.now_ns()) / 1e9)
        if self.status is Status.off:
            check_still_off(self, self._off_bytes)
        self.console.start_capture()
        relate(self.console, self.power, self.wake_pins)  # anew after a jump of the console's clock
        self.status, self._off_ordered = Status.unknown, False
        self.on_at = utc_now().timestamp()
        self.power.on()
        self.edge = attr.evolve(widen(self.power.edge, self.power.clock), off_verified=self._off_verified)
        return self.edge

    @step()
    def reboot(self) -> None:
        """Have Linux reboot; the board starts again without a power cycle, and its status is unknown.

        The console's capture begins with the command.

        Raises:
            BoardlabError: Linux is not reached.
        """
        self.transition(Status.linux)
        guarded_calls.deactivate(self.bound("shell", "ShellDriver"), SHELL)
        self.console.start_capture()
        self.status = Status.unknown
        type_line(self.console, SHELL, "reboot")

    def interrupt(self) -> Any:
        """Stop a starting board at U-Boot's prompt; return the UBootDriver."""
        uboot = self.bound("uboot", "UBootDriver")
        missed = f"{self.board} did not reach its U-Boot prompt from {self.medium}"
        self.activate(uboot, UBOOT, BoardTransientError(missed, failure="autoboot_missed"))
        self.lives = True
        return uboot

    def provision(self) -> None:
        """Put on the board's media what `putting` says, and switch it off.

        Raises:
            As of `first_boot`.
        """
        self.first_boot()
        self.off()

    @step()
    def first_boot(self) -> None:
        """Put on the board's media what `putting` says; each has booted once then, the last one runs.

        Raises:
            ConfigurationError: nothing is to be put on it.
            BoardlabError: as of lab.provision.provisioning.Provisioner.put.
        """
        if self.putting is None:
            raise ConfigurationError(
                "nothing says which release to put on the board: give --lab-provision FILE, or set "
                "`strategy.putting` first"
            )
        self.putting.turn = partial(writing, self.board, self.console.local_device, self.putting.say)
        self.expected = {}  # of what was on it before
        self.putting.put(self)

    def writers(self) -> dict[str, Writer]:
        """Writer of each medium, from the first driver that writes it."""
        writers: dict[str, Writer] = {}
        for driver in self.target.drivers:
            if isinstance(driver, ProvisionProtocol):
                for medium, writer in driver.writers(self).items():
                    writers.setdefault(medium, writer)
        return writers

    def booted(self, medium: str, questions: Mapping[str, str]) -> dict[str, str]:
        """Boot from a medium and run queries at the prompt.

        Without a ShellDriver there are no answers.

        Returns: "uboot" and "kernel" -> the version line, and name -> answer.

        Raises:
            BoardlabError: it did not boot, or the login failed.
        """
        self.select_medium(medium)
        if self.shell is None:
            self.boot()
            return dict(self.software)
        self.off()
        self.transition("linux")
        answers = dict(self.software)
        for name, command in questions.items():
            lines, _errors, _status = self.linux.run(f"{command} 2>/dev/null")
            answers[name] = read_answer(name, "\n".join(lines))
        return answers

    def identify(self) -> BoardIdentity | None:
        """Log in to a booted board and read its identity.

        Returns:
            None: the env has no ShellDriver.

        Raises:
            BoardTransientError: the login failed.
            LabStableError: it is another one than the env says.
        """
        if self.shell is None:
            return None
        self._log_in()
        identity = self._read_identity()
        self.status = Status.linux
        return identity

    def asked(
        self, question: str, is_whole: Callable[[Sequence[str]], bool] | None = None
    ) -> tuple[int, list[str]] | None:
        """Log in to a booted board if needed, and run a command.

        Args:
            is_whole: tells a whole answer; such a question is typed at the shell without a ShellDriver's marks.

        Returns:
            the console's clock before it, in ns, and the lines of the answer; None: the env has no ShellDriver.

        Raises:
            BoardlabError: the login failed, or the shell does not answer.
        """
        if self.shell is None:
            return None
        if self.status is not Status.linux:
            if not (is_whole and self._log_in_by_name()):
                self._log_in()
            self.status = Status.linux
        clock = self.power.clock
        asked_ns = clock.now_ns() - bound_ns(clock)
        try:
            if is_whole is None:
                return asked_ns, self.linux.run(question)[0]
            with explain_silence(self, rails=False):
                return asked_ns, type_question(self.console, SHELL, question, self.shell.prompt, is_whole)
        except BaseException:
            self.status = Status.unknown
            raise

    def _log_in_by_name(self) -> bool:
        """Log in by the user's name alone; False: it needs more, or the shell's prompt does not come."""
        if self.shell.password or self.type.prompts.password:
            return False

        def type_name() -> bool:
            self.console.sendline(self.shell.username)
            return bool(self.console.expect([TIMEOUT, self.shell.prompt], timeout=self.shell.await_login_timeout)[0])

        return guarded_calls.call(self.console, SHELL, "log in", type_name, ACTIVATE_LIMIT_S)

    def _log_in(self) -> None:
        """Activate the ShellDriver of a board that waits at its login prompt."""
        shell = self.shell
        if shell.password is None:  # else labgrid gives up with a bare Exception when `login` asks for one
            shell.password = self.type.prompts.password
        # The prompt has been read to time it; the shell driver must see it too.
        self.console.unread(self.console.captured().rsplit(b"\n", 1)[-1])
        failed = f"{self.board} booted from {self.medium}, but the login failed"
        self.activate(shell, SHELL, BoardTransientError(failed, failure="login_failed"))

    def _read_identity(self) -> BoardIdentity:
        """Read the identity at an open shell; refuse another board."""
        try:
            identity = identify(self.linux)
        except BoardTransientError as error:
            raise BoardTransientError(
                f"{self.board} does not say which board it is: {error}; the last it said was {self.tail()!r}",
                failure="login_failed",
            ) from error
        check_board(identity, self.board, frozenset({self.identity} if self.identity else ()), "the env")
        return identity

    def activate(self, driver: Any, kind: DriverRole, late: BoardTransientError | None = None) -> None:
        """Activate a driver and its bindings, with a time limit.

        Args:
            late: raised, with the console's last words, where the driver's prompt does not come in time.

        Raises:
            BoardlabError: nothing is plugged in that fits, or as of `guarded_calls.call`.
        """

        def work() -> None:
            try:
                self.target.activate(driver)
            except NoResourceFoundError as error:
                raise LabStableError(
                    f"{self.board}: nothing is plugged in that fits {guarded_calls.missing(error)}. Is the adapter "
                    "connected, and fed by the host (one that the board feeds is there only while the board is on), "
                    "and its `match` in the env right? `udevadm info -q property /dev/ttyUSB0` shows what to match",
                    failure="adapter_missing",
                ) from error
            except TIMEOUT as error:
                if self.console.lost:
                    raise LabTransientError(f"{self.board}: {self.console.lost}", failure="characters_lost") from error
                if late is None:
                    raise
                message = f"{late}; the last it said was {self.tail()!r}"
                raise BoardTransientError(message, failure=late.failure) from error

        with explain_silence(self):
            guarded_calls.call(driver, kind, "activate", work, ACTIVATE_LIMIT_S + getattr(driver, "login_timeout", 0))

    @property
    def _lacks_shell(self) -> bool:
        """True if `asked` has logged in, and the ShellDriver is not active."""
        return self.status is Status.linux and self.shell is not None and self.shell.state is not BindingState.active

    @property
    def linux(self) -> Prompt:
        """The shell of a board whose status is `linux`."""
        if self._lacks_shell:
            self.transition(Status.linux)
        return Prompt(self.bound("shell", "ShellDriver"), SHELL, lambda: explain_silence(self, rails=False))

    def tail(self) -> str:
        """The last that the console said, for messages."""
        tail: bytes = self.console.captured()[-120:]
        return tail.decode("latin-1").strip()

    def bound(self, name: str, driver: str) -> Any:
        """A driver that the environment must have.

        Raises:
            ConfigurationError: it has none.
        """
        bound_driver = getattr(self, name)
        if bound_driver is None:
            raise ConfigurationError(f"the env has no {driver}: add one to the target's drivers")
        return bound_driver
