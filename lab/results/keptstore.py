"""A store that one program asks again and again, such as a web site."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, field

from lab.results.location import locate
from lab.results.store import Store, open_store, require
from lab.results.watch import StoreSnapshot


@define
class KeptStore:
    """Gives the same store each time: its queries are compiled once, and a server's connections are used again.

    SQLite's file is opened anew each time, so that a database that was moved away or replaced is noticed.
    """

    _store: Store | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @contextmanager
    def opened(self, url: str | None, *, create: bool = False) -> Iterator[Store]:
        """The results; see `lab.results.store.open_store`, also for the errors."""
        location = locate(url)
        with self._lock:
            store = self._store if self._store is not None and self._store.location == location else None
        if store is None:
            store = open_store(url, create=create)
            with self._lock:
                self._store = store
        else:
            require(store, create=create)
        try:
            yield store
        finally:
            if location.path is not None:
                store.close()


@contextmanager
def snapshot(store: Store) -> Iterator[StoreSnapshot]:
    """The results of an open store at one instant."""
    with store._read() as session:
        yield StoreSnapshot(session, store.location)
