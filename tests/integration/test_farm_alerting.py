"""From a board to a webhook: board -> store -> exporter -> Prometheus -> alert -> Alertmanager; and what breaks on the way."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest
from support import certificates
from support.facts import missing_facts
from support.mailbox import Mailbox
from support.measuring_lab import Lab, running_lab
from support.prometheus_server import Webhook, alertmanager, program, prometheus, until
from support.virtual_bench import lab_virtual

from lab.results import open_store
from lab.virtual.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
LAB = Path(sys.executable).with_name("lab")
DEADLINE_S = 180
BOARD = "am62xx_sk-1"
PASSWORD = "the-password-of-a-test"  # noqa: S105


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    words = ("sim", "--type", "am62xx_sk", "--time-scale", "0.05")
    with running_lab(tmp_path_factory.mktemp("farm"), *words) as lab:
        yield lab


def measure(lab: Lab, *words: str) -> int:
    env = lab.bench.folder / BOARD / "env.yaml"
    return lab.pytest("--lg-env", str(env), "--lab-medium", "sd", "--lab-cycles", "1", *words).wait(DEADLINE_S)


@contextlib.contextmanager
def exporter(lab: Lab, folder: Path, *words: str) -> Iterator[str]:
    """A running `lab exporter`; its host:port."""
    address = f"127.0.0.1:{free_port()}"
    farm = folder / "farm.yaml"
    farm.write_text(
        f"pdudaemon: {{address: '{lab.bench.state.pdudaemon}'}}\n"
        "web: {listen: '10.0.0.1:443', name: lab.example.org, web_config: web.yml}\n"
        f"schedules: [{{name: nightly, env: {BOARD}, board: {BOARD}, cycles: 1, medium: sd}}]\n"
    )
    command = [LAB, "exporter", "--db", lab.environ["LAB_DB"], "--farm", farm, "--listen", address]
    runtime = lab.environ["BOARDLAB_RUNTIME"]
    command += ["--runtime", runtime, "--interval", "0.5"]
    with program([*command, *words], f"http://{address}/-/healthy", folder / "exporter.log"):
        yield address


def run_job(lab: Lab, folder: Path, *words: str) -> int:
    """`lab run` of the schedule's order."""
    env = lab.bench.folder / BOARD / "env.yaml"
    command = [LAB, "run", "--suite", "boot", "--env", env, "--medium", "sd", "--cycles", "1", *words]
    command += ["--tests", ROOT / "tests_perf"]
    with (folder / "run.log").open("ab") as log:
        return subprocess.run(
            command, check=False, cwd=folder, env=lab.environ, stdout=log, stderr=log, timeout=DEADLINE_S
        ).returncode


