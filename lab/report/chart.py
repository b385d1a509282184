"""The figures of the page, arranged for its template. Each fits its place: across in per cent, heights in pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from lab.metrics import Flag, Measurement, Sample, Summary, summarise, uncertainty
from lab.metrics.drift import drift
from lab.report.names import Names
from lab.report.view import first_numbers, host_busy, link
from lab.results.formatting import decimals, fixed, with_uncertainty
from lab.results.listing import Overview, Stage, attempts_of
from lab.results.records import Attempt
from lab.shown import ticks

PANEL_PX: Final = 112
HOST_PX: Final = 56
COLOURS: Final = 5  # that the style sheet has; they repeat after these
_BINS: Final = 14  # of the distribution beside the cycles
_ROOM: Final = 1.3  # so much higher than the widest series is each panel


@frozen
class Tick:
    """A labelled place of an axis; `at` in pixels down or in per cent across."""

    at: float
    text: str


@frozen
class Dot:
    """A cycle's number with its ±, and the element of the page that has its evidence.

    Attributes:
        x: per cent. y, low, high: pixels of the value and of the ends of its ±.
    """

    x: float
    y: float
    low: float
    high: float
    href: str
    title: str
    flagged: bool


@frozen
class Cross:
    """A failed attempt."""

    x: float
    href: str
    title: str


@frozen
class Bin:
    """A bar of a distribution, in pixels down and in per cent across."""

    y: float
    height: float
    width: float


@frozen
class ChartPanel:
    """The cycles of one series.

    Attributes:
        mean, band: pixels of the average, and of the upper and lower end of its ±. before: the other run's average; None: none.
        changed: per cent across of where the series moved; None where it did not.
        busy: per cent across and pixels down of how busy the host was in each cycle, in the host's own panel.
    """

    title: str
    colour: int
    ticks: tuple[Tick, ...]
    mean: float
    band: tuple[float, float]
    before: float | None
    dots: tuple[Dot, ...]
    crosses: tuple[Cross, ...]
    bins: tuple[Bin, ...]
    changed: float | None
    busy: tuple[tuple[float, float], ...]


@frozen
class CycleStrip:
    """All series, cycle by cycle.

    Attributes:
        shared: whether all panels have the same scale. most: cycles in the fullest bar of the distributions.
    """

    unit: str
    panels: tuple[ChartPanel, ...]
    cycles: tuple[Tick, ...]
    most: int
    shared: bool

    @property
    def before(self) -> bool:
        """Whether the other run's average is there."""
        return any(panel.before is not None for panel in self.panels)

    @property
    def busy(self) -> bool:
        """Whether anybody looked how busy the host was."""
        return any(panel.busy for panel in self.panels)


@frozen
class _Series:
    """A number's samples with all that its panel shows; `before`: the other run's average."""

    m: Measurement
    summary: Summary
    tries: Sequence[Attempt]
    before: float | None

    @property
    def bounds(self) -> tuple[float, float]:
        """From the lowest to the highest value, with their ± and that of the average, and the average before."""
        ends = [self.summary.mean - self.summary.uncertainty, self.summary.mean + self.summary.uncertainty]
        ends += [end for s in self.m.samples for end in (s.value - s.uncertainty, s.value + s.uncertainty)]
        ends += [] if self.before is None else [self.before]
        return min(ends), max(ends)


def strip(run: Overview, names: Names, before: Overview | None = None) -> CycleStrip | None:
    """The run's first numbers, cycle by cycle; None where no series has two of them.

    All panels of a boot have the same scale, so that the media's spreads can be compared.

    Args:
        before: another run, whose averages are shown, too.
    """
    averages = {
        (m.metric, frozenset(m.params.items())): summarise(m.samples).mean
        for m in (before.measurements if before else ())
    }
    found = [
        _Series(
            m,
            summarise(m.samples),
            attempts_of(run.attempts, m),
            averages.get((m.metric, frozenset(m.params.items()))),
        )
        for m in first_numbers(run)
    ]
    if all(one.summary.n < 2 for one in found):
        return None
    last = max(attempt.cycle for one in found for attempt in one.tries)
    heights = [high - low for low, high in (one.bounds for one in found)]
    shared = run.run.kind == "boot"
    counts = [_counts(one.m.samples) for one in found]
    most = max(max(count) for count in counts)
    panels = (
        _panel(one, names, (max(heights) if shared else height, last), (count, most), number)
        for number, (one, height, count) in enumerate(zip(found, heights, counts, strict=True))
    )
    step = max(1, round(last / 10))
    cycles = tuple(Tick(_across(cycle, last), str(cycle)) for cycle in range(step, last + 1, step))
    return CycleStrip(found[0].m.metric.unit, tuple(panels), cycles, most, shared)


