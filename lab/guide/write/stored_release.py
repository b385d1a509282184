"""Releases in the store as numbers for written and compared guides."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from lab.benchmarks.sections import of_number
from lab.errors import ConfigurationError
from lab.guide import boards, layout
from lab.guide import boards as names
from lab.guide.check.importer import GUIDE_CELLS, GUIDE_FILE
from lab.guide.compare import trend
from lab.guide.compare.comparison import Earlier, Key
from lab.guide.compare.trend import PublishedPoint, Trend, TrendPoint
from lab.guide.layout import guide_name
from lab.guide.measurements import MeasuredGuide, Neighbour, Neighbours, of_guide
from lab.guide.model import Guide, value_of
from lab.guide.read import reader
from lab.guide.write import rst_writer, setup
from lab.guide.write.entries import EntryProvenance, GuideEntry, GuideRelease, Origin
from lab.guide.write.setup import MeasuredSetup
from lab.judge import noise
from lab.judge.compare import compare
from lab.judge.labels import is_real_time, precedes, release_key, releases_before, same_release
from lab.judge.latest import LatestJudge, WorseNumber, described
from lab.judge.number import Number, PublishedNumbers, of_average
from lab.judge.store import reviews
from lab.metrics import Flag, Measurement, summarise
from lab.results import formatting
from lab.results.averages import Average
from lab.results.formatting import guide_cell, label
from lab.results.history import Item, item_of
from lab.results.listing import Overview, attempts_of, overview, tried
from lab.results.records import APART, PUBLISHED, ArtifactRef, Attempt, Run
from lab.results.snapshot import RunHead, StoreSnapshot, watch
from lab.results.store import Store, open_store
from lab.terminal import plain_bytes

_EXCERPT_LINES = 6


def open_existing(url: str | None) -> Store:
    """The store, which must be there.

    Raises:
        ConfigurationError: there is none.
    """
    return open_store(url, create=False)


def release(store: Store, name: str, boards: Sequence[str], *, is_judged: bool = False) -> GuideRelease:
    """Collect the numbers of some boards in a release.

    Measured numbers go before published ones, those of completed runs before others, newer ones before older ones. Rejected runs do not count, and neither do
    numbers with a failed cycle; `failed` names their runs.

    Args:
        boards: names of headers: a board, a board type, or a board as the vendor's guides spell it; empty: each board
            type that has numbers.
        is_judged: with remarks on numbers that are worse and that nobody has decided on.

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
    software: dict[str, dict[str, str]] = {}
    conditions: dict[str, dict[str, list[str]]] = {}
    left_out: dict[str, None] = {}
    failures: list[str] = []
    worse = _open_regressions(store, runs, name) if is_judged else {}
    columns: set[str] = set()  # the physical boards of the guide
    for board in wanted:
        of_board = [run for run in runs if (is_of(run, board) if boards else header(accepted, run) == board)]
        own = of_one_column(of_board, board)
        overviews = [measured(store, run) for run in own if run.kind != PUBLISHED]
        found, failed = _entries(store, own, overviews, board, worse)
        columns |= {run.board for run in own}
        failures += failed
        if not found and (boards or (board == wanted[-1] and not entries)):
            known_boards = ", ".join(sorted({run.board for run in runs}))
            why = "".join(f"; {text}" for text in failures)
            raise ConfigurationError(
                f"release {name} has no numbers of board {board!r}; there are: {known_boards}{why}"
            )
        entries += found
        setups = _setups(found, [overview for overview, _ in overviews])
        if setups:
            clocks = (e.value for e in found if e.metric == "cpu.clock" and e.evidence.samples and e.value)
            modules.append(setup.module_of(overviews[0][0].run.board_type, setups.values(), next(clocks, None)))
        for component, version in setup.software_of(setups.values()).items():
            software.setdefault(component, {})[board] = version
        for top, text in _equipment(found, setups):
            of_boards = conditions.setdefault(top, {}).setdefault(text, [])
            of_boards += [board] if board not in of_boards else []
        for run in own:
            module = run.provenance.get("module")
            if module and module["name"] not in {name for name, _ in modules}:
                modules.append((module["name"], module["description"]))
            left_out.update(dict.fromkeys(run.provenance.get("left_out") or ()))
            for top, texts in (run.provenance.get("conditions") or {}).items():
                for text in texts:
                    of_boards = conditions.setdefault(top, {}).setdefault(text, [])
                    of_boards += [board] if board not in of_boards else []
    stated = {top: _stated(texts, _boards_of(entries, top)) for top, texts in conditions.items()}
    there = {entry.board for entry in entries}
    wanted = tuple(board for board in wanted if board in there)
    return GuideRelease(
        name=name,
        boards=wanted,
        entries=tuple(entries),
        modules=tuple(modules),
        software=software,
        conditions=stated,
        commands=_commands(entries),
        left_out=tuple(left_out),
        failed=tuple(failures),
        regressions=tuple(
            f"{board}: {described(numbers)}" for board, numbers in sorted(worse.items()) if board in columns
        ),
    )


