"""A played coordinator of labgrid, whose answers are late or lost, and boardlab's janitor of its places."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any, Final

from attrs import define, field
from labgrid.resource.remote import RemotePlace

from lab.errors import ConfigurationError, LabTransientError
from lab.farm import job_queue
from lab.places.janitor import Janitor, patient
from lab.places.job_place import measures_at
from lab.places.records import JobHolder, MissingResource
from support.simulation.database import Results
from support.simulation.world import Host, Process, ViolationError, World

WITH_EXPORTER: Final = "a place is given with its exporter"
ADDRESS: Final = "places:20408"
TIMEOUT_S: Final = 5.0
LATE_S: Final = 25.0
STARTS_S: Final = 30.0  # a host's exporter
LOOK_S: Final = 20.0  # in place of five: there are fewer looks


@define(eq=False)
class Places:
    """The coordinator.

    Attributes:
        holders: by place, "host/user"; empty: free.
        exporter: the host that offers all places, some time after it starts. whole: processes that were told that it does.
        away_until_s: it does not answer. lost, late, doubled: so many further acquisitions or releases are done without an answer, are done after the client has given up, or are done twice, of which the second one is answered.
    """

    world: World
    names: Collection[str]
    exporter: Host
    holders: dict[str, str] = field(init=False)
    whole: set[Process] = field(factory=set)
    away_until_s: float = 0.0
    lost: int = 0
    late: int = 0
    doubled: int = 0

    def __attrs_post_init__(self) -> None:
        self.holders = dict.fromkeys(self.names, "")

    def job(self, place: str) -> int | None:
        """The job that holds a place."""
        found = JobHolder.of(self.holders[place])
        return None if found is None else found.job

    @property
    def missing(self) -> MissingResource | None:
        """The exporter, while its host is off or starts."""
        away = self.exporter.down_until_s + STARTS_S * (self.exporter.boots > 1) > self.world.now_s
        return MissingResource("exporter", self.exporter.name) if away else None

    def acquire(self, place: str, user: str) -> None:
        """As labgrid has it: a place has one user, and keeps it until it is released."""
        if self.holders[place]:
            raise ConfigurationError(f"place {place} is already acquired by {self.holders[place]}")
        self._set(place, user)
        process = self.world.process
        if self.missing is not None and process not in self.whole and JobHolder.of(user) is not None:
            raise ViolationError(WITH_EXPORTER, f"{process.name} takes {place}, and its exporter is away")
        self.whole.discard(process)

    def release(self, place: str, user: str) -> None:
        """As labgrid has it: nothing, where another user has the place."""
        if self.holders[place] == user:
            self._set(place, "")

    def calm(self) -> None:
        """Strike no further message."""
        self.lost = self.late = self.doubled = 0

    def _set(self, place: str, user: str) -> None:
        self.world.say(f"place {place}: {user or 'free'}")
        self.holders[place] = user


@define(eq=False)
class PlayedCoordinator:
    """As lab.places.coordinator.Coordinator, of a simulated process."""

    places: Places

    def holder(self, name: str) -> str:
        return self.holders().get(name, "")

    def holders(self, _timeout_s: float = TIMEOUT_S) -> dict[str, str]:
        self._reach()
        return dict(self.places.holders)

    def lacking(self) -> Mapping[str, Any]:
        self._reach()
        missing = self.places.missing
        return {} if missing is None else dict.fromkeys(self.places.names, missing)

    def reservers(self) -> Mapping[str, str]:
        return {}

    def reserver(self, _name: str) -> str:
        return ""

    def reserving_users(self, _name: str) -> list[str]:
        return []

    def find_unmatched(self, _name: str) -> tuple[str, ...]:
        self._reach()
        missing = self.places.missing
        if missing is None:
            self.places.whole.add(self.places.world.process)
            return ()
        return (f"{missing.exporter}/boards/NetworkSerialPort",)

    def acquire(self, name: str, user: str, _allowed: str = "") -> None:
        self._reach()
        if self.places.late:
            self.places.late -= 1
            self.places.world.felt["a late message"] += 1
            self._later(name, user)
        if self._is_doubled():
            self.places.acquire(name, user)
        self.places.acquire(name, user)
        self._answer()

    def release(self, name: str, holder: str) -> None:
        self._reach()
        if self._is_doubled():
            self.places.release(name, holder)
            self.places.world.pause()
        self.places.release(name, holder)
        self._answer()

    def _is_doubled(self) -> bool:
        doubled, self.places.doubled = self.places.doubled > 0, max(0, self.places.doubled - 1)
        if doubled:
            self.places.world.felt["a doubled message"] += 1
            self.places.world.say("its message to the coordinator comes twice")
        return doubled

    def _reach(self) -> None:
        world = self.places.world
        world.pause()
        gone_s = max(self.places.away_until_s, world.process.host.cut_until_s)
        if gone_s > world.now_s:
            world.sleep(min(TIMEOUT_S, gone_s - world.now_s))
            world.disturb(world.process, world.now_s)
            raise self._silent()

    def _answer(self) -> None:
        self.places.world.pause()
        if self.places.lost:
            self.places.lost -= 1
            self.places.world.felt["a message's answer lost"] += 1
            self.places.world.say("the coordinator's answer is lost")
            raise self._silent()

    def _later(self, name: str, user: str) -> None:
        world, places = self.places.world, self.places

        def act() -> int:
            world.sleep(LATE_S)
            if not places.holders[name]:
                places.whole.add(world.process)
                places.acquire(name, user)
            return 0

        world.start(f"late message for {name}", Host("labgrid"), act)
        world.sleep(TIMEOUT_S)
        raise self._silent()

    @staticmethod
    def _silent() -> LabTransientError:
        return LabTransientError("labgrid's coordinator does not answer", failure="coordinator_unreachable")


class PlayedPlace(RemotePlace):  # type: ignore[misc]
    """labgrid's resource of a place, without a target."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_managed_parent(self) -> Any:
        session = SimpleNamespace(get_place=lambda name: SimpleNamespace(name=name))
        return SimpleNamespace(manager=SimpleNamespace(url=ADDRESS, session=session))


def played_target(board: str) -> Any:
    """labgrid's target of a board in its place."""
    return SimpleNamespace(resources=[PlayedPlace(board)])


def tidy(places: Places, results: Results, now_s: Callable[[], float], is_over: Callable[[], bool]) -> int:
    """`lab farm janitor`, until all is over and no place is held."""
    store, world = results.store(), places.world
    boards = {name: name for name in places.names}
    janitor = Janitor(
        PlayedCoordinator(places),  # type: ignore[arg-type]
        store,
        job_queue.open_queue(store),
        lambda: boards,
        lambda job, board, place: measures_at(job, board, place, ADDRESS),
        now_s=now_s,
    )
    while not (is_over() and not any(places.holders.values())):
        for action in patient(janitor):
            world.say(action.described)
        world.sleep(LOOK_S)
    return 0
