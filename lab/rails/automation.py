"""TI's Automation Interface on the board's test header (MSP432 or XDS110).

A line-oriented command interpreter at 115200 Bd; it echoes what is typed, one character at a time, and ends each
answer with the prompt `=>`. Source of commands and answers: its firmware, automation_interface.c.
"""

from __future__ import annotations

import math
import os
import re
import select
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.host import devices, locks
from lab.host.devices import DeviceIdentity
from lab.rails.config import RailConfig, RailsConfig
from lab.rails.ina_chips import CHIPS
from lab.rails.model import AdcRange, Channel, SampleSchedule, SensorReading, TraceMark

PROMPT: Final = b"=>\r\n"
ANSWER_S: Final = 10.0
_NUMBER: Final = r"\s*(-?\d+(?:\.\d+)?)\s*\|"
_ROW: Final = re.compile(rf"^\|\s*\d+\s*\|\s*(\w+)\s*\|{_NUMBER * 4}")
_ECHO_S: Final = 1.0
_OTHERS_S: Final = 60.0  # for the commands of other programs, each of which its watchdog bounds
_ITERATIONS: Final = {AdcRange.ACTIVE: 1, AdcRange.SLEEP: 20}  # samples of the firmware in one of ours
_PAUSE_MS: Final = 10  # between two of them
NOMINAL_MOHM: Final = 10.0
_CHIP: Final = CHIPS["ina226"]  # that the firmware drives
_FAILED: Final = re.compile(r"ERROR: .*|Error: .*|Command .* not valid .*|auto set dut .* must be called first.*")


@frozen
class AutomationRow:
    """A rail of a measurement, in the units of the table."""

    rail: str
    shunt_uv: float
    volts: float
    milliampere: float
    milliwatt: float

    @property
    def shunt_mohm(self) -> float:
        """The firmware's shunt; a nominal one if the row does not tell."""
        mohm = self.shunt_uv / self.milliampere if self.milliampere else 0.0
        return mohm if math.isfinite(mohm) and mohm > 0 else NOMINAL_MOHM


