"""What a bench shall have, and the command line that carries it from `lab virtual up` to the bench's process."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

DEFAULT_FIFO_BYTES = 16  # of a 16550A, and of the adapters in its likeness


@frozen
class BenchConfig:
    """What a bench shall have.

    Attributes:
        boards: (name, board type) of each.
        switch_port: where its power switch listens; 0: anywhere. pdu_port: where its pdudaemon does.
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


def read(arguments: Sequence[str] | None = None) -> BenchConfig:
    """What the arguments of the process say."""
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
