"""Import of guides into the store, with the file as evidence.

Each board of a guide becomes a run.

A run of kind "published" has one attempt. Its samples are the guide's numbers, recovered where a rule can. Its
artifacts are the file itself and a list of every cell as printed, with line, name and place. Numbers of broken runs
are no samples. The findings and conditions of each number are stored for the judge. The same file is imported once.
"""

from __future__ import annotations

import datetime as dt
import functools
import gc
import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen

from lab.errors import ConfigurationError
from lab.guide import boards as names
from lab.guide import layout, model
from lab.guide import measurements as sheets
from lab.guide.catalogue import CellReading
from lab.guide.check import annotations as guide_annotations
from lab.guide.check.annotations import AnnotatedGuide
from lab.guide.compare.comparison import evidence as evidence_of
from lab.guide.compare.comparison import uncertainty as uncertainty_of
from lab.guide.model import CellKind, Named
from lab.guide.read import reader
from lab.guide.rulebook import Effect
from lab.metrics import SampleRecord
from lab.results.records import EVIDENCE, PUBLISHED, AttemptRecord
from lab.results.store import Store, WholeRun, record_runs

GUIDE_FILE = "guide"
GUIDE_CELLS = "guide-cells"
_WORTH_A_PROCESS = 8  # guides: to start one takes as long as to read four
_COLLECT_AFTER = 100_000


