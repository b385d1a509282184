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

from attrs import asdict, define, evolve, field, frozen

from lab.errors import ConfigurationError
from lab.guide import boards as board_names
from lab.guide import layout, measurements
from lab.guide.boards import NameSource, find_device
from lab.guide.catalogue import CellReading
from lab.guide.check.annotations import AnnotatedGuide, annotate
from lab.guide.layout import Origin
from lab.guide.model import CellKind
from lab.guide.read import reader
from lab.guide.rulebook import Effect
from lab.guide.stored_runs import GUIDE_CELLS, GUIDE_FILE, PublishedCell
from lab.metrics import SampleRecord
from lab.results.records import EVIDENCE, PUBLISHED, AttemptRecord
from lab.results.store import Store, WholeRun, record_runs

_WORTH_A_PROCESS = 8  # guides: to start one takes as long as to read four
_COLLECT_AFTER = 100_000


@frozen
class Imported:
    """Result of the import for one board of a guide.

    Attributes:
        run_id: of the new run, or of the one that has the same file already.
        samples: numbers that this import stored.
        unattributed: cells of short rows, which belong to no certain board.
        cells_without_board: cells of tables that name no board.
        release: its name.
        release_source: "given" or a place in the guide.
        board_source: "table", "given", or the place that names the device of all tables.
    """

    board: str
    run_id: int
    samples: int
    is_new: bool
    unattributed: int
    cells_without_board: int
    release: str
    release_source: str
    board_source: str


@define
class Importer:
    """Imports guides into a store, each in one transaction.

    The stored runs are looked up once for all guides.
    """

    store: Store
    _run_ids: dict[tuple[str, str, str], int] = field(init=False, repr=False)  # by file's digest, board and release

    def __attrs_post_init__(self) -> None:
        """Look up the earlier imports."""
        published = [run for run in self.store.runs(kind=PUBLISHED) if "sha256" in run.provenance]
        self._run_ids = {(run.provenance["sha256"], run.board, run.release): run.id for run in reversed(published)}

    def add(self, guide: PreparedGuide) -> list[Imported]:
        """Store the numbers of a guide as published measurements of a release."""
        keys = {prepared.board: (guide.sha256, prepared.board, guide.release.name) for prepared in guide.boards}
        new = [prepared for prepared in guide.boards if keys[prepared.board] not in self._run_ids]
        new_boards = {prepared.board for prepared in new}
        if new:
            file = self.store.artifacts.put(guide.data, kind=GUIDE_FILE)
            runs = []
            for prepared in new:
                artifacts = (file, self.store.artifacts.put(prepared.cells, kind=GUIDE_CELLS))
                attempts = tuple(evolve(attempt, artifacts=artifacts) for attempt in prepared.run.attempts)
                runs.append(evolve(prepared.run, attempts=attempts))
            ids = record_runs(self.store, runs)
            self._run_ids |= {keys[prepared.board]: id_ for prepared, id_ in zip(new, ids, strict=True)}
        return [
            Imported(
                board=prepared.board,
                run_id=self._run_ids[keys[prepared.board]],
                samples=len(prepared.run.attempts[0].samples) if prepared.board in new_boards else 0,
                is_new=prepared.board in new_boards,
                unattributed=guide.unattributed,
                cells_without_board=min(other.cells_without_board for other in guide.boards),
                release=guide.release.name,
                release_source=guide.release.source,
                board_source=prepared.board_source,
            )
            for prepared in guide.boards
        ]


