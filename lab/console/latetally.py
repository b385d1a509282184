"""How late bytes came lately, all ports together: for whoever asks whether a host has too many boards.

The probe's bytes (lab.console.ttylatency) go the way of the ports' bytes, some two hundred a second while boards talk or
somebody measures. They are counted in steps of a fifth at most, in two halves of a minute, so that neither the count nor the
question costs the stamps anything.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field

from lab.host.clock import NS_PER_S

HALF_NS: Final = 30 * NS_PER_S
LEAST: Final = 500  # bytes of which a 99th percentile says something: some three seconds of a board that talks
_STEPS: Final = 4  # between a power of two and the next one
_SIZE: Final = 64 * _STEPS


@define
class LateTally:
    """Counts of the present half and the one before."""

    _began_ns: int = field(default=0, init=False)
    _now: list[int] = field(factory=lambda: [0] * _SIZE, init=False)
    _before: list[int] = field(factory=lambda: [0] * _SIZE, init=False)

    def add(self, t_ns: int, late_ns: int) -> None:
        """A byte came so late."""
        self._turn(t_ns)
        self._now[_step(late_ns)] += 1

    def p99_ns(self, t_ns: int) -> int | None:
        """99 of 100 bytes of the last half to whole minute came no later than this; None: there were too few."""
        self._turn(t_ns)
        counts = [now + before for now, before in zip(self._now, self._before, strict=True)]
        total = sum(counts)
        if total < LEAST:
            return None
        left = total // 100
        for step in reversed(range(_SIZE)):
            left -= counts[step]
            if left < 0:
                return _end_ns(step)
        return None

    def _turn(self, t_ns: int) -> None:
        halves = (t_ns - self._began_ns) // HALF_NS
        if halves:
            self._before = self._now if halves == 1 else [0] * _SIZE
            self._now = [0] * _SIZE
            self._began_ns = t_ns


def _step(late_ns: int) -> int:
    """Four steps for each power of two."""
    late_ns = max(late_ns, _STEPS)
    power = late_ns.bit_length() - 1
    return min(power * _STEPS + (late_ns >> (power - 2)) - _STEPS, _SIZE - 1)


def _end_ns(step: int) -> int:
    """The first time beyond a step."""
    power, part = divmod(step, _STEPS)
    return (_STEPS + part + 1) << (power - 2)
