"""A QEMU board behind its power input, its QMP and serial port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lab.errors import BoardlabError, LabStableError, LabTransientError
from lab.host.clock import Clock
from lab.virtual.board import BoardFolder
from lab.virtual.images import cache
from lab.virtual.process import Child
from lab.virtual.qemu import program, recipe
from lab.virtual.qemu.activity import Activity
from lab.virtual.qemu.cable import Cable
from lab.virtual.qemu.program import QemuProgram
from lab.virtual.qemu.uboot import UBootBuild
from lab.virtual.rails.sensors import RailTrouble
from lab.virtual.uart import UartAdapter

_START_S = 20.0  # QEMU's own start, before the board gets power; on a busy host
_log = logging.getLogger(__name__)


class QemuModel(Protocol):
    """A machine of QEMU as a board.

    Attributes:
        program: what it needs of QEMU.
        board_type: its name in lab/boards.
        drops: whether its UART drops what the line has no room for, unless it is made to wait.
        uboot: which U-Boot it runs.
        straps: how its boot-mode straps are when it is new.
    """

    program: QemuProgram
    uboot: UBootBuild
    straps: int
    board_type: str
    drops: bool

    def images(self, root: Path, report: cache.Report) -> Path:
        """Folder of a board's images in the cache, built when missing.

        Raises:
            LabError, ConfigurationError: it cannot be built.
        """
        ...

    def packages(self, root: Path, report: cache.Report) -> Path:
        """Folder of the images' sources in the cache; raises as `images`.

        It is downloaded when missing.
        """
        ...

    def words(self, folder: BoardFolder, straps: int, tap_fd: int | None) -> list[str]:
        """QEMU's arguments for machine, media and network with these straps.

        Args:
            tap_fd: the board's end of its cable; None: it has none.
        """
        ...


def command(program: Path, folder: BoardFolder, machine: Sequence[str], console_fd: int, qmp_fd: int) -> list[str]:
    """QEMU's command line; the CPU waits for QMP's "cont"."""
    return [
        str(program),
        *("-name", f"boardlab-{folder.name}"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-S"),
        *machine,
        *("-chardev", f"socket,id=console,fd={console_fd}", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,fd={qmp_fd}", "-mon", "chardev=qmp,mode=control"),
    ]


def drive(folder: BoardFolder, medium: str, how: str) -> list[str]:
    """Arguments for a medium's image; `how`: the drive's other properties."""
    return ["-drive", f"{how},format=raw,file={_escaped(folder.medium(medium))}"]


def network(folder: BoardFolder, model: str, tap_fd: int | None) -> list[str]:
    """Arguments for a board's Ethernet, at its cable if it has one.

    Else for a network inside QEMU: DHCP, and TFTP from the board's folder. Nothing of the host's is in it, or its
    loopback where releases can be put on the board.
    """
    if tap_fd is not None:
        return ["-nic", f"tap,fd={tap_fd},model={model}"]
    restricted = "off" if recipe.has_network(folder.media) else "on"
    return ["-nic", f"user,restrict={restricted},model={model},tftp={_escaped(folder.tftp)}"]


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")


def _no_rails(_state: str, _t_ns: int) -> None: ...


class QemuBoard:
    """A `lab.virtual.board.Backend` on QEMU.

    Args:
        program: what `QemuProgram.obtain` found for the model.
    """

    def __init__(
        self, folder: BoardFolder, model: QemuModel, program: Path, adapters: Mapping[str, UartAdapter], clock: Clock
    ) -> None:
        self.died_hook: Callable[[str], None] = _log.warning
        self.state_hook: Callable[[str, int], None] = _no_rails
        self.release, self.seed = "", 0
        self._folder = folder
        self._model, self._program = model, program
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
        """Empty: real software has no faults on request."""
        return ()

    async def power_on(self, straps: int) -> int:
        """Start QEMU; the power-on is the "cont" of its CPU."""
        await self.power_off()
        self._log_start = self._folder.qemu_log.stat().st_size if self._folder.qemu_log.exists() else 0
        tap = await self._tap()
        self._serial = Serial(self._adapter)
        local, remote = socket.socketpair()
        try:
            with self._serial.remote as console:
                with remote:
                    fds = (console.fileno(), remote.fileno())
                    self._child = Child(
                        command(self._program, self._folder, self._model.words(self._folder, straps, tap), *fds),
                        self._folder.qemu_log,
                        pass_fds=fds if tap is None else (*fds, tap),
                        env=program.environment(self._program),
                        ended_hook=self._ended,
                    )
                async with asyncio.timeout(_START_S):
                    self._qmp = await Qmp.open(local)
                    if self._model.drops:
                        self._serial.wait_for_room()
                    self._serial.listen()
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
        self._activity = Activity(Path(f"/proc/{self._child.pid}/task"), self._clock, self.state_hook)
        self._adapter.said_hook, self._adapter.typed_hook = self._activity.said, self._activity.typed
        return released_ns

    async def power_off(self) -> None:
        """Kill and reap QEMU; bytes still in the UART are lost."""
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
        """The board's end of its cable; None: it has none.

        It stays plugged in when the board is off.
        """
        if not self._has_tools:
            return None
        if self._cable is None:
            try:
                self._cable = await Cable.plug(self._folder)
            except LabStableError as error:
                _log.warning("%s: %s; it has no network", self._folder.name, error)
                return None
        self._cable.drain()
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


# --- The few words of QMP that a power input needs (QEMU: docs/interop/qmp-spec) ---


class Qmp:
    """A QMP connection over a socket; events are logged."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, sock: socket.socket) -> Qmp:
        """Wait for QEMU's greeting and negotiate; takes the socket over.

        Raises:
            LabTransientError: QEMU ended instead.
        """
        qmp = cls(*await asyncio.open_unix_connection(sock=sock))
        try:
            await qmp._message("QMP")
            await qmp.execute("qmp_capabilities")
        except BaseException:
            qmp.close()
            raise
        return qmp

    async def execute(self, command: str) -> None:
        """Run a command and wait until QEMU has done it.

        Raises:
            LabTransientError: QEMU refused it or ended.
        """
        self._writer.write(json.dumps({"execute": command}).encode() + b"\n")
        await self._message("return")

    async def follow(self) -> None:
        """Log events until QEMU ends."""
        with contextlib.suppress(ConnectionError):  # it was killed before it had read all that we said
            while line := await self._reader.readline():
                _log.info("QEMU: %s", line.decode().strip())

    def close(self) -> None:
        """Close the connection; QEMU goes on."""
        self._writer.close()

    async def _message(self, key: str) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await self._reader.readline():
                message = json.loads(line)
                if key in message:
                    return
                if "error" in message:
                    raise LabTransientError(f"QEMU refused: {message['error']['desc']}", failure="virtual_board")
        raise LabTransientError("QEMU ended before the board was powered", failure="virtual_board")


