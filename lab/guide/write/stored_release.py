"""A release in the store as the numbers of a written guide, and as a guide to compare."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import evolve

from lab.benchmarks.output import command_at
from lab.benchmarks.sections import of_number
from lab.errors import ConfigurationError
from lab.guide.layout import guide_name, natural
from lab.guide.measurements import MeasuredGuide, of_guide
from lab.guide.read import reader
from lab.guide.stored_runs import (
    GUIDE_CELLS,
    GUIDE_FILE,
    accepted_runs,
    column_name,
    incomplete,
    is_of,
    published_cells,
    sound_numbers,
    without_sisters,
)
from lab.guide.write import rst_writer
from lab.guide.write.entries import EntryProvenance, GuideEntry, GuideRelease
from lab.guide.write.remarks import Remarks, judge_boards, number_key, open_regressions
from lab.guide.write.setup import BoardColumn, conditions_of, modules_of, read_setup, software_of
from lab.judge.labels import release_key, same_release
from lab.judge.latest import LabComparison, WorseNumber, describe
from lab.metrics import Flag, Measurement, summarise
from lab.metrics.catalogue import BOOT_STAGE
from lab.results import formatting
from lab.results.formatting import label
from lab.results.listing import Overview, attempts_of
from lab.results.records import PUBLISHED, Attempt, Run
from lab.results.series import runs_with_failures
from lab.results.store import Store
from lab.results.sums import Average
from lab.terminal import plain_bytes

_EXCERPT_LINES = 6
_NAMED: Final = 5  # boards whose numbers a column has
_ZERO: Final = re.compile(r"0(\.0+)? \(min 0(\.0+)?, max 0(\.0+)?\)")


def collect(
    store: Store,
    name: str,
    boards: Sequence[str],
    *,
    is_judged: bool = False,
    comparison: LabComparison | None = None,
) -> GuideRelease:
    """Collect the numbers of some boards in a release.

    Measured numbers go before published ones, those of completed runs before others, newer ones before older ones.
    Rejected runs do not count, and neither do numbers with a failed cycle; `failed` names their runs.

    Args:
        boards: names of headers: a board, a board type, or a board as the vendor's guides spell it; empty: each board
            type that has numbers.
        is_judged: with remarks on numbers that are worse and that nobody has decided on.
        comparison: of the lab's boards, for these remarks; None: they are judged here.

    Raises:
        ConfigurationError: no numbers of that release, or of one of the boards.
    """
    accepted = accepted_runs(store, name)
    runs = [run for run in accepted if same_release(run.release, name)]
    if not runs:
        releases = sorted({run.release for run in accepted_runs(store)}, key=release_key)
        raise ConfigurationError(
            f"{store.url} has no numbers of release {name}; there are: {', '.join(releases) or 'none'}; import a "
            "guide or measure"
        )
    published = [run for run in accepted if run.kind == PUBLISHED]
    judged = comparison or (judge_boards(store, runs) if is_judged else LabComparison())
    worse = open_regressions(judged, name)
    columns: list[BoardColumn] = []
    for board in boards or sorted({column_name(published, run) for run in runs}):
        board_runs = [run for run in runs if (is_of(run, board) if boards else column_name(published, run) == board)]
        columns.append(_collect_column(store, board, without_sisters(board_runs, board), worse))
        if boards and not columns[-1].entries:
            raise _no_numbers(name, board, runs, columns)
    if not any(column.entries for column in columns):
        raise _no_numbers(name, columns[-1].board, runs, columns)
    measured_boards = {run.board for column in columns for run in column.runs}
    every = [entry for column in columns for entry in column.entries]
    entries = tuple(entry for entry in every if not _is_no_stage(entry))
    left_out = [
        f"{entry.board}: {label(entry.params)} is 0 to the last digit." for entry in every if _is_no_stage(entry)
    ]
    left_out += [text for column in columns for run in column.runs for text in run.provenance.get("left_out") or ()]
    return GuideRelease(
        name=name,
        boards=tuple(column.board for column in columns if column.entries),
        entries=entries,
        modules=modules_of(columns),
        software=software_of(columns),
        conditions=conditions_of(columns),
        left_out=tuple(dict.fromkeys(left_out)),
        failed=tuple(text for column in columns for text in column.failures),
        origins=tuple(text for column in columns if (text := _describe_origin(column))),
        regressions=tuple(
            f"{board}: {describe(numbers)}"
            for board, numbers in sorted(worse.items(), key=lambda pair: natural(pair[0]))
            if board in measured_boards
        ),
        uncompared=len(judged.left & measured_boards),
    )


def _is_no_stage(entry: GuideEntry) -> bool:
    """True for a stage that took no time that a guide prints."""
    return entry.metric == BOOT_STAGE.name and _ZERO.fullmatch(entry.text) is not None


def _no_numbers(name: str, board: str, runs: Sequence[Run], columns: Sequence[BoardColumn]) -> ConfigurationError:
    why = "".join(f"; {text}" for column in columns for text in column.failures)
    boards = ", ".join(sorted({run.board for run in runs}))
    return ConfigurationError(f"release {name} has no numbers of board {board!r}; there are: {boards}{why}")


def _collect_column(
    store: Store, board: str, runs: Sequence[Run], worse: Mapping[str, Sequence[WorseNumber]]
) -> BoardColumn:
    """Numbers of a board, the first of each, and what its runs say besides.

    A run is read as a whole only if a number of it is the first, or an attempt of it failed: of the others, perhaps
    a thousand, the averages are enough.
    """
    whole_first = sorted((run for run in runs if run.kind != PUBLISHED), key=lambda run: bool(incomplete(run)))
    averages: dict[int, list[Average]] = {run.id: [] for run in whole_first}
    with store.snapshot() as snapshot:
        for average in snapshot.averages(list(averages)):
            averages[average.run_id].append(average)
        failing = runs_with_failures(snapshot, list(averages))
    read: dict[int, tuple[Overview, list[str]]] = {}
    firsts: set[object] = set()
    for run in whole_first:
        if run.id in failing or any(number_key(average) not in firsts for average in averages[run.id]):
            read[run.id] = sound_numbers(store, run)
            sound = {number_key(measurement) for measurement in read[run.id][0].measurements}
            averages[run.id] = [average for average in averages[run.id] if number_key(average) in sound]
            firsts |= sound
    remarks = Remarks.of_runs([(run, averages[run.id]) for run in whole_first], worse)
    candidates = [
        entry
        for run in whole_first
        if run.id in read
        for entry in _measured_entries(store, read[run.id][0], board, remarks)
    ]
    overviews = [read[run.id] for run in runs if run.id in read]
    candidates += [entry for run in runs if run.kind == PUBLISHED for entry in _published_entries(store, run, board)]
    entries: dict[object, GuideEntry] = {}
    for entry in candidates:
        place = entry.origin if not entry.metric else None
        entries.setdefault((entry.metric, frozenset(entry.params.items()), place), entry)
    used = {entry.evidence.run_id for entry in entries.values()}
    return BoardColumn(
        board=board,
        runs=tuple(runs),
        entries=tuple(entries.values()),
        setups={o.run.id: read_setup(o) for o, _ in reversed(overviews) if o.run.id in used},
        failures=tuple(text for _, failures in overviews for text in failures),
    )


def _describe_origin(column: BoardColumn) -> str:
    """The board of a column's numbers, where several were measured; else empty."""
    measured = {run.id: run.board for run in column.runs if run.kind != PUBLISHED}
    boards = Counter(measured[entry.evidence.run_id] for entry in column.entries if entry.evidence.run_id in measured)
    count = len(set(measured.values()))
    if count < 2 or not boards:
        return ""
    if len(boards) == 1:
        whose = f"those of the board {next(iter(boards))}, which was measured last"
    else:
        named = [f"{number} of {board}" for board, number in boards.most_common(_NAMED)]
        more = f" and {len(boards) - _NAMED} more boards" if len(boards) > _NAMED else ""
        whose = f"{', '.join(named)}{more}, each of the board on which it was measured last"
    return f"{column.board}: {count} boards were measured; the numbers are {whose}, and no average over boards."


