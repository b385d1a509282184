"""labgrid's places under the farm's programs: left ones are released, held ones waited for, reserved ones kept, dead ones refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from attrs import evolve, frozen
from labgrid.remote.common import ReservationState
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub
from support.coordinator import ALICE, DEADLINE_S, PROGRAMS, client, running_coordinator
from support.facts import missing_facts

from lab import package_data
from lab.errors import LabTransientError
from lab.farm import status
from lab.farm.config import load
from lab.farm.status import boards_by_place
from lab.health.reservations import ReservationBook
from lab.host import process
from lab.jobs.queue import JobQueue
from lab.jobs.records import Job, Order
from lab.places.coordinator import Coordinator
from lab.places.janitor import Janitor
from lab.places.job_place import hold_place, measures_at, person_at_place
from lab.places.records import job_user, reserving_user, store_name
from lab.results import Store, open_store
from lab.web import wall

ENV = """
targets:
  main:
    resources:
      - RemotePlace: {{name: '{place}'}}
    drivers:
      - StampedPDUDaemonDriver: {{}}
      - StampedConsoleDriver: {{}}
      - UBootDriver: {{prompt: '=> '}}
      - BoardStrategy: {{board_type: am62xx_sk, board: '{place}'}}
options:
  coordinator_address: '{address}'
imports: [lab.drivers, STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))
FARM = """
directory: {folder}
database: sqlite:///{folder}/results.db
coordinator: {address}
boards:
  - {{name: b1, env: b1.yaml}}
  - {{name: b2, env: b2.yaml}}
  - {{name: b3, env: b3.yaml}}
"""
MEASURES = """
import sys, time
from pathlib import Path
from lab.places.job_place import hold_place
from lab.host import process
from lab.results import open_store
from lab.jobs.records import Order
from lab.jobs.queue import JobQueue
with open_store(sys.argv[1]) as store:
    book = JobQueue(store, process.identity(), process.has_died, person="lena")
    job = book.start(book.enqueue(Order("am62xx_sk", "b1", ("boot",), sys.argv[2], "", 1)).id)
    with hold_place(book, job):
        print("measures", flush=True)
        time.sleep(600)
"""


@frozen
class Lab:
    """A lab's folder with three boards, their places and a coordinator."""

    folder: Path
    address: str
    store: Store

    @property
    def coordinator(self) -> Coordinator:
        return Coordinator(self.address)

    def book(self, person: str = "lena", *, ignores: bool = False) -> JobQueue:
        return JobQueue(self.store, process.identity(), process.has_died, person=person, ignores=ignores)

    def job(self, board: str = "b1", env: str = "") -> Job:
        order = Order("am62xx_sk", board, ("boot",), str(self.folder / (env or f"{board}.yaml")), "", 1)
        return self.book().enqueue(order)

    def janitor(self) -> Janitor:
        farm = load(self.folder / "farm.yaml")
        return Janitor(
            self.coordinator,
            self.store,
            self.book(),
            lambda: boards_by_place(farm),
            partial(measures_at, coordinator=self.address),
        )

    def lab(self, *words: str) -> list[str]:
        return [str(PROGRAMS / "lab"), *words]

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "LAB_DB": self.store.url, "BOARDLAB_RUNTIME": str(self.folder / "run")}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_coordinator(tmp_path_factory.mktemp("coordinator")) as address:
        for place in ("b1", "b2", "b3"):
            client(address, "-p", place, "create")
        yield address


@pytest.fixture
def lab(tmp_path: Path, address: str) -> Iterator[Lab]:
    for place in ("b1", "b2", "b3"):
        (tmp_path / f"{place}.yaml").write_text(ENV.format(place=place, address=address))
    (tmp_path / "farm.yaml").write_text(FARM.format(folder=tmp_path, address=address))
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        yield Lab(tmp_path, address, store)
    for place, holder in Coordinator(address).holders().items():
        if holder:
            Coordinator(address).release(place, holder)


