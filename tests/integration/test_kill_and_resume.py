"""kill -9 of pytest, the console server, pdudaemon and QEMU during a run: the resumed run has every sample, and each is true."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from attrs import define, field

from lab.console.client import ConsoleClient
from lab.console.runtime import socket_path
from lab.results import StoredSample, open_store
from virtual.truth import Truth, read_truth

ROOT = Path(__file__).parents[2]
CYCLES = 20
SEED = 20261120
DEADLINE_S = 600
VICTIMS = ("pytest", "console", "pdudaemon", "qemu")


@define
class Lab:
    """One virtual board with everything around it in a folder of its own."""

    folder: Path
    environ: dict[str, str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.environ = {
            **os.environ,
            "BOARDLAB_RUNTIME": str(self.folder / "runtime"),
            "LAB_DB": f"sqlite:///{self.folder / 'results.db'}",
        }

    def lab(self, *arguments: str) -> str:
        done = subprocess.run(
            [Path(sys.executable).with_name("lab"), *arguments],
            env=self.environ,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pytest(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--lg-env",
            str(self.folder / "bench" / "env.yaml"),
        ]
        with (self.folder / "pytest.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "tests_perf", "--medium", "sd", "--retries", "5", *arguments],
                env=self.environ,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def samples(self) -> list[StoredSample]:
        with open_store(self.environ["LAB_DB"]) as store:
            runs = store.runs()
            return store.samples(runs[0].id, metric="boot.time") if runs else []

    def processes(self, name: str) -> list[psutil.Process]:
        """Processes of this lab: their command line or environment names its folder."""
        found = []
        for process in psutil.process_iter():
            try:
                words = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if str(self.folder) in words and name in words:
                found.append(process)
        return found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    lab.lab("virtual", "up", "--dir", str(tmp_path / "bench"), "--pdu-port", "0")
    yield lab
    lab.lab("virtual", "down", "--dir", str(tmp_path / "bench"))
    with ConsoleClient(socket_path(tmp_path / "runtime")) as client:
        client.stop()
    assert lab.processes("") == [], "something was left running"


def wait_for_sample(lab: Lab, process: subprocess.Popen[bytes], count: int) -> subprocess.Popen[bytes]:
    """Wait until there are so many samples; a session that ended meanwhile is resumed, once per wait."""
    deadline = time.monotonic() + DEADLINE_S
    resumed = False
    while len(lab.samples()) < count:
        if process.poll() is not None:
            assert not resumed, (lab.folder / "pytest.log").read_text()
            process, resumed = lab.pytest("--resume", "1"), True
        assert time.monotonic() < deadline, f"no {count}. sample in time:\n" + (lab.folder / "pytest.log").read_text()
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


def boot_of(truth: Truth, sample: StoredSample, start_ns: int) -> float:
    """The true boot time of the boot whose "Starting kernel" left the UART nearest to the sample's stamp."""
    starting = min(truth.find(rb"Starting kernel \.\.\."), key=lambda t_ns: abs(t_ns - start_ns))
    prompt = min(t_ns for t_ns in truth.find(rb"qemu-virt login: ") if t_ns > starting)
    return (prompt - starting) / 1e9


@pytest.mark.timeout(DEADLINE_S * 2)
def test_a_run_survives_the_death_of_every_process(lab: Lab) -> None:
    chance = random.Random(SEED)
    process = lab.pytest("--cycles", str(CYCLES))
    for number, victim in enumerate((*VICTIMS, *VICTIMS), start=1):
        process = wait_for_sample(lab, process, 2 * number)
        time.sleep(chance.uniform(0.0, 4.0))  # anywhere in the next cycle: the moment is what is being tried
        kill(lab, victim, process)
    process = wait_for_sample(lab, process, CYCLES)
    assert process.wait(DEADLINE_S) == 0, (lab.folder / "pytest.log").read_text()

    samples = lab.samples()
    assert sorted(s.cycle for s in samples) == list(range(1, CYCLES + 1))
    truth = read_truth(lab.folder / "bench" / "qemu-1" / "truth.log")
    with open_store(lab.environ["LAB_DB"]) as store:
        starts = {
            attempt.cycle: next(m.t_ns for m in attempt.moments if m.name == "starting_kernel")
            for attempt in store.attempts(1)
            if attempt.ok
        }
        assert store.run(1).status == "completed"
    for sample in samples:
        true_s = boot_of(truth, sample, starts[sample.cycle])
        assert abs(sample.value - true_s) <= sample.uncertainty, (
            f"cycle {sample.cycle}: {sample.value} s, true {true_s} s"
        )
