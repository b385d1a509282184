"""The live rails of a board for any number of viewers.

Each trace is read once for all of them.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import numpy as np
from attrs import define, evolve, field, frozen
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from lab.errors import BoardlabError
from lab.figures.power import PowerFigure, power_figure
from lab.host import process, status_files
from lab.host.clock import Clock, MonotonicRaw
from lab.host.runtime import runtime_dir
from lab.host.status_files import SamplerStatus
from lab.rails.live import STEP_NS, PowerStep, TraceTail, follow
from lab.rails.phase import samples_of
from lab.rails.trace import Trace
from lab.report.names import Names
from lab.results.artifacts import ArtifactStore
from lab.results.listing import Overview
from lab.results.records import POWER_TRACE, Attempt
from lab.web.rendering import ALIVE, ALIVE_S, event, events

SPAN_NS: Final = 60_000_000_000  # what a viewer sees
LOOK_S: Final = 0.25  # however many look, a trace is read once in this time
FORGET_S: Final = 60.0  # after nobody looked for so long
NOBODY: Final = (
    "No sampler runs for this board now. Its rails are sampled while a run measures power, and by `lab rails trace`."
)


@frozen
class RailsPiece:
    """The new steps of a board's rails.

    Attributes:
        rails: their names.
        steps: new ones.
        last: how many there were so far; the next piece is asked for with it.
        begins: whether the viewer should forget what it has: other rails, or it is new.
        reason: why nothing comes; empty: it does.
    """

    rails: tuple[str, ...]
    steps: tuple[PowerStep, ...]
    last: int
    begins: bool
    reason: str


@define
class _Rails:
    """The steps of one board, from one trace to the next."""

    board: str
    runtime: Path
    clock: Clock
    steps: deque[PowerStep] = field(factory=lambda: deque(maxlen=SPAN_NS // STEP_NS))
    rails: tuple[str, ...] = ()
    reason: str = NOBODY
    last: int = 0
    first_of_rails: int = 0
    looked_s: float = 0.0
    asked_s: float = 0.0
    lock: threading.Lock = field(factory=threading.Lock)
    _tail: TraceTail | None = None
    _sampler: SamplerStatus | None = None

    def since(self, last: int) -> RailsPiece:
        """The steps after the step `last`."""
        with self.lock:
            now_s = self.asked_s = time.monotonic()
            if now_s - self.looked_s >= LOOK_S:
                self.looked_s = now_s
                self._look()
            oldest = self.last - len(self.steps)
            begins = last < max(oldest, self.first_of_rails) or last > self.last
            fresh = self.steps if begins else list(self.steps)[last - oldest :]
            return RailsPiece(self.rails, tuple(fresh), self.last, begins, self.reason)

    def close(self) -> None:
        """Close the trace."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _look(self) -> None:
        samplers = status_files.read_all(self.runtime / status_files.SAMPLERS, SamplerStatus)
        sampler = next(
            (
                sampler
                for sampler in samplers
                if sampler.board == self.board and process.has_died(sampler.holder) is False
            ),
            None,
        )
        try:
            if self._tail is not None:
                self._take(self._tail)  # the last samples of one that has ended, too
            if sampler != self._sampler:
                self.close()
                self._sampler = sampler
            if sampler is not None and self._tail is None:
                self._tail = follow(Path(sampler.trace), SPAN_NS)
                self._take(self._tail)
            self.reason = "" if sampler is not None else NOBODY
        except (BoardlabError, OSError) as error:
            self.close()
            self._sampler = None  # the next look tries again
            self.reason = str(error)
        old_ns = self.clock.now_ns() - SPAN_NS
        while self.steps and self.steps[0].t_ns < old_ns:
            self.steps.popleft()

    def _take(self, tail: TraceTail) -> None:
        names = tuple(channel.rail for channel in tail.meta.channels)
        if names != self.rails:
            self.rails, self.first_of_rails = names, self.last + 1
            self.steps.clear()
        ahead_ns = self._sampler.ahead_ns if self._sampler is not None else 0
        steps = [evolve(step, t_ns=step.t_ns - ahead_ns) for step in tail.read()]
        self.steps.extend(steps)
        self.last += len(steps)


