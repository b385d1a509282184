"""Schedules of a simulated lab: nothing is lost or doubled, a known fault is found, and a seed is always the same schedule."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.atlength import either
from support.simulation.choices import Choices, shrunk
from support.simulation.database import Results, results
from support.simulation.faults import FAULTS, Fault
from support.simulation.simulate import hushed, simulate

pytestmark = pytest.mark.longer

TESTS = Path(__file__).parents[2]
SEEDS = either(60, 6_000)
WITHIN_S = 60.0  # of one core
SAME = either(12, 100)  # each kind of order among them
FEW = 3  # faults of a short test; all of them are put back at length


@pytest.fixture(scope="module")
def lab() -> Iterator[Results]:
    with hushed(), results() as found:
        yield found


def first_failure(lab: Results) -> tuple[int, str]:
    """The seed that fails first, and the invariant that it breaks, within WITHIN_S of processor time."""
    until_s = time.process_time() + WITHIN_S
    seed = 1
    while time.process_time() < until_s:
        if name := simulate(lab, Choices.of(seed)).name:
            return seed, name
        seed += 1
    return seed, ""


@pytest.mark.timeout(36_000)
def test_nothing_is_lost_or_doubled_in_any_schedule(lab: Results) -> None:
    for seed in range(1, SEEDS + 1):
        outcome = simulate(lab, Choices.of(seed))
        assert not outcome.name, f"./run simulate --seed {seed}: {outcome.seen}"


@pytest.mark.timeout(3_600)  # WITHIN_S of a busy processor
@pytest.mark.parametrize("fault", either(FAULTS[:FEW], FAULTS), ids=lambda fault: fault.name)
def test_a_fault_that_is_put_back_is_found(lab: Results, fault: Fault) -> None:
    with fault.put_back(lab):
        seed, name = first_failure(lab)
    assert name in fault.breaks, f"seed {seed}: {name or 'nothing'} was found"


@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("more", [("--budget", "60", "--tests"), ("--core",)], ids=["simulated", "core"])
def test_most_mutants_are_found(more: tuple[str, ...]) -> None:
    program = [sys.executable, "-m", "support.simulation.mutants", "--count", "40", *more]
    done = subprocess.run(program, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_seed_is_the_same_schedule_in_every_process() -> None:
    words = [sys.executable, "-m", "support.simulation", "--seeds", str(SAME)]
    told = [
        subprocess.run(
            words, cwd=TESTS, env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, check=True
        ).stdout
        for salt in ("1", "2")
    ]
    assert told[0] == told[1]
    assert told[0].splitlines()[-1].startswith(f"{SAME} seeds, ".encode())


def test_a_story_is_shrunk_to_the_decisions_that_it_needs() -> None:
    taken = [3, 0, 1, 2, 0, 0, 4, 1, 1, 0, 2]
    assert shrunk(taken, lambda tried: tried[3:4] == [2] and 4 in tried) == [0, 0, 0, 2, 0, 0, 4]