def test_a_failed_run_and_a_test_alert_reach_mail_and_webhook(lab: Lab, tmp_path: Path) -> None:
    with (
        Webhook() as webhook,
        Mailbox() as mailbox,
        alertmanager(tmp_path / "alertmanager", webhook.url, mailbox.address) as manager,
        exporter(lab, tmp_path) as address,
        prometheus(tmp_path / "prometheus", address, manager) as server,
    ):
        success = f'boardlab_schedule_last_success_timestamp_seconds{{board="{BOARD}",schedule="nightly"}}'
        assert run_job(lab, tmp_path) == 0, (tmp_path / "run.log").read_text()
        until(lambda: server.query(success), "the schedule's success is scraped")
        failures = [alert for alert in webhook.told if alert["labels"].get("outcome") != "stamps_uncertain"]
        assert failures == [], "of a starved host: that its stamps were late"

        assert (
            lab_virtual("fault", BOARD, "kernel_panic", "--cycles", "all", "--dir", lab.bench.folder).returncode == 0
        )
        assert run_job(lab, tmp_path) == 1
        assert lab_virtual("clear", BOARD, "--dir", lab.bench.folder).returncode == 0
        panic = {"board": BOARD, "outcome": "kernel_panic"}
        until(lambda: webhook.alert("BoardlabAttemptFailed", **panic), "the failed run reaches the webhook")
        until(lambda: mailbox.mail("does not boot"), "and the mail")
        mail = mailbox.mail("does not boot")
        with open_store(lab.environ["LAB_DB"]) as store:
            (run,) = [run for run in store.runs() if run.status != "completed"]
            tries = len(store.attempts(run.id))
        assert mail is not None
        subject = str(mail["Subject"]).replace("\n", "")
        assert mail["To"] == "lab@example.org"
        assert subject.startswith(
            f"{BOARD}: release {run.release} does not boot: kernel panic 'Attempted to kill init', {tries} of {tries} "
            f"attempts, since run {run.id}, {run.started_at:%a %Y-%m-%d %H:%M} UTC"
        )
        text = mail.get_body(("plain",)).get_content().replace("\r\n", "\n")
        assert f"report: https://lab.example.org/runs/{run.id}\n" in text
        assert "Kernel panic - not syncing: Attempted to kill init!" in text

        farm = tmp_path / "tell.yaml"
        farm.write_text(f"alertmanager: '{manager}'\n")
        done = subprocess.run(
            [LAB, "farm", "test-alert", farm], check=False, capture_output=True, text=True, timeout=DEADLINE_S
        )
        assert done.returncode == 0, done.stderr
        assert not missing_facts(done.stdout, "lab@example.org", f"{mailbox.address}")
        assert f"webhook {webhook.url}" in done.stdout or "webhook (its address is hidden)" in done.stdout  # of 0.28
        until(lambda: webhook.alert("BoardlabTest"), "the test alert reaches the webhook")
        until(lambda: mailbox.mail("BoardlabTest"), "and the mail")

        assert run_job(lab, tmp_path) == 0, (tmp_path / "run.log").read_text()
        # Only the panic: a starved host may have a failure of its own, that a boot's stamps were late.
        until(lambda: server.query('absent(boardlab_failing{outcome="kernel_panic"})'), "a success ends it")
        told = {str(mail["Subject"]).rpartition("[")[2] for mail in mailbox.mails}
        assert told == {"BoardlabAttemptFailed]", "BoardlabTest]"}, "one cause, one mail"


@pytest.mark.soak
def test_a_relay_that_sticks_becomes_an_alert_at_the_webhook(lab: Lab, tmp_path: Path) -> None:
    assert measure(lab) == 0, lab.log
    with open_store(lab.environ["LAB_DB"]) as store:
        good = sum(a.ok for run in store.runs() for a in store.attempts(run.id))
    with (
        Webhook() as webhook,
        alertmanager(tmp_path / "alertmanager", webhook.url) as manager,
        exporter(lab, tmp_path) as address,
        prometheus(tmp_path / "prometheus", address, manager) as server,
    ):
        until(
            lambda: server.query(f'boardlab_outcomes_total{{outcome="ok"}} == {good}'),
            "the store's results are scraped",
        )
        (boot,) = server.query(f'boardlab_boot_duration_seconds{{board="{BOARD}",medium="sd",stat="median"}}')
        (sample,) = lab.samples()
        assert float(boot["value"][1]) == sample.value
        (target,) = server.targets()
        assert (target["health"], target["lastError"]) == ("up", "")
        until(lambda: server.query('boardlab_collector_up{collector="console"} == 1'), "the console server is seen")
        (received,) = server.query("boardlab_console_received_bytes_total")
        assert float(received["value"][1]) > 1000
        (commands,) = server.query(f'boardlab_outlet_commands_total{{pdu="bench/{BOARD}",outlet="1"}}')
        assert float(commands["value"][1]) >= 2
        assert webhook.alert("BoardlabPowerOffIneffective") is None

        assert lab_virtual("fault", BOARD, "stuck_relay", "--dir", lab.bench.folder).returncode == 0
        assert measure(lab, "--lab-cycles", "2") == 1
        assert lab_virtual("clear", BOARD, "--dir", lab.bench.folder).returncode == 0
        until(lambda: webhook.alert("BoardlabPowerOffIneffective"), "the alert reaches the webhook")
        alert = webhook.alert("BoardlabPowerOffIneffective")
        assert alert is not None
        assert (alert["labels"]["board"], alert["labels"]["severity"]) == (BOARD, "page")
        assert alert["annotations"]["runbook"] == "docs/runbooks.md#boardlabpoweroffineffective"


