"""What a farm's store says after runs that were killed: each done, or failed with a class, nothing counted twice."""

from __future__ import annotations

from collections.abc import Mapping

from lab.host import process
from lab.host.clock import utc_now
from lab.results import Store, joblist

SUCCESS, WORSE, FAILURE, EXCEPTION = 0, 1, 2, 4  # of Buildbot


def progress(store: Store) -> int:
    """Jobs and runs that began, and attempts that were made."""
    runs = store.runs()
    return (
        len(runs) + len(joblist.jobs(store, 1_000_000, utc_now())) + sum(len(store.attempts(run.id)) for run in runs)
    )


def look(store: Store, ended: Mapping[str, int], cycles: int) -> None:
    """The counts, classes and leases.

    Args:
        ended: label of each run -> its result at Buildbot. cycles: that each has planned.
    """
    planned, every = list(range(1, cycles + 1)), store.runs()
    for name, result in ended.items():
        runs = [run for run in every if run.release == name]
        assert len(runs) <= 1, f"{name}: begun anew in place of resumed"
        measured = [sample.cycle for run in runs for sample in store.samples(run.id, "boot.time")]
        assert len(measured) == len(set(measured)), f"{name}: a cycle twice: {measured}"
        if result in {SUCCESS, WORSE}:
            assert measured == planned, name
        else:
            assert result in {FAILURE, EXCEPTION}, name
            failed = [each.outcome for run in runs for each in store.attempts(run.id) if not each.ok]
            assert result == EXCEPTION or failed or measured == planned, f"{name}: it failed without a class"
    active = [view.job for view in joblist.jobs(store, 0, utc_now()) if view.job.state in {"queued", "running"}]
    assert [job.called for job in active if process.has_died(job.holder) is not True] == []
