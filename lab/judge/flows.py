"""Boots of another flow, whose numbers have no baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, HEADLINE_NAMES
from lab.results.averages import Average
from lab.results.snapshot import RunHead

FLOW: Final = (
    "flow"  # a parameter of a number, and one of an attempt's details; a number without it is of the usual flow
)
USUAL: Final = "normal"  # as `lab.boards.NORMAL`; a list of runs is faster without the board types
_BOOTS: Final = HEADLINE_NAMES | {BOOT_POWER_ON.name, BOOT_STAGE.name}
_OF_FLOW: Final = {FLOW, "stage"}  # each flow has its own stages

_Conditions: TypeAlias = tuple[frozenset[tuple[str, str]], bool]
Flows: TypeAlias = Mapping[_Conditions, set[str]]


def flows_of(averages: Iterable[Average]) -> Flows:
    """Conditions of a boot (e.g. its medium) -> its measured flows."""
    found: dict[_Conditions, set[str]] = {}
    for each in averages:
        if each.metric.name in _BOOTS:
            found.setdefault(_conditions(each), set()).add(each.params.get(FLOW, USUAL))
    return found


def another_flow(average: Average, flows: Flows) -> str:
    """`flow quiet now, normal before` if only other flows were measured."""
    before = flows.get(_conditions(average), set()) if average.metric.name in _BOOTS else set()
    now = average.params.get(FLOW, USUAL)
    return _flows_text(now, before) if before and now not in before else ""


def flow_remark(head: RunHead, details: Mapping[int, Mapping[str, Any]], latest: Iterable[RunHead]) -> list[str]:
    """A remark if earlier runs of the board have only other flows.

    Args:
        details: run -> those of a good attempt. latest: the runs before it, the latest first.
    """
    now = details.get(head.id, {}).get(FLOW)
    same = [each for each in latest if (each.board, each.kind) == (head.board, head.kind)]
    known = {each.id: str(details[each.id][FLOW]) for each in same if details.get(each.id, {}).get(FLOW)}
    if not now or not known or now in known.values():
        return []
    return [
        f"not compared: {_flows_text(now, [next(iter(known.values()))])} (run {next(iter(known))}); numbers of two flows never are"
    ]


def _flows_text(now: str, before: Iterable[str]) -> str:
    return f"flow {now} now, {', '.join(sorted(before))} before"


def _conditions(average: Average) -> _Conditions:
    conditions = ((name, value) for name, value in average.params.items() if name not in _OF_FLOW)
    return frozenset(conditions), average.simulated
