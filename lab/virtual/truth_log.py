"""True events of a virtual board, for the check of stamps.

A truth log is one append-only file: a header line with the line's speed, then records. A record is `<cqqI`
(kind, t_ns, delivered_ns, size) and `size` bytes of payload; times are CLOCK_MONOTONIC_RAW. Kinds: D, bytes that
left the UART without a gap, the last of them at t_ns; O, an overrun, the payload names the bytes lost;
P, the power input, the payload is its new state; N, a note of the board itself (a simulated one: the stage that it
enters and how long it will take).
"""

from __future__ import annotations

import logging
import re
import struct
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from attrs import frozen

from lab.errors import ConfigurationError
from lab.virtual.line import BITS_PER_BYTE
from lab.virtual.sim.program import NS_PER_MS

_RECORD = struct.Struct("<cqqI")
_MAGIC = "boardlab-truth-1"
_FLUSH_BYTES = 1 << 16
DATA, OVERRUN, POWER, NOTE = b"D", b"O", b"P", b"N"
_log = logging.getLogger(__name__)


class TruthLog:
    """Writer with a buffer; `flush` makes everything visible.

    So logging costs the pacing little.

    A log that cannot be written, e.g. since the disk is full, ends there: that is said once, and the board goes on.
    """

    def __init__(self, path: Path, speed_bd: int) -> None:
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._buffer = bytearray()
        self._broken = False
        if self._file.tell() == 0:
            self._buffer += f"{_MAGIC} speed_bd={speed_bd}\n".encode()
            self.flush()

    @property
    def pending(self) -> bool:
        """There are records that are not in the file yet."""
        return bool(self._buffer)

    def data(self, end_ns: int, delivered_ns: int, data: bytes) -> None:
        """Log bytes that left the UART back to back.

        The last one left at `end_ns`; by `delivered_ns` the adapter had handed them on.
        """
        self._record(DATA, end_ns, delivered_ns, data)

    def overrun(self, t_ns: int, lost: int) -> None:
        """Log bytes that the adapter lost without a reader."""
        self._record(OVERRUN, t_ns, t_ns, str(lost).encode())

    def power(self, t_ns: int, state: str) -> None:
        """Log a power state: "on", "off", or "dead".

        Dead means that the board died by itself.
        """
        self._record(POWER, t_ns, t_ns, state.encode())
        self.flush()

    def note(self, t_ns: int, text: str) -> None:
        """The board says something about itself."""
        self._record(NOTE, t_ns, t_ns, text.encode())

    def flush(self) -> None:
        """Write what is buffered."""
        try:
            while self._buffer:
                del self._buffer[: self._file.write(self._buffer)]
        except OSError as error:
            _log.error("%s: %s; the truth ends here, until the bench is started again", self._path, error.strerror)
            self._broken = True
            self._buffer.clear()

    def close(self) -> None:
        """Write what is buffered and close the file."""
        self.flush()
        self._file.close()

    def _record(self, kind: bytes, t_ns: int, delivered_ns: int, payload: bytes) -> None:
        if self._broken:
            return
        self._buffer += _RECORD.pack(kind, t_ns, delivered_ns, len(payload))
        self._buffer += payload
        if len(self._buffer) >= _FLUSH_BYTES:
            self.flush()


@frozen
class PowerEvent:
    """A change of the power state: "on", "off" or "dead"."""

    t_ns: int
    state: str


@frozen
class Note:
    """A note of a simulated board about itself.

    For example "cycle=1 stage=kernel planned_ns=2950611603".
    """

    t_ns: int
    text: str


@frozen
class TruthMatch:
    """A match: time of its last byte, end position, and text."""

    t_ns: int
    position: int
    data: bytes


class Truth:
    """All that a truth log says.

    Attributes:
        data: every byte that was delivered, in order.
        lost: the number of bytes lost to overruns.
        power: the power events in order.
        notes: what the board said about itself, in order.
    """

    def __init__(
        self,
        speed_bd: int,
        chunks: Sequence[tuple[int, bytes]],
        lost: int,
        power: Sequence[PowerEvent],
        notes: Sequence[Note] = (),
        delivered_ns: Sequence[int] = (),
    ) -> None:
        self.data = b"".join(data for _, data in chunks)
        self.lost = lost
        self.power = tuple(power)
        self.notes = tuple(notes)
        self._byte_ns = BITS_PER_BYTE * 1e9 / speed_bd
        self._end_ns = [end_ns for end_ns, _ in chunks]
        self._delivered_ns = delivered_ns or self._end_ns
        self._end = list(accumulate(len(data) for _, data in chunks))

    def left_ns(self, position: int) -> int:
        """Time when the byte at `position` left the UART (CLOCK_MONOTONIC_RAW)."""
        chunk = bisect_right(self._end, position)
        behind = self._end[chunk] - 1 - position
        return self._end_ns[chunk] - round(behind * self._byte_ns)

    def duration_ns(self, count: int) -> int:
        """Time of so many bytes on the line."""
        return round(count * self._byte_ns)

    def delay_ns(self, position: int) -> int:
        """Possible delay of the byte's hand-over after `left_ns`.

        The bench's process was held up.
        """
        chunk = bisect_right(self._end, position)
        return self._delivered_ns[chunk] - self._end_ns[chunk]

    def matches(self, pattern: bytes, start_ns: int | None = None, end_ns: int | None = None) -> list[TruthMatch]:
        """Matches of a regular expression within [start_ns, end_ns).

        The last byte's time counts; empty matches do not.
        """
        found = [
            TruthMatch(self.left_ns(match.end() - 1), match.end(), match.group())
            for match in re.finditer(pattern, self.data)
            if match.end() > match.start()
        ]
        return [
            one
            for one in found
            if (start_ns is None or one.t_ns >= start_ns) and (end_ns is None or one.t_ns < end_ns)
        ]

    def find(self, pattern: bytes, start_ns: int | None = None, end_ns: int | None = None) -> list[int]:
        """Time of the last byte of each match (CLOCK_MONOTONIC_RAW)."""
        return [one.t_ns for one in self.matches(pattern, start_ns, end_ns)]


