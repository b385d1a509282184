"""How much each rail of a board type draws in each state: figures of its guide, and data/loads.toml for the rest."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Final

import cattrs
from attrs import frozen

from lab.boards import BoardType

OFF, ROM, BOOT, IDLE, BUSY = "off", "rom", "boot", "idle", "busy"
DEEP_SLEEP, MCU_ONLY, PARTIAL_IO = "deep_sleep", "mcu_only", "partial_io"
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
    """The rails that have a sensor, with the addresses and shunts of the board type, or made-up ones.

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
    """The rails of a RailSensors resource, a line each; none for a type whose current monitors nobody has described.

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
    """Rail -> the rail whose supply feeds it, where the guides have "n/a" for it: one of the same voltage before it."""
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
    """State -> rail -> watt; off and partial I/O are not in it: all rails are near 0 V then."""
    text = (resources.files("lab.virtual.rails") / "data" / "loads.toml").read_text(encoding="utf-8")
    loads = cattrs.Converter(forbid_extra_keys=True).structure(tomllib.loads(text), _Loads)
    rails = [wired_rail.rail for wired_rail in wired(board)]
    idle = {rail: loads.idle.get(rail, _OTHER_W) for rail in rails}
    found = {state: {rail: watts * factor for rail, watts in idle.items()} for state, factor in loads.factor.items()}
    published = board.releases[release].published.sleep_mw if release in board.releases else {}
    for mode, usual in loads.sleep.items():
        milliwatts = published.get(mode, {})
        found[mode] = {
            rail: milliwatts[rail] / 1000 if rail in milliwatts else usual.get(rail, _OTHER_W / 100) for rail in rails
        }
    return found
