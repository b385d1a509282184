"""A scheduled job gives labgrid's place to whoever reserves it in labgrid, and goes on when that one has done."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.coordinator import DEADLINE_S, PROGRAMS, client, running_coordinator
from support.facts import missing_facts

from lab.farm import runner as farm_runner
from lab.farm.runner import Runner, RunnerPaths
from lab.host import process
from lab.jobs import listing
from lab.jobs.queue import TIMERS, JobQueue
from lab.jobs.records import Order
from lab.places.coordinator import Coordinator
from lab.places.job_place import other_user
from lab.results import Store, open_store

ENV = """
targets:
  main:
    resources:
      - RemotePlace: {{name: b1}}
options:
  coordinator_address: '{address}'
"""
LONGEST_S = 240.0  # of a busy host
LENA = {"LG_USERNAME": "lena", "LG_HOSTNAME": "desk-1"}
# In pytest's place: the first one ends when somebody wants the board, the second one has measured all.
MEASURES = """
import sys, time
from pathlib import Path
from lab.results import open_store
from lab.jobs.queue import GAVE_WAY, claimant
store, job, before = open_store(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
if before.exists():
    sys.exit(0)
before.touch()
while not claimant(store, job):
    time.sleep(0.05)
sys.exit(GAVE_WAY)
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with running_coordinator(tmp_path) as address:
        client(address, "-p", "b1", "create")
        client(address, "-p", "b1", "set-tags", "board=am62x")
        yield address


def queue(store: Store, priority: int) -> JobQueue:
    return JobQueue(store, process.identity(), process.has_died, person="timer", priority=priority)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def labgrid(address: str, *words: str) -> str:
    """labgrid-client, as Lena."""
    environ = {**os.environ, **LENA, "LG_COORDINATOR": address}
    command: Sequence[str | Path] = [PROGRAMS / "labgrid-client", *words]
    return subprocess.run(command, env=environ, check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout


def test_a_reservation_in_labgrid_gets_the_place_of_a_scheduled_job_and_gives_it_back(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    env, begun = tmp_path / "b1.yaml", tmp_path / "begun"
    env.write_text(ENV.format(address=address))
    said: list[str] = []
    seen: list[object] = []
    with open_store(str(tmp_path / "results.db")) as store:
        book = queue(store, TIMERS)
        job = book.enqueue(Order("am62xx_sk", "b1", ("boot",), str(env), "", 1))
        words = [sys.executable, "-P", "-c", MEASURES, str(tmp_path / "results.db"), str(job.id), str(begun)]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        monkeypatch.setattr(farm_runner, "command", lambda *_args: words)
        runner = Runner(book, RunnerPaths(tmp_path, tmp_path, None), said.append, heartbeat_s=0.2)

        def lena() -> None:
            until(begun.exists)
            token = labgrid(address, "reserve", "--shell", "board=am62x").strip().rpartition("=")[2]
            until(lambda: listing.job(store, job.id).state == "queued")
            until(lambda: Coordinator(address).poll(token)[0] == "allocated")
            Coordinator(address).acquire("b1", "desk-1/lena")
            seen.append(Coordinator(address).holder("b1"))
            seen.append(other_user(book, job))
            seen.append(book.holder_of("b1"))
            labgrid(address, "cancel-reservation", token)
            Coordinator(address).release("b1", "desk-1/lena")

        person = threading.Thread(target=lena)
        person.start()
        code = runner.run(job, LONGEST_S)
        person.join(LONGEST_S)
        assert code == 0, said
        assert seen == ["desk-1/lena", "desk-1/lena has acquired labgrid's place b1", None]
        assert not missing_facts("\n".join(said), f"{job.called} gives way", "desk-1/lena", "place b1")
        assert listing.job(store, job.id).state == "completed"
    assert Coordinator(address).holder("b1") == ""


def test_a_reservation_of_another_place_changes_nothing(tmp_path: Path, address: str) -> None:
    env = tmp_path / "b1.yaml"
    env.write_text(ENV.format(address=address))
    with open_store(str(tmp_path / "results.db")) as store:
        job = queue(store, TIMERS).enqueue(Order("am62xx_sk", "b1", ("boot",), str(env), "", 1))
        token = labgrid(address, "reserve", "--shell", "board=am64x").strip().rpartition("=")[2]
        assert other_user(queue(store, TIMERS), job) == ""
        labgrid(address, "cancel-reservation", token)
        labgrid(address, "reserve", "name=b1")
        assert not missing_facts(other_user(queue(store, TIMERS), job), "desk-1/lena", "place b1")