def read_truth(path: Path) -> Truth:
    """Read a truth log, without the torn last record.

    A killed bench leaves such a record.

    Raises:
        ConfigurationError: no such file, or it is no truth log.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot read the truth log: {error.strerror}") from error
    header, _, body = raw.partition(b"\n")
    known = re.fullmatch(rf"{_MAGIC} speed_bd=(\d+)".encode(), header)
    if known is None:
        raise ConfigurationError(
            f"{path}: expected a truth log that begins with '{_MAGIC} speed_bd=...', found {header[:40]!r}"
        )
    chunks: list[tuple[int, bytes]] = []
    delivered: list[int] = []
    power: list[PowerEvent] = []
    notes: list[Note] = []
    lost = place = 0
    while place + _RECORD.size <= len(body):
        kind, t_ns, delivered_ns, size = _RECORD.unpack_from(body, place)
        payload = body[place + _RECORD.size : place + _RECORD.size + size]
        if len(payload) < size:
            break
        place += _RECORD.size + size
        if kind == DATA:
            chunks.append((t_ns, payload))
            delivered.append(delivered_ns)
        elif kind == OVERRUN:
            lost += int(payload)
        elif kind == POWER:
            power.append(PowerEvent(t_ns, payload.decode()))
        elif kind == NOTE:
            notes.append(Note(t_ns, payload.decode()))
    return Truth(int(known.group(1)), chunks, lost, power, notes, delivered)


# --- True times of a simulated board's boots ---
# A text alone shows little: an environment that is printed holds "Starting kernel ..." too, /etc/issue a look-alike of the
# prompt. The board notes when a kernel really takes over and when it really waits for a login.


_START = rb"Starting kernel \.\.\."
_AFTER_NS = 50 * NS_PER_MS  # largest delay of a byte after its note, on a late bench
_STAGE = re.compile(r" stage=(\S+)")


@frozen
class TrueBoot:
    """A boot to its login prompt, in the truth log's time.

    Attributes:
        on_ns: the supply came up.
        started_ns: the last byte of U-Boot's "Starting kernel ..." left the UART; in falcon mode, without that line:
            TF-A handed over to the kernel.
        prompt_ns: the last byte of the login prompt did.
    """

    on_ns: int
    started_ns: int
    prompt_ns: int

    @property
    def boot_s(self) -> float:
        """True value of `boot.time`."""
        return (self.prompt_ns - self.started_ns) / 1e9

    @property
    def from_power_on_s(self) -> float:
        """True value of `boot.power_on_to_prompt`."""
        return (self.prompt_ns - self.on_ns) / 1e9


def true_boots(truth: Truth, hostname: str) -> list[TrueBoot]:
    """Boots that reached the login prompt.

    U-Boot started them, or TF-A in falcon mode; the prompt's host name may lack a letter.
    """
    prompt = rb"[\w-]+ login: "
    half_ns = truth.duration_ns(len(f"{hostname} login: ") // 2)
    stages = [(named[1], note.t_ns) for note in truth.notes if (named := _STAGE.search(note.text))]
    found: list[TrueBoot] = []
    on_ns, started_ns, before, before_ns = 0, None, "", 0
    for number, (stage, t_ns) in enumerate(stages):
        if stage == "rom":
            on_ns, started_ns = (on_ns if before == "reset" else t_ns), None
        elif stage == "kernel":
            starts = [t_ns] if before == "tfa" else truth.find(_START, before_ns, t_ns + _AFTER_NS)
            started_ns = starts[-1] if starts else None
        elif stage == "login" and started_ns is not None:
            ends_ns = stages[number + 1][1] if number + 1 < len(stages) else None
            prompts = truth.find(prompt, t_ns + half_ns, ends_ns)
            found += [TrueBoot(on_ns, started_ns, prompts[0])] if prompts else []
            started_ns = None
        before, before_ns = stage, t_ns
    return found
