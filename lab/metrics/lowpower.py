"""The metrics of resuming from each low-power mode. Their two definitions are never mixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from lab.metrics.model import Metric

KERNEL_MODES: Final = ("deep_sleep", "mcu_only", "standby", "s2idle")  # Linux suspends and resumes; else it boots
MODES: Final = (*KERNEL_MODES, "partial_io")


@frozen
class Resume:
    """The metrics of one mode; `kernel` and `first_byte` are None where leaving it is a boot.

    Attributes:
        kernel: the vendor's. first_byte, prompt: the host's.
    """

    kernel: Metric | None
    first_byte: Metric | None
    prompt: Metric

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All of them."""
        return tuple(metric for metric in (self.kernel, self.first_byte, self.prompt) if metric is not None)


def _resume(mode: str) -> Resume:
    kernel = Metric(
        name=f"lpm.{mode}.resume_kernel",
        unit="ms",
        better="lower",
        definition='From the kernel\'s "Enabling non-boot CPUs" (with one CPU or from s2idle: its first line of the resume) '
        'to "PM: suspend exit", on its own clock, with the consoles detached. The firmware\'s share is not in it.',
        resolution=1e-3,
        source='Performance guide, "Resume Latency Performance"',
    )
    first_byte = Metric(
        name=f"lpm.{mode}.resume_wake_to_first_byte",
        unit="ms",
        better="lower",
        definition="From the edge with which the host wakes the board to the first byte on its console.",
        resolution=1e-1,
        source="boardlab, docs/low-power.md",
    )
    prompt = Metric(
        name=f"lpm.{mode}.resume_wake_to_prompt",
        unit="ms",
        better="lower",
        definition="From the edge with which the host wakes the board to the answer of its shell; from partial I/O, which "
        "is left by a boot, to the login prompt.",
        resolution=1e-1,
        source="boardlab, docs/low-power.md",
    )
    suspends = mode in KERNEL_MODES
    return Resume(kernel if suspends else None, first_byte if suspends else None, prompt)


RESUMES: Final[Mapping[str, Resume]] = {mode: _resume(mode) for mode in MODES}
