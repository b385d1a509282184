"""The main job on the real virtual board: measured, interrupted, resumed; and labgrid's own drivers on each state."""

from __future__ import annotations

import os
import signal
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from labgrid.environment import Environment
from support.facts import missing_facts
from support.measuring_lab import Lab, running_lab

from lab import boards
from lab.console.moments import find_moments
from lab.console.recording import Recording
from lab.metrics import Flag
from lab.results import open_store
from lab.results.artifacts import write_recordings

DEADLINE_S = 120


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(autouse=True)
def _results_of_its_own(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lab.environ, "LAB_DB", f"sqlite:///{tmp_path / 'results.db'}")


def test_ctrl_c_keeps_what_was_measured_and_the_run_can_be_resumed(lab: Lab) -> None:
    process = lab.pytest("--lab-cycles", "1", "--lab-medium", "emmc,ospi", "--lab-release", "11.01")
    deadline = time.monotonic() + DEADLINE_S
    while not lab.samples():
        assert process.poll() is None, lab.log
        assert time.monotonic() < deadline, lab.log
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == pytest.ExitCode.INTERRUPTED
    kept = lab.samples()
    with open_store(lab.environ["LAB_DB"]) as store:
        assert store.run(1).status == "interrupted"
        assert store.run(1).release == "11.01"
    assert "--lab-resume 1" in lab.log
    assert lab.bench.status()["power"] == "off"

    report = lab.folder / "junit.xml"
    resumed = lab.pytest("--lab-resume", "1", "--junitxml", str(report))
    assert resumed.wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log
    samples = lab.samples()
    assert [s.value for s in samples[: len(kept)]] == [s.value for s in kept]
    assert [(s.params["medium"], s.cycle) for s in samples] == [("emmc", 1), ("ospi", 1)]
    assert "emmc  " in lab.log
    assert "1/1" in lab.log
    properties = {p.get("name"): p.get("value") for p in ET.parse(report).iter("property")}
    assert properties["boardlab_run"] == "1"
    assert properties["boot.time[medium=emmc] s"] == f"{samples[0].value:.6f}"
    assert_same_numbers_again(lab)


def assert_same_numbers_again(lab: Lab) -> None:
    """A replayed boot gives the numbers of the first time."""
    with open_store(lab.environ["LAB_DB"]) as store:
        attempts = [attempt for attempt in store.attempts(1) if attempt.ok]
        logs = write_recordings(attempts, store.artifacts, lab.folder / "recordings")
    board = boards.load("qemu-virt")
    for attempt, log in zip(attempts, logs, strict=True):
        recording = Recording.open(log)
        again = find_moments(recording.events(), board.moments, recording.meta.timing)
        assert [(m.name, m.t_ns, m.position) for m in again] == [(m.name, m.t_ns, m.position) for m in attempt.moments]


def test_a_run_of_another_plan_is_not_resumed(lab: Lab) -> None:
    with open_store(lab.environ["LAB_DB"]) as store:
        run = store.begin_run("boot", "qemu-virt", "qemu-1", "x", plan={"cycles": 5, "media": ["sd"]}, provenance={})
    process = lab.pytest("--lab-resume", str(run.id), "--lab-cycles", "6")
    assert process.wait(DEADLINE_S) == pytest.ExitCode.USAGE_ERROR
    assert not missing_facts(lab.log, "run has 5", "now it is 6")


def test_labgrids_own_drivers_work_in_each_state(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "BOARDLAB_RUNTIME", lab.environ["BOARDLAB_RUNTIME"])
    env = Environment(config_file=str(lab.bench.folder / "env.yaml"))
    try:
        strategy = env.get_target().get_strategy()
        strategy.select_medium("emmc")
        strategy.transition("bootloader")
        assert strategy.uboot.run_check("printenv bootdelay") == ["bootdelay=1"]
        strategy.transition("linux")
        assert strategy.shell.run_check("cat /etc/medium") == ["emmc"]
        assert strategy.shell.run_check("uname -s") == ["Linux"]
        strategy.transition("off")
        assert lab.bench.status()["power"] == "off"
    finally:
        env.cleanup()


def test_another_init_is_measured_to_its_prompt_and_kept_apart_from_the_usual_boot(lab: Lab) -> None:
    run = lab.pytest("--lab-cycles", "1", "--lab-medium", "emmc", "--lab-init", "/bin/sh")
    assert run.wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log
    with open_store(lab.environ["LAB_DB"]) as store:
        latest = store.runs()[0]
        (attempt,) = [attempt for attempt in store.attempts(latest.id) if attempt.ok]
    assert latest.plan["init"] == "/bin/sh"
    assert {sample.metric for sample in attempt.samples} == {"boot.time", "boot.stage"}
    assert all(sample.params["init"] == "/bin/sh" for sample in attempt.samples)
    assert [moment.name for moment in attempt.moments][-1] == "shell"
    assert attempt.details["medium_seen"] == dict.fromkeys(("uboot", "kernel", "rootfs"), "emmc")
    assert Flag.MEDIUM_UNVERIFIED not in {flag for sample in attempt.samples for flag in sample.flags}
