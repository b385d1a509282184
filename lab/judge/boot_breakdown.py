"""Parts of a boot time by diagnostic boots, and their differences."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import asdict, frozen

from lab.benchmarks.diagnosis.parts import (
    BOOTSTAGE,
    INITCALLS,
    MODULES,
    SECTIONS,
    SHORT,
    STAGES,
    UNITS,
    PartChange,
    PartTime,
    changes,
    changes_of_runs,
    common_ratio,
    from_documents,
    likeliest,
    over_boots,
)
from lab.errors import ConfigurationError
from lab.judge.boottree import IN_PARALLEL, BootNode, BootTree, ClockZero, axis, mean_of, shorten
from lab.judge.labels import line_of
from lab.metrics.catalogue import HEADLINE_NAMES
from lab.results import Run, Store
from lab.results.listing import Overview, overview
from lab.results.records import DIAGNOSIS

OF: Final = "diagnoses"  # key of its provenance: the run whose boots it explains
_MOST_EXPLAINED: Final = 5  # parts of a medium that a mail names
_MOST_RUNS: Final = 5  # that are compared, before and since a change


@frozen
class BootBreakdown:
    """Parts of a medium's boot time.

    Attributes:
        run: whose boots are explained; None: its run is not here.
        boots: number of diagnostic boots.
        cost_s: median boot time of the diagnostic boots less that of the measured ones; None: unknown.
        getty_s: from the start of the prompt's program to the prompt.
        tree: the parts of all clocks on one; its stages are those of the measured boots; None: none is here.
        clocks: how they are related.
    """

    diagnosis: int
    run: int
    medium: str
    release: str
    boots: int
    parts: tuple[PartTime, ...]
    cost_s: float | None
    getty_s: float | None
    problems: tuple[str, ...]
    tree: BootNode | None = None
    clocks: tuple[ClockZero, ...] = ()


def diagnosis_of(store: Store, run_id: int) -> Run:
    """The diagnosis of a run, or the run itself if it is one; the latest.

    Raises:
        ConfigurationError: it has none.
    """
    run = store.run(run_id)
    if run.kind == DIAGNOSIS:
        return run
    diagnosis = latest(store, run_id)
    if diagnosis is None:
        raise ConfigurationError(f"run {run_id} has no diagnostic boots: measure with --where (pytest: --lab-where)")
    return diagnosis


def read_breakdowns(store: Store, run_id: int) -> list[BootBreakdown]:
    """Return the parts of each medium's boot time.

    Raises:
        ConfigurationError: it was not diagnosed.
    """
    diagnosis = diagnosis_of(store, run_id)
    measured = int(diagnosis.provenance.get(OF, diagnosis.id))
    whole = overview(store, measured)
    good = [
        attempt
        for attempt in store.attempts(diagnosis.id)
        if attempt.ok and isinstance(attempt.details.get(DIAGNOSIS), Mapping)
    ]
    breakdowns = []
    for medium in dict.fromkeys(attempt.params["medium"] for attempt in good):
        documents = [attempt.details[DIAGNOSIS] for attempt in good if attempt.params["medium"] == medium]
        parts = over_boots([from_documents(document.get("parts")) for document in documents])
        measured_boots = [
            attempt for attempt in whole.attempts if attempt.ok and attempt.params.get("medium") == medium
        ]
        tree = BootTree(
            whole, medium, [boot_axis for attempt in measured_boots if (boot_axis := axis(attempt))], parts, documents
        )
        problems = dict.fromkeys(str(problem) for document in documents for problem in document.get("problems", ()))
        breakdowns.append(
            BootBreakdown(
                diagnosis.id,
                measured,
                medium,
                diagnosis.release,
                len(documents),
                (*_stages(whole, medium), *parts),
                _cost(whole, medium, [float(document["boot_s"]) for document in documents]),
                mean_of(documents, "getty_s"),
                (*problems, *tree.problems()),
                tree.root(),
                tree.clocks(),
            )
        )
    if not breakdowns:
        raise ConfigurationError(f"run {diagnosis.id} has no good diagnostic boot: lab results show {diagnosis.id}")
    return breakdowns


def breakdowns_if_any(store: Store, run_id: int) -> list[BootBreakdown]:
    """As `read_breakdowns`; [] for a run without diagnostic boots."""
    try:
        return read_breakdowns(store, run_id)
    except ConfigurationError:
        return []


def explain(store: Store, run_id: int, since: int, media: Collection[str]) -> list[str]:
    """The parts that differ between a board's diagnosed runs since a change and those before it.

    Of both the newest runs count, up to `_MOST_RUNS`, of the run's own release line if there are any.

    Args:
        run_id: the last run.
        since: the change's first run.
        media: that it is about.
    """
    run = store.run(run_id)
    place = (run.board_type, run.board)
    diagnoses = [
        (int(diagnosis.provenance.get(OF, diagnosis.id)), diagnosis)
        for diagnosis in store.runs(kind=DIAGNOSIS)
        if (diagnosis.board_type, diagnosis.board) == place
    ]
    alike = [(of, diagnosis) for of, diagnosis in diagnoses if line_of(diagnosis.release) == line_of(run.release)]
    sides = []
    for run_ids in (range(since), range(since, run_id + 1)):
        chosen = [diagnosis for of, diagnosis in alike if of in run_ids] or [
            diagnosis for of, diagnosis in diagnoses if of in run_ids
        ]
        sides.append(
            [breakdown for diagnosis in chosen[:_MOST_RUNS] for breakdown in breakdowns_if_any(store, diagnosis.id)]
        )
    lines = []
    for medium in sorted(media):
        before, now = ([breakdown.parts for breakdown in side if breakdown.medium == medium] for side in sides)
        lines += [f"{medium}: {describe(change)}" for change in changes_of_runs(before, now)[:_MOST_EXPLAINED]]
    return lines


def _stages(whole: Overview, medium: str) -> list[PartTime]:
    values = {
        m.params["stage"]: tuple(sample.value for sample in m.samples)
        for m in whole.measurements
        if m.params.get("medium") == medium and "stage" in m.params
    }
    return [
        PartTime(STAGES, stage.name, stage.start_s, stage.summary.mean, values[stage.name])
        for stage in whole.stages.get(medium, ())
    ]


def _cost(whole: Overview, medium: str, boots_s: Sequence[float]) -> float | None:
    usual = [
        sample.value
        for measurement in whole.measurements
        if measurement.metric.name in HEADLINE_NAMES and measurement.params.get("medium") == medium
        for sample in measurement.samples
    ]
    return statistics.median(boots_s) - statistics.median(usual) if usual and boots_s else None


def latest(store: Store, run_id: int) -> Run | None:
    """The latest diagnosis of a run; None: it has none."""
    return next(
        (diagnosis for diagnosis in store.runs(kind=DIAGNOSIS) if diagnosis.provenance.get(OF) == run_id), None
    )


SHOWN: Final = 12  # parts of a section that a person is shown
_COMMON: Final = 0.05  # change of most parts that is said
_KIND: Final = {
    STAGES: "stage",
    BOOTSTAGE: "mark of U-Boot",
    INITCALLS: "part of the kernel",
    MODULES: "module",
    UNITS: "unit",
}
_GETTY_S: Final = 1.0  # agetty's sleep on a serial line (util-linux term-utils/agetty.c)


def longest(breakdown: BootBreakdown, section: str, most: int | None = SHOWN) -> list[PartTime]:
    """A section's parts: stages in their order, others by their own time, the longest first."""
    parts = [part for part in breakdown.parts if part.section == section]
    return parts if section == STAGES else sorted(parts, key=lambda part: -part.mean_s)[:most]


