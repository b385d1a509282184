"""Signals of a board other than its console.

They are answers of its network, levels and edges of its pins, and frames on its CAN bus.

Each has an instant on this host's CLOCK_MONOTONIC_RAW, with its ±. The kernel stamps edges (CLOCK_MONOTONIC,
gpio-v2-line-event-read) and frames (CLOCK_REALTIME, SO_TIMESTAMP); those clocks are related to ours right before and
right after the event.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, parse_qsl, urlsplit

import requests
from attrs import define, field, frozen

from lab.errors import ConfigurationError, LabTransientError
from lab.host.clock import NS_PER_S, SLEW_LIMIT, Clock
from lab.host.tcp import is_loopback

FORMS: Final = (
    "tcp://HOST:PORT, icmp://HOST, a URL of http or https, gpio://CHIP/LINE, can://CHANNEL/ID, pin://DRIVER of labgrid"
)
_TRY_S: Final = 0.25  # of the network: a board that is not there drops what it gets
_READ_S: Final = 5.0  # of a web server on a board, to its first byte
_LONG_NS: Final = round(2 * _TRY_S * NS_PER_S)
# From an edge or a frame to the kernel's stamp: an interrupt of a host that is not overloaded.
_STAMP_NS: Final = 100_000
_WIDEST_NS: Final = 10_000_000  # of a relation of two clocks of this host
_TRIES: Final = 3
_EDGES: Final = frozenset({"rising", "falling"})
_NUMBER: Final = re.compile(r"[0-9]+")
_FRAME_ID: Final = re.compile(r"[0-9A-Fa-f]{1,8}")
_LAST_STANDARD_ID, _LAST_FRAME_ID = 0x7FF, 0x1FFF_FFFF  # linux/can.h: CAN_SFF_MASK, CAN_EFF_MASK
_EXTENDED_DIGITS: Final = 8  # as can-utils write them
_FLOAT_NS: Final = 1_000  # python-can's stamps are floats of seconds
_EARLY_FRAME: Final = "< ok >< frame"  # python-can's client of socketcand refuses a frame that comes with the answer


@frozen
class Instant:
    """An event between `t_ns` - `uncertainty_ns` and `t_ns` of CLOCK_MONOTONIC_RAW."""

    t_ns: int
    uncertainty_ns: int


class Signal(Protocol):
    """A signal that is waited for."""

    def poll(self) -> Instant | None:
        """Its first event; None: none yet.

        Raises:
            LabError: the equipment fails.
        """
        ...

    def close(self) -> None:
        """Give the equipment back."""
        ...


def signal(
    address: str, clock: Clock, since_ns: int, pin: Callable[[str], Callable[[], bool]] | None = None
) -> Signal:
    """The signal at an address; it counts from now on.

    Args:
        since_ns: the board's power on, on `clock`.
        pin: from the name of a driver to what reads its level; None: there are none.

    Raises:
        ConfigurationError: the address is none, or the library for it is not installed.
        LabError: the equipment cannot be used.
    """
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"{address!r}: {error}") from error
    if parts.scheme == "pin" and pin is not None and parts.netloc:
        return _pin(parts, clock, since_ns, pin(parts.netloc))
    make = _KINDS.get(parts.scheme)
    if make is None or not (parts.netloc or parts.scheme == "gpio") or (parts.scheme == "tcp" and port is None):
        raise ConfigurationError(f"{address!r} is no signal: {FORMS}")
    return make(parts, clock, since_ns)


@define
class Answer:
    """An answer: it came between the start of the last try without one and the end of the first with one.

    A try without one that took long shows nothing: this host, or what was asked, stood still.
    """

    attempt: Callable[[], bool]
    clock: Clock
    since_ns: int

    def poll(self) -> Instant | None:
        began_ns = self.clock.now_ns()
        if not self.attempt():
            if self.clock.now_ns() - began_ns <= _LONG_NS:
                self.since_ns = began_ns
            return None
        came_ns = self.clock.now_ns()
        return Instant(came_ns, came_ns - self.since_ns)

    def close(self) -> None:
        """Nothing is held."""


def _tcp(parts: SplitResult, clock: Clock, since_ns: int) -> Signal:
    def connects() -> bool:
        try:
            socket.create_connection((parts.hostname or "", parts.port or 0), _TRY_S).close()
        except OSError:
            return False
        return True

    return Answer(connects, clock, since_ns)


def _http(parts: SplitResult, clock: Clock, since_ns: int) -> Signal:
    def responds() -> bool:
        try:
            with requests.get(parts.geturl(), timeout=(_TRY_S, _READ_S), stream=True) as answer:
                return answer.ok
        except requests.RequestException:
            return False

    return Answer(responds, clock, since_ns)


def _icmp(parts: SplitResult, clock: Clock, since_ns: int) -> Signal:
    command = ["ping", "-n", "-q", "-c", "1", "-W", str(_TRY_S), parts.hostname or ""]

    def echoes() -> bool:
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=4)
        except FileNotFoundError as error:
            raise ConfigurationError(f"{parts.geturl()} needs the program ping: apt install iputils-ping") from error
        except subprocess.TimeoutExpired:
            return False
        if done.returncode not in {0, 1}:  # iputils ping(8): 1, no answer; 2, another error
            reason = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            if "unreachable" not in reason.lower():
                raise ConfigurationError(f"{parts.geturl()}: {reason}")
        return done.returncode == 0

    return Answer(echoes, clock, since_ns)


def _pin(parts: SplitResult, clock: Clock, since_ns: int, level: Callable[[], bool]) -> Signal:
    options = dict(parse_qsl(parts.query))
    edge = options.pop("edge", "rising")
    if edge not in _EDGES or options or parts.path:
        raise ConfigurationError(f"{parts.geturl()!r}: pin://DRIVER or pin://DRIVER?edge=falling")
    return Answer(lambda: level() is (edge == "rising"), clock, since_ns)


@frozen
class _Reading:
    """Another clock of this host less ours, at an instant of ours."""

    at_ns: int
    offset_ns: int
    bound_ns: int


@define
class StampRelation:
    """Converts stamps of another clock of this host."""

    clock: Clock
    other: Callable[[], int]
    name: str
    _first: _Reading = field(init=False)
    _before: _Reading = field(init=False)
    _after: _Reading = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._first = self._before = self._after = self._read()

    def look(self) -> None:
        """Read both clocks, after a look that found no event or before one is converted."""
        self._before, self._after = self._after, self._read()

    def instant(self, t_ns: int, since_ns: int | None = None) -> Instant:
        """The instant of a stamp that came since the look before.

        Args:
            since_ns: on `clock`; the event came between then and the stamp. None: at the stamp.

        Raises:
            LabTransientError: that clock was set meanwhile, or the stamp is another clock's.
        """
        before, after = self._before, self._after
        moved_ns = abs(after.offset_ns - before.offset_ns)
        between_ns = after.at_ns - before.at_ns
        bound_ns = moved_ns + before.bound_ns + after.bound_ns + round(SLEW_LIMIT * between_ns)
        if bound_ns > _WIDEST_NS:
            raise LabTransientError(
                f"{self.name} went {moved_ns / 1e6:.1f} ms against CLOCK_MONOTONIC_RAW within {between_ns / 1e6:.0f} "
                "ms: it was set. The event's stamp says nothing; measure it again",
                failure="clock_unrelated",
            )
        middle_ns = t_ns - (before.offset_ns + after.offset_ns) // 2
        early_ns, late_ns = self._first.at_ns - middle_ns, middle_ns - after.at_ns
        if max(early_ns, late_ns) > bound_ns + _STAMP_NS:
            when = f"{early_ns / 1e9:.3f} s before" if early_ns > late_ns else f"{late_ns / 1e9:.3f} s after"
            raise LabTransientError(
                f"the event's stamp is {when} the time in which it came, by {self.name} of this host: another clock "
                "gave it. Wait for the event on the host that stamps it",
                failure="clock_unrelated",
            )
        latest_ns = middle_ns + bound_ns
        return Instant(latest_ns, 2 * bound_ns + _STAMP_NS if since_ns is None else latest_ns - since_ns)

    def _read(self) -> _Reading:
        tries = []
        for _ in range(_TRIES):
            began_ns = self.clock.now_ns()
            other_ns = self.other()
            width_ns = self.clock.now_ns() - began_ns
            tries.append((width_ns, began_ns, other_ns))
        width_ns, began_ns, other_ns = min(tries)
        middle_ns = began_ns + width_ns // 2
        return _Reading(middle_ns, other_ns - middle_ns, width_ns // 2 + 1)


def _library(name: str, extra: str, address: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"{address} needs the Python package {name}: pip install 'boardlab[{extra}]'"
        ) from error


@define
class _Edge:
    """An edge of a GPIO line, by gpiod's line request.

    The kernel keeps a line's last 16 edges. A first one that it dropped came since `since_ns`, the last look without
    any.
    """

    request: Any
    relation: StampRelation
    since_ns: int

    def poll(self) -> Instant | None:
        began_ns = self.relation.clock.now_ns()
        try:
            events = self.request.read_edge_events() if self.request.wait_edge_events(0) else []
        except OSError as error:
            raise LabTransientError(f"the GPIO chip is gone: {error}", failure="tester_broken") from error
        self.relation.look()
        if not events:
            self.since_ns = began_ns
            return None
        is_first = events[0].line_seqno == 1
        return self.relation.instant(events[0].timestamp_ns, None if is_first else self.since_ns)

    def close(self) -> None:
        self.request.release()


def _gpio(parts: SplitResult, clock: Clock, _since_ns: int) -> Signal:
    address, options = parts.geturl(), dict(parse_qsl(parts.query))
    chip, _, line = parts.path.rpartition("/")
    if parts.netloc:
        chip, line = f"/dev/{parts.netloc}", parts.path.strip("/")
    edge = options.pop("edge", "rising")
    if not line or edge not in _EDGES or options:
        raise ConfigurationError(f"{address!r}: gpio://gpiochip0/17 or gpio://gpiochip0/17?edge=falling")
    try:
        Path(chip).stat()
    except OSError as error:
        raise ConfigurationError(f"{address}: {chip}: {error.strerror}; `gpiodetect` lists the chips") from error
    gpiod = _library("gpiod", "gpio", address)
    settings = gpiod.LineSettings(
        direction=gpiod.line.Direction.INPUT,
        edge_detection=gpiod.line.Edge.RISING if edge == "rising" else gpiod.line.Edge.FALLING,
        event_clock=gpiod.line.Clock.MONOTONIC,
    )
    opened_ns, relation = clock.now_ns(), StampRelation(clock, time.monotonic_ns, "CLOCK_MONOTONIC")
    try:
        request = gpiod.request_lines(
            chip, consumer="boardlab", config={int(line) if _NUMBER.fullmatch(line) else line: settings}
        )
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{address}: {error}; is the line there and free (gpioinfo), and may this user open {chip}?"
        ) from error
    return _Edge(request, relation, opened_ns)


@define
class _Frame:
    """A data frame on a CAN bus, by python-can.

    The kernel may begin to stamp some milliseconds after it was asked to; a frame before that has the time of its
    reading (`__sock_recv_timestamp`). It came since `since_ns`, the last look without any.
    """

    bus: Any
    identity: int
    is_extended: bool
    relation: StampRelation
    since_ns: int

    def poll(self) -> Instant | None:
        frame = None
        began_ns, asked_ns = self.relation.clock.now_ns(), self.relation.other()
        try:
            while frame is None and (message := self.bus.recv(0)) is not None:
                if message.is_error_frame or message.is_remote_frame:
                    continue
                if (message.arbitration_id, message.is_extended_id) == (self.identity, self.is_extended):
                    frame = message
        except Exception as error:
            raise LabTransientError(
                f"the CAN bus fails: {error}; is it up (ip link show)?", failure="tester_broken"
            ) from error
        self.relation.look()
        if frame is None:
            self.since_ns = began_ns
            return None
        t_ns = round(frame.timestamp * NS_PER_S)
        return self.relation.instant(t_ns, None if t_ns < asked_ns - _FLOAT_NS else self.since_ns)

    def close(self) -> None:
        self.bus.shutdown()


def _can(parts: SplitResult, clock: Clock, _since_ns: int) -> Signal:
    address = parts.geturl()
    identity = parts.path.removeprefix("/")
    frame_id = int(identity, 16) if _FRAME_ID.fullmatch(identity) else _LAST_FRAME_ID + 1
    if frame_id > _LAST_FRAME_ID:
        raise ConfigurationError(
            f"{address!r}: can://can0/123, with the frame's id in hexadecimal digits; eight are an extended one"
        )
    is_extended = len(identity) == _EXTENDED_DIGITS or frame_id > _LAST_STANDARD_ID
    can = _library("can", "can", address)
    options: Mapping[str, Any] = {
        "interface": "socketcan",
        **{k: int(v) if v.isdecimal() else v for k, v in parse_qsl(parts.query)},
    }
    interface = options["interface"]
    if interface not in _STAMPED or not is_loopback(str(options.get("host", "localhost"))):
        raise ConfigurationError(
            f"{address}: which clock stamps its frames is not known: the interfaces that count are "
            f"{', '.join(sorted(_STAMPED))}, socketcand on this host"
        )
    if interface == "socketcan":  # the kernel's filter: its buffer then holds the first frame, whatever else is sent
        mask = _LAST_FRAME_ID if is_extended else _LAST_STANDARD_ID
        options = {**options, "can_filters": [{"can_id": frame_id, "can_mask": mask, "extended": is_extended}]}
    own = f"{_EARLY_FRAME} {frame_id:0{_EXTENDED_DIGITS if is_extended else 3}X} "
    for left in reversed(range(_TRIES)):
        opened_ns, relation = clock.now_ns(), StampRelation(clock, time.time_ns, "CLOCK_REALTIME")
        try:
            bus = can.Bus(channel=parts.netloc, **options)
        except Exception as error:
            if _EARLY_FRAME not in str(error):
                raise ConfigurationError(
                    f"{address}: {error}; is the bus up (ip link show {parts.netloc})?"
                ) from error
            if own in str(error) or not left:
                raise LabTransientError(
                    f"{address}: frames came while the bus was opened: {error}", failure="tester_broken"
                ) from error
        else:
            break
    return _Frame(bus, frame_id, is_extended, relation, opened_ns)


# python-can's interfaces whose frames this host's kernel stamps: SO_TIMESTAMP, of socketcand by its server.
_STAMPED: Final = frozenset({"socketcan", "socketcand", "udp_multicast"})


_KINDS: Final[Mapping[str, Callable[[SplitResult, Clock, int], Signal]]] = {
    "tcp": _tcp,
    "http": _http,
    "https": _http,
    "icmp": _icmp,
    "gpio": _gpio,
    "can": _can,
}
