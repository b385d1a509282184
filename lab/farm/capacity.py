"""Capacity of this host for one more measuring board, by farm.yaml and by the lateness of its stamps.

The host records a number of boards as too many if its stamps were too late for a minute without a change of boards. For
a day its capacity is then one board less. The record is in the runtime folder; deleting it resets the capacity.

The stamps are those of this host's console server: boards with consoles on another host count, but that host is not
asked.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import field, frozen

from lab.console.client import ConsoleClient
from lab.errors import BoardlabError
from lab.farm.config import Limits
from lab.host.runtime import runtime_dir, socket_path
from lab.jobs.listing import has_changed, measuring
from lab.jobs.queue import JobQueue

LEARNED: Final = "too-many.json"
_DAY: Final = dt.timedelta(days=1)
_SETTLED: Final = dt.timedelta(seconds=60)  # period of the console server's percentile
_log = logging.getLogger(__name__)


def stamps_p99_ms(runtime: Path | None = None) -> float | None:
    """Lateness of this host's console stamps at p99; None: unknown."""
    path = socket_path(runtime or runtime_dir())
    if not path.exists():
        return None
    try:
        with ConsoleClient(path) as client:
            late_ns = client.status().late_p99_ns
    except BoardlabError:
        return None
    return None if late_ns is None else late_ns / 1e6


@frozen
class HostCapacity:
    """Capacity of this host for jobs of a store.

    Attributes:
        late: current lateness of stamps in ms; None: unknown.
        folder: of the record of too many boards.
    """

    queue: JobQueue
    limits: Limits
    late: Callable[[], float | None] = stamps_p99_ms
    folder: Path = field(factory=runtime_dir)
    host: str = field(factory=socket.gethostname)

    def why_wait(self) -> str:
        """Reason why one more board must wait; empty: none."""
        boards = measuring(self.queue, self.host)
        most = self.limits.max_boards
        if not boards:
            return ""
        if most and boards >= most:
            return f"host {self.host} measures {_boards(boards)}, and farm.yaml allows {most} (limits: max_boards)"
        late_ms = self.late() if self.limits.late_ms else None
        if late_ms is not None and late_ms > self.limits.late_ms:
            return (
                f"host {self.host}: stamps are {late_ms:.1f} ms late at p99 with {_boards(boards)}; the "
                f"{_th(boards + 1)} waits (farm.yaml, limits: late_ms: {self.limits.late_ms:g})"
            )
        too_many = self._read_record() if self.limits.late_ms else None
        if too_many is not None and boards >= too_many[0] - 1:
            return (
                f"host {self.host}: stamps were {too_many[1]:.1f} ms late at p99 with {_boards(too_many[0])} at "
                f"{too_many[2]:%H:%M} UTC, and {boards} "
                f"measure; the {_th(boards + 1)} waits (farm.yaml, limits: late_ms: {self.limits.late_ms:g})"
            )
        return ""

    def record(self) -> None:
        """Record the current number of boards if stamps are too late.

        Nothing is recorded in the minute after a change of boards.
        """
        late_ms = self.late() if self.limits.late_ms else None
        if late_ms is None or late_ms <= self.limits.late_ms:
            return
        now, boards, too_many = self.queue.now(), measuring(self.queue, self.host), self._read_record()
        if boards < 2 or (too_many is not None and too_many[0] < boards):
            return
        if has_changed(self.queue, self.host, now - _SETTLED):
            return
        text = json.dumps({"boards": boards, "p99_ms": late_ms, "at": now.isoformat()})
        try:
            draft = self.folder / f"{LEARNED}.new"
            draft.write_text(text, encoding="utf-8")
            draft.replace(self.folder / LEARNED)
        except OSError as error:
            _log.warning("%s: %s", error.filename, error.strerror)

    def _read_record(self) -> tuple[int, float, dt.datetime] | None:
        """Last day's record: number of boards, lateness in ms, time."""
        try:
            document = json.loads((self.folder / LEARNED).read_text(encoding="utf-8"))
            too_many = int(document["boards"]), float(document["p99_ms"]), dt.datetime.fromisoformat(document["at"])
            return too_many if self.queue.now() - too_many[2] < _DAY else None
        except (OSError, ValueError, TypeError, KeyError):
            return None


def _boards(number: int) -> str:
    return f"{number} board{'s' * (number != 1)}"


def _th(number: int) -> str:
    ending = "th" if 11 <= number % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
