"""Sections through pytest on a simulated bench: real processes, a real serial line, a tester in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen
from support.facts import missing_facts
from support.measuring_lab import ROOT, Lab, measuring_pytest, running_lab
from support.virtual_bench import lab_virtual

from lab.metrics import Flag
from lab.results import Attempt, open_store
from lab.run.sections import KIND

TIME_SCALE = "0.02"
DEADLINE_S = 120.0
BOARD = "am62xx_sk-1"
STRESSORS = ("cpu", "matrix", "cache", "pipe", "switch")


@frozen
class Bench:
    """A simulated bench, and what its sessions run with."""

    folder: Path
    environment: dict[str, str]
    database: Path

    def command(self, *words: str) -> list[str]:
        return [*measuring_pytest(self.folder), "tests_perf", *words]

    def measure(self, *words: str, status: int = 0) -> str:
        """A session; what it printed."""
        command = self.command(*words)
        done = subprocess.run(command, env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def attempts(self, run: int) -> list[Attempt]:
        with open_store(self.environment["LAB_DB"]) as store:
            return store.attempts(run)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    words = ("sim", "--type", "am62xx_sk", "--time-scale", TIME_SCALE)
    with running_lab(tmp_path_factory.mktemp("sections"), *words) as lab:
        yield lab


@pytest.fixture
def bench(lab: Lab, tmp_path: Path) -> Bench:
    """With results of its own."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    database = tmp_path / "results.db"
    return Bench(lab.bench.folder, {**lab.environ, "PATH": programs, "LAB_DB": f"sqlite:///{database}"}, database)


def test_sections_of_linux_u_boot_and_the_tester_are_measured_and_what_is_not_allowed_is_skipped(bench: Bench) -> None:
    first = bench.measure("-k", "stream or uboot-emmc")
    assert "1 sections, 4 numbers of 12 samples, 0 skipped by preflight" in first, (
        "three cycles, as nobody says otherwise"
    )
    assert "uboot-emmc overwrites the scratch medium emmc_blocks: allow it with --lab-destructive" in first
    second = bench.measure("--lab-repeats", "1", "-k", "stream or usb-device or uboot-emmc", "--lab-destructive")
    assert not missing_facts(second, "3 sections", "10 numbers", "10 samples")
    assert second.index("stream   ") < second.index("uboot-emmc   "), "what destroys nothing comes first"
    with open_store(bench.environment["LAB_DB"]) as store:
        runs = store.runs()
        assert [(run.kind, run.status, run.provenance["virtual"]) for run in runs] == [(KIND, "completed", True)] * 2
        for run in runs:
            samples = store.samples(run.id)
            assert samples
            assert all(Flag.SIMULATED in sample.flags for sample in samples)


@pytest.mark.soak
def test_a_killed_run_goes_on_with_exact_counts_and_a_row_that_is_refused_costs_that_row(bench: Bench) -> None:
    fault = lab_virtual("fault", BOARD, "program_refused", "words=--cache 1", "--cycles", "all", "--dir", bench.folder)
    assert fault.returncode == 0, fault.stderr
    command = bench.command("--lab-repeats", "2", "--lab-retries", "0", "-k", "stress-ng")
    session = subprocess.Popen(command, env=bench.environment, cwd=ROOT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + DEADLINE_S
    while not bench.database.exists() or sum(a.ok for a in attempts_of_first(bench)) < 3:
        assert session.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    session.kill()
    session.wait()

    said = bench.measure("--lab-resume", "1", "--lab-retries", "0", "-k", "stress-ng", status=1)
    assert not missing_facts(said, "1 of 5 rows")
    assert not missing_facts(said, "stress-ng stressor=cache", "cycle 1, 2", "[command_failed, board]")
    good = Counter((a.params.get("stressor"), a.cycle) for a in bench.attempts(1) if a.ok)
    assert good == dict.fromkeys(((name, cycle) for name in STRESSORS if name != "cache" for cycle in (1, 2)), 1)


def attempts_of_first(bench: Bench) -> list[Attempt]:
    with open_store(bench.environment["LAB_DB"]) as store:
        return [attempt for run in store.runs() for attempt in store.attempts(run.id)]


def test_a_section_that_was_measured_and_is_refused_now_fails(bench: Bench, tmp_path: Path) -> None:
    """The eMMC's scratch partition is gone, as where a new kernel's driver finds no eMMC."""
    words = ("--lab-repeats", "1", "--lab-destructive", "-k", "emmc-fio")
    assert "1 sections" in bench.measure(*words)
    environment = tmp_path / "env.yaml"
    text = (bench.folder / "env.yaml").read_text(encoding="utf-8")
    environment.write_text(re.sub(r"emmc: '?/dev/mmcblk0p\d'?", "emmc: /dev/mmcblk5p3", text), encoding="utf-8")
    command = [word.replace(str(bench.folder / "env.yaml"), str(environment)) for word in bench.command(*words)]
    done = subprocess.run(command, env=bench.environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert not missing_facts(done.stdout, "preflight", "run 1 measured emmc-fio", "--lab-sections")
    with open_store(bench.environment["LAB_DB"]) as store:
        assert [run.status for run in store.runs()] == ["failed", "completed"]
    (refused,) = bench.attempts(2)
    assert not missing_facts(refused.message, "preflight", "run 1 measured emmc-fio"), (
        "the results have the reason, too"
    )
