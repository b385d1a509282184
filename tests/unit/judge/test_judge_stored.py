"""The judge on a store: which runs are a number's history, what is known to differ, and what is remembered."""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session
from support.atlength import either
from support.facts import missing_facts
from support.judged_store import BOOTS, DAY, Nights

from exporters.results import ResultsReader
from lab.errors import ConfigurationError
from lab.guide.stored_runs import accepted_runs
from lab.host.clock import utc_now
from lab.judge import run_judge, text
from lab.judge.baseline import judge_run as compare_run
from lab.judge.compare import Verdict
from lab.judge.records import CALLED, NewVerdict, StoredVerdict
from lab.judge.run_judge import RunVerdicts, judge_run
from lab.judge.store import read_verdicts, review, standing, verdicts_with
from lab.metrics.catalogue import BOOT_TIME
from lab.results import AttemptRecord, SampleRecord, Store, open_store, rows
from lab.results.averages import boots
from lab.results.models import RunRow
from lab.results.series import last_completed, release_names
from lab.results.snapshot import watch

QUIET = 15
SOON = dt.timedelta(minutes=10)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as opened:
        yield opened


@pytest.fixture
def remembered(tmp_path: Path) -> Path:
    return tmp_path / "judge"


@pytest.fixture
def nights(store: Store) -> Nights:
    return Nights(store)


def only(judged: RunVerdicts) -> NewVerdict:
    (one,) = judged.judged
    return one.verdict


def told_of(judged: RunVerdicts) -> list[NewVerdict]:
    return [each.verdict for each in judged.judged]


def said(store: Store, runs: list[int], where: Path) -> list[str]:
    return [only(judge_run(store, run, remember=where)).outcome for run in runs]


def told(judged: RunVerdicts) -> list[tuple[object, ...]]:
    return [
        (v.metric, v.params, v.outcome, v.since_run, v.n, v.effect, v.reruns)
        for v in (j.verdict for j in judged.judged)
    ]


def test_a_slower_image_is_a_regression_since_its_first_run(store: Store, nights: Nights, remembered: Path) -> None:
    nights.quiet(QUIET)
    first, second = nights.run(1.04, image="slow"), nights.run(1.04, image="slow")
    assert only(judge_run(store, first, remember=remembered)).outcome == "unsure: rerun asked"
    found = only(judge_run(store, second, remember=remembered))
    assert (found.outcome, found.direction, found.since_run, found.n) == ("regression", 1, first, 2 * BOOTS)
    assert found.effect == pytest.approx(0.04, abs=0.01)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.effect < found.high
    assert list(found.differs) == ["image"]
    (kept,) = read_verdicts(store, run_id=second)
    assert (kept.outcome, kept.effect, kept.since_run) == (found.outcome, found.effect, first)


def test_a_run_without_a_good_boot_is_no_begin_of_a_change(store: Store, nights: Nights, remembered: Path) -> None:
    """It shows nothing, and goes on later, perhaps with good numbers."""
    nights.quiet(QUIET)
    nights.run(boots=0, failed=3, image="failing", release="11.02")
    first, second = nights.run(1.04, image="slow", release="11.03"), nights.run(1.04, image="slow", release="11.03")
    judge_run(store, first, remember=remembered)
    found = only(judge_run(store, second, remember=remembered))
    assert (found.outcome, found.since_run) == ("regression", first)
    assert found.differs["release"] == ("11.01", "11.03")


def test_a_swapped_board_is_the_environments_doing(store: Store, nights: Nights, remembered: Path) -> None:
    nights.quiet(QUIET)
    runs = [nights.run(1.02, image="image 2", serial="B") for _ in range(4)]
    found = [only(judge_run(store, run, remember=remembered)) for run in runs]
    called = [verdict for verdict in found if verdict.direction]
    assert [verdict.outcome for verdict in called] == ["environment"]
    assert called[0].since_run == runs[0]
    assert called[0].differs == {"board": ("A", "B")}


