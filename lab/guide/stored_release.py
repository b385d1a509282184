"""Releases in the store as numbers for written and compared guides."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from lab.errors import ConfigurationError
from lab.guide import boards as names
from lab.guide import layout, reader, rst_writer
from lab.guide.entries import EntryProvenance, GuideEntry, GuideRelease, Origin
from lab.guide.importer import GUIDE_CELLS, GUIDE_FILE
from lab.guide.layout import guide_name
from lab.guide.measurements import MeasuredGuide, of_guide
from lab.guide.model import Guide
from lab.judge.labels import release_key
from lab.judge.store import reviews
from lab.metrics import Measurement, summarise
from lab.results import formatting
from lab.results.formatting import guide_cell, label
from lab.results.listing import Overview, attempts_of, overview, tried
from lab.results.records import PUBLISHED, Attempt, Run
from lab.results.store import Store, open_store
from lab.shown import plain_bytes

_EXCERPT_LINES = 6


def open_existing(url: str | None) -> Store:
    """The store, which must be there.

    Raises:
        ConfigurationError: there is none.
    """
    return open_store(url, create=False)


def release(store: Store, name: str, boards: Sequence[str]) -> GuideRelease:
    """Collect the numbers of some boards in a release.

    Measured numbers go before published ones, newer ones before older ones. Rejected runs do not count, and neither do
    numbers with a failed cycle; `failed` names their runs.

    Args:
        boards: names of headers: a board, a board type, or a board as the vendor's guides spell it; empty: each board
            type that has numbers.

    Raises:
        ConfigurationError: no numbers of that release, or of one of the boards.
    """
    accepted = counting(store)
    runs = [run for run in accepted if release_key(run.release) == release_key(name)]
    if not runs:
        known = sorted({run.release for run in accepted}, key=release_key)
        raise ConfigurationError(
            f"{store.url} has no numbers of release {name}; there are: {', '.join(known) or 'none'}; import a guide or measure"
        )
    wanted = tuple(boards) or tuple(sorted({header(accepted, run) for run in runs}))
    entries: list[GuideEntry] = []
    modules: list[tuple[str, str]] = []
    conditions: dict[str, dict[str, list[str]]] = {}
    left_out: dict[str, None] = {}
    failures: list[str] = []
    for board in wanted:
        of_board = [run for run in runs if (is_of(run, board) if boards else header(accepted, run) == board)]
        own = of_one_column(of_board, board)
        found, failed = _entries(store, own, board)
        failures += failed
        if not found and (boards or (board == wanted[-1] and not entries)):
            known_boards = ", ".join(sorted({run.board for run in runs}))
            why = "".join(f"; {text}" for text in failures)
            raise ConfigurationError(
                f"release {name} has no numbers of board {board!r}; there are: {known_boards}{why}"
            )
        entries += found
        for run in own:
            module = run.provenance.get("module")
            if module and (module["name"], module["description"]) not in modules:
                modules.append((module["name"], module["description"]))
            left_out.update(dict.fromkeys(run.provenance.get("left_out") or ()))
            for top, texts in (run.provenance.get("conditions") or {}).items():
                for text in texts:
                    of_boards = conditions.setdefault(top, {}).setdefault(text, [])
                    of_boards += [board] if board not in of_boards else []
    stated = {top: _stated(texts, _boards_of(entries, top)) for top, texts in conditions.items()}
    there = {entry.board for entry in entries}
    wanted = tuple(board for board in wanted if board in there)
    return GuideRelease(name, wanted, tuple(entries), tuple(modules), stated, tuple(left_out), tuple(failures))


def _boards_of(entries: Sequence[GuideEntry], top: str) -> set[str]:
    """The boards that have numbers in a chapter."""
    found = set()
    for entry in entries:
        place = layout.load().place(entry.metric, entry.params)
        chapter = place.chapter if place else entry.origin.chapter if entry.origin else ()
        found.update([entry.board] if chapter[:1] == (top,) else [])
    return found


def _stated(texts: Mapping[str, Sequence[str]], there: set[str]) -> tuple[str, ...]:
    """Conditions of a chapter, prefixed with their boards unless they concern all."""
    return tuple(text if there.issubset(of) else f"{', '.join(of)}: {text}" for text, of in texts.items())


def of_one_column(runs: Sequence[Run], board: str) -> list[Run]:
    """Drop published runs of sister boards if this board has its own."""
    published = {run.board for run in runs if run.kind == PUBLISHED}
    return [run for run in runs if run.kind != PUBLISHED or board not in published or run.board == board]


def is_of(run: Run, board: str) -> bool:
    """Return whether a run belongs to a board.

    The name is the board's own, its type's, or the guides' spelling.

    A simulated board answers to its own name only, so that its numbers never stand among those of a real one.
    """
    if is_virtual(run):
        return board == run.board
    return board in {run.board, run.board_type} or run.board_type == names.type_of(board)


def is_virtual(run: Run) -> bool:
    """Return whether the run's provenance says simulated."""
    return run.provenance.get("virtual") is True


