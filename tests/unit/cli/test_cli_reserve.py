"""`lab reserve`: whose a board is, by the rules of the browser, with an entry in the audit."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab.cli import main
from lab.errors import ConfigurationError
from lab.health.reservations import ReservationBook
from lab.host import process
from lab.host.process import PERSON_VARIABLE
from lab.jobs.queue import PERSONS, TIMERS, JobQueue
from lab.jobs.records import Order
from lab.results import Store, open_store
from lab.results.audit import Audit

FARM = """\
coordinator: 127.0.0.1:1
boards: [{name: b1, env: one.yaml}, {name: b2, env: two.yaml}]
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    (tmp_path / "farm.yaml").write_text(FARM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_DB", str(tmp_path / "results.db"))
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    monkeypatch.setenv(PERSON_VARIABLE, "lena")
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def reserved(*words: str) -> int:
    return main(["reserve", *words])


def audit(store: Store) -> list[tuple[str, str, str, str, str]]:
    """From the oldest: who, from where, what, on which board, and its outcome."""
    entries = reversed(Audit(store).entries())
    return [(each.person, each.address, each.action, each.board, each.outcome) for each in entries]


def test_a_board_is_a_persons_until_they_give_it_back(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert reserved("b1", "--reason", "a new PMIC", "--hours", "2") == 0
    said = capsys.readouterr().out
    assert not missing_facts(said, "b1", "lena", "until ")
    assert "(a new PMIC)" in said
    assert "labgrid place" in said
    assert "lab reserve b1 --end" in said
    (hold,) = ReservationBook(store).standing()
    assert hold.until is not None
    assert round((hold.until - hold.at).total_seconds()) == 7200
    assert reserved("--json") == 0
    (known,) = json.loads(capsys.readouterr().out)
    assert (known["board"], known["kind"], known["person"], known["until"]) == (
        "b1",
        "reserved",
        "lena",
        hold.until.isoformat(),
    )
    assert reserved() == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["b1", "reserved", "lena"]
    assert reserved("b1", "--end") == 0
    assert not missing_facts(capsys.readouterr().out, "b1 is free", "lena")
    assert ReservationBook(store).standing() == []
    here = socket.gethostname()
    said_to_be = f"lena ({PERSON_VARIABLE} of {process.user_name(os.getuid())})"  # what anybody may set proves nothing
    assert audit(store) == [(said_to_be, here, "reserve", "b1", "done"), (said_to_be, here, "release", "b1", "done")]


def test_maintenance_lasts_until_it_is_ended(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert reserved("b2", "--maintenance", "--reason", "no fan") == 0
    assert "lab reserve b2 --maintenance --end" in capsys.readouterr().out
    (hold,) = ReservationBook(store).standing()
    assert (hold.kind, hold.until) == ("maintenance", None)
    assert reserved("b2", "--maintenance", "--end", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ended"]
    assert [action for _, _, action, _, _ in audit(store)] == ["maintenance on", "maintenance off"]


@pytest.mark.parametrize(
    ("words", "says", "noted"),
    [
        (["b1", "--reason", "mine"], "b1 is reserved by bob", 1),
        (["b7", "--reason", "mine"], "no board 'b7'", 1),
        (["b2"], "at most 500 characters", 1),
        (["b2", "--reason", "long", "--hours", "400"], "at most 336 h", 1),
        (["b2", "--end"], "b2 is not reserved", 1),
        (["--reason", "mine"], "which board?", 0),
        (["b2", "--maintenance", "--hours", "2"], "--hours and --from", 0),
    ],
)
def test_what_cannot_be_is_refused_and_in_the_audit(
    store: Store, capsys: pytest.CaptureFixture[str], words: list[str], says: str, noted: int
) -> None:
    ReservationBook(store).reserve("b1", "bob", "before", 1)
    assert reserved(*words) == 2
    assert says in capsys.readouterr().err
    assert [says in outcome for *_, outcome in audit(store)] == [True] * noted
    assert [hold.person for hold in ReservationBook(store).standing()] == ["bob"]


@pytest.mark.parametrize(
    ("priority", "says"), [(TIMERS, "gives way after its present cycle"), (PERSONS, "goes on to its end")]
)
def test_who_has_the_board_still_is_said(
    store: Store, capsys: pytest.CaptureFixture[str], priority: int, says: str
) -> None:
    book = JobQueue(store, process.identity(), process.has_died, person="night", priority=priority)
    job = book.enqueue(Order("am62xx_sk", "b1", ("boot",), "one.yaml", "", 1))
    assert book.start(job.id) is not None
    assert reserved("b1", "--reason", "a new PMIC") == 0
    assert f"job {job.called} of night on {socket.gethostname()} measures on it, and {says}" in capsys.readouterr().out


# --- Reservations that begin later ---


def at(hours: float) -> str:
    return f"{dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours):%Y-%m-%d %H:%M}"


def test_a_reservation_that_begins_later_leaves_the_board_to_others_until_then(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reserved("b1", "--reason", "a demo", "--from", at(24), "--hours", "2") == 0
    assert "others may have it" in capsys.readouterr().out
    book = ReservationBook(store)
    assert book.standing() == []
    (coming,) = book.coming("b1")
    assert f"reserved by lena from {at(24)}" in coming.described
    anns = JobQueue(store, process.identity(), process.has_died, person="ann")
    assert anns.start(anns.enqueue(Order("am62xx_sk", "b1", ("boot",), "one.yaml", "", 1)).id) is not None
    tomorrow = ReservationBook(store, lambda: store.now() + dt.timedelta(hours=25))
    assert [hold.person for hold in tomorrow.standing("b1")] == ["lena"]
    assert tomorrow.coming() == []
    assert reserved() == 0
    assert at(24) in capsys.readouterr().out
    assert reserved("b1", "--end") == 0
    assert book.coming() == []
    assert [entry[2:] for entry in audit(store)] == [("reserve", "b1", "done"), ("release", "b1", "done")]


def test_reservations_of_one_time_are_one_persons_and_others_may_come_before_and_after(store: Store) -> None:
    book = ReservationBook(store)
    now = store.now()
    book.reserve("b1", "lena", "a demo", 2.0, now + dt.timedelta(hours=10))
    book.reserve("b1", "ann", "before", 9.5)
    book.reserve("b1", "ann", "after", 1.0, now + dt.timedelta(hours=12))
    for begin, hours in ((9.0, 2.0), (11.0, 0.5), (11.0, 4.0), (0.0, 11.0)):
        with pytest.raises(ConfigurationError, match="reserved by lena from"):
            book.reserve("b1", "ada", "mine", hours, now + dt.timedelta(hours=begin))
    book.reserve("b1", "lena", "a longer demo", 2.0, now + dt.timedelta(hours=10))
    assert [(hold.person, hold.reason) for hold in book.coming("b1")] == [("lena", "a longer demo"), ("ann", "after")]
    assert [hold.reason for hold in book.standing("b1")] == ["before"]


@pytest.mark.parametrize("begin", ["tomorrow", "2026-13-01", "2199-01-01"])
def test_a_begin_that_is_no_time_or_too_far_is_refused(store: Store, begin: str) -> None:
    assert reserved("b1", "--reason", "a demo", "--from", begin) == 2
    assert ReservationBook(store).coming() == []
