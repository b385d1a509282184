"""Jobs and the exporter's looks on PostgreSQL, where transactions do run at the same time."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import big_farm
import pytest
from attrs import evolve
from sqlalchemy import create_engine, inspect
from support import otherclock, recorded_run
from support.postgresql_cluster import PASSWORD, Cluster, cluster
from support.scraped import scrape

from exporters.farm.boards import Jobs
from exporters.results import ResultsReader
from exporters.server import ResultsSource
from lab.benchmarks.cycles import AWAY_S
from lab.cli import jobs as jobs_cli
from lab.errors import LabTransientError
from lab.farm import buildbot, config
from lab.farm.checks import results
from lab.farm.checks.machine import APART_S
from lab.health.reservations import ReservationBook
from lab.host.clock import utc_now
from lab.jobs import lease
from lab.jobs.queue import JobQueue, Order, Prospect
from lab.jobs.records import LEASE_S
from lab.jobs.waiting import BusyBoardError, JobWaiter, has_no_place, watching
from lab.results import open_store
from lab.results.snapshot import watch
from lab.results.store import RETRY_PAUSES_S

ORDER = Order("am62xx_sk", "b1", ("boot",), "env", "", None)
WRITERS = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as environment, cluster() as server:
        environment.setenv("LAB_ARTIFACTS", str(tmp_path_factory.mktemp("artifacts")))
        yield server


def test_of_many_jobs_that_start_at_once_one_gets_the_board(server: Cluster) -> None:
    gate = threading.Barrier(WRITERS)
    started: list[int] = []
    ids: list[int] = []
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with open_store(server.url) as store:
                book = JobQueue(store, f"process {number}", lambda _: False)
                job = book.enqueue(ORDER)
                ids.append(job.id)
                gate.wait()
                if book.start(job.id) is not None:
                    started.append(job.id)
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            failed.append(error)
            gate.abort()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(ids) == WRITERS
    assert len(started) == 1


def test_the_exporter_reads_a_server_that_comes_and_goes(server: Cluster) -> None:
    with open_store(server.url) as store:
        recorded_run.record(store)
    source = ResultsSource(ResultsReader(watch(server.url)))
    before = source.read()
    found = scrape(b"".join(before.pieces()).decode())
    assert found.one("boardlab_boot_duration_samples", medium="sd") == 20
    assert found.one("boardlab_attempts_total", medium="sd", outcome="hang_kernel") == 2
    server.stop()
    with pytest.raises(LabTransientError, match="does not answer"):
        source.read()
    server.start()
    assert source.read() == before


def test_a_waiting_job_has_one_connection(server: Cluster) -> None:
    order = evolve(ORDER, board="b9")
    with open_store(server.url) as holders, open_store(server.url) as store:
        holder, book = (JobQueue(each, name, lambda _: False) for each, name in ((holders, "one"), (store, "two")))
        held, job = holder.enqueue(order), book.enqueue(order)
        assert holder.start(held.id) is not None
        with watching(store, (order.board,), lambda _seconds: None) as changes:
            assert book.start(job.id) is None
            assert book.prospect(job, (order.board,)) is Prospect.NEXT
            assert not changes.wait(0.0)
            assert "Connections in pool: 1 Current Overflow: -4 Current Checked out connections: 0" in (
                store._engine.pool.status()
            )
            holder.finish(held.id, "completed")
            assert changes.wait(10.0)
            assert book.prospect(job, (order.board,)) is Prospect.MAY_START
        book.finish(job.id, "refused")


def waits_as_lab_run(book: JobQueue, order: Order) -> None:
    waiting = book.enqueue(order)
    job = JobWaiter(book, print).wait(waiting, 60)
    assert job is not None
    assert (job.id, job.queued_at) == (waiting.id, waiting.queued_at), "its turn and its age"


def waits_as_the_others(book: JobQueue, order: Order) -> None:
    with lease.hold_board(book, order, 60, print, has_no_place) as job:
        assert job.state == "running"


def gives_a_sign_of_life(book: JobQueue, order: Order) -> None:
    job = book.enqueue(evolve(order, board="another"))
    assert book.start(job.id) is not None
    book.pause(0.0)
    assert not book.beat(job.id)


def reserves(book: JobQueue, order: Order) -> None:
    book.pause(0.0)
    assert ReservationBook(book.store).reserve(order.board, "lena", "a new PMIC", 1.0).person == "lena"


LOOPS = [waits_as_lab_run, waits_as_the_others, gives_a_sign_of_life, reserves]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_outlasts_a_server_that_is_away(
    server: Cluster, tmp_path: Path, loop: Callable[[JobQueue, Order], None]
) -> None:
    """And for longer than a single transaction is tried again without patience."""
    order = evolve(ORDER, board=loop.__name__, env=str(tmp_path / "none.yaml"))
    pauses: list[float] = []

    def stopped(_seconds: float) -> None:
        if not pauses:
            server.stop()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == len(RETRY_PAUSES_S) + 1:
            server.start()
            with open_store(server.url) as other:
                JobQueue(other, "process 1", lambda _: False).finish(before.id, "completed")

    with open_store(server.url) as store:
        holding = JobQueue(store, "process 1", lambda _: False)
        before = holding.enqueue(order)
        assert holding.start(before.id) is not None
    with open_store(server.url, patience_s=AWAY_S, pause=pause) as store:
        loop(JobQueue(store, "process 2", lambda _: False, pause=stopped), order)
    assert len(pauses) == len(RETRY_PAUSES_S) + 1


@pytest.mark.parametrize("ahead_s", [600.0, -600.0])
def test_a_host_whose_clock_is_off_writes_and_reads_by_the_clock_of_the_server(
    server: Cluster, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    with open_store(server.url) as store:
        here = JobQueue(store, "lab-1/boot/1/1", lambda _: None)
        order = evolve(ORDER, board=f"b {ahead_s}")
        job = here.start(here.enqueue(order).id)
        assert job is not None
        before = store.now()
        with monkeypatch.context() as patch:
            otherclock.become("lab-2", ahead_s, patch.setattr)
            assert abs((utc_now() - before).total_seconds() - ahead_s) < APART_S
            other = JobQueue(store, "lab-2/boot/1/1", lambda _: None)
            waiting = other.enqueue(order)
            with pytest.raises(BusyBoardError):  # the job here gave a sign of life just now
                JobWaiter(other, print).wait(waiting, 0.0)
            assert jobs_cli.state_of(job, store.now()) == "running"
            (stuck,) = [family for family in Jobs(watch(server.url)).read() if "heartbeat_age" in family.name]
            assert all(sample.value < LEASE_S for sample in stuck.samples if sample.labels["board"] == order.board)
            hold = ReservationBook(store).reserve(order.board, "lena", "a new PMIC", 1.0)
            run = store.begin_run("boot", "am62xx_sk", order.board, "", plan={}, provenance={}, job_id=waiting.id)
            (found,) = results.server_clock(store)
            assert found.said == f"is 600 s {'ahead of' if ahead_s > 0 else 'behind'} that of the database's server"
        after = store.now()
        assert all(before <= at <= after for at in (waiting.queued_at, hold.at, run.started_at))
        assert list(results.server_clock(store)) == []


def test_buildbots_master_of_a_large_lab_keeps_its_state_on_the_server(server: Cluster, tmp_path: Path) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:{server.port}:*:lab:{PASSWORD}\n")
    passwords.chmod(0o600)
    given = big_farm.described(tmp_path, 100, 5, "/bin/true")
    database = f"postgresql://lab@127.0.0.1:{server.port}/postgres?passfile={passwords}"
    given["buildbot"] = {"program": str(buildbot.find()), "database": database}
    big_farm.write(tmp_path, given, "am62xx_sk")
    farm = config.load(tmp_path / "farm.yaml")
    site = buildbot.BuildbotSite(tmp_path / "buildbot")
    assert farm.buildbot is not None
    buildbot.write(farm, farm.buildbot, site, farm.environ)
    buildbot.prepare(farm.buildbot, site)
    engine = create_engine(server.url.replace("postgresql:", "postgresql+psycopg:"))
    assert {"buildrequests", "builders", "buildset_properties"} <= set(inspect(engine).get_table_names())
    assert not list(site.master.glob("*.sqlite"))
    checked = subprocess.run(
        [buildbot.find(), "checkconfig", site.master], check=False, capture_output=True, text=True
    )
    assert "Config file is good!" in checked.stdout, checked.stdout + checked.stderr
