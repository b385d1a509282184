"""Progress of a run: a line per cycle with ETA and statistics."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from lab.errors import BoardlabError
from lab.host.clock import Clock
from lab.metrics import Sample, Summary, summarise


@define
class Progress:
    """Writes one line per attempt.

    Attributes:
        write: takes a line without its end.
        total: cycles that the whole session has to measure.
    """

    write: Callable[[str], None]
    clock: Clock
    total: int
    done: int = 0
    _start_ns: int = field(init=False)
    _samples: dict[str, list[Sample]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._start_ns = self.clock.now_ns()

    def good(self, medium: str, cycle: int, cycles: int, sample: Sample, unit: str = "s") -> None:
        """Report a measured cycle."""
        self.done += 1
        samples = self._samples.setdefault(medium, [])
        samples.append(sample)
        figures = summarise(samples)
        elapsed_s = (self.clock.now_ns() - self._start_ns) / 1e9
        eta_s = elapsed_s / self.done * (self.total - self.done)
        self.write(
            f"{medium:5} {cycle:3}/{cycles}  {_figures(sample, figures, unit)}"
            f"   elapsed {_clock(elapsed_s)}  ETA {_clock(eta_s)}"
        )

    def bad(self, medium: str, cycle: int, cycles: int, number: int, error: BoardlabError, *, is_last: bool) -> None:
        """Report a failed attempt; `is_last`: no further one is allowed."""
        what_next = "power-cycle and retry" if error.transient and not is_last else "stop"
        self.write(
            f"{medium:5} {cycle:3}/{cycles}  attempt {number} FAILED [{error.failure}, {error.fault}]: {error} -> {what_next}"
        )


def _figures(sample: Sample, figures: Summary, unit: str) -> str:
    """The cycle's value and running statistics; below 1 s in ms."""
    if unit != "s":
        return (
            f"{sample.value:.6g} {unit} ± {sample.uncertainty:.2g}"
            f"   mean {figures.mean:.6g} (min {figures.min:.6g}, max {figures.max:.6g})"
        )
    if figures.mean >= 1:
        return (
            f"{sample.value:7.3f} s ± {sample.uncertainty * 1e3:.1f} ms"
            f"   mean {figures.mean:.3f} (min {figures.min:.3f}, max {figures.max:.3f})"
        )
    return (
        f"{sample.value * 1e3:7.2f} ms ± {sample.uncertainty * 1e3:.3f} ms"
        f"   mean {figures.mean * 1e3:.2f} (min {figures.min * 1e3:.2f}, max {figures.max * 1e3:.2f})"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


@define
class Eta:
    """The remaining time of a section run, from earlier durations.

    Attributes:
        left: section -> expected duration in seconds.
    """

    left: dict[str, float]

    def done(self, section: str) -> None:
        """Remove a finished section."""
        self.left.pop(section, None)

    def __str__(self) -> str:
        minutes, seconds = divmod(round(sum(self.left.values())), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}"
