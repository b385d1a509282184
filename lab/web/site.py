"""What the site shows, and where it reads it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import define, field

from lab.console.status import PortStatus
from lab.farm import now, services
from lab.farm.now import LabNow
from lab.host.runtime import runtime_dir
from lab.results.revision import Revision, revision
from lab.results.store import Store, open_store
from lab.results.watch import StoreSnapshot, Watcher, watch

KEPT_PAGES: Final = 64
LOOK_S: Final = 1.0  # however many look at the wall, the lab is looked at once in this time


@define
class Site:
    """The sources of all pages. Nothing is written to them.

    Attributes:
        db: as `--db`; None: farm.yaml's, else the default. farm: the farm.yaml; None: here or in /etc/boardlab.
        runtime: the console server's folder; None: as `lab console`. folder: of the lab, with `envs/`; None: here.
    """

    db: str | None = None
    farm: Path | None = None
    runtime: Path | None = None
    folder: Path | None = None
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _seen: tuple[float, LabNow] | None = field(default=None, init=False)
    _pages: OrderedDict[tuple[str, ...], tuple[Revision, str]] = field(factory=OrderedDict, init=False)
    _watcher: Watcher | None = field(default=None, init=False)

    def look(self) -> LabNow:
        """The lab at this moment, at most a second old.

        Raises:
            ConfigurationError: the farm.yaml is wrong.
        """
        with self._lock:
            if self._seen is None or time.monotonic() - self._seen[0] >= LOOK_S:
                found = now.look(self.db, self.farm, self.runtime, self.folder)
                self._seen = (time.monotonic(), found)
            return self._seen[1]

    def ports(self) -> list[PortStatus]:
        """The ports of the console server; none where it does not run."""
        status = services.console_server(self.runtime or runtime_dir())[1]
        return status.ports if status else []

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The results.

        Raises:
            BoardlabError: they cannot be read.
        """
        with open_store(self._database(), create=False) as opened:
            yield opened

    def page(self, key: tuple[str, ...], render: Callable[[Store], str]) -> str:
        """A page that takes a while to make, as it was made last if nothing in the store has changed since.

        Args:
            key: what distinguishes it from other pages.

        Raises:
            BoardlabError: the results cannot be read, or what `render` raises.
        """
        with self.store() as store:
            now = revision(store)
            with self._lock:
                kept = self._pages.get(key)
            if kept is not None and kept[0] == now:
                return kept[1]
            made = render(store)
            with self._lock:
                self._pages[key] = (now, made)
                self._pages.move_to_end(key)
                if len(self._pages) > KEPT_PAGES:
                    self._pages.popitem(last=False)
            return made

    @contextmanager
    def snapshot(self) -> Iterator[StoreSnapshot]:
        """The results at one instant.

        Raises:
            BoardlabError: they cannot be read.
        """
        if self._watcher is None:
            self._watcher = watch(self._database())
        with self._watcher.snapshot() as found:
            yield found

    def _database(self) -> str | None:
        return services.database(self.db, services.host_file(self.farm).farm)
