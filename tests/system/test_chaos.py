"""Five minutes of tests/support/chaos.py: processes killed and stopped, adapters pulled, disks full, switches that refuse or hang."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.atlength import either

pytestmark = pytest.mark.soak

TESTS = Path(__file__).parents[1]
MINUTES = either(1.0, 5.0)  # each kind strikes once in the first minute
BOARDS = 4  # another test runs beside this one
SEED = 20261122
DEADLINE_S = MINUTES * 60 + 1000  # it gives up by itself before that
STRIKES = 14  # kinds of them
FEW = 20  # boot times; fewer would prove little


def cells(table: str) -> dict[str, int]:
    """The rows of the table: what, and how often."""
    return {what: int(count) for what, count in re.findall(r"^\| (.+) \| (\d+) \|$", table, re.MULTILINE)}


@pytest.mark.timeout(DEADLINE_S + 60)
def test_after_havoc_counts_are_exact_times_are_true_and_nothing_is_left_behind() -> None:
    words = ("--minutes", str(MINUTES), "--boards", str(BOARDS), "--seed", str(SEED), "--verbose")
    process = subprocess.Popen(
        [sys.executable, "-m", "support.chaos", *words],
        cwd=TESTS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.terminate()  # it ends what it has started, and says where it was
        said, _ = process.communicate()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    assert process.returncode == 0, said
    table = cells(said)
    struck = list(table.items())[:STRIKES]
    assert all(count > 0 for _, count in struck), said
    assert table["of these inside"] >= FEW, said
    assert table["what does not hold"] == 0
