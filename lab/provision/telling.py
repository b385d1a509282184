"""What would be written, and how far a write is, as a person reads it."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from lab.provision.way import Plan, Progress

_KIB, _MIB = 1024, 1024 * 1024
_SLOW_S = 30.0


@define
class Teller:
    """Says a line for each tenth of a plan, and for each half minute without one: for a terminal and for a log alike."""

    say: Callable[[str], None]
    _step: str = field(default="", init=False)
    _tenth: int = field(default=-1, init=False)
    _at_ns: int = field(default=0, init=False)

    def __call__(self, progress: Progress) -> None:
        """Take a report of a way."""
        tenth = progress.done * 10 // progress.total if progress.total else 10
        begins = progress.elapsed_ns < self._at_ns  # another plan
        late = progress.elapsed_ns - self._at_ns >= _SLOW_S * 1e9
        if (progress.step, tenth) == (self._step, self._tenth) and not (begins or late):
            return
        self._step, self._tenth, self._at_ns = progress.step, tenth, progress.elapsed_ns
        self.say(line(progress))


def line(progress: Progress) -> str:
    """E.g. "rootfs.ext4: 40 %, 120.0 of 300.0 MiB, 18.3 MiB/s, 9 s left"."""
    share = progress.done * 100 // progress.total if progress.total else 100
    unit, name = (_MIB, "MiB") if progress.total >= _MIB else (_KIB, "KiB")
    rate = f", {progress.rate / unit:.1f} {name}/s" if progress.rate else ""
    left = f", {_duration(progress.eta_s)} left" if progress.eta_s else ""
    return f"{progress.step}: {share} %, {progress.done / unit:.1f} of {progress.total / unit:.1f} {name}{rate}{left}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def described(plan: Plan) -> str:
    """A plan in one line, e.g. "by sd-mux to /dev/sdb (usb-0:1.2), 5.2 GB in 3 steps, about 4 min"."""
    target = plan.target
    identity_ = f" ({target.identity})" if target.identity else ""
    about = f", about {plan.estimate_s / 60:.0f} min" if plan.estimate_s and plan.estimate_s >= 60 else ""
    steps = "1 step" if len(plan.steps) == 1 else f"{len(plan.steps)} steps"
    where = f" to {target.device}{identity_}" if target.device else ""
    notes = "".join(f"; {note}" for note in plan.notes)
    size = f"{plan.total_bytes / 1e6:.1f} MB" if plan.total_bytes >= 1e6 else f"{plan.total_bytes / 1e3:.1f} kB"
    return f"by {plan.way}{where}, {size} in {steps}{about}{notes}"
