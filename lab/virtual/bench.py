"""Bench process: virtual boards, adapters, power switch and pdudaemon.

`python -m lab.virtual.bench` is what `lab virtual up` starts. It ends on SIGTERM: every board is switched off first.
If it is killed, the kernel ends QEMU and pdudaemon with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lab import boards
from lab.errors import BoardlabError, LabError
from lab.host.clock import Clock, MonotonicRaw
from lab.virtual import kinds, panel, straps, tasmota
from lab.virtual.board import BoardAccess, BoardFolder, BoardPower, Signalling
from lab.virtual.http import JsonResponse, Request, serve
from lab.virtual.outlet import Outlet
from lab.virtual.pdudaemon import PduDaemon, find
from lab.virtual.rails.wiring import BoardRails
from lab.virtual.socketcand import READY_ID, SocketCanDaemon
from lab.virtual.state import ENV, BenchBoard, BenchConfig, BenchState, hold, parse_arguments, publish, withdraw
from lab.virtual.tcp import TcpUart
from lab.virtual.truth_log import TruthLog
from lab.virtual.uart import Pacer, UartAdapter

STATUS_PATH = "/status"
EXIT_TWICE = 3
LOCK_PATIENCE_S = 1.0
_log = logging.getLogger(__name__)


class VirtualBench:
    """All outlets of the bench, and its power switch."""

    def __init__(self, config: BenchConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._pacer = Pacer(clock, asyncio.get_running_loop())
        self._truths: list[TruthLog] = []
        self._tcp: list[TcpUart] = []
        self.rails: list[BoardRails] = []
        self.can = SocketCanDaemon([name for name, _ in config.boards])
        self.outlets = [self._outlet(name, type_name) for name, type_name in config.boards]
        self.states = [
            BenchBoard(
                name=name,
                type=type_name,
                outlet=number,
                uarts={uart: str(adapter.path) for uart, adapter in outlet.adapters.items()},
                straps=str(outlet.folder.straps),
                truth=str(outlet.folder.truth_log),
                rails=rails.address,
                iiod=rails.iiod,
                automation=rails.automation,
            )
            for number, ((name, type_name), outlet, rails) in enumerate(
                zip(config.boards, self.outlets, self.rails, strict=True), 1
            )
        ]

    async def answer(self, request: Request) -> JsonResponse:
        """The power switch's answer to a request."""
        if request.path == STATUS_PATH:
            return tasmota.ok(
                {"boards": [self._status(*pair) for pair in zip(self.states, self.outlets, strict=True)]}
            )
        if request.path.startswith(panel.PREFIX):
            return panel.answer(request, {outlet.folder.name: outlet for outlet in self.outlets})
        text = request.query.get("cmnd", "")
        command = tasmota.parse(text) if request.path == tasmota.PATH else None
        if command is None or not 1 <= command.outlet <= len(self.outlets):
            return tasmota.unknown(text or request.path)
        outlet = self.outlets[command.outlet - 1]
        try:
            if command.action is tasmota.OutletAction.ON:
                await outlet.on()
            elif command.action is tasmota.OutletAction.OFF:
                await outlet.off()
        except LabError as error:
            _log.error("outlet %d: %s", command.outlet, error)
            return tasmota.failed(str(error))
        return tasmota.done(command.outlet, on=outlet.power is not BoardPower.OFF)

    async def listen(self) -> None:
        """Start the rails' sensors, the CAN buses, and the UARTs' TCP ports if wanted.

        Raises:
            LabStableError: a port is in use.
        """
        for rails, outlet in zip(self.rails, self.outlets, strict=True):
            await rails.start(outlet)
        backends = [
            (state.name, state.signals, outlet.backend)
            for state, outlet in zip(self.states, self.outlets, strict=True)
        ]
        signalling = [
            (name, signals, backend) for name, signals, backend in backends if isinstance(backend, Signalling)
        ]
        host, _, can = (await self.can.listen()).partition(":") if signalling else ("", "", "")
        for name, signals, backend in signalling:
            backend.ready_hook = partial(self.can.send, name)
            signals["can"] = f"can://{name}/{READY_ID:x}?interface=socketcand&host={host}&port={can}"
        port = self.config.tcp_port
        if port is None:
            return
        for state, outlet in zip(self.states, self.outlets, strict=True):
            for uart, adapter in outlet.adapters.items():
                server = TcpUart(adapter.path)
                self._tcp.append(server)
                state.tcp[uart] = await server.listen(port)
                port += bool(port)

    async def close(self) -> None:
        """Switch all boards off and unplug their adapters."""
        for server in self._tcp:
            await server.close()
        self.can.close()
        for outlet in self.outlets:
            await outlet.off()
            for adapter in outlet.adapters.values():
                adapter.close()
        for rails in self.rails:
            rails.close()
        for truth in self._truths:
            truth.close()
        self._pacer.close()

    def _outlet(self, name: str, type_name: str) -> Outlet:
        board_type = boards.load(type_name)
        folder = BoardFolder(self.config.folder / name)
        truth = self._log(folder.truth_log, board_type.console.speed_bd)
        adapters = {
            uart.name: UartAdapter(
                folder.uart(uart.name),
                self._pacer,
                truth if uart is board_type.console else self._log(folder.truth_of(uart.name), uart.speed_bd),
                speed_bd=uart.speed_bd,
                fifo_bytes=self.config.fifo_bytes,
                latency_timer_ms=self.config.latency_timer_ms,
            )
            for uart in board_type.uarts
        }
        straps.create(folder.straps, board_type.boot_mode_bits)
        backend = kinds.load(type_name).backend(folder, adapters, self._clock)
        self.rails.append(BoardRails(board_type, folder, backend, truth, self._clock))
        return Outlet(
            folder,
            backend,
            adapters,
            truth,
            self._clock,
            boot_mode_bits=board_type.boot_mode_bits,
            idle_off_s=self.config.idle_off_s,
        )

    def _log(self, path: Path, speed_bd: int) -> TruthLog:
        # CLOCK_MONOTONIC_RAW starts anew with the host; one log must not have two time lines.
        if path.exists():
            path.replace(path.with_suffix(".log.1"))
        log = TruthLog(path, speed_bd)
        self._truths.append(log)
        return log

    @staticmethod
    def _status(state: BenchBoard, outlet: Outlet) -> dict[str, object]:
        return {
            "name": state.name,
            "type": state.type,
            "outlet": state.outlet,
            "uarts": state.uarts,
            "tcp": state.tcp,
            "signals": state.signals,
            "power": outlet.power.value,
            "reason": outlet.reason,
            "straps": outlet.straps(),
            "overruns": outlet.overruns,
        }