def rows(breakdown: BootBreakdown, *, whole: bool = False) -> Iterator[tuple[str, list[list[str]]]]:
    """Title and rows of each section that the tree does not have whole.

    A row: part, own time, ±, time with what is in it; in ms.
    """
    placed = (
        {node.name.removesuffix(IN_PARALLEL) for _, node in breakdown.tree.all()} if breakdown.tree else set[str]()
    )
    for section, title in SECTIONS.items():
        if all(part.name in placed for part in breakdown.parts if part.section == section and part.name != SHORT):
            continue
        if section == STAGES and breakdown.tree:
            continue
        parts = longest(breakdown, section, None if whole else SHOWN)
        yield (
            title,
            [
                [part.name, *(_ms(value) for value in (part.mean_s, part.uncertainty_s, part.length_s))]
                for part in parts
            ],
        )


def tree_rows(
    breakdown: BootBreakdown, before: BootBreakdown | None = None, *, whole: bool = False
) -> list[list[str]]:
    """The tree's rows: part, length and ± in ms, start in s, share of the whole in per cent.

    Beside another run: its length there, and the difference, in place of start and share.
    """
    if breakdown.tree is None:
        return []
    earlier = dict(before.tree.all()) if before and before.tree else {}
    table = []
    for path, node in shorten(breakdown.tree, None if whole else SHOWN).all():
        was = earlier.get(path)
        row = [
            "  " * (len(path) - 1) + node.name,
            *map(_ms, (node.length_s, node.uncertainty_s)),
        ]
        if before is None:
            row.append(f"{node.start_s:.3f}" if node.placed else "")
            row.append(f"{100 * node.length_s / breakdown.tree.length_s:.1f}")
        else:
            row += [_ms(was.length_s), f"{(node.length_s - was.length_s) * 1e3:+.1f}"] if was else ["", ""]
        table.append(row)
    return table


