"""What the shipped Alertmanager configuration keeps from a person, who was told of the same thing already."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen
from support.mailbox import Mailbox
from support.prometheus_server import Webhook, alertmanager, http, until

from lab.farm.config import Farm, Schedule
from lab.farm.notify import Alertmanager, unit_failed

ROOT = Path(__file__).resolve().parents[2]
LASTS = dt.timedelta(minutes=10)
DAY_S = 86_400
NIGHTLY = {"schedule": "nightly", "board": "b1"}


@frozen
class Post:
    """A running Alertmanager, and who is told."""

    address: str
    mailbox: Mailbox

    def put(self, name: str, **labels: str) -> None:
        """An alert fires."""
        Alertmanager(self.address).post({"alertname": name, **labels}, {"summary": f"{name} {labels}"}, LASTS)

    def mails(self, name: str) -> list[Message]:
        """The mails about this alert."""
        return [mail for mail in self.mailbox.mails if f"[{name}]" in str(mail["Subject"])]

    def state(self, name: str, **labels: str) -> str:
        """active, suppressed or unprocessed; empty: there is none."""
        with http() as session:
            alerts: list[dict[str, Any]] = session.get(f"http://{self.address}/api/v2/alerts", timeout=60).json()
        wanted = {"alertname": name, **labels}
        states = [alert["status"]["state"] for alert in alerts if wanted.items() <= alert["labels"].items()]
        return states[0] if states else ""


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    with (
        Webhook() as webhook,
        Mailbox() as mailbox,
        alertmanager(tmp_path / "alertmanager", webhook.url, mailbox.address) as address,
    ):
        yield Post(address, mailbox)


@pytest.mark.parametrize("known", ["BoardlabRunIncomplete", "BoardlabRunFailed"])
def test_a_night_that_failed_is_mailed_once(post: Post, known: str) -> None:
    farm = Farm(alertmanager=post.address, schedules=[Schedule("nightly", "e", "b1"), Schedule("weekly", "e", "b1")])
    post.put(known, **NIGHTLY)
    until(lambda: post.mailbox.mail(known), "what the run lacks is told")
    unit_failed(farm, "boardlab-nightly.service")
    until(
        lambda: post.state("BoardlabUnitFailed", schedule="nightly") == "suppressed", "its unit's alert is kept back"
    )
    for schedule in ("nightly", "new"):
        post.put("BoardlabBuildFailed", severity="ticket", schedule=schedule, board="b1")
    until(lambda: post.state("BoardlabBuildFailed", schedule="nightly") == "suppressed", "so is its build's")
    assert post.state("BoardlabBuildFailed", schedule="new") == "active", "of a release nothing else tells"
    unit_failed(farm, "boardlab-weekly.service")
    until(lambda: post.mailbox.mail("boardlab-weekly.service failed"), "another schedule's is told")
    unit_failed(farm, "boardlab-exporter.service")
    until(lambda: post.mailbox.mail("boardlab-exporter.service failed"), "so is one that is no schedule's")
    assert post.mailbox.mail("boardlab-nightly.service") is None


def test_a_reference_board_that_failed_its_check_is_told_once_and_another_build_of_it_all_the_same(post: Post) -> None:
    post.put("BoardlabBoardBad", board="b1")
    until(lambda: post.mailbox.mail("BoardlabBoardBad"), "the board is told")
    for schedule, board in (("reference", "b1"), ("reference", "b2"), ("nightly", "b1")):
        post.put("BoardlabBuildFailed", severity="ticket", schedule=schedule, board=board)
    until(lambda: post.state("BoardlabBuildFailed", schedule="reference", board="b1") == "suppressed", "kept back")
    assert post.state("BoardlabBuildFailed", schedule="reference", board="b2") == "active", (
        "its check could not be made"
    )
    assert post.state("BoardlabBuildFailed", schedule="nightly", board="b1") == "active"


def test_a_board_whose_job_is_gone_is_told_once(post: Post) -> None:
    post.put("BoardlabRunStuck", board="b3")
    until(lambda: post.mailbox.mail("BoardlabRunStuck"), "the job is told")
    for board in ("b3", "b4"):
        post.put("BoardlabBoardBad", board=board)
    until(lambda: post.state("BoardlabBoardBad", board="b3") == "suppressed", "its state says the same")
    assert post.state("BoardlabBoardBad", board="b4") == "active"


def test_a_number_of_which_the_history_is_told_is_not_told_again_by_its_release(post: Post) -> None:
    post.put("BoardlabVerdict", board="b1", outcome="regression", since_run="12")
    post.put("BoardlabVerdict", board="b2", outcome="environment", since_run="12")
    until(lambda: post.mailbox.mail("'board': 'b2'"), "the verdicts are told")
    until(lambda: post.mailbox.mail("'board': 'b1'"), "each of them")
    for board in ("b1", "b2"):
        post.put("BoardlabRegressionConfirmed", board=board, metric="boot.time")
    until(lambda: post.state("BoardlabRegressionConfirmed", board="b1") == "suppressed", "kept back")
    until(lambda: post.mailbox.mail("BoardlabRegressionConfirmed"), "an environment keeps nothing back")
    assert post.state("BoardlabRegressionConfirmed", board="b2") == "active"


def test_a_known_failure_is_not_mailed_and_keeps_nothing_new_back(post: Post) -> None:
    panic = {"board": "b1", "release": "11.01", "outcome": "kernel_panic", "state": "dead"}
    post.put("BoardlabAttemptFailed", severity="ticket", known="open", cause="root", **panic)
    post.put("BoardlabVerdict", board="b1", outcome="regression", since_run="12", known="open")
    until(lambda: post.state("BoardlabVerdict", board="b1") == "active", "the known ones are there")
    post.put("BoardlabRegressionConfirmed", severity="ticket", board="b1", metric="boot.time")
    post.put("BoardlabAttemptFailed", severity="page", known="returned", cause="init", **panic)
    until(lambda: post.mailbox.mail("BoardlabRegressionConfirmed"), "another number is told")
    until(lambda: post.mailbox.mail("'known': 'returned'"), "so is what came back")
    assert post.mailbox.mail("'known': 'open'") is None


def test_changes_that_began_with_different_runs_are_different_mails(post: Post) -> None:
    for run in ("12", "14"):
        post.put("BoardlabVerdict", board="b1", outcome="regression", since_run=run)
    for run in ("12", "14"):
        until(lambda run=run: post.mailbox.mail(f"'since_run': '{run}'"), f"that of run {run}")


@pytest.fixture
def week(tmp_path: Path) -> Iterator[Post]:
    """An Alertmanager for which a day passes in a second."""
    with (
        Webhook() as webhook,
        Mailbox() as mailbox,
        alertmanager(tmp_path / "alertmanager", webhook.url, mailbox.address, speed=DAY_S) as address,
    ):
        yield Post(address, mailbox)


def test_a_week_of_panics_is_one_mail_and_one_when_it_is_over(week: Post) -> None:
    """Three media, three attempts each, every night: all alerts that fire in such a week (tests/integration/test_farm_stories.py)."""
    panic = {"board": "b1", "release": "11.03", "outcome": "kernel_panic", "cause": "init", "state": "dead"}
    week.put("BoardlabConsoleNotRecorded", severity="page")  # whose mails, two a day, tell the time
    for night in range(1, 8):
        week.put("BoardlabAttemptFailed", severity="ticket", **panic)
        for schedule in ("BoardlabUnitFailed", "BoardlabBuildFailed", "BoardlabRunOverdue"):
            week.put(schedule, severity="ticket", **NIGHTLY)
        until(lambda night=night: len(week.mails("BoardlabConsoleNotRecorded")) > 2 * night, f"night {night} is over")
    assert len(week.mails("BoardlabAttemptFailed")) == 1
    Alertmanager(week.address).post(
        {"alertname": "BoardlabAttemptFailed", "severity": "ticket", **panic}, {"summary": "b1"}, dt.timedelta(0)
    )
    until(lambda: week.mails("BoardlabAttemptFailed")[1:], "that it is over is told")
    assert str(week.mails("BoardlabAttemptFailed")[1]["Subject"]).startswith("Over: ")


def test_another_release_and_another_cause_are_mails_of_their_own(week: Post) -> None:
    its = {"severity": "ticket", "board": "b1"}
    panic = {"release": "11.03", "outcome": "kernel_panic", "cause": "init", "state": "dead"}
    changes = [
        {},
        {"release": "11.04"},
        {"cause": "VFS"},
        {"outcome": "silent"},
        {"state": "at_times"},
        {"board": "b2"},
    ]
    for number, change in enumerate(changes, start=1):
        week.put("BoardlabAttemptFailed", **{**its, **panic, **change})
        until(lambda number=number: len(week.mails("BoardlabAttemptFailed")) == number, f"{change} is told")


def test_a_failed_unit_is_told_after_what_says_more_would_have_been() -> None:
    config = yaml.safe_load((ROOT / "farm" / "alertmanager" / "alertmanager.yml").read_text())
    routes = {route["matchers"][0]: route for route in config["route"]["routes"]}
    assert routes['alertname =~ "BoardlabUnitFailed|BoardlabBuildFailed"']["group_wait"] == "5m"
    assert config["route"]["group_wait"] == "30s"
