"""Boots' trees as a trace that the Perfetto UI, or chrome://tracing, opens.

Form: the Trace Event Format, complete events (`X`) and metadata (`M`); times in microseconds. On a thread a part is
within its whole and behind its neighbour, which the form asks for. A sum has no place of its own: it is an argument of
its whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from lab.judge.boot_breakdown import BootBreakdown
from lab.judge.boottree import IN_PARALLEL, BootNode

_BOOT: Final = 1  # the thread of what the boot waited for; units in parallel are on those behind it


def trace(breakdowns: Sequence[BootBreakdown]) -> dict[str, Any]:
    """The trace of a run's media; each is a process."""
    events: list[dict[str, Any]] = []
    for process, breakdown in enumerate(breakdowns, start=1):
        if breakdown.tree is None:
            continue
        title = f"run {breakdown.run}, {breakdown.medium}, release {breakdown.release}"
        events.append(_metadata("process_name", process, 0, title))
        events.append(_metadata("thread_name", process, _BOOT, "boot"))
        start_s, length_s = breakdown.tree.start_s, breakdown.tree.length_s
        events += _events(breakdown.tree, process, start_s, start_s + length_s)
        lanes: list[float] = []  # when each thread in parallel is free again
        for unit in sorted(_beside(breakdown.tree), key=lambda node: node.start_s):
            lane = next((number for number, end_s in enumerate(lanes) if end_s <= unit.start_s), len(lanes))
            if lane == len(lanes):
                lanes.append(0.0)
                events.append(_metadata("thread_name", process, _BOOT + 1 + lane, f"in parallel, {lane + 1}"))
            lanes[lane] = unit.start_s + unit.length_s
            events.append(_event(unit, process, _BOOT + 1 + lane, unit.start_s, unit.start_s + unit.length_s))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _events(node: BootNode, process: int, from_s: float, to_s: float) -> Iterator[dict[str, Any]]:
    """A part and those inside it, within these times."""
    event = _event(node, process, _BOOT, from_s, to_s)
    event["args"] |= {f"{part.name} [ms]": round(part.length_s * 1e3, 3) for part in node.parts if not part.placed}
    yield event
    inner = sorted((part for part in node.parts if part.placed), key=lambda part: part.start_s)
    at_s = from_s
    for number, part in enumerate(inner):
        begin_s = max(at_s, part.start_s)
        next_s = inner[number + 1].start_s if number + 1 < len(inner) else to_s
        at_s = min(begin_s + part.length_s, max(begin_s, next_s), to_s)
        if at_s > begin_s:
            yield from _events(part, process, begin_s, at_s)


def _beside(node: BootNode) -> Iterator[BootNode]:
    yield from node.beside
    for part in node.parts:
        yield from _beside(part)


def _event(node: BootNode, process: int, thread: int, from_s: float, to_s: float) -> dict[str, Any]:
    return {
        "name": node.name.removesuffix(IN_PARALLEL),
        "cat": node.section or "sum",
        "ph": "X",
        "ts": round(from_s * 1e6, 3),
        "dur": round(to_s * 1e6, 3) - round(from_s * 1e6, 3),
        "pid": process,
        "tid": thread,
        "args": {"length [ms]": round(node.length_s * 1e3, 3), "± [ms]": round(node.uncertainty_s * 1e3, 3)},
    }


def _metadata(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
