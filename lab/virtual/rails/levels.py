"""The power that each rail of a virtual board draws.

The figures are those of the board type's guide, and of data/loads.toml for the rest, with a ripple that is zero on the
average.
"""

from __future__ import annotations

import math
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Final

import cattrs
from attrs import define, field, frozen

from lab.boards import BoardType
from lab.sleep_modes import SLEEP_MODES
from lab.virtual.sim.timing import dice

OFF, ROM, BOOT, IDLE, BUSY = "off", "rom", "boot", "idle", "busy"
_OTHER_W: Final = 0.05  # of a rail that loads.toml does not know
_FIRST_ADDRESS: Final = 0x40  # where no public document gives any
_SHUNT_MOHM: Final = 10.0
_CORE_MOHM: Final = 2.0
_MOST: Final = 4.0  # times what it draws when Linux idles


@frozen
class _Loads:
    idle: dict[str, float]
    factor: dict[str, float]
    sleep: dict[str, dict[str, float]]


@frozen
class Wired:
    """A rail with a sensor on a virtual board."""

    rail: str
    volts: float
    address: int
    shunt_mohm: float


def wired(board: BoardType) -> list[Wired]:
    """Rails with sensors, with real or made-up addresses and shunts.

    A rail that the guides of the type call "n/a" is fed by the supply of another one, and has none.
    """
    shared = shared_rails(board)
    found = []
    for number, rail in enumerate(board.rails):
        if rail.name in shared:
            continue
        usual = _CORE_MOHM if rail.name == "vdd_core" else _SHUNT_MOHM
        found.append(Wired(rail.name, rail.volts, rail.address or _FIRST_ADDRESS + number, rail.shunt_mohm or usual))
    return found


def env_lines(board: BoardType) -> list[str]:
    """Lines of a RailSensors resource for the rails.

    Empty for a type with unknown current monitors.

    The emulated shunts are exact, and the emulated sensors have no offset.
    """
    if not board.sleep and not any(rail.address for rail in board.rails):
        return []
    most = {rail: watts * _MOST for rail, watts in levels(board, "")[IDLE].items()}
    lines = [
        f"{rail.rail}: {{address: {rail.address:#x}, shunt_mohm: {rail.shunt_mohm}, tolerance: 0.0, offset_uv: 0.0, "
        f"max_w: {most[rail.rail]:.3g}}}"
        for rail in wired(board)
    ]
    return lines + [f"{rail}: {{shared_with: {feeder}}}" for rail, feeder in shared_rails(board).items()]


def shared_rails(board: BoardType) -> dict[str, str]:
    """Map each rail to the rail that feeds it.

    The guides have "n/a" for such a rail; the other one stands before it, with the same voltage.
    """
    published = [watts for release in board.releases.values() for watts in release.published.sleep_mw.values()]
    if not published:
        return {}
    found = {}
    for number, rail in enumerate(board.rails):
        if not any(rail.name in watts for watts in published):
            feeders = [other.name for other in board.rails[:number] if other.volts == rail.volts]
            if feeders:
                found[rail.name] = feeders[0]
    return found


def levels(board: BoardType, release: str) -> Mapping[str, Mapping[str, float]]:
    """Map state and rail to watts.

    Off and the modes that are left by a boot are left out: all rails are near 0 V then. In a mode with `rails_on` the others are.
    """
    text = (resources.files("lab.virtual.rails") / "data" / "loads.toml").read_text(encoding="utf-8")
    loads = cattrs.Converter(forbid_extra_keys=True).structure(tomllib.loads(text), _Loads)
    rails = [wired_rail.rail for wired_rail in wired(board)]
    idle = {rail: loads.idle.get(rail, _OTHER_W) for rail in rails}
    found = {state: {rail: watts * factor for rail, watts in idle.items()} for state, factor in loads.factor.items()}
    published = board.releases[release].published.sleep_mw if release in board.releases else {}
    for mode in (name for name, mode in SLEEP_MODES.items() if not mode.boots):
        usual, milliwatts = loads.sleep.get(mode, {}), published.get(mode, {})
        known = board.low_power.modes.get(mode)
        on = [rail for rail in rails if known is None or not known.rails_on or rail in known.rails_on]
        found[mode] = {
            rail: milliwatts[rail] / 1000 if rail in milliwatts else usual.get(rail, _OTHER_W / 100) for rail in on
        }
    return found


