"""From a board that became slower to one mail: board, run, store, judge, exporter, Prometheus, Alertmanager, SMTP and webhook.

The nights are in virtual time, and their boots go the whole way of a boot (tests/support/simnights.py); all that comes after
the store are the real programs.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest
from attrs import frozen
from support import toldstories
from support.atlength import either
from support.mailbox import Mailbox
from support.prometheus_server import Prometheus, Webhook, alertmanager, program, prometheus, until
from support.simnights import BOARD, ago, nights
from support.simruns import planned
from support.toldstories import STORIES

from lab.virtual.ports import free_port
from lab.virtual.sim.model import serial_number

pytestmark = pytest.mark.timeout(1800)  # of one core: its nights are CPU time, 250 s of a quiet one
LAB = Path(sys.executable).with_name("lab")
HISTORY = either(6, 12)  # nights before the six
ONE, OTHER = 1, 2  # boards, by their seeds
SLOWER = planned("slow_stage", cycles="all", percent=3)
EVALUATED_S = 3  # Prometheus scrapes and evaluates once a second
VERDICT, TEST = "BoardlabVerdict", "BoardlabTest"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab's folder after its first nights, with a new image a week."""
    folder = tmp_path_factory.mktemp("history")
    with nights(folder, ONE, "image 0", ago(HISTORY + 6)) as place:
        for night in range(HISTORY):
            place.image = f"image {night // 6}"
            place.night()
    return folder


@frozen
class Told:
    """A lab's folder, everything from the exporter on, and who is told."""

    folder: Path
    server: Prometheus
    manager: str
    mailbox: Mailbox
    webhook: Webhook

    def lab(self, *words: str) -> str:
        """What a command of `lab` prints."""
        environ = {**os.environ, "LAB_DB": str(self.folder / "results.db"), "XDG_CACHE_HOME": str(self.folder)}
        done = subprocess.run([LAB, *words], check=True, capture_output=True, text=True, timeout=60, env=environ)
        return done.stdout

    def all_mails(self) -> list[EmailMessage]:
        """All mails until now: Prometheus has evaluated what the store has, and then a last one was sent, and has come."""
        seen = 'boardlab_collector_last_success_timestamp_seconds{collector="verdicts"}'
        self.shows(f"{seen} > {time.time() + EVALUATED_S}")
        farm = self.folder / "tell.yaml"
        farm.write_text(f"alertmanager: '{self.manager}'\n")
        self.lab("farm", "test-alert", str(farm))
        until(lambda: self.mailbox.mail(TEST), "the test alert comes")
        return [mail for mail in self.mailbox.mails if TEST not in mail["Subject"]]

    def shows(self, series: str) -> None:
        """Wait until Prometheus has it."""
        until(lambda: self.server.query(series), f"{series} is scraped")


@pytest.fixture
def told(history: Path, tmp_path: Path) -> Iterator[Told]:
    with telling(Path(shutil.copytree(history, tmp_path / "lab")), tmp_path) as told:
        yield told


@contextlib.contextmanager
def telling(folder: Path, tmp_path: Path) -> Iterator[Told]:
    """Everything from the exporter on, of the results in a folder."""
    address = f"127.0.0.1:{free_port()}"
    (folder / "farm.yaml").write_text(
        f"database: 'sqlite:///{folder}/results.db'\nreports: 'https://lab.example.org/runs/{{run}}.html'\n"
        f"pdudaemon: {{address: ''}}\n"
    )
    words = [LAB, "exporter", "--farm", folder / "farm.yaml", "--listen", address, "--interval", "0.5"]
    with contextlib.ExitStack() as running:
        webhook, mailbox = running.enter_context(Webhook()), running.enter_context(Mailbox())
        manager = running.enter_context(alertmanager(tmp_path / "alertmanager", webhook.url, mailbox.address))
        words += ["--runtime", folder / "runtime"]
        running.enter_context(program(words, f"http://{address}/-/healthy", folder / "exporter.log"))
        server = running.enter_context(prometheus(tmp_path / "prometheus", address, manager))
        yield Told(folder, server, manager, mailbox, webhook)


