"""Whose a board is: reservations end by themselves, jobs keep to them, and what was done stands in an audit that only grows."""

from __future__ import annotations

import csv
import datetime as dt
import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support.facts import missing_facts
from support.jobbook import Wall
from support.older_schema import raw

from lab.errors import BoardlabError, ConfigurationError
from lab.health.reservations import IGNORE, ReservationBook
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import Order
from lab.results import Store
from lab.results.audit import Audit, as_csv, document

START = dt.datetime(2026, 3, 2, 14, 0, tzinfo=dt.UTC)
BOOTS = Order("am62xx_sk", "b1", ("boot",), "am62x.yaml", "11.01", 20)


def queue(store: Store, wall: Wall, person: str, *, ignores: bool = False) -> JobQueue:
    return JobQueue(store, f"lab-2/boot/{person}/1", lambda _who: None, wall, person=person, ignores=ignores)


def test_a_reserved_board_is_refused_to_others_with_who_why_and_until_when(store: Store) -> None:
    wall = Wall(START)
    ReservationBook(store, wall).reserve("b1", "lena", "a new PMIC", 4)
    timer = queue(store, wall, "timer", ignores=True)
    job = timer.enqueue(BOOTS)
    assert timer.start(job.id) is None, "who ignores a reservation of another person ignores nothing"
    assert not missing_facts(listing.obstacle(timer, "b1"), "b1", "lena", "2026-03-02 18:00 UTC", "a new PMIC")
    assert timer.start(timer.enqueue(Order("am62xx_sk", "b2", ("boot",), "e", "", 1)).id) is not None


def test_a_reservation_ends_by_itself_and_the_job_that_waited_has_the_board(store: Store) -> None:
    wall = Wall(START)
    book = ReservationBook(store, wall)
    book.reserve("b1", "lena", "a new PMIC", 4)
    timer = queue(store, wall, "timer")
    job = timer.enqueue(BOOTS)
    wall.later(hours=3.99)
    assert timer.start(job.id) is None
    wall.later(hours=0.01)
    assert book.standing() == []
    assert timer.start(job.id) is not None


def test_a_reservation_begins_when_it_is_stored_also_where_the_host_stood_still_meanwhile(store: Store) -> None:
    wall = Wall(START)
    ReservationBook(store, wall).reserve("b1", "max", "a new PMIC", 1)
    times = iter([START, START + dt.timedelta(hours=2)])  # of the order, and of its transaction
    begun = ReservationBook(store, lambda: next(times)).reserve("b1", "olga", "its successor", 1)
    assert (begun.at, begun.until) == (START + dt.timedelta(hours=2), START + dt.timedelta(hours=3))


def test_its_own_person_measures_on_it_when_asking_for_that(store: Store) -> None:
    wall = Wall(START)
    ReservationBook(store, wall).reserve("b1", "lena", "a new PMIC", 4)
    forgetful, knowing = queue(store, wall, "lena"), queue(store, wall, "lena", ignores=True)
    job = forgetful.enqueue(BOOTS)
    assert forgetful.start(job.id) is None
    facts = ("a new PMIC", "yours", IGNORE, "--lab-ignore-", "reservation")
    assert not missing_facts(listing.obstacle(forgetful, "b1"), *facts)
    assert knowing.start(job.id) is not None


def test_maintenance_stands_until_somebody_ends_it(store: Store) -> None:
    wall = Wall(START)
    book = ReservationBook(store, wall)
    book.maintain("b1", "ann", "fuse")
    book.reserve("b1", "lena", "when it is back", 1)
    wall.later(hours=1000)
    timer = queue(store, wall, "timer")
    job = timer.enqueue(BOOTS)
    assert timer.start(job.id) is None
    assert not missing_facts(listing.obstacle(timer, "b1"), "b1", "maintenance", "ann", "2026-03-02 14:00 UTC", "fuse")
    assert book.end("b1", "maintenance", "lena").person == "ann"
    assert timer.start(job.id) is not None
    with pytest.raises(ConfigurationError, match="b1 is not in maintenance"):
        book.end("b1", "maintenance", "lena")


def test_a_board_is_reserved_once_and_longer_by_the_same_person_only(store: Store) -> None:
    wall = Wall(START)
    book = ReservationBook(store, wall)
    book.reserve("b1", "lena", "a new PMIC", 4)
    with pytest.raises(ConfigurationError, match=r"b1.* lena .*18:00 UTC"):
        book.reserve("b1", "ann", "mine", 1)
    wall.later(hours=1)
    book.reserve("b1", "lena", "longer", 8)
    assert [(hold.reason, hold.until) for hold in book.standing("b1")] == [("longer", wall() + dt.timedelta(hours=8))]
    wall.later(hours=8)
    assert book.reserve("b1", "ann", "mine", 1).person == "ann"


