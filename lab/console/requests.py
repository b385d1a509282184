"""What a request has to look like: every field of every request is checked here, and nowhere else."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping

from lab.console.wire import Message
from lab.errors import LabStableError

MAX_PATH_BYTES = 4095  # PATH_MAX of <linux/limits.h>, less the final NUL
MAX_NAME_CHARACTERS = 255
_MAX_SPEED_BD = 1 << 26  # above any that a UART has; which ones there are is termios' to say
_MAX_LATENCY_NS = 10_000_000_000
_MAX_FIFO_BYTES = 1 << 20
_MAX_POSITION = (1 << 63) - 1
_MAX_PROTOCOL = (1 << 31) - 1
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60

Problem = str  # what was expected; "" where the value is right
Check = Callable[[object], Problem]


def _number(low: int, high: int) -> Check:
    def check(value: object) -> Problem:
        right = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if right else f"a whole number from {low} to {high}"

    return check


def _text(longest_bytes: int, what: str) -> Check:
    """Text that a file's name and a line of a log can hold: no control characters, no lone surrogates."""

    def check(value: object) -> Problem:
        right = isinstance(value, str) and 0 < len(value) <= longest_bytes and value.isprintable()
        return "" if right and len(str(value).encode()) <= longest_bytes else what

    return check


def _truth(value: object) -> Problem:
    return "" if isinstance(value, bool) else "true or false"


def _or_nothing(check: Check) -> Check:
    return lambda value: "" if value is None else check(value)


_NAME = _text(MAX_NAME_CHARACTERS, "a port's name: printable text")
_PATH = _text(MAX_PATH_BYTES, "a path: printable text")

# A field that may be absent, or null, is checked by `_or_nothing`. Fields that are not listed are for newer servers.
_SHAPES: Mapping[str, Mapping[str, Check]] = {
    "hello": {"protocol": _number(0, _MAX_PROTOCOL)},
    "open": {
        "device": _PATH,
        "speed_bd": _or_nothing(_number(1, _MAX_SPEED_BD)),
        "adapter_latency_ns": _or_nothing(_number(0, _MAX_LATENCY_NS)),
        "fifo_bytes": _or_nothing(_number(1, _MAX_FIFO_BYTES)),
        "name": _or_nothing(_NAME),
        "board": _or_nothing(_NAME),
    },
    "attach": {
        "name": _NAME,
        "write": _truth,
        "since": _or_nothing(_number(0, _MAX_POSITION)),
        "session": _or_nothing(_NAME),
    },
    "clock": {},
    "close": {"name": _NAME},
    "status": {"name": _or_nothing(_NAME), "after": _or_nothing(_number(0, _MAX_POSITION))},
    "stop": {},
}


def checked(message: Message) -> str:
    """The operation that a request asks for; all its fields are there, and are what they have to be.

    Raises:
        LabStableError: no such operation, or a field that is missing or wrong; the message names it.
    """
    operation = message.get("op")
    shape = _SHAPES.get(operation) if isinstance(operation, str) else None
    if shape is None:
        raise LabStableError(f"unknown request {_REPR.repr(operation)}; this server knows {', '.join(_SHAPES)}")
    for name, check in shape.items():
        if expected := check(message.get(name)):
            got = _REPR.repr(message[name]) if name in message else "nothing"
            raise LabStableError(
                f"request {operation!r}: missing or wrong field: {name!r}: expected {expected}, got {got}"
            )
    return str(operation)
