"""`lab run` on a labgrid place: a person keeps it out by name, and a place that a killed job had is taken over."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.coordinator import DEADLINE_S, client, running_coordinator
from support.facts import missing_facts

from lab import package_data
from lab.errors import ConfigurationError, LabTransientError
from lab.places.coordinator import Coordinator
from lab.places.place import Place
from lab.places.records import PlaceUser, job_user, stock_user

ENV = """
targets:
  main:
    resources:
      - RemotePlace: {{name: b1}}
    drivers:
      - StampedPDUDaemonDriver: {{}}
      - StampedConsoleDriver: {{}}
      - UBootDriver: {{prompt: '=> '}}
      - BoardStrategy: {{board_type: am62xx_sk, board: b1}}
options:
  coordinator_address: '{address}'
imports: [lab.drivers, STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))
HOLDS = """
import sys, time
from lab.places.place import Place
from lab.places.records import job_user, stock_user
with Place("b1", sys.argv[1]).hold(job_user("lena", "j12", "/a/results.db"), stock_user("lena"), lambda _: False):
    print("held", flush=True)
    time.sleep(600)
"""
LENA = stock_user("lena", {})


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_coordinator(tmp_path_factory.mktemp("coordinator")) as address:
        client(address, "-p", "b1", "create")
        yield address


def test_a_person_who_has_acquired_the_place_keeps_lab_run_out_by_name(coordinator: str, tmp_path: Path) -> None:
    (tmp_path / "b1.yaml").write_text(ENV.format(address=coordinator))
    client(coordinator, "-p", "b1", "acquire", LG_USERNAME="bob", LG_HOSTNAME="desk-3")
    done = subprocess.run(
        [Path(sys.executable).with_name("lab"), "run", "--env", str(tmp_path / "b1.yaml"), "--cycles", "1"],
        env={
            **os.environ,
            "LAB_DB": f"sqlite:///{tmp_path / 'results.db'}",
            "BOARDLAB_RUNTIME": str(tmp_path / "run"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 75, done.stdout + done.stderr
    assert not missing_facts(done.stdout + done.stderr, "place b1", "desk-3/bob")
    assert "Traceback" not in done.stderr
    assert Coordinator(coordinator).holder("b1") == "desk-3/bob"
    client(coordinator, "-p", "b1", "release", LG_USERNAME="bob", LG_HOSTNAME="desk-3")


def test_a_job_holds_the_place_under_a_name_of_its_own_and_gives_it_back(coordinator: str) -> None:
    user, place = job_user("lena", "j12", "/a/results.db"), Place("b1", coordinator)
    with place.hold(user, LENA, lambda _: False) as environ:
        assert environ == {"LG_HOSTNAME": user.host, "LG_USERNAME": user.name}
        assert user.name.startswith("lena-")
        assert user.name.endswith("-j12")
        assert Coordinator(coordinator).holder("b1") == str(user)
        with pytest.raises(LabTransientError, match=f"held by {user}") as caught:
            place.hold(job_user("lena", "j13", "/a/results.db"), LENA, lambda _: False).__enter__()
        assert caught.value.failure == "place_busy"
    assert Coordinator(coordinator).holder("b1") == ""


def test_a_place_of_a_job_that_was_killed_is_taken_over_and_one_of_a_stranger_is_not(coordinator: str) -> None:
    place = Place("b1", coordinator)
    with subprocess.Popen([sys.executable, "-c", HOLDS, coordinator], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert Coordinator(coordinator).holder("b1") == str(job_user("lena", "j12", "/a/results.db"))
    with pytest.raises(LabTransientError):
        place.hold(job_user("lena", "j13", "/a/results.db"), LENA, {12: False}.__getitem__).__enter__()
    with place.hold(job_user("lena", "j13", "/a/results.db"), LENA, {12: True}.__getitem__):
        assert Coordinator(coordinator).holder("b1") == str(job_user("lena", "j13", "/a/results.db"))
    assert Coordinator(coordinator).holder("b1") == ""
    other = job_user("lena", "j12", "/b/results.db")
    with place.hold(other, LENA, lambda _: False):
        with pytest.raises(LabTransientError, match=f"held by {other}"):
            place.hold(job_user("lena", "j13", "/a/results.db"), LENA, {12: True}.__getitem__).__enter__()
        assert Coordinator(coordinator).holder("b1") == str(other)
    elsewhere = PlaceUser("lab-7", job_user("lena", "j12", "/a/results.db").name)
    client(coordinator, "-p", "b1", "acquire", LG_USERNAME=elsewhere.name, LG_HOSTNAME=elsewhere.host)
    with pytest.raises(LabTransientError, match="held by lab-7/lena-"):
        place.hold(job_user("lena", "j13", "/a/results.db"), LENA, {12: True}.__getitem__).__enter__()
    client(coordinator, "-p", "b1", "release", LG_USERNAME=elsewhere.name, LG_HOSTNAME=elsewhere.host)


def test_what_a_person_has_acquired_serves_his_own_job_and_stays_his(coordinator: str) -> None:
    client(coordinator, "-p", "b1", "acquire", LG_USERNAME="lena", LG_HOSTNAME=LENA.host)
    with Place("b1", coordinator).hold(job_user("lena", "j12", "/a/results.db"), LENA, lambda _: False) as environ:
        assert environ == LENA.environ
    assert Coordinator(coordinator).holder("b1") == str(LENA)
    client(coordinator, "-p", "b1", "release", LG_USERNAME="lena", LG_HOSTNAME=LENA.host)


def test_a_place_that_is_reserved_in_labgrid_and_not_acquired_yet_is_busy(coordinator: str) -> None:
    client(coordinator, "reserve", "name=b1", LG_USERNAME="bob", LG_HOSTNAME="desk-3")
    held = Place("b1", coordinator).hold(job_user("lena", "j12", "/a/results.db"), LENA, lambda _: False)
    with pytest.raises(LabTransientError, match=r"b1 is reserved for desk-3/bob \(reservation (\w+)\)") as caught:
        held.__enter__()
    assert caught.value.failure == "place_busy"
    token = re.search(r"reservation (\w+)", str(caught.value))
    assert token is not None
    client(coordinator, "cancel-reservation", token[1], LG_USERNAME="bob", LG_HOSTNAME="desk-3")


def test_a_place_that_there_is_not_is_the_environments_fault(coordinator: str) -> None:
    with pytest.raises(ConfigurationError, match=r"place b9 .*not exist"):
        Place("b9", coordinator).hold(job_user("lena", "j12", "/a/results.db"), LENA, lambda _: False).__enter__()
