"""Runs on two hosts whose wall clocks are 20 minutes apart, with one PostgreSQL server and one coordinator, while they are killed.

A third host, 3 minutes ahead, has the janitor. Each run holds its board and its labgrid place as `lab run` does, and looks each second
whether both are its own. BOARDLAB_CHAOS_RUNS and BOARDLAB_CHAOS_SEED change it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import define, field
from support import otherclock
from support.coordinator import client, running_coordinator
from support.postgresql_cluster import PASSWORD, Cluster, cluster

from exporters.farm.coordinator import Coordinator
from lab import package_data
from lab.jobs import listing
from lab.places.lease import JobHolder
from lab.results import open_store

pytestmark = pytest.mark.soak

RUNS = int(os.environ.get("BOARDLAB_CHAOS_RUNS", "50"))
SEED = int(os.environ.get("BOARDLAB_CHAOS_SEED", "0")) or random.randrange(1, 2**31)
BOARDS = ("b1", "b2", "b3", "b4")
HOSTS = {"hosta": 600.0, "hostb": -600.0}
JANITOR = ("hostc", 180.0)
KILLS = RUNS // 2
JANITORS = 0.2  # of them
STRIKES = ("run", "janitor", "database")
GAP_S = (5.0, 30.0)
FROZEN_S = 75.0  # longer than a lease: the database does not answer, to nobody
RUN_S = (10, 45)
STUCK_S = 120.0  # the longest that a dead job may keep its place
TICK_S = 0.5
ENV = """
targets: {{main: {{resources: [{{RemotePlace: {{name: {board}}}}}], drivers: [{{BoardStrategy: {{board_type: am62xx_sk, board: {board}}}}}]}}}}
options: {{coordinator_address: '{address}'}}
imports: [lab.drivers, STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))


@define
class Run:
    """A run; it is begun anew on either host when it was killed."""

    board: str
    seconds: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def job(self) -> str:
        """Its job while it measures, e.g. "j3"; else empty."""
        lines = self.log.read_text().splitlines() if self.process is not None and self.process.poll() is None else []
        return lines[-1].rpartition(" ")[2] if lines and lines[-1].startswith("measures as") else ""