@frozen
class Imported:
    """Result of the import for one board of a guide.

    Attributes:
        run_id: of the new run, or of the one that has the same file already.
        samples: numbers that this import stored.
        unattributed: cells of short rows, which belong to no certain board.
        nameless: cells of tables that name no board.
        release, release_source: the release, and its source: "given" or a place in the guide.
        board_source: "table", "given", or the place that names the device of all tables.
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
    """Imports guides into a store, each in one transaction.

    The stored runs are looked up once for all guides.
    """

    store: Store
    _known: dict[tuple[str, str, str], int] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Look up the earlier imports."""
        published = [run for run in self.store.runs() if run.kind == PUBLISHED and "sha256" in run.provenance]
        self._known = {(run.provenance["sha256"], run.board, run.release): run.id for run in reversed(published)}

    def add(self, guide: PreparedGuide) -> list[Imported]:
        """Store the numbers of a guide as published measurements of a release."""
        places = {one.board: (guide.sha256, one.board, guide.release.name) for one in guide.boards}
        found = {board: self._known[place] for board, place in places.items() if place in self._known}
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
    """Prepare guides in the order of their paths.

    Yields the error of a guide that cannot be imported. Many guides are read on all processors.

    See `lab.guide.check.importer.prepare` for the arguments.
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
    """Run the garbage collector less often.

    A guide is a hundred thousand objects that live until they are stored; looking for cycles at each 700 new ones
    takes a quarter of the time.
    """
    gc.set_threshold(_COLLECT_AFTER)


@frozen
class PreparedBoard:
    """A board of a guide.

    Attributes:
        board_source: "table", "given", or where the device stands that all tables are of.
        nameless: cells of tables without a board that it was not given.
        run: without artifacts.
        cells: every cell as printed, as JSON.
    """

    board: str
    board_source: str
    nameless: int
    run: WholeRun
    cells: bytes


@frozen
class PreparedGuide:
    """A guide, read and judged.

    Attributes:
        data: the file.
        release: and what says so: "given", or a place in the guide.
        unattributed: cells of the guide's short rows, which no board can be given.
    """

    path: Path
    data: bytes
    sha256: str
    release: Named
    unattributed: int
    boards: tuple[PreparedBoard, ...]


def prepare(
    path: Path,
    release: str | None,
    board: str | None,
    defines: Mapping[str, str] | None,
    now: dt.datetime,
) -> PreparedGuide:
    """Read a guide and judge its numbers.

    Args:
        release: None: the one that the guide's title, its file's name or its text names; of a guide of the real-time kernel
            with "-rt", so that its numbers never stand among the other kernel's.
        board: whose numbers the tables without a board are; None: the guide's only board; where no table names one, the
            device of its modules, title, file name or folder; else nobody's.
        defines: what chooses the guide's branches.

    Raises:
        ConfigurationError: the file cannot be read, names no release or no board and none is given, or has nothing of the
            given board.
    """
    guide = reader.read(path, defines)
    found_release = Named(release, "given") if release else Named(guide.kernel_release or "", guide.release_source)
    if not found_release.name:
        raise ConfigurationError(
            f"{path}: neither its title, its name nor its text says which release it is of; say it with --release"
        )
    evidence = guide_annotations.annotate(sheets.of_guide(evolve(guide, release=found_release.name)))
    owners = _owners(evidence, path, board)
    nameless = board or (next(iter(owners)) if len(owners) == 1 else None)
    data = path.read_bytes()
    origin = _Origin(path, hashlib.sha256(data).hexdigest(), found_release, now)
    boards = tuple(_board(evidence, origin, Named(name, source), name == nameless) for name, source in owners.items())
    loose = sum(c.kind is CellKind.UNATTRIBUTED for t in guide.tables for c in t.cells)
    return PreparedGuide(path, data, origin.sha256, found_release, loose, boards)


def _owners(evidence: AnnotatedGuide, path: Path, board: str | None) -> dict[str, str]:
    """Each board, and the source of its name."""
    guide = evidence.sheet.guide
    owners = dict.fromkeys(guide.boards, "table")
    if not owners:
        owner = Named(board, "given") if board else model.device(guide, path)
        if owner is None:
            raise ConfigurationError(
                f"{path}: no table names a board, and neither modules, title nor path one device; say whose numbers they are "
                "with --board"
            )
        owners[owner.name] = owner.source
    if board and board not in owners:
        if not any(_is_result(r) and _takes(r, takes_nameless=True) for r in evidence.sheet.readings):
            raise ConfigurationError(
                f"{path}: every table names its board, none {board!r}; they name: {', '.join(owners)}"
            )
        owners[board] = "given"
    return owners


@frozen
class _Origin:
    """The file and its release."""

    path: Path
    sha256: str
    release: Named
    now: dt.datetime


def _board(evidence: AnnotatedGuide, origin: _Origin, owner: Named, takes_nameless: bool) -> PreparedBoard:
    board, guide, path = owner.name, evidence.sheet.guide, origin.path
    results = [r for r in evidence.sheet.readings if _is_result(r)]
    own = [r for r in results if r.cell.board == board or _takes(r, takes_nameless)]
    module = names.module_of(guide, board)
    provenance: dict[str, Any] = {
        "source": "performance guide",
        "file": path.name,
        "sha256": origin.sha256,
        "title": guide.title,
        "printed_release": guide.release,
        "release_source": origin.release.source,
        "board_source": owner.source,
        "module": {"name": module.name, "description": module.description} if module else None,
        "conditions": _conditions(evidence, own),
        "left_out": _short_rows(evidence, path.name),
    }
    sampled = list(_stored(own, evidence))
    known = [
        {"metric": r.metric, "params": dict(r.params), **evidence_of(r, evidence, r.board or board).document()}
        for r in sampled
    ]
    record = AttemptRecord(
        cycle=1,
        number=1,
        params={},
        outcome="ok",
        fault=None,
        transient=None,
        message="",
        started_at=origin.now,
        duration_s=0.0,
        samples=tuple(_samples(sampled, evidence)),
        details={EVIDENCE: known},
    )
    plan = {"guide": path.name}
    run = WholeRun(PUBLISHED, names.type_of(board), board, origin.release.name, plan, provenance, (record,))
    documents = {r.key: document for r, document in zip(sampled, known, strict=True)}
    cells = json.dumps([_cell(r, evidence, documents.get(r.key, {})) for r in own], ensure_ascii=False).encode()
    nameless = 0 if takes_nameless else sum(_takes(r, takes_nameless=True) for r in results)
    return PreparedBoard(board, owner.source, nameless, run, cells)


def _is_result(r: CellReading) -> bool:
    c = r.cell
    return (
        c.metric is not None
        and not r.table.columns[c.column].is_key
        and not r.is_alias
        and c.kind is not CellKind.EMPTY
    )


def _takes(r: CellReading, takes_nameless: bool) -> bool:
    return takes_nameless and all(column.board is None for column in r.table.columns)


def _samples(sampled: Sequence[CellReading], evidence: AnnotatedGuide) -> Iterator[SampleRecord]:
    for r in sampled:
        value = evidence.number(r)
        if value is not None:
            yield SampleRecord(r.metric, dict(r.params), value, uncertainty_of(r, evidence))


def _stored(own: Sequence[CellReading], evidence: AnnotatedGuide) -> Iterator[CellReading]:
    """Yield the readings that become samples, the first of each number."""
    seen = set()
    for r in own:
        if r.quantity is None or evidence.number(r) is None or r.key in seen or evidence.effect(r, Effect.BROKEN):
            continue
        seen.add(r.key)
        yield r


def _cell(r: CellReading, evidence: AnnotatedGuide, known: Mapping[str, Any]) -> dict[str, Any]:
    c = r.cell
    broken = evidence.effect(r, Effect.BROKEN) or evidence.effect(r, Effect.INCOMPARABLE)
    recovered = evidence.effect(r, Effect.RECOVERED)
    keys = [column for column in r.table.columns if column.is_key]
    return {
        "metric": r.metric,
        "params": dict(r.params),
        "text": c.value.text,
        "value": evidence.number(r),
        "line": c.line,
        "note": broken.message
        if broken
        else f"own value {recovered.corrected:g}"
        + (f" ± {recovered.uncertainty:.0f}, recovered from averages" if recovered.uncertainty else "")
        if recovered and recovered.corrected
        else "",
        "is_broken": broken is not None,
        "definition": known.get("definition_text", ""),
        "conditions": list(known.get("conditions", ())),
        "keys": {column.text: c.params.get(column.text, "") for column in keys[1:]},
        "origin": {
            "chapter": list(r.table.chapter),
            "title": r.table.name,
            "keys": [column.text for column in keys],
            "row": c.row,
            "column": c.metric or "",
        },
    }


def _conditions(evidence: AnnotatedGuide, own: Sequence[CellReading]) -> dict[str, list[str]]:
    """Map each top chapter to the conditions that the guide states."""
    found: dict[str, dict[str, None]] = {}
    tables: set[tuple[int, str]] = set()
    for r in own:
        place = layout.load().place(r.metric, r.params)
        top = place.chapter[0] if place else next(iter(r.table.chapter), "")
        if (r.table.index, top) not in tables:
            tables.add((r.table.index, top))
            for condition in evidence.sheet.condition(r.table):
                found.setdefault(top, {})[condition.text] = None
    return {top: list(texts) for top, texts in found.items()}


def _short_rows(evidence: AnnotatedGuide, file: str) -> list[str]:
    """The rows whose cells no board can be given, one line each."""
    rows: dict[str, None] = {}
    for r in evidence.sheet.readings:
        if r.cell.kind is CellKind.UNATTRIBUTED:
            where = f"{file}, line {r.cell.line}: row {r.cell.row!r} of {r.table.name!r}"
            rows[f"{where} is shorter or longer than its header, so its boards are not known"] = None
    return list(rows)
