"""How the sampling goes, told in small files for who watches the lab (`lab.host.runtime.RailStatus`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import define

from lab.host import runtime
from lab.host.clock import NS_PER_S, utc_now
from lab.rails.model import Schedule
from lab.rails.trace import RECORD

INTERVAL_NS: Final = 2 * NS_PER_S  # between two words about a rail


@define
class _Tally:
    samples: int = 0
    gaps: int = 0
    last_ns: int = 0
    reported_samples: int = 0
    reported_ns: int = 0


class StatusReporter:
    """Counts samples and gaps, and tells of each rail now and then."""

    def __init__(self, board: str, schedule: Schedule, folder: Path) -> None:
        """Nothing is counted yet. `folder`: where the exporter looks."""
        self._board = board
        self._rails = [channel.rail for channel in schedule.channels]
        # Two samples that follow each other are found so far apart at most; half a period more is certainly a gap.
        self._gap_ns = schedule.late_ns + schedule.period_ns * 3 // 2
        self._folder = folder
        self._tallies = [_Tally() for _ in self._rails]
        self._next_ns = 0

    def count(self, records: bytes) -> None:
        """These records are new in the trace; tell of the rails if it is time."""
        t_ns = 0
        for t_ns, _, _, rail, _ in RECORD.iter_unpack(records):
            tally = self._tallies[rail]
            tally.gaps += bool(tally.last_ns) and t_ns - tally.last_ns > self._gap_ns
            tally.samples += 1
            tally.last_ns = t_ns
        if t_ns >= self._next_ns:
            self._next_ns = t_ns + INTERVAL_NS
            for rail, tally in zip(self._rails, self._tallies, strict=True):
                self._tell(rail, tally, t_ns)

    def _tell(self, rail: str, tally: _Tally, t_ns: int) -> None:
        elapsed_s = (t_ns - tally.reported_ns) / NS_PER_S
        rate_hz = (tally.samples - tally.reported_samples) / elapsed_s if tally.reported_ns else 0.0
        tally.reported_samples, tally.reported_ns = tally.samples, t_ns
        status = runtime.RailStatus(self._board, rail, rate_hz, tally.samples, tally.gaps, utc_now().timestamp())
        runtime.write(self._folder, f"{self._board}/{rail}", status)
