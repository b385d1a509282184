"""Bringing a bench up and down from another process."""

from __future__ import annotations

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
from virtual import environment, kinds, pdudaemon, ports
from virtual.bench import STATUS_PATH
from virtual.board import BoardFolder
from virtual.state import ENV, LOG, BenchState, hold, running

START_S = 60.0
STOP_S = 30.0
_POLL_S = 0.05
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@frozen
class Order:
    """What `up` is asked for; see its options."""

    folder: Path
    board_type: str
    name: str
    pdu_port: int
    idle_off_s: float
    latency_timer_ms: float
    fresh: bool


def up(order: Order, report: Callable[[str], None]) -> BenchState:
    """Bring a bench up, or find it up.

    Raises:
        ConfigurationError: a wrong name or type, a port in use, pdudaemon or QEMU not installed.
        LabError: it did not start; the message has the end of its log.
    """
    state = running(order.folder)
    if state is not None:
        _same(order, state)
        report(f"Already up: {order.name} in {order.folder}")
        return state
    kind = kinds.load(order.board_type)
    _check(order)
    pdudaemon.find()
    port = order.pdu_port or ports.free_port()
    ports.require_free(port, "--pdu-port")
    try:
        order.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigurationError(
            f"{order.folder}: cannot be made: {error.strerror}; choose another with --dir"
        ) from error
    kind.prepare(BoardFolder(order.folder / order.name), fresh=order.fresh, report=report)
    state = _start(order, port)
    text = environment.of_bench(order.folder, state, order.latency_timer_ms)
    (order.folder / ENV).write_text(text, encoding="utf-8")
    return state


def down(folder: Path) -> bool:
    """Take a bench down: boards off, nothing left running. Returns whether one was up.

    Raises:
        LabTransientError: it does not end.
    """
    state = running(folder)
    if state is None:
        return False
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
    """How each board is: name, type, outlet, power, reason, straps, overruns.

    Raises:
        LabTransientError: the bench does not answer.
    """
    try:
        answer = requests.get(f"http://{state.http}{STATUS_PATH}", timeout=5)
        answer.raise_for_status()
        found: list[dict[str, object]] = answer.json()["boards"]
    except (requests.RequestException, KeyError, ValueError) as error:
        raise LabTransientError(f"the bench (pid {state.pid}) does not answer at {state.http}: {error}") from error
    return found


def _start(order: Order, port: int) -> BenchState:
    log = order.folder / LOG
    command = [sys.executable, "-m", "virtual.bench", "--dir", str(order.folder), "--pdu-port", str(port)]
    command += ["--board", f"{order.name}={order.board_type}", "--idle-off", str(order.idle_off_s)]
    command += ["--latency-timer-ms", str(order.latency_timer_ms)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", start_new_session=True
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


def _check(order: Order) -> None:
    if not _NAME.fullmatch(order.name):
        raise ConfigurationError(
            f"--name {order.name!r}: letters, digits, '.', '_' and '-', at most 64, no leading sign"
        )
    if not 0 <= order.pdu_port <= 65535:
        raise ConfigurationError(f"--pdu-port {order.pdu_port}: 0 (a free one) to 65535")
    if order.idle_off_s < 0 or order.latency_timer_ms < 0:
        raise ConfigurationError("--idle-off and --latency-timer-ms: 0 or more")
    boards.load(order.board_type)


def _same(order: Order, state: BenchState) -> None:
    there = state.boards[0]
    if (there.name, there.type) != (order.name, order.board_type):
        raise ConfigurationError(
            f"the bench in {order.folder} has {there.name} ({there.type}); `lab virtual down` first, or use another --dir"
        )
