"""Faults that boardlab had, or could have, put back on purpose: a schedule must find each of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from attrs import evolve, frozen
from sqlalchemy.orm import Session

from lab.errors import BoardlabError
from lab.farm import rerun, runner
from lab.farm.runner import Runner
from lab.health import reservations
from lab.host.clock import utc_now
from lab.jobs import queue, records
from lab.jobs.queue import JobQueue
from lab.jobs.records import Silence, seems_dead
from lab.places.place import Place
from lab.provision.history import Provision, ProvisionBook
from lab.provision.writers.emmc_boot_partitions import SpareBootWriter
from lab.pytest_plugin import runs
from lab.pytest_plugin.run_session import RunSession
from lab.results import Store, rows
from lab.results.models import ReservationRow, RunRow
from lab.run.boot import BootRun
from support.simulation import watch
from support.simulation.database import Results
from support.simulation.places import WITH_EXPORTER

_READINGS: Final = watch.COUNTS, watch.ONCE


@frozen
class Fault:
    """A fault.

    Attributes:
        put_back: has it within the block. breaks: the invariants that may tell of it first.
    """

    name: str
    put_back: Callable[[Results], Any]
    breaks: tuple[str, ...]


@contextmanager
def _dead_by_the_wall_clock(_results: Results) -> Iterator[None]:
    def is_dead(_silence: Silence, job: Any, has_died: Any) -> bool:
        return seems_dead(job, utc_now(), has_died)

    with patch.object(Silence, "is_dead", is_dead):
        yield


@contextmanager
def _living_by_the_wall_clock(_results: Results) -> Iterator[None]:
    def is_dead(silence: Silence, job: Any, has_died: Any) -> bool:
        return plain(silence, job, has_died) and seems_dead(job, utc_now(), has_died)

    plain = Silence.is_dead
    with patch.object(Silence, "is_dead", is_dead):
        yield


@contextmanager
def _measured_again_on_resume(results: Results) -> Iterator[None]:
    def every(run: BootRun, _medium: str) -> list[int]:
        return list(range(1, int(run.run.plan["cycles"]) + 1))

    def insert(session: Session, run_id: int, record: Any) -> int:
        with patch.object(rows, "OK", "none"):
            return plain(session, run_id, record)

    plain, index = rows.insert_attempt, "ix_attempts_good"
    ((made,),) = results.look("SELECT sql FROM sqlite_master WHERE name = ?", index)
    results.looker.execute(f"DROP INDEX {index}")
    try:
        with patch.object(BootRun, "pending", every), patch.object(rows, "insert_attempt", insert):
            yield
    finally:
        results.empty_tables()
        results.looker.execute(made)


@contextmanager
def _a_complete_run_is_measured_again(_results: Results) -> Iterator[None]:
    with patch.object(Runner, "_is_measured", lambda _self, _job: False):
        yield


@contextmanager
def _the_youngest_first(_results: Results) -> Iterator[None]:
    def turn(_priority: int, queued_at: dt.datetime) -> float:
        return -queued_at.timestamp()

    with patch.object(queue, "turn", turn):
        yield


@contextmanager
def _written_is_proved(_results: Results) -> Iterator[None]:
    def known(store: Store, strategy: Any, _media: Any, _write: Any) -> dict[str, Provision]:
        return ProvisionBook(store).current(strategy.board)

    proved = property(lambda one: one.state in {"written", "booted"})
    with patch.object(Provision, "is_on_it", proved), patch.object(runs, "_provisions", known):
        yield


@contextmanager
def _a_late_session_ends_a_completed_run(_results: Results) -> Iterator[None]:
    def finish(store: Store, run_id: int, status: str) -> None:
        def end(session: Session) -> None:
            session.get_one(RunRow, run_id).status = status

        store.write(end)

    with patch.object(Store, "finish_run", finish):
        yield


@contextmanager
def _an_open_run_ends_well(_results: Results) -> Iterator[None]:
    def finish(session: RunSession[Any]) -> str:
        try:
            return plain(session)
        except BoardlabError:
            return "completed"

    plain = RunSession.finish
    with patch.object(RunSession, "finish", finish):
        yield


@contextmanager
def _a_host_that_starts_gives_its_place(_results: Results) -> Iterator[None]:
    with patch.object(Place, "_check_exporters", lambda _self, _at: None):
        yield


@contextmanager
def _a_verdict_is_lost(_results: Results) -> Iterator[None]:
    again = patch.object(rerun, "report_again", lambda *_given, **_options: True)
    with again, patch.object(rerun, "alarms_again", lambda *_given: False):
        yield


@contextmanager
def _an_open_question_ends_well(_results: Results) -> Iterator[None]:
    never = patch.object(Runner, "_confirm", lambda *_given: (1, None))  # else it takes a relay that sticks
    with never, patch.object(rerun, "find_unconfirmed_runs", lambda *_given: ()):
        yield


@contextmanager
def _a_waiting_job_keeps_its_place(_results: Results) -> Iterator[None]:
    def has_board(book: JobQueue, job_id: int) -> bool:
        job = book.job(job_id)
        return not job.ended and not book._dead(job)  # type: ignore[arg-type]

    with patch.object(JobQueue, "has_board", has_board):
        yield


@contextmanager
def _a_quarantine_stops_nobody(_results: Results) -> Iterator[None]:
    with patch.object(queue, "may_have_quarantined", lambda _job: True):
        yield


@contextmanager
def _a_killed_pytest_failed(_results: Results) -> Iterator[None]:
    plain = Runner._wait

    def wait(runner_of_job: Runner, child: Any, job: Any) -> int:
        code = plain(runner_of_job, child, job)
        return 1 if code < 0 else code

    with patch.object(Runner, "_wait", wait):
        yield


@contextmanager
def _a_cancel_is_not_seen(_results: Results) -> Iterator[None]:
    plain = JobQueue.beat

    def beat(book: JobQueue, job_id: int) -> bool:
        plain(book, job_id)
        return False

    with patch.object(JobQueue, "beat", beat):
        yield


@contextmanager
def _a_cancelled_job_is_interrupted(_results: Results) -> Iterator[None]:
    with patch.object(queue, "final_state", lambda _row, state: state):
        yield


@contextmanager
def _a_reservation_replaces_anybodys(_results: Results) -> Iterator[None]:
    plain = reservations._open

    def open_to_all(board: str | None) -> Any:
        return plain(board).where(ReservationRow.kind == "quarantine")

    with patch.object(reservations, "_open", open_to_all):
        yield


@contextmanager
def _switched_before_it_is_read_back(_results: Results) -> Iterator[None]:
    plain = SpareBootWriter.write

    def write(writer: SpareBootWriter, plan: Any, report: Any) -> None:
        plain(writer, plan, report)
        writer.switch(plan)

    with patch.object(SpareBootWriter, "write", write):
        yield


@contextmanager
def _a_lost_write_counts_as_anothers(_results: Results) -> Iterator[None]:
    plain = SpareBootWriter._is_untried

    def is_untried(writer: SpareBootWriter, untried: Any) -> bool:
        return plain(writer, evolve(untried, switched_back=True))

    with patch.object(SpareBootWriter, "_is_untried", is_untried):
        yield


@contextmanager
def _a_mismatch_is_of_one_medium(_results: Results) -> Iterator[None]:
    with patch.object(ProvisionBook, "note_refused", ProvisionBook.note_failed):
        yield


@contextmanager
def _a_lost_lease_is_ignored(_results: Results) -> Iterator[None]:
    plain = JobQueue.try_beat

    def beat(book: JobQueue, job_id: int) -> bool:
        try:
            return plain(book, job_id)
        except BoardlabError:
            return False

    with patch.object(JobQueue, "try_beat", beat):
        yield


@contextmanager
def _an_earlier_verdict_is_forgotten(_results: Results) -> Iterator[None]:
    with patch.object(Runner, "_report_earlier", lambda _self, _job: 0):
        yield


@contextmanager
def _a_lost_answer_is_sent_again(_results: Results) -> Iterator[None]:
    with patch.object(Store, "_was_committed", lambda *_given: False):
        yield


@contextmanager
def _a_failed_job_ends_well(_results: Results) -> Iterator[None]:
    plain = runner._with_verdict

    def code(given: int, *rest: Any, **options: Any) -> int:
        return plain(0 if given == 1 else given, *rest, **options)

    with patch.object(runner, "_with_verdict", code):
        yield


@contextmanager
def _a_living_site_keeps_its_board(_results: Results) -> Iterator[None]:
    with patch.object(records, "_is_gone", lambda job, has_died: has_died(job.holder)):
        yield


@contextmanager
def _a_token_is_a_person(_results: Results) -> Iterator[None]:
    plain, end = JobQueue.cancel, reservations.ReservationBook.end

    def cancel(book: JobQueue, job_id: int, by: str, **_own: bool) -> Any:
        return plain(book, job_id, by)

    def release(book: Any, board: str, kind: Any, by: str, **_own: bool) -> Any:
        return end(book, board, kind, by)

    with patch.object(JobQueue, "cancel", cancel), patch.object(reservations.ReservationBook, "end", release):
        yield


@contextmanager
def _a_token_has_no_limits(_results: Results) -> Iterator[None]:
    plain = reservations.ReservationBook.reserve

    def reserve(*given: Any, **_limits: float) -> Any:
        return plain(*given)

    with patch.object(reservations.ReservationBook, "reserve", reserve):
        yield


FAULTS: Final = (
    Fault("a job is dead by another host's wall clock", _dead_by_the_wall_clock, (watch.KEEPS,)),
    Fault(
        "a resumed run measures its cycles again", _measured_again_on_resume, (*_READINGS, watch.TOLD, watch.FAILED)
    ),
    Fault("the youngest job is first", _the_youngest_first, (watch.TURNS,)),
    Fault("a complete run is measured again", _a_complete_run_is_measured_again, _READINGS),
    Fault("what was written is taken for proved", _written_is_proved, (watch.LABEL,)),
    Fault("a session that stood still ends a completed run", _a_late_session_ends_a_completed_run, _READINGS),
    Fault("a session whose run stays open ends well", _an_open_run_ends_well, _READINGS),
    Fault("a place is given while its host starts", _a_host_that_starts_gives_its_place, (WITH_EXPORTER,)),
    Fault("a job that waits keeps the place of its killed process", _a_waiting_job_keeps_its_place, (watch.LEFT,)),
    Fault("a board in quarantine is measured", _a_quarantine_stops_nobody, (watch.QUARANTINE,)),
    Fault("the verdict of a killed lab run is lost", _a_verdict_is_lost, (watch.TOLD,)),
    Fault(
        "an order ends well, and nothing confirmed that its number may have moved",
        _an_open_question_ends_well,
        (watch.TOLD,),
    ),
    Fault("a dead job lives by a wall clock that was set back", _living_by_the_wall_clock, (watch.FREE,)),
    Fault("a killed pytest counts as the board's failure", _a_killed_pytest_failed, (watch.FAILED,)),
    Fault("a cancel is not seen", _a_cancel_is_not_seen, (watch.CANCEL,)),
    Fault("a cancelled job ends as interrupted", _a_cancelled_job_is_interrupted, (watch.CANCEL,)),
    Fault("a reservation replaces anybody's", _a_reservation_replaces_anybodys, (watch.RESERVED,)),
    Fault("an eMMC is switched before it is read back", _switched_before_it_is_read_back, (watch.BOOTS,)),
    Fault(
        "what an eMMC lost counts as another's release, and is kept", _a_lost_write_counts_as_anothers, (watch.BOOTS,)
    ),
    Fault("a mismatch leaves the other media of its try as they were", _a_mismatch_is_of_one_medium, (watch.REFUSED,)),
    Fault("a session ignores that its lease is lost", _a_lost_lease_is_ignored, (watch.ONE_USER, watch.PLACE)),
    Fault("a verdict of an earlier suite is forgotten on resume", _an_earlier_verdict_is_forgotten, (watch.TOLD,)),
    Fault(
        "a commit whose answer was lost is sent again",
        _a_lost_answer_is_sent_again,
        (*_READINGS, watch.TOLD, watch.ENDS),
    ),
    Fault("a switch of power that is over keeps its board", _a_living_site_keeps_its_board, (watch.FREE, watch.ENDS)),
    Fault("a token cancels and ends what is not its own", _a_token_is_a_person, (watch.CANCEL, watch.RESERVED)),
    Fault("a token has as many reservations as it wants", _a_token_has_no_limits, (watch.RESERVED,)),
    Fault("a failed job ends with 0", _a_failed_job_ends_well, (watch.CODE,)),
)
