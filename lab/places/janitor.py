"""Janitor of places: dead holders, reserved boards, unusable places.

labgrid's acquisitions never expire, and its coordinator does not know whether their holder still lives. The holder's
name identifies our own jobs (`lab.places.records`): the results know whether that job has ended. Other acquisitions
stay. labgrid gives a reservation a place without its exporter, too: such a place is held until it can be used
(`lab.places.records`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

from attrs import define, field, frozen

from lab.errors import BoardlabError, ConfigurationError
from lab.health.reservations import Hold
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import LEASE_S, Job, call
from lab.places.coordinator import Coordinator
from lab.places.place import holds_of_people, in_use, is_reserved
from lab.places.records import JobHolder, MissingResource, reserving_user, store_name
from lab.results.store import Store

LOOK_S: Final = 5.0
GRACE_S: Final = 20.0  # an exporter or a coordinator that is started again is back within less
_DONE: Final = {"release": "released from", "acquire": "acquired for", "leave": "left to"}
_log = logging.getLogger(__name__)


@frozen
class PlaceAction:
    """An action on a place.

    Attributes:
        verb: "leave": nothing can be done, and a person is told.
        holder: the user that loses, gets or keeps it.
        why: a sentence's end.
    """

    verb: Literal["release", "acquire", "leave"]
    place: str
    holder: str
    why: str

    @property
    def described(self) -> str:
        """In a line."""
        return f"place {self.place}: {_DONE[self.verb]} {self.holder}: {self.why}"


@define
class Janitor:
    """Of one coordinator and one results store.

    Attributes:
        boards: place -> the board behind it, asked at each look; for reservations. A place that it does not know stays
            as it is.
        measures_at: whether a job measures on a board at a place.
        grace_s: for so long a place is nobody's that cannot be used.
        now_s: a clock for that.
    """

    coordinator: Coordinator
    store: Store
    queue: JobQueue
    boards: Callable[[], Mapping[str, str]]
    measures_at: Callable[[Job, str, str], bool]
    grace_s: float = GRACE_S
    now_s: Callable[[], float] = time.monotonic
    _refused: dict[str, str] = field(factory=dict, init=False)
    _since_s: dict[str, float] = field(factory=dict, init=False)  # place -> when it was first seen to be of no use

    def due(self) -> list[PlaceAction]:
        """Due actions; none is taken.

        Raises:
            LabTransientError: the coordinator or the store does not answer.
        """
        actions: list[PlaceAction] = []
        boards, holders = self.boards(), self.coordinator.holders()
        lacking = self.coordinator.lacking()
        # holding a place must not harm another one
        now_s = self.now_s()
        self._since_s = {name: self._since_s.get(name, now_s) for name in lacking}
        useless = {
            name: away
            for name, away in lacking.items()
            if not away.shared_with and now_s - self._since_s[name] >= self.grace_s
        }
        reservers = self.coordinator.reservers() if useless else {}
        holds = holds_of_people(self.queue)
        for place, holder in sorted(holders.items()):
            board = boards.get(place, "")
            board_holds = [hold for hold in holds if hold.board == board]
            if MissingResource.of(holder) is not None:
                why = _release_reason(lacking.get(place))
            else:
                why = self._why_left(place, holder, board, board_holds)
            if why:
                actions.append(PlaceAction("release", place, holder, why))
            if holder and not why:
                continue
            if place in useless:
                actions.append(_hold(place, useless[place], reservers.get(place, "")))
            elif board_holds:
                hold = board_holds[0]
                user = str(reserving_user(hold.person, store_name(self.store)))
                actions.append(PlaceAction("acquire", place, user, f"{hold.board} is {hold.described}"))
        return actions

    def tidy(self) -> Iterator[PlaceAction]:
        """Take the due actions; a refusal of labgrid is logged once.

        Each action must still be due at its turn.

        Raises:
            LabTransientError: as `due`.
        """
        for action in self.due():
            if action not in self.due():  # each takes a while; a job that was resumed meanwhile has its old name
                continue
            try:
                if action.verb == "leave":
                    self._warn(action.place, action.described)
                    continue
                if action.verb == "release":
                    self.coordinator.release(action.place, action.holder)
                else:
                    self.coordinator.acquire(action.place, action.holder)
            except ConfigurationError as error:
                self._warn(action.place, f"place {action.place}: {error}")
            else:
                self._refused.pop(action.place, None)
                yield action

    def _warn(self, place: str, warning: str) -> None:
        """Once, not at each look."""
        if self._refused.get(place) != warning:
            _log.warning("%s", warning)
        self._refused[place] = warning

    def _why_left(self, place: str, holder: str, board: str, holds: list[Hold]) -> str:
        """Reason why a holder lost it; empty: none or unknown."""
        tag = self.store.location.tag
        if is_reserved(holder, self.queue):
            jobs = [job for job in listing.running(self.queue) if self.measures_at(job, board, place)]
            return "" if not board or in_use(holder, holds, jobs, self.queue) else "the reservation has ended"
        job = JobHolder.of(holder)
        if job is None or job.tag != tag:
            return ""
        try:
            record = self.queue.job(job.job)
            measures = self.queue.has_board(job.job)
        except ConfigurationError:  # of another store at the same path, before this one
            return ""
        if record.person.replace("/", "-") != job.person or record.host != job.host:
            # Another host's file has the same path, and so had an earlier one of this host; one database has no two
            # such jobs.
            moved = self.store.location.path is None
            return f"job {call(job.job)} went on as that of {record.who}" if moved else ""
        return "" if measures else f"job {call(job.job)} {self._state(record)}"

    def _state(self, job: Job) -> str:
        if job.ended:
            return f"is {job.state}, and did not give it back"
        if self.queue.has_died(job.holder):
            return "is dead: its process is gone"
        if job.state == "queued":  # the job was resumed, and takes its place anew when it has its board
            return "waits for its board"
        return f"is dead: no sign of life for {LEASE_S:g} s"


def _hold(place: str, away: MissingResource, owner: str) -> PlaceAction:
    """Action that holds an unusable place.

    Its reserving user (`owner`) keeps it, as only they can release it.
    """
    if not owner:
        return PlaceAction("acquire", place, away.holder, away.described)
    return PlaceAction("leave", place, owner, f"{away.described}, or cancel the reservation and reserve anew")


def _release_reason(away: MissingResource | None) -> str:
    """Reason to release a held place; empty: it stays held."""
    if away is None:
        return "all that it has is there again"
    return f"place {away.shared_with} can be used, and has resources of this one" if away.shared_with else ""


def patient(janitor: Janitor) -> Iterator[PlaceAction]:
    """Tidy; a silent coordinator or store is only logged."""
    try:
        yield from janitor.tidy()
    except BoardlabError as error:
        _log.warning("%s", error)