def _open_regressions(store: Store, runs: Iterable[Run], name: str) -> dict[str, tuple[WorseNumber, ...]]:
    """The worse numbers of the runs' boards up to a release."""
    boards = frozenset(run.board for run in runs if run.kind != PUBLISHED)
    found = LatestJudge(math.inf, only=boards).of(store, store.now()).worse if boards else {}
    until = {
        board: tuple(each for each in numbers if same_release(each.release, name) or precedes(each.release, name))
        for board, numbers in found.items()
    }
    return {board: numbers for board, numbers in until.items() if numbers}


def _setups(entries: Iterable[GuideEntry], runs: Iterable[Overview]) -> dict[int, MeasuredSetup]:
    """Run -> its setup, for runs that gave numbers, oldest first."""
    used = {entry.evidence.run_id for entry in entries}
    return {run.run.id: setup.of_run(run) for run in reversed(list(runs)) if run.run.id in used}


def _equipment(entries: Iterable[GuideEntry], setups: Mapping[int, MeasuredSetup]) -> Iterator[tuple[str, str]]:
    """(Top chapter, device of a medium) of numbers measured on that medium."""
    for entry in entries:
        device = (
            setups[entry.evidence.run_id].media.get(entry.params.get("medium", ""))
            if entry.evidence.run_id in setups
            else None
        )
        if device and (chapter := _chapter(entry)):
            yield chapter[0], device


def _commands(entries: Iterable[GuideEntry]) -> dict[str, tuple[str, ...]]:
    """Top chapter -> the commands of its measured numbers, each once."""
    found: dict[str, dict[str, None]] = {}
    for entry in entries:
        section = of_number(entry.metric, entry.params) if entry.evidence.samples else None
        if section and (chapter := _chapter(entry)):
            found.setdefault(chapter[0], {})[section.command] = None
    return {chapter: tuple(commands) for chapter, commands in found.items()}


def _boards_of(entries: Sequence[GuideEntry], top: str) -> set[str]:
    """The boards that have numbers in a chapter."""
    return {entry.board for entry in entries if _chapter(entry)[:1] == (top,)}


def _chapter(entry: GuideEntry) -> tuple[str, ...]:
    place = layout.load().place(entry.metric, entry.params)
    return place.chapter if place else entry.origin.chapter if entry.origin else ()


def _stated(texts: Mapping[str, Sequence[str]], there: set[str]) -> tuple[str, ...]:
    """Conditions of a chapter, prefixed with their boards unless they concern all."""
    return tuple(text if there.issubset(of) else f"{', '.join(of)}: {text}" for text, of in texts.items())


def of_one_column(runs: Sequence[Run], board: str) -> list[Run]:
    """Drop published runs of sister boards if this board has its own."""
    published = {run.board for run in runs if run.kind == PUBLISHED}
    return [run for run in runs if run.kind != PUBLISHED or board not in published or run.board == board]


