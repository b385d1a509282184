"""`lab run` on simulated boards: one job at a time, killed, interrupted, resumed."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support.facts import missing_facts
from support.measuring_lab import ROOT, Lab, measuring_pytest, running_lab

from lab.cli import main
from lab.health.reservations import ReservationBook
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs import listing
from lab.jobs.records import Job
from lab.results import Store, open_store
from lab.results.snapshot import watch

LAB = Path(sys.executable).with_name("lab")
DEADLINE_S = 180
TIME_SCALE = "0.05"
BUSY = 75


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    words = ("sim", "--type", "am62xx_sk", "--count", "2", "--time-scale", TIME_SCALE)
    with running_lab(tmp_path_factory.mktemp("run"), *words) as lab:
        yield lab


def start(lab: Lab, *words: str, board: int = 1) -> subprocess.Popen[str]:
    env = () if "--resume" in words else ("--env", str(lab.folder / "bench" / f"am62xx_sk-{board}" / "env.yaml"))
    return subprocess.Popen(
        [LAB, "run", *env, *words],
        env=lab.environ,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def session(lab: Lab, *words: str) -> subprocess.Popen[str]:
    """A plain pytest of the first board."""
    command = [*measuring_pytest(lab.folder / "bench" / "am62xx_sk-1"), "tests_perf/test_boot.py", *words]
    return subprocess.Popen(
        command, env=lab.environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def jobs_command(lab: Lab, *words: str) -> str:
    done = subprocess.run([LAB, "jobs", *words], env=lab.environ, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout


def ended(child: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = child.communicate(timeout=DEADLINE_S)
    return child.returncode, said


def until(lab: Lab, holds: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert child.poll() is None, ended(child)
        assert time.monotonic() < deadline
        time.sleep(0.05)


def latest(store: Store) -> int:
    """The number of the latest run; 0: there is none yet."""
    return max((run.id for run in store.runs(1)), default=0)


def measured(lab: Lab) -> int:
    """How many boots the latest run has."""
    return len(lab.samples()) if Path(lab.folder / "results.db").exists() else 0


def jobs(lab: Lab) -> list[Job]:
    with watch(lab.environ["LAB_DB"]).snapshot() as snapshot:
        return listing.active_jobs(snapshot)


def pytests(lab: Lab) -> list[psutil.Process]:
    return lab.processes("-m pytest")


def test_a_job_measures_and_a_second_one_for_the_board_is_refused_or_waits(lab: Lab) -> None:
    first = start(lab, "--cycles", "1", "--medium", "sd", "--release", "11.01")
    with open_store(lab.environ["LAB_DB"]) as store:
        until(lab, lambda: latest(store) > 0, first)
    first.send_signal(signal.SIGSTOP)  # so that it has its board for as long as the others need to ask
    code, said = ended(start(lab, "--cycles", "1"))
    assert code == BUSY
    holder = ("am62xx_sk-1 is busy", "j1 (boot)", process.person(), socket.gethostname(), "since 20")
    assert not missing_facts(said, *holder)
    code, said = ended(session(lab, "--lab-cycles", "1"))
    assert code == pytest.ExitCode.USAGE_ERROR
    assert not missing_facts(said, *holder, "`lab jobs cancel j1`")
    first.send_signal(signal.SIGCONT)
    waiting = start(lab, "--cycles", "1", "--medium", "sd", "--wait", str(DEADLINE_S))
    other_board = start(lab, "--cycles", "1", "--medium", "sd", board=2)
    assert ended(first)[0] == 0
    assert ended(other_board)[0] == 0
    assert ended(waiting)[0] == 0
    with open_store(lab.environ["LAB_DB"]) as store:
        runs = {run.id: run for run in store.runs()}
        assert sorted((run.board, run.status, run.plan["cycles"]) for run in runs.values()) == [
            ("am62xx_sk-1", "completed", 1),
            ("am62xx_sk-1", "completed", 1),
            ("am62xx_sk-2", "completed", 1),
        ]
        assert runs[1].release == "11.01"
    assert jobs(lab) == []


def test_a_killed_job_ends_its_pytest_and_is_resumed_at_its_next_cycle(lab: Lab) -> None:
    job = start(lab, "--cycles", "1")
    with open_store(lab.environ["LAB_DB"]) as store:
        run_id = latest(store)
        until(lab, lambda: latest(store) > run_id and measured(lab) > 0, job)
        run = store.runs()[0].id
        (ours,) = [head for head in jobs(lab) if head.board == "am62xx_sk-1"]
        measuring = pytests(lab)
        job.kill()
        job.communicate(timeout=DEADLINE_S)
        _, left = psutil.wait_procs(measuring, timeout=DEADLINE_S)
        assert left == []
        assert store.run(run).status == "interrupted"
        kept = len(store.samples(run, "boot.time"))
        assert 0 < kept < 3, "it was killed in the middle"
        code, said = ended(start(lab, "--resume", str(ours.id)))
        assert code == 0, said
        assert f"going on with run {run}" in said
        assert store.runs()[0].id == run
        assert store.run(run).status == "completed"
        assert len(store.samples(run, "boot.time")) == 3
    assert "nothing to resume" in ended(start(lab, "--resume", str(ours.id)))[1]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGTERM])
def test_an_interrupted_job_switches_the_board_off_and_goes_on_with_continue(lab: Lab, number: signal.Signals) -> None:
    job = start(lab, "--cycles", "1")
    with open_store(lab.environ["LAB_DB"]) as store:
        last = latest(store)
        until(lab, lambda: latest(store) > last and measured(lab) > 0, job)
        job.send_signal(number)
        code, said = ended(job)
        assert code == 130
        assert "go on with: lab run --resume" in said
        assert lab.bench.status()["power"] == "off"
        run = store.runs()[0]
        assert run.status == "interrupted"
        assert jobs(lab) == []
        assert ended(start(lab, "--cycles", "1", "--continue"))[0] == 0
        assert (store.runs()[0].id, store.run(run.id).status) == (run.id, "completed")


@pytest.mark.soak
def test_a_job_measures_what_overwrites_scratch_media_and_is_resumed_with_its_options(lab: Lab) -> None:
    words = ("--sections", "uboot-sd,stream", "--destructive", "--repeats", "2")
    job = start(lab, *words)
    with open_store(lab.environ["LAB_DB"]) as store:
        last = latest(store)
        until(lab, lambda: latest(store) > last and store.outcomes(latest(store)).get("ok", 0) > 0, job)
        job.send_signal(signal.SIGTERM)
        code, said = ended(job)
        assert code == 130, said
        run = store.runs()[0]
        assert (run.kind, run.status, run.plan["destructive"]) == ("sections", "interrupted", True)
        assert run.plan["repeats"] == {"stream": 2, "uboot-sd": 2}
        code, said = ended(start(lab, *words, "--continue"))
        assert code == 0, said
        assert f"going on with run {run.id}" in said
        assert store.run(run.id).status == "completed"
        (sample, *_) = [s for s in store.samples(run.id) if s.metric.startswith("uboot")]
        assert sample.value > 0
        (begun,) = listing.view(store, listing.job(store, run.job_id or 0), utc_now()).runs
        assert (begun.id, begun.good, begun.planned) == (run.id, 4, 4)


def test_a_job_is_cancelled_its_board_is_off_and_it_says_who_did_it(lab: Lab) -> None:
    job = start(lab, "--cycles", "1")
    with open_store(lab.environ["LAB_DB"]) as store:
        last = latest(store)
        until(lab, lambda: latest(store) > last and measured(lab) > 0, job)
        (ours,) = jobs(lab)
        assert f"job j{ours.id} " in jobs_command(lab, "cancel", f"j{ours.id}")
        code, said = ended(job)
        assert code == 130
        assert not missing_facts(said, f"j{ours.id} was cancelled", process.person(), "kept")
        assert "go on with: lab run" not in said
        assert lab.bench.status()["power"] == "off"
        assert (store.runs()[0].status, listing.job(store, ours.id).state) == ("interrupted", "cancelled")
    assert f"go on with: lab run --resume j{ours.id}" in jobs_command(lab, "show", f"j{ours.id}")


def test_a_session_of_pytest_is_a_job_that_others_see_wait_for_and_cancel(lab: Lab) -> None:
    first = session(lab, "--lab-cycles", "5", "--lab-medium", "sd")
    with open_store(lab.environ["LAB_DB"]) as store:
        last = latest(store)
        until(lab, lambda: latest(store) > last and measured(lab) > 0, first)
        first.send_signal(signal.SIGSTOP)  # so that it measures yet when it is cancelled
        (its,) = jobs(lab)
        code, said = ended(start(lab, "--cycles", "1"))
        assert code == BUSY
        assert f"is busy: job j{its.id} (boot) of {process.person()} on " in said
        jobs_command(lab, "cancel", f"j{its.id}")
        first.send_signal(signal.SIGCONT)
        code, said = ended(first)
        assert code == pytest.ExitCode.INTERRUPTED, said
        assert lab.bench.status()["power"] == "off"
        run, job = store.runs()[0], listing.job(store, its.id)
        assert (run.status, run.job_id, job.state, job.program) == ("interrupted", its.id, "cancelled", "pytest")
        code, said = ended(session(lab, "--lab-resume", f"j{its.id}"))
        assert code == 0, said
        assert store.run(run.id).status == "completed"
    assert jobs(lab) == []


def test_a_new_board_is_qualified_by_a_run_and_serves_if_it_passed(lab: Lab) -> None:
    env = lab.folder / "bench" / "am62xx_sk-2" / "env.yaml"
    lab_folder = lab.folder / "qualifies"
    (lab_folder / "envs").mkdir(parents=True)
    shutil.copy(env, lab_folder / "envs" / "new.yaml")
    with open_store(lab.environ["LAB_DB"]) as store:
        ReservationBook(store).qualify("am62xx_sk-2", "lena", "new")
    words = [LAB, "farm", "qualify", "am62xx_sk-2", "--cycles", "2", "--release", "11.01", "--json"]
    done = subprocess.run(words, env=lab.environ, cwd=lab_folder, check=False, capture_output=True, text=True)
    (found,) = json.loads(done.stdout)
    with open_store(lab.environ["LAB_DB"]) as store:
        assert found["run"] == latest(store)
        assert set(store.run(found["run"]).plan["media"]) == {"sd", "emmc", "ospi"}
        assert (ReservationBook(store).standing("am62xx_sk-2") == []) is found["passed"]
    assert not any("no boot was measured" in reason for reason in found["reasons"])


def test_any_free_board_of_a_type_is_taken_and_one_that_fails_is_held_as_it_is(lab: Lab) -> None:
    envs = lab.folder / "of-a-type" / "envs"
    envs.mkdir(parents=True)
    for board in ("am62xx_sk-1", "am62xx_sk-2"):
        shutil.copy(lab.folder / "bench" / board / "env.yaml", envs / f"{board}.yaml")

    def command(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [LAB, *words], env=lab.environ, cwd=envs.parent, check=False, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    first = start(lab, "--cycles", "1", "--medium", "sd")
    bench = ("--dir", str(lab.folder / "bench"))
    with open_store(lab.environ["LAB_DB"]):
        pass  # it is there
    until(lab, lambda: [head.state for head in jobs(lab)] == ["running"], first)
    first.send_signal(signal.SIGSTOP)  # so that its board stays busy
    assert command("virtual", "fault", "am62xx_sk-2", "kernel_panic", "--cycles", "all", *bench)[0] == 0
    words = ("--cycles", "2", "--medium", "sd", "--retries", "3", "--hold")
    code, said = command("run", "--type", "am62xx_sk", *words)
    assert code == 1, said
    assert not missing_facts(said, "am62xx_sk-2", "maintenance for")
    with open_store(lab.environ["LAB_DB"]) as store:
        run = latest(store)
        assert store.run(run).board == "am62xx_sk-2", "the free one"
        assert [(each.cycle, each.outcome) for each in store.attempts(run)] == [(1, "kernel_panic")], (
            "nothing is retried"
        )
        (held,) = ReservationBook(store).standing("am62xx_sk-2")
        assert held.reason.startswith(f"held as it failed in run {run}: kernel_panic: ")
    assert "on" in command("power", "state", "--env", "am62xx_sk-2")[1].split()
    assert command("run", "--env", "am62xx_sk-2", "--cycles", "1")[0] == BUSY
    assert command("reserve", "am62xx_sk-2", "--maintenance", "--end")[0] == 0
    assert command("virtual", "clear", "am62xx_sk-2", *bench)[0] == 0
    first.send_signal(signal.SIGCONT)
    assert ended(first)[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--suite", "sunspots"), "no suite 'sunspots'; there are: guide"),
        (("--env", "nowhere.yaml"), "no environment 'nowhere.yaml'"),
        (("--resume", "999"), "no job j999"),
        (("--sections", "uboot-sd"), "uboot-sd overwrites the scratch medium sd_fat: allow it with"),
    ],
)
def test_a_wrong_order_is_refused_in_one_line(
    lab: Lab, words: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("BOARDLAB_RUNTIME", "LAB_DB"):
        monkeypatch.setenv(name, lab.environ[name])
    monkeypatch.chdir(ROOT)
    env = () if "--resume" in words else ("--env", str(lab.folder / "bench" / "am62xx_sk-1" / "env.yaml"))
    assert main(["run", *env, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_scheduled_job_gives_way_to_a_reservation_and_goes_on_with_exact_counts(lab: Lab) -> None:
    words = ("--scheduled", "--cycles", "5", "--medium", "sd", "--wait", str(DEADLINE_S))
    with open_store(lab.environ["LAB_DB"]) as store:
        before = {run.id for run in store.runs()}
        job = start(lab, *words)

        def begun() -> list[int]:
            return [each.id for each in store.runs() if each.id not in before and store.samples(each.id)]

        until(lab, lambda: [head.state for head in jobs(lab)] == ["running"], job)
        assert "am62xx_sk-1 is busy: " in ended(start(lab, "--cycles", "1"))[1], (
            "what a person merely runs takes nothing"
        )
        until(lab, lambda: bool(begun()), job)
        (run,) = begun()
        assert store.run(run).status == "running"
        book = ReservationBook(store)
        book.reserve("am62xx_sk-1", "lena", "a new PMIC", 1.0)
        (ours,) = [head.id for head in jobs(lab) if head.board == "am62xx_sk-1"]
        until(lab, lambda: listing.job(store, ours).state == "queued", job)
        assert store.run(run).status == "interrupted"
        kept = len(store.samples(run, "boot.time"))
        assert 0 < kept < 5, "it gave way in the middle"
        assert all(attempt.ok for attempt in store.attempts(run)), "the cycle of that moment was measured whole"
        assert pytests(lab) == []
        assert not missing_facts(jobs_command(lab, "show", f"j{ours}"), "waits again", "am62xx_sk-1", "lena")
        book.end("am62xx_sk-1", "reserved", "lena")
        code, said = ended(job)
        assert code == 0, said
        assert f"job j{ours} gives way: am62xx_sk-1 is reserved by lena until 20" in said
        assert [s.cycle for s in store.samples(run, "boot.time")] == list(range(1, 6))
        done = store.run(run)
        assert done.status == "completed"
        (pause,) = done.provenance["interruptions"]
        assert not missing_facts(pause["why"], "gave way", "am62xx_sk-1", "lena")
        assert pause["from"] < pause["to"]
    assert jobs(lab) == []