def test_another_release_is_the_suspect_where_only_lines_of_its_software_are_known(
    store: Store, nights: Nights, remembered: Path
) -> None:
    for _ in range(QUIET):
        nights.run(image="")
    runs = [nights.run(1.04, image="", release="11.02") for _ in range(2)]
    called = [v for v in (only(judge_run(store, run, remember=remembered)) for run in runs) if v.direction]
    assert [(v.outcome, v.since_run, v.differs) for v in called] == [
        ("regression", runs[0], {"release": ("11.01", "11.02")})
    ]


def provisioned(**contents: str) -> dict[str, object]:
    """A run's provenance, where these media were provisioned."""
    return {"provisioned": {medium: {"content": content * 20} for medium, content in contents.items()}}


def test_another_content_of_the_measured_medium_is_another_image_and_of_another_medium_none(
    store: Store, nights: Nights, remembered: Path
) -> None:
    for night in range(QUIET):
        nights.run(provenance=provisioned(sd="old", **({"emmc": "one"} if night % 2 else {})))
    runs = [nights.run(1.04, provenance=provisioned(sd="new", emmc="one")) for _ in range(2)]
    called = [v for v in (only(judge_run(store, run, remember=remembered)) for run in runs) if v.direction]
    assert [(v.outcome, v.since_run, v.differs) for v in called] == [
        ("regression", runs[0], {"content": ("oldoldoldold", "newnewnewnew")})
    ]
    rerun = nights.run(1.1, provenance=provisioned(sd="new", emmc="two"))
    assert only(judge_run(store, rerun, remember=remembered)).outcome != "regression", "the card has what it had"


@pytest.mark.parametrize("judged_before", [False, True], ids=["nothing was judged before", "the night before was"])
def test_a_change_of_a_night_that_was_not_judged_is_reported_once(
    store: Store, nights: Nights, remembered: Path, tmp_path: Path, judged_before: bool
) -> None:
    quiet = nights.quiet(QUIET)
    if judged_before:
        judge_run(store, quiet[-1], remember=remembered)
    first, second, third, fourth = (nights.run(1.02, image="slow") for _ in range(4))
    assert only(judge_run(store, third, remember=remembered)).outcome == "none"
    (found,) = read_verdicts(store, outcomes=["regression"])
    assert (found.run.id, found.since_run) == (second, first)
    assert [(v.run.id, v.outcome) for v in verdicts_with(store, third)] == [(second, "regression")]
    judge_run(store, third, remember=tmp_path / "another user's")
    assert [(v.run.id, v.outcome) for v in verdicts_with(store, third)] == [(second, "regression")], "again the same"
    for folder in (remembered, tmp_path / "a third user's"):
        judge_run(store, fourth, remember=folder)
        assert [(v.run.id, v.outcome) for v in verdicts_with(store, fourth)] == [(fourth, "none")]
    judge_run(store, second, remember=remembered)
    (same,) = read_verdicts(store, outcomes=["regression"])
    assert (same.id, same.effect) == (found.id, found.effect)


def test_a_change_that_was_taken_back_before_anything_was_judged_is_kept_and_alarms_nobody(
    store: Store, nights: Nights, remembered: Path
) -> None:
    nights.quiet(QUIET)
    slow = [nights.run(1.05, image="slow") for _ in range(3)]
    mended = [nights.run(1.0, image="mended") for _ in range(4)]
    judge_run(store, mended[-1], remember=remembered)
    found = {verdict.outcome: verdict.since_run for verdict in read_verdicts(store, outcomes=CALLED)}
    assert found == {"regression": slow[0], "improvement": mended[0]}
    assert [verdict.outcome for verdict in verdicts_with(store, mended[-1])] == ["improvement"]


def test_two_branches_in_turn_are_judged_along_their_lines(store: Store, nights: Nights, remembered: Path) -> None:
    nights.quiet(QUIET, release="main-0001")
    level = {"main": 1.0, "stable": 1.06}
    runs: dict[str, list[int]] = {"main": [], "stable": []}
    for night in range(10):
        level["main"] *= 1.04 if night == 6 else 1.0
        for name, factor in level.items():
            runs[name].append(nights.run(factor, image=f"{name} {night}", release=f"{name}-{night:04d}"))
            judge_run(store, runs[name][-1], remember=remembered)
    called = sorted((v.since_run, v.differs["release"][1]) for v in read_verdicts(store, outcomes=CALLED))
    assert called == [(runs["stable"][0], "stable-0000"), (runs["main"][6], "main-0006")]
    (worse,) = read_verdicts(store, run_id=runs["main"][7], outcomes=["regression"])
    assert worse.effect == pytest.approx(0.04, abs=0.008)
    with watch(store.url).snapshot() as snapshot:
        (number,) = compare_run(snapshot, runs["stable"][-1]).numbers
    assert number.baseline is not None
    assert set(number.baseline.runs) >= set(runs["stable"][1:-1])
    assert not set(number.baseline.runs) & set(runs["main"][1:])


