"""Runs that are judged as they end: pytest fails with the verdict, `lab run --judge` measures again until it is sure."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.judged_store import Nights
from support.measuring_lab import ROOT, Lab, running_lab

from lab.farm.runner import WORSE
from lab.judge.boot_breakdown import OF
from lab.judge.store import read_verdicts, review
from lab.results import open_store
from lab.results.records import DIAGNOSIS

LAB = Path(sys.executable).with_name("lab")
BOARD = "am62xx_sk-1"
DEADLINE_S = 600
JOB_DEADLINE_S = 1800  # a session, up to three confirmations and the diagnosis, on a busy host
QUIET = 12
FASTER = 0.5  # of the simulated board's time: what it took on the nights before; a busy host makes it slower still
SD = ("--lab-medium", "sd", "--lab-cycles", "3")


@contextlib.contextmanager
def judging_lab(folder: Path, time_scale: str) -> Iterator[Lab]:
    with running_lab(folder, "sim", "--type", "am62xx_sk", "--time-scale", time_scale) as lab:
        lab.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        yield lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with judging_lab(tmp_path_factory.mktemp("judged"), "0.05") as lab:
        yield lab


def env_of(lab: Lab) -> str:
    return str(lab.bench.folder / "env.yaml")


def measured(lab: Lab, *words: str) -> int:
    """The exit status of a session that measures a board."""
    return lab.pytest("--lg-env", env_of(lab), *SD, *words).wait(DEADLINE_S)


def with_faster_nights(lab: Lab) -> float:
    """Give a board a history of nights on which it was faster than it is. Returns: what a boot took then, in s."""
    assert measured(lab) == 0, lab.log
    with open_store(lab.environ["LAB_DB"]) as store:
        run = store.runs(1)[0]
        fastest = min(sample.value for sample in store.samples(run.id, "boot.time"))
        review(store, run.id, "rejected", "the test", "it only says how fast the board is")
        nights = Nights(store, board=BOARD)
        for _ in range(QUIET):
            nights.run(FASTER * fastest / 16, virtual=True)
    return FASTER * fastest


def properties(file: Path) -> dict[str, str]:
    return {str(each.get("name")): str(each.get("value")) for each in ET.parse(file).iter("property")}


def test_a_session_that_judges_fails_with_the_verdict_once_it_is_sure(lab: Lab, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    before_s = with_faster_nights(lab)
    words = ("--lab-judge", f"--junitxml={junit}")
    assert measured(lab, *words) == 0, lab.log
    assert properties(junit)["boot.time[medium=sd] verdict"] == "unsure: rerun asked"
    with open_store(lab.environ["LAB_DB"]) as store:
        first = store.runs(1)[0].id
        assert [v.outcome for v in read_verdicts(store, run_id=first, metric="boot.time")] == ["unsure: rerun asked"]
        codes = []
        while len(codes) < 3 and 1 not in codes:
            codes.append(measured(lab, *words, "--lab-confirms", str(first)))
        assert codes[-1] == 1, lab.log
        assert store.runs(1)[0].provenance["confirms"] == first
        (verdict,) = read_verdicts(store, run_id=first, metric="boot.time")
        runs = store.runs(1 + len(codes))
        assert first in {run.id for run in runs}
        after_s = statistics.median(sample.value for run in runs for sample in store.samples(run.id, "boot.time"))
    assert (verdict.outcome, verdict.since_run, verdict.reruns) == ("regression", first, len(codes))
    assert verdict.effect == pytest.approx(after_s / before_s - 1, rel=0.3)
    told = properties(junit)
    assert told["boot.time[medium=sd] verdict"] == "regression"
    assert float(told["boot.time[medium=sd] effect"]) == pytest.approx(verdict.effect, abs=1e-5)
    assert len(told["boot.time[medium=sd] interval"].split()) == 2
    assert told["boot.time[medium=sd] since"] == str(first)
    assert f"boot.time (sd) on {BOARD}: regression, +" in lab.log
    assert "Traceback" not in lab.log


def test_a_run_that_was_not_asked_for_is_not_measured_again(lab: Lab) -> None:
    assert measured(lab, "--lab-confirms", "1") == pytest.ExitCode.USAGE_ERROR
    assert not missing_facts(lab.log, "nothing of run 1", "lab judge run 1")


@pytest.mark.soak
def test_a_job_that_judges_measures_again_until_it_is_sure_and_then_asks_where(tmp_path: Path) -> None:
    with judging_lab(tmp_path, "0.2") as lab:  # a diagnostic boot is stopped at U-Boot's prompt, within 0.4 s
        assert_judged(lab)


def assert_judged(lab: Lab) -> None:
    with_faster_nights(lab)
    done = subprocess.run(
        [LAB, "run", "--env", env_of(lab), "--judge", "--medium", "sd", "--cycles", "3", "--retries", "5"],
        env=lab.environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=JOB_DEADLINE_S,
        check=False,
    )
    assert done.returncode == WORSE, done.stdout + done.stderr
    assert not missing_facts(done.stdout, "1 number of sd", "1 of at most 3")
    with open_store(lab.environ["LAB_DB"]) as store:
        (diagnosis,) = [run for run in store.runs() if run.kind == DIAGNOSIS]
        measured_run = store.run(diagnosis.provenance[OF])
        assert (diagnosis.status, measured_run.status) == ("completed", "completed")
        assert len(store.samples(measured_run.id, "boot.time")) == 3
    assert done.stdout.rstrip().endswith(f"lab results where {measured_run.id}")
    assert f"boot.time (sd) on {BOARD}: regression, +" in done.stdout
    with open_store(lab.environ["LAB_DB"]) as store:
        (verdict,) = read_verdicts(store, board=BOARD, metric="boot.time", outcomes=["regression"])
        again = [run for run in store.runs() if run.provenance.get("confirms") == verdict.run.id]
        assert 1 <= verdict.reruns == len(again) <= 3
        job = store.run(verdict.run.id)
        assert {run.status for run in [job, *again]} == {"completed"}
    assert "go on with" not in done.stdout, "there is nothing to go on with"
