"""Signals of a board outside its console: network answers, levels and edges of pins, frames on a CAN bus.

Each signal gives one instant on this host's CLOCK_MONOTONIC_RAW, with its ±. The kernel stamps edges on
CLOCK_MONOTONIC (gpio-v2-line-event-read) and frames on CLOCK_REALTIME (SO_TIMESTAMP). Both clocks are read beside
ours right before and right after the event, so that a stamp can be converted.
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
_TRY_S: Final = 0.25  # limit of one try of the network; a board that is not up yet does not even refuse
_READ_S: Final = 5.0  # limit to the first byte of a board's web server
_LONG_NS: Final = round(2 * _TRY_S * NS_PER_S)  # a failed try that took longer proves nothing, see `Answer`
# From an edge or a frame to the kernel's stamp: an interrupt of a host that is not overloaded.
_STAMP_NS: Final = 100_000
_WIDEST_NS: Final = 10_000_000  # a wider relation of two clocks of this host means that one was set
_TRIES: Final = 3
_EDGES: Final = frozenset({"rising", "falling"})
_NUMBER: Final = re.compile(r"[0-9]+")
_FRAME_ID: Final = re.compile(r"[0-9A-Fa-f]{1,8}")
_LAST_STANDARD_ID, _LAST_FRAME_ID = 0x7FF, 0x1FFF_FFFF  # linux/can.h: CAN_SFF_MASK, CAN_EFF_MASK
_EXTENDED_DIGITS: Final = 8  # can-utils write an extended id with eight hexadecimal digits, a standard one with three
_FLOAT_NS: Final = 1_000  # resolution of python-can's stamps, which are seconds since 1970 as a float
_EARLY_FRAME: Final = "< ok >< frame"  # python-can's client of socketcand refuses a frame that comes with the answer


@frozen
class Instant:
    """The time of an event on CLOCK_MONOTONIC_RAW: not before `t_ns` - `uncertainty_ns`, and not after `t_ns`."""

    t_ns: int
    uncertainty_ns: int


class Signal(Protocol):
    """A signal that a caller waits for by polling it."""

    def poll(self) -> Instant | None:
        """Look for the signal without waiting.

        Returns:
            The instant of its first event; None: none has come yet.

        Raises:
            LabError: the equipment fails.
        """
        ...

    def close(self) -> None:
        """Release the equipment."""
        ...


def signal(
    address: str, clock: Clock, since_ns: int, pin: Callable[[str], Callable[[], bool]] | None = None
) -> Signal:
    """Open the signal at an address; events from now on count.

    Args:
        address: one of `FORMS`.
        since_ns: the board's power on, on `clock`.
        pin: returns for the name of a labgrid driver a function that reads its level; None: no drivers.

    Raises:
        ConfigurationError: the address is wrong, or the library for it is not installed.
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
    """An answer that is tried for again and again.

    It came between the start of the last try that failed and the end of the first one that succeeded. A failed try
    that took long proves nothing: this host, or the asked one, stood still.

    Attributes:
        attempt: makes one try; True: the answer came.
        since_ns: the answer came after this instant of `clock`.
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
        """Do nothing: no equipment is held between two tries."""


def _tcp(parts: SplitResult, clock: Clock, since_ns: int) -> Signal:
    """Open tcp://HOST:PORT: the first connection that is accepted."""

    def connects() -> bool:
        try:
            socket.create_connection((parts.hostname or "", parts.port or 0), _TRY_S).close()
        except OSError:
            return False
        return True

    return Answer(connects, clock, since_ns)


def _http(parts: SplitResult, clock: Clock, since_ns: int) -> Signal:
    """Open a URL: the first response with a status below 400."""

    def responds() -> bool:
        try:
            with requests.get(parts.geturl(), timeout=(_TRY_S, _READ_S), stream=True) as answer:
                return answer.ok
        except requests.RequestException:
            return False

    return Answer(responds, clock, since_ns)


def _icmp(parts: SplitResult, clock: Clock, since_ns: int) -> Signal:
    """Open icmp://HOST: the first echo."""
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
    """Open pin://DRIVER: the first time that the pin has the level after the edge."""
    options = dict(parse_qsl(parts.query))
    edge = options.pop("edge", "rising")
    if edge not in _EDGES or options or parts.path:
        raise ConfigurationError(f"{parts.geturl()!r}: pin://DRIVER or pin://DRIVER?edge=falling")
    return Answer(lambda: level() is (edge == "rising"), clock, since_ns)


@frozen
class _Reading:
    """The difference of another clock of this host to ours.

    Attributes:
        at_ns: instant of the reading, on our clock.
        offset_ns: the other clock less ours.
        bound_ns: ± of the difference.
    """

    at_ns: int
    offset_ns: int
    bound_ns: int


