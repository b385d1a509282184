"""The files of a running bench: `bench.json` and its lock.

`BenchState` is what a bench tells others; it holds the lock as long as it lives. `BenchConfig` is what a bench shall have,
and the command line that carries it from `lab virtual up` to the bench's process.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import cattrs
from attrs import asdict, field, frozen

from lab.errors import ConfigurationError, LabStableError

FOLDER_VARIABLE = "BOARDLAB_VIRTUAL"
LOG = "bench.log"
ENV = "env.yaml"
STATE = "bench.json"
_LOCK = "bench.lock"
_RETRY_S = 0.02


@frozen
class BenchBoard:
    """A board of the bench.

    Attributes:
        type: of lab/boards.
        outlet: its number on the power switch, from 1.
        uarts: name -> the link to its pty.
        straps: the folder with a file per boot-mode strap.
        tcp: UART -> host:port, where it also has a TCP port.
        rails: the socket of the I2C bus with the rails' sensors; empty where it has none, as the next two.
        iiod: host:port of an iiod with the same sensors.
        automation: the link to the pty of its Automation Interface.
        signals: of its application, for `measure.answers`: "can", "http"; "pin": the URL of its pin's level.
    """

    name: str
    type: str
    outlet: int
    uarts: dict[str, str]
    straps: str
    truth: str
    tcp: dict[str, str] = field(factory=dict)
    rails: str = ""
    iiod: str = ""
    automation: str = ""
    signals: dict[str, str] = field(factory=dict)


@frozen
class BenchState:
    """A running bench.

    Attributes:
        http: host:port of the bench's power switch (Tasmota) and status.
        pdudaemon: host:port of its pdudaemon.
    """

    pid: int
    http: str
    pdudaemon: str
    boards: list[BenchBoard]


def default_folder() -> Path:
    """$BOARDLAB_VIRTUAL, else .lab/virtual in the working directory, where envs/virtual.yaml looks for it."""
    return Path(os.environ.get(FOLDER_VARIABLE) or Path.cwd() / ".lab" / "virtual").absolute()


def require_private(folder: Path) -> None:
    """Make sure that a folder is this user's alone.

    Its files name processes, ports and their orders.

    Raises:
        ConfigurationError: it is another user's, or open to others.
    """
    try:
        link, status = folder.lstat(), folder.stat()
    except OSError as error:
        raise ConfigurationError(f"{folder}: {error.strerror}; choose another with --dir") from error
    if status.st_uid != os.getuid() or link.st_uid not in {os.getuid(), 0}:
        other = link.st_uid if status.st_uid == os.getuid() else status.st_uid
        raise ConfigurationError(
            f"{folder}: belongs to user {other}, not to {os.getuid()}; choose a folder of your own with --dir"
        )
    if status.st_mode & 0o077:
        raise ConfigurationError(
            f"{folder}: others may enter it (mode {stat.S_IMODE(status.st_mode):o}); chmod 700 it, or choose another with "
            "--dir"
        )


def hold(folder: Path, patience_s: float = 0.0) -> IO[bytes] | None:
    """Hold the bench's lock while the file is open.

    None: another process has it.

    Args:
        patience_s: time of tries; a query for a running bench holds the lock for an instant.
    """
    file = (folder / _LOCK).open("ab")
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                file.close()
                return None
            time.sleep(_RETRY_S)
        else:
            return file


def running(folder: Path) -> BenchState | None:
    """State of the folder's bench once it is ready, or None.

    The files of a killed one do not count.

    Raises:
        ConfigurationError: the folder is another user's, or open to others.
        LabStableError: the bench's file cannot be understood.
    """
    if not (folder / _LOCK).exists():
        return None
    require_private(folder)
    lock = hold(folder)
    if lock is not None:
        lock.close()
        return None
    try:
        return cattrs.structure(json.loads((folder / STATE).read_text()), BenchState)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, cattrs.BaseValidationError) as error:
        raise LabStableError(
            f"{folder / STATE}: cannot be understood ({error}); was it edited? `lab virtual down` and `up` write it anew"
        ) from error


def expect(folder: Path) -> BenchState:
    """As `running`.

    Raises:
        ConfigurationError: no bench runs there.
    """
    state = running(folder)
    if state is None:
        raise ConfigurationError(f"no virtual bench runs in {folder}; start it with `lab virtual up`")
    return state


def publish(folder: Path, state: BenchState) -> None:
    """Tell that the bench is ready."""
    aside = folder / f".{STATE}"
    aside.write_text(json.dumps(asdict(state), indent=2) + "\n")
    aside.replace(folder / STATE)


def withdraw(folder: Path) -> None:
    """Forget what an earlier bench told."""
    (folder / STATE).unlink(missing_ok=True)


# --- Configuration of a bench ---


DEFAULT_FIFO_BYTES = 16  # of a 16550A, and of the adapters in its likeness


@frozen
class BenchConfig:
    """Configuration of a bench.

    Attributes:
        boards: (name, board type) of each.
        switch_port: of its power switch; 0: any.
        pdu_port: of its pdudaemon.
        idle_off_s: see `Outlet`.
        latency_timer_ms, fifo_bytes: of every USB adapter.
        tcp_port: of the first UART; those of the others follow it. 0: free ones; None: no TCP ports.
    """

    folder: Path
    boards: tuple[tuple[str, str], ...]
    switch_port: int
    pdu_port: int
    idle_off_s: float
    latency_timer_ms: float
    fifo_bytes: int
    tcp_port: int | None = None

    def words(self) -> list[str]:
        """The arguments of `python -m lab.virtual.bench`."""
        return [
            *("--dir", str(self.folder)),
            *(word for name, kind in self.boards for word in ("--board", f"{name}={kind}")),
            *("--switch-port", str(self.switch_port)),
            *("--pdu-port", str(self.pdu_port)),
            *("--idle-off", str(self.idle_off_s)),
            *("--latency-timer-ms", str(self.latency_timer_ms)),
            *("--fifo-bytes", str(self.fifo_bytes)),
            *(() if self.tcp_port is None else ("--tcp-port", str(self.tcp_port))),
        ]


def parse_arguments(arguments: Sequence[str] | None = None) -> BenchConfig:
    """Parse the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m lab.virtual.bench")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--board", action="append", required=True, metavar="NAME=TYPE")
    parser.add_argument("--switch-port", type=int, default=0)
    parser.add_argument("--pdu-port", type=int, required=True)
    parser.add_argument("--idle-off", type=float, default=0.0)
    parser.add_argument("--latency-timer-ms", type=float, default=1.0)
    parser.add_argument("--fifo-bytes", type=int, default=DEFAULT_FIFO_BYTES)
    parser.add_argument("--tcp-port", type=int)
    given = parser.parse_args(arguments)
    return BenchConfig(
        folder=given.dir,
        boards=tuple((name, kind) for name, _, kind in (board.partition("=") for board in given.board)),
        switch_port=given.switch_port,
        pdu_port=given.pdu_port,
        idle_off_s=given.idle_off,
        latency_timer_ms=given.latency_timer_ms,
        fifo_bytes=given.fifo_bytes,
        tcp_port=given.tcp_port,
    )