@pytest.mark.parametrize("judged", [(), (75, 95)], ids=["only the last night was judged", "others were, too"])
def test_a_drift_is_one_open_verdict_with_its_sum_until_it_is_taken_back(
    store: Store, nights: Nights, remembered: Path, judged: tuple[int, ...]
) -> None:
    runs = []
    for night in range(98):
        runs.append(nights.run(1.004 ** (max(night - 14, 0) // 4), image=f"image {night // 4}", boots=3))
        if night in judged:
            judge_run(store, runs[-1], remember=remembered)
    judge_run(store, runs[-1], remember=remembered)
    drifts = [verdict for verdict in read_verdicts(store, outcomes=["regression"]) if verdict.crept]
    assert len(drifts) > 1
    assert [verdict.open for verdict in drifts] == [True] + [False] * (len(drifts) - 1)
    newest = drifts[0]
    assert newest.effect == pytest.approx(1.004 ** ((98 - 14) // 4) - 1, abs=0.012)
    assert not missing_facts(text.sentence(newest), "small steps", f"run {newest.since_run}")
    assert not missing_facts(text.differences(newest), "no single cause", "steps")
    stand = store.read(lambda session: standing(session, nights.now)).unmuted
    assert [verdict.id for verdict in stand if verdict.crept] == [newest.id]
    fixed = [nights.run(1.0, image="mended", boots=3) for _ in range(3)]
    judge_run(store, fixed[-1], remember=remembered)
    stand = store.read(lambda session: standing(session, nights.now)).unmuted
    assert [text.sentence(verdict) for verdict in stand] == [], "the fix takes all of it back"


def test_a_rerun_that_nobody_had_judged_still_makes_its_night_sure(
    store: Store, nights: Nights, remembered: Path
) -> None:
    nights.quiet(QUIET)
    first = nights.run(1.04, image="slow", after=SOON)
    assert only(judge_run(store, first, remember=remembered)).outcome == "unsure: rerun asked"
    for _ in range(3):
        nights.run(1.04, image="slow", after=SOON, provenance={"confirms": first})
    nights.now += DAY
    later = nights.run(1.04, image="slow")
    judge_run(store, later, remember=remembered)
    assert [(v.run.id, v.outcome) for v in verdicts_with(store, later)] == [(first, "regression")]


def test_no_history_says_how_many_runs_it_has_and_needs(store: Store, nights: Nights, remembered: Path) -> None:
    nights.quiet(3)
    nights.run(boots=0, failed=2)
    nights.quiet(2)
    run = nights.run(media=("sd", "emmc"))
    judge_run(store, run, remember=remembered)
    verdicts = read_verdicts(store, run_id=run)
    assert {verdict.params["medium"]: verdict.n for verdict in verdicts} == {"sd": 5, "emmc": 0}
    assert not missing_facts(text.needs(verdicts), "needs 8", "0 to 5")


def test_runs_that_were_asked_for_confirm_on_the_first_night(store: Store, nights: Nights, remembered: Path) -> None:
    nights.quiet(QUIET)
    first = nights.run(1.04, image="slow", after=SOON)
    assert judge_run(store, first, remember=remembered).asked == {(("medium", "sd"),)}
    again = [nights.run(1.04, image="slow", after=SOON, provenance={"confirms": first}) for _ in range(3)]
    judged = [judge_run(store, run, remember=remembered) for run in again]
    assert {each.run.id for each in judged} == {first}
    assert judged[-1].confirmed_by == tuple(again)
    assert only(judged[-1]).outcome == "regression"
    assert only(judged[-1]).since_run == first
    assert [verdict.run.id for verdict in read_verdicts(store) if verdict.outcome == "regression"] == [first]
    assert told(judge_run(store, first, remember=remembered)) == told(judged[-1]), (
        "with its confirmations, whenever it is judged"
    )


def test_a_run_confirms_although_another_job_measured_the_board_in_between(
    store: Store, nights: Nights, remembered: Path
) -> None:
    nights.quiet(QUIET)
    first = nights.run(1.04, image="slow", after=SOON)
    judge_run(store, first, remember=remembered)
    other = nights.run(image="other", after=SOON)
    assert judge_run(store, other, remember=remembered).run.id == other
    again = [nights.run(1.04, image="slow", after=SOON, provenance={"confirms": first}) for _ in range(3)]
    judged = [judge_run(store, run, remember=remembered) for run in again][-1]
    assert (judged.run.id, judged.confirmed_by) == (first, tuple(again))
    assert only(judged).outcome == "regression"
    later = nights.run(image="other")
    remembering = told(judge_run(store, later, remember=remembered))
    assert remembering == told(judge_run(store, later, remember=remembered / "empty")), "what it remembers is right"
    assert [v.run.id for v in read_verdicts(store) if v.outcome == "regression"] == [first]


def test_a_run_of_the_same_image_confirms_soon_after_one_that_asked_and_not_otherwise(
    store: Store, nights: Nights, remembered: Path
) -> None:
    quiet = nights.quiet(QUIET)
    nights.now -= DAY - SOON
    unasked = nights.run(image="image 2")
    assert judge_run(store, unasked, remember=remembered).run.id == unasked != quiet[-1]
    first = nights.run(1.04, image="slow", after=SOON)
    other = nights.run(1.04, image="other", after=SOON)
    assert judge_run(store, other, remember=remembered).run.id == other != first
    asked = nights.run(1.08, image="slower", after=SOON)
    same = nights.run(1.08, image="slower", after=DAY)
    judged = judge_run(store, same, remember=remembered)
    assert (judged.run.id, judged.confirmed_by) == (asked, (same,))
    late = nights.run(1.08, image="slower")
    assert judge_run(store, late, remember=remembered).run.id == late


def test_a_board_that_moves_to_another_host_is_judged_on_and_a_real_move_is_the_environments_doing(
    store: Store, nights: Nights, remembered: Path
) -> None:
    nights.quiet(QUIET, image="one")
    moved = [nights.run(image="one", provenance={"host": "lab2"}) for _ in range(3)]
    assert said(store, moved, remembered) == ["none"] * 3
    slower = nights.run(1.03, image="one", provenance={"host": "lab3"}, after=SOON)
    again = {"host": "lab3", "confirms": slower}
    runs = [slower, *(nights.run(1.03, image="one", provenance=again, after=SOON) for _ in range(3))]
    verdict = only([judge_run(store, run, remember=remembered) for run in runs][-1])
    assert (verdict.outcome, verdict.since_run) == ("environment", slower)
    assert verdict.differs == {"host": ("lab2", "lab3")}


@pytest.mark.parametrize("asked", [True, False])
def test_a_run_on_another_host_confirms_nothing(store: Store, nights: Nights, remembered: Path, asked: bool) -> None:
    nights.quiet(QUIET)
    first = nights.run(1.03, image="slow", after=SOON)
    assert only(judge_run(store, first, remember=remembered)).outcome == "unsure: rerun asked"
    again = {"confirms": first} if asked else {}
    other = nights.run(1.03, image="slow", after=SOON, provenance={"host": "lab2", **again})
    judged = judge_run(store, other, remember=remembered)
    assert (judged.run.id, judged.confirmed_by) == (other, ())


def test_another_version_of_a_definition_is_a_new_number_and_the_old_one_is_not_missed(
    store: Store, nights: Nights, remembered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights.quiet(QUIET)
    newer = evolve(BOOT_TIME, version=2, definition="to the prompt's first byte")
    monkeypatch.setattr(rows, "by_name", lambda _name: newer)
    runs = [nights.run(1.3, boots=0, failed=4) if night == 3 else nights.run(1.3) for night in range(10)]
    judged = [judge_run(store, run, remember=remembered) for run in runs]
    assert {verdict.version for each in judged for verdict in told_of(each)} == {2}
    outcomes = [told_of(each)[0].outcome for each in judged]
    assert outcomes == ["no history"] * 3 + ["no samples"] + ["no history"] * 5 + ["none"], outcomes
    with watch(store.url).snapshot() as found:
        (number,) = compare_run(found, runs[0]).numbers
    assert number.judgement.verdict is Verdict.NO_HISTORY


@pytest.mark.parametrize("first", ["2026-03-13", "2026-10-09"])
def test_nights_at_one_local_time_are_judged_alike_over_a_change_of_the_clocks(
    store: Store, remembered: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    begin = dt.datetime.fromisoformat(f"{first}T02:30").replace(tzinfo=ZoneInfo("Europe/Berlin"))
    found = []
    for nights in (Nights(store, now=begin), Nights(store, board="utc")):
        runs = [nights.run(1.04 if night >= QUIET else 1.0, image=str(night // QUIET)) for night in range(QUIET + 3)]
        verdicts = [only(judge_run(store, run, remember=remembered)) for run in runs[QUIET:]]
        found.append([(v.outcome, v.effect, v.since_run and runs.index(v.since_run)) for v in verdicts])
    local, utc = found
    assert local == utc
    assert ("regression", QUIET) in {(outcome, since) for outcome, _, since in local}
    monkeypatch.undo()
    time.tzset()


def test_a_rejected_run_counts_for_nothing_and_an_accepted_one_counts_again(
    store: Store, nights: Nights, remembered: Path
) -> None:
    nights.quiet(QUIET)
    wrong = nights.run(1.5, image="slow")
    later = nights.run(1.5, image="slow")
    before = told(judge_run(store, later, remember=remembered))
    review(store, wrong, "rejected", "ann", "loose cable")
    after = told(judge_run(store, later, remember=remembered))
    assert before != after
    with pytest.raises(ConfigurationError, match=f"run {wrong} .*judge accept {wrong}"):
        judge_run(store, wrong, remember=remembered)
    review(store, wrong, "accepted", "ann", "no, it was the image")
    assert told(judge_run(store, later, remember=remembered)) == before


def test_other_boards_kinds_and_simulated_runs_are_no_history(store: Store, nights: Nights, remembered: Path) -> None:
    nights.quiet(QUIET)
    other, simulated = Nights(store, board="0043"), Nights(store, seed=2)
    assert said(store, [other.run()], remembered) == ["no history"]
    assert said(store, [simulated.run(virtual=True)], remembered) == ["no history"]
    assert said(store, [nights.run(image="image 2")], remembered) == ["none"]


def test_what_is_remembered_changes_no_verdict(store: Store, nights: Nights, remembered: Path, tmp_path: Path) -> None:
    runs = [*nights.quiet(9), *(nights.run(1.04, image="slow") for _ in range(3))]
    runs.append(nights.run(1.04, image="slow", media=("sd", "emmc")))
    runs.append(nights.run(1.04, image="slow", media=("emmc",)))
    runs.append(nights.run(1.04, image="slow", media=("sd", "emmc")))
    afresh = [told(judge_run(store, run, remember=tmp_path / f"new {run}")) for run in runs]
    assert [told(judge_run(store, run, remember=remembered)) for run in runs] == afresh
    assert [told(judge_run(store, run, remember=remembered)) for run in reversed(runs)] == afresh[::-1]


def test_a_run_costs_the_reading_of_no_old_ones(
    store: Store, nights: Nights, remembered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights.quiet(QUIET)
    judge_run(store, nights.run(), remember=remembered)
    read: list[int] = []
    plain = judge_run.__globals__["read_numbers"]

    def counted(store: Store, ids: list[int]) -> object:
        read.extend(ids)
        return plain(store, ids)

    monkeypatch.setitem(judge_run.__globals__, "read_numbers", counted)
    last = nights.run()
    judge_run(store, last, remember=remembered)
    assert sorted(set(read)) == [last - 1, last]


@pytest.mark.parametrize("damage", [b"", b"no pickle", b"\x80\x05K\x01."])
def test_a_memory_that_cannot_be_used_costs_only_time(
    store: Store, nights: Nights, remembered: Path, damage: bytes
) -> None:
    nights.quiet(QUIET)
    run = nights.run()
    before = told(judge_run(store, run, remember=remembered))
    (file,) = remembered.iterdir()
    file.write_bytes(damage)
    assert told(judge_run(store, run, remember=remembered)) == before


def test_a_memory_in_a_folder_that_others_may_enter_is_neither_read_nor_written(
    store: Store, nights: Nights, remembered: Path
) -> None:
    nights.quiet(QUIET)
    remembered.mkdir(mode=0o755)
    remembered.chmod(0o755)
    judge_run(store, nights.run(), remember=remembered)
    assert list(remembered.iterdir()) == []


def test_what_another_version_of_the_judge_remembered_is_cleared_away(
    store: Store, nights: Nights, remembered: Path
) -> None:
    judge_run(store, nights.run(), remember=remembered)
    (file,) = remembered.iterdir()
    file.rename(file.with_name(f"{file.name.partition('-')[0]}-00000000.pickle"))
    other = remembered / "another board-00000000.pickle"
    other.touch()
    judge_run(store, nights.run(), remember=remembered)
    assert set(remembered.iterdir()) == {file, other}


def test_a_run_that_was_gone_on_with_is_walked_through_again(store: Store, nights: Nights, remembered: Path) -> None:
    nights.quiet(QUIET)
    interrupted = nights.run()
    with Session(store._engine) as session, session.begin():
        session.get_one(RunRow, interrupted).status = "interrupted"
    judge_run(store, interrupted, remember=remembered)
    judge_run(store, nights.run(), remember=remembered)
    (file,) = remembered.iterdir()
    walked = run_judge.load(file).walked
    store.reopen_run(interrupted)
    store.finish_run(interrupted, "completed")
    judge_run(store, nights.run(), remember=remembered)
    again = run_judge.load(file).walked
    assert again[: len(walked)] != walked


def test_no_run_is_one_clear_error(store: Store, remembered: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no run 1; .*none"):
        judge_run(store, 1, remember=remembered)


def test_a_run_of_failed_cycles_alone_has_no_samples_where_the_number_is_known(
    store: Store, nights: Nights, remembered: Path
) -> None:
    assert judge_run(store, nights.run(boots=0, failed=3), remember=remembered).judged == ()
    nights.quiet(QUIET)
    assert said(store, [nights.run(boots=0, failed=3)], remembered) == ["no samples"]
    part = judge_run(store, nights.run(boots=2, failed=3, image="image 2"), remember=remembered).judged
    assert {each.verdict.metric: each.verdict.outcome for each in part} == {
        "boot.time": "none",
        "boot.failure_rate": "regression",
    }


def rates(store: Store, run: int, where: Path) -> list[StoredVerdict]:
    judge_run(store, run, remember=where)
    return [verdict for verdict in read_verdicts(store, run_id=run) if verdict.metric == "boot.failure_rate"]


def test_a_failure_rate_is_judged_beside_the_runs_before_by_how_sure_its_rise_is(
    store: Store, nights: Nights, remembered: Path
) -> None:
    for _ in range(3):
        nights.run(boots=20)
    assert rates(store, nights.run(boots=19, failed=1), remembered) == [], "the evidence is below 5"
    first = nights.run(boots=17, failed=2)
    (unsure,) = rates(store, first, remembered)
    assert (unsure.outcome, unsure.n, unsure.direction) == ("unsure: rerun asked", 39, 0), "with the night before"
    assert not missing_facts(text.sentence(unsure), "unsure", "7.7 % (2.7 to 20.3 %)", "0 of 60")
    assert run_judge.items_to_rerun(store, first) == {(("medium", "sd"),)}
    again = nights.run(boots=14, failed=5, after=SOON, provenance={"confirms": first})
    judge_run(store, again, remember=remembered)
    (verdict,) = [each for each in read_verdicts(store, run_id=first) if each.metric == "boot.failure_rate"]
    assert (verdict.outcome, verdict.reruns, verdict.since_run) == ("regression", 1, first - 1)
    assert verdict.differs == {"failed": ("0 of 60", "8 of 58")}, "the attempts of all runs since then"
    assert verdict.effect is None
    assert verdict.alarms
    assert not missing_facts(text.sentence(verdict), "regression", "13.8 % (7.2 to 24.9 %)", "0 of 60", "worse")
    stand = store.read(lambda session: standing(session, nights.now)).unmuted
    assert [each.id for each in stand if each.metric == "boot.failure_rate"] == [verdict.id]
    (better,) = rates(store, nights.run(boots=200), remembered)
    assert (better.outcome, better.direction) == ("improvement", -1)
    assert store.read(lambda session: standing(session, nights.now)).unmuted == (), "it took the rise back"
    review(store, first, "accepted", "me", "a new supply")
    assert rates(store, nights.run(boots=20), remembered) == []


def test_a_failure_rate_rises_over_nights_of_which_none_is_enough(
    store: Store, nights: Nights, remembered: Path
) -> None:
    for _ in range(7):
        nights.run(boots=16)
    first = nights.now
    outcomes = []
    for failed in (2, 1, 1) * 3:
        outcomes += [[each.outcome for each in rates(store, nights.run(boots=20 - failed, failed=failed), remembered)]]
    assert outcomes == [["unsure: rerun asked"]] * 6 + [["regression"], [], []]
    (verdict,) = read_verdicts(store, metric="boot.failure_rate", outcomes=["regression"])
    assert store.run(verdict.since_run or 0).started_at >= first


def test_a_section_that_failed_before_its_first_row_has_no_samples_of_any_row(
    store: Store, nights: Nights, remembered: Path
) -> None:
    for _ in range(9):
        nights.rows(True, md5=2.0, sha=3.0)
    failed, part = nights.rows(False), nights.rows(True, md5=2.0)
    told_of = {}
    for run in (failed, part):
        judged = judge_run(store, run, remember=remembered).judged
        told_of[run] = {each.verdict.params["stage"]: each.verdict.outcome for each in judged}
    assert told_of[failed] == {"md5": "no samples", "sha": "no samples"}
    assert told_of[part] == {"md5": "none"}, "the other row was not tried"


SAMPLES = st.lists(st.sampled_from([0.0, 1e-300, 16.0, 16.1, 1e100]), max_size=3)


@settings(max_examples=either(4, 100))
@given(st.lists(st.tuples(SAMPLES, st.integers(0, 2)), min_size=1, max_size=12))
def test_whatever_was_measured_there_is_a_plain_answer(history: list[tuple[list[float], int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(str(Path(folder) / "results.db")) as store:
        nights = Nights(store)
        for values, failed in history:
            run = nights.run(values=values, failed=failed)
            judged = judge_run(store, run, remember=Path(folder) / "judge")
            outcomes = {each.verdict.metric: each.verdict.outcome for each in judged.judged}
            if not any(values) and "boot.time" in outcomes:
                assert outcomes["boot.time"] == "no samples"
            assert outcomes.keys() <= {"boot.time", "boot.failure_rate"}
            assert {v.metric: v.outcome for v in read_verdicts(store, run_id=judged.run.id)} == outcomes


def test_a_constant_series_is_unchanged(store: Store, nights: Nights, remembered: Path) -> None:
    runs = [nights.run(values=[16.0] * 3) for _ in range(12)]
    assert said(store, runs, remembered) == ["no history"] * 8 + ["none"] * 4


@pytest.mark.parametrize("kind", ["ab", "bisect", "diagnosis"])
def test_boots_of_a_comparison_are_no_night_anywhere(store: Store, kind: str) -> None:
    with watch(store.url).snapshot() as snapshot:
        before = (release_names(snapshot), last_completed(snapshot, ["11.01"]))
    run = store.begin_run(kind, "am62xx_sk", "0042", "11.01", plan={}, provenance={}).id
    sample = SampleRecord("boot.time", {"medium": "sd"}, 99.0, 1e-4)
    store.record_attempt(
        run, AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", utc_now(), 1.0, samples=(sample,))
    )
    store.finish_run(run, "completed")
    with watch(store.url).snapshot() as snapshot:
        assert (release_names(snapshot), last_completed(snapshot, ["11.01"])) == before == ([], [])
    assert accepted_runs(store) == []
    assert boots(store, ["0042"]) == {}
    view = ResultsReader(watch(store.url)).read()
    assert (view.groups, view.builds, view.last_runs) == ((), (), ())
