"""Bringing a bench up and down from another process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import requests
from attrs import frozen

from lab import boards
from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.virtual import pdudaemon, ports
from lab.virtual.bench import STATUS_PATH
from lab.virtual.board import BoardFolder, BoardSpec
from lab.virtual.state import LOG, BenchConfig, BenchState, hold, require_private, running, withdraw

START_S = 120.0
LAST_PORT = 65535
STOP_S = 30.0
_POLL_S = 0.05
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@frozen
class ControlOrder:
    """Order of `up`; see its options."""

    folder: Path
    boards: tuple[BoardSpec, ...]
    switch_port: int
    pdu_port: int
    idle_off_s: float
    latency_timer_ms: float
    fifo_bytes: int
    tcp_port: int | None
    fresh: bool
    foreground: bool = False

    def command(self, pdu_port: int) -> list[str]:
        """Command of the bench with its pdudaemon on this port."""
        config = BenchConfig(
            folder=self.folder,
            boards=tuple((board.name, board.board_type) for board in self.boards),
            switch_port=self.switch_port,
            pdu_port=pdu_port,
            idle_off_s=self.idle_off_s,
            latency_timer_ms=self.latency_timer_ms,
            fifo_bytes=self.fifo_bytes,
            tcp_port=self.tcp_port,
        )
        return [sys.executable, "-P", "-m", "lab.virtual.bench", *config.words()]


def up(order: ControlOrder, report: Callable[[str], None]) -> BenchState:
    """Bring a bench up, or find it up.

    In the foreground this process becomes the bench.

    Raises:
        ConfigurationError: a wrong name or type, a port in use, a folder that is open to others, pdudaemon or QEMU not
            installed.
        LabError: it did not start; the message has the end of its log.
    """
    state = running(order.folder)
    if state is not None:
        _same(order, state)
        report(f"Already up: {', '.join(board.name for board in state.boards)} in {order.folder}")
        return state
    _check(order)
    pdudaemon.find()
    port = order.pdu_port or ports.free_port()
    ports.require_free(port, "--pdu-port")
    for option, wanted_port in (("--switch-port", order.switch_port), ("--tcp-port", order.tcp_port)):
        if wanted_port:
            ports.require_free(wanted_port, option)
    try:
        order.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigurationError(
            f"{order.folder}: cannot be made: {error.strerror}; choose another with --dir"
        ) from error
    require_private(order.folder)
    for board in order.boards:
        board.kind.prepare(BoardFolder(order.folder / board.name), fresh=order.fresh, report=report)
    if order.foreground:
        report("The bench runs here; Ctrl-C takes it down")
        os.execv(sys.executable, order.command(port))  # noqa: S606 - our own program
    return _start(order, port)


def down(folder: Path) -> bool:
    """Take a bench down completely; returns whether one was up.

    Raises:
        LabTransientError: it does not end.
    """
    state = running(folder)
    if state is None:
        withdraw(folder)  # of a bench that was killed
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        lock = hold(folder)
        if lock is not None:
            lock.close()
            return True
        time.sleep(_POLL_S)
    raise LabTransientError(
        f"the bench (pid {state.pid}) did not end within {STOP_S:.0f} s; see {folder / LOG}, then kill it"
    )


def status(state: BenchState) -> list[dict[str, object]]:
    """State of each board.

    It has name, type, outlet, power, reason, straps, overruns.

    Raises:
        LabTransientError: the bench does not answer.
    """
    try:
        with requests.Session() as session:
            session.trust_env = False  # no proxy on the way to loopback
            answer = session.get(f"http://{state.http}{STATUS_PATH}", timeout=5)
        answer.raise_for_status()
        found: list[dict[str, object]] = answer.json()["boards"]
    except (requests.RequestException, KeyError, ValueError) as error:
        raise LabTransientError(f"the bench (pid {state.pid}) does not answer at {state.http}: {error}") from error
    return found


def _start(order: ControlOrder, port: int) -> BenchState:
    log = order.folder / LOG
    with log.open("ab") as output:
        process = subprocess.Popen(
            order.command(port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
        )
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        state = running(order.folder)
        if state is not None and state.pid == process.pid:
            return state
        time.sleep(_POLL_S)
    process.kill()
    process.wait()
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
    raise LabStableError(f"the bench did not start; the end of {log}:\n{tail}", failure="virtual_bench")


def _check(order: ControlOrder) -> None:
    for board in order.boards:
        if not _NAME.fullmatch(board.name):
            raise ConfigurationError(
                f"--name {board.name!r}: letters, digits, '.', '_' and '-', at most 64, no leading sign"
            )
    named = (("--pdu-port", order.pdu_port), ("--switch-port", order.switch_port), ("--tcp-port", order.tcp_port))
    for option, port in named:
        if port is not None and not 0 <= port <= LAST_PORT:
            raise ConfigurationError(f"{option} {port}: 0 (a free one) to 65535")
    uarts = sum(len(boards.load(board.board_type).uarts) for board in order.boards)
    if order.tcp_port and order.tcp_port + uarts - 1 > LAST_PORT:
        raise ConfigurationError(f"--tcp-port {order.tcp_port}: {uarts} UARTs do not fit below {LAST_PORT}")
    if order.idle_off_s < 0 or order.latency_timer_ms < 0:
        raise ConfigurationError("--idle-off and --latency-timer-ms: 0 or more")
    if order.fifo_bytes < 1:
        raise ConfigurationError(f"--fifo-bytes {order.fifo_bytes}: at least 1")


def _same(order: ControlOrder, state: BenchState) -> None:
    there = [(board.name, board.type) for board in state.boards]
    if there != [(board.name, board.board_type) for board in order.boards]:
        names = ", ".join(f"{name} ({kind})" for name, kind in there)
        raise ConfigurationError(
            f"the bench in {order.folder} has {names}; `lab virtual down` first, or use another --dir"
        )
