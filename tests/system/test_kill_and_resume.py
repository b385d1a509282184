"""kill -9 of pytest, the console server, pdudaemon and QEMU during a run, twice each with `./run soak`: the resumed run has every sample, and
each is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.atlength import either
from support.killing import DEADLINE_S, assert_run_survives
from support.measuring_lab import ENOUGH, Lab, Number, assert_true, running_lab

from lab.results import open_store
from lab.virtual.truth_log import Truth

pytestmark = pytest.mark.soak

CYCLES = either(10, 20)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with running_lab(tmp_path) as lab:
        yield lab


def boot_of(truth: Truth, start_ns: int) -> float:
    """The true boot time, in seconds, of the boot whose "Starting kernel" left the UART nearest to the stamp."""
    starting = min(truth.find(rb"Starting kernel \.\.\."), key=lambda t_ns: abs(t_ns - start_ns))
    prompt = min(t_ns for t_ns in truth.find(rb"qemu-virt login: ") if t_ns > starting)
    return (prompt - starting) / 1e9


def numbers(lab: Lab) -> list[Number]:
    """The boot times of the newest run."""
    truth = lab.bench.truth()
    with open_store(lab.environ["LAB_DB"]) as store:
        starts = {
            attempt.cycle: next(m.t_ns for m in attempt.moments if m.name == "starting_kernel")
            for attempt in store.attempts(store.runs()[0].id)
            if attempt.ok
        }
    return [(s.value, s.uncertainty, boot_of(truth, starts[s.cycle])) for s in lab.samples()]


def more_numbers(lab: Lab) -> list[Number]:
    """Those of a run in which nothing is killed."""
    assert lab.pytest("--lab-medium", "sd", "--lab-cycles", str(ENOUGH // 2)).wait(DEADLINE_S) == pytest.ExitCode.OK, (
        lab.log
    )
    return numbers(lab)


@pytest.mark.timeout(DEADLINE_S * 2)
def test_a_run_survives_the_death_of_every_process(lab: Lab) -> None:
    assert_run_survives(lab, "sd", CYCLES)
    assert sorted(s.cycle for s in lab.samples()) == list(range(1, CYCLES + 1))
    with open_store(lab.environ["LAB_DB"]) as store:
        assert store.run(1).status == "completed"
    assert_true(numbers(lab), lambda: more_numbers(lab))
