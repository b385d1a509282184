"""Check of a power-on: the switch's answer against console and rails.

A switch answers that it has switched, and the supply may have come before it (a relay that bounced, a second supply),
long after it (a queue, a slow relay) or not by it. The boot's first text follows the power after a time of its own, in
which the ROM is silent: some tens to hundreds of ms, other ones for each board type, medium and bootloader. So it is
compared with the board's other boots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from lab.benchmarks.boot.records import MomentLike, PowerEdge

APART_S: Final = 0.1  # between two boots of a board: a ROM and SPL take the same time, but for some milliseconds
APART_SHARE: Final = 0.1  # of a longer silence, e.g. of a ROM that tries several media
CONFIRMED: Final = 2  # other boots that agree
# From the switched supply to the first rail: a supply's soft start and the PMIC's sequence
RISE_NS: Final = 100_000_000


@frozen
class PowerOnSilence:
    """From power on to a boot's first moment, in s.

    Attributes:
        first: the moment's name.
        least_s, most_s: as if the power had come at the switch's acknowledgement, or at its request.
    """

    first: str
    least_s: float
    most_s: float

    @classmethod
    def of(cls, power: PowerEdge, first: MomentLike) -> PowerOnSilence:
        """Of a boot."""
        least_ns = first.t_ns - first.uncertainty_ns - min(power.acknowledged_ns, first.t_ns)
        return cls(first.name, least_ns / 1e9, (first.t_ns + first.uncertainty_ns - power.requested_ns) / 1e9)

    def agrees(self, other: PowerOnSilence) -> bool:
        """True if both may be the same time."""
        apart_s = max(APART_S, APART_SHARE * min(self.most_s, other.most_s))
        return (
            self.first == other.first
            and self.least_s - other.most_s <= apart_s
            and other.least_s - self.most_s <= apart_s
        )


def silences(documents: Iterable[Any]) -> list[PowerOnSilence]:
    """Silences in attempts' details; others are left out."""
    return [
        PowerOnSilence(str(document["first"]), float(document["least_s"]), float(document["most_s"]))
        for document in documents
        if isinstance(document, Mapping) and {"first", "least_s", "most_s"} <= document.keys()
    ]


def doubt(
    power: PowerEdge, silence: PowerOnSilence, run: Sequence[PowerOnSilence], before: Sequence[PowerOnSilence] = ()
) -> str:
    """The reason why the switch's instant is not confirmed; empty: it is.

    Args:
        run: of this run's other boots of the medium.
        before: of the board's runs before.
    """
    if power.rose_ns is not None:
        earliest_ns, latest_ns = power.rose_ns
        if latest_ns < power.requested_ns:
            return f"the rails were up {(power.requested_ns - latest_ns) / 1e9:.3f} s before it was switched on"
        if earliest_ns > power.acknowledged_ns + RISE_NS:
            return (
                f"the rails rose at least {(earliest_ns - power.acknowledged_ns) / 1e9:.3f} s after the "
                "switch's answer"
            )
        if earliest_ns >= power.requested_ns - RISE_NS and latest_ns <= power.acknowledged_ns + RISE_NS:
            return ""
    agree = sum(silence.agrees(silence_before) for silence_before in run)
    if agree + sum(silence.agrees(silence_before) for silence_before in before) >= CONFIRMED and 2 * agree >= len(run):
        return ""
    others = [*run, *before]
    if len(others) < CONFIRMED:
        return "no other boots of the board to compare with"
    usual = sorted(others, key=lambda silence_before: silence_before.least_s)[len(others) // 2]
    return (
        f"{silence.first!r} came {silence.least_s:.3f} s after the switch's answer, in other boots "
        f"{usual.first!r} after {usual.least_s:.3f} s"
    )