def clock_lines(breakdown: BootBreakdown) -> list[str]:
    """The relation of each clock to the host's, one line each."""
    return [
        f"{clock.clock}: 0 at {clock.at_s:.4f} s, ± "
        f"{'unknown' if clock.uncertainty_s is None else _ms(clock.uncertainty_s) + ' ms'}, by {clock.by}"
        for clock in breakdown.clocks
    ]


def remarks(breakdown: BootBreakdown) -> list[str]:
    """Remarks on the figures, one sentence each."""
    sentences = list(breakdown.problems)
    if breakdown.cost_s is not None:
        sentences.insert(
            0,
            f"a diagnostic boot took {breakdown.cost_s * 1e3:+.0f} ms against the measured ones (medians): "
            "its log is in memory, and `quiet` keeps it off the line",
        )
    if breakdown.getty_s is not None and breakdown.getty_s > _GETTY_S * 0.9:
        sentences.append(
            f"{breakdown.getty_s * 1e3:.0f} ms of it lie between the start of getty and its prompt: "
            "agetty sleeps 1 s on a serial line"
        )
    return sentences


def difference_lines(before: BootBreakdown, now: BootBreakdown) -> list[str]:
    """The parts that differ, the largest first, one line each; before them what most parts have in common."""
    lines = [describe(change) for change in changes(before.parts, now.parts)]
    if not lines:
        first = likeliest(before.parts, now.parts)
        lines = ["no part differs by more than its noise" + (f"; the likeliest: {describe(first)}" if first else "")]
    ratio = common_ratio(before.parts, now.parts)
    if abs(ratio - 1) >= _COMMON:
        lines.insert(0, f"most parts take {ratio:.2f} times as long: is the processor's clock or the host another?")
    return lines


def describe(change: PartChange) -> str:
    """A change in a line, e.g. `+48 ms ± 2 ms: cdns_sdhci_probe, was 12 ms`."""
    if change.moved_from:
        how = f"moved from {_where(change.moved_from)} to {_where(change.section)}, was {_ms(change.before_s)} ms"
    elif change.before_s is None:
        how = f"a {_KIND[change.section]} that is new"
    elif change.now_s is None:
        how = f"a {_KIND[change.section]} that is gone, or shorter than 0.5 ms"
    else:
        how = f"was {_ms(change.before_s)} ms"
    return f"{change.difference_s * 1e3:+.1f} ms ± {_ms(change.uncertainty_s)} ms: {change.name}, {how}"


def _where(section: str) -> str:
    return SECTIONS[section].partition(",")[0].lower()


def _ms(seconds: float | None) -> str:
    return f"{(seconds or 0.0) * 1e3:.1f}"


def document(breakdown: BootBreakdown, before: BootBreakdown | None = None) -> dict[str, Any]:
    """The same for `--json`, with what differs; times in seconds."""
    fields = asdict(breakdown)
    if before is not None:
        fields["before"] = before.run
        fields["changes"] = [
            asdict(change) | {"difference_s": change.difference_s} for change in changes(before.parts, breakdown.parts)
        ]
    fields["parts"] = [
        {
            "section": part.section,
            "name": part.name,
            "start_s": part.start_s,
            "length_s": part.length_s,
            "own_s": part.mean_s,
            "uncertainty_s": part.uncertainty_s,
            "boots": list(part.own_s),
        }
        for part in breakdown.parts
    ]
    return fields
