"""A release is put on a board of a labgrid place: over TFTP and over the console, by pytest, `lab provision` and `lab run`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.coordinator import ALICE, DEADLINE_S, PROGRAMS, client
from support.facts import missing_facts
from support.measuring_lab import ROOT, running_lab
from support.placedboard import BOARD, running_place
from support.provisioned_lab import ProvisionedLab
from support.simprovision import NEW, OLD

from lab.places.coordinator import Coordinator
from lab.results import open_store

ENDS_S = 240  # of a busy host


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvisionedLab]:
    """Nobody has acquired the place."""
    with running_lab(tmp_path_factory.mktemp("sim"), "sim", "--type", "am62xx_sk", "--time-scale", "0.2") as lab:
        lab.environ |= ALICE
        with running_place(lab, tmp_path_factory.mktemp("place")) as (env, coordinator):
            lab.environ["LG_COORDINATOR"] = coordinator
            made = ProvisionedLab(lab, env)
            made.env.write_text(named_later(made.env), encoding="utf-8")
            yield made


def named_later(env: Path) -> str:
    """An environment whose place is `LG_PLACE`."""
    before = env.read_text(encoding="utf-8")
    after = before.replace(f"name: {BOARD}\n", "name: !template $LG_PLACE\n")
    assert after != before
    return after


@pytest.fixture
def coordinator(made: ProvisionedLab) -> str:
    return made.lab.environ["LG_COORDINATOR"]


def ran(made: ProvisionedLab, env: Path, place: str, *words: str, **more: str) -> str:
    """What a command of `lab` on that place said; it succeeds."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from lab.cli import main; sys.exit(main())", *words, "--env", str(env)],
        env={**made.lab.environ, "LG_PLACE": place, **more},
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=ENDS_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


@pytest.mark.soak
def test_pytest_puts_a_release_on_the_place_of_a_reservation_and_measures_it(
    made: ProvisionedLab, coordinator: str
) -> None:
    client(coordinator, "-p", BOARD, "set-tags", "board=am62x")
    done = subprocess.run(
        [PROGRAMS / "labgrid-client", "reserve", "--shell", "--wait", "board=am62x"],
        env={**os.environ, **ALICE, "LG_COORDINATOR": coordinator},
        check=True,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    token = done.stdout.strip().rpartition("=")[2].splitlines()[0]
    client(coordinator, "-p", "+", "acquire", LG_TOKEN=token)
    made.lab.environ |= {"LG_PLACE": "+", "LG_TOKEN": token}
    words = ("--lg-env", str(made.env), "--lg-coordinator", coordinator, "--lab-medium", "emmc", "--lab-cycles", "1")
    process = made.lab.pytest(*words, "--lab-provision", str(made.releases[NEW]))
    assert process.wait(ENDS_S) == pytest.ExitCode.OK, made.lab.log
    assert Coordinator(coordinator).holder(BOARD) == "ci1/alice"
    client(coordinator, "-p", BOARD, "release")
    client(coordinator, "cancel-reservation", token)
    with open_store(made.lab.environ["LAB_DB"]) as store:
        run = store.runs()[0]
        assert run.release == NEW
        assert run.provenance["provisioned"]["emmc"]["release"] == NEW


@pytest.mark.soak
def test_lab_provision_takes_a_place_and_gives_it_back_and_writes_over_its_console(
    made: ProvisionedLab, coordinator: str
) -> None:
    over = ProvisionedLab(made.lab, made.base, "console")
    said = ran(made, over.env, BOARD, "provision", "--release", str(over.releases[OLD]), "--medium", "ospi")
    assert f"ospi: booted, and it is {OLD}" in said
    assert not missing_facts(said, "console at 115200 Bd")
    assert Coordinator(coordinator).holder(BOARD) == ""


def test_lab_run_takes_a_place_puts_a_release_on_it_measures_that_and_gives_the_place_back(
    made: ProvisionedLab, coordinator: str
) -> None:
    words = ("--suite", "boot", "--medium", "emmc", "--cycles", "1", "--provision", str(made.releases[OLD]))
    ran(made, made.env, BOARD, "run", *words)
    assert Coordinator(coordinator).holder(BOARD) == ""
    with open_store(made.lab.environ["LAB_DB"]) as store:
        run = store.runs()[0]
        assert (run.release, run.status) == (OLD, "completed")
        assert run.provenance["provisioned"]["emmc"]["release"] == OLD
        (attempt,) = [each for each in store.attempts(run.id) if each.ok]
        assert attempt.params["medium"] == "emmc"
