"""boardlab's own metrics under the names that guides have for the same definition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from lab import boards

_LOW_POWER: Final = re.compile(r"lpm\.(\w+)\.(resume_kernel|power_rail|power_total)")
_MODES: Final = {"deep_sleep": "deepsleep", "mcu_only": "mcuonly", "standby": "standby", "partial_io": "partiali/o"}
_VOLTAGE: Final = "Rail voltage(V)"


@frozen
class GuideName:
    """A guide's metric with its parameters, and the further key columns of its row."""

    metric: str
    params: Mapping[str, str]
    keys: Mapping[str, str] = {}


def guide_name(metric: str, params: Mapping[str, str], board_type: str) -> GuideName:
    """How guides call a number; the number's own name where they have none."""
    match = _LOW_POWER.fullmatch(metric)
    if match is None or match[1] not in _MODES:
        return GuideName(metric, params)
    mode = {"mode": _MODES[match[1]]}
    if match[2] == "resume_kernel":
        return GuideName("power.resume_latency", mode)
    if match[2] == "power_total":
        return GuideName("power.total", {"rail": "total", **mode}, {_VOLTAGE: " "})
    rail = params["rail"]
    return GuideName("power.rail", {"rail": rail, **mode}, {_VOLTAGE: _volts(board_type, rail)})


def _volts(board_type: str, rail: str) -> str:
    """The nominal voltage, as guides print it."""
    if board_type not in boards.names():
        return ""
    return next((f"{each.volts:.2f}" for each in boards.load(board_type).rails if each.name == rail), "")
