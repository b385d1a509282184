"""Guides -> the store: one run for each board, with the file as its evidence.

A run of kind "published" has one attempt. Its samples are the guide's numbers, recovered where a rule can. Its artifacts
are the file itself and a list of every cell as printed, with line, name and place. Numbers of broken runs are no samples.
What the rules and conditions say of each number is kept for the judge. The same file is imported once.
"""

from __future__ import annotations

import datetime as dt
import functools
import gc
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from attrs import define, evolve, field, frozen

from lab.errors import ConfigurationError
from lab.guide.prepared import PreparedBoard, PreparedGuide, prepare
from lab.results.records import EVIDENCE, PUBLISHED
from lab.results.store import Store, record_runs

GUIDE_FILE = "guide"
GUIDE_CELLS = "guide-cells"
_WORTH_A_PROCESS = 8  # guides: to start one takes as long as to read four
_COLLECT_AFTER = 100_000


@frozen
class Imported:
    """What became of a board of a guide.

    Attributes:
        run_id: of the new run, or of the one that has the same file already.
        samples: how many numbers were stored now.
        unattributed: cells of the guide's short rows, which no board can be given.
        nameless: cells of tables without a board that nobody was given.
        release, release_source: what the numbers are of, and what says so: "given", or a place in the guide.
        board_source: "table", "given", or where the device stands that all tables are of.
    """

    board: str
    run_id: int
    samples: int
    is_new: bool
    unattributed: int
    nameless: int
    release: str
    release_source: str
    board_source: str


@define
class Importer:
    """Puts guides into a store, each in one transaction; what the store has already is looked up once, for all of them."""

    store: Store
    _known: dict[tuple[str, str, str], int] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Look up what is there."""
        published = [run for run in self.store.runs() if run.kind == PUBLISHED and "sha256" in run.provenance]
        self._known = {(run.provenance["sha256"], run.board, run.release): run.id for run in reversed(published)}

    def add(self, guide: PreparedGuide) -> list[Imported]:
        """Store the numbers of a guide as published measurements of a release."""
        places = {one.board: (guide.sha256, one.board, guide.release.name) for one in guide.boards}
        found = {
            board: self._known[place]
            for board, place in places.items()
            if place in self._known and _has_evidence(self.store, self._known[place])
        }
        new = [one for one in guide.boards if one.board not in found]
        ids = found | dict(zip([one.board for one in new], self._record(guide, new), strict=True))
        self._known |= {place: ids[board] for board, place in places.items()}
        nameless = min(one.nameless for one in guide.boards)
        return [
            Imported(
                one.board,
                ids[one.board],
                0 if one.board in found else len(one.run.attempts[0].samples),
                one.board not in found,
                guide.unattributed,
                nameless,
                guide.release.name,
                guide.release.source,
                one.board_source,
            )
            for one in guide.boards
        ]

    def _record(self, guide: PreparedGuide, new: Sequence[PreparedBoard]) -> list[int]:
        if not new:
            return []
        file = self.store.artifacts.put(guide.data, kind=GUIDE_FILE)
        runs = []
        for one in new:
            artifacts = (file, self.store.artifacts.put(one.cells, kind=GUIDE_CELLS))
            runs.append(evolve(one.run, attempts=tuple(evolve(a, artifacts=artifacts) for a in one.run.attempts)))
        return record_runs(self.store, runs)


def prepared(
    paths: Sequence[Path],
    release: str | None,
    board: str | None,
    now: dt.datetime,
    defines: Mapping[str, str] | None = None,
) -> Iterator[PreparedGuide | ConfigurationError]:
    """Each guide, or why it cannot be imported, in the order of the paths; many are read on all processors.

    See `lab.guide.prepared.prepare` for the arguments.
    """
    one = functools.partial(_prepared, release=release, board=board, now=now, defines=defines)
    workers = min(len(os.sched_getaffinity(0)), len(paths) // _WORTH_A_PROCESS)
    if workers < 2:
        yield from map(one, paths)
        return
    # started anew: a fork would take over the database's connections
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _calm_collector) as pool:
        yield from pool.map(one, paths)


def _prepared(
    path: Path, *, release: str | None, board: str | None, now: dt.datetime, defines: Mapping[str, str] | None
) -> PreparedGuide | ConfigurationError:
    try:
        return prepare(path, release, board, defines, now)
    except ConfigurationError as error:
        return error


def _calm_collector() -> None:
    """A guide is a hundred thousand objects that live until it is stored: looking for cycles at each 700 new ones is a quarter of the time."""
    gc.set_threshold(_COLLECT_AFTER)


def _has_evidence(store: Store, run_id: int) -> bool:
    """Whether the judge can use the run; boardlab before 2026-12 kept no evidence, and such a file is imported once more."""
    return any(EVIDENCE in attempt.details for attempt in store.attempts(run_id))
