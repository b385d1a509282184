"""kill -9 of pytest, the console server, pdudaemon and QEMU during a run: the resumed run has every sample, and each is true."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from measuring_lab import Lab, assert_true, running_lab

from lab.results import open_store
from virtual.truth import Truth

CYCLES = 20
SEED = 20261120
DEADLINE_S = 600
VICTIMS = ("pytest", "console", "pdudaemon", "qemu")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with running_lab(tmp_path) as lab:
        yield lab


def wait_for_sample(lab: Lab, process: subprocess.Popen[bytes], count: int) -> subprocess.Popen[bytes]:
    """Wait until there are so many samples; a session that ended meanwhile is resumed, once per wait."""
    deadline = time.monotonic() + DEADLINE_S
    resumed = False
    while len(lab.samples()) < count:
        if process.poll() is not None:
            assert not resumed, lab.log
            process, resumed = lab.pytest("--resume", "1"), True
        assert time.monotonic() < deadline, f"no {count}. sample in time:\n" + lab.log
        time.sleep(0.2)
    return process


def kill(lab: Lab, victim: str, process: subprocess.Popen[bytes]) -> None:
    if victim == "pytest":
        process.kill()
        process.wait()
        return
    names = {"console": "lab.console.server", "pdudaemon": "pdudaemon", "qemu": "qemu-system"}
    for found in lab.processes(names[victim]):
        try:
            found.kill()
        except psutil.NoSuchProcess:
            continue


def boot_of(truth: Truth, start_ns: int) -> float:
    """The true boot time, in seconds, of the boot whose "Starting kernel" left the UART nearest to the stamp."""
    starting = min(truth.find(rb"Starting kernel \.\.\."), key=lambda t_ns: abs(t_ns - start_ns))
    prompt = min(t_ns for t_ns in truth.find(rb"qemu-virt login: ") if t_ns > starting)
    return (prompt - starting) / 1e9


@pytest.mark.timeout(DEADLINE_S * 2)
def test_a_run_survives_the_death_of_every_process(lab: Lab) -> None:
    chance = random.Random(SEED)
    process = lab.pytest("--medium", "sd", "--cycles", str(CYCLES))
    for number, victim in enumerate((*VICTIMS, *VICTIMS), start=1):
        process = wait_for_sample(lab, process, 2 * number)
        time.sleep(chance.uniform(0.0, 4.0))  # anywhere in the next cycle: the moment is what is being tried
        kill(lab, victim, process)
    process = wait_for_sample(lab, process, CYCLES)
    assert process.wait(DEADLINE_S) == 0, lab.log

    samples = lab.samples()
    assert sorted(s.cycle for s in samples) == list(range(1, CYCLES + 1))
    truth = lab.bench.truth()
    with open_store(lab.environ["LAB_DB"]) as store:
        starts = {
            attempt.cycle: next(m.t_ns for m in attempt.moments if m.name == "starting_kernel")
            for attempt in store.attempts(1)
            if attempt.ok
        }
        assert store.run(1).status == "completed"
    assert_true((s.value, s.uncertainty, boot_of(truth, starts[s.cycle])) for s in samples)
