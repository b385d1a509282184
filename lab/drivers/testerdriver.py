"""TesterDriver: commands on the PC at a board's links.

Any program that takes commands will do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import attr
from labgrid.driver import Driver
from labgrid.driver.commandmixin import CommandMixin
from labgrid.factory import target_factory
from labgrid.protocol import CommandProtocol
from labgrid.step import step

from lab.errors import ConfigurationError, LabTransientError


@target_factory.reg_driver
@attr.s(eq=False)
class TesterDriver(CommandMixin, Driver, CommandProtocol):
    """TesterDriver - a host that runs commands for a board's tests

    Where the tester is this lab host, the program is a shell; another PC is reached with ssh, or with labgrid's
    SSHDriver in this one's place.

    Args:
        command (list): a program and its first arguments; the command line to run follows as one more argument.
            Default: ["sh", "-c"]
    """

    __test__ = False  # pytest must not collect it by its name
    command: list[str] = attr.ib(factory=lambda: ["sh", "-c"], validator=attr.validators.instance_of(list))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self.command or not all(isinstance(word, str) for word in self.command):
            raise ConfigurationError(
                f"TesterDriver: command: expected a list of words such as [ssh, tester], got {self.command!r}"
            )

    @Driver.check_active
    @step(args=["cmd"], result=True)
    def run(
        self, cmd: str, timeout: float = 30.0, codec: str = "utf-8", decodeerrors: str = "strict"
    ) -> tuple[list[str], list[str], int]:
        """Run a command: lines of output, of errors, and exit status.

        Raises:
            LabTransientError: it did not end in time.
            ConfigurationError: the program cannot be started.
        """
        try:
            program = self.command[0]
            # our own Python's folder has `lab` when no environment was activated
            path = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
            done = subprocess.run(
                [shutil.which(program, path=path) or program, *self.command[1:], cmd],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabTransientError(
                f"`{cmd}` did not end on the tester within {timeout:g} s; is the "
                "board's link up, and its server running?",
                failure="tester_timeout",
            ) from error
        except OSError as error:
            raise ConfigurationError(
                f"TesterDriver: {self.command[0]}: {error.strerror}; mend `command` in the env"
            ) from error
        out, err = (text.decode(codec, decodeerrors).splitlines() for text in (done.stdout, done.stderr))
        return out, err, done.returncode

    def get_status(self) -> int:
        """Always ready: it holds nothing open."""
        return 1
