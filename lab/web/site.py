"""The sources of the site's pages."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from lab.console.status import PortStatus
from lab.errors import ConfigurationError, LabStableError
from lab.farm import services
from lab.farm import status as farm_status
from lab.farm.status import LabNow
from lab.host.runtime import runtime_dir
from lab.judge.latest import LatestJudge
from lab.results.listing import LatestEnded
from lab.results.revision import revision
from lab.results.snapshot import StoreSnapshot
from lab.results.store import SharedStore, Store
from lab.web import wall
from lab.web.wall import Spark, Sparks

KEPT_PAGES: Final = 64
LOOK_S: Final = 1.0  # however many look at the wall, the lab is looked at once in this time
PATIENCE_S: Final = 5.0  # a look of so long ago is shown to nobody
LOOK_SHARE: Final = 5.0  # times as long as a look takes: no more than a fifth of a core goes into looking


class UncachedPage(str):
    """A page that is not cached.

    It may soon be another one although nothing changes in the results.
    """

    __slots__ = ()


@frozen
class Look:
    """A look at the lab.

    Attributes:
        at_s: when, on the monotonic clock.
        ports: of the console server; none where it does not run.
        lines: board -> the last line of its console.
        sparks: board -> its last boot times.
    """

    at_s: float
    lab: LabNow
    ports: tuple[PortStatus, ...]
    lines: Mapping[str, str]
    sparks: Mapping[str, Spark]


@define
class Site:
    """The sources of all pages, only read.

    Attributes:
        db: as `--db`; None: farm.yaml's, else the default.
        farm: the farm.yaml; None: here or in /etc/boardlab.
        runtime: the console server's folder; None: as `lab console`.
        folder: of the lab, with `envs/`; None: farm.yaml's, else here.
    """

    db: str | None = None
    farm: Path | None = None
    runtime: Path | None = None
    folder: Path | None = None
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _looking: threading.Lock = field(factory=threading.Lock, init=False)
    _looker: ThreadPoolExecutor = field(factory=lambda: ThreadPoolExecutor(1, "looking"), init=False)
    _seen: Look | None = field(default=None, init=False)
    _fresh_s: float = field(default=LOOK_S, init=False)
    _pages: OrderedDict[tuple[str, ...], tuple[Hashable, str]] = field(factory=OrderedDict, init=False)
    _ended: LatestEnded = field(factory=LatestEnded, init=False)
    _judge: LatestJudge = field(factory=lambda: LatestJudge(in_process=True), init=False)
    _results: SharedStore = field(factory=SharedStore, init=False)
    _sparks: Sparks = field(factory=Sparks, init=False)

    def look(self) -> Look:
        """The lab and its consoles, at most a second old.

        They are older where a look at a large lab takes a good part of that; after a change, or a while in which nobody
        looked, the page waits for a new look.

        Raises:
            ConfigurationError: the farm.yaml is wrong.
        """
        last = self._seen
        if last is None or time.monotonic() - last.at_s >= max(PATIENCE_S, 2 * self._fresh_s):
            return self._look_again()
        if time.monotonic() - last.at_s >= self._fresh_s and not self._looking.locked():
            self._looker.submit(self._look_again)  # no page waits for it
        return last

    def _look_again(self) -> Look:
        """A new look, unless another thread has just had one."""
        with self._looking:
            if self._seen is None or time.monotonic() - self._seen.at_s >= self._fresh_s:
                began_s = time.monotonic()
                lab_now = farm_status.look(
                    self.db,
                    self.farm,
                    self.runtime,
                    self.folder,
                    self._ended,
                    self._judge,
                    opened=self._results.store_at,
                )
                sparks = self._sparks.of(lab_now.boards, self.store)
                self._fresh_s = max(LOOK_S, LOOK_SHARE * (time.monotonic() - began_s))
                status = services.console_server(self.runtime or runtime_dir())[1]
                ports = tuple(status.ports) if status else ()
                self._seen = Look(time.monotonic(), lab_now, ports, wall.console_lines(ports), sparks)
            return self._seen

    def refresh(self) -> None:
        """Drop the current look after a change: the next page waits for a new one."""
        with self._looking:
            self._seen = None

    @contextmanager
    def store(self, *, create: bool = False) -> Iterator[Store]:
        """The results.

        Args:
            create: where there are none yet, a file for them is made: a board can be reserved before it is measured.

        Raises:
            LabError: they cannot be read.
        """
        with ExitStack() as stack:
            try:
                store = stack.enter_context(self._results.store_at(self.database(), create=create))
            except ConfigurationError as error:  # the request of the page is not at fault
                raise LabStableError(str(error), failure="results") from error
            yield store

    def page(
        self,
        key: tuple[str, ...],
        render: Callable[[Store], str],
        state: Callable[[Store], Hashable] = revision,
    ) -> str:
        """A page, from the cache while its state is the same.

        Args:
            key: what distinguishes it from other pages.
            render: makes it; a `UncachedPage` one is made again each time.
            state: of what it shows; by default of everything in the store.

        Raises:
            BoardlabError: the results cannot be read, or what `render` raises.
        """
        with self.store() as store:
            now = state(store)
            with self._lock:
                cached = self._pages.get(key)
            if cached is not None and cached[0] == now:
                return cached[1]
            page = render(store)
            if isinstance(page, UncachedPage):
                return page
            with self._lock:
                self._pages[key] = (now, page)
                self._pages.move_to_end(key)
                if len(self._pages) > KEPT_PAGES:
                    self._pages.popitem(last=False)
            return page

    @contextmanager
    def snapshot(self) -> Iterator[StoreSnapshot]:
        """The results at one instant.

        Raises:
            LabError: they cannot be read.
        """
        with self.store() as store, store.snapshot() as snapshot:
            yield snapshot

    def home(self) -> Path:
        """The lab's folder, in which environments are looked up and programs run.

        Raises:
            ConfigurationError: the farm.yaml is wrong.
        """
        return self.folder or services.host_file(self.farm).folder

    def database(self) -> str | None:
        """The results, as `--db`.

        Raises:
            ConfigurationError: the farm.yaml is wrong.
        """
        return services.database(self.db, services.host_file(self.farm).farm)