@define
class Lab:
    """The lab that the hosts share, and what is done to it.

    Attributes:
        killed: what, and how often. since: job of a killed run -> when that was, by time.monotonic(). longest_s: that one of them kept its place.
        next_at, thaw_at: when the next thing is done, and the database goes on; 0: it does.
    """

    folder: Path
    server: Cluster
    database: str
    coordinator: Coordinator
    chance: random.Random
    killed: Counter[str] = field(factory=Counter)
    since: dict[str, float] = field(factory=dict)
    longest_s: float = 0.0
    next_at: float = 0.0
    thaw_at: float = 0.0
    _janitor: subprocess.Popen[bytes] | None = None

    def _program(self, host: str, ahead_s: float, *words: str, log: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", otherclock.__file__, host, str(ahead_s), *words]
        env = {**os.environ, "BOARDLAB_RUNTIME": str(self.folder / host), "LAB_ARTIFACTS": str(self.folder / "kept")}
        with log.open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, env=env)

    def begin(self, run: Run) -> None:
        """On a host by chance."""
        host = self.chance.choice(list(HOSTS))
        words = ("hold", self.database, str(self.folder / f"{run.board}.yaml"), run.board, str(run.seconds))
        run.process = self._program(host, HOSTS[host], *words, log=run.log)

    def tidy(self) -> None:
        """Have a janitor, another one where one was killed."""
        self.end()
        farm = str(self.folder / "farm.yaml")
        self._janitor = self._program(*JANITOR, "lab", "farm", "janitor", farm, log=self.folder / "janitor.log")

    def end(self) -> None:
        """Kill the janitor."""
        if self._janitor is not None:
            self._janitor.kill()
            self._janitor.wait()

    def freeze(self, sent: signal.Signals) -> None:
        """Stop all processes of the database, or let them go on."""
        main = int((self.server.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for pid in (main, *map(int, children)):
            os.kill(pid, sent)

    def look(self) -> bool:
        """Look for places of killed runs; False: the database does not answer. A janitor that ended is started again, as systemd does."""
        now = time.monotonic()
        if self.thaw_at:
            if now < self.thaw_at:
                return False
            self.freeze(signal.SIGCONT)
            self.thaw_at, self.next_at = 0.0, now + GAP_S[1]
            self.since = {
                called: since + FROZEN_S for called, since in self.since.items()
            }  # in which nobody could look
        if self._janitor is None or self._janitor.poll() is not None:
            self.tidy()
        holders = [JobHolder.of(holder) for holder in self.coordinator.holders().values() if holder]
        kept = {f"j{holder.job}" for holder in holders if holder is not None}
        self.longest_s = max(
            [self.longest_s, *(now - since for called, since in self.since.items() if called in kept)]
        )
        return True

    def strike(self, runs: Sequence[Run]) -> None:
        """Kill a run that measures or the janitor; once, stop the database for a while."""
        self.next_at = time.monotonic() + self.chance.uniform(*GAP_S)
        measuring = [run for run in runs if run.job]
        if sum(self.killed[each] for each in STRIKES) >= KILLS // 2 and not self.killed["database"]:
            self.freeze(signal.SIGSTOP)
            self.killed["database"] += 1
            self.thaw_at = time.monotonic() + FROZEN_S
        elif self.chance.random() < JANITORS:
            self.tidy()
            self.killed["janitor"] += 1
        elif measuring:
            run = self.chance.choice(measuring)
            assert run.process is not None
            called = run.job
            run.process.kill()
            if run.process.wait() == -signal.SIGKILL:
                self.killed["run"] += 1
                self.since[called] = time.monotonic()


@pytest.mark.timeout(7200)
def test_no_board_and_no_place_is_lost_to_another_clock(tmp_path: Path) -> None:
    print(f"seed {SEED}: {RUNS} runs, {KILLS} kills")  # noqa: T201 - to be given again
    chance = random.Random(SEED)
    with cluster() as server, running_coordinator(tmp_path) as address:
        for board in BOARDS:
            client(address, "-p", board, "create")
            (tmp_path / f"{board}.yaml").write_text(ENV.format(board=board, address=address))
        boards = "".join(f"  - {{name: {board}, env: {board}.yaml}}\n" for board in BOARDS)
        secret = tmp_path / "pgpass"
        secret.write_text(f"*:*:*:*:{PASSWORD}\n")
        secret.chmod(0o600)
        url = f"{server.url.replace(f':{PASSWORD}', '')}?passfile={secret}"
        farm = f"directory: {tmp_path}\ndatabase: {url}\ncoordinator: {address}\nboards:\n{boards}"
        (tmp_path / "farm.yaml").write_text(farm)
        open_store(url).close()  # with its tables
        lab = Lab(tmp_path, server, url, Coordinator(address), chance)
        began = time.monotonic()
        _measure(lab)
        print(f"kills: {dict(lab.killed)}; {time.monotonic() - began:.0f} s")  # noqa: T201 - what was done
        print(f"a killed run kept its place for at most {lab.longest_s:.0f} s")  # noqa: T201 - the same
        assert lab.longest_s <= STUCK_S
        with open_store(url) as store:
            states = Counter(view.job.state for view in listing.jobs(store, 10 * RUNS, store.now()))
        print(f"jobs: {dict(states)}")  # noqa: T201 - the same
        assert states["completed"] >= RUNS, "one that is killed as it ends is begun again"
        assert states["running"] == 0


def _measure(lab: Lab) -> None:
    """Until all runs have ended, and all places are free."""
    left = [Run(BOARDS[n % len(BOARDS)], lab.chance.randint(*RUN_S), lab.folder / f"run{n}.log") for n in range(RUNS)]
    going: list[Run] = []
    lab.next_at = time.monotonic() + GAP_S[1]
    lab.tidy()
    try:
        while left or going:
            while left and len(going) < 2 * len(BOARDS):
                going.append(left.pop(0))
                lab.begin(going[-1])
            for run in list(going):
                code = run.process.poll() if run.process is not None else None
                assert code in {None, 0, otherclock.AWAY, -signal.SIGKILL}, (
                    f"{run.log.name}: {code}: {run.log.read_text()[-2000:]}"
                )
                if code == 0:
                    going.remove(run)
                elif code is not None:  # it was killed, or the database did not answer when it looked
                    lab.killed["by the database"] += code == otherclock.AWAY
                    lab.begin(run)
            if lab.look() and time.monotonic() >= lab.next_at and sum(lab.killed[each] for each in STRIKES) < KILLS:
                lab.strike(going)
            time.sleep(TICK_S)
        deadline = time.monotonic() + STUCK_S
        while any(lab.coordinator.holders().values()):
            assert time.monotonic() < deadline, f"left: {lab.coordinator.holders()}"
            time.sleep(TICK_S)
    finally:
        if lab.thaw_at:
            lab.freeze(signal.SIGCONT)
        lab.end()
        for run in going:
            if run.process is not None:
                run.process.kill()
                run.process.wait()
