"""The SQLite store among real programs: many writers, one that is killed, a full disk."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.store_writers import WRITERS, assert_nothing_is_lost, write_all_at_once

from lab.results import open_store

# Records cycle after cycle in a new run, each with a log of its own, and says so after each.
RECORDER = """
import sys
import random
from support.recorded_run import START, attempt, boot
from lab.errors import BoardlabError
from lab.results import open_store
import datetime as dt
import resource

sys.stdout.reconfigure(line_buffering=True)
store = open_store(sys.argv[1])
run = store.begin_run("boot", "qemu-virt", "qemu-1", "11.01", plan={}, provenance={})
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
dice = random.Random(1)
try:
    for cycle in range(1, 10_000):
        good = boot("sd", cycle, dice, frozenset())
        at = START + dt.timedelta(seconds=cycle)
        store.record_attempt(run.id, attempt(store, good, medium="sd", cycle=cycle, number=1, at=at))
        print(cycle)
except BoardlabError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_ARTIFACTS", raising=False)


def recorder(*arguments: str) -> subprocess.Popen[str]:
    helpers = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(helpers)}
    command = [sys.executable, "-c", RECORDER, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def cycles_with_everything(path: Path) -> list[int]:
    """The cycles in the store, each verified to be whole."""
    with open_store(str(path)) as store:
        attempts = store.attempts(1)
        for attempt in attempts:
            assert (len(attempt.samples), len(attempt.moments)) == (9, 7)
            log = store.artifacts.read(attempt.artifacts[0].sha256)
            assert log.endswith(b"qemu-virt login: \r\n")
    return [attempt.cycle for attempt in attempts]


@pytest.mark.longer
def test_many_programs_open_a_new_database_and_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'results.db'}"
    assert write_all_at_once(url) == [0] * WRITERS
    assert_nothing_is_lost(url)


@pytest.mark.parametrize("after", [1, pytest.param(5, marks=pytest.mark.soak), 17])
def test_a_program_that_is_killed_loses_no_cycle_that_it_had_recorded(tmp_path: Path, after: int) -> None:
    path = tmp_path / "results.db"
    with recorder(str(path)) as program:
        assert program.stdout is not None
        said = [int(program.stdout.readline()) for _ in range(after)]
        program.send_signal(signal.SIGKILL)
        said += [int(line) for line in program.stdout]
    kept = cycles_with_everything(path)
    assert kept == list(range(1, len(kept) + 1))
    assert len(said) <= len(kept) <= len(said) + 1  # the last may have been committed and not said
    with open_store(str(path)) as store:
        assert store.run(1).status == "running"
        assert store.reopen_run(1).id == 1


def test_a_full_disk_ends_in_one_clear_error_and_earlier_cycles_are_intact(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with recorder(str(path), "2000000") as program:  # no file may grow beyond that
        assert program.stdout is not None
        *said, last = program.stdout.read().splitlines()
    assert program.returncode == 0
    assert re.match(r"LabStableError results in .*results\.db: .*(disk|full).*: earlier records are intact", last)
    kept = cycles_with_everything(path)
    assert len(kept) > 10
    assert kept == [int(line) for line in said]
