"""Partial I/O switches the board's supplies off: every rail but those that stay on must be near 0 V."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from lab.boards import BoardType
from lab.errors import BoardTransientError
from lab.metrics import Flag


class RailVolts(Protocol):
    """What this module needs of lab.rails.RailPower."""

    @property
    def rail(self) -> str: ...
    @property
    def measured(self) -> bool: ...
    @property
    def mean_v(self) -> float | None: ...
    @property
    def uncertainty_v(self) -> float | None: ...
    @property
    def flags(self) -> frozenset[Flag]: ...


@frozen
class Off:
    """The highest of the rails that are off.

    Attributes:
        rail: which. volts: its mean. uncertainty_v: ± of it.
        flags: of all rails that must be off.
    """

    rail: str
    volts: float
    uncertainty_v: float
    flags: frozenset[Flag]


def off(rails: Sequence[RailVolts], board: BoardType) -> Off | None:
    """The highest of the rails that must be off; None where no sensor gave a voltage.

    Raises:
        BoardTransientError: one of them is up.
    """
    stay = {rail.name for rail in board.rails if rail.always_on}
    must = [rail for rail in rails if rail.measured and rail.rail not in stay]
    read = {rail.rail: (rail.mean_v, rail.uncertainty_v or 0.0) for rail in must if rail.mean_v is not None}
    near_0_v = board.low_power.near_0_v
    up = [f"{name} {volts:.2f} V" for name, (volts, _) in read.items() if volts > near_0_v]
    if up:
        raise BoardTransientError(
            f"the board said that it entered partial I/O, and has rails that are up: {', '.join(up)}, where {near_0_v:g} V is the "
            "most. Something feeds them, as a debugger or USB; or they stay on by design: `always_on = true` of the rail in the "
            "board type",
            failure="rails_up",
        )
    if not read:
        return None
    rail = max(read, key=lambda name: read[name][0])
    return Off(rail, *read[rail], frozenset().union(*(each.flags for each in must)))