def prepare_all(
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
    prepare_one = functools.partial(_prepare_or_error, release=release, board=board, now=now, defines=defines)
    workers = min(len(os.sched_getaffinity(0)), len(paths) // _WORTH_A_PROCESS)
    if workers < 2:
        yield from map(prepare_one, paths)
        return
    # started anew: a fork would take over the database's connections
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _calm_collector) as pool:
        yield from pool.map(prepare_one, paths)


def _prepare_or_error(
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
        cells_without_board: cells of tables without a board that it was not given.
        run: without artifacts.
        cells: every cell as printed, as JSON.
    """

    board: str
    board_source: str
    cells_without_board: int
    run: WholeRun
    cells: bytes


@frozen
class PreparedGuide:
    """A guide, read and judged.

    Attributes:
        data: the file.
        release: and what says so: "given", or a place in the guide.
        unattributed: cells of the guide's short rows, which no board can be given.
        boards_without_metrics: boards in headers above numbers of which none stands for a metric.
    """

    path: Path
    data: bytes
    sha256: str
    release: NameSource
    unattributed: int
    boards: tuple[PreparedBoard, ...]
    boards_without_metrics: tuple[str, ...]


def prepare(
    path: Path,
    release: str | None,
    board: str | None,
    defines: Mapping[str, str] | None,
    now: dt.datetime,
) -> PreparedGuide:
    """Read a guide and judge its numbers.

    Args:
        release: None: the one that the guide's title, its file's name or its text names; of a guide of the real-time
            kernel with "-rt", so that its numbers never stand among the other kernel's.
        board: whose numbers the tables without a board are; None: the guide's only board; where no table names one, the
            device of its modules, title, file name or folder; else nobody's.
        defines: what chooses the guide's branches.

    Raises:
        ConfigurationError: the file cannot be read, has no number of a metric, names no release or no board and none is
            given, or has nothing of the given board.
    """
    sheet = measurements.require_metrics(measurements.of_guide(reader.read(path, defines)))
    guide = sheet.guide
    named_release = (
        NameSource(release, "given") if release else NameSource(guide.kernel_release or "", guide.release_source)
    )
    if not named_release.name:
        raise ConfigurationError(
            f"{path}: neither its title, its name nor its text says which release it is of; say it with --release"
        )
    evidence = annotate(evolve(sheet, guide=evolve(guide, release=named_release.name)))
    owners = _owners(evidence, path, board)
    is_only_board = len(owners) == 1 and guide.boards in ((), tuple(owners))
    owner_of_rest = board or (next(iter(owners)) if is_only_board else None)
    data = path.read_bytes()
    origin = _GuideFile(path, hashlib.sha256(data).hexdigest(), named_release, now)
    boards = tuple(
        _prepare_board(evidence, origin, NameSource(name, source), name == owner_of_rest)
        for name, source in owners.items()
    )
    unattributed = sum(c.kind is CellKind.UNATTRIBUTED for t in guide.tables for c in t.cells)
    without_metrics = tuple(name for name in guide.boards if name not in owners)
    return PreparedGuide(path, data, origin.sha256, named_release, unattributed, boards, without_metrics)


def _owners(evidence: AnnotatedGuide, path: Path, board: str | None) -> dict[str, str]:
    """Each board with a number of a metric, and the source of its name."""
    guide = evidence.sheet.guide
    with_metrics = {r.board for readings in evidence.sheet.by_metric.values() for r in readings}
    owners = {name: "table" for name in guide.boards if name in with_metrics or len(guide.boards) == 1}
    if not owners:
        owner = NameSource(board, "given") if board else find_device(guide, path)
        if owner is None:
            raise ConfigurationError(
                f"{path}: no table with a metric names a board, and neither modules, title nor path one device; say "
                "whose numbers they are with --board"
            )
        owners[owner.name] = owner.source
    if board and board not in owners:
        if not any(_is_result(r) and _lacks_board(r) for r in evidence.sheet.readings):
            raise ConfigurationError(
                f"{path}: every table with a metric names its board, none {board!r}; they name: {', '.join(owners)}"
            )
        owners[board] = "given"
    return owners


@frozen
class _GuideFile:
    """The file and its release."""

    path: Path
    sha256: str
    release: NameSource
    now: dt.datetime


def _prepare_board(evidence: AnnotatedGuide, file: _GuideFile, owner: NameSource, takes_rest: bool) -> PreparedBoard:
    board, guide, name = owner.name, evidence.sheet.guide, file.path.name
    results = [r for r in evidence.sheet.readings if _is_result(r)]
    own = [r for r in results if r.cell.board == board or (takes_rest and _lacks_board(r))]
    module = board_names.module_of(guide, board)
    short_rows = [
        f"{name}, line {r.cell.line}: row {r.cell.row!r} of {r.table.name!r} is shorter or longer than its header, "
        "so its boards are not known"
        for r in evidence.sheet.readings
        if r.cell.kind is CellKind.UNATTRIBUTED
    ]
    provenance: dict[str, Any] = {
        "source": "performance guide",
        "file": name,
        "sha256": file.sha256,
        "title": guide.title,
        "printed_release": guide.release,
        "release_source": file.release.source,
        "board_source": owner.source,
        "module": {"name": module.name, "description": module.description} if module else None,
        "conditions": _conditions(evidence, own),
        "left_out": list(dict.fromkeys(short_rows)),
    }
    sampled: dict[object, CellReading] = {}  # the first reading of each number
    for r in own:
        if r.quantity and evidence.value(r) is not None and not evidence.finding_with(Effect.BROKEN, r):
            sampled.setdefault(r.key, r)
    documents = {key: evidence.evidence(r, r.board or board).document() for key, r in sampled.items()}
    record = AttemptRecord(
        cycle=1,
        number=1,
        params={},
        outcome="ok",
        fault=None,
        transient=None,
        message="",
        started_at=file.now,
        duration_s=0.0,
        samples=tuple(
            SampleRecord(r.metric, dict(r.params), evidence.value(r) or 0.0, evidence.uncertainty(r))
            for r in sampled.values()
        ),
        details={
            EVIDENCE: [{"metric": r.metric, "params": dict(r.params), **documents[key]} for key, r in sampled.items()]
        },
    )
    run = WholeRun(
        PUBLISHED, board_names.type_of(board), board, file.release.name, {"guide": name}, provenance, (record,)
    )
    cells = [asdict(_published_cell(r, evidence, documents.get(r.key, {}))) for r in own]
    without_board = 0 if takes_rest else sum(_lacks_board(r) for r in results)
    return PreparedBoard(board, owner.source, without_board, run, json.dumps(cells, ensure_ascii=False).encode())


def _is_result(r: CellReading) -> bool:
    c = r.cell
    return (
        c.metric is not None
        and not r.table.columns[c.column].is_key
        and not r.is_alias
        and c.kind is not CellKind.EMPTY
    )


def _lacks_board(r: CellReading) -> bool:
    return all(column.board is None for column in r.table.columns)


def _published_cell(r: CellReading, evidence: AnnotatedGuide, facts: Mapping[str, Any]) -> PublishedCell:
    c = r.cell
    broken = evidence.finding_with(Effect.BROKEN, r) or evidence.finding_with(Effect.INCOMPARABLE, r)
    recovery = evidence.finding_with(Effect.RECOVERED, r)
    note = broken.message if broken else ""
    if not broken and recovery and recovery.corrected:
        error = f" ± {recovery.uncertainty:.0f}, recovered from averages" if recovery.uncertainty else ""
        note = f"own value {recovery.corrected:g}{error}"
    keys = tuple(column.text for column in r.table.columns if column.is_key)
    return PublishedCell(
        metric=r.metric,
        params=dict(r.params),
        text=c.value.text,
        value=evidence.value(r),
        line=c.line,
        note=note,
        is_broken=broken is not None,
        definition=facts.get("definition_text", ""),
        conditions=facts.get("conditions", ()),
        keys={key: c.params.get(key, "") for key in keys[1:]},
        origin=Origin(r.table.chapter, r.table.name, keys, c.row, c.metric or ""),
    )


def _conditions(evidence: AnnotatedGuide, own: Sequence[CellReading]) -> dict[str, list[str]]:
    """Map each top chapter to the conditions that the guide states."""
    conditions: dict[str, dict[str, None]] = {}
    tables: set[tuple[int, str]] = set()
    for r in own:
        place = layout.load().place(r.metric, r.params)
        top = place.chapter[0] if place else next(iter(r.table.chapter), "")
        if (r.table.index, top) not in tables:
            tables.add((r.table.index, top))
            for condition in evidence.sheet.condition(r.table):
                conditions.setdefault(top, {})[condition.text] = None
    return {top: list(texts) for top, texts in conditions.items()}
