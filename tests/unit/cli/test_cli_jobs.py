"""`lab jobs`: who has a board, what became of earlier jobs, and how one is ended."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab.cli import main
from lab.host import process
from lab.jobs.queue import JobQueue
from lab.jobs.records import BY_WEB, Order
from lab.results import Store, open_store

ORDER = Order("am62xx_sk", "b1", ("boot", "low_power"), "/lab/envs/am62x.yaml", "11.01", 20, {"medium": ["sd"]})
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as child:
        yield child
        child.kill()


def identity_of(child: subprocess.Popen[bytes]) -> str:
    host, boot, _, _ = process.identity().rsplit("/", 3)
    start = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{host}/{boot}/{child.pid}/{start}"


def begun(store: Store, holder: str = "", order: Order = ORDER, person: str = "lena") -> int:
    book = JobQueue(store, holder or process.identity(), process.has_died, person=person)
    job = book.start(book.enqueue(order).id)
    assert job is not None
    return job.id


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_a_list_says_who_has_which_board_since_when(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    job = begun(store, "lab-2/boot/17/1")
    lines = said(capsys, "jobs", "list", "--db", store.url).splitlines()
    assert lines[0].split() == ["job", "state", "board", "what", "who", "begun", "(UTC)", "end"]
    assert lines[1].split()[:5] == [f"j{job}", "running", "b1", "boot,low_power", "lena@lab-2"]
    (document,) = json.loads(said(capsys, "jobs", "list", "--json", "--db", store.url))
    assert (document["job"], document["state"], document["person"], document["host"]) == (
        "j1",
        "running",
        "lena",
        "lab-2",
    )
    assert document["options"] == {"medium": ["sd"]}
    assert document["expected_end"] is None


def test_a_list_fits_a_terminal_whatever_people_and_boards_are_called(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    order = Order("am62xx_sk", "a-board-with-a-long-name-0042", ("boot", "low_power", "sections"), "e", "", None)
    begun(store, "labhost-17.lab.example.org/boot/1/1", order, "annegret.mustermann")
    begun(store)
    lines = said(capsys, "jobs", "list", "--db", store.url).splitlines()
    assert max(map(len, lines)) <= 80
    (first,) = [number for number, line in enumerate(lines) if line.startswith("j1 ")]
    assert "running" in lines[first]
    whole = re.sub(r"\s", "", "".join(lines))
    for letters in ("annegret", "mustermann", "labhost-17"):
        assert letters[:6] in whole, "nothing is cut off"
    assert "…" not in whole


def test_a_job_shows_what_it_measures_and_what_can_be_done(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    job = begun(store)
    plan = {"cycles": 20, "media": ["sd"]}
    run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan=plan, provenance={}, job_id=job).id
    shown = said(capsys, "jobs", "show", f"j{job}", "--db", store.url).splitlines()
    assert not missing_facts(shown[0], "j1", "boot,low_power", "b1", "am62xx_sk", "11.01", "running")
    assert any(line.split() == ["with", "--cycles=20", "--medium=sd"] for line in shown)
    (run_line,) = (line for line in shown if f"run {run}" in line)
    assert not missing_facts(run_line, "boot", "running", "0 of 20")
    assert shown[-1].endswith(": lab jobs cancel j1")
    (seen,) = json.loads(said(capsys, "jobs", "show", "1", "--json", "--db", store.url))["runs"]
    assert seen == {"run": run, "kind": "boot", "status": "running", "good": 0, "planned": 20}


def test_a_job_that_runs_here_is_told_at_once_to_end(
    store: Store, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    job = begun(store, identity_of(sleeper))
    assert not missing_facts(said(capsys, "jobs", "cancel", f"j{job}", "--db", store.url), "ends now", "b1 off")
    assert sleeper.wait(60) == -15
    after = said(capsys, "jobs", "list", "--db", store.url)
    assert " died " in after, "this one did not give its board back by itself"
    assert not missing_facts(said(capsys, "jobs", "cancel", f"j{job}", "--db", store.url), "cancelled", "died")
    assert " cancelled " in said(capsys, "jobs", "list", "--db", store.url)
    assert "lab run --resume j1" in said(capsys, "jobs", "show", "j1", "--db", store.url)


def test_a_power_switch_of_the_site_is_cancelled_and_the_site_lives(
    store: Store, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    book = JobQueue(store, identity_of(sleeper), process.has_died, program=BY_WEB)
    job = book.start(book.enqueue(ORDER).id)
    assert job is not None
    assert json.loads(said(capsys, "jobs", "cancel", job.called, "--json", "--db", store.url))["told"] is False
    assert book.beat(job.id), "it sees so itself"
    assert not missing_facts(said(capsys, "jobs", "cancel", job.called, "--db", store.url), job.called, "lab web")
    assert sleeper.poll() is None


def test_a_job_of_another_host_sees_it_by_itself(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    job = begun(store, "lab-2/boot/17/1")
    text = said(capsys, "jobs", "cancel", f"j{job}", "--db", store.url)
    assert not missing_facts(text, "j1", "lena on lab-2", "within seconds")
    assert " ending " in said(capsys, "jobs", "list", "--db", store.url)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "j9"), "error: no job j9; the latest is j1"),
        (("cancel", "nightly"), "error: 'nightly' is no job: `lab jobs list` has their numbers"),
        (("cancel", "j1"), "error: job j1 is completed already: there is nothing to cancel"),
    ],
)
def test_what_is_no_job_or_has_ended_is_refused_in_one_line(
    store: Store, words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    book = JobQueue(store, process.identity(), process.has_died)
    book.finish(begun(store), "completed")
    assert main(["jobs", *words, "--db", store.url]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_the_number_of_a_run_is_not_taken_for_a_job(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    book = JobQueue(store, process.identity(), process.has_died)
    first = begun(store)
    runs = [
        store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={}, job_id=first).id for _ in range(3)
    ]
    book.finish(first, "interrupted")
    book.finish(begun(store), "completed")

    def refused(text: str) -> str:
        assert main(["run", "--resume", text, "--db", store.url]) == 2
        return capsys.readouterr().err

    assert runs == [1, 2, 3]
    two = refused("2")
    assert not missing_facts(two, "2 is a run", "j1", "lab run --resume j1", "job j2")
    assert not missing_facts(refused("3"), "3 is a run", "job j1"), "there is no job j3"
    assert "job j2 is completed" in refused("j2")
    assert not missing_facts(refused("j3"), "no job j3", "j2")
    assert "no job j9" in refused("9")
