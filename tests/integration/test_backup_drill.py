"""The drill: a lab that measures is backed up, its host destroyed, and it goes on from the backup on PostgreSQL, and back."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from support.atlength import either
from support.measuring_lab import ROOT, Lab, running_lab
from support.postgresql_cluster import cluster
from support.recorded_run import record

from lab.cli import main
from lab.results import Store, backup, database, open_store, transfer
from lab.results.location import locate

LAB = Path(sys.executable).with_name("lab")
BOARDS, RUNS, CYCLES = either(1, 8), either(6, 200), either(3, 20)
DEADLINE_S = 600
RELEASES = ("11.00", "11.01")


def until(holds: Callable[[], bool], jobs: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert all(job.poll() is None for job in jobs)
        assert time.monotonic() < deadline
        time.sleep(0.05)


def fill(folder: Path) -> None:
    """Runs of all boards, with the judge's verdicts on the last of each."""
    with open_store(str(folder / "results.db")) as store:
        for number in range(RUNS):
            board, release = f"am62xx_sk-{number % BOARDS + 1}", RELEASES[number >= RUNS // 2]
            record(store, cycles=3, virtual=False, seed=number, board=board, release=release)
    for run in range(RUNS - BOARDS, RUNS):
        main(["judge", "run", str(run + 1), "--db", str(folder / "results.db")])


def digests(store: Store) -> dict[str, str]:
    """Of each table but the audit, which has the backup and the restore themselves."""
    with database.reader(store._engine).connect() as connection:
        return {name: digest for name, digest in transfer.digests(connection).items() if name != "audit"}


def measuring(lab: Lab, environ: dict[str, str], board: int, *words: str) -> subprocess.Popen[bytes]:
    env = lab.folder / "bench" / f"am62xx_sk-{board}" / "env.yaml"
    order = ["run", *words, "--env", str(env), "--medium", "sd", "--cycles", str(CYCLES), "--wait", str(DEADLINE_S)]
    return subprocess.Popen(
        [LAB, *order],
        env=environ,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.longer
def test_a_destroyed_host_goes_on_from_its_backup_on_postgresql_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "lab" / "runtime"))
    host, backups, new = (tmp_path / name for name in ("host", "backups", "new"))
    for folder in (host, backups, new):
        folder.mkdir()
    fill(host)
    words = ("sim", "--type", "am62xx_sk", "--count", str(BOARDS), "--time-scale", "0.05")
    with running_lab(tmp_path / "lab", *words) as lab, cluster() as server:
        old = {**lab.environ, "LAB_DB": str(host / "results.db")}
        jobs = [measuring(lab, old, board + 1, "--continue") for board in range(BOARDS)]
        with open_store(old["LAB_DB"]) as store:
            until(
                lambda: any(store.good_attempts(run.id) for run in store.runs(BOARDS) if run.status == "running"), jobs
            )
            assert main(["backup", str(backups), "--db", old["LAB_DB"]]) == 0
            assert all(job.poll() is None for job in jobs)  # it was taken while they measured
        for job in jobs:
            job.kill()
            job.wait()
        for process in lab.processes("-m pytest"):
            process.kill()
        shutil.rmtree(host)

        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE DATABASE restored")
        url = server.url.replace("/postgres", "/restored")
        fresh = {**lab.environ, "LAB_DB": url, "LAB_ARTIFACTS": str(new / "artifacts")}
        made = backup.find_backup(backups)
        with open_store(str(_copy(made.path / "results.db", tmp_path)), create=False) as kept:
            was, interrupted = digests(kept), [run for run in kept.runs(BOARDS) if run.status == "running"]
            verdicts = kept._engine.connect().exec_driver_sql("SELECT count(*) FROM verdicts").scalar_one()
        assert made.runs >= RUNS
        assert verdicts > 0
        assert interrupted
        monkeypatch.setenv("LAB_ARTIFACTS", fresh["LAB_ARTIFACTS"])
        assert main(["restore", str(backups), "--db", url]) == 0
        assert f"{made.runs} runs are in" in capsys.readouterr().out
        with open_store(url, create=False) as store:
            assert digests(store) == was
            assert len(store.artifacts.hashes()) == made.artifacts
            assert all(store.artifacts.local(name) is not None for name in store.artifacts.hashes())
        assert main(["results", "show", "1", "--log", "--db", url]) == 0
        assert "login" in capsys.readouterr().out

        again = [measuring(lab, fresh, board + 1, "--continue") for board in range(BOARDS)]
        assert [job.wait(DEADLINE_S) for job in again] == [0] * BOARDS
        with open_store(url, create=False) as store:
            for run in interrupted:
                assert store.run(run.id).status == "completed"
                assert len(store.good_attempts(run.id)) == CYCLES

        second = tmp_path / "second"
        second.mkdir()
        assert main(["backup", str(second), "--db", url]) == 0
        with open_store(url, create=False) as store:
            now = digests(store)
        backup.restore(backup.find_backup(second), locate(str(new / "back.db")))
        with open_store(str(new / "back.db"), create=False) as store:
            assert digests(store) == now


def _copy(file: Path, folder: Path) -> Path:
    return Path(shutil.copy(file, folder / "copy.db"))
