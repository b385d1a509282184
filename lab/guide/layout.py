"""Positions of metrics in a written guide, from layout.toml."""

from __future__ import annotations

import functools
import re
import string
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final

from attrs import evolve, field, frozen

from lab import boards
from lab.sleep_modes import SLEEP_MODES

# Second key columns that tell rows apart, and the parameter that each holds.
SECOND_KEYS = {"Buffer Size (in bytes)": "buffer", "Format": "format"}

# A mode -> how the readers of guides call it, e.g. "deepsleep".
_MODES: Final = {name: mode.printed.lower().replace(" ", "") for name, mode in SLEEP_MODES.items() if mode.printed}
# How a guide spells a parameter that boardlab has another word for.
_PRINTED = {
    "medium": {"sd": "MMCSD"},
    "mode": {_MODES[name]: SLEEP_MODES[name].printed for name in _MODES},
}

_LOW_POWER: Final = re.compile(r"lpm\.(\w+)\.(resume_kernel|power_rail|power_total)")
_VOLTAGE: Final = "Rail voltage(V)"


@frozen
class Origin:
    """Position of a number in a guide.

    Attributes:
        keys: headers of the key columns; the first one is the row's.
    """

    chapter: tuple[str, ...]
    title: str
    keys: tuple[str, ...]
    row: str
    column: str


@frozen(kw_only=True)
class CellPosition(Origin):
    """Position of a number in a written guide.

    Attributes:
        order: of its table in the guide, and of its column in the table.
        per_board: every board has a table of its own.
        is_sorted: rows stand by name; else in the order of the numbers.
    """

    order: tuple[int, int]
    per_board: bool = False
    is_sorted: bool = True


@frozen
class _Spec:
    position: CellPosition  # its texts name parameters in braces
    fixed: Mapping[str, str]
    params: frozenset[str]

    def fits(self, params: Mapping[str, str]) -> bool:
        return params.keys() == self.params and self.fixed.items() <= params.items()


@frozen
class Layout:
    """The layout table: positions of each metric, and texts of chapters."""

    specs: Mapping[str, Sequence[_Spec]]
    about: Mapping[str, str] = field(factory=dict)

    def place(self, metric: str, params: Mapping[str, str]) -> CellPosition | None:
        """Position of a metric with these parameters; None without one."""
        spec = next((spec for spec in self.specs.get(metric, ()) if spec.fits(params)), None)
        if spec is None:
            return None
        values: dict[str, str] = {}
        for name, value in params.items():
            printed = _PRINTED.get(name, {}).get(value, value)
            if name == "contexts":
                printed = f"{value.removesuffix('core').capitalize()}Core"
            values |= {name: printed, name.upper(): printed.upper(), name.capitalize(): printed.capitalize()}
        position = spec.position
        return evolve(
            position,
            chapter=tuple(part.format_map(values) for part in position.chapter),
            title=position.title.format_map(values),
            row=position.row.format_map(values),
            column=position.column.format_map(values),
        )


@functools.cache
def load() -> Layout:
    """The layout that boardlab ships; read once."""
    data = tomllib.loads((resources.files("lab.guide") / "layout.toml").read_text(encoding="utf-8"))
    specs: dict[str, list[_Spec]] = {}
    for number, table in enumerate(data["table"]):
        for position, cell in enumerate(table["cells"]):
            fixed = table.get("with", {})
            texts = [*table["chapter"], table["title"], cell["row"], cell["column"]]
            used = {name.lower() for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}
            place = CellPosition(
                order=(number, position),
                chapter=tuple(table["chapter"]),
                title=table["title"],
                keys=tuple(table["keys"]),
                row=cell["row"],
                column=cell["column"],
                per_board=table.get("each", False),
                is_sorted=table.get("sorted", True),
            )
            second = {SECOND_KEYS[key] for key in place.keys[1:] if key in SECOND_KEYS}
            specs.setdefault(cell["metric"], []).append(_Spec(place, fixed, frozenset(used | fixed.keys() | second)))
    return Layout(specs, data["about"])


def natural(text: str) -> list[tuple[int, int, str]]:
    """Key for natural sorting: 64, 128, 1024; 4k before 256k before 1m."""
    parts = re.findall(r"\d+|\D+", text.lower())
    weights = {"k": 1, "m": 2, "g": 3}
    size = re.fullmatch(r"(\d+)([kmg])", text.lower())
    if size:
        return [(0, int(size[1]) * 1024 ** weights[size[2]], "")]
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


@frozen
class GuideName:
    """A guide's metric, its parameters, and its row's other key columns."""

    metric: str
    params: Mapping[str, str]
    keys: Mapping[str, str] = {}


def guide_name(metric: str, params: Mapping[str, str], board_type: str) -> GuideName:
    """Name of a number in guides; its own where they have none."""
    match = _LOW_POWER.fullmatch(metric)
    if match is None or match[1] not in _MODES:
        return GuideName(metric, params)
    mode = {"mode": _MODES[match[1]]}
    if match[2] == "resume_kernel":
        return GuideName("power.resume_latency", mode)
    if match[2] == "power_total":
        return GuideName("power.total", {"rail": "total", **mode}, {_VOLTAGE: " "})
    rail = params["rail"]
    rails = boards.load(board_type).rails if board_type in boards.names() else ()
    volts = next((f"{declared.volts:.2f}" for declared in rails if declared.name == rail), "")  # as guides print it
    return GuideName("power.rail", {"rail": rail, **mode}, {_VOLTAGE: volts})
