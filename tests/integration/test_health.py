"""Health on a simulated board: `lab run` and pytest keep to a quarantine, `lab health --check` ends it, `--health` checks first."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.measuring_lab import ROOT, Lab, running_lab

from lab.health import DEFAULT_RULE
from lab.health.reservations import ReservationBook
from lab.health.state import APART
from lab.health.store import HealthBook
from lab.host.clock import utc_now
from lab.results import open_store
from lab.results.records import AttemptRecord

LAB = Path(sys.executable).with_name("lab")
DEADLINE_S = 180
BUSY = 75
BOARD = "am62xx_sk-1"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("health"), "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        yield lab


def command(lab: Lab, *words: str) -> tuple[int, str, str]:
    """Exit status, standard output and errors of a `lab` command on the board."""
    done = subprocess.run(
        [LAB, *words],
        env=lab.environ,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def env(lab: Lab) -> str:
    return str(lab.folder / "bench" / "env.yaml")


def faults(lab: Lab, name: str) -> None:
    """The lab fails as often as the rule bears, with what a power switch that does not answer is recorded as."""
    with open_store(lab.environ["LAB_DB"]) as store:
        run = store.begin_run("boot", "am62xx_sk", name, "11.01", plan={}, provenance={})
        for cycle in range(1, DEFAULT_RULE.faults + 1):
            record = AttemptRecord(
                cycle=cycle,
                number=1,
                params={"medium": "sd"},
                outcome="pdu_timeout",
                fault="lab",
                transient=True,
                message="no answer",
                started_at=utc_now() - APART * (DEFAULT_RULE.faults - cycle),
                duration_s=30.0,
            )
            store.record_attempt(run.id, record)
        store.finish_run(run.id, "failed")


def test_a_quarantine_is_kept_to_until_a_check_passes_and_a_run_that_checks_first_says_what_is_broken(
    lab: Lab,
) -> None:
    faults(lab, BOARD)
    run = ("run", "--env", env(lab), "--medium", "sd", "--cycles", "1")
    code, said, _ = command(lab, *run)
    assert code == BUSY, said
    assert f"{BOARD} is in quarantine since " in said
    assert f"(3 faults of the lab in a row: pdu_timeout 3 times. `lab health {BOARD} --check` brings it back" in said

    bench = ("--dir", str(lab.folder / "bench"))
    assert command(lab, "virtual", "fault", BOARD, "pdu_error", "--cycles", "all", *bench)[0] == 0
    code, said, error = command(lab, *run, "--health")
    assert code not in {0, BUSY}, said
    assert not missing_facts(said, f"checking {BOARD} first", "quarantine")
    assert f"{BOARD} cannot take runs: power: " in said + error
    code, said, _ = command(lab, "status", "--json")
    (now,) = [each for each in json.loads(said)["boards"] if each["board"] == BOARD]
    assert now["health"]["state"] == "bad"
    assert [hold["kind"] for hold in now["holds"]] == ["quarantine"]

    assert command(lab, "virtual", "clear", BOARD, *bench)[0] == 0
    page = lab.folder / "check.html"
    code, said, error = command(lab, "health", BOARD, "--check", "--env", env(lab), "--json", "-o", str(page))
    assert code == 0, error
    found = json.loads(said)
    console = next(part for part in found["check"]["parts"] if part["name"] == "console")
    assert not missing_facts(console["message"], "late at rest", "busy processors")
    text = page.read_text(encoding="utf-8")
    assert not missing_facts(text, "passed", "late at rest", "busy processors")
    (data,) = re.findall('application/json;base64,([^"]*)', text)
    assert json.loads(base64.b64decode(data)) == found
    assert found["check"]["passed"]
    assert (found["state"], found["reasons"]) == ("healthy", [])
    code, said, _ = command(lab, *run, "--health")
    assert code == 0, said
    assert "checking" not in said, "it was checked just now"
    with open_store(lab.environ["LAB_DB"]) as store:
        assert not ReservationBook(store).standing(BOARD)
        assert [check.passed for check in HealthBook(store).checks(BOARD, 10)] == [True, False]