def _measured_entries(store: Store, overview: Overview, board: str, remarks: Remarks) -> Iterator[GuideEntry]:
    run = overview.run
    for measurement in overview.measurements:
        summary = summarise(measurement.samples)
        name = guide_name(measurement.metric.name, measurement.params, run.board_type)
        flags = sorted(measurement.flags - {Flag.SIMULATED})
        notes = (incomplete(run), *(flag.text for flag in flags), *remarks.about(run, measurement))
        since = f"{run.started_at:%Y-%m-%d %H:%M} UTC"
        excerpt, command = _read_log(store, attempts_of(overview.attempts, measurement), measurement)
        section = of_number(measurement.metric.name, measurement.params)
        yield GuideEntry(
            board=board,
            metric=name.metric,
            params=name.params,
            keys=name.keys,
            text=formatting.average_cell(summary, measurement.metric),
            value=summary.mean,
            evidence=EntryProvenance(
                source=f"run {run.id}, {run.board}, {summary.n} samples from {since} on",
                run_id=run.id,
                samples=summary.n,
                uncertainty=summary.uncertainty,
                values=tuple(sample.value for sample in measurement.samples),
                excerpt=excerpt,
                command=command or (section.command if section else ""),
                note="; ".join(filter(None, notes)),
                is_simulated=overview.virtual,
                began=f"{run.started_at:%Y-%m-%d}",
                incomplete=incomplete(run),
            ),
        )