def sheet(store: Store, name: str) -> MeasuredGuide:
    """Load a release of the store as a guide to compare.

    It is the only published file, or else the guide that would be written.

    Raises:
        ConfigurationError: no numbers of that release.
    """
    runs = [run for run in counting(store) if release_key(run.release) == release_key(name)]
    files = {run.provenance.get("sha256") if run.kind == PUBLISHED else None for run in runs}
    if len(files) == 1 and None not in files:
        return of_guide(_published_guide(store, runs[0], name))
    document = rst_writer.document(release(store, name, ()))
    return of_guide(reader.assembled(f"release {name}", "rst", document, name, "given"))


def _published_guide(store: Store, run: Run, name: str) -> Guide:
    ref = store.artifacts_of([run.id], GUIDE_FILE)[run.id][0]
    store.artifacts.read(ref.sha256)  # says so where it is missing or damaged
    label = f"{run.provenance.get('file')} (run {run.id})"
    return evolve(reader.read(store.artifacts.path(ref.sha256)), path=label, release=name, release_source="given")


def header(accepted: Sequence[Run], run: Run) -> str:
    """Column name of a run's board type in every release.

    It is the vendor's spelling if a guide has one, else the only board's name.

    A simulated board has its own.
    """
    if is_virtual(run):
        return run.board
    same = [other for other in accepted if other.board_type == run.board_type and not is_virtual(other)]
    if run.kind == PUBLISHED and len({o.board for o in same if o.kind == PUBLISHED and o.release == run.release}) > 1:
        return run.board  # the guide itself tells them apart
    published = sorted({other.board for other in same if other.kind == PUBLISHED})
    measured = {other.board for other in same}
    return published[0] if published else measured.pop() if len(measured) == 1 else run.board_type


def releases(store: Store, board: str) -> list[str]:
    """The releases that have numbers of a board, oldest first."""
    names = names_of_releases([run for run in counting(store) if is_of(run, board)])
    return [names[key] for key in sorted(names)]


def names_of_releases(runs: Sequence[Run]) -> dict[tuple[int, ...], str]:
    """Map `release_key` to the name of each release."""
    return {release_key(run.release): run.release for run in runs}


def counting(store: Store) -> list[Run]:
    """The runs without a rejection, the newest first."""
    decided = reviews(store)
    return [run for run in store.runs() if run.id not in decided or decided[run.id].decision != "rejected"]