def test_the_exporter_serves_on_while_the_store_is_locked_moved_and_migrated(lab: Lab, tmp_path: Path) -> None:
    database = lab.folder / "results.db"
    boot = f'boardlab_boot_duration_seconds{{board="{BOARD}",stat="avg"}}'
    with exporter(lab, tmp_path) as address, prometheus(tmp_path / "prometheus", address) as server:
        until(lambda: server.query("boardlab_results_stale == 0") and server.query(boot), "the results are scraped")
        before = server.query(boot)[0]["value"][1]

        locker = sqlite3.connect(database, isolation_level=None)
        for statement in ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE", "COMMIT"):
            locker.execute(statement)
        until(lambda: server.query("boardlab_results_stale == 1"), "locked: stale")
        assert server.query(boot)[0]["value"][1] == before
        assert server.query('boardlab_collector_up{collector="disks"} == 1'), "others go on"
        locker.close()
        until(lambda: server.query("boardlab_results_stale == 0"), "unlocked")

        away = database.rename(database.with_suffix(".away"))
        until(lambda: server.query("boardlab_results_stale == 1"), "moved away: stale")
        assert server.query(boot)[0]["value"][1] == before
        away.rename(database)
        until(lambda: server.query("boardlab_results_stale == 0"), "back")

        with sqlite3.connect(database) as connection:
            (revision,) = connection.execute("SELECT version_num FROM boardlab_schema").fetchone()
            connection.execute("UPDATE boardlab_schema SET version_num = 'another'")
        until(lambda: server.query("boardlab_results_stale == 1"), "of another schema: stale")
        with sqlite3.connect(database) as connection:
            connection.execute("UPDATE boardlab_schema SET version_num = ?", (revision,))
        until(lambda: server.query("boardlab_results_stale == 0"), "migrated")
    log = (tmp_path / "exporter.log").read_text()
    assert not missing_facts(log, "results is down")
    assert "locked" in log
    assert "does not exist" in log
    assert not missing_facts(log, "results is up again")


@pytest.mark.soak
def test_prometheus_scrapes_over_tls_with_a_password(lab: Lab, tmp_path: Path) -> None:
    certificates.make(tmp_path, "server")
    secret = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    tls = "tls_server_config: {cert_file: server.crt, key_file: server.key}"
    (tmp_path / "web.yml").write_text(f"{tls}\nbasic_auth_users: {{prom: {secret}}}\n")
    address = f"127.0.0.1:{free_port()}"
    words = [LAB, "exporter", "--db", lab.environ["LAB_DB"], "--listen", address, "--web-config", tmp_path / "web.yml"]
    scrape = {"scheme": "https", "tls_config": {"ca_file": str(tmp_path / "ca.crt")}}
    users = {"basic_auth": {"username": "prom", "password": PASSWORD}}
    log = tmp_path / "exporter.log"
    with log.open("wb") as output, subprocess.Popen(words, stdout=output, stderr=output) as process:
        try:
            with prometheus(tmp_path / "let-in", address, **scrape, **users) as server:
                until(lambda: server.query("boardlab_results_stale == 0"), "the scrape with a password")
            with prometheus(tmp_path / "kept-out", address, **scrape) as server:
                until(lambda: server.query('up{job="boardlab"} == 0'), "the scrape without one")
                assert "401" in server.targets()[0]["lastError"]
        finally:
            process.terminate()
    assert process.returncode == 0
    assert PASSWORD not in log.read_text()


def test_it_refuses_to_listen_for_others_without_protection(lab: Lab) -> None:
    done = subprocess.run(
        [LAB, "exporter", "--db", lab.environ["LAB_DB"], "--listen", "0.0.0.0:0"],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 2
    assert not missing_facts(done.stderr, "needs TLS")
    assert len(done.stderr.splitlines()) == 1
