"""A boot that lacks a marker while another program reads its console: the lab's fault, not the board's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve
from support.simruns import SimBench, bench

from lab.boards import MomentPattern

READ = (
    "import os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); print('reading', flush=True); os.read(fd, 1)"
)


@contextmanager
def reader_of(device: str) -> Iterator[int]:
    """Another program that reads the port; gives its process id."""
    with subprocess.Popen([sys.executable, "-c", READ, device], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"reading\n"
            yield other.pid
        finally:
            other.kill()


def missing_a_marker(lab: SimBench) -> SimBench:
    """A bench whose boots lack a marker that they have to have."""
    board = lab.strategy.type
    lost = MomentPattern(name="taken_away", pattern="text that another program got", required=True)
    lab.strategy.type = evolve(board, moments=(lost, *board.moments))
    return lab


def test_a_marker_that_is_missing_while_another_program_reads_is_not_the_boards_fault(tmp_path: Path) -> None:
    with bench(tmp_path) as lab:
        missing_a_marker(lab).run.retries = 0
        (alone,) = lab.measure()
        assert (alone.outcome, alone.fault) == ("moment_missing", "board")
        with reader_of(lab.strategy.console.port.port) as pid:
            _, both = lab.measure()
        assert (both.outcome, both.fault, both.transient) == ("console_shared", "lab", True)
        assert f"pid {pid} (python" in both.message
        assert "[moment_missing]" in both.message
