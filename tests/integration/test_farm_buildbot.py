"""A real Buildbot over a farm of simulated boards: builds go side by side, a killed worker's build goes on, counts are exact."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from attrs import define, field

from lab.farm import config
from lab.farm.desk import Desk
from lab.results import open_store

LAB = Path(sys.executable).with_name("lab")
DEADLINE_S = 240
POLL_S = 0.2
CYCLES = 3
BOARDS = ("am62xx_sk-1", "am62xx_sk-2")


@define
class Queue:
    """Buildbot's HTTP interface, as its own pages use it.

    Attributes:
        builders: name -> number.
    """

    desk: Desk
    session: requests.Session = field(factory=requests.Session)
    builders: dict[str, int] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.session.trust_env = False
        self.session.headers["Accept-Encoding"] = "identity"  # some answers of a busy Buildbot are not what they say
        wait_for(lambda: all(worker["connected_to"] for worker in self.get("workers")["workers"]))
        self.builders = {builder["name"]: builder["builderid"] for builder in self.get("builders")["builders"]}

    @property
    def address(self) -> str:
        farm = config.load(self.desk.file)
        assert farm.buildbot is not None
        return f"http://{farm.buildbot.www}"

    def get(self, path: str) -> Any:
        return self.session.get(f"{self.address}/api/v2/{path}", timeout=DEADLINE_S).json()

    def log_in(self) -> None:
        users = json.loads((self.desk.buildbot.master / "secrets.json").read_text())["users"]
        self.session.get(f"{self.address}/auth/login", auth=("lab", users["lab"]), timeout=DEADLINE_S)

    def force(self, scheduler: str, builder: str, **parameters: object) -> Any:
        order = {"builderid": self.builders[builder], **parameters}
        body = {"id": 1, "jsonrpc": "2.0", "method": "force", "params": order}
        url = f"{self.address}/api/v2/forceschedulers/{scheduler}"
        return self.session.post(url, json=body, timeout=DEADLINE_S).json()

    def builds(self) -> list[dict[str, Any]]:
        return list(self.get("builds")["builds"])


def wait_for(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


def lab(folder: Path, *words: str) -> str:
    done = subprocess.run([LAB, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=DEADLINE_S)
    return done.stdout


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    try:
        lab(tmp_path, "farm", "up", "--count", "2", "--time-scale", "0.02", "--buildbot")
        yield Desk(tmp_path / ".lab" / "farm" / "farm.yaml")
    finally:
        lab(tmp_path, "farm", "down")


def samples(desk: Desk) -> dict[str, list[int]]:
    """Board -> the cycles of its samples of boot time, of all its runs."""
    with open_store(config.load(desk.file).database) as store:
        found: dict[str, list[int]] = {board: [] for board in BOARDS}
        for run in store.runs():
            found[run.board] += [sample.cycle for sample in store.samples(run.id, "boot.time")]
        return found


def test_builds_of_two_boards_go_side_by_side_and_a_killed_worker_costs_no_cycle(desk: Desk) -> None:
    queue = Queue(desk)
    assert "role" in queue.force("measure", "boot on am62xx_sk-1")["error"]["message"]
    queue.log_in()
    assert "error" in queue.force("measure", "boot on am62xx_sk-1", medium="sd; reboot")
    for board in BOARDS:
        queue.force("measure", f"boot on {board}", cycles=CYCLES, medium="sd")
    wait_for(lambda: min(map(len, samples(desk).values())) >= 1)
    running = queue.builds()
    assert {build["complete"] for build in running} == {False}, "both are measured at the same time"
    (worker,) = [state.pid for state in desk.states() if state.name == "worker"]
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: sum(build["complete"] and build["results"] == 0 for build in queue.builds()) == len(BOARDS))
    assert len(queue.builds()) == 2 * len(BOARDS), "each was begun twice"
    assert samples(desk) == {board: list(range(1, CYCLES + 1)) for board in BOARDS}
