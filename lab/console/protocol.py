"""Framing between the console server and its clients (Unix stream socket).

A frame is a header of five bytes, `length u32 · type u8` (little-endian, the length of the payload), and the payload:

    REQUEST  client -> server   JSON object {"op": …, …}
    ANSWER   server -> client   JSON object; one for each REQUEST and each WRITE, in their order.
                                {"error": class, "failure": …, "message": …} when it was refused
    WRITE    client -> server   bytes for the port
    RECORD   server -> client   a record as in a recording's index, 24 bytes; after a DATA record its bytes

The first request is {"op": "hello", "protocol": 1}. The others are documented at `lab.console.operations`. RECORD
frames come after "attach", between answers. After a DROPPED record the server closes the connection.
"""

from __future__ import annotations

import enum
import json
import reprlib
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from lab import errors
from lab.console.model import Chunk, Event
from lab.console.recording import RECORD, pack, unpack
from lab.errors import BoardlabError, LabStableError

PROTOCOL = 1
HEADER = struct.Struct("<IB")
CREDENTIALS = struct.Struct("@iII")  # of the other end, struct ucred of unix(7): pid, uid, gid
MAX_PAYLOAD_BYTES = 1 << 20
MAX_REQUEST_BYTES = 1 << 16  # of a REQUEST or a WRITE: the server reads one in well under a millisecond
_CROSSING = {cls.__name__: cls for cls in (errors.LabStableError, errors.LabTransientError, errors.ConfigurationError)}

Message = Mapping[str, Any]  # JSON object


class FrameType(enum.IntEnum):
    """The type of a frame; the module's docstring lists them."""

    REQUEST = 1
    ANSWER = 2
    RECORD = 3
    WRITE = 4


@frozen
class Frame:
    """One frame as it arrived."""

    type: FrameType
    payload: bytes

    def message(self) -> Message:
        """The payload of a REQUEST or an ANSWER.

        Raises:
            ValueError: it is not a JSON object, not UTF-8, or nested deeper than Python reads.
        """
        try:
            message = json.loads(self.payload.decode(), parse_constant=_no_number)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if not isinstance(message, dict):
            raise ValueError(f"expected a JSON object, got {type(message).__name__}")  # noqa: TRY004
        return message

    def event(self) -> Event:
        """The payload of a RECORD.

        Raises:
            ValueError: it is none.
        """
        if len(self.payload) < RECORD.size:
            raise ValueError(f"a record has at least {RECORD.size} bytes, got {len(self.payload)}")
        t_ns, position, n, kind = RECORD.unpack_from(self.payload)
        return unpack(t_ns, position, n, kind, self.payload[RECORD.size :])


def _no_number(name: str) -> None:
    """JSON has none of NaN, Infinity and -Infinity (RFC 8259, section 6)."""
    raise ValueError(f"{name} is no JSON")


def encode_frame(kind: FrameType, payload: bytes) -> bytes:
    """A frame as bytes."""
    return HEADER.pack(len(payload), kind) + payload


def encode_message(kind: FrameType, message: Message) -> bytes:
    """A REQUEST or an ANSWER as bytes."""
    return encode_frame(kind, json.dumps(message).encode())


def encode_event(event: Event) -> bytes:
    """A RECORD as bytes."""
    data = event.data if isinstance(event, Chunk) else b""
    return HEADER.pack(RECORD.size + len(data), FrameType.RECORD) + pack(event) + data


def refusal(error: BoardlabError) -> Message:
    """The answer to a request that failed."""
    return {"error": type(error).__name__, "failure": error.failure, "message": str(error)}


def raise_refusal(answer: Message) -> None:
    """Raise the error that an answer carries, if it carries one.

    Raises:
        BoardlabError: of the class that the server names.
    """
    if "error" in answer:
        kind = _CROSSING.get(str(answer["error"]), LabStableError)
        raise kind(str(answer.get("message", "the console server gave no reason")), failure=answer.get("failure"))


@define
class Deframer:
    """Cuts a byte stream into frames.

    Attributes:
        max_payload_bytes: a larger frame is not the protocol.
    """

    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    _buffer: bytearray = field(factory=bytearray)

    @property
    def wanted_bytes(self) -> int:
        """Number of bytes that complete the next frame or its header."""
        if len(self._buffer) < HEADER.size:
            return HEADER.size - len(self._buffer)
        length, _ = HEADER.unpack_from(self._buffer)
        return HEADER.size + int(length) - len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete after these bytes.

        Raises:
            ValueError: this is not the protocol: unknown type or oversized frame.
        """
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            length, kind = HEADER.unpack_from(self._buffer)
            if length > self.max_payload_bytes:
                raise ValueError(f"frame of {length} bytes; at most {self.max_payload_bytes} are allowed")
            frame_type = FrameType(kind)
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield Frame(frame_type, payload)


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
    """Check text for file names and log lines.

    It has no control characters and no lone surrogates.
    """

    def check(value: object) -> Problem:
        right = isinstance(value, str) and 0 < len(value) <= longest_bytes and value.isprintable()
        return "" if right and len(str(value).encode()) <= longest_bytes else what

    return check


def _boolean(value: object) -> Problem:
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
        "write": _boolean,
        "since": _or_nothing(_number(0, _MAX_POSITION)),
        "session": _or_nothing(_NAME),
    },
    "clock": {},
    "close": {"name": _NAME},
    "status": {"name": _or_nothing(_NAME), "after": _or_nothing(_number(0, _MAX_POSITION))},
    "stop": {},
}


def check_request(message: Message) -> str:
    """Return the request's operation after checking all its fields.

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
