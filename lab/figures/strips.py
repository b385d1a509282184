"""Samples as dots with their mean and its ±: by cycle, in a row of a verdict, and by board.

Each figure fits its place: across in per cent, heights in pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from lab.figures import COLOURS, Tick, ticks
from lab.metrics import Flag, Metric, Sample, Summary, summarise
from lab.metrics.drift import drift
from lab.results.formatting import with_uncertainty

PANEL_PX: Final = 112
HOST_PX: Final = 56
_BINS: Final = 14  # of the distribution beside the cycles
_ROOM: Final = 1.3  # so much higher than the widest series is each panel
_EDGE: Final = 4.2  # per cent of a strip in a row


@frozen
class Dot:
    """A cycle's number with its ±, and the element of the page that has its evidence.

    Attributes:
        x: per cent.
        y, low, high: pixels of the value and of the ends of its ±.
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
    """A bar of a distribution: pixels down, per cent across."""

    y: float
    height: float
    width: float


@frozen
class StripPanel:
    """The cycles of one series.

    Attributes:
        mean, band: pixels of the average, and of the upper and lower end of its ±.
        before: the other run's average; None: none.
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
        shared: whether all panels have the same scale.
        most: cycles in the fullest bar of the distributions.
    """

    unit: str
    panels: tuple[StripPanel, ...]
    cycles: tuple[Tick, ...]
    most: int
    shared: bool
    panel_px: int = PANEL_PX
    host_px: int = HOST_PX

    @property
    def before(self) -> bool:
        """True if the other run's average is there."""
        return any(panel.before is not None for panel in self.panels)

    @property
    def busy(self) -> bool:
        """True if anybody looked how busy the host was."""
        return any(panel.busy for panel in self.panels)


@frozen
class FailedCycle:
    """An attempt at a cycle that gave no number, and the element of the page that has its evidence."""

    cycle: int
    outcome: str
    href: str


@frozen
class CycleSeries:
    """A number's samples with all that its panel shows.

    Attributes:
        links: cycle -> the element of the page that has its evidence.
        before: the other run's average; None: none.
        busy: cycle -> how busy the host was, 0 to 1.
    """

    title: str
    metric: Metric
    samples: Sequence[Sample]
    summary: Summary
    links: Mapping[int, str] = {}
    failed: Sequence[FailedCycle] = ()
    before: float | None = None
    busy: Mapping[int, float] = {}

    @property
    def bounds(self) -> tuple[float, float]:
        """From the lowest to the highest value, with their ± and that of the average, and the average before."""
        ends = [self.summary.mean - self.summary.uncertainty, self.summary.mean + self.summary.uncertainty]
        ends += [end for s in self.samples for end in (s.value - s.uncertainty, s.value + s.uncertainty)]
        ends += [] if self.before is None else [self.before]
        return min(ends), max(ends)


def cycle_strip(series: Sequence[CycleSeries], *, shared: bool) -> CycleStrip:
    """A panel for each series.

    Args:
        shared: all panels have the same scale, so that the spreads can be compared.
    """
    cycles = [sample.cycle for data in series for sample in data.samples]
    cycles += [attempt.cycle for data in series for attempt in data.failed]
    last = max(cycles + [cycle for data in series for cycle in data.links])
    heights = [high - low for low, high in (data.bounds for data in series)]
    counts = [_counts(data.samples) for data in series]
    most = max(max(count) for count in counts)
    panels = (
        _panel(data, (max(heights) if shared else height, last), (count, most), number)
        for number, (data, height, count) in enumerate(zip(series, heights, counts, strict=True))
    )
    step = max(1, round(last / 10))
    across = tuple(Tick(_across(cycle, last), str(cycle)) for cycle in range(step, last + 1, step))
    return CycleStrip(series[0].metric.unit, tuple(panels), across, most, shared)


