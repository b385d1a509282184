"""How late the stamps of a QEMU board's boots are: every moment of a run, against the bench's log of its UART.

    ./run soak tests/system/test_qemu_boards_long.py -k twenty --basetemp /tmp/boards
    uv run python bench/boards.py /tmp/boards/test_twenty*[0-9]

Takes the folders of labs that have measured (`tests/support/measuring_lab.py`): each has a `results.db` and the bench's truth
log. The error of a stamp is the moment less the time at which the marker's last byte left the UART. It has the adapter's
latency timer and FIFO in it, which a ± has to cover.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from attrs import frozen
from stamps_compare import print_table

from lab import boards
from lab.results import open_store
from lab.virtual.truth import read_truth

HEADER = ["board", "boots", "moments", "p50 ms", "p99 ms", "max ms", "early", "in ±"]


@frozen
class Late:
    """A moment's error and its ±, in milliseconds."""

    error_ms: float
    uncertainty_ms: float


def lateness(folder: Path) -> tuple[str, int, list[Late]]:
    """Board type, number of boots, and every moment of them."""
    with open_store(str(folder / "results.db")) as store:
        run = store.runs()[0]
        boots = [attempt for attempt in store.attempts(run.id) if attempt.ok]
    truth = read_truth(folder / "bench" / run.board / "truth.log")
    found = []
    for marker in boards.load(run.board_type).moments:
        true_ns = np.array(truth.find(marker.pattern.encode()))
        for moment in (moment for boot in boots for moment in boot.moments if moment.name == marker.name):
            nearest_ns = int(true_ns[np.abs(true_ns - moment.t_ns).argmin()])
            found.append(Late((moment.t_ns - nearest_ns) / 1e6, moment.uncertainty_ns / 1e6))
    return run.board_type, len(boots), found


def row(board_type: str, boots: int, moments: list[Late]) -> list[str]:
    """The cells of a board."""
    errors = [each.error_ms for each in moments]
    within = sum(abs(each.error_ms) <= each.uncertainty_ms for each in moments) / len(moments)
    early = sum(each.error_ms < 0 for each in moments)
    numbers = (*np.percentile(errors, [50, 99]), max(errors))
    return [board_type, str(boots), str(len(moments)), *(f"{x:.3f}" for x in numbers), str(early), f"{within:.2%}"]


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="of labs that have measured")
    print_table(HEADER, [row(*lateness(folder)) for folder in parser.parse_args().folders])
    return 0


if __name__ == "__main__":
    sys.exit(main())
