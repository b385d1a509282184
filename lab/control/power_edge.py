"""The instants of a power edge, by the switch and by the rails.

Stamps are taken on the host with the port. Where that is another host than this one, the switches' instants, which are
taken here, are carried over to that host's clock, and what that may be wrong by widens them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import attr

from lab.benchmarks.boot import PowerEdge
from lab.control.boot_progress import POLL_S
from lab.drivers.guarded_calls import RAILS
from lab.errors import BoardlabError
from lab.host.clock import MonotonicRaw
from lab.host.clockrelation import ClockRelation, RelatedClock
from lab.host.runtime import prepare, runtime_dir
from lab.rails import Sampler
from lab.rails.config import AUTOMATION
from lab.rails.phase import first_rise_ns
from lab.run.board import Board

_log = logging.getLogger(__name__)

RISE_WAIT_NS: Final = 500_000_000  # after the switch's answer; a PMIC needs a tenth of it


def relate(console: Any, *switches: Any) -> None:
    """Relate the switches' clocks to the console's time line, if any."""
    relation: ClockRelation | None = getattr(console, "relation", None)
    for switch in switches:
        if switch is None:
            continue
        current_relation = getattr(switch.clock, "relation", None)
        if relation is None and current_relation is not None:
            switch.clock = MonotonicRaw()
        elif relation is not None and current_relation is not relation:
            switch.clock = RelatedClock(relation, MonotonicRaw())


def bound_ns(clock: Any) -> int:
    """Largest distance of this clock from the console's time line.

    Raises:
        LabTransientError: the clocks cannot be related.
    """
    return clock.bound_ns() if isinstance(clock, RelatedClock) else 0


def widen(edge: PowerEdge, clock: Any) -> PowerEdge:
    """An edge that covers the instant on the console's time line.

    Raises:
        LabTransientError: the clocks cannot be related.
    """
    bound = bound_ns(clock)
    return attr.evolve(edge, requested_ns=edge.requested_ns - bound, acknowledged_ns=edge.acknowledged_ns + bound)


def _sees_power_on(board: Board) -> bool:
    """Return whether the board has rails whose sensors are free to see them rise."""
    return board.rails is not None and board.rails.sensors.backend != AUTOMATION


def _rise_trace(board: Board) -> Path:
    """The trace of a power on.

    A board has one user: the next run overwrites what a killed run leaves.
    """
    return prepare(runtime_dir()) / f"rise-{quote(board.board, safe='')}.trace"


def prepare_rails(board: Board) -> None:
    """Start the sampler's process for power ons.

    It takes as long to start as a power off to be verified.
    """
    if _sees_power_on(board):
        with suppress(BoardlabError, OSError):  # `rails_at_power_on` tries again, and says why
            board.activate(board.rails, RAILS)
            board.rails.prepare(_rise_trace(board))


@contextmanager
def rails_at_power_on(board: Board) -> Iterator[Callable[[PowerEdge], PowerEdge]]:
    """Sample the board's rails, if any, while it is switched on.

    Sensors that fail lose no boot: its power on is then unconfirmed by them. An Automation Interface is not asked: it
    may be the switch, which would have to wait for it.

    Yields: adds the rise of the rails to an edge.
    """
    with ExitStack() as sampling:
        sampler: Sampler | None = None
        if _sees_power_on(board):
            try:
                board.activate(board.rails, RAILS)
                board.rails.check_clock()
                path = _rise_trace(board)
                path.unlink(missing_ok=True)
                sampling.callback(path.unlink, missing_ok=True)
                sampler = sampling.enter_context(board.rails.sampling(path, reported=False))
            except (BoardlabError, OSError) as error:
                _log.warning("the rails do not say when %s got its power: %s", board.board, error)

        def add_rise(edge: PowerEdge) -> PowerEdge:
            if sampler is None:
                return edge
            try:
                rose_ns = _rise_ns(board, sampler, edge)
                sampling.close()
            except BoardlabError as error:
                _log.warning("the rails do not say when %s got its power: %s", board.board, error)
                return edge
            return attr.evolve(edge, rose_ns=rose_ns)

        yield add_rise


def _rise_ns(board: Board, sampler: Sampler, edge: PowerEdge) -> tuple[int, int] | None:
    """Wait for the first rail to rise, but not for long."""
    clock = board.power.clock
    while True:
        now_ns = clock.now_ns()
        rose_ns = first_rise_ns(sampler.trace(now_ns))
        if rose_ns is None or rose_ns[1] <= now_ns or now_ns > edge.acknowledged_ns + RISE_WAIT_NS:
            return rose_ns
        board.console.poll(POLL_S)
