"""Check of a board before runs: power, console, medium, rails.

It uses the drivers of a run.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from attrs import define, field

from lab.boards.hardware import RAIL_OFF_V
from lab.console.model import Chunk, Lateness
from lab.console.published import PublishedPort
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import RAILS
from lab.drivers.prompt import uboot_prompt
from lab.errors import BoardlabError, BoardStableError, BoardTransientError, ConfigurationError, LabStableError
from lab.health.state import PARTS, CheckedPart
from lab.host.tcp import is_loopback
from lab.rails.selftest import NEAR
from lab.terminal import plain

TRIES: Final = 2  # of a boot that fails in a way that may pass
READ_MIB: Final = 8
READ_S: Final = 60.0  # a worn card still gives more than 1 MiB in 8 s
RAILS_S: Final = 10.0
_LOOK_S: Final = 0.05
KEPT_CHARACTERS: Final = 2000  # characters of the console that are kept of a part
_BUSY: Final = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
TOKEN: Final = "boardlab-echo"  # noqa: S105 - no secret: what the board is to say back

# By the beginning of a failure class: the part that it speaks of. All others speak of the boot.
_SPEAKS_OF: Final = (
    ("power", ("pdu_", "power_")),
    ("medium", ("no_boot_device", "rom_no_medium", "io_error", "wrong_medium", "mixed_boot", "strap_", "media_")),
    ("rails", ("rail",)),
    ("console", ("silent", "garbled", "console_", "no_console_server", "adapter_", "port_", "stamps_", "clock_")),
    ("console", ("login_failed", "shell_", "uboot_timeout", "other_board", "wrong_board", "prompt_unanswered")),
)


@define
class CheckUp:
    """Checks a board.

    Attributes:
        strategy: its BoardStrategy.
        say: tells a person a line.
        loads: this host may be kept busy for some seconds; no other board is measured on it.
        parts: what was found so far, by name.
    """

    strategy: Any
    say: Callable[[str], None]
    loads: bool = False
    parts: dict[str, CheckedPart] = field(factory=dict, init=False)
    _has_spoken: bool = field(default=False, init=False)

    def run(self) -> tuple[CheckedPart, ...]:
        """Check all parts in the order of PARTS; switch off.

        Returns the checked parts.

        Raises:
            ConfigurationError: the environment is wrong; nothing was checked.
        """
        try:
            self._at_a_prompt()
            if self.strategy.rails is not None and "power" not in self.parts:
                self._part("rails", self._rails)
            self._check_off()
        finally:
            with contextlib.suppress(BoardlabError):
                self.strategy.off()
        for name in PARTS:
            self.parts.setdefault(name, CheckedPart(name, "not tried"))
        if self.strategy.rails is None:
            self.parts["rails"] = CheckedPart("rails", "not tried", message="the environment has no sensors of rails")
        return tuple(self.parts[name] for name in PARTS)

    def _at_a_prompt(self) -> None:
        """Boot the board and type at Linux, else at U-Boot."""
        error = self._boot()
        if error is None:
            first = next(event for event in self.strategy.console.capture if isinstance(event, Chunk))
            first_byte_s = (first.t_ns - self.strategy.edge.requested_ns) / 1e9
            self._pass_part(
                "boot", f"it booted to its login prompt, its first byte {first_byte_s:.2f} s after power on"
            )
            if self.strategy.shell is None:
                self._pass_part("console", "it is heard; the environment has no ShellDriver to type with")
            else:
                self._part(
                    "console", lambda: self._check_echo(self.strategy.linux) + self._lateness(self.strategy.linux)
                )
            self._part("medium", self._medium)
            return
        name = part_of(error.failure)
        self._fail_part(name, error)
        if name == "boot" and error.fault == "board":
            self._part("console", self._echo_in_uboot)

    def _boot(self) -> BoardlabError | None:
        """Power-cycle, boot and log in; return the last error.

        A transient error has a second try.
        """
        for left in reversed(range(TRIES)):
            try:
                self.strategy.boot()
                self.strategy.identify()
            except ConfigurationError:
                raise
            except BoardlabError as error:
                self._has_spoken |= bool(self.strategy.console.captured())
                if not error.transient or not left:
                    return error
                self.say(f"{error} Once more.")
            else:
                self._has_spoken = True
                return None
        raise AssertionError  # the last try has returned

    def _echo_in_uboot(self) -> str:
        if self.strategy.uboot is None:
            return "it is heard; nothing could be typed, since it does not boot"
        try:
            self.strategy.off()
            self.strategy.switch_on()
            prompt = uboot_prompt(self.strategy.interrupt())
        except BoardTransientError as error:
            return f"it is heard; nothing could be typed, since it comes to no prompt ({error.failure})"
        return self._check_echo(prompt)

    def _check_echo(self, prompt: Any) -> str:
        lines, _errors, _status = prompt.run(f"echo {TOKEN}")
        if TOKEN not in "\n".join(lines):
            echoed = plain(" ".join(lines))[:80]
            raise LabStableError(
                f"`echo {TOKEN}` came back as {echoed!r}: characters are lost or changed on the line; look at its "
                "cable and ground",
                failure="console_echo",
            )
        info = self.strategy.console.info
        return f"typed text comes back; adapter: {info.meta.adapter}" if info is not None else "typed text comes back"

    def _lateness(self, prompt: Any) -> str:
        """Describe how late stamps were, at rest and with busy processors."""
        console = self.strategy.console
        if console.info is None:
            return ""
        text = f"; {console.info.meta.scheduling}: stamps at most {self._latest_ms(prompt):.2f} ms late at rest"
        if host_of(self.strategy) != socket.gethostname():
            return f"{text}, not measured with busy processors: the console is on another host"
        if not self.loads:
            return f"{text}, not measured with busy processors: other boards may be measured on this host"
        with busy_processors() as count:
            return f"{text}, {self._latest_ms(prompt):.2f} ms with {count} busy processors"

    def _latest_ms(self, prompt: Any) -> float:
        """The largest lateness of a stamp in ms: usual, or evidence."""
        console = self.strategy.console
        before = len(console.capture)
        prompt.run("dmesg")
        late_ns = [event.lateness_ns for event in console.capture[before:] if isinstance(event, Lateness)]
        usual_ns: int = console.info.meta.scheduling_ns
        return max([usual_ns, *late_ns]) / 1e6

    def _medium(self) -> str:
        """Read some of what the root file system is on."""
        name = self.strategy.medium
        booted = f"it booted from {name}"
        if self.strategy.shell is None:
            return booted
        lines, _errors, _status = self.strategy.linux.run("cat /proc/mounts")
        device = next((line.split()[0] for line in lines if line.split()[1:2] == ["/"]), "")
        if not device.startswith("/dev/") or device == "/dev/root":
            return booted  # e.g. UBI, which has read all that was used
        lines, errors, status = self.strategy.linux.run(
            f"dd if={device} of=/dev/null bs=1M count={READ_MIB} 2>&1", READ_S
        )
        if status != 0:
            output = plain(" ".join([*lines, *errors]))[:200]
            raise BoardStableError(
                f"{name} cannot be read: `dd` of {READ_MIB} MiB of {device} ended with {status}: {output!r}. Exchange "
                "the card, or write the medium anew (lab provision)",
                failure="io_error",
            )
        return f"{booted}, and {READ_MIB} MiB of {device} were read"

    def _rails(self) -> str:
        """Compare each rail with its nominal voltage or range.

        A scaled rail without a known range only has to be on.
        """
        volts = self._volts()
        nominal_v = {rail.name: rail.volts for rail in self.strategy.rails.config.measured}
        silent = [name for name in nominal_v if name not in volts]
        if silent:
            raise LabStableError(
                f"no sensor answers for {', '.join(silent)}: `lab rails selftest` says which address is silent",
                failure="rail_unread",
            )
        declared = (*self.strategy.type.rails, *self.strategy.rails.config.measured)
        scaled = {rail.name: rail.range_v for rail in declared if rail.scaled}
        wrong = [
            problem
            for name, nominal in nominal_v.items()
            if (problem := _rail_problem(name, volts[name], nominal, scaled.get(name)))
        ]
        if wrong:
            raise LabStableError(
                f"{'; '.join(wrong)} (within {NEAR:.0%} is in range). Look at its supply, and at the sensors: lab "
                "rails selftest",
                failure="rail_out_of_range",
            )
        free = [name for name in nominal_v if name in scaled]
        scaled_text = f"; {', '.join(free)}, which software scales, in range or on" if free else ""
        return f"{len(nominal_v) - len(free)} rails within {NEAR:.0%} of their nominal voltages{scaled_text}"

    def _check_off(self) -> None:
        """Switch off; a heard board falls silent, and rails fall."""
        if "power" in self.parts:
            return
        self._part("power", self._power)
        if not self._has_spoken and self.parts["power"].outcome == "ok" and self.strategy.rails is None:
            self.parts["power"] = CheckedPart(
                "power", "not tried", message="unknown: no byte came, and no rail is read"
            )

    def _power(self) -> str:
        volts = {} if self._has_spoken or self.strategy.rails is None else self._volts()
        is_up = self._has_spoken or max(volts.values(), default=0.0) >= RAIL_OFF_V
        if not is_up and self.strategy.rails is not None:
            raise LabStableError(
                f"{self.strategy.board} was switched on, and its rails are off. Is the outlet the board's, and does "
                "its relay move?",
                failure="power_on_ineffective",
            )
        ordered_ns = self.strategy.power.clock.now_ns()
        self.strategy.off()
        if self.strategy.rails is None:
            return "switched on it spoke, switched off it fell silent"
        silent_ns = self.strategy.power.clock.now_ns()
        always = {rail.name for rail in self.strategy.type.rails if rail.always_on}
        while left := {name: v for name, v in self._volts().items() if v >= RAIL_OFF_V and name not in always}:
            if self.strategy.power.clock.now_ns() - silent_ns >= self.strategy.type.timeouts.discharge_s * 1e9:
                break
            self.strategy.sleep(_LOOK_S)
        if left:
            readings = ", ".join(f"{name} {volts:.2f} V" for name, volts in left.items())
            raise LabStableError(
                f"{self.strategy.board} was switched off, and still has {readings}. Check that the outlet is the "
                "board's, that its relay moves, and that nothing else feeds it",
                failure="power_off_ineffective",
            )
        fell_s = (self.strategy.power.clock.now_ns() - ordered_ns) / 1e9
        return f"its rails came with power on, and had fallen {fell_s:.1f} s after power off"

    def _volts(self) -> Mapping[str, float]:
        rails = self.strategy.rails
        volts: dict[str, float] = guarded_calls.call(rails, RAILS, "read", rails.volts, RAILS_S)
        return volts

    def _part(self, name: str, work: Callable[[], str]) -> None:
        try:
            self._pass_part(name, work())
        except ConfigurationError:
            raise
        except BoardlabError as error:
            self._fail_part(name, error)

    def _pass_part(self, name: str, message: str) -> None:
        self.say(f"{name}: {message}")
        self.parts[name] = CheckedPart(name, "ok", message=message)

    def _fail_part(self, name: str, error: BoardlabError) -> None:
        self.say(f"{name}: FAILED ({error.failure}, {error.fault}): {error}")
        output = self.strategy.console.captured()[-KEPT_CHARACTERS:].decode("latin-1")
        lines = "\n".join(plain(line) for line in output.splitlines())
        self.parts[name] = CheckedPart(name, "failed", error.failure, error.fault, plain(str(error)), lines)


@contextmanager
def busy_processors() -> Iterator[int]:
    """Keep each processor busy with an ordinary program; their number."""
    count = len(os.sched_getaffinity(0))
    programs = [subprocess.Popen([sys.executable, "-I", "-c", _BUSY]) for _ in range(count)]
    try:
        yield count
    finally:
        for program in programs:
            program.kill()
            program.wait()


def _rail_problem(name: str, volts: float, nominal: float, scaled: Sequence[float] | None) -> str:
    """Problem of a rail's reading; empty: none.

    `scaled`: its range, empty: unknown; None: it is fixed.
    """
    if scaled is not None and not scaled:
        return "" if volts >= RAIL_OFF_V else f"{name} reads {volts:.3f} V, it is off"
    low, high = scaled or (nominal, nominal)
    if low - NEAR * low <= volts <= high + NEAR * high:
        return ""
    expected = f"software sets it from {low:g} to {high:g} V" if scaled else f"nominal {nominal:g} V"
    return f"{name} reads {volts:.3f} V, {expected}"


def part_of(failure: str) -> str:
    """Part of PARTS that a failure class belongs to."""
    return next((part for part, classes in _SPEAKS_OF if failure.startswith(classes)), "boot")


def host_of(strategy: Any) -> str:
    """Host of a board's console, by one name everywhere.

    The port's exporter names it. Its address is no name: on loopback a port is reached through ssh.
    """
    console = strategy.console
    published = PublishedPort.of(getattr(getattr(console, "port", None), "extra", None) or {})
    if published is not None and not is_loopback(published.host):
        return published.host
    return str(getattr(console, "elsewhere", "")) or socket.gethostname()
