"""The labgrid place that a job's environment names, taken for the job and given back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.env import envfile
from lab.errors import ConfigurationError
from lab.results.jobrecords import Job
from lab.results.jobs import JobQueue
from lab.results.store import Store

DEFAULT_COORDINATOR = "127.0.0.1"
RESERVATION = "+"  # of a RemotePlace: that of LG_TOKEN's reservation, which its owner has acquired


@contextmanager
def placed(book: JobQueue, job: Job) -> Iterator[dict[str, str]]:
    """Hold the job's place; what to add to pytest's environment. Nothing where the environment names no place.

    Raises:
        BoardlabError: as of `lab.places.holding.Place.held`.
    """
    path = Path(job.env)
    name = str(envfile.arguments_of(path, "RemotePlace", "resources").get("name", "")) if path.is_file() else ""
    if not name or name == RESERVATION:
        yield {}
        return
    from lab.places.holding import Place, job_user, stock_user, with_port  # noqa: PLC0415 - gRPC takes a while to import

    address = envfile.coordinator_of(path) or os.environ.get("LG_COORDINATOR", DEFAULT_COORDINATOR)

    def is_over(number: int) -> bool:
        try:
            other = book.job(number)
        except ConfigurationError:  # of another store in its place
            return False
        return other.state not in {"queued", "running"} or book.has_died(other.holder) is True

    place = Place(name, with_port(address))
    with place.held(job_user(job.person, job.called, _named(book.store)), stock_user(job.person), is_over) as environ:
        yield environ


def _named(store: Store) -> str:
    """What tells this store from others of this host."""
    path = store.location.path
    return store.url if path is None else str(path.resolve())