def measured(store: Store, run: Run) -> tuple[Overview, list[str]]:
    """Load a run without the numbers of failed cycles.

    The texts name the numbers that are left out.

    A cycle failed when none of its attempts gave samples.
    """
    whole = overview(store, run.id)
    sound: list[Measurement] = []
    failed: dict[str, None] = {}
    for measurement in whole.measurements:
        attempts = attempts_of(whole.attempts, measurement)
        lost = {a.cycle: a for a in attempts} if attempts else {}
        for attempt in attempts:
            if attempt.ok:
                lost.pop(attempt.cycle, None)
        if not lost:
            sound.append(measurement)
            continue
        outcomes = Counter(attempt.outcome for attempt in lost.values())
        named = ", ".join(f"{outcome} {count}" for outcome, count in outcomes.most_common())
        item = label(next(iter(lost.values())).params)
        failed[
            f"{run.board}{f' ({item})' if item else ''}: run {run.id} failed in {len(lost)} of {tried(attempts)} cycles ({named})"
        ] = None
    return Overview(whole.run, whole.attempts, sound), list(failed)


def _entries(store: Store, own: Sequence[Run], board: str) -> tuple[list[GuideEntry], list[str]]:
    """Numbers of a board, and the failed ones of its runs."""
    found: dict[object, GuideEntry] = {}
    published = [run for run in own if run.kind == PUBLISHED]
    runs = [measured(store, run) for run in own if run.kind != PUBLISHED]
    candidates = [e for run, _ in runs for e in _measured(store, run, board)]
    candidates += [e for run in published for e in _published(store, run, board)]
    for entry in candidates:
        place = entry.origin if not entry.metric else None
        found.setdefault((entry.metric, frozenset(entry.params.items()), place), entry)
    return list(found.values()), [text for _, failed in runs for text in failed]


def _measured(store: Store, run: Overview, board: str) -> Iterator[GuideEntry]:
    for measurement in run.measurements:
        summary = summarise(measurement.samples)
        attempts = attempts_of(run.attempts, measurement)
        name = guide_name(measurement.metric.name, measurement.params, run.run.board_type)
        note = "virtual board; " * run.virtual + ", ".join(sorted(measurement.flags))
        yield GuideEntry(
            board=board,
            metric=name.metric,
            params=name.params,
            keys=name.keys,
            text=guide_cell(summary) if summary.n > 1 else f"{summary.mean:.2f}",
            value=summary.mean,
            evidence=EntryProvenance(
                source=f"run {run.run.id}, {run.run.board}, {summary.n} samples from {run.run.started_at:%Y-%m-%d %H:%M} UTC on",
                run_id=run.run.id,
                samples=summary.n,
                uncertainty=summary.uncertainty,
                values=tuple(sample.value for sample in measurement.samples),
                excerpt=_excerpt(store, attempts, measurement),
                note=note.strip("; "),
                is_simulated=run.virtual,
            ),
        )


def _excerpt(store: Store, attempts: Sequence[Attempt], measurement: Measurement) -> str:
    """The last console lines of the first sample's window."""
    for attempt in attempts:
        for sample in attempt.samples:
            window = sample.log_start, sample.log_end
            if (
                sample.metric == measurement.metric.name
                and sample.params == measurement.params
                and window[1] is not None
            ):
                data = formatting.console_log(store.artifacts, attempt)[window[0] or 0 : window[1]]
                return "\n".join(map(plain_bytes, data.splitlines()[-_EXCERPT_LINES:]))
    return ""


def _published(store: Store, run: Run, board: str) -> Iterator[GuideEntry]:
    file = run.provenance.get("file", "guide")
    for ref in store.artifacts_of([run.id], GUIDE_CELLS).get(run.id, ()):
        for cell in json.loads(store.artifacts.read(ref.sha256)):
            origin = cell["origin"]
            yield GuideEntry(
                board=board,
                metric=cell["metric"],
                params=cell["params"],
                text=cell["text"],
                value=cell["value"],
                evidence=EntryProvenance(
                    source=f"published: {file}, line {cell['line']}, row {origin['row']!r} of {origin['title']!r}",
                    run_id=run.id,
                    excerpt=cell["text"],
                    note=cell["note"],
                    is_broken=cell["is_broken"],
                ),
                keys=cell["keys"],
                origin=Origin(
                    tuple(origin["chapter"]), origin["title"], tuple(origin["keys"]), origin["row"], origin["column"]
                ),
            )
