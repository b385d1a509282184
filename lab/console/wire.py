"""The framing between the console server and its clients, over a Unix stream socket.

A frame is a header of five bytes, `length u32 · type u8` (little-endian, the length of the payload), and the payload:

    REQUEST  client -> server   JSON object {"op": …, …}
    ANSWER   server -> client   JSON object; one for each REQUEST and each WRITE, in their order.
                                {"error": class, "failure": …, "message": …} when it was refused
    WRITE    client -> server   bytes for the port
    RECORD   server -> client   a record as in a recording's index, 24 bytes; after a DATA record its bytes

The first request is {"op": "hello", "protocol": 1}. The others are documented at `lab.console.operations`. RECORD frames
come after "attach", between answers. After a DROPPED record the server closes the connection.
"""

from __future__ import annotations

import enum
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from lab import errors
from lab.console.index import RECORD, pack, unpack
from lab.console.model import Chunk, Event
from lab.errors import BoardlabError, LabStableError

PROTOCOL = 1
HEADER = struct.Struct("<IB")
CREDENTIALS = struct.Struct("@iII")  # of the other end, struct ucred of unix(7): pid, uid, gid
MAX_PAYLOAD_BYTES = 1 << 20
MAX_REQUEST_BYTES = 1 << 16  # of a REQUEST or a WRITE: the server reads one in well under a millisecond
_CROSSING = {cls.__name__: cls for cls in (errors.LabStableError, errors.LabTransientError, errors.ConfigurationError)}

Message = Mapping[str, Any]  # JSON object


class FrameType(enum.IntEnum):
    """What a frame carries; see the module's docstring."""

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
        """How many bytes end the next frame, or its header as long as that is not whole."""
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
