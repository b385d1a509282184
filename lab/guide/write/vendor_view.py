"""The vendor-compatible view of measured numbers.

boardlab stores the numbers that a program printed. The vendor's parser changes some of them; releases stay comparable
only if the same is done here:

- `bw_mem` up to 8 MB is the mean of an operation's own value and of the next operation's (its pattern runs on from one
  block of the log to the next);
- thirteen rows of LMBench are printed a second time under another name, one of them with a zero of another program;
- packets a second are whole thousands, rounded for UDP and cut off for IPSec;
- every number has two decimals, whatever its ±.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from attrs import evolve

from lab.guide import catalogue, layout
from lab.guide.layout import Origin
from lab.guide.write.entries import GuideEntry, GuideRelease

OPERATIONS: Final = ("rd", "wr", "rdwr", "cp", "fwr", "frd", "fcp", "bzero", "bcopy")  # in the order they run
PAIRED_SIZES: Final = frozenset({"1mb", "2mb", "4mb", "8mb"})
_PRINTED_UNITS: Final = {
    "af_unix_socket_stream_bandwidth": "MBs",
    "pipe_bandwidth": "MBs",
    "latency_for_0.50_mb_block_size": "nanosec",
    "latency_for_1.00_mb_block_size": "nanosec",
}
_FALSE_ZERO: Final = "latency_for_1.00_mb_block_size"


def pair_values(values: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], str]:
    """The cells of bw_mem as the vendor prints them.

    Args:
        values: (operation, size) -> the operation's own value, e.g. {("rd", "1mb"): 1303.54}.
    """
    cells = {}
    for (operation, size), value in values.items():
        place = OPERATIONS.index(operation) + 1
        following = values.get((OPERATIONS[place], size)) if place < len(OPERATIONS) else None
        cells[operation, size] = _pair(value, following if size in PAIRED_SIZES else None)
    return cells


def convert(release: GuideRelease) -> GuideRelease:
    """Convert a release's measured cells to the vendor's form.

    Published cells have it already.
    """
    entries = list(release.entries)
    bandwidth = {
        board: pair_values(
            {
                (e.params["operation"], e.params["size"]): e.value
                for e in entries
                if e.board == board and e.metric == "lmbench.bw_mem" and e.value is not None and _is_measured(e)
            }
        )
        for board in release.boards
    }
    own = [_vendor_form(entry, bandwidth) if _is_measured(entry) else entry for entry in entries]
    return evolve(release, entries=(*own, *_aliases(own)))


def _is_measured(entry: GuideEntry) -> bool:
    return entry.evidence.samples is not None


def _vendor_form(entry: GuideEntry, bandwidth: Mapping[str, Mapping[tuple[str, str], str]]) -> GuideEntry:
    if entry.value is None:
        return entry
    match entry.metric:
        case "lmbench.bw_mem":
            return evolve(entry, text=bandwidth[entry.board][entry.params["operation"], entry.params["size"]])
        case "ethernet.udp.packets":
            return evolve(entry, text=f"{round(entry.value):.2f}")
        case "ipsec.packets":
            return evolve(entry, text=f"{math.floor(entry.value):.2f}")
    values = entry.evidence.values
    spread = f" (min {min(values):.2f}, max {max(values):.2f})" if len(values) > 1 else ""
    return evolve(entry, text=f"{entry.value:.2f}{spread}")


def _aliases(entries: Sequence[GuideEntry]) -> Iterator[GuideEntry]:
    """The rows that the vendor prints twice, marked as such."""
    printed: dict[str, list[str]] = {}
    for alias, row in catalogue.load().aliases.items():
        printed.setdefault(row, []).append(alias)
    for entry in entries:
        place = layout.load().place(entry.metric, entry.params)
        if place is None or not _is_measured(entry) or not entry.metric.startswith("lmbench."):
            continue
        for alias in printed.get(place.row.partition(" (")[0], ()):
            text = entry.text
            if alias == _FALSE_ZERO and entry.value is not None:
                text = _pair(entry.value, 0.0)
            row = f"{alias} ({_PRINTED_UNITS.get(alias, 'microsec')})"
            note = "; ".join(filter(None, [f"alias of {place.row}", entry.evidence.note]))
            yield evolve(
                entry,
                metric="",
                text=text,
                evidence=evolve(entry.evidence, note=note),
                origin=Origin(place.chapter, place.title, place.keys, row, place.column),
            )


def _pair(value: float, other: float | None) -> str:
    if other is None:
        return f"{value:.2f}"
    low, high = sorted(Decimal(f"{number:.2f}") for number in (value, other))
    mean = ((low + high) / 2).quantize(Decimal("0.01"), ROUND_HALF_UP)  # as the vendor's database rounds
    return f"{mean} (min {low}, max {high})"
