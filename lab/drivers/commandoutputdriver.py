"""A digital output that is a command of a host.

It does what no driver of labgrid can do, e.g. a CAN frame, or a strap of another host.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import attr
from labgrid.driver import Driver
from labgrid.exceptions import NoStrategyFoundError
from labgrid.factory import target_factory
from labgrid.protocol import DigitalOutputProtocol
from labgrid.step import step

from lab.drivers.railsdriver import AT_CONSOLE
from lab.drivers.stampedconsoledriver import StampedConsoleDriver
from lab.errors import ConfigurationError, LabTransientError
from lab.host.runtime import prepare, runtime_dir
from lab.host.ssh import SshLink

_ASSERTED: Final = {"1": True, "0": False}
_NO_PROGRAM: Final = 127  # of the shell that sshd starts


def _command(_instance: object, attribute: object, command: object) -> None:
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise ConfigurationError(f"CommandOutputDriver: {getattr(attribute, 'name', '')} must be a list of words")


@target_factory.reg_driver
@attr.s(eq=False)
class CommandOutputDriver(Driver, DigitalOutputProtocol):
    """CommandOutputDriver - runs a host's command when asserted or deasserted.

    Args:
        asserted (list): program and arguments, e.g. [cansend, can0, "123#00"]; no shell is between
        deasserted (list): the same; empty: nothing is done
        reads (list): the same, which prints 1 where it is asserted, else 0, e.g. [gpioget, gpiochip0, "4"]; empty: the
            last set value counts
        at (str): the host that it runs on: empty, this one; "console", that of the board's console, through ssh
        timeout (float): seconds until it must have ended
    """

    asserted: list[str] = attr.ib(validator=_command)
    deasserted: list[str] = attr.ib(factory=list, validator=_command)
    reads: list[str] = attr.ib(factory=list, validator=_command)
    at: str = attr.ib(default="", validator=attr.validators.in_(["", AT_CONSOLE]))
    timeout: float = attr.ib(default=5.0, validator=attr.validators.instance_of(float))
    _status: bool = attr.ib(default=False, init=False)
    _link: SshLink | None = attr.ib(default=None, init=False)

    def on_activate(self) -> None:
        self._link = link_of(self.target, "CommandOutputDriver") if self.at == AT_CONSOLE else None

    @property
    def needs_s(self) -> float:
        """Time for ssh to connect or to report its error.

        A strap's limit must not end before.
        """
        return 0.0 if self._link is None else self._link.needs_s(self.timeout)

    @Driver.check_active
    @step(args=["status"])
    def set(self, status: bool) -> None:
        """Run the command.

        Raises:
            ConfigurationError: there is no such program.
            LabTransientError: it failed, or did not end in time; or ssh does not reach the host.
        """
        command = self.asserted if status else self.deasserted
        if command:
            self._run(command)
        self._status = status

    @Driver.check_active
    @step(result=True)
    def get(self) -> bool:
        """Return the state that `reads` prints, else the last set one.

        Raises:
            As `set`; LabTransientError: `reads` prints something else.
        """
        if not self.reads:
            return self._status
        printed = self._run(self.reads).strip()
        if printed not in _ASSERTED:
            raise LabTransientError(
                f"{self._label(self.reads)}: expected 1 or 0, and it printed {printed[:80]!r}", failure="output_failed"
            )
        return _ASSERTED[printed]

    def _label(self, command: list[str]) -> str:
        """For a message."""
        return " ".join(command) + (f" on {self._link.host}" if self._link is not None else "")

    def _run(self, command: list[str]) -> str:
        label = self._label(command)
        try:
            if self._link is None:
                done = subprocess.run(command, check=False, capture_output=True, timeout=self.timeout, text=True)
            else:
                done = self._link.ran(command, self.timeout)
        except subprocess.TimeoutExpired as error:
            raise LabTransientError(
                f"{label}: did not end within {self.timeout:g} s", failure="output_failed"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"{label}: {error.strerror}; mend CommandOutputDriver in the env") from error
        if self._link is not None and done.returncode == _NO_PROGRAM:
            raise ConfigurationError(f"{label}: there is no such program; mend CommandOutputDriver in the env")
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise LabTransientError(f"{label}: exit status {done.returncode}: {last}", failure="output_failed")
        return done.stdout


def console_of(target: Any) -> StampedConsoleDriver | None:
    """Console of a target's strategy; None: none that names its host."""
    try:
        console = getattr(target.get_strategy(), "console", None)
    except NoStrategyFoundError:
        return None
    return console if isinstance(console, StampedConsoleDriver) else None


def link_of(target: Any, what: str) -> SshLink | None:
    """ssh connection to the console's host; None: it is this host.

    Args:
        what: the caller's name, for messages.

    Raises:
        ConfigurationError: the console does not name its host.
    """
    console = console_of(target)
    if console is None:
        raise ConfigurationError(
            f"{what}: `at: console` needs a BoardStrategy with a StampedConsoleDriver as its console"
        )
    if not console.elsewhere:
        return None
    return SshLink.to(console.elsewhere, prepare(Path(console.runtime) if console.runtime else runtime_dir()))