@pytest.mark.parametrize(
    ("hours", "reason"), [(0, "x"), (-1, "x"), (1e9, "x"), (float("nan"), "x"), (1, " "), (1, "x" * 501)]
)
def test_a_reservation_has_a_reason_and_an_end(store: Store, hours: float, reason: str) -> None:
    book = ReservationBook(store)
    with pytest.raises(ConfigurationError):
        book.reserve("b1", "lena", reason, hours)
    assert book.standing() == []


def test_a_person_with_limits_has_so_many_reservations_and_hours_and_others_any(store: Store) -> None:
    """Those that begin later count, too, and of one that runs, what is left."""
    wall = Wall(START)
    book = ReservationBook(store, wall)
    bounds = {"most": 2, "most_h": 10.0}
    book.reserve("b1", "ci", "nightly", 6, **bounds)
    with pytest.raises(ConfigurationError, match=r"2 .*11\.0 h.*2 of 10 h"):
        book.reserve("b2", "ci", "nightly", 5, START + dt.timedelta(days=7), **bounds)
    wall.later(hours=1)
    book.reserve("b2", "ci", "nightly", 5, START + dt.timedelta(days=7), **bounds)
    with pytest.raises(ConfigurationError, match=r"3 reservations"):
        book.reserve("b3", "ci", "nightly", 0.1, **bounds)
    assert book.standing("b3") == [], "what was refused is not there"
    book.reserve("b1", "ci", "nightly", 5, **bounds)
    book.reserve("b3", "lena", "a new PMIC", 300)
    with pytest.raises(ConfigurationError, match=r"b3 .*lena .*ci ends"):
        book.end("b3", "reserved", "ci", own=True)
    assert [hold.person for hold in book.standing("b3")] == ["lena"]
    assert book.end("b1", "reserved", "ci", own=True).board == "b1"


def test_of_many_who_reserve_a_board_at_once_one_has_it(store: Store) -> None:
    book = ReservationBook(store)

    def reserve(person: str) -> str:
        try:
            return book.reserve("b1", person, "mine", 1).person
        except BoardlabError:
            return ""

    with ThreadPoolExecutor(8) as pool:
        got = [person for person in pool.map(reserve, "abcdefgh") if person]
    assert got == [hold.person for hold in book.standing("b1")]
    assert len(got) == 1


def test_the_audit_is_paged_filtered_and_the_database_refuses_to_change_it(store: Store, database: str) -> None:
    audit = Audit(store, Wall(START))
    for number in range(3):
        audit.note("reserve", person="lena", address="192.0.2.7", board=f"b{number}", about="4 h", outcome="done")
    audit.note("login", person="ann", outcome="wrong password")
    assert [entry.action for entry in audit.entries(limit=2)] == ["login", "reserve"]
    assert [entry.board for entry in audit.entries(person="lena", before=3)] == ["b1", "b0"]
    assert [entry.person for entry in audit.entries(board="b2")] == ["lena"]
    statements = ["UPDATE audit SET person = 'nobody'", "DELETE FROM audit"]
    with raw(database) as connection:
        if connection.dialect.name == "sqlite":
            columns = "id, at, person, address, action, board, about, outcome"
            values = "at, 'nobody', address, action, board, about, outcome FROM audit"
            statements += [
                f"REPLACE INTO audit ({columns}) SELECT id, {values}",
                f"INSERT OR REPLACE INTO audit ({columns}) SELECT id, {values} WHERE id = 1",
                f"INSERT INTO audit ({columns}) SELECT id, {values} WHERE true ON CONFLICT DO UPDATE SET person = 'nobody'",
            ]
    for statement in statements:
        with pytest.raises(DBAPIError, match="only appended"), raw(database) as connection:
            connection.execute(text(statement))
    assert [entry.person for entry in audit.entries()] == ["ann", "lena", "lena", "lena"]


def test_the_audit_as_csv_and_json_is_what_was_noted_and_no_formula(store: Store) -> None:
    audit = Audit(store, Wall(START))
    audit.note("comment", person="=cmd()", board='b"1,\n', about="x" * 5000, outcome="-1")
    (entry,) = audit.entries()
    (row,) = csv.DictReader(io.StringIO(as_csv([entry])))
    assert (row["person"], row["board"], row["outcome"], len(row["about"])) == ("'=cmd()", 'b"1,\n', "'-1", 1000)
    assert document(entry) == {**document(entry), "person": "=cmd()", "at": "2026-03-02T14:00:00+00:00"}


def test_comments_are_of_their_board_the_newest_first(store: Store) -> None:
    audit = Audit(store)
    for board, words in (("b1", "first"), ("b2", "another"), ("b1", " second ")):
        audit.comment(board, "lena", words)
    assert [comment.text for comment in audit.comments("b1")] == ["second", "first"]
    for wrong in ("  ", "x" * 4001):
        with pytest.raises(ConfigurationError, match=r"1 and 4000 characters"):
            audit.comment("b1", "lena", wrong)
