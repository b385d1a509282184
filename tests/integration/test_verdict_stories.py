"""Verdicts in the store, as the exporter shows them, played through with promtool: who is told, when, and until when."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define
from support.atlength import either
from support.rule_stories import DAY_S, EVERY_S, Story, only, promtool, told_from

from exporters.metrics import families
from lab.host.clock import utc_now
from lab.judge.records import NewVerdict, OutcomeName
from lab.judge.store import mute, review, standing, write_verdicts
from lab.judge.text import EvidenceLinks
from lab.results import AttemptRecord, SampleRecord, Store, open_store

pytestmark = pytest.mark.longer

VERDICT = "BoardlabVerdict"
LOOK_BACK_S = 15 * 60  # of the rule
SD = {"medium": "sd"}
DAYS = either(10, 20)


@define
class Farm:
    """A store, and what the exporter shows of it in the course of a story."""

    store: Store
    story: Story

    def night(self, board: str, *verdicts: NewVerdict) -> int:
        """A run, and what the judge says of it; its id."""
        run = self.store.begin_run("boot", "am62xx_sk", board, "11.02", plan={}, provenance={})
        names = {verdict.metric for verdict in verdicts} or {"boot.time"}
        samples = tuple(SampleRecord(name, SD, 2.0, 0.001) for name in sorted(names))
        self.store.record_attempt(run.id, AttemptRecord(1, 1, SD, "ok", None, None, "", utc_now(), 1.0, samples))
        self.store.finish_run(run.id, "completed")
        write_verdicts(self.store, run.id, verdicts)
        return run.id

    def shown(self, at_s: int) -> None:
        """From then on Prometheus has what the exporter shows now; what it does not show is gone."""
        found = self.store.read(lambda session: standing(session, utc_now()))
        values = {}
        for family in families(found, EvidenceLinks("")):
            for sample in family.samples:
                labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
                values[f"{sample.name}{{{labels}}}"] = sample.value
        for selector in {*self.story.series, *values}:
            self.story.set(selector, at_s, values.get(selector))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def moved(outcome: OutcomeName = "regression", metric: str = "boot.time", way: int = 1, since: int = 1) -> NewVerdict:
    differs = {"board": ("A", "B")} if outcome == "environment" else {"image": ("a", "b")}
    return NewVerdict(metric, 1, SD, outcome, way, since, 20, 0.03 * way, 0.026 * way, 0.034 * way, differs=differs)


def still(outcome: OutcomeName = "none") -> NewVerdict:
    return NewVerdict("boot.time", 1, SD, outcome)


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with open_store(str(tmp_path / "results.db")) as store:
        farm = Farm(store, Story(days=DAYS))
        farm.night("b1", still())
        farm.shown(0)
        yield farm


def test_a_regression_of_many_numbers_is_one_alert_until_it_is_accepted(tmp_path: Path, farm: Farm) -> None:
    run = farm.night("b1", moved(), moved(metric="boot.power_on_to_prompt"), moved(metric="boot.stage"))
    farm.shown(3 * DAY_S)
    for day in range(4, 8):
        farm.night("b1", still())
        farm.shown(day * DAY_S)
    review(farm.store, run, "accepted", "ada", "the price of a feature")
    farm.shown(8 * DAY_S)
    tests = [
        *told_from(VERDICT, 1, 3 * DAY_S, 8 * DAY_S + LOOK_BACK_S - EVERY_S),
        only((VERDICT,), (DAYS - 1) * DAY_S),
    ]
    assert promtool(tmp_path, farm.story.document(tests)) == ""


def test_a_board_that_was_swapped_is_one_alert_and_no_regression(tmp_path: Path, farm: Farm) -> None:
    run = farm.night("b1", moved("environment"), moved("environment", "boot.stage", way=-1))
    farm.shown(3 * DAY_S)
    review(farm.store, run, "accepted", "ada", "the old one died")
    farm.shown(5 * DAY_S)
    regressions = 'ALERTS{outcome="regression"}'
    tests = [
        *told_from(VERDICT, 1, 3 * DAY_S, 5 * DAY_S + LOOK_BACK_S - EVERY_S),
        {
            "expr": f"count(count_over_time({regressions}[40d]))",
            "eval_time": f"{(DAYS - 1) * DAY_S}s",
            "exp_samples": [],
        },
        only((VERDICT,), (DAYS - 1) * DAY_S),
    ]
    assert promtool(tmp_path, farm.story.document(tests)) == ""


def test_a_number_that_moves_back_is_no_more_told(tmp_path: Path, farm: Farm) -> None:
    farm.night("b1", moved())
    farm.shown(3 * DAY_S)
    farm.night("b1", moved("improvement", way=-1))
    farm.shown(6 * DAY_S)
    tests = [
        *told_from(VERDICT, 1, 3 * DAY_S, 6 * DAY_S + LOOK_BACK_S - EVERY_S),
        only((VERDICT,), (DAYS - 1) * DAY_S),
    ]
    assert promtool(tmp_path, farm.story.document(tests)) == ""


def test_a_muted_one_is_never_told_and_is_counted(tmp_path: Path, farm: Farm) -> None:
    until = utc_now() + dt.timedelta(days=300)
    mute(farm.store, "boot.*", board="b1", params={}, until=until, reason="known", by="ada")
    farm.night("b1", moved(), moved(metric="boot.stage"))
    farm.shown(3 * DAY_S)
    muted = {"labels": 'boardlab_verdict_muted{board="b1",board_type="am62xx_sk"}', "value": 2}
    tests = [
        {"expr": "boardlab_verdict_muted", "eval_time": f"{5 * DAY_S}s", "exp_samples": [muted]},
        only((), (DAYS - 1) * DAY_S),
    ]
    assert promtool(tmp_path, farm.story.document(tests)) == ""


@pytest.mark.soak
def test_a_healthy_farm_of_64_boards_is_silent_for_a_month(tmp_path: Path, farm: Farm) -> None:
    farm.story.days = 31
    others: tuple[OutcomeName, ...] = ("none", "no history", "unsure: rerun asked", "no samples")
    for board in range(64):
        farm.night(f"board-{board}", still(others[board % len(others)]))
    farm.night("board-7", moved("improvement", way=-1))
    for day in range(1, 31):
        farm.shown(day * DAY_S)
    left_out = {"labels": "boardlab_verdict_left_out", "value": 0}
    tests = [
        {"expr": "boardlab_verdict_left_out", "eval_time": f"{30 * DAY_S}s", "exp_samples": [left_out]},
        only((), 30 * DAY_S),
    ]
    assert promtool(tmp_path, farm.story.document(tests)) == ""