# --- QEMU's serial port on a UART adapter, with flow control ---


# A queued byte costs a socket buffer of about 0.8 kB, which SO_SNDBUF counts; so this holds some sixteen bytes.
_SEND_BUFFER_BYTES = 6144  # the kernel doubles it


class Serial:
    """Connects an adapter with a QEMU character device over a socket pair.

    Bytes are read only as the UART model has room for them. QEMU then blocks in the guest's write to the UART, so the
    guest really prints at the line's speed. Typed bytes that a starved guest does not take wait here, and then in the
    adapter.

    Attributes:
        remote: QEMU's end, to be closed once QEMU has inherited it, or after `wait_for_room`.
    """

    def __init__(self, adapter: UartAdapter) -> None:
        self._adapter = adapter
        self._loop = asyncio.get_running_loop()
        self._local, self.remote = socket.socketpair()
        self._local.setblocking(False)
        self.remote.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._waiting = False
        self._untaken = bytearray()
        adapter.room_hook = self._fill
        self._wait(readable=True)

    def listen(self) -> None:
        """Hand on what the host types from now on."""
        self._adapter.untaken_hook = lambda: len(self._untaken)
        self._adapter.listen(self._send)

    def wait_for_room(self) -> None:
        """Make QEMU wait while the line is full.

        It has opened its end, and makes it non-blocking. Most of its UARTs then try again; some drop the byte
        (hw/char/sifive_uart.c up to 9.1). The flag is of the open file, which `remote` and QEMU share.
        """
        self.remote.setblocking(True)

    def close(self) -> None:
        """Drop the unsent bytes: the board has no power."""
        self._wait(readable=False)
        if self._untaken:
            self._untaken.clear()
            self._loop.remove_writer(self._local)
        self._adapter.discard()
        self._local.close()
        self.remote.close()

    def _fill(self) -> None:
        open_ = True
        if self._adapter.room:
            with contextlib.suppress(BlockingIOError):
                data = self._receive(self._adapter.room)
                open_ = bool(data)
                self._adapter.transmit(data)
        self._wait(readable=open_ and self._adapter.room > 0)

    def _receive(self, count: int) -> bytes:
        try:
            return self._local.recv(count)
        except ConnectionError:
            return b""  # QEMU is gone; its process says so

    def _send(self, data: bytes) -> None:
        if not self._untaken:
            self._loop.add_writer(self._local, self._take)
        self._untaken += data
        self._take()

    def _take(self) -> None:
        try:
            del self._untaken[: self._local.send(self._untaken)]
        except BlockingIOError:
            return
        except ConnectionError:  # QEMU is gone; its process says so
            self._untaken.clear()
        if not self._untaken:
            self._loop.remove_writer(self._local)
        self._adapter.read_on()

    def _wait(self, *, readable: bool) -> None:
        if readable != self._waiting:
            self._waiting = readable
            if readable:
                self._loop.add_reader(self._local, self._fill)
            else:
                self._loop.remove_reader(self._local)
