"""Runs that Buildbot has queued over boards of two other hosts, while programs are killed, cables pulled and whole hosts switched off.

Each host is a network namespace. It needs root, iproute2 and openssh-server. The short form is 8 runs on 4 boards;
BOARDLAB_CHAOS_RUNS, BOARDLAB_CHAOS_BOARDS, BOARDLAB_CHAOS_CYCLES and BOARDLAB_CHAOS_SEED say otherwise: 200 runs and 16 boards are the whole one.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence

import pytest
import requests
from attrs import define, field
from support import hostfarm
from support.buildbot_farm import BuildbotFarm
from support.chaosruns import Deck, Leases, look, progress
from support.hostfarm import COORDINATOR, RUNNER, HostFarm
from support.hostnet import left, problem

from lab.errors import LabTransientError
from lab.farm import config
from lab.host import process
from lab.jobs.listing import job as job_of
from lab.places.coordinator import Coordinator
from lab.places.records import JobHolder, MissingResource
from lab.results import Store, open_store

pytestmark = pytest.mark.soak

RUNS = int(os.environ.get("BOARDLAB_CHAOS_RUNS", "8"))
BOARDS = int(os.environ.get("BOARDLAB_CHAOS_BOARDS", "4"))
SEED = int(os.environ.get("BOARDLAB_CHAOS_SEED", "0")) or random.randrange(1, 2**31)
HOSTS = ("hosta", "hostb")
CYCLES = int(os.environ.get("BOARDLAB_CHAOS_CYCLES", "2"))
TIME_SCALE = 0.05
KILLS = 2 * RUNS  # then the havoc ends, so that the test does
PARALLEL = min(BOARDS, 3 * (os.cpu_count() or 1))  # runs at once; the others wait for their turn at Buildbot
GAP_S = (3.0, 12.0)  # between two of them; a slow machine is killed more slowly: something has to have gone on
UNPLUGGED_S = (1.0, 30.0)
TICK_S = 0.5
ASK_S = 5.0  # between two questions to the master, which has other things to do
BOUND_S = 900.0 + 30.0 * RUNS
STUCK_S = 60.0  # the longest that a place or a lease may be a dead job's
ON_HOSTS = {
    "bench": "-m lab.virtual.bench",
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
CABLE, POWER = "cable", "power"
EVERY_RUN = ("worker", "master", COORDINATOR, CABLE, POWER)  # what most of these end or hold up
ONE = ("lab run", "pytest")
KINDS = (*(3 * (*ON_HOSTS, *ONE)), "janitor", *EVERY_RUN)
MEASURES = (ON_RUNNER["lab run"], ON_RUNNER["pytest"])


@define
class Havoc:
    """Kills one thing after another.

    Attributes:
        done: victim -> how often. unplugged: host -> when its cable is put back, by time.monotonic().
        next_at: not before.
    """

    farm: HostFarm
    chance: random.Random
    deck: Deck
    done: Counter[str] = field(factory=Counter)
    unplugged: dict[str, float] = field(factory=dict)
    next_at: float = 0.0

    def strike(self) -> None:
        """Do something to somebody."""
        what = self.deck.draw()
        if what in {CABLE, POWER}:
            self._cut(what, self.chance.choice([*HOSTS, RUNNER, COORDINATOR]))
        elif what in ON_HOSTS:
            self._kill(what, self.chance.choice(HOSTS), ON_HOSTS[what])
        elif what in ON_RUNNER:
            self._kill(what, RUNNER, ON_RUNNER[what])
        else:
            self._kill(what, COORDINATOR, "labgrid-coordinator")
        self.next_at = time.monotonic() + self.chance.uniform(*GAP_S)

    def hint(self, *, all_of_them: bool = False) -> None:
        """Put back cables whose time has come."""
        for name, at in list(self.unplugged.items()):
            if all_of_them or time.monotonic() >= at:
                self.farm.hosts[name].plug(connected=True)
                del self.unplugged[name]

    def _cut(self, what: str, name: str) -> None:
        self._note(what, name)
        if what == CABLE:
            self.farm.hosts[name].plug(connected=False)
            self.unplugged[name] = time.monotonic() + self.chance.uniform(*UNPLUGGED_S)
        else:
            self.farm.switch_off(name)
            self.farm.boot(name)

    def _kill(self, what: str, name: str, words: str) -> None:
        pids = [pid for pid, command in left([self.farm.hosts[name]]).items() if words in command]
        try:
            os.kill(self.chance.choice(pids), signal.SIGKILL)
        except (IndexError, ProcessLookupError):  # none is there, or it ended just now
            self.deck.put_back(what)
        else:
            self._note(what, name)

    def _note(self, what: str, name: str) -> None:
        self.done[what] += 1
        print(f"{time.strftime('%T')} {what} {name}", flush=True)  # noqa: T201 - beside the logs


@define
class Watch:
    """How long places are held by jobs that have ended or died, without the time in which nobody answers who could release them.

    Attributes:
        seconds: of each place and holder. longest: seconds, so far, and whose. looked_at: by time.monotonic(); None: nobody answered.
    """

    coordinator: Coordinator
    store: Store
    seconds: dict[tuple[str, str], float] = field(factory=dict)
    longest: tuple[float, str] = (0.0, "")
    looked_at: float | None = None

    def look(self) -> dict[str, str]:
        """Look once; place -> holder, of those that are held."""
        try:
            holders = {
                place: who
                for place, who in self.coordinator.holders(2.0).items()
                if who and not MissingResource.of(who)
            }
        except LabTransientError:
            self.looked_at = None
            return {"all of them": "a coordinator that does not answer"}
        now = time.monotonic()
        more, self.looked_at = now - (self.looked_at or now), now
        left_behind = {(place, who) for place, who in holders.items() if self._is_over(who)}
        self.seconds = {each: self.seconds.get(each, -more) + more for each in left_behind}
        for (place, who), seconds in self.seconds.items():
            self.longest = max(self.longest, (seconds, f"{place} held by {who}"))
        return holders

    def _is_over(self, who: str) -> bool:
        holder = JobHolder.of(who)
        assert holder is not None, who
        job = job_of(self.store, holder.job)
        return job.ended or process.has_died(job.holder) is not False


def ends(farm: BuildbotFarm, wanted: dict[int, str]) -> dict[str, int]:
    """Label -> result, of the requests that have ended; none while the master is away."""
    try:
        fields = "&".join(f"field={name}" for name in ("buildrequestid", "complete", "results"))
        found = farm.get(f"buildrequests?complete=true&{fields}")["buildrequests"]
    except (requests.RequestException, ValueError, KeyError):
        return {}
    return {wanted[each["buildrequestid"]]: int(each["results"]) for each in found}


def test_every_run_ends_with_exact_counts_and_no_place_is_left() -> None:
    assert not problem(), problem()
    print(f"seed {SEED}: {RUNS} runs on {BOARDS} boards of {len(HOSTS)} hosts, {PARALLEL} at once")  # noqa: T201 - to be given again
    with hostfarm.running(BOARDS // len(HOSTS), TIME_SCALE, KILLS, HOSTS, PARALLEL) as (hosts, farm):
        chance = random.Random(SEED)
        havoc = Havoc(hosts, chance, Deck(KINDS, chance))
        farm.log_in()
        wanted = _ordered(farm, hosts.names)
        assert len(wanted) == RUNS
        with open_store(config.load(farm.desk.file).database) as store:
            watch, leases, began = Watch(Coordinator(hosts.coordinator), store), Leases(store), time.monotonic()
            ended = _havoc(farm, wanted, havoc, watch, leases)
            took_s = time.monotonic() - began
            havoc.hint(all_of_them=True)
            deadline = time.monotonic() + STUCK_S
            while held := (watch.look() or _measuring(hosts)):
                assert time.monotonic() < deadline, f"left: {held}"
                time.sleep(TICK_S)
            counts = look(store, ended, CYCLES)
        print(f"kills: {havoc.done.total()} {dict(havoc.done)}; runs: {dict(counts)}; {took_s:.0f} s")  # noqa: T201 - what was done
        print(f"longest: place {watch.longest}, lease {leases.longest}")  # noqa: T201 - the same
        assert watch.longest[0] <= STUCK_S, watch.longest
        assert leases.longest[0] <= STUCK_S, leases.longest
        assert havoc.done.keys() == set(KINDS) or havoc.done.total() < 2 * len(KINDS), "each of them is killed"
        assert havoc.done.total() > 0


def _ordered(farm: BuildbotFarm, boards: Sequence[str]) -> dict[int, str]:
    """Request -> label, of all runs; none begins before all of them are there, so that none ends before the first kill."""
    found, worker = {}, farm.pid("worker")
    os.kill(worker, signal.SIGSTOP)
    for number in range(RUNS):
        order = {"cycles": CYCLES, "medium": "sd", "release": f"chaos-{number}"}
        _, made = farm.measure(boards[number % len(boards)], **order)["result"]
        found |= {int(request): f"chaos-{number}" for request in made.values()}
    os.kill(worker, signal.SIGCONT)
    return found


def _measuring(hosts: HostFarm) -> dict[int, str]:
    """What measures still."""
    there = left([hosts.hosts[RUNNER]])
    return {pid: command for pid, command in there.items() if any(words in command for words in MEASURES)}


def _havoc(farm: BuildbotFarm, wanted: dict[int, str], havoc: Havoc, watch: Watch, leases: Leases) -> dict[str, int]:
    """Until all have ended; the results."""
    deadline, seen, asked_at, ended = time.monotonic() + BOUND_S, 0, 0.0, dict[str, int]()
    while len(ended) < len(wanted):
        assert time.monotonic() < deadline, f"not ended: {sorted(set(wanted.values()) - ended.keys())}; {havoc.done}"
        havoc.hint()
        watch.look()
        leases.look()
        now = progress(watch.store)
        if now > seen and time.monotonic() >= havoc.next_at and havoc.done.total() < KILLS:
            seen = now
            havoc.strike()
        if time.monotonic() >= asked_at + ASK_S:
            ended = ends(farm, wanted) or ended
            asked_at = time.monotonic()
        time.sleep(TICK_S)
    return ended
