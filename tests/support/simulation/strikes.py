"""Strikes on a farm: deaths, stand-stills, wrong clocks, lost hosts and databases, and people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from attrs import define, field

from support.simulation.database import FULL, SYNC_FAILS
from support.simulation.farm import CI, PEOPLE, Farm
from support.simulation.world import Host, Process, World

FROZEN_S: Final = (0.5, 9.0, 40.0, 75.0, 200.0)
STARVED_S: Final = (75.0, 100.0, 200.0)  # a lease is of 60 s, and a waiting job's looks come on top
JUMPS_S: Final = (90.0, -90.0, 600.0, -600.0, 20.0)  # a lease is of 60 s; a reservation must end within a schedule
DOWN_S: Final = (5.0, 40.0, 300.0)
FULL_S: Final = (5.0, 40.0)
CUT_S: Final = (4.0, 25.0, 80.0, 150.0)
SITE: Final = "lab web for "
MOST_SITES: Final = 3
MOST_RESERVING: Final = 6
AIMED: Final = 0.7  # of strikes that wait for their moment: due from the start on
RESERVED_H: Final = (0.01, 0.03)
# Changes of the commits that are struck. A schedule has a few of them.
_OF_RUNS: Final = ("+attempts", "+runs", "runs.finished_at")
_OF_JOBS: Final = ("+jobs", "jobs.started_at", "jobs.done", "jobs.finished_at")
_ENDS: Final = ("runs.finished_at", "jobs.finished_at", "+attempts")
_OF_RELEASES: Final = ("+provisions", "provisions.digest", "provisions.software")
_OF_VERDICTS: Final = ("jobs.done", "jobs.finished_at", "+verdicts", "verdicts.outcome")
_OF_RESERVATIONS: Final = ("+reservations",)

Value = TypeVar("Value")


@define(eq=False)
class Strikes:
    """Kinds of strikes; each method does one, if there is something to strike.

    Attributes:
        changes: the commits that are struck.
    """

    farm: Farm
    changes: list[str] = field(factory=list, init=False)

    @property
    def world(self) -> World:
        """The world that is struck."""
        return self.farm.world

    def draw(self) -> list[Callable[[], bool]]:
        """A few kinds, so that each of them strikes several times."""
        pick, weights = self.world.choices.pick, self._weights()
        drawn = [self._take_kind(weights) for _ in range(1 + pick((3.0, 2.0, 1.0)))]
        commits = (*_OF_RUNS, *_OF_JOBS)
        if self.reserve in drawn:
            commits = _OF_RESERVATIONS
        elif any(wish.judged for wish in self.farm.wishes):
            commits = (*_OF_RUNS, *_OF_VERDICTS)
        elif not self.farm.wishes[0].labelled:
            commits = (*_OF_RUNS, *_OF_RELEASES)
        self.changes = [self._one_of(commits) for _ in range(2)]
        aimed = {self.die_behind_a_commit, self.lose_database_at_a_commit, self.lose_answer}
        aimed |= {self.starve, self.strand, self.orphan, self.cancel}
        self.world.patient = aimed
        self.world.due += [kind for kind in drawn if kind in aimed and self.world.choices.happens(AIMED)]
        if self.farm.places is not None and self.world.choices.happens(0.5):
            self.world.due.append(self.lose_exporter)
        return drawn

    def _take_kind(self, weights: dict[Callable[[], bool], float]) -> Callable[[], bool]:
        kind = [*weights][self.world.choices.pick([*weights.values()])]
        del weights[kind]
        return kind

    def _weights(self) -> dict[Callable[[], bool], float]:
        """The kinds that this farm can feel, by their weights."""
        farm = self.farm
        weights = {self.kill: 4.0, self.die_behind_a_commit: 4.0, self.lose_database_at_a_commit: 2.0}
        weights |= {self.freeze: 3.0, self.jump: 2.0, self.reboot: 2.0, self.reserve: 2.0}
        weights |= dict.fromkeys((self.suspend, self.cut, self.server_is_away, self.disk_is_full), 1.0)
        weights |= {self.cancel: 2.0, self.break_relay: 1.0}
        if any(wish.way == "lab run" for wish in farm.wishes):
            weights |= {self.orphan: 3.0, self.stop: 1.0}
        if len(self.world.hosts) > 1:
            weights |= {self.starve: 3.0, self.strand: 3.0}
        if farm.results.is_server:
            weights |= {self.lose_answer: 4.0, self.collide: 1.0}
        if farm.places is None:
            weights[self.switch_power] = 1.0
        else:
            weights |= {self.labgrid_is_away: 1.0, self.labgrid_errs: 2.0}
        return weights

    def kill(self) -> bool:
        """SIGKILL of a process, wherever it is."""
        process = self._process()
        if process is not None:
            self._say(f"{process.name} is killed")
            self.world.kill(process)
        return process is not None

    def freeze(self) -> bool:
        """A process stands still: it is starved or swapped out."""
        process = self._process()
        if process is None:
            return False
        seconds = self._one_of(FROZEN_S)
        with_child = self.world.choices.happens(0.5)
        for frozen in self.world.living(process.host):
            if frozen is process or (with_child and process in (frozen.parent, frozen)):
                self._say(f"{frozen.name} stands still for {seconds:g} s")
                frozen.stopped, frozen.frozen_until_s = False, self.world.now_s + seconds
                self.world.disturb(frozen, frozen.frozen_until_s)
        return True

    def starve(self) -> bool:
        """All programs of a board that another host's job waits for stand still for longer than its lease."""
        holders = self._awaited()
        if not holders:
            return False
        holder, seconds = self._one_of(holders), self._one_of(STARVED_S)
        for frozen in (each for each in self.world.living(holder.host) if holder in (each.parent, each)):
            self._say(f"{frozen.name} stands still for {seconds:g} s")
            frozen.frozen_until_s = self.world.now_s + seconds
            self.world.disturb(frozen, frozen.frozen_until_s)
        return True

    def _awaited(self) -> list[Process]:
        """The holders of boards that another host's job waits for."""
        jobs = self.farm.watch.jobs.values()
        owners = {job.id: self.farm.watch.owner(job) for job in jobs if job.state in {"queued", "running"}}
        hosts = {(job.board, owner.host.name) for job in jobs if job.state == "queued" and (owner := owners[job.id])}
        return [
            owner
            for job in jobs
            if job.state == "running" and (owner := owners[job.id]) is not None and owner.alive
            if any(board == job.board and host != owner.host.name for board, host in hosts)
        ]

    def stop(self) -> bool:
        """SIGSTOP of a pytest, which its `lab run` ends."""
        process = self._process(lambda each: each.parent is not None)
        if process is None:
            return False
        seconds = self._one_of(FROZEN_S)
        self._say(f"{process.name} gets SIGSTOP, and SIGCONT after {seconds:g} s")
        process.stopped, process.frozen_until_s = True, self.world.now_s + seconds
        self.world.disturb(process, process.frozen_until_s)
        return True

    def jump(self) -> bool:
        """A wall clock is set, of a host or of the database's server."""
        host = self._host()
        seconds = self._one_of(JUMPS_S)
        if self.farm.results.is_server and self.world.choices.happens(0.5):
            self._say(f"the clock of the database's server jumps by {seconds:g} s")
            self.farm.results.clock_s += seconds
            return self.world.choices.happens(0.5) and self.cancel()  # who looks at once sees the new time
        self._say(f"the wall clock of {host.name} jumps by {seconds:g} s")
        host.wall_s += seconds
        return True

    def reboot(self) -> bool:
        """A host loses its power, and starts again."""
        return self._lose_power(self._host(), self._one_of(DOWN_S))

    def strand(self) -> bool:
        """The host of a board that another host's job waits for has no power for longer than a lease."""
        holders = self._awaited()
        return bool(holders) and self._lose_power(self._one_of(holders).host, DOWN_S[-1])

    def lose_exporter(self) -> bool:
        """The host of the exporter loses its power while another host's job waits for a place."""
        exporter = self.farm.places.exporter if self.farm.places is not None else None
        owners = [self.farm.watch.owner(job) for job in self.farm.watch.jobs.values() if job.state == "queued"]
        is_awaited = any(owner is not None and owner.host is not exporter for owner in owners)
        return exporter is not None and is_awaited and self._lose_power(exporter, DOWN_S[0])

    def _lose_power(self, host: Host, seconds: float) -> bool:
        self._say(f"{host.name} loses its power for {seconds:g} s")
        for process in self._victims():
            if process.host is host:
                self.world.kill(process)
        self.world.reap()
        self._lose_commits()
        host.boots += 1
        host.down_until_s = self.world.now_s + seconds
        return True

    def _lose_commits(self) -> None:
        recent = self.farm.results.recent
        count = 0 if recent is None else self.world.choices.pick((2.0, *[1.0] * (len(recent) - 1)))
        if count:
            self.world.felt["commits lost"] += 1
            self._say(f"the last {count} commits are lost with the power")
            self.farm.results.lose_commits(count)
            self.farm.watch.look_anew()

    def suspend(self) -> bool:
        """A host is suspended; its monotonic clock stands."""
        host, seconds = self._host(), self._one_of(FROZEN_S)
        self._say(f"{host.name} is suspended for {seconds:g} s")
        host.frozen_until_s = self.world.now_s + seconds
        host.monotonic_s -= seconds
        self._disturb(host, host.frozen_until_s)
        return True

    def cut(self) -> bool:
        """A host's cable is pulled."""
        host, seconds = self._host(), self._one_of(CUT_S)
        self._say(f"{host.name} does not reach the database for {seconds:g} s")
        host.cut_until_s = self.world.now_s + seconds
        self._disturb(host, host.cut_until_s)
        return True

    def server_is_away(self) -> bool:
        """The database does not answer."""
        seconds = self._one_of(CUT_S)
        self._say(f"the database does not answer for {seconds:g} s")
        self.farm.results.away_until_s = self.world.now_s + seconds
        return True

    def disk_is_full(self) -> bool:
        """The disk of the database is full, or its fsync fails."""
        seconds, results = self._one_of(FULL_S), self.farm.results
        results.disk_error = SYNC_FAILS if self.world.choices.happens(0.3) else FULL
        self._say(f"the database's disk refuses to write for {seconds:g} s: {results.disk_error[1]}")
        results.full_until_s = self.world.now_s + seconds
        return True

    def lose_answer(self) -> bool:
        """A server's connection breaks after the commit, before its answer."""
        results = self.farm.results
        if results.is_server:
            results.lost_answers[self._one_of(self.changes)] += 2
        return results.is_server

    def collide(self) -> bool:
        """A server refuses a commit, since two transactions collided."""
        results = self.farm.results
        if results.is_server:
            results.collisions[self._one_of(self.changes)] += 1
        return results.is_server

    def die_behind_a_commit(self) -> bool:
        """A process is killed behind one of the next commits."""
        self.farm.results.deaths[self._one_of(self.changes)] += 1
        return True

    def lose_database_at_a_commit(self) -> bool:
        """The database goes away at the end of a boot, a run or a job, for longer than an impatient program tries."""
        self.farm.results.outages[self._one_of(_ENDS)].append(self._one_of(CUT_S[2:]))
        return True

    def labgrid_is_away(self) -> bool:
        """labgrid's coordinator does not answer."""
        places = self.farm.places
        if places is None:
            return False
        seconds = self._one_of(CUT_S)
        self._say(f"labgrid's coordinator does not answer for {seconds:g} s")
        places.away_until_s = self.world.now_s + seconds
        return True

    def labgrid_errs(self) -> bool:
        """An answer of labgrid's coordinator is lost or comes too late, or a message to it comes twice."""
        places = self.farm.places
        if places is None:
            return False
        kind = self.world.choices.pick((1.0, 1.0, 1.0))
        places.late += kind == 0
        places.lost += kind == 1
        places.doubled += kind == 2
        return True

    def orphan(self) -> bool:
        """SIGKILL of a `lab run`; its pytest, which ends then, stands still on the way."""
        child = self._process(lambda each: each.parent is not None and each.parent.alive)
        if child is None or child.parent is None:
            return False
        child.lingers_s = self._one_of(FROZEN_S[2:])
        self._say(f"{child.parent.name} is killed, and {child.name} ends slowly")
        self.world.kill(child.parent)
        return True

    def break_relay(self) -> bool:
        """A board's power is not switched, until a check has mended it."""
        board = list(self.farm.boards.values())[self.world.choices.pick([1.0] * len(self.farm.boards))]
        if board.is_stuck or board.mends:
            return False
        self.farm.stick(board)
        return True

    def reserve(self) -> bool:
        """Somebody reserves a board; each command is a reader of the store, at which further strikes happen."""
        if sum(each.name.startswith("lab reserve") for each in self.world.living()) >= MOST_RESERVING:
            return False
        board = list(self.farm.boards)[self.world.choices.pick([1.0] * len(self.farm.boards))]
        hours = self._one_of(RESERVED_H)
        person = PEOPLE[self.world.choices.pick([1.0] * len(PEOPLE))]
        self._say(f"{person} reserves {board} for {hours * 3600:.0f} s")
        # A program may ask for more than it may have.
        for name in [*self.farm.boards] if person == CI else [board]:
            self._by_hand(f"lab reserve of {person}", lambda name=name: self.farm.reserve(name, person, hours))
        if self.world.choices.happens(0.3):
            ender = PEOPLE[self.world.choices.pick([1.0] * len(PEOPLE))]
            self._by_hand(f"lab reserve --end of {ender}", lambda: self.farm.end_reservation(board, ender))
        return True

    def cancel(self) -> bool:
        """Somebody cancels a job."""
        active = [job.id for job in self.farm.watch.jobs.values() if job.state in {"queued", "running"}]
        if not active:
            return False
        job = active[self.world.choices.pick([1.0] * len(active))]
        person = PEOPLE[self.world.choices.pick([1.0] * len(PEOPLE))]
        self._by_hand(f"lab jobs cancel j{job} of {person}", lambda: self.farm.cancel(job, person))
        return True

    def switch_power(self) -> bool:
        """An operator of the site switches a board off and on."""
        board = list(self.farm.boards)[self.world.choices.pick([1.0] * len(self.farm.boards))]
        sites = [each for each in self.world.living() if each.name.startswith(SITE)]
        is_busy = any(each.identity not in self.farm.watch.over for each in sites)
        if is_busy or len(sites) == MOST_SITES or self.farm.places is not None:  # labgrid would refuse it the place
            return False
        if self.world.choices.happens(0.3):  # and the database is away for longer than the site waits for it
            self.farm.results.outages["jobs.finished_at"].append(CUT_S[2])
        self._by_hand(f"{SITE}{board}", lambda: self.farm.switch_power(board))
        return True

    def _by_hand(self, name: str, body: Callable[[], int]) -> None:
        self.world.start(name, self._host(), body)

    def _one_of(self, values: Sequence[Value]) -> Value:
        return values[self.world.choices.pick([1.0] * len(values))]

    def _host(self) -> Host:
        return self.world.hosts[self.world.choices.pick([1.0] * len(self.world.hosts))]

    def _victims(self) -> list[Process]:
        return [each for each in self.world.living() if each.host in self.world.hosts]

    def _process(self, fits: Callable[[Process], bool] = lambda _: True) -> Process | None:
        """A victim; every second one holds a board."""
        found = [each for each in self._victims() if fits(each)]
        owners = [self.farm.watch.owner(job) for job in self.farm.watch.jobs.values() if job.state == "running"]
        holders = [each for each in found if each in owners]
        if holders and self.world.choices.happens(0.5):
            found = holders
        return found[self.world.choices.pick([1.0] * len(found))] if found else None

    def _disturb(self, host: Host, until_s: float) -> None:
        for process in self.world.living(host):
            self.world.disturb(process, until_s)

    def _say(self, text: str) -> None:
        self.world.say(text)
