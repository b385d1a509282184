"""Runs that Buildbot has queued over boards of two other hosts, while programs are killed, cables pulled and whole hosts switched off.

Each host is a network namespace. It needs root, iproute2 and openssh-server. The short form is 8 runs on 4 boards;
BOARDLAB_CHAOS_RUNS, BOARDLAB_CHAOS_BOARDS and BOARDLAB_CHAOS_SEED say otherwise: 200 runs and 16 boards are the long one.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter

import hostfarm
import requests
from attrs import define, field
from buildbot_farm import BuildbotFarm
from chaosruns import look, progress
from hostfarm import COORDINATOR, RUNNER, HostFarm
from hostnet import left, problem

from exporters.farm.coordinator import Coordinator
from lab.errors import LabTransientError
from lab.farm import config
from lab.host import process
from lab.places.holding import JobHolder
from lab.results import Store, open_store
from lab.results.joblist import job as job_of

RUNS = int(os.environ.get("BOARDLAB_CHAOS_RUNS", "8"))
BOARDS = int(os.environ.get("BOARDLAB_CHAOS_BOARDS", "4"))
SEED = int(os.environ.get("BOARDLAB_CHAOS_SEED", "0")) or random.randrange(1, 2**31)
HOSTS = ("hosta", "hostb")
CYCLES = 2
TIME_SCALE = 0.05
KILLS = RUNS  # then the havoc ends, so that the test does
GAP_S = (2.0, 8.0)  # between two of them; a slow machine is killed more slowly: something has to have gone on
UNPLUGGED_S = (1.0, 30.0)
TICK_S = 0.5
BOUND_S = 600.0 + 120.0 * RUNS
STUCK_S = 60.0  # the longest that a place may be a dead job's
ON_HOSTS = {
    "bench": "virtual up sim --foreground",
    "pdudaemon": "bin/pdudaemon --conf",
    "console server": "console serve",
    "exporter": "farm export",
}
ON_RUNNER = {
    "worker": "buildbot-worker start",
    "master": "bin/buildbot start",
    "lab run": "run --continue",
    "pytest": "-m pytest ",
    "janitor": "farm janitor",
}


@define
class Havoc:
    """Kills one thing after another.

    Attributes:
        done: victim -> how often. unplugged: host -> when its cable is put back, by time.monotonic().
        next_at: not before. pause: nor before so much has gone on, see `progress`.
    """

    farm: HostFarm
    chance: random.Random
    done: Counter[str] = field(factory=Counter)
    unplugged: dict[str, float] = field(factory=dict)
    next_at: float = 0.0
    pause: int = 1

    def strike(self) -> None:
        """Do something to somebody."""
        what = self.chance.choice([*ON_HOSTS, *ON_RUNNER, COORDINATOR, "cable", "cable", "power"])
        if what in ON_HOSTS:
            self._kill(what, self.chance.choice(HOSTS), ON_HOSTS[what])
        elif what in ON_RUNNER:
            self._kill(what, RUNNER, ON_RUNNER[what])
        elif what == COORDINATOR:
            self._kill(what, COORDINATOR, "labgrid-coordinator")
        else:
            name = self.chance.choice([*HOSTS, RUNNER, COORDINATOR])
            self.done[f"{what} of {'a host' if name in HOSTS else name}"] += 1
            print(f"{time.strftime('%T')} {what} of {name}", flush=True)  # noqa: T201 - beside the logs
            if what == "cable":
                self.farm.hosts[name].plug(connected=False)
                self.unplugged[name] = time.monotonic() + self.chance.uniform(*UNPLUGGED_S)
            else:
                self.farm.switch_off(name)
                self.farm.boot(name)
        self.next_at = time.monotonic() + self.chance.uniform(*GAP_S)
        self.pause = BOARDS if what == "power" else 1

    def mend(self, *, all_of_them: bool = False) -> None:
        """Put back cables whose time has come."""
        for name, at in list(self.unplugged.items()):
            if all_of_them or time.monotonic() >= at:
                self.farm.hosts[name].plug(connected=True)
                del self.unplugged[name]

    def _kill(self, what: str, name: str, words: str) -> None:
        if pids := [pid for pid, command in left([self.farm.hosts[name]]).items() if words in command]:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(self.chance.choice(pids), signal.SIGKILL)
                self.done[what] += 1
                print(f"{time.strftime('%T')} {what} on {name}", flush=True)  # noqa: T201 - beside the logs


@define
class Watch:
    """How long places are held by jobs that have ended or died.

    Attributes:
        since: place and holder -> since when, by time.monotonic(). longest: seconds, so far, and whose.
    """

    coordinator: Coordinator
    store: Store
    since: dict[tuple[str, str], float] = field(factory=dict)
    longest: tuple[float, str] = (0.0, "")

    def look(self) -> dict[str, str]:
        """Look once; place -> holder, of those that are held."""
        try:
            holders = {place: who for place, who in self.coordinator.holders(2.0).items() if who}
        except LabTransientError:
            self.since.clear()  # nobody can release anything
            return {}
        now = time.monotonic()
        left_behind = {(place, who) for place, who in holders.items() if self._is_over(who)}
        self.since = {each: self.since.get(each, now) for each in left_behind}
        for (place, who), began in self.since.items():
            self.longest = max(self.longest, (now - began, f"{place} held by {who}"))
        return holders

    def _is_over(self, who: str) -> bool:
        holder = JobHolder.of(who)
        assert holder is not None, who
        job = job_of(self.store, holder.job)
        return job.ended or process.has_died(job.holder) is not False


def ends(farm: BuildbotFarm, wanted: dict[int, str]) -> dict[str, int]:
    """Label -> result, of the requests that have ended; none while the master is away."""
    try:
        found = farm.get("buildrequests")["buildrequests"]
    except (requests.RequestException, ValueError, KeyError):
        return {}
    known = {each["buildrequestid"]: each for each in found if each["complete"]}
    return {name: int(known[request]["results"]) for request, name in wanted.items() if request in known}


def test_every_run_ends_with_exact_counts_and_no_place_is_left() -> None:
    assert not problem(), problem()
    print(f"seed {SEED}: {RUNS} runs on {BOARDS} boards of {len(HOSTS)} hosts")  # noqa: T201 - to be given again
    with hostfarm.running(BOARDS // len(HOSTS), TIME_SCALE, KILLS, HOSTS) as (hosts, farm):
        havoc = Havoc(hosts, random.Random(SEED))
        farm.log_in()
        wanted = {}
        for number in range(RUNS):
            board = hosts.names[number % len(hosts.names)]
            order = {"cycles": CYCLES, "medium": "sd", "release": f"chaos-{number}"}
            _, made = farm.force("measure", f"boot on {board}", **order)["result"]
            wanted.update((int(request), f"chaos-{number}") for request in made.values())
        assert len(wanted) == RUNS
        with open_store(config.load(farm.desk.file).database) as store:
            watch = Watch(Coordinator(hosts.coordinator), store)
            ended = _havoc(farm, wanted, havoc, watch)
            havoc.mend(all_of_them=True)
            deadline = time.monotonic() + 2 * STUCK_S
            while held := watch.look():
                assert time.monotonic() < deadline, f"nobody gives back {held}"
                time.sleep(TICK_S)
            print(f"kills: {dict(havoc.done)}; ends: {Counter(ended.values())}; longest: {watch.longest}")  # noqa: T201 - what was done
            assert havoc.done.total() > 0
            assert watch.longest[0] <= STUCK_S, watch.longest
            look(store, ended, CYCLES)


def _havoc(farm: BuildbotFarm, wanted: dict[int, str], havoc: Havoc, watch: Watch) -> dict[str, int]:
    """Until all have ended; the results."""
    deadline, seen = time.monotonic() + BOUND_S, 0
    while len(ended := ends(farm, wanted)) < len(wanted):
        assert time.monotonic() < deadline, f"not ended: {sorted(set(wanted.values()) - ended.keys())}; {havoc.done}"
        havoc.mend()
        watch.look()
        now = progress(watch.store)
        if now >= seen + havoc.pause and time.monotonic() >= havoc.next_at and havoc.done.total() < KILLS:
            seen = now
            havoc.strike()
        time.sleep(TICK_S)
    return ended
