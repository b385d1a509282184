"""A digital output that is a command of the host: what no driver of labgrid can do, e.g. a CAN frame."""

from __future__ import annotations

import subprocess

import attr
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.protocol import DigitalOutputProtocol
from labgrid.step import step

from lab.errors import ConfigurationError, LabTransientError


def _words(_instance: object, attribute: object, words: object) -> None:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ConfigurationError(f"CommandOutputDriver: {getattr(attribute, 'name', '')} must be a list of words")


@target_factory.reg_driver
@attr.s(eq=False)
class CommandOutputDriver(Driver, DigitalOutputProtocol):
    """CommandOutputDriver - runs a command of the host when it is asserted or deasserted.

    Args:
        asserted (list): program and arguments, e.g. [cansend, can0, "123#00"]; no shell is between
        deasserted (list): the same; empty: nothing is done
        timeout (float): seconds until it must have ended
    """

    asserted: list[str] = attr.ib(validator=_words)
    deasserted: list[str] = attr.ib(factory=list, validator=_words)
    timeout: float = attr.ib(default=5.0, validator=attr.validators.instance_of(float))
    _status: bool = attr.ib(default=False, init=False)

    @Driver.check_active
    @step(args=["status"])
    def set(self, status: bool) -> None:
        """Run the command.

        Raises:
            ConfigurationError: there is no such program.
            LabTransientError: it failed, or did not end in time.
        """
        words = self.asserted if status else self.deasserted
        if words:
            self._run(words)
        self._status = status

    @Driver.check_active
    @step(result=True)
    def get(self) -> bool:
        """What was set last."""
        return self._status

    def _run(self, words: list[str]) -> None:
        shown = " ".join(words)
        try:
            done = subprocess.run(words, check=False, capture_output=True, timeout=self.timeout, text=True)
        except subprocess.TimeoutExpired as error:
            raise LabTransientError(
                f"{shown}: did not end within {self.timeout:g} s", failure="output_failed"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"{shown}: {error.strerror}; mend CommandOutputDriver in the env") from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise LabTransientError(f"{shown}: exit status {done.returncode}: {last}", failure="output_failed")
