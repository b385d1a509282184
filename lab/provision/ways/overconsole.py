"""Into the board's memory over its console, by U-Boot's `loady`: where there is no network. Slow, and it says how slow."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.provision.failures import RecoveryFailedError
from lab.provision.ways.command import SHORT_S, Prompt, said
from lab.provision.ways.ubootanswers import has_command
from lab.provision.ymodem import BITS_PER_BYTE, BLOCK_BYTES, Sending, SerialLine

_ASKS_S: Final = 10.0
_ENDS_S: Final = 10.0
_OVERHEAD: Final = (BLOCK_BYTES + 6) / BLOCK_BYTES
_TOTAL: Final = re.compile(rb"## Total Size\s+= 0x[0-9a-fA-F]+ = (\d+) Bytes")


@frozen
class OverConsole:
    """A `lab.provision.ways.uboot.Loader`. speed_bd: of the console."""

    line: SerialLine
    speed_bd: int

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.speed_bd / BITS_PER_BYTE / _OVERHEAD

    @property
    def note(self) -> str:
        """How slow it is."""
        return f"over the console at {self.speed_bd} Bd: {self.rate / 1000:.1f} kB/s, so {1e6 / self.rate:.0f} s for each megabyte"

    def prepare(self, prompt: Prompt) -> None:
        """See `Loader`.

        Raises:
            ConfigurationError: this U-Boot has no `loady`.
        """
        lines, _, _ = prompt.run("help loady", timeout=SHORT_S)
        if not has_command(lines):
            raise ConfigurationError(
                "this U-Boot has no command `loady`: write the medium another way, or build U-Boot with CONFIG_CMD_LOADB"
            )

    def load(self, _prompt: Prompt, address: int, data: bytes, name: str) -> None:
        """See `Loader`.

        Raises:
            RecoveryFailedError, WriteStalledError: as of `Sending.send`, or other bytes arrived than were sent.
        """
        self.line.write(f"loady {address:#x}\r".encode())
        Sending(self.line, data, name).send(_ASKS_S)
        heard, deadline = b"", self.line.now_ns() + round(_ENDS_S * 1e9)
        while (total := _TOTAL.search(heard)) is None and (left_s := (deadline - self.line.now_ns()) / 1e9) > 0:
            heard += self.line.read(left_s)
        if total is None or int(total[1]) != len(data):
            words = said(heard.decode("latin-1").splitlines())
            raise RecoveryFailedError(f"{name}: {len(data)} bytes were sent over the console, and {words}. Try again")

    def rest(self) -> None:
        """See `Loader`: nothing was begun."""
