"""The operating system of simulated hosts, as boardlab asks it: clocks, sleeps, signals, threads, child processes, names.

Each entry of `_NAMES` is a name of a module of boardlab. Nothing else of boardlab is replaced.
"""

from __future__ import annotations

import datetime as dt
import importlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

from attrs import define, evolve, field

from lab.env.envfile import RESERVATION
from lab.farm import job_queue
from lab.health import QuarantineRule
from lab.host.process import CpuTimes
from lab.jobs.queue import JobQueue
from lab.jobs.records import Silence
from support.simulation.database import Results
from support.simulation.nights import START
from support.simulation.places import ADDRESS, Places, PlayedCoordinator
from support.simulation.world import START_S, Process, World

RULE: Final = QuarantineRule(faults=1)  # three are ten minutes apart each, longer than a schedule
POLL_S: Final = 9.0  # in place of a few seconds: there are fewer looks, and none is later than a heartbeat
Spawn = Callable[[Sequence[str], Mapping[str, str]], tuple[str, Callable[[], int]]]


def true_time(world: World) -> dt.datetime:
    """The time by a clock that is right."""
    return START + dt.timedelta(seconds=world.now_s - START_S)


@define(eq=False)
class System:
    """Boardlab's operating system.

    Attributes:
        spawn: the name and the body of the program that a command line starts.
        results: a server's have a clock of their own; else it is the host's.
    """

    world: World
    spawn: Spawn
    results: Results
    places: Places | None = None
    _locks: dict[str, Process] = field(factory=dict)

    def wall(self) -> dt.datetime:
        """The wall clock of the host of the process that asks."""
        if self.world.current is None:
            return true_time(self.world)
        return true_time(self.world) + dt.timedelta(seconds=self.world.process.host.wall_s)

    def database_now(self, _session: object) -> dt.datetime:
        """The clock that all programs with this database share."""
        ahead = dt.timedelta(seconds=self.results.clock_s)
        return true_time(self.world) + ahead if self.results.is_server else self.wall()

    def monotonic(self) -> float:
        """The monotonic clock of that host."""
        return self.world.now_s + (self.world.process.host.monotonic_s if self.world.current else 0.0)

    def identity(self) -> str:
        """As lab.host.process has it."""
        return self.world.process.identity

    def has_died(self, who: str) -> bool | None:
        """As lab.host.process has it: known of processes of the own host."""
        name, boot, pid, _start = who.split("/")
        host = self.world.process.host
        if name != host.name:
            return None
        if boot != f"boot{host.boots}":
            return True
        return not any(each.alive and str(each.pid) == pid for each in self.world.processes)

    @contextmanager
    def handling(self, handlers: Mapping[int, Any]) -> Iterator[None]:
        """As lab.host.process has it."""
        process = self.world.process
        before = {number: process.handlers.get(number) for number in handlers}
        process.handlers.update(handlers)
        try:
            yield
        finally:
            process.handlers.update(before)

    def go_on(self, pid: int) -> bool:
        """As lab.host.process has it."""
        found = next(each for each in self.world.processes if each.pid == pid)
        was = found.stopped and found.frozen_until_s > self.world.now_s
        if was:
            found.stopped, found.frozen_until_s = False, 0.0
            self.world.disturb(found, self.world.now_s)
        return was

    def send(self, pid: int, number: int) -> None:
        """kill(2)."""
        next(each for each in self.world.processes if each.pid == pid).pending.append(number)

    def kill(self, pid: int, _number: int) -> None:
        """SIGKILL."""
        self.world.kill(next(each for each in self.world.processes if each.pid == pid))

    @contextmanager
    def turn(self, what: str, *_given: object, **_options: object) -> Iterator[None]:
        """As lab.host.locks has it; the kernel takes a lock from a dead holder."""
        process = self.world.process
        name = f"{process.host.name} {what}"
        self.world.wait(lambda: name not in self._locks or not self._locks[name].alive)
        self._locks[name] = process
        try:
            yield
        finally:
            if self._locks.get(name) is process:
                del self._locks[name]


class Child:
    """A child process, as subprocess.Popen has it."""

    def __init__(self, system: System, words: Sequence[str], env: Mapping[str, str] | None = None, **_: Any) -> None:
        self._world = system.world
        name, body = system.spawn(words, env or {})
        parent = self._world.process
        self._process = self._world.start(name, parent.host, body, parent=parent, environ=dict(env or {}))
        self._process.ends_with_parent = "--pdeathsig" in words
        self.pid = self._process.pid

    def wait(self, timeout: float | None = None) -> int:
        if not self._world.wait(lambda: not self._process.alive, timeout):
            raise subprocess.TimeoutExpired("pytest", timeout or 0.0)
        assert self._process.code is not None
        return self._process.code

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    @property
    def returncode(self) -> int | None:
        return self._process.code

    def poll(self) -> int | None:
        return self._process.code

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        self.wait(timeout)
        return b"", b""

    def send_signal(self, number: int) -> None:
        self._process.pending.append(number)

    def kill(self) -> None:
        self._world.kill(self._process)


class Thread:
    """As threading.Thread."""

    def __init__(self, world: World, target: Callable[[], None], **_: Any) -> None:
        self._world, self._target = world, target

    def start(self) -> None:
        self._task = self._world.start_thread(self._target)

    def join(self) -> None:
        self._world.wait(lambda: self._task.body.dead)


