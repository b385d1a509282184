"""Jobs and the exporter's looks on PostgreSQL, where transactions do run at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import recorded_run
from postgresql_cluster import Cluster, cluster
from scraped import scrape

from exporters.exposition import ResultsSource
from exporters.results import ResultsReader
from lab.errors import LabTransientError
from lab.results import open_store
from lab.results.jobs import JobQueue, Order
from lab.results.watch import watch

ORDER = Order("am62xx_sk", "b1", ("boot",), "env", "", None)
WRITERS = 12


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as server:
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
