"""An outlet of the bench with its board.

It has power, straps, adapters and the truth about them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from lab.errors import LabError, LabStableError
from lab.host.clock import Clock
from lab.virtual import straps
from lab.virtual.board import Backend, BoardFolder, BoardPower
from lab.virtual.truth_log import TruthLog
from lab.virtual.uart import UartAdapter

STARTING = "starting"  # in the truth log: the switch was told; QEMU starts, as supplies ramp up
_log = logging.getLogger(__name__)


class Outlet:
    """Switches one board; what it says has been verified.

    Args:
        boot_mode_bits: how many strap lines the board reads at power-on.
        idle_off_s: switch the board off when its UARTs were silent both ways for so long; 0: never.
    """

    def __init__(
        self,
        folder: BoardFolder,
        backend: Backend,
        adapters: Mapping[str, UartAdapter],
        truth: TruthLog,
        clock: Clock,
        *,
        boot_mode_bits: int,
        idle_off_s: float = 0.0,
    ) -> None:
        self.folder = folder
        self.adapters = adapters
        self.power = BoardPower.OFF
        self.reason = ""  # why the board is dead, or was switched off by us
        self.backend = backend
        self._truth = truth
        self._clock = clock
        self._bits = boot_mode_bits
        self._idle_off_s = idle_off_s
        self._lock = asyncio.Lock()
        self._idle: asyncio.Task[None] | None = None
        backend.died_hook = self._died

    async def on(self) -> None:
        """Power the board with the current straps; idempotent.

        Raises:
            LabError: it does not run: the straps are unreadable, the board did not start, or it is dead.
        """
        async with self._lock:
            if self.power is BoardPower.ON:
                return
            if self.power is BoardPower.DEAD:
                raise LabStableError(f"{self.folder.name} is dead ({self.reason}); switch it off first")
            word = straps.read(self.folder.straps, self._bits)
            self._truth.power(self._clock.now_ns(), STARTING)
            released_ns = await self.backend.power_on(word)
            self._set(BoardPower.ON, f"straps {word:#x}", released_ns)
            if self._idle_off_s > 0:
                self._idle = asyncio.create_task(self._switch_off_when_idle(released_ns))

    async def off(self) -> None:
        """Take the board's power away; nothing happens when it is off already."""
        async with self._lock:
            if self._idle is not None and self._idle is not asyncio.current_task():
                self._idle.cancel()
            self._idle = None
            if self.power is not BoardPower.OFF:
                await self.backend.power_off()
                self._set(BoardPower.OFF, "", self._clock.now_ns())

    def straps(self) -> str:
        """The strap word as hexadecimal, or why it cannot be read."""
        try:
            return f"{straps.read(self.folder.straps, self._bits):#x}"
        except LabError as error:
            return str(error)

    @property
    def overruns(self) -> int:
        """Bytes that were lost since nobody read a UART."""
        return sum(adapter.overruns for adapter in self.adapters.values())

    def _died(self, reason: str) -> None:
        self._set(BoardPower.DEAD, reason, self._clock.now_ns())

    def _set(self, power: BoardPower, reason: str, t_ns: int) -> None:
        self.power = power
        self.reason = reason
        self._truth.power(t_ns, power.value)
        _log.info("%s: %s%s", self.folder.name, power.value, reason and f" ({reason})")

    async def _switch_off_when_idle(self, released_ns: int) -> None:
        while True:
            latest_ns = max(released_ns, *(adapter.active_ns for adapter in self.adapters.values()))
            remaining_s = self._idle_off_s - (self._clock.now_ns() - latest_ns) / 1e9
            if remaining_s <= 0:
                break
            await asyncio.sleep(remaining_s)
        _log.warning("%s: silent for %.0f s, so it is switched off", self.folder.name, self._idle_off_s)
        await self.off()