@define
class LiveRails:
    """The rails of a host's boards.

    Attributes:
        runtime: the runtime folder, in which samplers say where their traces are; None: the user's.
    """

    runtime: Path | None = None
    clock: Clock = field(factory=MonotonicRaw)
    _boards: dict[str, _Rails] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def since(self, board: str, last: int) -> RailsPiece:
        """The steps of a board after the step `last`.

        A negative one asks for all of the last 60 s.
        """
        with self._lock:
            now_s = time.monotonic()
            for name in [name for name, rails in self._boards.items() if now_s - rails.asked_s > FORGET_S]:
                self._boards.pop(name).close()
            rails = self._boards.get(board)
            if rails is None:
                rails = self._boards[board] = _Rails(board, self.runtime or runtime_dir(), self.clock, asked_s=now_s)
        return rails.since(last)


RAILS_S: Final = 0.5


def router(rails: LiveRails) -> APIRouter:
    """The stream's address."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/events/rails/{board:path}")
    async def rail_events(request: Request, board: str) -> StreamingResponse:
        return events(stream(request, rails, board), request)

    return routes


async def stream(
    request: Request, rails: LiveRails, board: str, every_s: float = RAILS_S
) -> AsyncGenerator[str, None]:
    """Stream a board's rails: the last 60 s, then new steps."""
    last, reason, quiet_s = -1, None, 0.0
    while request.state.still() and not await request.is_disconnected():
        piece = await run_in_threadpool(rails.since, board, last)
        if piece.steps or piece.reason != reason:
            yield event("rails", document(piece, rails.clock.now_ns()))
            last, reason, quiet_s = piece.last, piece.reason, 0.0
        elif quiet_s >= ALIVE_S:
            quiet_s = 0.0
            yield ALIVE
        await asyncio.sleep(every_s)
        quiet_s += every_s


def document(piece: RailsPiece, now_ns: int) -> str:
    """A piece as JSON.

    `steps` are milliseconds on the host's clock, then the watts of each rail, null where none came.
    """
    return json.dumps(
        {
            "now_ms": now_ns / 1e6,
            "rails": piece.rails,
            "begins": piece.begins,
            "reason": piece.reason,
            "steps": [
                [step.t_ns / 1e6, *(None if watt is None else round(watt, 6) for watt in step.watts)]
                for step in piece.steps
            ],
        }
    )


MOST: Final = 6  # figures of a page; the traces of all attempts are among its files
_COLUMNS: Final = 300


def power_of(run: Overview, artifacts: ArtifactStore) -> list[PowerFigure]:
    """The power of each item's first good attempt with a trace.

    A trace that is missing or damaged has no figure.
    """
    names, figured_items = Names(run.run), set()
    figures: list[PowerFigure] = []
    for attempt in run.attempts:
        item = frozenset(attempt.params.items())
        if not attempt.ok or item in figured_items or len(figures) == MOST:
            continue
        figure = _figure(f"{names.of(attempt.params)}, cycle {attempt.cycle}", attempt, artifacts)
        if figure is not None:
            figured_items.add(item)
            figures.append(figure)
    return figures


def _figure(title: str, attempt: Attempt, artifacts: ArtifactStore) -> PowerFigure | None:
    ref = attempt.artifact(POWER_TRACE)
    if ref is None:
        return None
    try:
        trace = Trace.of(artifacts.path(ref.sha256), artifacts.read(ref.sha256))
        begin_ns, end_ns = trace.span_ns
    except BoardlabError:
        return None
    count = min(_COLUMNS, max(1, len(trace.records) // max(1, len(trace.meta.channels))))
    edges = np.linspace(begin_ns, end_ns, count + 1)
    watts: dict[str, list[float | None]] = {}
    for number, channel in enumerate(trace.meta.channels):
        samples = samples_of(trace, number)
        sums, _ = np.histogram(samples.centre_ns, edges, weights=samples.power_w)
        counts, _ = np.histogram(samples.centre_ns, edges)
        watts[channel.rail] = [float(total / here) if here else None for total, here in zip(sums, counts, strict=True)]
    return power_figure(title, [float(t) for t in (edges[:-1] + edges[1:]) / 2], watts, attempt.moments)
