"""How busy this host's processors are: proc_stat(5)."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

STAT = Path("/proc/stat")


@frozen
class CpuTimes:
    """Time of all processors together since the host booted, in ticks of the kernel.

    Attributes:
        total: of every kind; idle: of those in which nothing ran (idle and iowait).
    """

    total: int
    idle: int

    def busy_since(self, earlier: CpuTimes) -> float | None:
        """The share of time in which something ran, 0 to 1; None where no tick has passed."""
        total = self.total - earlier.total
        return None if total <= 0 else min(1.0, max(0.0, 1 - (self.idle - earlier.idle) / total))


def cpu_times(stat: Path = STAT) -> CpuTimes | None:
    """The times until now; None where the kernel does not say."""
    try:
        words = stat.read_text("ascii").splitlines()[0].split()
        times = [int(word) for word in words[1:9]]  # guest time, which follows, is counted in user time
    except (OSError, ValueError, IndexError):
        return None
    return CpuTimes(sum(times), sum(times[3:5])) if len(times) == 8 else None
