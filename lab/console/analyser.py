"""Captures of a logic analyser as the truth for a recording's stamps.

A capture is sigrok's CSV (`sigrok-cli -O csv`). The bytes of a UART in it are found in the recording; one offset
between the analyser's clock and ours must put each of them where its stamp and ± say.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.console.delays import DelayTracker
from lab.console.model import Chunk, Gap, Lateness
from lab.console.recording import Recording
from lab.errors import ConfigurationError

_LARGEST: Final = 512 << 20  # bytes of a capture
_RATE: Final = re.compile(r";\s*Samplerate:\s*(\d+(?:\.\d+)?)\s*([kMG]?)Hz\s*$", re.IGNORECASE)
_CHANNELS: Final = re.compile(r";\s*Channels \(\d+/\d+\):\s*(.+)$")
_TIME: Final = re.compile(
    r"(?:time\W*)?\(?\[?(s|ms|us|ns|seconds|milliseconds|microseconds|nanoseconds)\]?\)?", re.IGNORECASE
)
_UNITS: Final = {"s": 1e9, "m": 1e6, "u": 1e3, "n": 1.0, "": 1e9}  # ns, by the first letter of the unit
_PREFIXES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
CRYSTALS: Final = 100e-6  # by which two clocks of an analyser and a host may differ
_FEWEST: Final = 4  # bytes that can be found without doubt


@frozen
class LogicChannel:
    """The levels of a channel.

    Attributes:
        first: the level at the begin.
        changes: instants in ns.
    """

    first: bool
    changes: tuple[float, ...]

    def at(self, t_ns: float) -> bool:
        """The level at an instant."""
        return self.first ^ bool(bisect_right(self.changes, t_ns) % 2)


def read(path: Path) -> dict[str, LogicChannel]:
    """The channels of a capture.

    Raises:
        ConfigurationError: it cannot be read, or is no CSV of sigrok; the message names the line.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigurationError(f"{path}: larger than {_LARGEST >> 20} MiB; cut it, or export it with `dedup`")
        rows = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: no text at byte {error.start}; export the capture as CSV") from error
    rate_hz, names, at = _head(rows)
    header = [cell.strip() for cell in rows[at].split(",")] if at < len(rows) else []
    unit = _TIME.fullmatch(header[0]) if header else None
    labels = [] if all(re.fullmatch(r"[01]", cell) for cell in header) else header
    times = unit is not None
    if labels and set(labels[times:]) - {"logic"}:
        names = labels[times:]
    count = len(header) - times
    names = names if len(names) == count else [f"D{number}" for number in range(count)]
    if count < 1 or (not times and not rate_hz):
        raise ConfigurationError(
            f"{path}:{at + 1}: no capture of sigrok: it needs `; Samplerate:`, or a column with its unit, "
            "e.g. Time [s]"
        )
    scale = _UNITS[unit[1][0].lower()] if unit else 1e9 / rate_hz
    return _channels(path, rows, at + bool(labels), names, scale, times=times)


def _head(rows: Sequence[str]) -> tuple[float, list[str], int]:
    """The sample rate, the channels' names, and the number of the first line behind the comments."""
    rate_hz, names = 0.0, []
    for number, row in enumerate(rows):
        if match := _RATE.match(row):
            rate_hz = float(match[1]) * _PREFIXES[match[2].lower()]
        elif match := _CHANNELS.match(row):
            names = [name.strip() for name in match[1].split(",")]
        elif row.strip() and not row.startswith(";"):
            return rate_hz, names, number
    return rate_hz, names, len(rows)


def _channels(
    path: Path, rows: Sequence[str], begin: int, names: Sequence[str], scale: float, *, times: bool
) -> dict[str, LogicChannel]:
    first: list[str] = []
    before: list[str] = []
    changes: list[list[float]] = [[] for _ in names]
    for number, row in enumerate(rows[begin:]):
        cells = [cell.strip() for cell in row.split(",")]
        levels = cells[times:]
        if not row.strip() or (number and cells == ["FRAME-END"]):
            continue
        try:
            t_ns = (float(cells[0]) if times else number) * scale
        except ValueError:
            t_ns = math.nan
        if len(levels) != len(names) or set(levels) - {"0", "1"} or not math.isfinite(t_ns):
            raise ConfigurationError(
                f"{path}:{begin + number + 1}: {row[:40]!r}: expected {len(names)} levels, 0 or 1"
            )
        for channel, (old, new) in enumerate(zip(before, levels, strict=False)):
            if old != new:
                if changes[channel] and t_ns <= changes[channel][-1]:
                    raise ConfigurationError(f"{path}:{begin + number + 1}: its time goes back")
                changes[channel].append(t_ns)
        before, first = levels, first or levels
    if not first:
        raise ConfigurationError(f"{path}: no sample in it")
    return {name: LogicChannel(first[n] == "1", tuple(changes[n])) for n, name in enumerate(names)}


