"""Following of a boot: console, power, clocks and labgrid place."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import attr
from attrs import define, field
from labgrid.resource.remote import RemotePlace

from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.boards.hardware import RAIL_OFF_V
from lab.console.moments import MomentFinder, feed_watch
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import RAILS
from lab.drivers.powerdriver import is_on, last_command
from lab.errors import BoardlabError, BoardTransientError, LabStableError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.host.clockrelation import ClockRelation, RelatedClock
from lab.host.runtime import prepare, runtime_dir
from lab.rails import Sampler
from lab.rails.config import AUTOMATION
from lab.rails.phase import first_rise_ns
from lab.run.board import Board

DRAIN_S = 5.0  # longest output of a switched-off board while its supplies fall
POLL_S = 0.05  # longest wait for bytes before the boot's time limits are looked at


def follow(board: Board, watch: BootWatch, taken: int | None = None, *, woken: bool = False) -> None:
    """Feed a boot to its watch until its prompt is certain.

    Args:
        taken: so many captured events are known, by default all.
        woken: the board slept before, and its supplies may be off because it still does.

    Raises:
        BoardlabError: it failed; by whose fault.
    """
    console, clock = board.console, board.power.clock
    finder = MomentFinder(board.type.markers, board.timing())
    taken = len(console.capture) if taken is None else taken
    synced = late = False
    while not (watch.done and synced):
        synced = watch.done  # whatever the console server had not read yet may still speak against it
        if synced:
            console.sync()
        else:
            console.poll(POLL_S)
        for event in console.capture[taken:]:
            feed_watch(watch, event, [finder])
        taken = len(console.capture)
        now_ns = clock.now_ns()
        with power_asked(board, rails=not woken):
            try:
                watch.check(now_ns)
            except BoardTransientError:
                if getattr(console, "relation", None) is None or late:
                    raise
                console.sync()  # bytes on a slow link may still come from the board
                late, synced = True, False
                continue
        late = False
        if watch.asks:
            watch.events = taken  # the answer is no part of the boot
            console.write(b"\r")
            watch.asked(now_ns)
    board.lives = True


def falls_silent(board: Board) -> bool:
    """Tell if a board that was switched off has fallen silent."""
    clock = board.power.clock
    deadline_ns = clock.now_ns() + round(DRAIN_S * 1e9)
    wait_s = board.type.timeouts.off_silence_s / 2
    while (asked_ns := clock.now_ns()) < deadline_ns:
        if not board.console.poll(wait_s) and not board.console.sync():
            return True  # and the console server has answered that there is nothing more
        took_ns = clock.now_ns() - asked_ns
        deadline_ns += max(0, took_ns - round(wait_s * 1e9))  # while the console's host was out of reach
    return False


# --- A board that is off: its console says nothing, and the console's adapter is still there ---


_TEXT: Final = re.compile(rb"[ -~]{8,}")  # noise of a line that floats has no eight printable characters in a row


def check_still_off(board: Board, silent_at: int) -> None:
    """Refuse a board that printed text after its verified power-off.

    Args:
        silent_at: number of captured bytes at that time.

    Raises:
        LabTransientError: it did.
    """
    board.console.sync()
    text = _TEXT.search(board.console.captured()[silent_at:])
    if text is not None:
        raise LabTransientError(
            f"{board.board} printed {text[0][:60].decode()!r} after its power off and before its power on: its power "
            "came back by itself. Look at the outlet and its relay, at what else switches it, and at a second supply "
            "(USB, a debugger)",
            failure="impossible_times",
        )


@contextmanager
def adapter_fed(console: Any, name: str) -> Iterator[None]:
    """Explain a console's adapter that goes away with the board's power.

    Raises:
        LabStableError: it went away, and did not come back.
    """
    try:
        yield
    except BoardlabError as error:
        if error.failure != "adapter_lost" or not console.away:
            raise
        raise LabStableError(
            f"the console's adapter went away when {name} was switched off: the adapter is fed by the board, so the "
            "board's first output after power on is lost, and its boot is not measurable. Feed the adapter by the "
            "host: take an adapter with a USB supply of its own to the board's UART pins, or cut the adapter's "
            "supply from the board",
            failure="adapter_fed_by_board",
        ) from error


# --- When the rails rise at a power on ---


RISE_WAIT_NS: Final = 500_000_000  # after the switch's answer; a PMIC needs a tenth of it


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

        def risen(edge: PowerEdge) -> PowerEdge:
            if sampler is None:
                return edge
            try:
                rose_ns = _rise_ns(board, sampler, edge)
                sampling.close()
            except BoardlabError as error:
                _log.warning("the rails do not say when %s got its power: %s", board.board, error)
                return edge
            return attr.evolve(edge, rose_ns=rose_ns)

        yield risen


def _rise_ns(board: Board, sampler: Sampler, edge: PowerEdge) -> tuple[int, int] | None:
    """Wait for the first rail to rise, but not for long."""
    clock = board.power.clock
    while True:
        now_ns = clock.now_ns()
        rose_ns = first_rise_ns(sampler.trace(now_ns))
        if rose_ns is None or rose_ns[1] <= now_ns or now_ns > edge.acknowledged_ns + RISE_WAIT_NS:
            return rose_ns
        board.console.poll(POLL_S)


# --- A board that fell silent: has it lost its power? Whoever can tell is asked, and else the message says so ---


_SILENCES: Final = ("silent", "hang_", "hung_resume", "prompt_unanswered")  # a board without power looks like that
# May, too; a line whose power goes between two of its characters seems to have lost some.
_OTHERS: Final = (
    "autoboot_missed",
    "login_failed",
    "did_not_suspend",
    "shell_timeout",
    "uboot_timeout",
    "characters_lost",
)
_RAILS_LIMIT_S: Final = 10.0


@contextmanager
def power_asked(board: Board, *, rails: bool = True) -> Iterator[None]:
    """Check the power when the board falls silent in this block.

    An unexplained silence names power among its causes.

    Args:
        rails: switched-off supplies mean that the power is gone; those of a sleeping board may be off.

    Raises:
        LabTransientError: it has lost its power (`power_lost`). BoardTransientError, LabTransientError: the original
            error.
    """
    try:
        yield
    except (BoardTransientError, LabTransientError) as error:
        if not error.failure.startswith((*_SILENCES, *_OTHERS)):
            raise
        doubts: list[str] = []
        lost = _lost(board, doubts, rails=rails and board.rails is not None)
        if lost:
            raise LabTransientError(
                f"{board.board} has lost its power: {lost}. It fell silent: {error}. Who else switches it?",
                failure="power_lost",
            ) from error
        if not doubts or not error.failure.startswith(_SILENCES):
            raise
        raise BoardTransientError(f"{error}. Or its power was cut: {doubts[0]}", failure=error.failure) from error


def _lost(board: Board, doubts: list[str], *, rails: bool) -> str:
    """Evidence that the board has no power; empty: none.

    `doubts` gets the reasons why that is not certain; none: it has power.
    """
    if rails:
        volts = _volts(board)
        if volts and max(volts.values()) < RAIL_OFF_V:
            return f"its rails are off ({', '.join(f'{name} {value:.2f} V' for name, value in volts.items())})"
        if volts:
            return ""
    outlet = board.power.outlet
    try:
        on = is_on(board.power)
    except BoardlabError as error:
        on = None
        doubts.append(f"the power switch does not say ({error.failure})")
    if on is False:
        return f"the power switch says that its outlet ({outlet.label}) is off"
    last = last_command(outlet)
    if on is None and last is not None and last.command == "off" and last.at > board.on_at:
        at = datetime.fromtimestamp(last.at, UTC).strftime("%H:%M:%S UTC")
        return f"another program of this host switched its outlet ({outlet.label}) off at {at}"
    if on is None and not doubts:
        doubts.append(f"the power switch cannot tell whether its outlet ({outlet.label}) is on")
    return ""


def _volts(board: Board) -> dict[str, float]:
    """Voltages of the rails now; empty: not known."""
    try:
        volts: dict[str, float] = guarded_calls.call(board.rails, RAILS, "read", board.rails.volts, _RAILS_LIMIT_S)
    except BoardlabError:  # the boot failed; silent sensors change nothing
        return {}
    return volts


# --- One time line for the instants of a board: those of its console and those of its switches ---
# Stamps are taken on the host with the port. Where that is another host than this one, the switches' instants, which
# are taken here, are carried over to that host's clock, and what that may be wrong by widens them.


def relate(console: Any, *switches: Any) -> None:
    """Relate the switches' clocks to the console's time line, if any."""
    relation: ClockRelation | None = getattr(console, "relation", None)
    for switch in switches:
        if switch is None:
            continue
        known = getattr(switch.clock, "relation", None)
        if relation is None and known is not None:
            switch.clock = MonotonicRaw()
        elif relation is not None and known is not relation:
            switch.clock = RelatedClock(relation, MonotonicRaw())


def bound_ns(clock: Any) -> int:
    """Largest distance of this clock from the console's time line.

    Raises:
        LabTransientError: the clocks cannot be related.
    """
    return clock.bound_ns() if isinstance(clock, RelatedClock) else 0


def widened(edge: PowerEdge, clock: Any) -> PowerEdge:
    """An edge that covers the instant on the console's time line.

    Raises:
        LabTransientError: the clocks cannot be related.
    """
    bound = bound_ns(clock)
    return attr.evolve(edge, requested_ns=edge.requested_ns - bound, acknowledged_ns=edge.acknowledged_ns + bound)


# --- The labgrid place that a board belongs to: it can be taken away at any time ---


_log = logging.getLogger(__name__)


@define
class PlaceHolders:
    """Places of a target and their holders at the first check.

    labgrid checks once, when it makes the target. A later holder of the place switches the board's power, too.
    """

    target: Any
    _holders: dict[str, str] = field(factory=dict, init=False)

    def check(self) -> None:
        """Check that the places' holders are unchanged.

        A coordinator that does not answer changes nothing.

        Raises:
            LabStableError: a place has another holder.
        """
        for resource in self.target.resources:
            if isinstance(resource, RemotePlace):
                manager = resource.get_managed_parent().manager
                self._check(manager.url, manager.session.get_place(resource.name).name)

    def _check(self, address: str, name: str) -> None:
        from lab.places.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import

        try:
            now = Coordinator(address).holder(name)
        except LabTransientError as error:
            _log.warning("whose place %s is cannot be asked: %s", name, error)
            return
        before = self._holders.setdefault(name, now)
        if not now or now != before:
            raise LabStableError(
                f"labgrid's place {name} was taken away: it was {before or 'nobody'}'s, and is {now or 'nobody'}'s "
                "now. The board is not touched any more; acquire the place again, then resume",
                failure="place_lost",
            )