def is_of(run: Run, board: str) -> bool:
    """Return whether a run belongs to a board.

    The name is the board's own, its type's, or the guides' spelling. A simulated board answers to its own name and to
    "TYPE-sim" only, so that its numbers never stand among those of a real one.
    """
    if is_virtual(run):
        return board in {run.board, names.simulated(run.board_type)}
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

    It is the vendor's spelling if a guide has one, else the type's name; of a simulated board with "-sim".
    """
    if is_virtual(run):
        return names.simulated(run.board_type)
    same = [other for other in accepted if other.board_type == run.board_type and not is_virtual(other)]
    if run.kind == PUBLISHED and len({o.board for o in same if o.kind == PUBLISHED and o.release == run.release}) > 1:
        return run.board  # the guide itself tells them apart
    published = sorted({other.board for other in same if other.kind == PUBLISHED})
    return published[0] if published else run.board_type


def releases(store: Store, board: str) -> list[str]:
    """The releases that have numbers of a board, oldest first."""
    names = names_of_releases([run for run in counting(store) if is_of(run, board)])
    return [names[key] for key in sorted(names)]


def names_of_releases(runs: Sequence[Run]) -> dict[tuple[int, ...], str]:
    """Map `release_key` to the name of each release."""
    return {release_key(run.release): run.release for run in runs}


def counting(store: Store) -> list[Run]:
    """The runs of nights and guides without a rejection, the newest first."""
    decided = reviews(store)
    return [
        run
        for run in store.runs()
        if run.kind not in APART or run.kind == PUBLISHED
        if run.id not in decided or decided[run.id].decision != "rejected"
    ]


def measured(store: Store, run: Run) -> tuple[Overview, list[str]]:
    """Load a run without the numbers of failed cycles.

    The texts name the numbers that are left out. A cycle failed when none of its attempts gave samples.
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


def _entries(
    store: Store,
    own: Sequence[Run],
    runs: Sequence[tuple[Overview, list[str]]],
    board: str,
    worse: Mapping[str, Sequence[WorseNumber]],
) -> tuple[list[GuideEntry], list[str]]:
    """Numbers of a board, and the failed ones of its runs."""
    found: dict[object, GuideEntry] = {}
    published = [run for run in own if run.kind == PUBLISHED]
    whole_first = sorted(runs, key=lambda pair: bool(incomplete(pair[0].run)))
    differing = _differing([run for run, _ in whole_first])
    candidates = [
        e for run, _ in whole_first for e in _measured(store, run, board, differing, worse.get(run.run.board, ()))
    ]
    candidates += [e for run in published for e in _published(store, run, board)]
    for entry in candidates:
        place = entry.origin if not entry.metric else None
        found.setdefault((entry.metric, frozenset(entry.params.items()), place), entry)
    return list(found.values()), [text for _, failed in runs for text in failed]


def incomplete(run: Run) -> str:
    """The remark on numbers of an incomplete run; else empty."""
    return "" if run.status == "completed" else f"run {run.id} did not complete ({run.status})"


def _differing(runs: Iterable[Overview]) -> dict[object, str]:
    """Number -> a remark where boards differ by more than equal runs.

    Args:
        runs: of boards of one type, those that count first.
    """
    by_number: dict[object, dict[str, Number]] = {}
    for run in runs:
        for measurement in run.measurements:
            summary = summarise(measurement.samples)
            number = of_average(
                measurement.metric, measurement.params, summary.mean, summary.uncertainty, run.run.board
            )
            by_number.setdefault(_key(measurement), {}).setdefault(run.run.board, number)
    model, remarks = noise.load(), dict[object, str]()
    for key, numbers in by_number.items():
        low, high = (ends(numbers.values(), key=lambda each: each.value or 0.0) for ends in (min, max))
        if low.metric is not None and compare(low, high, model.of(low.metric.name, low.params)).verdict.moved:
            ends_text = " to ".join(
                f"{formatting.number(each.value or 0.0, each.uncertainty or 0.0, low.metric)} ({each.source})"
                for each in (low, high)
            )
            remarks[key] = f"{len(numbers)} boards differ by more than equal runs do: {ends_text} {low.metric.unit}"
    return remarks


def _key(measurement: Measurement) -> tuple[str, int, Item]:
    """What a measurement is of."""
    return measurement.metric.name, measurement.metric.version, item_of(measurement.params)