@define
class StampRelation:
    """Converts stamps of another clock of this host to ours.

    Attributes:
        clock: our clock.
        other: reads the other clock, in ns.
        name: name of the other clock, for messages.
    """

    clock: Clock
    other: Callable[[], int]
    name: str
    _first: _Reading = field(init=False)
    _before: _Reading = field(init=False)
    _after: _Reading = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._first = self._before = self._after = self._read()

    def look(self) -> None:
        """Read both clocks; call it after each poll, and before a stamp of that poll is converted."""
        self._before, self._after = self._after, self._read()

    def instant(self, t_ns: int, since_ns: int | None = None) -> Instant:
        """Convert a stamp that came between the last two looks.

        Args:
            t_ns: the stamp, on the other clock.
            since_ns: the event came between this instant of `clock` and the stamp; None: exactly at the stamp.

        Raises:
            LabTransientError: the other clock was set meanwhile, or the stamp is of a third clock.
        """
        before, after = self._before, self._after
        moved_ns = abs(after.offset_ns - before.offset_ns)
        between_ns = after.at_ns - before.at_ns
        bound_ns = moved_ns + before.bound_ns + after.bound_ns + round(SLEW_LIMIT * between_ns)
        if bound_ns > _WIDEST_NS:
            raise LabTransientError(
                f"{self.name} moved by {moved_ns / 1e6:.1f} ms against CLOCK_MONOTONIC_RAW within "
                f"{between_ns / 1e6:.0f} ms: it was set. The event's stamp is useless; measure it again",
                failure="clock_unrelated",
            )
        middle_ns = t_ns - (before.offset_ns + after.offset_ns) // 2
        early_ns, late_ns = self._first.at_ns - middle_ns, middle_ns - after.at_ns
        if max(early_ns, late_ns) > bound_ns + _STAMP_NS:
            when = f"{early_ns / 1e9:.3f} s before" if early_ns > late_ns else f"{late_ns / 1e9:.3f} s after"
            raise LabTransientError(
                f"the event's stamp is {when} the interval in which it came, by {self.name} of this host: it is the "
                "stamp of another clock. Wait for the event on the host that stamps it",
                failure="clock_unrelated",
            )
        latest_ns = middle_ns + bound_ns
        return Instant(latest_ns, 2 * bound_ns + _STAMP_NS if since_ns is None else latest_ns - since_ns)

    def _read(self) -> _Reading:
        """Read both clocks a few times, and keep the try with the smallest ±."""
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
    """Import the library that an address needs.

    Args:
        extra: extra of the package boardlab that installs it.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"{address} needs the Python package {name}: pip install 'boardlab[{extra}]'"
        ) from error


@define
class _Edge:
    """The first edge of a GPIO line.

    The kernel buffers the last 16 edges of a line. If the first one was pushed out of the buffer, it came after the
    last poll without an edge.

    Attributes:
        request: gpiod's line request.
        since_ns: instant of that poll, on the relation's `clock`.
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
    """Open gpio://CHIP/LINE: the first edge of a line, which is requested for it."""
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
    """The first data frame of one id on a CAN bus.

    The kernel may begin to stamp some milliseconds after it was asked to. A frame before that has the time of its
    reading (`__sock_recv_timestamp`), so it came after the last poll without a frame.

    Attributes:
        bus: python-can's bus.
        identity: the frame's id.
        since_ns: instant of that poll, on the relation's `clock`.
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
    """Open can://CHANNEL/ID: the first data frame of an id."""
    address = parts.geturl()
    identity = parts.path.removeprefix("/")
    frame_id = int(identity, 16) if _FRAME_ID.fullmatch(identity) else _LAST_FRAME_ID + 1
    if frame_id > _LAST_FRAME_ID:
        raise ConfigurationError(
            f"{address!r}: write can://can0/123, with the frame's id in hexadecimal digits; eight digits are an "
            "extended id"
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
            f"{address}: it is unknown which clock stamps the frames of this interface. Use one of "
            f"{', '.join(sorted(_STAMPED))}, and socketcand only on this host"
        )
    if interface == "socketcan":
        # With the kernel's filter other frames cannot push the first one out of the socket's buffer.
        mask = _LAST_FRAME_ID if is_extended else _LAST_STANDARD_ID
        options = {**options, "can_filters": [{"can_id": frame_id, "can_mask": mask, "extended": is_extended}]}
    early_own_frame = f"{_EARLY_FRAME} {frame_id:0{_EXTENDED_DIGITS if is_extended else 3}X} "
    for tries_left in reversed(range(_TRIES)):
        opened_ns, relation = clock.now_ns(), StampRelation(clock, time.time_ns, "CLOCK_REALTIME")
        try:
            bus = can.Bus(channel=parts.netloc, **options)
        except Exception as error:
            if _EARLY_FRAME not in str(error):
                raise ConfigurationError(
                    f"{address}: {error}; is the bus up (ip link show {parts.netloc})?"
                ) from error
            if early_own_frame in str(error) or not tries_left:
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
