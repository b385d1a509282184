"""A new board qualifies by its boots, its check, and its times beside its kin's."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.scripted_lab import NEW, TYPE, run

from lab import boards
from lab.errors import BoardTransientError
from lab.farm import qualification
from lab.farm.board_state import BoardNow
from lab.farm.qualification import Qualification
from lab.health import BoardCheck, CheckedPart
from lab.health.reservations import ReservationBook
from lab.host.clock import utc_now
from lab.jobs.queue import JobQueue
from lab.jobs.records import BY_LAB_RUN, BY_QUALIFY, Order
from lab.judge import sensitivity
from lab.pytest_plugin.jobs import hold_failed
from lab.results import AttemptRecord, Store, open_store
from lab.results.audit import Audit

BOOTS = 4
PASSED = tuple(CheckedPart(name, "ok") for name in ("power", "console", "medium", "rails", "boot"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        for seed in range(3):
            run(store, f"kin-{seed}", NEW, utc_now() - dt.timedelta(days=1), random.Random(seed))
        yield store


def judged(
    store: Store,
    parts: tuple[CheckedPart, ...] = PASSED,
    *,
    factor: float = 1.0,
    status: str = "completed",
    boots: int = BOOTS,
) -> Qualification:
    new = run(store, "new", NEW, utc_now(), random.Random(9), factor, status=status, boots=boots)
    check = BoardCheck("new", TYPE, "lab1", utc_now(), parts)
    return qualification.judge(store, boards.load(TYPE), "new", new, check, BOOTS)


def test_a_board_like_its_kin_qualifies_and_serves(store: Store) -> None:
    ReservationBook(store).qualify("new", "lena", "new")
    found = judged(store)
    assert (found.reasons, found.kin) == ((), ("kin-0", "kin-1", "kin-2"))
    assert any("ospi" in note for note in found.notes)
    unknown = "what the judge would find on it is not known yet: boot.time of new has 1 boot runs"
    assert any(note.startswith(unknown) for note in found.notes)
    qualification.finish(store, found, "lena", "lena", "lab1")
    assert ReservationBook(store).standing("new") == []
    assert [entry.action for entry in Audit(store).entries(board="new")] == ["qualify"]
    (comment,) = Audit(store).comments("new")
    assert comment.person == "lena"
    assert comment.text.splitlines() == [f"Qualification, run {found.run}:", *found.notes]


def test_a_slower_board_or_one_whose_boots_or_check_failed_stays_kept_with_the_reasons(store: Store) -> None:
    ReservationBook(store).qualify("new", "lena", "new")
    slower = judged(store, factor=1.2)
    assert any("from its kin's" in reason for reason in slower.reasons)
    failing = judged(store, status="failed", boots=3)
    assert any(not missing_facts(reason, "sd: ", "1 of 4", "kernel_panic") for reason in failing.reasons)
    assert any(not missing_facts(reason, "emmc: ", "3 good boots", "4 ") for reason in failing.reasons)
    dead = CheckedPart("rails", "failed", "rail_unread", "lab", "vdd_core: no sensor answers")
    unsound = judged(store, (*PASSED[:3], dead))
    assert any(not missing_facts(reason, "rails: ", dead.message, "rail_unread") for reason in unsound.reasons)
    qualification.finish(store, unsound, "lena", "lena", "lab1")
    (hold,) = ReservationBook(store).standing("new")
    state = BoardNow("new", holds=(hold,)).state
    assert state.name == "qualifying"
    assert dead.message in state.cause
    assert "vdd_core" in Audit(store).entries(board="new")[0].outcome


@pytest.mark.parametrize(("program", "starts"), [(BY_LAB_RUN, False), (BY_QUALIFY, True)])
def test_a_board_that_has_not_qualified_takes_no_job_but_that_one(store: Store, program: str, *, starts: bool) -> None:
    assert ReservationBook(store).qualify("new", "lena", "new")
    book = JobQueue(store, "here", lambda _holder: False, person="ann", program=program)
    job = book.enqueue(Order(TYPE, "new", ("boot",), "new.yaml", NEW, 20))
    assert (book.start(job.id) is not None) is starts
    assert not ReservationBook(store).qualify("kin-1", "lena", "it has served before")


def test_a_boot_that_failed_for_the_labs_fault_and_was_measured_again_speaks_against_no_board(store: Store) -> None:
    new = run(store, "new", NEW, utc_now(), random.Random(9), status="")
    held_up = AttemptRecord(
        1, 2, {"medium": "sd"}, "stamps_uncertain", "lab", True, "the host was held up", utc_now(), 1.0
    )
    store.record_attempt(new, held_up)
    store.finish_run(new, "completed")
    check = BoardCheck("new", TYPE, "lab1", utc_now(), PASSED)
    found = qualification.judge(store, boards.load(TYPE), "new", new, check, BOOTS)
    assert found.reasons == ()
    assert any(not missing_facts(note, "sd: ", "1 of 5", "stamps_uncertain", "the lab's") for note in found.notes)


def test_a_failed_board_is_held_as_it_is_for_its_person(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDLAB_PERSON", "lena")
    error = BoardTransientError("silent after SPL", failure="hang_spl")
    with pytest.raises(pytest.exit.Exception) as ended:
        hold_failed(store, 7, "kin-1", error)
    assert ended.value.returncode == pytest.ExitCode.TESTS_FAILED
    (hold,) = ReservationBook(store).standing("kin-1")
    assert (hold.kind, hold.until) == ("maintenance", None)
    assert "run 7: hang_spl" in hold.reason
    (entry,) = Audit(store).entries(board="kin-1")
    assert (entry.action, entry.about) == ("maintenance on", "run 7: hang_spl")


def test_a_board_with_a_history_is_told_what_the_judge_would_find_on_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity, "_COPIES", 2)
    monkeypatch.setattr(sensitivity, "BOOTS", (BOOTS,))
    for day in range(60, 0, -1):
        run(store, "new", NEW, utc_now() - dt.timedelta(days=day), random.Random(day), boots=BOOTS)
    notes = [note for note in judged(store).notes if "the judge would find" in note]
    assert [note.split(":")[0] for note in notes] == ["boot.time emmc", "boot.time sd"]
    assert not [note for note in notes if missing_facts(note, "false alarms", "61 runs")]