def _measured(
    store: Store, run: Overview, board: str, differing: Mapping[object, str], worse: Iterable[WorseNumber]
) -> Iterator[GuideEntry]:
    open_regressions = {each.key[1:]: each for each in worse if each.kind == run.run.kind}
    for measurement in run.measurements:
        summary = summarise(measurement.samples)
        attempts = attempts_of(run.attempts, measurement)
        name = guide_name(measurement.metric.name, measurement.params, run.run.board_type)
        flags = sorted(measurement.flags - {Flag.SIMULATED})
        about = [incomplete(run.run), ", ".join(flag.replace("_", " ") for flag in flags)]
        if remark := differing.get(_key(measurement)):
            about.append(f"{remark}; this is {run.run.board}'s")
        if regression := open_regressions.get(_key(measurement)):
            against = f"{regression.size} in {regression.release} against {regression.against} (run {regression.run})"
            about.append(f"open regression: {against}")
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
                note="; ".join(filter(None, about)),
                is_simulated=run.virtual,
                began=f"{run.run.started_at:%Y-%m-%d}",
                incomplete=incomplete(run.run),
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


def of_store(url: str | None, boards: Iterable[str], before: str) -> Earlier:
    """Load published numbers of the releases before one, same kernel only.

    Each board has as many releases as a run is judged against (lab/judge/noise.toml). The last import of a release's
    guide counts.

    Args:
        before: a release.
    """
    with watch(url).snapshot() as snapshot:
        return of_snapshot(snapshot, boards, before)


def of_snapshot(snapshot: StoreSnapshot, boards: Iterable[str], before: str) -> Earlier:
    """The same of a store at one instant."""
    wanted = set(boards)
    by_board: dict[str, list[RunHead]] = {}
    for head in snapshot.heads():
        if head.kind == PUBLISHED and head.board in wanted:
            by_board.setdefault(head.board, []).append(head)
    window = noise.load().history.window
    last_ones = [head for heads in by_board.values() for head in releases_before(heads, before)[-window:]]
    heads = {head.id: head for head in sorted(last_ones, key=lambda head: release_key(head.release))}
    published = PublishedNumbers.of_runs(snapshot, heads.values())
    averages: dict[int, list[Average]] = {id_: [] for id_ in heads}
    for average in snapshot.averages(sorted(heads)):
        averages[average.run_id].append(average)
    found: dict[Key, list[Number]] = {}
    for id_, head in heads.items():
        for average in averages[id_]:
            key = (head.board, average.metric.name, tuple(sorted(average.params.items())))
            found.setdefault(key, []).append(published.number(average))
    return Earlier(found, tuple(dict.fromkeys(head.release for head in heads.values())))


_PRINTED = 0.006  # a mean and its print with two decimals


def trends(store: Store, metric: str, board: str, wanted: Mapping[str, str]) -> list[Trend]:
    """The series of a metric from the store.

    Args:
        board: a board, a board type, a board as guides spell it, or a product, e.g. "AM62x", for each of its boards.
        wanted: only series with these parameters.

    Raises:
        ConfigurationError: no release has the metric for the board.
    """
    accepted = counting(store)
    named = _boards(accepted, board)
    found: list[PublishedPoint] = []
    metrics: set[str] = set()
    for name, runs in named.items():
        releases = names_of_releases(runs)
        artifacts = store.artifacts_of([run.id for run in runs if run.kind == PUBLISHED], GUIDE_CELLS)
        of_board: list[PublishedPoint] = []
        for run in sorted(runs, key=lambda run: run.kind == PUBLISHED):  # what was measured here goes first
            release = releases[release_key(run.release)]
            if run.kind == PUBLISHED:
                of_board += _published_points(store, run, name, release, metric, artifacts.get(run.id, ()), metrics)
            else:
                of_board += _measured_points(store, run, name, release, metric, metrics)
        found += trend.first_of_each(of_board)
    found = [one for one in found if wanted.items() <= one.params.items()]
    if not found:
        raise ConfigurationError(
            f"no release has {metric!r} of board {board!r}; it has: {', '.join(sorted(metrics)) or 'no numbers'}"
        )
    return trend.series(found, metric)


