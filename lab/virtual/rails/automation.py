"""TI's Automation Interface at the wire: commands on a pty.

Behind it are the board's power, straps and sensors.

Commands, answers and the echo of each character are those of its firmware (automation_interface.c); a power-on reset
takes the board's power away for an instant.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tty
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from lab.errors import LabError
from lab.host.clock import Clock
from lab.virtual import straps
from lab.virtual.rails.sensors import Rails

PROMPT: Final = "=>"
_BANNER: Final = "automation interface v0.1"
_WINDOW_NS: Final = 2_200_000  # the INA226 after its reset: one conversion of 1.1 ms of shunt and bus
_SHUNT_UV, _BUS_V = 2.5, 1.25e-3
_BANKS: Final = 3
_LONGEST: Final = 128
_COLUMNS: Final = ("Index", "Rail Name", "Shunt voltage(uV)", "Rail voltage(V)", "Current(mA)", "Power(mW)")


class PowerInput(Protocol):
    """The board's power input."""

    async def on(self) -> None:
        """Switch on."""
        ...

    async def off(self) -> None:
        """Switch off."""
        ...


class Automation:
    """Interface of one board, on a pty linked as `path`."""

    def __init__(
        self, path: Path, rails: Rails, supply: PowerInput, straps_folder: Path, bits: int, clock: Clock
    ) -> None:
        self._rails, self._supply, self._straps, self._bits, self._clock = rails, supply, straps_folder, bits, clock
        self._path = path
        self._line = bytearray()
        self._dut = ""
        self._task: asyncio.Task[None] | None = None
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        path.unlink(missing_ok=True)
        path.symlink_to(os.ttyname(self._slave))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._master, self._typed)

    def close(self) -> None:
        """Unplug it."""
        self._loop.remove_reader(self._master)
        if self._task is not None:
            self._task.cancel()
        os.close(self._slave)
        os.close(self._master)
        self._path.unlink(missing_ok=True)

    def _typed(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for byte in os.read(self._master, 256):
                if self._task is None or self._task.done():  # while it works, it hears nothing
                    self._hear(byte)

    def _hear(self, byte: int) -> None:
        self._write(bytes([byte]))
        if byte in b"\r\n":
            text = self._line.decode("latin-1").strip().lower()
            self._line.clear()
            self._write(b"\r\n")
            self._task = self._loop.create_task(self._obey(text))
        elif byte == 3 or len(self._line) >= _LONGEST:
            self._line.clear()
            self._say("^C", PROMPT)
        else:
            self._line.append(byte)

    async def _obey(self, text: str) -> None:
        for pattern, action in _COMMANDS:
            found = pattern.fullmatch(text)
            if found:
                try:
                    await action(self, *found.groups())
                except LabError as error:  # the firmware knows no such case: the board's bench does
                    self._say(f"ERROR: {error}")
                break
        else:
            self._say(f"Command {text} not valid ...")
        self._say(PROMPT)

    def _say(self, *lines: str) -> None:
        self._write("".join(f"{line}\r\n" for line in lines).encode("latin-1", "replace"))

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(BlockingIOError):  # nobody reads
            os.write(self._master, data)

    async def _version(self) -> None:
        self._say(_BANNER)

    async def _set_dut(self, name: str) -> None:
        self._dut = name
        self._say("Setting DUT", "I2C closed!\n", "Done initializing I2C buses!")

    async def _power(self, level: str) -> None:
        self._say("Powering On DUT" if level == "on" else "Powering Off DUT")
        await (self._supply.on() if level == "on" else self._supply.off())

    async def _pulse(self, which: str) -> None:
        self._say("Resetting DUT" if which == "reset" else "Power-On-Reset on DUT")
        await self._supply.off()
        await self._supply.on()

    async def _hold(self, which: str) -> None:
        self._say(f"{'Holding' if which == 'hold' else 'Releasing'} Power-On-Reset on DUT")
        await (self._supply.off() if which == "hold" else self._supply.on())

    async def _sysboot(self, word: str) -> None:
        value = int(word, 16)
        for bit in range(self._bits):
            straps.write(self._straps, bit, high=bool(value >> bit & 1))
        banks = "".join(f"{value >> 8 * bank & 0xFF:02X}" for bank in range(_BANKS))
        self._say("I2C Boot mode implementation", f"Sysboot settings: 0x{banks}", "Sysboot set on DUT")

    async def _measure(self, samples: str, pause_ms: str) -> None:
        if not self._dut:
            self._say("auto set dut <DUT type> must be called first")
            return
        self._say("Measuring power")
        count = min(int(samples), 150)
        names = [rail.rail for rail in self._rails.wired]
        sums = {name: [0.0, 0.0, 0.0, 0.0] for name in names}
        for _ in range(count):
            now_ns = self._clock.now_ns()
            for name in names:
                for column, value in enumerate(self._sample(name, now_ns)):
                    sums[name][column] += value / count
            await asyncio.sleep(int(pause_ms) / 1000)
        self._say("\nAverage Data Start\n", f"AVG(Samples={count}, Interval={int(pause_ms)} ms)")
        rows = [list(_COLUMNS)]
        for number, (name, (shunt_uv, volts, milliampere, milliwatt)) in enumerate(sums.items()):
            figures = [f"{shunt_uv:.2f}", f"{volts:.6f}", f"{milliampere:.2f}", f"{milliwatt:.2f}"]
            rows.append([str(number), name, *figures])
        total = sum(values[3] for values in sums.values())
        rows += [["---"] * len(_COLUMNS), ["Total", "", "", "", "", f"{total:.2f}"]]
        self._say(*("| " + " | ".join(row) + " |" for row in rows))

    def _sample(self, rail: str, now_ns: int) -> tuple[float, float, float, float]:
        """Shunt uV, bus V, mA and mW, in an INA226's steps."""
        shunt_v, bus_v, ohm = self._rails.measure(rail, now_ns - _WINDOW_NS, now_ns)
        shunt_uv = round(shunt_v * 1e6 / _SHUNT_UV) * _SHUNT_UV
        volts = round(bus_v / _BUS_V) * _BUS_V
        milliampere = shunt_uv / ohm / 1000
        return shunt_uv, volts, milliampere, milliampere * volts


_COMMANDS: Final[tuple[tuple[re.Pattern[str], Callable[..., Awaitable[None]]], ...]] = tuple(
    (re.compile(pattern), action)
    for pattern, action in (
        ("version", Automation._version),
        (r"auto +set +dut +(\S+)", Automation._set_dut),
        (r"auto +power +(on|off)", Automation._power),
        (r"auto +(reset|por)", Automation._pulse),
        (r"auto +(hold|release)_por", Automation._hold),
        (r"auto +sysboot +([0-9a-f]{1,6})", Automation._sysboot),
        (r"auto +measure +power +(\d+) +(\d+)", Automation._measure),
    )
)
