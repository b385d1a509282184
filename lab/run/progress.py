"""Progress of a run: one line for each attempt, with running statistics and the remaining time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from lab.benchmarks.cycles import CycleAttempt
from lab.host.clock import Clock
from lab.metrics import Sample, Summary, summarise


@define
class Progress:
    """Writes one line for each attempt of a session.

    Attributes:
        write: takes a line without its newline.
        total: number of cycles that the session has to measure.
        done: number of cycles that it has measured.
    """

    write: Callable[[str], None]
    clock: Clock
    total: int
    done: int = 0
    _start_ns: int = field(init=False)
    _samples: dict[str, list[Sample]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._start_ns = self.clock.now_ns()

    def cycle_done(self, item: str, cycles: int, sample: Sample, unit: str = "s") -> None:
        """Write the line of a measured cycle.

        Args:
            cycles: number of cycles of the item.
            sample: first number of the cycle, in `unit`.
        """
        self.done += 1
        samples = self._samples.setdefault(item, [])
        samples.append(sample)
        figures = summarise(samples)
        elapsed_s = (self.clock.now_ns() - self._start_ns) / 1e9
        eta_s = elapsed_s / self.done * (self.total - self.done)
        self.write(
            f"{item:5} {sample.cycle:3}/{cycles}  {_figures(sample, figures, unit)}"
            f"   elapsed {_clock(elapsed_s)}  ETA {_clock(eta_s)}"
        )

    def attempt_failed(self, item: str, cycles: int, attempt: CycleAttempt[Any]) -> None:
        """Write the line of a failed attempt, with what happens next."""
        error = attempt.error
        if error is not None:
            what_next = "power-cycle and retry" if error.transient and attempt.again else "stop"
            self.write(
                f"{item:5} {attempt.cycle:3}/{cycles}  attempt {attempt.number} FAILED "
                f"[{error.failure}, {error.fault}]: {error} -> {what_next}"
            )


def _figures(sample: Sample, figures: Summary, unit: str) -> str:
    """Return the cycle's value and the running statistics; times with a mean below 1 s are in ms."""
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
    """Return a duration as minutes and seconds, e.g. "2:05"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


@define
class Eta:
    """The remaining time of a section run, estimated by the durations of earlier runs.

    Attributes:
        left: section that is still to be measured -> expected duration in seconds.
    """

    left: dict[str, float]

    def done(self, section: str) -> None:
        """Remove a finished section."""
        self.left.pop(section, None)

    def __str__(self) -> str:
        minutes, seconds = divmod(round(sum(self.left.values())), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}"
