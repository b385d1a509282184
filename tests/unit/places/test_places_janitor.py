"""What the janitor does about places, with a played coordinator: no living person or job loses one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, evolve, field
from support.facts import missing_facts

from lab.errors import LabTransientError
from lab.health.reservations import QUARANTINE, ReservationBook
from lab.health.store import KEEPER
from lab.host import process
from lab.jobs.queue import JobQueue
from lab.jobs.records import Job, Order
from lab.places.janitor import GRACE_S, Janitor
from lab.places.job_place import hold_place, measures_at
from lab.places.records import MissingResource, job_user, reserving_user, store_name
from lab.results import Store, open_store
from lab.results.models import ReservationRow

ENV = "targets: {main: {resources: [{RemotePlace: {name: p1}}]}}\n"


@define
class Played:
    """A coordinator; `released` is called after each release. reserved: place -> for whom, and by which reservation. asked: how often for these."""

    places: dict[str, str] = field(factory=lambda: {"p1": "", "p2": ""})
    released: Any = field(default=lambda _name: None)
    away: dict[str, MissingResource] = field(factory=dict)
    reserved: dict[str, str] = field(factory=dict)
    asked: int = 0

    def holders(self, _timeout_s: float = 0.0) -> dict[str, str]:
        return dict(self.places)

    def holder(self, name: str) -> str:
        return self.places[name]

    def find_unmatched(self, _name: str) -> tuple[str, ...]:
        return ()

    def lacking(self) -> dict[str, MissingResource]:
        return dict(self.away)

    def reserver(self, name: str) -> str:
        return self.reserved.get(name, "")

    def reservers(self) -> dict[str, str]:
        self.asked += 1
        return dict(self.reserved)

    def release(self, name: str, holder: str) -> None:
        if self.places[name] == holder:
            self.places[name] = ""
        self.released(name)

    def acquire(self, name: str, user: str, _allowed: str = "") -> None:
        assert self.places[name] == ""
        self.places[name] = user


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played()
    monkeypatch.setattr("lab.places.coordinator.Coordinator", lambda _address: played)
    return played


def queue(store: Store, person: str = "lena", *, ignores: bool = True) -> JobQueue:
    return JobQueue(store, process.identity(), process.has_died, person=person, ignores=ignores)


def running(book: JobQueue, tmp_path: Path, board: str = "b1") -> Job:
    (tmp_path / "p1.yaml").write_text(ENV)
    order = Order("am62xx_sk", board, ("boot",), str(tmp_path / "p1.yaml"), "", 1)
    job = book.start(book.enqueue(order).id)
    assert job is not None
    return job


def janitor(played: Played, store: Store, boards: dict[str, str] | None = None) -> Janitor:
    known = {"p1": "b1", "p2": "b2"} if boards is None else boards
    at = partial(measures_at, coordinator="192.0.2.1:20408")
    return Janitor(played, store, queue(store), lambda: known, at)  # type: ignore[arg-type] # played


def reserved_for(store: Store, person: str) -> str:
    return str(reserving_user(person, store_name(store)))


def test_a_reservation_that_ends_in_a_run_keeps_the_place_until_the_run_ends(
    tmp_path: Path, store: Store, played: Played
) -> None:
    played.places["p1"] = reserved_for(store, "lena")
    ReservationBook(store).reserve("b1", "lena", "a new PMIC", 1)
    book = queue(store)
    job = running(book, tmp_path)
    with hold_place(book, job) as environ:
        assert environ == reserving_user("lena", store_name(store)).environ
        ReservationBook(store).end("b1", "reserved", "lena")
        assert janitor(played, store).due() == []
        beside = running(queue(store, "bob"), tmp_path, "b1-of-another-name")
        with pytest.raises(Exception, match="held by reserved-"), hold_place(queue(store, "bob"), beside):
            pass
    book.finish(job.id, "completed")
    (action,) = janitor(played, store).tidy()
    assert not missing_facts(action.why, "reservation", "ended")
    assert played.places["p1"] == ""


@pytest.mark.parametrize(
    ("board", "env", "released"),
    [
        ("b1-of-another-name", ENV, False),
        ("b1", ENV.replace("p1", "p7"), True),
        ("b1", ENV + "options: {coordinator_address: '192.0.2.7'}\n", True),
        ("b1", ENV + "options: {coordinator_address: '192.0.2.1'}\n", False),
        ("b1", ENV + "options: {coordinator_address: '127.0.0.1:7'}\n", False),  # forwarded by ssh, perhaps
        ("b1", ENV + "options: {coordinator_address: 'lab..example'}\n", False),  # which is no name
        ("b1", "targets: {main: {resources: [", False),  # it is being saved
        ("b1-of-another-name", "targets: {main: {resources: [", True),
    ],
)
def test_a_job_is_at_the_place_that_its_environment_names(
    tmp_path: Path, store: Store, played: Played, board: str, env: str, *, released: bool
) -> None:
    played.places["p1"] = reserved_for(store, "lena")
    running(queue(store), tmp_path, board)
    (tmp_path / "p1.yaml").write_text(env)
    assert [action.verb for action in janitor(played, store).due()] == ["release"] * released


def test_the_persons_own_job_takes_over_from_the_reservation_that_ended(
    tmp_path: Path, store: Store, played: Played
) -> None:
    played.places["p1"] = reserved_for(store, "lena")
    book = queue(store, ignores=False)
    job = running(book, tmp_path)
    with hold_place(book, job):
        assert played.places["p1"] == str(job_user("lena", job.called, store_name(store)))


def test_anothers_maintenance_leaves_the_place_to_whose_reservation_stands(store: Store, played: Played) -> None:
    played.places["p1"] = reserved_for(store, "lena")
    ReservationBook(store).reserve("b1", "lena", "a new PMIC", 1)
    ReservationBook(store).maintain("b1", "bob", "a new fan")
    assert janitor(played, store).due() == []
    ReservationBook(store).end("b1", "reserved", "lena")
    list(janitor(played, store).tidy())
    assert played.places["p1"] == reserved_for(store, "bob")


def test_the_place_of_an_unknown_board_stays_until_its_board_is_known(store: Store, played: Played) -> None:
    played.places["p1"] = reserved_for(store, "lena")
    boards = {"p2": "b2"}
    looker = janitor(played, store, boards)
    assert looker.due() == []
    boards["p1"] = "b1"
    assert [action.place for action in looker.due()] == ["p1"]


def test_a_quarantine_is_nobodys_reservation(tmp_path: Path, store: Store, played: Played) -> None:
    row = ReservationRow(
        board="b1",
        kind=QUARANTINE,
        person=KEEPER,
        reason="faults of the lab",
        at=dt.datetime.now(dt.UTC),
        until=None,
        ended_at=None,
        ended_by="",
    )
    store.write(lambda session: session.add(row))
    assert janitor(played, store).due() == [], "`lab health --check` needs the place"
    played.places["p1"] = reserved_for(store, KEEPER)
    assert [action.verb for action in janitor(played, store).due()] == ["release"]


def test_a_job_that_was_resumed_while_another_place_is_released_keeps_its_own(
    tmp_path: Path, store: Store, played: Played
) -> None:
    book = queue(store)
    jobs = [running(book, tmp_path, board) for board in ("b1", "b2")]
    for place, job in zip(played.places, jobs, strict=True):
        played.places[place] = str(job_user("lena", job.called, store_name(store)))
        book.finish(job.id, "interrupted")
    played.released = lambda name: book.start(book.take_up(jobs[1].id).id) if name == "p1" else None
    assert [action.place for action in janitor(played, store).tidy()] == ["p1"]
    assert played.places["p2"]
    assert janitor(played, store).due() == []


def test_the_place_of_a_job_that_waits_for_its_board_again_is_released(
    tmp_path: Path, store: Store, played: Played
) -> None:
    book = queue(store)
    job = running(book, tmp_path)
    played.places["p1"] = str(job_user("lena", job.called, store_name(store)))  # whose process was killed
    book.finish(job.id, "interrupted")
    running(queue(store, "bob"), tmp_path)  # which waits for that place
    book.take_up(job.id)
    assert [action.why for action in janitor(played, store).due()] == [f"job {job.called} waits for its board"]


@pytest.mark.parametrize("path", [None, Path("/a/results.db")])
def test_the_place_of_a_job_that_somebody_else_resumed_is_released_where_no_other_store_has_such_a_job(
    tmp_path: Path, store: Store, played: Played, path: Path | None
) -> None:
    job = running(queue(store, "bob"), tmp_path)
    played.places["p1"] = str(job_user("ann", job.called, store_name(store)))  # whose process was killed
    where = SimpleNamespace(path=path, tag=store.location.tag, identity=store.location.identity)
    looker = evolve(janitor(played, store), store=SimpleNamespace(location=where))
    said = [f"job {job.called} went on as that of bob on {job.host}"]
    assert [action.why for action in looker.due()] == said * (path is None)


def test_a_place_without_its_exporter_is_kept_from_everybody_after_a_while_until_it_is_whole(
    store: Store, played: Played
) -> None:
    clock = [100.0]
    looker = evolve(janitor(played, store), now_s=lambda: clock[0])
    played.places |= {"p2": "desk-3/bob"}
    played.away = {name: MissingResource("exporter", "lab-2") for name in played.places}
    assert list(looker.tidy()) == []
    clock[0] += GRACE_S - 0.1
    played.away = {}
    assert list(looker.tidy()) == [], "it was started again"
    played.away = {name: MissingResource("exporter", "lab-2") for name in played.places}
    assert list(looker.tidy()) == []
    clock[0] += GRACE_S
    (action,) = looker.tidy()
    assert not missing_facts(
        action.described, "place p1: acquired", "exporter-away/lab-2", "lab-2 is away", "boardlab-export"
    )
    assert played.places == {"p1": "exporter-away/lab-2", "p2": "desk-3/bob"}
    played.away = {"p1": MissingResource("port", "lab-2")}
    assert list(looker.tidy()) == [], "its exporter is back, and its port is not"
    played.away = {}
    (action,) = looker.tidy()
    assert not missing_facts(action.described, "place p1: released", "exporter-away/lab-2", "there again")
    assert played.places["p1"] == ""


def test_a_place_of_no_use_that_labgrid_has_given_to_somebody_is_left_to_them_and_that_is_said_once(
    store: Store, played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    looker = evolve(janitor(played, store), grace_s=0.0)
    played.away, played.reserved = {"p1": MissingResource("exporter", "")}, {"p1": "desk-1/lena (reservation 7F3K)"}
    (action,) = looker.due()
    assert action.verb == "leave"
    for _ in range(2):
        assert list(looker.tidy()) == []
    said = (
        "place p1: left to desk-1/lena (reservation 7F3K): exporter of the board's host is away; start boardlab-export there, or cancel the "
        "reservation and reserve anew"
    )
    assert caplog.messages == [said]
    played.reserved = {}
    assert [action.holder for action in looker.tidy()] == ["exporter-away/some-host"]


def test_a_place_of_no_use_is_kept_from_nobody_where_that_takes_resources_from_a_place_that_can_be_used(
    store: Store, played: Played
) -> None:
    looker = evolve(janitor(played, store), grace_s=0.0)
    played.away = {"p1": MissingResource("exporter", "lab-2", shared_with="p2")}
    assert list(looker.tidy()) == []
    played.places["p1"] = "exporter-away/lab-2"  # before there was such a place
    (action,) = looker.tidy()
    assert not missing_facts(action.described, "place p1: released", "exporter-away/lab-2", "place p2")


def test_all_reservations_are_asked_for_together_however_many_places_are_of_no_use(
    store: Store, played: Played
) -> None:
    played.away = {name: MissingResource("exporter", "lab-2") for name in played.places}
    looker = evolve(janitor(played, store), grace_s=0.0)
    assert len(looker.due()) == len(played.places)
    assert played.asked == 1


def test_a_board_that_is_reserved_in_the_browser_is_its_persons_when_its_exporter_is_back(
    store: Store, played: Played
) -> None:
    looker = evolve(janitor(played, store), grace_s=0.0)
    ReservationBook(store).reserve("b1", "lena", "a new PMIC", 1)
    played.away = {"p1": MissingResource("exporter", "lab-2")}
    list(looker.tidy())
    assert played.places["p1"] == "exporter-away/lab-2"
    played.away = {}
    assert [action.verb for action in looker.tidy()] == ["release", "acquire"]
    assert played.places["p1"] == reserved_for(store, "lena")


def test_a_job_waits_for_an_exporter_as_without_a_janitor_and_takes_the_place_when_it_is_back(
    tmp_path: Path, store: Store, played: Played
) -> None:
    played.places["p1"], played.away = "port-away/lab-2", {"p1": MissingResource("port", "lab-2")}
    book = queue(store)
    job = running(book, tmp_path)
    said = "place p1: serial port of lab-2 is away; plug its adapter in, or start boardlab-console there"
    with pytest.raises(LabTransientError, match=said) as caught, hold_place(book, job):
        pass
    assert caught.value.failure == "exporter_gone"
    assert played.places["p1"] == "port-away/lab-2"
    played.away = {}
    with hold_place(book, job):
        assert played.places["p1"] == str(job_user("lena", job.called, store_name(store)))