# --- The load behind the sensors ---


RIPPLE: Final = 0.04  # of the level: a processor's load is not smooth
_RIPPLE_HZ: Final = 173.0
_SOURCE_OHM: Final = 0.02  # a supply and its copper: the voltage droops with the current
_REGULATION: Final = 0.004  # largest error of a supply's set point
_KEPT_NS: Final = 40_000_000_000  # longer than the longest averaging of a sensor
_TWO_PI: Final = 2 * math.pi


@frozen
class LoadStep:
    """From `t_ns` on the rails draw these watts."""

    t_ns: int
    state: str
    watts: Mapping[str, float]


@define(eq=False)
class RailLoad:
    """The rails of one board.

    Attributes:
        volts: rail -> nominal voltage.
        levels: state -> rail -> watt; a state that is not there draws nothing, and its rails are off.
        seed: of the supplies' set points and the ripple's phases.
        note: takes a line for the truth log at each change, with the instant.
    """

    volts: Mapping[str, float]
    levels: Mapping[str, Mapping[str, float]]
    seed: int = 0
    note: Callable[[int, str], None] = field(default=lambda _t_ns, _text: None)
    _steps: list[LoadStep] = field(init=False)
    _phase: dict[str, float] = field(init=False)
    _set_volts: dict[str, float] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._steps = [LoadStep(0, "off", {})]
        chance = dice(self.seed, "rails")
        self._phase = {rail: chance.uniform(0, _TWO_PI) for rail in self.volts}
        self._set_volts = {
            rail: volts * (1 + chance.uniform(-_REGULATION, _REGULATION)) for rail, volts in self.volts.items()
        }

    @property
    def state(self) -> str:
        """Current state of the board."""
        return self._steps[-1].state

    def enter(self, state: str, t_ns: int) -> None:
        """The board does something else from now on."""
        if state == self.state:
            return
        watts = self.levels.get(state, {})
        self._steps.append(LoadStep(max(t_ns, self._steps[-1].t_ns), state, watts))
        while len(self._steps) > 2 and self._steps[1].t_ns < t_ns - _KEPT_NS:
            del self._steps[0]
        drawn = " ".join(f"{rail}={watts.get(rail, 0.0) * 1e6:.0f}" for rail in self.volts)
        self.note(t_ns, f"rails={state} uw: {drawn}")

    def at(self, rail: str, start_ns: int, end_ns: int, *, stays_up: bool = False) -> tuple[float, float]:
        """Mean voltage and current of a rail between two instants.

        Args:
            stays_up: it is never switched off, and draws what it does while Linux idles at least.
        """
        least = self.levels[IDLE].get(rail, 0.0) if stays_up else 0.0
        watts = 0.0
        alive_ns = 0
        first = max(0, bisect_right(self._steps, start_ns, key=lambda step: step.t_ns) - 1)
        for number in range(first, len(self._steps)):
            step = self._steps[number]
            begin = max(start_ns, step.t_ns)
            end = min(end_ns, self._steps[number + 1].t_ns) if number + 1 < len(self._steps) else end_ns
            if begin >= end:
                continue
            level = step.watts.get(rail, least if stays_up else None)
            if level is not None:
                level = max(level, least)
                watts += level * (1 + RIPPLE * self._ripple(rail, begin, end)) * (end - begin)
                alive_ns += end - begin
        whole_ns = max(1, end_ns - start_ns)
        if not alive_ns:
            return 0.0, 0.0
        alive_w = watts / alive_ns
        volts = self._set_volts[rail] - alive_w / self._set_volts[rail] * _SOURCE_OHM
        share = alive_ns / whole_ns
        return volts * share, alive_w / volts * share

    def _ripple(self, rail: str, begin_ns: int, end_ns: int) -> float:
        """The mean of a sine between two instants."""
        omega = _TWO_PI * _RIPPLE_HZ / 1e9
        phase = self._phase[rail]
        span = omega * (end_ns - begin_ns)
        start = (omega * begin_ns + phase) % _TWO_PI
        return (math.cos(start) - math.cos(start + span)) / span
