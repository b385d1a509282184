"""Loaders without network: over the console, and over USB."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from attrs import frozen

from lab.errors import ConfigurationError
from lab.provision import snagboot
from lab.provision.errors import RecoveryFailedError
from lab.provision.writers.command import SHORT_S, CommandPrompt, quoted
from lab.provision.writers.ubootanswers import has_command
from lab.provision.ymodem import BITS_PER_BYTE, BLOCK_BYTES, Sending, YmodemLine

_ASKS_S: Final = 10.0
_ENDS_S: Final = 10.0
_OVERHEAD: Final = (BLOCK_BYTES + 6) / BLOCK_BYTES
_TOTAL: Final = re.compile(rb"## Total Size\s+= 0x[0-9a-fA-F]+ = (\d+) Bytes")


class CommandLine(YmodemLine, Protocol):
    """A line with a prompt at its other end."""

    def sendline(self, text: str) -> None:
        """Type a command, proved by its echo.

        Raises:
            BoardlabError: characters of each try were lost.
        """
        ...


@frozen
class OverConsole:
    """A `lab.provision.writers.uboot.Loader`. speed_bd: of the console."""

    line: CommandLine
    speed_bd: int

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.speed_bd / BITS_PER_BYTE / _OVERHEAD

    @property
    def note(self) -> str:
        """Speed of the transfer."""
        return f"over the console at {self.speed_bd} Bd: {self.rate / 1000:.1f} kB/s, so {1e6 / self.rate:.0f} s for each megabyte"

    def prepare(self, prompt: CommandPrompt) -> None:
        """Make sure that U-Boot has `loady`.

        Raises:
            ConfigurationError: this U-Boot has no `loady`.
        """
        lines, _, _ = prompt.run("help loady", timeout=SHORT_S)
        if not has_command(lines):
            raise ConfigurationError(
                "this U-Boot has no command `loady`: write the medium another way, or build U-Boot with CONFIG_CMD_LOADB"
            )

    def load(self, _prompt: CommandPrompt, address: int, data: bytes, name: str) -> None:
        """Send the bytes by YMODEM into the board's memory.

        Raises:
            RecoveryFailedError, WriteStalledError: as of `Sending.send`, or other bytes arrived than were sent.
        """
        self.line.sendline(f"loady {address:#x}")
        Sending(self.line, data, name).send(_ASKS_S)
        heard, deadline = b"", self.line.now_ns() + round(_ENDS_S * 1e9)
        while (total := _TOTAL.search(heard)) is None and (left_s := (deadline - self.line.now_ns()) / 1e9) > 0:
            heard += self.line.read(left_s)
        if total is None or int(total[1]) != len(data):
            answer = quoted(heard.decode("latin-1").splitlines())
            raise RecoveryFailedError(f"{name}: {len(data)} bytes were sent over the console, and {answer}. Try again")

    def rest(self) -> None:
        """Do nothing; nothing was begun."""


# --- Over USB, by fastboot and Snagboot's `snagflash` ---
# What is written, and where, U-Boot's own commands say afterwards, as with every other loader; so nothing depends on which commands a
# fastboot device offers. U-Boot: cmd/fastboot.c, `fastboot [-l addr] [-s size] usb <controller>`, which ctrl-C ends.


_USUAL_RATE: Final = 10e6  # Snagfactory's figures on SK-AM62: an eMMC of 64 MB in 18 s, most of it its write
_LEAST_S: Final = 60.0  # snagflash waits some seconds for a device that has just come
_SLOWEST: Final = 500e3
_CTRL_C: Final = b"\x03"


@frozen
class OverUsb:
    """A `lab.provision.writers.uboot.Loader`.

    Attributes:
        line: the console. prompt: U-Boot's, a regular expression. port: of the board on USB, e.g. "0451:6165".
        program: finds `snagflash`. run: runs a program. controller: U-Boot's number of its USB device port.
    """

    line: CommandLine
    prompt: str
    port: str
    run: snagboot.RunProgram
    program: Callable[[], str] = lambda: snagboot.installed("snagflash")
    controller: int = 0
    rate: float = _USUAL_RATE
    note: str = "over USB, by snagflash"

    def prepare(self, prompt: CommandPrompt) -> None:
        """Make sure that U-Boot has `fastboot` and this host `snagflash`.

        Raises:
            ConfigurationError: this U-Boot has no `fastboot`, or this host no `snagflash`, or there can be no such
                port.
        """
        snagboot.download_command(self.program(), self.port, Path())
        lines, _, _ = prompt.run("help fastboot", timeout=SHORT_S)
        if not has_command(lines):
            raise ConfigurationError(
                "this U-Boot has no command `fastboot`: write the medium another way, or build U-Boot with CONFIG_USB_FUNCTION_FASTBOOT"
            )

    def load(self, _prompt: CommandPrompt, address: int, data: bytes, name: str) -> None:
        """Send the bytes by `snagflash` into the board's memory.

        Raises:
            RecoveryFailedError, WriteStalledError: as of `snagboot.judge_download`, or U-Boot does not come back to
                its prompt.
        """
        with tempfile.TemporaryDirectory(prefix="boardlab-usb-") as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            command = snagboot.download_command(self.program(), self.port, path)
            self.line.sendline(f"fastboot -l {address:#x} -s {len(data):#x} usb {self.controller}")
            end = self.run(command, _LEAST_S + len(data) / _SLOWEST)
        self._back(name)
        snagboot.judge_download(end)

    def rest(self) -> None:
        """Do nothing; `snagflash` has ended."""

    def _back(self, name: str) -> None:
        """End fastboot, and wait for the prompt."""
        while self.line.read(0):
            pass  # the echo of the command stands behind a prompt
        self.line.write(_CTRL_C)
        heard, deadline = b"", self.line.now_ns() + round(_ENDS_S * 1e9)
        while (left_s := (deadline - self.line.now_ns()) / 1e9) > 0:
            heard += self.line.read(left_s)
            if re.search(self.prompt.encode(), heard):
                return
        answer = quoted(heard.decode("latin-1").splitlines())
        raise RecoveryFailedError(
            f"{name}: U-Boot did not come back from `fastboot`: {answer}. The next try switches it off and on"
        )