def test_the_place_of_a_killed_run_is_released_and_no_living_ones_and_no_persons(lab: Lab) -> None:
    command = [sys.executable, "-c", MEASURES, lab.store.url, str(lab.folder / "b1.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "measures\n"
        held = lab.coordinator.holder("b1")
        lab.coordinator.acquire("b2", "desk-3/bob")
        strangers = str(job_user("lena", "j1", "/another/results.db"))
        lab.coordinator.acquire("b3", strangers)
        assert lab.janitor().due() == []
        runner.kill()
    assert runner.returncode == -signal.SIGKILL
    words = ("farm", "janitor", str(lab.folder / "farm.yaml"))
    for more, said, after in (("--dry-run", "would be: place b1", held), ("--once", "place b1", "")):
        done = subprocess.run(
            lab.lab(*words, more), env=lab.environ, capture_output=True, text=True, check=True, timeout=DEADLINE_S
        )
        assert done.stdout == f"{said}: released from {held}: job j1 is dead: its process is gone\n"
        assert lab.coordinator.holders() == {"b1": after, "b2": "desk-3/bob", "b3": strangers}
    assert list(lab.janitor().tidy()) == []


def test_a_job_that_ended_without_giving_its_place_back_is_cleared_up_after(lab: Lab) -> None:
    job = lab.job()
    holder = str(job_user(job.person, job.called, store_name(lab.store)))
    lab.coordinator.acquire("b1", holder)
    (action,) = lab.janitor().tidy()  # of a run that was killed; the job takes it anew when it has its board
    assert not missing_facts(action.described, "place b1: released", f"{holder}", "job j1")
    assert lab.book().start(job.id) is not None
    lab.coordinator.acquire("b1", holder)
    assert lab.janitor().due() == [], "it has its board"
    lab.book().finish(job.id, "failed")
    (action,) = lab.janitor().tidy()
    assert not missing_facts(action.described, "place b1: released", f"{holder}", "j1 is failed")
    assert lab.coordinator.holder("b1") == ""


def test_a_board_that_is_reserved_in_the_browser_is_its_persons_place_until_that_ends(lab: Lab) -> None:
    lab.coordinator.acquire("b1", "desk-3/bob")
    ReservationBook(lab.store).reserve("b1", "lena", "a new PMIC", 1)
    assert list(lab.janitor().tidy()) == [], "a person's acquisition is not taken away"
    lab.coordinator.release("b1", "desk-3/bob")
    (action,) = lab.janitor().tidy()
    lenas = reserving_user("lena", store_name(lab.store))
    assert (action.verb, action.place, action.holder) == ("acquire", "b1", str(lenas))
    assert lab.coordinator.holder("b1") == str(lenas)
    with pytest.raises(LabTransientError, match="held by reserved-"), hold_place(lab.book("bob"), lab.job()):
        pass
    with hold_place(lab.book(ignores=True), lab.job()) as environ:
        assert environ == lenas.environ
    assert list(lab.janitor().tidy()) == []
    ReservationBook(lab.store).end("b1", "reserved", "lena")
    job = lab.job()
    with hold_place(lab.book(), job):  # a job that waited for its end does not wait for the janitor
        assert lab.coordinator.holder("b1") == str(job_user(job.person, job.called, store_name(lab.store)))
    lab.coordinator.acquire("b1", str(lenas))
    (action,) = lab.janitor().tidy()
    assert action.verb == "release"
    assert not missing_facts(action.why, "reservation", "ended")
    assert lab.coordinator.holder("b1") == ""


def test_two_sites_with_a_coordinator_each_share_the_results(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "other-site"
    folder.mkdir()
    with running_coordinator(folder) as address:
        client(address, "-p", "b1", "create")  # of the same name as a place of the first site
        (folder / "c1.yaml").write_text(ENV.format(place="b1", address=address).replace("board: 'b1'", "board: 'c1'"))
        farm = (
            FARM.format(folder=folder, address=address).partition("boards:")[0]
            + "boards: [{name: c1, env: c1.yaml}]\n"
        )
        (folder / "farm.yaml").write_text(farm.replace(f"{folder}/results.db", f"{lab.folder}/results.db"))
        there = evolve(lab, folder=folder, address=address)
        here, away = lab.job(), there.job("c1")
        assert (lab.book().start(here.id), there.book().start(away.id)) != (None, None)
        with hold_place(lab.book(), here), hold_place(there.book(), away):
            places = [str(job_user(job.person, job.called, store_name(lab.store))) for job in (here, away)]
            assert [lab.coordinator.holder("b1"), there.coordinator.holder("b1")] == places
            assert (lab.janitor().due(), there.janitor().due()) == ([], [])
            found = status.look(lab.store.url, lab.folder / "farm.yaml", lab.folder / "run", lab.folder)
            assert {tile.board: tile.state for tile in wall.tiles(found)} == {
                "b1": "held",
                "b2": "never reached",
                "b3": "never reached",
                "c1": "held",
            }
        there.coordinator.acquire("b1", places[1])  # of a run that was killed
        there.book().finish(away.id, "failed")
        assert list(lab.janitor().tidy()) == []
        assert [action.holder for action in there.janitor().tidy()] == [places[1]]
        ReservationBook(lab.store).reserve("c1", "lena", "a new PMIC", 1)
        assert list(lab.janitor().tidy()) == []
        assert [action.verb for action in there.janitor().tidy()] == ["acquire"]
        assert (lab.coordinator.holder("b1"), there.coordinator.holder("b1") != "") == ("", True)
        found = status.look(lab.store.url, lab.folder / "farm.yaml", lab.folder / "run", lab.folder)
        assert {tile.board for tile in wall.tiles(found) if tile.state == "held"} == {"b1", "c1"}


def test_a_persons_acquisition_is_on_the_wall_and_in_lab_status(lab: Lab) -> None:
    lab.coordinator.acquire("b1", "desk-3/bob")
    lab.coordinator.acquire("b2", str(job_user("lena", "j7", store_name(lab.store))))
    found = status.look(lab.store.url, lab.folder / "farm.yaml", lab.folder / "run", lab.folder)
    assert {tile.board: (tile.state, tile.who) for tile in wall.tiles(found)} == {
        "b1": ("held", "desk-3/bob (labgrid)"),
        "b2": ("never reached", ""),
        "b3": ("never reached", ""),
    }, "a job is there as a job"
    assert [line for line in status.lines(found) if "place held by desk-3/bob" in line]


def test_lab_run_waits_for_a_place_that_a_person_has_and_says_who(lab: Lab) -> None:
    lab.coordinator.acquire("b1", "desk-3/bob")
    words = lab.lab("run", "--env", str(lab.folder / "b1.yaml"), "--cycles", "1", "--wait", "600")
    with subprocess.Popen(
        words, env=lab.environ, cwd=lab.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as runner:
        assert runner.stdout is not None
        said = ""
        for line in runner.stdout:
            said += line
            if "job j1 waits: labgrid's place b1 is held by desk-3/bob" in line:
                assert runner.poll() is None
                lab.coordinator.release("b1", "desk-3/bob")
            if "job j1 has b1" in line:
                assert lab.coordinator.holder("b1") == str(job_user(process.person(), "j1", store_name(lab.store)))
                runner.terminate()
        assert not missing_facts(said, "waits: ", "place b1", "desk-3/bob")
        assert "job j1 has b1" in said, said
    assert lab.coordinator.holder("b1") == ""


def test_a_place_whose_exporter_is_dead_is_refused_before_the_run_begins(lab: Lab) -> None:
    client(lab.address, "-p", "b2", "add-match", "lab-7/b2/*")
    try:
        with (
            pytest.raises(LabTransientError, match=r"lab-7/b2.*farm export`") as caught,
            hold_place(lab.book(), lab.job("b2")),
        ):
            pass
        assert caught.value.failure == "exporter_gone"
        assert lab.coordinator.holder("b2") == ""
    finally:
        client(lab.address, "-p", "b2", "del-match", "lab-7/b2/*")


def test_a_reservation_for_whose_place_a_job_waits_does_not_expire(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """labgrid ends one that nobody polls within a minute."""
    (lab.folder / "plus.yaml").write_text(ENV.format(place="+", address=lab.address))
    client(lab.address, "-p", "b2", "add-match", "lab-7/b2/*")
    for name, value in ALICE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LG_TOKEN", reservation(lab.address, "name=b2"))
    job = lab.job("b2", "plus.yaml")
    try:
        for state, failure in (("allocated", "exporter_gone"), ("waiting", "place_busy")):
            assert stands(lab.address).state == ReservationState[state].value
            for _ in range(2):
                before = stands(lab.address).timeout
                with pytest.raises(LabTransientError) as caught, hold_place(lab.book(), job):
                    pass
                assert caught.value.failure == failure
                assert stands(lab.address).timeout > before
                before = stands(lab.address).timeout
                assert bool(person_at_place(lab.book(), job)) == (failure == "place_busy")
                assert stands(lab.address).timeout > before, "also before it has its board"
            if state == "allocated":
                client(lab.address, "cancel-reservation", os.environ["LG_TOKEN"])
                lab.coordinator.acquire("b2", "desk-3/bob")
                monkeypatch.setenv("LG_TOKEN", reservation(lab.address, "name=b2"))
    finally:
        client(lab.address, "cancel-reservation", os.environ["LG_TOKEN"])
        lab.coordinator.release("b2", "desk-3/bob")
        client(lab.address, "-p", "b2", "del-match", "lab-7/b2/*")


def reservation(address: str, pattern: str) -> str:
    """The token of Alice's reservation."""
    environ = {**os.environ, "LG_COORDINATOR": address, **ALICE}
    command: list[str | Path] = [PROGRAMS / "labgrid-client", "reserve", "--shell", pattern]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    return done.stdout.strip().rpartition("=")[2]


def stands(address: str) -> Any:
    """The only reservation, as it is without that anybody asks for it."""
    with grpc.insecure_channel(address) as channel:
        (found,) = CoordinatorStub(channel).GetReservations(messages.GetReservationsRequest()).reservations
    return found


def test_the_place_of_labgrids_reservation_is_taken_as_its_owner_and_given_back(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab.folder / "plus.yaml").write_text(ENV.format(place="+", address=lab.address))
    who = {"LG_USERNAME": "lena", "LG_HOSTNAME": "desk-1"}
    for name, value in who.items():
        monkeypatch.setenv(name, value)
    client(lab.address, "-p", "b3", "set-tags", "kind=janitors")
    done = subprocess.run(
        [PROGRAMS / "labgrid-client", "reserve", "--shell", "--wait", "kind=janitors"],
        env={**os.environ, "LG_COORDINATOR": lab.address, **who},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    token = re.search(r"LG_TOKEN=(\w+)", done.stdout)
    assert token is not None, done.stdout
    job = lab.job("b3", "plus.yaml")
    monkeypatch.setenv("LG_TOKEN", token[1])
    with hold_place(lab.book(), job) as environ:
        assert environ == who
        assert lab.coordinator.holder("b3") == "desk-1/lena"
    assert lab.coordinator.holder("b3") == ""
    monkeypatch.setenv("LG_TOKEN", "NOSUCH")
    with pytest.raises(Exception, match="no such reservation"), hold_place(lab.book(), job):
        pass
