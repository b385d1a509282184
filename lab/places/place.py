"""A labgrid place for as long as a job measures on it.

A job acquires under a name of its own, `HOST/PERSON-STORE-jNUMBER`: two jobs of one person are two users for labgrid,
and whoever finds the place held can ask the store whether that job still lives. Numbers are of one store, whose tag is
in the name. labgrid's own acquisitions never expire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from attrs import frozen

from lab.errors import ConfigurationError, LabTransientError
from lab.health.reservations import OWN, Hold, ReservationBook
from lab.jobs.queue import JobQueue
from lab.jobs.records import Job
from lab.jobs.waiting import PLACE_BUSY
from lab.places.records import JobHolder, MissingResource, PlaceUser, is_a_program, reserving_user, store_name

if TYPE_CHECKING:
    from lab.places.coordinator import Coordinator

_NOT_RESERVED_FOR: Final = "was not reserved for"  # labgrid's words
_NOT_OBEYED: Final = "Failed to acquire resources"  # the same
_log = logging.getLogger(__name__)


@frozen
class Place:
    """A place of a coordinator."""

    name: str
    coordinator: str

    @contextmanager
    def hold(
        self,
        user: PlaceUser,
        person: PlaceUser,
        has_left: Callable[[int], bool],
        also: PlaceUser | None = None,
        has_lapsed: Callable[[str], bool] = lambda _: False,
    ) -> Iterator[dict[str, str]]:
        """Hold the place in the context; yield its user's environment.

        Args:
            person: a place that this user has acquired is used as it is, and stays. Else labgrid's programs let them
                use the place beside the job, above all `labgrid-client console`.
            has_left: True: a job of this store, by its number, has no board: it waits, has ended or died.
            also: another such user, see `reserving_user`. lapsed: True: a holder is a reservation that has ended.

        Raises:
            LabTransientError: somebody else has or has reserved it (`place_busy`), its exporter is away
                (`exporter_gone`), or the coordinator does not answer.
            ConfigurationError: labgrid refuses, e.g. since there is no such place.
        """
        at = self.client()
        self._check_exporters(at)
        holder = at.holder(self.name)
        for owner in (person, also):
            if owner is not None and holder == str(owner):
                yield owner.environ
                return
        if holder and holder != str(user):
            if MissingResource.of(holder) is not None:
                if (away := at.lacking().get(self.name)) is not None:
                    raise self._gone(away)  # else a janitor would give it back at its next look
            elif not has_lapsed(holder) and not self._is_left(holder, user, has_left):
                raise self._busy(holder)
            else:
                _log.warning("place %s: %s has gone without giving it back; it is released", self.name, holder)
            at.release(self.name, holder)
        elif holder:
            # A process of this job that died had it; a janitor may be giving it back now: not what we acquire next.
            at.release(self.name, holder)
        self._acquire(at, user, person)
        try:
            yield user.environ
        finally:  # measured cycles stay valid
            self._give_back(at, user)

    def claim_of_person(self, ours: Collection[str]) -> str:
        """Reason of a person's claim at labgrid-client; empty: none.

        The person has acquired or reserved the place.

        Args:
            ours: own users of labgrid, as "host/user".

        Raises:
            LabTransientError: the coordinator does not answer.
        """
        at = self.client()
        holder = at.holder(self.name)
        if holder:
            return "" if holder in ours or is_a_program(holder) else str(self._busy(holder))
        owner = at.reserver(self.name)
        return str(self._reserved_error(owner)) if owner and owner.partition(" (")[0] not in ours else ""

    def other_user(self, own_users: Collection[str]) -> str:
        """Other user of the place and his action; empty: none.

        For example "pc1/lena has reserved labgrid's place b1": also a reservation that may get it counts.

        Args:
            own_users: of labgrid, as "host/user".

        Raises:
            LabTransientError: the coordinator does not answer.
        """
        coordinator = self.client()
        # Acquiring waits for another job's place, or takes over a dead one's.
        for action, users in (
            ("acquired", [coordinator.holder(self.name)]),
            ("reserved", coordinator.reserving_users(self.name)),
        ):
            for user in users:
                if user and user not in own_users and not is_a_program(user):
                    return f"{user} has {action} labgrid's place {self.name}"
        return ""

    def client(self) -> Coordinator:
        """Client of its coordinator."""
        from lab.places.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import

        return Coordinator(self.coordinator)

    @staticmethod
    def _is_left(holder: str, user: PlaceUser, has_left: Callable[[int], bool]) -> bool:
        """Return whether the holding job has no board, or is this one.

        The job is of this host and of the store of `user`.
        """
        theirs, ours = JobHolder.of(holder), JobHolder.of(str(user))
        if theirs is None or ours is None or (theirs.host, theirs.tag) != (ours.host, ours.tag):
            return False
        return theirs.job == ours.job or has_left(theirs.job)

    def _acquire(self, at: Coordinator, user: PlaceUser, person: PlaceUser) -> None:
        try:
            at.acquire(self.name, str(user), str(person) if person != user else "")
        except ConfigurationError as error:
            holder = at.holder(self.name)
            if (away := MissingResource.of(holder)) is not None:
                raise self._gone(away) from error
            if holder and holder != str(user):
                raise self._busy(holder) from error  # somebody was faster
            if _NOT_RESERVED_FOR in str(error):
                raise self._reserved_error(at.reserver(self.name)) from error
            if _NOT_OBEYED in str(error):
                raise LabTransientError(
                    f"labgrid's place {self.name}: its exporter does not obey: is the "
                    "board's host up, and `lab farm export` there?",
                    failure="exporter_gone",
                ) from error
            raise ConfigurationError(
                f"place {self.name} cannot be acquired: {error}; mend the place, or RemotePlace in the env"
            ) from error
        except BaseException:  # no answer in time, or Ctrl-C: the coordinator may have done it all the same
            self._give_back(at, user)
            raise

    def _give_back(self, at: Coordinator, user: PlaceUser) -> None:
        try:
            at.release(self.name, str(user))
        except (ConfigurationError, LabTransientError) as error:
            _log.warning("place %s could not be given back: %s", self.name, error)

    def _check_exporters(self, at: Coordinator) -> None:
        """Make sure that exporters offer the place's resources.

        labgrid acquires and reserves a place without its exporter, too.
        """
        if missing := at.find_unmatched(self.name):
            raise LabTransientError(
                f"labgrid's place {self.name}: no exporter offers {', '.join(missing)}: start `lab farm export` on "
                "the board's host, and look at its log (systemctl status boardlab-export)",
                failure="exporter_gone",
            )

    def _gone(self, away: MissingResource) -> LabTransientError:
        return LabTransientError(f"labgrid's place {self.name}: {away.described}", failure="exporter_gone")

    def _reserved_error(self, owner: str) -> LabTransientError:
        return LabTransientError(
            f"labgrid's place {self.name} is reserved for {owner or 'somebody else'}: wait until that ends "
            "(labgrid-client reservations; labgrid-client cancel-reservation, by them)",
            failure=PLACE_BUSY,
        )

    def _busy(self, holder: str) -> LabTransientError:
        return LabTransientError(
            f"labgrid's place {self.name} is held by {holder}: wait until it is released (labgrid-client -p "
            f"{self.name} release, by them)",
            failure=PLACE_BUSY,
        )


def holds_of_people(queue: JobQueue, board: str | None = None) -> list[Hold]:
    """Standing reservations and maintenance, without boardlab's own holds.

    Those keep no check and no qualification from the place.
    """
    return [hold for hold in ReservationBook(queue.store).standing(board) if hold.kind not in OWN]


def is_reserved(holder: str, queue: JobQueue) -> bool:
    """Return whether a holder is a reservation of this store.

    It may have ended.
    """
    return holder.startswith(f"{reserving_user('', store_name(queue.store)).host}/")


def in_use(holder: str, holds: Iterable[Hold], jobs: Iterable[Job], queue: JobQueue) -> bool:
    """Return whether the person holds or measures on the board.

    A measurement goes on when the reservation ends.

    Args:
        holder: see `is_reserved`.
        holds: of the board, see `holds_of_people`.
        jobs: that measure there.
    """
    people = {hold.person for hold in holds} | {job.person for job in jobs}
    return holder in {str(reserving_user(person, store_name(queue.store))) for person in people}
