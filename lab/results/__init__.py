"""The results store: runs, attempts, samples and artifacts, in SQLite or PostgreSQL.

with open_store() as store:
    run = store.begin_run("boot", "qemu-virt", "qemu-1", "11.01", plan, provenance)
    store.record_attempt(run.id, AttemptRecord(...))      # committed when it returns
    store.finish_run(run.id, "completed")
"""

from lab.metrics import Moment, SampleRecord
from lab.results.artifacts import ArtifactStore
from lab.results.records import (
    ArtifactRef,
    Attempt,
    AttemptRecord,
    Run,
    RunStatus,
    StoredSample,
    plan_differences,
)
from lab.results.store import Store, open_store

__all__ = [
    "ArtifactRef",
    "ArtifactStore",
    "Attempt",
    "AttemptRecord",
    "Moment",
    "Run",
    "RunStatus",
    "SampleRecord",
    "Store",
    "StoredSample",
    "open_store",
    "plan_differences",
]
