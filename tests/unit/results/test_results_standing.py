"""Which verdicts stand: until somebody decides, or the number moves back; on every database, see conftest.py."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import pytest

from lab.host.clock import utc_now
from lab.judge.records import NewVerdict, OutcomeName
from lab.judge.store import LOOK_BACK, StandingChanges, mute, review, standing, write_verdicts
from lab.results import AttemptRecord, SampleRecord, Store

SD = {"medium": "sd"}
BOARD = "am62x-1"
TIME, OTHER = "boot.time", "boot.power_on_to_prompt"


def a_run(store: Store, board: str = BOARD, kind: str = "boot") -> int:
    run = store.begin_run(kind, "am62xx_sk", board, "11.02", plan={}, provenance={})
    samples = tuple(SampleRecord(metric, SD, 2.0, 0.001) for metric in (TIME, OTHER))
    store.record_attempt(run.id, AttemptRecord(1, 1, SD, "ok", None, None, "", utc_now(), 1.0, samples))
    store.finish_run(run.id, "completed")
    return run.id


def moved(
    since: int,
    outcome: OutcomeName = "regression",
    direction: int = 1,
    metric: str = TIME,
    params: Mapping[str, str] = SD,
    size: float = 0.03,
) -> NewVerdict:
    return NewVerdict(metric, 1, params, outcome, direction, since, 20, size * direction, 0.02, 0.04)


def look(store: Store, most: int = 99, *, later: dt.timedelta = dt.timedelta(0)) -> StandingChanges:
    return store.read(lambda session: standing(session, utc_now() + later, most))


def heard(store: Store) -> list[int]:
    return [verdict.run.id for verdict in look(store).unmuted]


@pytest.fixture
def runs(store: Store) -> list[int]:
    """Five runs of a board, in whose third a number got worse."""
    made = [a_run(store) for _ in range(5)]
    for run in made:
        write_verdicts(store, run, [NewVerdict(TIME, 1, SD, "none")])
    write_verdicts(store, made[2], [moved(made[1])])
    return made


def test_a_regression_stands_though_later_runs_have_nothing_to_say(store: Store, runs: list[int]) -> None:
    found = look(store)
    assert [verdict.run.id for verdict in found.unmuted] == [runs[2]]
    began = found.began[runs[1]]
    assert (began.run, began.at, began.release) == (runs[1], store.run(runs[1]).started_at, "11.02")


@pytest.mark.parametrize("decision", ["accepted", "rejected"])
def test_it_is_gone_when_its_run_is_decided_on(store: Store, runs: list[int], decision: str) -> None:
    review(store, runs[2], decision, "ada", "")
    assert heard(store) == []


def test_it_is_gone_when_a_later_run_of_its_kind_is_accepted(store: Store, runs: list[int]) -> None:
    review(store, runs[1], "accepted", "ada", "an earlier one says nothing of it")
    review(store, runs[4], "rejected", "ada", "nor does one that counts for nothing")
    review(store, a_run(store, kind="sections"), "accepted", "ada", "nor another kind")
    review(store, a_run(store, board="am62x-2"), "accepted", "ada", "nor another board")
    assert heard(store) == [runs[2]]
    review(store, runs[3], "accepted", "ada", "")
    assert heard(store) == []


def test_it_is_gone_when_the_number_moves_back(store: Store, runs: list[int]) -> None:
    write_verdicts(store, runs[3], [moved(runs[3], "improvement", -1, metric=OTHER)])
    assert heard(store) == [runs[2]], "another number"
    write_verdicts(store, runs[3], [moved(runs[3], "regression", 1)])
    assert heard(store) == [runs[3], runs[2]], "worse again"
    write_verdicts(store, runs[4], [moved(runs[4], "improvement", -1, size=0.06)])
    assert heard(store) == []
    review(store, runs[4], "rejected", "ada", "its numbers are wrong")
    assert heard(store) == [runs[3], runs[2]]


def test_a_small_part_that_is_taken_back_is_not_enough(store: Store, runs: list[int]) -> None:
    write_verdicts(store, runs[3], [moved(runs[3], "improvement", -1, size=0.01)])
    assert heard(store) == [runs[2]]
    write_verdicts(store, runs[4], [moved(runs[4], "improvement", -1, size=0.01)])
    assert heard(store) == []


def test_improvements_are_nothing_that_waits_for_somebody(store: Store) -> None:
    run = a_run(store)
    write_verdicts(store, run, [moved(run, "improvement", -1), moved(run, "environment", -1, metric=OTHER)])
    assert [verdict.outcome for verdict in look(store).unmuted] == ["environment"]


def test_muted_ones_stand_apart_until_the_mute_ends(store: Store, runs: list[int]) -> None:
    until = utc_now() + dt.timedelta(days=2)
    mute(store, "boot.*", board=BOARD, params={}, until=until, reason="known", by="ada")
    found = look(store)
    assert (found.unmuted, [verdict.run.id for verdict in found.muted]) == ((), [runs[2]])
    assert len(look(store, later=dt.timedelta(days=3)).unmuted) == 1


def test_very_old_ones_are_forgotten_and_very_many_are_counted(store: Store, runs: list[int]) -> None:
    assert look(store, later=LOOK_BACK + dt.timedelta(days=1)).unmuted == ()
    write_verdicts(store, runs[4], [moved(runs[4], params={"medium": str(n)}) for n in range(9)])
    found = look(store, most=4)
    assert ([verdict.run.id for verdict in found.unmuted], found.left_out) == ([runs[4]] * 4, 6)