def _panel(data: CycleSeries, scale: tuple[float, int], spread: tuple[Sequence[int], int], number: int) -> StripPanel:
    summary, title = data.summary, data.title
    (height, last), (counts, most) = scale, spread
    low, high = data.bounds
    span = _ROOM * height or abs(high) / 100 or 1.0
    top = (low + high + span) / 2

    def down(value: float) -> float:
        return PANEL_PX * (top - value) / span

    moved = drift(data.samples)
    least, most_value = min(s.value for s in data.samples), max(s.value for s in data.samples)
    thick = (down(least) - down(most_value)) / len(counts) if len(counts) > 1 else 6.0
    return StripPanel(
        title=title,
        colour=number % COLOURS,
        ticks=tuple(Tick(down(value), text) for value, text in ticks(top - span, top, 5)),
        mean=down(summary.mean),
        band=(down(summary.mean + summary.uncertainty), down(summary.mean - summary.uncertainty)),
        before=None if data.before is None else down(data.before),
        dots=tuple(
            Dot(
                x=_across(s.cycle, last),
                y=down(s.value),
                low=down(s.value - s.uncertainty),
                high=down(s.value + s.uncertainty),
                href=data.links.get(s.cycle, ""),
                title=f"{title}, cycle {s.cycle}: {with_uncertainty(s.value, s.uncertainty, data.metric)}",
                flagged=bool(s.flags - {Flag.SIMULATED}),
            )
            for s in data.samples
        ),
        crosses=tuple(
            Cross(_across(attempt.cycle, last), attempt.href, f"{title}, cycle {attempt.cycle}: {attempt.outcome}")
            for attempt in data.failed
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
        busy=tuple((_across(cycle, last), HOST_PX * (1 - share)) for cycle, share in sorted(data.busy.items())),
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


@frozen
class RowStrip:
    """Numbers as dots above, and one with its ± below.

    Attributes:
        dots: where they are across.
        now: where the one is.
        reach: both ends of its ±.
        band: both ends of a ± behind both; None: none.
        text: the same for who does not see it.
    """

    dots: tuple[float, ...]
    now: float
    reach: tuple[float, float]
    band: tuple[float, float] | None
    text: str


def row_strip(
    values: Sequence[float],
    now: tuple[float, float],
    text: str,
    band: tuple[float, float] | None = None,
    scale: tuple[float, float] | None = None,
) -> RowStrip:
    """Place numbers on an axis.

    Args:
        now, band: a value and its ±.
        scale: from where to where the axis goes. Default: as far as the numbers.
    """
    ends = [now[0] - now[1], now[0] + now[1]]
    behind = None if band is None else (band[0] - band[1], band[0] + band[1])
    low, high = scale or (min(*values, *ends, *(behind or ())), max(*values, *ends, *(behind or ())))

    def x(at: float) -> float:
        return round(_inside((at - low) / (high - low) if high > low else 0.5), 1)

    return RowStrip(
        tuple(map(x, values)), x(now[0]), (x(ends[0]), x(ends[1])), behind and (x(behind[0]), x(behind[1])), text
    )


def _inside(share: float) -> float:
    """Per cent of a strip's width, with room for half a dot at its ends."""
    return _EDGE + (100 - 2 * _EDGE) * share


@frozen
class BoardStrips:
    """A table of strips: a row for each board, a column for each medium with an axis of its own."""

    title: str
    unit: str
    columns: tuple[tuple[str, tuple[Tick, ...]], ...]
    rows: tuple[tuple[str, tuple[RowStrip | None, ...]], ...]


def board_strips(title: str, metric: Metric, media: Mapping[str, Mapping[str, Sequence[Sample]]]) -> BoardStrips:
    """Each board's samples as dots, with the mean and its ±.

    Args:
        media: medium -> board -> samples.
    """
    boards = sorted({board for members in media.values() for board in members})
    columns, strips = [], {}
    for medium, members in media.items():
        summaries = {board: summarise(samples) for board, samples in members.items()}
        ends = [s.value for samples in members.values() for s in samples]
        ends += [s.mean + sign * s.uncertainty for s in summaries.values() for sign in (-1, 1)]
        low, high = min(ends), max(ends)
        low, high = (low, high) if high > low else (low - (abs(low) or 1.0) / 100, high + (abs(low) or 1.0) / 100)
        axis = ticks(low, high, 3)
        columns.append((medium, tuple(Tick(_inside((at - low) / (high - low)), text) for at, text in axis)))
        for board, samples in members.items():
            mean, bound = summaries[board].mean, summaries[board].uncertainty
            text = f"{board}, {medium}: {with_uncertainty(mean, bound, metric)}, {len(samples)} samples"
            values = [s.value for s in samples]
            strips[board, medium] = row_strip(values, (mean, bound), text, scale=(low, high))
    rows = tuple((board, tuple(strips.get((board, medium)) for medium in media)) for board in boards)
    return BoardStrips(title, metric.unit, tuple(columns), rows)