class AutomationInterface:
    """One interface, shared by processes: each command locks the port, and goes to the adapter of the first one."""

    def __init__(self, port: str) -> None:
        self.port = port
        self._identity: DeviceIdentity | None = None

    def command(self, text: str, seconds: float = ANSWER_S) -> list[str]:
        """Send a command and return the lines of its answer.

        Raises:
            ConfigurationError: no such port.
            LabTransientError: no answer.
            LabStableError: the interface refuses the command, or another device has its port.
        """
        with self._line() as fd:
            self._type(fd, text)
            output = b""
            deadline = time.monotonic() + seconds
            while not output.endswith(PROMPT):
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0 or not select.select([fd], [], [], remaining_s)[0]:
                    raise LabTransientError(
                        f"{self.port}: no prompt within {seconds:.0f} s after {text!r}; the last it said: "
                        f"{output[-80:]!r}. Its watchdog resets it after 11 s: ask for fewer samples",
                        failure="automation_interface",
                    )
                output += os.read(fd, 4096)
            lines = [
                line.strip()
                for line in output.removesuffix(PROMPT).decode(errors="replace").splitlines()
                if line.strip()
            ]
        for line in lines:
            if _FAILED.fullmatch(line):
                raise LabStableError(
                    f"{self.port}: the Automation Interface says {line!r} to {text!r}: check `dut` in the env, its "
                    "cable to the board's test header, and the board's power",
                    failure="automation_interface",
                )
        return lines

    def measure(self, samples: int, pause_ms: int) -> list[AutomationRow]:
        """Mean of up to 150 samples of each rail; raises as `command`."""
        answer = self.command(f"auto measure power {samples} {pause_ms}", ANSWER_S + samples * (pause_ms + 50) / 1000)
        matches = [_ROW.match(line) for line in answer]
        rows = [AutomationRow(row[1], *(float(row[column]) for column in (2, 3, 4, 5))) for row in matches if row]
        if not rows:
            raise LabTransientError(
                f"{self.port}: no rails in the answer to `auto measure power`: {answer[-3:]}; set `dut` in the env",
                failure="automation_interface",
            )
        return rows

    @contextmanager
    def _line(self) -> Iterator[int]:
        """Open the port for this program alone; yield its descriptor.

        Raises:
            ConfigurationError: no such port.
            LabStableError: another device than before has it.
            LabTransientError: another program keeps it.
        """
        try:
            fd = os.open(self.port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigurationError(
                f"{self.port}: {error.strerror}; plug the Automation Interface in, or mend its port in the env"
            ) from error
        try:
            identity = devices.identify(fd)
            self._identity = self._identity or identity
            if identity != self._identity:
                raise LabStableError(
                    f"{self.port}: another device than before ({identity}, was {self._identity}); it was told nothing. "
                    "Name the Automation Interface by its serial number (/dev/serial/by-id)",
                    failure="automation_interface",
                )
            if not locks.take(fd, _OTHERS_S):
                raise LabTransientError(
                    f"{self.port}: another program has had the Automation Interface for more than {_OTHERS_S:g} s: "
                    f"see which (fuser {self.port}), and whether it is stopped (kill -CONT)",
                    failure="automation_interface",
                )
            tty.setraw(fd)
            state = termios.tcgetattr(fd)
            state[4] = state[5] = termios.B115200
            termios.tcsetattr(fd, termios.TCSANOW, state)
            yield fd
        finally:
            os.close(fd)

    def _type(self, fd: int, text: str) -> None:
        """Type a text and wait for each character's echo.

        Its receiver holds one character.
        """
        while select.select([fd], [], [], 0)[0] and os.read(fd, 4096):
            pass  # earlier output: the banner, an abandoned command
        for character in text.encode() + b"\r":
            os.write(fd, bytes([character]))
            if not select.select([fd], [], [], _ECHO_S)[0]:
                raise LabTransientError(
                    f"{self.port}: no echo from the Automation Interface; is it "
                    "another port of the adapter, or held in reset?",
                    failure="automation_interface",
                )
            os.read(fd, 1)


class AutomationSensor:
    """A `lab.rails.model.RailSensor` by `auto measure power`: ten samples per second."""

    def __init__(self, config: RailsConfig) -> None:
        """Find the port.

        Raises:
            ConfigurationError: the port is missing.
        """
        if not Path(config.port).exists():
            raise ConfigurationError(f"{config.port}: no such port; plug the Automation Interface in, or mend `port`")
        self.rails: Sequence[RailConfig] = config.measured
        self._interface = AutomationInterface(config.port)
        self._config = config
        self._iterations = 1
        self._shunts: list[float] = []

    def start(self, wanted: AdcRange) -> SampleSchedule:
        """Select the board, and measure once.

        That measurement shows the rails' shunts, and how long one takes.

        Raises:
            ConfigurationError: a rail is none of the interface's.
            BoardlabError: as of `AutomationInterface.command`.
        """
        if self._config.dut:
            self._interface.command(f"auto set dut {self._config.dut}")
        self._iterations = _ITERATIONS[wanted]
        begun_ns = time.monotonic_ns()
        rows = {row.rail: row for row in self._interface.measure(self._iterations, _PAUSE_MS)}
        period_ns = time.monotonic_ns() - begun_ns
        missing = [rail.name for rail in self.rails if rail.source not in rows]
        if missing:
            raise ConfigurationError(
                f"{self._config.port}: it measures no {', '.join(missing)}; its rails are: {', '.join(rows)}. "
                "Name them with the rails' `channel`"
            )
        channels = []
        for rail in self.rails:
            row = rows[rail.source]
            shunt_mohm = rail.shunt_mohm or row.shunt_mohm
            self._shunts.append(shunt_mohm)
            channels.append(
                Channel.of(
                    rail,
                    shunt_mohm=shunt_mohm,
                    gain=_CHIP.gain,
                    bus_lsb_uv=1.0,
                    shunt_lsb_nv=_CHIP.shunt_lsb_nv,
                    offset_bound_nv=_CHIP.offset_bound_nv(rail.offset_uv),
                )
            )
        text = f"auto measure power {self._iterations} {_PAUSE_MS}; averaging of the firmware"
        return SampleSchedule(
            tuple(channels), period_ns=period_ns, window_ns=period_ns, poll_ns=period_ns, late_ns=0, text=text
        )

    def read(self) -> Sequence[SensorReading]:
        """Measure all rails; blocks until the interface has measured."""
        rows = {row.rail: row for row in self._interface.measure(self._iterations, _PAUSE_MS)}
        readings = []
        for number, (rail, shunt) in enumerate(zip(self.rails, self._shunts, strict=True)):
            row = rows.get(rail.source)
            if row is None:
                readings.append(SensorReading(number, 0, 0, TraceMark.NACK))
            else:
                readings.append(
                    SensorReading.of(number, row.volts, 1e6, row.milliampere, shunt * 1000, _CHIP.range_nv)
                )
        return readings

    def close(self) -> None:
        """Do nothing: the interface needs no end."""
