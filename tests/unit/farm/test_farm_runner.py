"""A job whose pytest the kernel kills: it was interrupted, and a queue begins it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.farm.runner import BUSY, Runner, RunnerPaths
from lab.host import process
from lab.results import open_store
from lab.results.jobrecords import Order
from lab.results.jobs import JobQueue


@pytest.mark.parametrize(
    ("command", "ends", "state"),
    [("kill -KILL $$", BUSY, "interrupted"), ("exit 1", 1, "failed"), ("exit 0", 0, "completed")],
)
def test_a_killed_pytest_is_no_failure_of_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, ends: int, state: str
) -> None:
    monkeypatch.setattr(Runner, "_command", lambda *_args: ["sh", "-c", command])
    said: list[str] = []
    order = Order("am62xx_sk", "one", ("boot",), str(tmp_path / "one.yaml"), "", 1, {})
    with open_store(str(tmp_path / "results.db")) as store:
        book = JobQueue(store, process.identity(), process.has_died, person="lena")
        job = book.enqueue(order)
        assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), said.append).run(job, 0) == ends
        assert book.job(job.id).state == state
        assert (book.unfinished(order) is not None) == (state == "interrupted")
    assert any("SIGKILL" in line for line in said) == (ends == BUSY)
