"""Health on a simulated board: `lab run` and pytest keep to a quarantine, `lab health --check` ends it, `--health` checks first."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from measuring_lab import ROOT, Lab, measuring_pytest, running_lab

from lab.health import DEFAULT_RULE
from lab.health.state import APART
from lab.host.clock import utc_now
from lab.results import open_store
from lab.results.healthbook import HealthBook
from lab.results.records import AttemptRecord
from lab.results.reservations import ReservationBook

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


def board(lab: Lab) -> str:
    with open_store(lab.environ["LAB_DB"]) as store:
        return store.runs()[0].board


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


def run_words(lab: Lab, *words: str) -> list[str]:
    return ["run", "--env", env(lab), "--suite", "boot", "--medium", "sd", "--cycles", "1", *words]


def test_a_quarantine_is_kept_to_and_a_passed_check_ends_it(lab: Lab) -> None:
    code, said, error = command(lab, "health", "--check", "--env", env(lab), "--json")
    assert code == 0, error
    found = json.loads(said)
    name = found["board"]
    assert found["check"]["passed"]
    assert (found["state"], found["reasons"]) == ("healthy", [])

    faults(lab, name)
    code, said, error = command(lab, *run_words(lab))
    assert code == BUSY, said + error
    assert f"{name} is in quarantine since " in said
    assert f"(3 faults of the lab in a row: pdu_timeout 3 times. `lab health {name} --check` brings it back" in said
    session = subprocess.run(
        [*measuring_pytest(lab.folder / "bench"), "tests_perf/test_boot.py", "--cycles", "1"],
        env=lab.environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert session.returncode == pytest.ExitCode.USAGE_ERROR
    assert "in quarantine since" in session.stdout + session.stderr
    code, said, error = command(lab, "status", "--json")
    (now,) = [each for each in json.loads(said)["boards"] if each["board"] == name]
    assert now["health"]["state"] == "bad"
    assert [hold["kind"] for hold in now["holds"]] == ["quarantine"]

    code, said, error = command(lab, "health", name, "--check", "--env", env(lab))
    assert code == 0, said + error
    assert f"{name}: the check passed in " in said
    with open_store(lab.environ["LAB_DB"]) as store:
        assert not ReservationBook(store).standing(name)
    code, said, error = command(lab, "health", name)
    assert f"{name} is healthy" in said


def test_a_run_that_checks_first_brings_the_board_back_by_itself_and_checks_no_second_time(lab: Lab) -> None:
    command(lab, "health", "--check", "--env", env(lab))
    name = _name(lab)
    faults(lab, name)
    code, said, error = command(lab, *run_words(lab, "--health"))
    assert code == 0, said + error
    assert f"checking {name} first: it " in said
    with open_store(lab.environ["LAB_DB"]) as store:
        checks = HealthBook(store).checks(name, 10)
        assert not ReservationBook(store).standing(name)
    assert checks[0].passed
    code, said, error = command(lab, *run_words(lab, "--health"))
    assert code == 0, said + error
    assert "checking" not in said
    with open_store(lab.environ["LAB_DB"]) as store:
        assert len(HealthBook(store).checks(name, 10)) == len(checks)


def _name(lab: Lab) -> str:
    _code, said, _error = command(lab, "health", "--json")
    return str(next(each["board"] for each in json.loads(said) if each["checked_at"]))


def test_a_dead_power_switch_keeps_a_run_out_before_it_measures(lab: Lab) -> None:
    name = _name(lab)
    faults(lab, name)
    code, said, error = command(lab, "virtual", "fault", name, "pdu_error", "--dir", str(lab.folder / "bench"))
    assert code == 0, said + error
    code, said, error = command(lab, *run_words(lab, "--health"))
    assert code != 0
    assert "cannot take runs: power: " in said
    with open_store(lab.environ["LAB_DB"]) as store:
        assert [hold.kind for hold in ReservationBook(store).standing(name)] == ["quarantine"]
        assert HealthBook(store).checks(name, 1)[0].fault is not None