def both_parts(mail: EmailMessage) -> tuple[str, str]:
    """Its text and its HTML."""
    parts = [mail.get_body((kind,)) for kind in ("plain", "html")]
    text, page = (part.get_content() for part in parts if part is not None)
    return text, html.unescape(page)


def test_a_board_that_is_3_per_cent_slower_from_the_fourth_night_on_is_one_mail(told: Told) -> None:
    with nights(told.folder, ONE, "image 2", ago(6)) as place:
        for _ in range(3):
            place.night()
        told.shows("boardlab_verdict_left_out == 0")
        assert told.server.query("boardlab_verdict_change") == []
        place.image, place.faults = "image 3", [SLOWER]
        slower = place.night()
        until(lambda: told.mailbox.mail(VERDICT), "the mail comes on the night itself")
        place.night()
        place.night()
    (mail,) = told.all_mails()
    subject = str(mail["Subject"])
    size = re.match(rf"Regression on {BOARD}: boot\.time \(sd\) \+(\d\.\d+) % ± (\d\.\d+) %", subject)
    assert size is not None, subject
    assert abs(float(size[1]) - 3) <= float(size[2]) < 1.5
    assert subject.endswith(f"since run {slower} [{VERDICT}]")
    text, page = both_parts(mail)
    assert text.startswith(subject.partition(" [")[0]), "the first line says the verdict"
    for part in (text, page):
        assert "boot.power_on_to_prompt (sd): +" in part
        assert f"run {slower}, {ago(3):%Y-%m-%d}" in part
        assert re.search(r"image sha256 [0-9a-f]{12} -> sha256 [0-9a-f]{12}", part)
        assert f"https://lab.example.org/runs/{slower}.html#boot.time" in part
    assert f'<a href="https://lab.example.org/runs/{slower}.html#cycles-sd">' in page
    ours = [alert for alert in told.webhook.told if alert["labels"]["alertname"] != TEST]
    assert {(a["labels"]["alertname"], a["labels"]["severity"], a["status"]) for a in ours} == {
        (VERDICT, "ticket", "firing")
    }

    told.lab("judge", "accept", str(slower))
    told.shows("absent(boardlab_verdict_change)")


@pytest.mark.soak
def test_a_board_that_was_swapped_is_one_mail_that_says_environment(told: Told) -> None:
    with nights(told.folder, ONE, "image 2", ago(6)) as place:
        for _ in range(3):
            place.night()
    with nights(told.folder, OTHER, "image 2", ago(3)) as place:
        place.faults = [SLOWER]
        swapped = place.night()
        place.night()
        place.night()
    until(lambda: told.mailbox.mail(VERDICT), "the mail comes")
    (mail,) = told.all_mails()
    assert str(mail["Subject"]).startswith(f"Environment on {BOARD} (board changed): boot.")
    assert f"since run {swapped} " in str(mail["Subject"])
    text, page = both_parts(mail)
    assert f"board {serial_number(ONE)} -> {serial_number(OTHER)}" in text
    assert "egression" not in text + page
    (alert,) = {a["labels"]["severity"] for a in told.webhook.told if a["labels"]["alertname"] == VERDICT}
    assert alert == "info"


@pytest.mark.soak
@pytest.mark.parametrize("name", STORIES)
def test_each_story_is_its_mails_and_no_other(name: str, tmp_path: Path) -> None:
    story, folder = STORIES[name], tmp_path / "lab"
    folder.mkdir()
    toldstories.history(folder)
    toldstories.played(folder, story)
    alerts = (VERDICT, "BoardlabAttemptFailed")
    with telling(folder, tmp_path) as told:
        until(lambda: len([m for m in told.mailbox.mails if TEST not in m["Subject"]]) >= bool(story.titles), "a mail")
        mails = [mail for mail in told.all_mails() if any(alert in mail["Subject"] for alert in alerts)]
        texts = "\n".join(both_parts(mail)[0] for mail in mails)
    found = [line for line in texts.splitlines() if any(re.match(title, line) for title in story.titles)]
    assert len(found) == len(story.titles), texts
    assert len(mails) <= len(story.titles)