def with_neighbours(store: Store, one: MeasuredGuide) -> MeasuredGuide:
    """Add the nearest releases before and after to a guide.

    The store has them, of the same boards and the same kernel.

    Raises:
        ConfigurationError: the guide does not tell its release.
    """
    name = one.guide.kernel_release
    if name is None:
        raise ConfigurationError(
            f"{one.guide.path}: neither its title nor its name tells the release; rename it, e.g. am62x-11.01.rst"
        )
    here = release_key(name)
    published = [
        run for run in counting(store) if run.kind == PUBLISHED and is_real_time(run.release) == is_real_time(name)
    ]
    found: dict[tuple[str | None, object], Neighbours] = {}
    for board in one.guide.boards:
        of_board = [run for run in published if run.board == board]
        earlier = max((run for run in of_board if release_key(run.release) < here), key=_order, default=None)
        later = min((run for run in of_board if release_key(run.release) > here), key=_order, default=None)
        if earlier is None or later is None:
            continue
        before, after = _neighbours(store, earlier), _neighbours(store, later)
        found |= {(board, key): Neighbours(before[key], after[key]) for key in before.keys() & after.keys()}
    return evolve(one, neighbours=found)


def _order(run: Run) -> tuple[tuple[int, ...], int]:
    return release_key(run.release), run.id


def _neighbours(store: Store, run: Run) -> dict[object, Neighbour]:
    """Numbers of a published run as printed, without broken runs."""
    found: dict[object, Neighbour] = {}
    for ref in store.artifacts_of([run.id], GUIDE_CELLS).get(run.id, ()):
        for cell in json.loads(store.artifacts.read(ref.sha256)):
            printed = value_of(cell["text"]).number
            if cell["metric"] and printed is not None and not cell["is_broken"]:
                key = (cell["metric"], tuple(sorted(cell["params"].items())))
                found.setdefault(key, Neighbour(run.release, printed, frozenset(cell.get("conditions", ()))))
    return found


def _boards(accepted: Sequence[Run], board: str) -> dict[str, list[Run]]:
    """Each board that is asked for -> its runs, newest first."""
    own = [run for run in accepted if is_of(run, board)]
    if own or not boards.is_product(board):
        return {board: of_one_column(own, board)}
    found: dict[str, list[Run]] = {}
    for run in accepted:
        if not is_virtual(run) and boards.product_of(run.board_type) == boards.product_of(board):
            found.setdefault(header(accepted, run), []).append(run)
    return found


def _published_points(
    store: Store,
    run: Run,
    board: str,
    release: str,
    metric: str,
    cells: Sequence[ArtifactRef],
    metrics: set[str],
) -> Iterator[PublishedPoint]:
    for ref in cells:
        for cell in json.loads(store.artifacts.read(ref.sha256)):
            metrics.update([cell["metric"]] if cell["metric"] else [])
            if cell["metric"] != metric or cell["value"] is None:
                continue
            printed = value_of(cell["text"])
            is_own_range = printed.number is not None and abs(printed.number - cell["value"]) < _PRINTED
            point = TrendPoint(
                release,
                cell["value"],
                printed.low if is_own_range else None,
                printed.high if is_own_range else None,
                cell["note"] if cell["is_broken"] else "",
            )
            yield PublishedPoint(
                board,
                boards.product_of(run.board_type),
                cell["params"],
                point,
                cell.get("definition", ""),
                frozenset(cell.get("conditions", ())),
            )


def _measured_points(
    store: Store, run: Run, board: str, release: str, metric: str, metrics: set[str]
) -> Iterator[PublishedPoint]:
    for measurement in measured(store, run)[0].measurements:
        name = guide_name(measurement.metric.name, measurement.params, run.board_type)
        metrics.add(name.metric)
        if name.metric == metric:
            summary = summarise(measurement.samples)
            values = [sample.value for sample in measurement.samples]
            low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
            point = TrendPoint(release, summary.mean, low, high, incomplete(run))
            yield PublishedPoint(board, boards.product_of(run.board_type), name.params, point)
