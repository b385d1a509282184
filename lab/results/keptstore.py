"""A store that one program asks again and again, such as a web site."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, field

from lab.results import engine
from lab.results.artifacts import ArtifactStore
from lab.results.faults import understood
from lab.results.location import locate
from lab.results.store import BUSY_TIMEOUT_S, Store, require
from lab.results.watch import StoreSnapshot


@define
class KeptStore:
    """Gives the same store each time: its queries are compiled once, and a server's connections are used again.

    SQLite's file is opened anew for each transaction, so that a database that was moved away or replaced is noticed.
    """

    _store: Store | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @contextmanager
    def opened(self, url: str | None, *, create: bool = False) -> Iterator[Store]:
        """The results; see `lab.results.store.open_store`, also for the errors."""
        location = locate(url)
        with self._lock:
            last = self._store
            if last is not None and last.location == location:
                store = last
            else:
                store = Store(
                    location,
                    ArtifactStore(location.artifacts, location.shared),
                    engine.create(location, BUSY_TIMEOUT_S, anew=True),
                )
                self._store = store
                if last is not None:
                    last.close()
        require(store, create=create)
        with understood(location):
            yield store


@contextmanager
def snapshot(store: Store) -> Iterator[StoreSnapshot]:
    """The results of an open store at one instant."""
    with store._read() as session:
        yield StoreSnapshot(session, store.location)
