"""Checks in the store: what they say stands, a board is kept out after faults of the lab in a row, and a passed check lifts that."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import event
from support.facts import missing_facts

from lab.health import BoardCheck, CheckedPart, QuarantineRule
from lab.health import store as health_book
from lab.health.reservations import ReservationBook, standing
from lab.health.state import APART, PARTS
from lab.health.store import KEEPER, HealthBook, healths
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import BY_HEALTH, BY_PROVISION, BY_WEB, HEALTH, Order
from lab.results import Store
from lab.results.records import AttemptRecord

START = dt.datetime(2026, 3, 2, 14, 0, tzinfo=dt.UTC)
RULE = QuarantineRule(faults=3)
BOOTS = Order("am62xx_sk", "b1", ("boot",), "am62x.yaml", "11.01", 20)
DEAD = CheckedPart("power", "failed", "pdu_timeout", "lab", "no answer to 'on'", "U-Boot\nlast line")


class Wall:
    """A wall clock that a test turns."""

    at = START

    def __call__(self) -> dt.datetime:
        self.at += dt.timedelta(seconds=1)
        return self.at


@pytest.fixture
def wall() -> Wall:
    return Wall()


def queue(
    store: Store, wall: Wall, person: str = "timer", program: str = "lab run", ignores: bool = False
) -> JobQueue:
    holder = f"lab-2/boot/{person}/1"
    return JobQueue(store, holder, lambda _who: None, wall, person=person, program=program, ignores=ignores, rule=RULE)


def checked(wall: Wall, *failed: CheckedPart, board: str = "b1", host: str = "lab-1") -> BoardCheck:
    wrong = {part.name: part for part in failed}
    parts = tuple(wrong.get(name, CheckedPart(name, "ok", message="fine")) for name in PARTS)
    return BoardCheck(board, "am62xx_sk", host, wall(), parts, 12.5, "am62x.yaml", "lena", 7)


def attempts(store: Store, wall: Wall, *outcomes: tuple[str, str | None], board: str = "b1") -> None:
    """A run of the board whose cycles end so."""
    run = store.begin_run("boot", "am62xx_sk", board, "11.01", plan={}, provenance={})
    for cycle, (outcome, fault) in enumerate(outcomes, start=1):
        wall.at += APART
        record = AttemptRecord(
            cycle=cycle,
            number=1,
            params={"medium": "sd"},
            outcome=outcome,
            fault=fault,
            transient=True,
            message="",
            started_at=wall(),
            duration_s=1.0,
        )
        store.record_attempt(run.id, record)
    store.finish_run(run.id, "failed")


def test_a_check_is_kept_with_its_parts_and_evidence(store: Store, wall: Wall) -> None:
    book = HealthBook(store, RULE, wall)
    made = book.record(checked(wall, DEAD))
    assert made.id
    assert book.checks("b1", 5) == [made]
    assert made.fault == DEAD
    health = book.of("b1")
    assert (health.state, health.checked_at) == ("bad", made.at)
    assert book.all() == {"b1": health}


def test_faults_of_the_lab_in_a_row_keep_everybody_out_with_why_since_when_and_what_brings_it_back(
    store: Store, wall: Wall
) -> None:
    book = queue(store, wall)
    attempts(store, wall, *[("pdu_timeout", "lab")] * 3)
    job = book.enqueue(BOOTS)
    assert book.start(job.id) is None
    facts = ("b1", "quarantine", "2026-03-02 14:30 UTC", "3 faults", "pdu_timeout 3 times", "`lab health b1 --check`")
    assert not missing_facts(listing.obstacle(book, "b1"), *facts)
    owner = queue(store, wall, KEEPER, ignores=True)
    assert owner.start(owner.enqueue(BOOTS).id) is None, "nobody ignores a quarantine"
    (hold,) = ReservationBook(store, wall).standing("b1")
    assert (hold.kind, hold.person) == ("quarantine", KEEPER)
    health = HealthBook(store, RULE, wall).of("b1")
    assert health.state == "bad"
    assert health.reasons[0] == hold.described


def test_two_jobs_that_find_it_due_at_once_make_one(store: Store, wall: Wall, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts(store, wall, *[("pdu_timeout", "lab")] * 3)
    book = queue(store, wall)
    assert book.start(book.enqueue(BOOTS).id) is None
    asked = iter([[]])  # when the second one looked, the first one's was not there yet
    monkeypatch.setattr(health_book, "standing", lambda *place: next(asked, None) or standing(*place))
    assert book.start(book.enqueue(BOOTS).id) is None
    assert next(asked, None) is None, "it looked"
    (hold,) = ReservationBook(store, wall).standing("b1")
    assert hold.kind == "quarantine"


def test_it_begins_when_the_job_that_had_the_faults_ends(store: Store, wall: Wall) -> None:
    book = queue(store, wall)
    job = book.enqueue(BOOTS)
    assert book.start(job.id) is not None
    attempts(store, wall, *[("port_lost", "lab")] * 3)
    assert not ReservationBook(store, wall).standing("b1"), "a run that goes on is not disturbed"
    book.finish(job.id, "failed")
    assert [hold.kind for hold in ReservationBook(store, wall).standing("b1")] == ["quarantine"]


def test_a_quarantine_stands_where_the_clock_is_set_back_before_it(store: Store, wall: Wall) -> None:
    book = queue(store, wall)
    attempts(store, wall, *[("port_lost", "lab")] * 3)
    assert book.start(book.enqueue(BOOTS).id) is None
    wall.at -= APART
    assert [hold.kind for hold in ReservationBook(store, wall).standing("b1")] == ["quarantine"]
    assert ReservationBook(store, wall).coming("b1") == []
    assert book.start(book.enqueue(BOOTS).id) is None


def test_a_week_of_panics_keeps_nobody_out(store: Store, wall: Wall) -> None:
    for _night in range(7):
        attempts(store, wall, *[("kernel_panic", "board")] * 4)
        wall.at += dt.timedelta(days=1)
    book = queue(store, wall)
    assert book.start(book.enqueue(BOOTS).id) is not None
    assert not ReservationBook(store, wall).standing("b1")


def test_a_check_takes_the_board_and_a_passed_one_gives_it_back(store: Store, wall: Wall) -> None:
    attempts(store, wall, *[("pdu_timeout", "lab")] * 3)
    health, night = HealthBook(store, RULE, wall), queue(store, wall)
    job = night.enqueue(BOOTS)
    assert night.start(job.id) is None
    checking = queue(store, wall, "lena", BY_HEALTH)
    its = checking.enqueue(BOOTS)
    assert checking.start(its.id) is not None, "a job that is kept out keeps nobody waiting"
    health.record(checked(wall, DEAD))
    checking.finish(its.id, "failed")
    assert night.start(job.id) is None, "a check that failed lifts nothing"
    health.record(checked(wall, CheckedPart("boot", "failed", "kernel_panic", "board", "panic")))
    assert health.of("b1").state == "suspect"
    assert night.start(job.id) is not None, "the lab works: that the release panics is for the run to say"
    assert not ReservationBook(store, wall).standing("b1")


def test_a_job_that_checks_first_may_begin(store: Store, wall: Wall) -> None:
    attempts(store, wall, *[("pdu_timeout", "lab")] * 3)
    night = queue(store, wall)
    first = Order("am62xx_sk", "b1", ("boot",), "am62x.yaml", "11.01", 20, {HEALTH: True})
    assert night.start(night.enqueue(first).id) is not None
    assert HealthBook(store, RULE, wall).due("b1") == "it is in quarantine"


def test_a_reservation_keeps_a_check_out(store: Store, wall: Wall) -> None:
    ReservationBook(store, wall).reserve("b1", "ann", "a new PMIC", 4)
    checking = queue(store, wall, "lena", BY_HEALTH)
    assert checking.start(checking.enqueue(BOOTS).id) is None


def test_when_a_check_is_due(store: Store, wall: Wall) -> None:
    book = HealthBook(store, RULE, wall)
    assert book.due("b1") == "it was never checked"
    book.record(checked(wall))
    assert not book.due("b1")
    attempts(store, wall, ("port_lost", "lab"))
    assert "port_lost" in book.due("b1")
    attempts(store, wall, ("ok", None))
    assert not book.due("b1")
    wall.at += dt.timedelta(hours=25)
    assert "older" in book.due("b1")


@pytest.mark.parametrize("program", [BY_WEB, BY_PROVISION])
def test_who_mends_a_board_in_quarantine_gets_it(store: Store, wall: Wall, program: str) -> None:
    attempts(store, wall, *[("pdu_timeout", "lab")] * 3)
    mending = queue(store, wall, "lena", program)
    assert mending.start(mending.enqueue(BOOTS).id) is not None


def test_who_asks_each_second_hears_the_same_of_what_is_wrong(store: Store, wall: Wall) -> None:
    book = HealthBook(store, RULE, wall)
    book.record(checked(wall))
    for found in ([("kernel_panic", "board")] * 4, [("ok", None), ("port_lost", "lab")], [("pdu_timeout", "lab")] * 2):
        attempts(store, wall, *found)
        quick = store.read(lambda session: healths(session, RULE, wall.at))
        assert quick == book.all()
        assert quick["b1"].troubled
    book.record(checked(wall, DEAD))
    assert store.read(lambda session: healths(session, RULE, wall.at)) == book.all()


def test_what_boards_of_a_host_share_is_said_with_each(store: Store, wall: Wall) -> None:
    book = HealthBook(store, RULE, wall)
    for board in ("b1", "b2"):
        book.record(checked(wall, DEAD, board=board))
    assert not missing_facts(book.all()["b1"].reasons[-1], "b2", "lab-1", "pdu_timeout")
    book.record(checked(wall, host="lab-2"))
    assert book.all()["b1"].state == "healthy"
    book.record(checked(wall, DEAD))
    assert any("the fault is lab-1's" in reason for reason in book.all()["b1"].reasons)


GOOD, LAB, BOARD, OTHER = ("ok", None), ("pdu_timeout", "lab"), ("hang_kernel", "board"), ("bad_medium", "test")
WEAK = CheckedPart("boot", "failed", "hang_kernel", "board", "no prompt", "")
STORIES: tuple[tuple[object, ...], ...] = (
    (GOOD,),
    (OTHER,),
    (BOARD, GOOD, BOARD),
    (GOOD, BOARD, BOARD, BOARD),
    (LAB, GOOD),
    (GOOD, LAB),
    (WEAK,),
    (WEAK, GOOD),
    (DEAD, GOOD),
    (GOOD, DEAD),
    (BOARD, None),
    (None, BOARD, BOARD, GOOD, BOARD),
    (None, WEAK, BOARD),
)


def test_a_look_at_all_boards_says_of_each_what_a_look_at_it_says(store: Store, wall: Wall) -> None:
    """None in a story: a check that passed. Each is a board's, whose attempts and checks were in this order."""
    book, good = HealthBook(store, RULE, wall), {}
    for number, story in enumerate(STORIES):
        board = f"board-{number}"
        for each in story:
            if each is None or isinstance(each, CheckedPart):
                book.record(checked(wall, *([each] if each else []), board=board, host=f"lab-{number}"))
            else:
                attempts(store, wall, each, board=board)  # type: ignore[arg-type]
        good[board] = GOOD in story
    at = wall()
    book = HealthBook(store, RULE, lambda: at)
    alone = {board: book.of(board) for board in good}
    assert {health.state for health in alone.values()} >= {"healthy", "suspect", "bad"}
    assert book.all() == alone
    assert book.all(good) == alone


def test_what_a_look_at_all_boards_costs_does_not_grow_with_those_that_are_well(store: Store, wall: Wall) -> None:
    asked: list[str] = []
    event.listen(store._engine, "before_cursor_execute", lambda _c, _r, said, *_: asked.append(said))

    def look(boards: int) -> int:
        for number in range(boards):
            attempts(store, wall, GOOD, board=f"board-{number}")
        asked.clear()
        found = HealthBook(store, RULE, wall).all({f"board-{number}": True for number in range(boards)})
        assert [health.state for health in found.values()] == ["healthy"] * boards
        return len(asked)

    assert look(3) == look(12)
