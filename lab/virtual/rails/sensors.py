"""Sensors on a virtual board's rails, and their faults."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from attrs import define, field

from lab.boards import BoardType
from lab.virtual.rails.ina231 import MASK, READY, SHUNT, Ina231
from lab.virtual.rails.levels import RailLoad, Wired, levels, wired
from lab.virtual.sim.timing import dice


class RailTrouble(Protocol):
    """Faults of sensors; see `lab.virtual.sim.faulthooks.FaultHooks`."""

    def nacks(self, rail: str) -> bool:
        """Return whether a rail's sensor does not acknowledge now."""
        ...

    def sticks(self, rail: str) -> bool:
        """Return whether its registers are stuck."""
        ...

    def repeats(self, rail: str) -> int | None:
        """Steps of jitter with which the bus repeats its last answers; None: it does not."""
        ...

    def bus_factor(self, rail: str) -> float:
        """Measured bus voltage as a multiple of the real one."""
        ...

    def shunt_factor(self, rail: str) -> float:
        """Real shunt as a multiple of the nominal one."""
        ...

    def soldered_to(self, rail: str) -> str:
        """The rail that it is really on."""
        ...

    def loses_power(self, rail: str) -> bool:
        """Return whether it resets now."""
        ...

    def stays_up(self, rail: str) -> bool:
        """Return whether the rail is never switched off."""
        ...


def _no_note(_t_ns: int, _text: str) -> None: ...


def _no_troubles() -> Sequence[RailTrouble]:
    return ()


@define(eq=False)
class Rails:
    """Rails of a board: its load, and an INA231 per rail.

    The sensors have a supply of their own, as on the starter kits: they answer while the board is off.

    Attributes:
        board: its type.
        release: whose published sleep figures it has.
        seed: of all chance.
        troubles: the faults at work, asked at each access.
        note: takes the load's changes for the truth log.
    """

    board: BoardType
    release: str
    seed: int = 0
    troubles: Callable[[], Sequence[RailTrouble]] = _no_troubles
    note: Callable[[int, str], None] = _no_note
    wired: list[Wired] = field(init=False)
    load: RailLoad = field(init=False)
    _chips: dict[int, _Soldered] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.wired = wired(self.board)
        volts = {rail.rail: rail.volts for rail in self.wired}
        self.load = RailLoad(volts, levels(self.board, self.release), self.seed, self.note)
        self._chips = {rail.address: _Soldered(self, rail) for rail in self.wired}

    def enter(self, state: str, t_ns: int) -> None:
        """The board's state from now on; see `lab.virtual.rails.levels`."""
        self.load.enter(state, t_ns)

    def chip_at(self, address: int) -> _Soldered | None:
        """The sensor that acknowledges at an address now."""
        found = self._chips.get(address)
        return None if found is None or any(t.nacks(found.wired.rail) for t in self.troubles()) else found

    def measure(self, rail: str, start_ns: int, end_ns: int) -> tuple[float, float, float]:
        """Mean shunt voltage, bus voltage and shunt of a sensor.

        In volt and ohm, without its quantisation.
        """
        soldered = next(each for each in self._chips.values() if each.wired.rail == rail)
        volts, amperes = soldered.supply(start_ns, end_ns)
        return amperes * soldered.shunt_ohm(), volts, soldered.wired.shunt_mohm / 1000


@define(eq=False)
class _Soldered:
    """A sensor in its place; a chip for `lab.virtual.rails.wiring`."""

    rails: Rails
    wired: Wired
    chip: Ina231 = field(init=False)
    _chance: Random = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._chance = dice(self.rails.seed, "jitter", self.wired.rail)
        chance = dice(self.rails.seed, "sensor", self.wired.rail)
        self.chip = Ina231(self.supply, self.shunt_ohm(), chance)

    def supply(self, start_ns: int, end_ns: int) -> tuple[float, float]:
        """The rail that it is on, as it was between two instants."""
        rail = self.wired.rail
        for trouble in self.rails.troubles():
            rail = trouble.soldered_to(rail)
        stays_up = any(trouble.stays_up(rail) for trouble in self.rails.troubles())
        volts, amperes = self.rails.load.at(rail, start_ns, end_ns, stays_up=stays_up)
        return volts * math.prod(trouble.bus_factor(self.wired.rail) for trouble in self.rails.troubles()), amperes

    def shunt_ohm(self) -> float:
        """The shunt that is there."""
        factor = 1.0
        for trouble in self.rails.troubles():
            factor *= trouble.shunt_factor(self.wired.rail)
        return self.wired.shunt_mohm / 1000 * factor

    def write(self, register: int, value: int, now_ns: int) -> bool:
        self._suffer(now_ns)
        return self.chip.write(register, value, now_ns)

    def read(self, register: int, now_ns: int) -> int | None:
        self._suffer(now_ns)
        jitters = [steps for each in self.rails.troubles() if (steps := each.repeats(self.wired.rail)) is not None]
        if not jitters:
            return self.chip.read(register, now_ns)
        value = self.chip.held(register)
        if value is None or register not in {SHUNT, MASK}:
            return value
        return value | READY if register == MASK else value + self._chance.randint(0, jitters[0]) & 0xFFFF

    def _suffer(self, now_ns: int) -> None:
        troubles = self.rails.troubles()
        if not troubles:
            self.chip.stuck = False
            self.chip.shunt_ohm = self.wired.shunt_mohm / 1000
            return
        if any(trouble.loses_power(self.wired.rail) for trouble in troubles):
            self.chip.reset(now_ns)
        self.chip.stuck = any(trouble.sticks(self.wired.rail) for trouble in troubles)
        self.chip.shunt_ohm = self.shunt_ohm()
