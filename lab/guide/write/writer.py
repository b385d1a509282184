"""Writes the guide of a release from the store."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from pathlib import Path
from typing import Final

from attrs import evolve

from lab.errors import BoardlabError, ConfigurationError
from lab.guide import catalogue, layout
from lab.guide.write import figures, footnotes, page, rst_writer, stored_release
from lab.guide.write.entries import GuideEntry, GuideRelease, Origin
from lab.host import process
from lab.judge.labels import precedes, release_key
from lab.results.records import PUBLISHED
from lab.results.retention import refer
from lab.results.store import Store

_NOT_IN_NAMES = re.compile(r"[^\w.+-]+")


class GuideView(StrEnum):
    """Form of the numbers that the vendor computes in its own way."""

    CORRECTED = "corrected"
    VENDOR = "vendor"


def write(
    store: Store,
    name: str,
    boards: Sequence[str],
    folder: Path,
    forms: Iterable[str],
    view: GuideView = GuideView.CORRECTED,
    *,
    with_errors: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> Iterator[Path]:
    """Write the files and return their paths as they are done.

    Args:
        with_errors: print numbers that a rule calls an error, too, with a mark.
        say: takes what was left out since cycles failed, and open regressions, one sentence each.

    Raises:
        ConfigurationError: no such release or board, or the folder cannot be written.
    """
    release = stored_release.release(store, name, boards, is_judged=True)
    for text in release.failed:
        say(f"left out: {text}")
    for text in release.regressions:
        say(f"open regression of {text}; `lab judge accept` or `reject` of that run decides")
    corrected = view is GuideView.CORRECTED
    release = footnotes.annotated(
        release if corrected else vendor_view(release), corrected=corrected, with_errors=with_errors
    )
    runs = {entry.evidence.run_id for entry in release.entries if entry.evidence.run_id is not None}
    try:
        refer(store, runs, name, process.actor())
    except BoardlabError as error:  # e.g. somebody who may only read
        say(f"its runs are not noted, and may be removed when they are old: {error}")
    for form in forms:
        text = rst_writer.write(release) if form == "rst" else _page(store, release)
        path = folder / f"performance-guide-{_NOT_IN_NAMES.sub('-', name)}.{form}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(
                f"{path}: cannot be written: {error.strerror}; choose another folder with -o"
            ) from error
        yield path


def _page(store: Store, release: GuideRelease) -> str:
    measured = [
        stored_release.measured(store, run)[0]
        for run in stored_release.counting(store)
        if run.kind != PUBLISHED
        and release_key(run.release) == release_key(release.name)
        and any(stored_release.is_of(run, board) for board in release.boards)
    ]
    had = {
        board: {
            release_key(name): name for name in stored_release.releases(store, board) if precedes(name, release.name)
        }
        for board in release.boards
    }
    earlier = sorted({key for keys in had.values() for key in keys})
    history = [
        stored_release.release(
            store, next(keys[key] for keys in had.values() if key in keys), [b for b in had if key in had[b]]
        )
        for key in earlier
    ]
    trend = figures.chapters_over_releases([*history, release])
    return page.render(release, figures.of_release(release, measured), trend)


# --- The vendor-compatible view of measured numbers ---
# boardlab stores the numbers that a program printed. The vendor's parser changes some of them; releases stay comparable
# only if the same is done here:
#
# - `bw_mem` up to 8 MB is the mean of an operation's own value and of the next operation's (its pattern runs on from one
# block of the log to the next);
# - thirteen rows of LMBench are printed a second time under another name, one of them with a zero of another program;
# - packets a second are whole thousands, rounded for UDP and cut off for IPSec.


OPERATIONS: Final = ("rd", "wr", "rdwr", "cp", "fwr", "frd", "fcp", "bzero", "bcopy")  # in the order they run
PAIRED_SIZES: Final = frozenset({"1mb", "2mb", "4mb", "8mb"})
_PRINTED_UNITS: Final = {
    "af_unix_socket_stream_bandwidth": "MBs",
    "pipe_bandwidth": "MBs",
    "latency_for_0.50_mb_block_size": "nanosec",
    "latency_for_1.00_mb_block_size": "nanosec",
}
_FALSE_ZERO: Final = "latency_for_1.00_mb_block_size"


def paired(values: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], str]:
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


def vendor_view(release: GuideRelease) -> GuideRelease:
    """Convert a release's measured cells to the vendor's form.

    Published cells have it already.
    """
    entries = list(release.entries)
    bandwidth = {
        board: paired(
            {
                (e.params["operation"], e.params["size"]): e.value
                for e in entries
                if e.board == board and e.metric == "lmbench.bw_mem" and e.value is not None and _is_measured(e)
            }
        )
        for board in release.boards
    }
    formed = [_formed(entry, bandwidth) if _is_measured(entry) else entry for entry in entries]
    return evolve(release, entries=(*formed, *_aliases(entries)))


def _is_measured(entry: GuideEntry) -> bool:
    return entry.evidence.samples is not None


def _formed(entry: GuideEntry, bandwidth: Mapping[str, Mapping[tuple[str, str], str]]) -> GuideEntry:
    if entry.value is None:
        return entry
    match entry.metric:
        case "lmbench.bw_mem":
            return evolve(entry, text=bandwidth[entry.board][entry.params["operation"], entry.params["size"]])
        case "ethernet.udp.packets":
            return evolve(entry, text=f"{round(entry.value):.2f}")
        case "ipsec.packets":
            return evolve(entry, text=f"{math.floor(entry.value):.2f}")
    return entry


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
    low, high = sorted(Decimal(f"{one:.2f}") for one in (value, other))
    mean = ((low + high) / 2).quantize(Decimal("0.01"), ROUND_HALF_UP)  # as the vendor's database rounds
    return f"{mean} (min {low}, max {high})"