async def run(config: BenchConfig, ready: Callable[[BenchState], None]) -> None:
    """Run a bench until SIGTERM or SIGINT.

    Raises:
        BoardlabError: it cannot start.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        bench = VirtualBench(config, MonotonicRaw())
        stack.push_async_callback(bench.close)
        await bench.listen()
        server = await serve(config.switch_port, bench.answer)
        stack.callback(server.close)
        switch = "{}:{}".format(*server.sockets[0].getsockname()[:2])
        for state in bench.states:
            if state.signals:
                board = f"http://{switch}{panel.PREFIX}{state.name}"
                state.signals.update(http=f"{board}/application", pin=f"{board}/pins/app")
        daemon = PduDaemon(config.folder, find(), config.pdu_port, switch, [name for name, _ in config.boards])
        stack.push_async_callback(daemon.stop)
        await daemon.start()
        _prefer_real_time()
        gc.collect()
        gc.freeze()  # existing objects stay; repeated collections would delay the UARTs for milliseconds
        ready(BenchState(os.getpid(), switch, daemon.address, bench.states))
        _log.info("ready: power switch %s, pdudaemon %s", switch, daemon.address)
        await stop.wait()
        _log.info("going down")


def _prefer_real_time() -> None:
    """Pace UARTs ahead of other work, where permitted.

    QEMU and pdudaemon do not inherit it.
    """
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def _allow_open_files() -> None:
    """Raise the limit of open files to the host's maximum.

    A UART has up to four files, and shells begin with 1024 for a process.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _announce(config: BenchConfig, state: BenchState) -> None:
    """Write the boards' environments, and announce the bench.

    The first board's environment goes into the bench's folder, too.
    """
    for board in state.boards:
        folder = BoardFolder(config.folder / board.name)
        place = BoardAccess(folder, state.pdudaemon, state.http, config.latency_timer_ms)
        text = kinds.load(board.type).environment(place)
        (folder.path / ENV).write_text(text, encoding="utf-8")
        if board.outlet == 1:
            (config.folder / ENV).write_text(text, encoding="utf-8")
    publish(config.folder, state)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a bench process; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asked = parse_arguments(arguments)
    os.umask(0o077)  # the bench's files are its user's: the name of the power switch, sockets, the boards' output
    _allow_open_files()
    lock = hold(asked.folder, LOCK_PATIENCE_S)
    if lock is None:
        _log.error("another bench runs in %s", asked.folder)
        return EXIT_TWICE
    withdraw(asked.folder)
    try:
        asyncio.run(run(asked, lambda state: _announce(asked, state)))
    except BoardlabError as error:
        _log.error("%s", error)
        return 1
    finally:
        withdraw(asked.folder)
        lock.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