def uart(line: LogicChannel, speed_bd: int) -> list[tuple[float, int]]:
    """The bytes of a UART (8N1, idle high) with the instants at which their stop bits end."""
    bit_ns, received, free_ns = 1e9 / speed_bd, [], -math.inf
    for number, t_ns in enumerate(line.changes):
        falls = line.first ^ bool(number % 2)
        if not falls or t_ns < free_ns:
            continue
        bits = [line.at(t_ns + (1.5 + place) * bit_ns) for place in range(9)]
        if bits[8] and not line.at(t_ns + 0.5 * bit_ns):
            received.append((t_ns + 10 * bit_ns, sum(bit << place for place, bit in enumerate(bits[:8]))))
            free_ns = t_ns + 9.5 * bit_ns
    return received


@frozen
class StampCheck:
    """A recording's reads against a capture.

    Attributes:
        reads: compared ones.
        beyond_ns: how far each read outside its ± is, the farthest first; empty: all agree.
        slack_ns: width of the offsets that fit all reads, or the most of them.
    """

    reads: int
    beyond_ns: tuple[int, ...]
    slack_ns: int


def check(recording: Recording, data: Sequence[tuple[float, int]], where: str) -> StampCheck:
    """Hold the stamps of the reads against the true instants of their last bytes.

    Args:
        data: of `uart`.
        where: of the capture, for messages.

    Raises:
        ConfigurationError: the bytes are not in the recording.
    """
    captured = bytes(byte for _, byte in data)
    start = recording.log.find(captured) if len(captured) >= _FEWEST else -1
    if start < 0:
        raise ConfigurationError(
            f"{where}: its {len(captured)} bytes are not in the recording: is it the right channel, speed and boot, "
            "and the line not inverted?"
        )
    windows = []
    middle_ns = data[len(data) // 2][0]
    for end, t_ns, unsure_ns in _stamps(recording):
        place = end - 1 - start
        if 0 <= place < len(data):
            true_ns = data[place][0]
            drift_ns = CRYSTALS * abs(true_ns - middle_ns)
            windows.append((t_ns - unsure_ns - true_ns - drift_ns, t_ns - true_ns + drift_ns))
    if not windows:
        raise ConfigurationError(f"{where}: no read of the recording ends within it; capture a longer part")
    low, high = _best(windows)
    offset = (low + high) / 2
    beyond = sorted((round(max(w[0] - offset, offset - w[1])) for w in windows), reverse=True)
    return StampCheck(len(windows), tuple(distance_ns for distance_ns in beyond if distance_ns > 0), round(high - low))


def _stamps(recording: Recording) -> list[tuple[int, int, int]]:
    """The end, stamp and ± of each read."""
    timing = recording.meta.timing
    usual_ns = timing.delivery_ns + timing.bytes_ns(1) + timing.scheduling_ns
    delays, stamps = DelayTracker(timing), []
    base = next((event.position for event in recording.events() if isinstance(event, Chunk)), 0)
    for event in recording.events():
        if isinstance(event, Lateness):
            delays.take_evidence(event)
        elif isinstance(event, Gap):
            delays.forget()
        elif isinstance(event, Chunk):
            delay = delays.delay(event)
            stamps.append((event.end - base, event.t_ns, usual_ns + delay.late_ns + delay.backlog_ns))
    return stamps


def _best(windows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The offsets that the most windows have in common."""
    edges = sorted([(low, -1) for low, _ in windows] + [(high, 1) for _, high in windows])
    depth, deepest, best = 0, 0, (0.0, 0.0)
    for number, (at, step) in enumerate(edges):
        depth -= step
        if step < 0 and depth > deepest:
            deepest, best = depth, (at, edges[number + 1][0])
    return best