def _panel(
    one: _Series,
    names: Names,
    scale: tuple[float, int],
    spread: tuple[Sequence[int], int],
    number: int,
) -> ChartPanel:
    m, summary, tries = one.m, one.summary, one.tries
    (height, last), (counts, most) = scale, spread
    low, high = one.bounds
    span = _ROOM * height or abs(high) / 100 or 1.0
    top = (low + high + span) / 2

    def down(value: float) -> float:
        return PANEL_PX * (top - value) / span

    title = names.of(m.params)
    good = {attempt.cycle: attempt for attempt in tries if attempt.ok}
    moved = drift(m.samples)
    least, most_value = min(s.value for s in m.samples), max(s.value for s in m.samples)
    thick = (down(least) - down(most_value)) / len(counts) if len(counts) > 1 else 6.0
    busy = ((a.cycle, share) for a in good.values() if (share := host_busy(a)) is not None)
    return ChartPanel(
        title=title,
        colour=number % COLOURS,
        ticks=tuple(Tick(down(value), text) for value, text in ticks(top - span, top, 5)),
        mean=down(summary.mean),
        band=(down(summary.mean + summary.uncertainty), down(summary.mean - summary.uncertainty)),
        before=None if one.before is None else down(one.before),
        dots=tuple(
            Dot(
                x=_across(s.cycle, last),
                y=down(s.value),
                low=down(s.value - s.uncertainty),
                high=down(s.value + s.uncertainty),
                href=link(good[s.cycle]) if s.cycle in good else "",
                title=f"{title}, cycle {s.cycle}: {with_uncertainty(s.value, s.uncertainty, m.metric)}",
                flagged=bool(s.flags - {Flag.SIMULATED}),
            )
            for s in m.samples
        ),
        crosses=tuple(
            Cross(_across(a.cycle, last), link(a), f"{title}, cycle {a.cycle}: {a.outcome}") for a in tries if not a.ok
        ),
        bins=tuple(
            Bin(
                down(least) - (n + 1) * thick if len(counts) > 1 else down(least) - thick / 2,
                thick,
                100 * count / most,
            )
            for n, count in enumerate(counts)
            if count
        ),
        changed=None if moved is None else _across(moved.cycle - 0.5, last),
        busy=tuple((_across(cycle, last), HOST_PX * (1 - share)) for cycle, share in sorted(busy)),
    )


def _across(cycle: float, last: int) -> float:
    """Per cent of a panel's width."""
    return 100 * (cycle - 0.3) / (last + 0.4)


def _counts(samples: Sequence[Sample]) -> list[int]:
    """How many values are in each of equal parts of their range, the lowest first; one part where all are equal."""
    values = [s.value for s in samples]
    low, span = min(values), max(values) - min(values)
    if span <= 0:
        return [len(values)]
    counts = [0] * _BINS
    for value in values:
        counts[min(_BINS - 1, int(_BINS * (value - low) / span))] += 1
    return counts


# --- Where a boot's time goes, arranged for the page: its stages one after the other, and what moved since another run ---


@frozen
class StageKey:
    """A stage of a medium."""

    medium: str
    stage: str


@frozen
class StageRow:
    """A stage: where its bar is, in per cent of the time axis, and its length.

    Attributes:
        before: the same of the other run; None where it has no such stage.
        difference: to the other run, ± at 95 %; empty where there is none. beyond: whether it is more than both ±.
        moved: "worse" or "better" where the judge says so, "" elsewhere.
    """

    name: str
    left: float
    width: float
    length: str
    before: tuple[float, float] | None
    difference: str
    beyond: bool
    moved: str


@frozen
class Waterfall:
    """The stages of one medium, on a time axis that all media share; `axis` in seconds since the first stage's start."""

    title: str
    colour: int
    rows: tuple[StageRow, ...]
    axis: tuple[Tick, ...]


def waterfalls(
    stages: Mapping[str, Sequence[Stage]],
    titles: Mapping[str, str],
    before: Mapping[str, Sequence[Stage]] | None = None,
    moved: Mapping[StageKey, str] | None = None,
) -> list[Waterfall]:
    """One for each medium.

    Args:
        titles: medium -> what the page calls it. before: the stages of another run. moved: "worse" or "better", of those
            that moved by the judge's word.
    """
    both = [*stages.values(), *((before or {}).get(medium, ()) for medium in stages)]
    ends = [stage.start_s + stage.summary.mean for found in both for stage in found]
    if not stages or max(ends) <= 0:
        return []
    scale = 100 / max(ends)
    axis = tuple(Tick(value * scale, text) for value, text in ticks(0, max(ends), 6))
    found = []
    for number, (medium, its) in enumerate(stages.items()):
        earlier = {stage.name: stage for stage in (before or {}).get(medium, ())}
        words = {stage.name: (moved or {}).get(StageKey(medium, stage.name), "") for stage in its}
        rows = tuple(_row(stage, earlier.get(stage.name), words[stage.name], scale) for stage in its)
        found.append(Waterfall(titles.get(medium, medium), number % COLOURS, rows, axis))
    return found


def _row(stage: Stage, before: Stage | None, moved: str, scale: float) -> StageRow:
    length = stage.summary.mean
    difference, beyond = "", False
    if before is not None:
        bound = uncertainty.combined((stage.summary.uncertainty, before.summary.uncertainty))
        by = length - before.summary.mean
        places = decimals(bound, 0.001)
        text = fixed(by, places)
        difference = f"{'+' if float(text) > 0 else ''}{text} ± {fixed(bound, places)}"
        beyond = abs(by) > bound
    return StageRow(
        name=stage.name,
        left=stage.start_s * scale,
        width=length * scale,
        length=fixed(length, 3),
        before=None if before is None else (before.start_s * scale, before.summary.mean * scale),
        difference=difference,
        beyond=beyond,
        moved=moved,
    )