class Event:
    """As threading.Event."""

    def __init__(self, world: World) -> None:
        self._world, self._is_set = world, False

    def set(self) -> None:
        self._is_set = True

    def wait(self, timeout: float | None = None) -> bool:
        return self._world.wait(lambda: self._is_set, timeout)


class Environ(Mapping[str, str]):
    """As os.environ, of the process that asks."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getitem__(self, name: str) -> str:
        return self._world.process.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._world.process.environ)

    def __len__(self) -> int:
        return len(self._world.process.environ)


def _names(system: System) -> dict[str, Any]:
    """Name in a module of boardlab -> what is there instead."""
    world = system.world

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
            return system.wall().astimezone(tz)

    def handle(number: int, handler: Any) -> None:
        world.process.handlers[number] = handler

    environ = SimpleNamespace(environ=Environ(world))
    plain = job_queue.open_queue

    def queue(*given: Any, **options: Any) -> JobQueue:
        return evolve(plain(*given, **options), silence=Silence(system.monotonic), pause=world.sleep)

    def coordinator(_address: str) -> PlayedCoordinator:
        assert system.places is not None
        return PlayedCoordinator(system.places)

    environments = SimpleNamespace(
        place_of=lambda path: path.stem, RESERVATION=RESERVATION, coordinator_of=lambda _path: ADDRESS
    )
    signals = SimpleNamespace(
        SIGTERM=signal.SIGTERM,
        SIGINT=signal.SIGINT,
        SIG_IGN=signal.SIG_IGN,
        default_int_handler=signal.default_int_handler,
        signal=handle,
    )
    return {
        "lab.host.clock.dt": SimpleNamespace(datetime=Clock, UTC=dt.UTC),
        "lab.results.database.now": system.database_now,
        "lab.results.database.transaction_number": system.results.transaction_number,
        "lab.results.database.was_committed": system.results.was_committed,
        "lab.host.process.identity": system.identity,
        "lab.host.process.has_died": system.has_died,
        "lab.host.process.person": lambda: "lena",
        "lab.host.process.handling": system.handling,
        "lab.pytest_plugin.run_session.os": environ,
        "lab.pytest_plugin.session_rules.os": environ,
        "lab.pytest_plugin.jobs.os": environ,
        "lab.farm.runner.handling": system.handling,
        "lab.farm.runner.go_on": system.go_on,
        "lab.pytest_plugin.run_session.handling": system.handling,
        "lab.jobs.waiting.locks": SimpleNamespace(turn=system.turn),
        "lab.jobs.lease.signal": signals,
        "lab.pytest_plugin.run_session.signal": signals,
        "lab.pytest_plugin.run_session.writer": lambda _config: world.say,
        "lab.pytest_plugin.provisioning.writer": lambda _config: world.say,
        "lab.farm.job_queue.open_queue": queue,
        "lab.farm.job_queue.health_config": lambda: SimpleNamespace(rule=RULE),
        "lab.places.records.socket": SimpleNamespace(
            gethostname=lambda: world.process.host.name,
            getaddrinfo=lambda _host, _port: [(0, 0, 0, "", ("192.0.2.1", 0))],
        ),
        "lab.places.coordinator.Coordinator": coordinator,
        "lab.places.job_place.envfile": environments,
        "lab.farm.runner.job_queue": SimpleNamespace(health_config=lambda: None, why_not_judged=lambda *_: ""),
        "lab.judge.run_judge.folder": lambda: system.results.folder / "judge",
        "lab.run.engine.cpu_times": lambda: CpuTimes(0.0, 0.0),
        "lab.farm.runner.subprocess": SimpleNamespace(
            Popen=lambda words, **options: Child(system, words, **options),
            DEVNULL=subprocess.DEVNULL,
            TimeoutExpired=subprocess.TimeoutExpired,
        ),
        "lab.web.job_control.subprocess": SimpleNamespace(
            Popen=lambda words, **options: Child(system, words, **options),
            **{name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE", "STDOUT", "TimeoutExpired")},
        ),
        "lab.web.job_control.os": SimpleNamespace(environ={}, getpid=lambda: 0, killpg=system.kill),
        "lab.web.job_control.time": SimpleNamespace(monotonic=system.monotonic),
        "lab.web.job_control.open_queue": queue,
        "lab.web.job_control.health_config": lambda _farm: SimpleNamespace(rule=RULE),
        "lab.jobs.lease.threading": SimpleNamespace(
            Thread=lambda target, **options: Thread(world, target, **options), Event=lambda: Event(world)
        ),
        "lab.jobs.lease.os": SimpleNamespace(getpid=lambda: world.process.pid, kill=system.send),
        "lab.jobs.waiting.POLL_S": POLL_S,
        "lab.jobs.waiting.LOOK_S": POLL_S,
        "lab.jobs.lease.POLL_S": POLL_S,
        "lab.places.job_place.POLL_S": POLL_S,
        "lab.jobs.queue.LOOK_S": POLL_S,
    }


@contextmanager
def installed(system: System) -> Iterator[None]:
    """Within it, boardlab runs on simulated hosts."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for dotted, value in _names(system).items():
            module, _, name = dotted.rpartition(".")
            there = importlib.import_module(module)
            before.append((there, name, getattr(there, name)))
            setattr(there, name, value)
        yield
    finally:
        for there, name, value in reversed(before):
            setattr(there, name, value)
