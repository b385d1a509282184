"""The reference board: a night on a broken lab says so, and judges no release."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts

from lab.cli.exporter import optional_sources
from lab.farm import rerun
from lab.farm.config import HealthConfig, load
from lab.farm.job_queue import NIGHT, health_config, why_not_judged
from lab.farm.runner import Runner, RunnerPaths
from lab.health import BoardCheck, CheckedPart
from lab.health.state import PARTS
from lab.health.store import HealthBook
from lab.jobs.queue import JobQueue
from lab.jobs.records import Order
from lab.results import open_store

NOW = dt.datetime(2026, 3, 2, 3, 0, tzinfo=dt.UTC)
CONFIG = HealthConfig(reference="ref")
DEAD = CheckedPart("power", "failed", "pdu_timeout", "lab", "no answer to 'on'")
PANIC = CheckedPart("boot", "failed", "kernel_panic", "board", "panic")

RULES = Path(__file__).resolve().parents[3] / "farm" / "prometheus" / "rules" / "alerts.yml"


def check(*failed: CheckedPart, hours: float = 1.0, board: str = "ref") -> BoardCheck:
    wrong = {part.name: part for part in failed}
    parts = tuple(wrong.get(name, CheckedPart(name, "ok")) for name in PARTS)
    return BoardCheck(board, "am62xx_sk", "lab-1", NOW - dt.timedelta(hours=hours), parts)


@pytest.mark.parametrize(
    ("known", "found", "why"),
    [
        pytest.param(
            CONFIG, check(DEAD), "on the lab's account (power: no answer to 'on' (pdu_timeout))", id="broken"
        ),
        pytest.param(CONFIG, check(), "", id="sound"),
        pytest.param(CONFIG, check(PANIC), "", id="its release panics"),
        pytest.param(evolve(CONFIG, reference=""), check(DEAD), "", id="none is named"),
    ],
)
def test_only_a_reference_board_that_failed_tonight_speaks_against_the_night(
    tmp_path: Path, known: HealthConfig, found: BoardCheck, why: str
) -> None:
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        HealthBook(store).record(found)
        said = why_not_judged(store, known, lambda: NOW)
    facts = ("not judged", "board ref", "failed", "2026-03-02 02:00 UTC")
    assert not missing_facts(said, *facts) if why else not said
    assert why in said


def test_a_check_that_never_reached_the_boards_host_names_none(tmp_path: Path) -> None:
    away = CheckedPart("console", "failed", "coordinator_unreachable", "lab", "no answer")
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        HealthBook(store).record(evolve(check(away), host=""))
        said = why_not_judged(store, CONFIG, lambda: NOW)
    assert not missing_facts(
        said, "failed", "2026-03-02 02:00 UTC", "before its host", "the lab's", "console: no answer"
    )


@pytest.mark.parametrize(
    ("found", "since"),
    [
        pytest.param(check(hours=25), None, id="it began late"),
        pytest.param(check(hours=27), "since 2026-03-01 00:00 UTC", id="another night"),
        pytest.param(check(board="other"), "yet", id="another board"),
    ],
)
def test_a_night_without_a_check_of_the_reference_board_is_not_judged(
    tmp_path: Path, found: BoardCheck, since: str | None
) -> None:
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        HealthBook(store).record(found)
        said = why_not_judged(store, CONFIG, lambda: NOW)
    assert not missing_facts(said, "not judged", "board ref", "not checked", since) if since else not said


def test_lab_run_says_so_and_does_not_ask_the_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "farm.yaml").write_text(
        "health: {reference: ref, faults: 4}\nschedules: [{name: n, env: e.yaml, board: ref}]\n"
    )
    asked: list[int] = []
    monkeypatch.setattr(rerun, "judge_with_reruns", lambda _store, run_id, *_: asked.append(run_id) or True)
    said: list[str] = []
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        book = JobQueue(store, "lab-1/boot/1/1", lambda _who: None)
        job = book.enqueue(Order("am62xx_sk", "b1", ("boot",), "e.yaml", "11.01", 1, {"judge": True}))
        store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={}, job_id=job.id)
        runner = Runner(book, RunnerPaths(tmp_path, tmp_path, None), said.append)
        now = dt.datetime.now(dt.UTC)
        HealthBook(store).record(evolve(check(DEAD), at=now))
        runner._judge(job)
        assert not asked
        assert not missing_facts(said[0], "not judged", "board ref", "failed")
        HealthBook(store).record(evolve(check(), at=now))
        runner._judge(job)
        assert len(asked) == 1


def test_lab_run_finds_where_the_time_went_where_the_judge_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asks, sessions, said = [True, False], list[tuple[object, ...]](), list[str]()
    monkeypatch.setattr(rerun, "judge_with_reruns", lambda *_: False)
    monkeypatch.setattr(rerun, "asks_diagnosis", lambda *_: asks.pop(0))
    monkeypatch.setattr(
        Runner, "_pytest", lambda _runner, _job, _suite, resumed, more: sessions.append((more, resumed)) or 0
    )
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        book = JobQueue(store, "lab-1/boot/1/1", lambda _who: None)
        job = book.enqueue(Order("am62xx_sk", "b1", ("boot",), "e.yaml", "11.01", 1, {"judge": True}))
        run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={}, job_id=job.id)
        runner = Runner(book, RunnerPaths(tmp_path, tmp_path, None), said.append)
        confirming = evolve(job, options={"judge": True, "confirms": run.id})
        assert [runner._judge(each) for each in (confirming, job, job)] == [0, 0, 0]
    assert sessions == [(("--lab-where",), run.id)]
    assert said[-1].endswith(f"lab results where {run.id}")


def test_a_farm_yaml_that_is_wrong_leaves_the_default_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "farm.yaml").write_text("health: {faults: 0}\n")
    assert health_config() == HealthConfig()
    (tmp_path / "farm.yaml").write_text("health: {faults: 4}\n")
    assert health_config().rule.faults == 4


def test_its_alert_comes_when_the_nights_runs_are_not_judged(tmp_path: Path) -> None:
    hours = int(NIGHT / dt.timedelta(hours=1))
    rule = RULES.read_text().partition("alert: BoardlabReferenceUnchecked")[2].partition("for:")[0]
    assert f"> {hours} * 3600)" in rule
    assert f"offset {hours}h ==" in rule
    path = tmp_path / "farm.yaml"
    path.write_text("health: {reference: ref}\nschedules: [{name: n, env: e.yaml, board: ref}]\n")
    assert optional_sources(load(path)).reference == "ref"
