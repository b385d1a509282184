"""A qemu-virt board behind its power input."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.errors import BoardlabError, LabStableError, LabTransientError
from lab.host.clock import Clock
from virtual.board import BoardFolder
from virtual.process import Child
from virtual.qemu import recipe
from virtual.qemu.activity import Activity
from virtual.qemu.cable import Cable
from virtual.qemu.qmp import Qmp
from virtual.qemu.serial import Serial
from virtual.rails.sensors import RailTrouble
from virtual.uart import UartAdapter

QEMU = "qemu-system-aarch64"
_MEMORY_MIB, _MEMORY_WITH_TOOLS_MIB = 256, 512
_NETWORK = (
    "e1000e,netdev=link,mac=52:54:00:b0:a2:d1,romfile="  # an Intel 82574L: it knows a speed and paces interrupts
)
_START_S = 20.0  # QEMU's own start, before the board gets power; on a busy host
_log = logging.getLogger(__name__)


def command(
    folder: BoardFolder,
    firmware: Path,
    straps: int,
    console_fd: int,
    qmp_fd: int,
    *,
    memory_mib: int = _MEMORY_MIB,
    tap_fd: int | None = None,
) -> list[str]:
    """QEMU's command line: SD is virtio-blk, eMMC is NVMe, OSPI is the second CFI flash, which also holds the
    environment; the strap word is latched into RAM at reset. The CPU waits for QMP's "cont".

    Args:
        tap_fd: the board's end of its cable; None: it has no network.
    """
    drives = [
        f"if=pflash,unit=1,format=raw,file={_escaped(folder.medium(recipe.FLASH))}",
        f"if=none,id=sd,format=raw,file={_escaped(folder.medium('sd'))}",
        f"if=none,id=emmc,format=raw,file={_escaped(folder.medium('emmc'))}",
    ]
    network = () if tap_fd is None else ("-netdev", f"tap,id=link,fd={tap_fd}", "-device", _NETWORK)
    return [
        QEMU,
        *("-name", f"boardlab-{folder.name}"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-S"),
        # Without random seeds in the device tree every boot does, and prints, the same.
        *("-machine", "virt,dtb-randomness=off", "-cpu", "cortex-a53", "-m", str(memory_mib)),
        *("-bios", str(firmware)),
        *(word for drive in drives for word in ("-drive", drive)),
        *("-device", "virtio-blk-device,drive=sd"),
        *("-device", "nvme,drive=emmc,serial=emmc"),
        *("-device", f"loader,addr={recipe.STRAP_WORD:#x},data={straps:#x},data-len=4"),
        *network,
        *("-chardev", f"socket,id=console,fd={console_fd}", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,fd={qmp_fd}", "-mon", "chardev=qmp,mode=control"),
    ]


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")


def _no_rails(_state: str, _t_ns: int) -> None: ...


class QemuVirt:
    """A `virtual.board.Backend` on QEMU."""

    def __init__(self, folder: BoardFolder, firmware: Path, adapters: Mapping[str, UartAdapter], clock: Clock) -> None:
        self.died_hook: Callable[[str], None] = _log.warning
        self.state_hook: Callable[[str, int], None] = _no_rails
        self.release, self.seed = "", 0
        self._folder = folder
        self._firmware = firmware
        self._adapter = adapters["uart0"]
        self._clock = clock
        self._log_start = 0  # where the log of this power cycle begins
        self._child: Child | None = None
        self._serial: Serial | None = None
        self._qmp: Qmp | None = None
        self._events: asyncio.Task[None] | None = None
        self._activity: Activity | None = None
        self._has_tools = recipe.has_tools(folder.media)
        self._cable: Cable | None = None
        folder.tester.unlink(missing_ok=True)  # of an earlier bench

    def troubles(self) -> Sequence[RailTrouble]:
        """See `Backend`: real software has no faults on request."""
        return ()

    async def power_on(self, straps: int) -> int:
        """See `Backend`; the board's power-on is the "cont" that releases its CPU, QEMU's own start is before it."""
        await self.power_off()
        self._log_start = self._folder.qemu_log.stat().st_size if self._folder.qemu_log.exists() else 0
        tap = await self._tap()
        self._serial = Serial(self._adapter)
        local, remote = socket.socketpair()
        try:
            with self._serial.remote as console, remote:
                fds = (console.fileno(), remote.fileno())
                memory_mib = _MEMORY_WITH_TOOLS_MIB if self._has_tools else _MEMORY_MIB
                self._child = Child(
                    command(self._folder, self._firmware, straps, *fds, memory_mib=memory_mib, tap_fd=tap),
                    self._folder.qemu_log,
                    pass_fds=fds if tap is None else (*fds, tap),
                    ended_hook=self._ended,
                )
            async with asyncio.timeout(_START_S):
                self._qmp = await Qmp.open(local)
                released_ns = self._clock.now_ns()
                await self._qmp.execute("cont")
        except (BoardlabError, TimeoutError, OSError) as error:
            await self.power_off()
            local.close()
            reason = f"QEMU did not start within {_START_S:.0f} s" if isinstance(error, TimeoutError) else str(error)
            raise LabTransientError(
                f"{self._folder.name}: {reason}; {self._last_words()}", failure="virtual_board"
            ) from error
        self._events = asyncio.create_task(self._qmp.follow())
        self._activity = Activity(self._child.pid, self._clock, self.state_hook)
        self._adapter.said_hook, self._adapter.typed_hook = self._activity.said, self._activity.typed
        return released_ns

    async def power_off(self) -> None:
        """See `Backend`; QEMU is killed and reaped, bytes still in the UART are lost as on a real board."""
        self._rest()
        if self._child is not None:
            await self._child.kill()
        if self._serial is not None:
            self._serial.close()
        if self._events is not None:
            self._events.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._events
        if self._qmp is not None:
            self._qmp.close()
        self._child = self._serial = self._events = self._qmp = None

    async def _tap(self) -> int | None:
        """The board's end of its cable, which stays plugged in when the board is off; None where it has none."""
        if not self._has_tools:
            return None
        if self._cable is None:
            try:
                self._cable = await Cable.plug(self._folder)
            except LabStableError as error:
                _log.warning("%s: %s; it has no network", self._folder.name, error)
                return None
        return self._cable.fd

    def _rest(self) -> None:
        if self._activity is not None:
            self._activity.close()
            self._activity = None

    def _ended(self, status: int) -> None:
        if self._events is None:
            return  # it has not been released: that is power_on's to tell
        self._rest()
        if self._serial is not None:
            self._serial.close()
        self.died_hook(f"QEMU ended by itself with status {status}; {self._last_words()}")

    def _last_words(self) -> str:
        log = self._folder.qemu_log
        with contextlib.suppress(OSError):
            lines = log.read_bytes()[self._log_start :].decode(errors="replace").strip().splitlines()
            if lines:
                return f"its last words are {lines[-1]!r} ({log})"
        return f"it left no message ({log})"