def _read_log(store: Store, attempts: Sequence[Attempt], measurement: Measurement) -> tuple[str, str]:
    """The first sample's last console lines, and the command that printed them."""
    for attempt in attempts:
        for sample in attempt.samples:
            is_own = sample.metric == measurement.metric.name and sample.params == measurement.params
            if is_own and sample.log_end is not None:
                log, start = formatting.console_log(store.artifacts, attempt), sample.log_start or 0
                lines = log[start : sample.log_end].splitlines()[-_EXCERPT_LINES:]
                return "\n".join(map(plain_bytes, lines)), command_at(log, start)
    return "", ""


def _published_entries(store: Store, run: Run, board: str) -> Iterator[GuideEntry]:
    file = run.provenance.get("file", "guide")
    for cell in published_cells(store, store.artifacts_of([run.id], GUIDE_CELLS).get(run.id, ())):
        yield GuideEntry(
            board=board,
            metric=cell.metric,
            params=cell.params,
            text=cell.text,
            value=cell.value,
            evidence=EntryProvenance(
                source=f"published: {file}, line {cell.line}, row {cell.origin.row!r} of {cell.origin.title!r}",
                run_id=run.id,
                excerpt=cell.text,
                note=cell.note,
                is_broken=cell.is_broken,
            ),
            keys=cell.keys,
            origin=cell.origin,
        )


def load_sheet(store: Store, name: str, written: GuideRelease | None = None) -> MeasuredGuide:
    """Load a release of the store as a guide to compare.

    It is the only published file, or else the guide that would be written.

    Args:
        written: that guide's numbers; None: they are collected here.

    Raises:
        ConfigurationError: no numbers of that release.
    """
    runs = [run for run in accepted_runs(store, name) if same_release(run.release, name)]
    files = {run.provenance.get("sha256") if run.kind == PUBLISHED else None for run in runs}
    if len(files) != 1 or None in files:
        return rst_writer.compose(written or collect(store, name, ())).sheet(f"release {name}")
    artifact = store.artifacts_of([runs[0].id], GUIDE_FILE)[runs[0].id][0]
    store.artifacts.read(artifact.sha256)  # says so where it is missing or damaged
    guide = reader.read(store.artifacts.path(artifact.sha256))
    path = f"{runs[0].provenance.get('file')} (run {runs[0].id})"
    return of_guide(evolve(guide, path=path, release=name, release_source="given"))
