"""The power of a board's rails over an attempt, arranged for the page: the moments of its console stand on the same axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from lab.report.chart import COLOURS, Tick
from lab.results.records import MomentRecord
from lab.shown import ticks

WIDTH: Final = 800
HEIGHT: Final = 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 8, 22
_STEPS: Final = 4  # heights that the moments' names take in turn, so that close ones can be read


@frozen
class PowerLine:
    """A rail: the points of its line (SVG), in pieces where samples are missing, and its mean in milliwatt."""

    rail: str
    colour: int
    pieces: tuple[str, ...]
    mean: str


@frozen
class PowerMoment:
    """A moment of the console: where it is across, and where its name is down."""

    x: float
    y: float
    name: str


@frozen
class PowerFigure:
    """The rails of one attempt. `across` in seconds since the first sample, `down` in milliwatt; both in pixels."""

    title: str
    lines: tuple[PowerLine, ...]
    moments: tuple[PowerMoment, ...]
    across: tuple[Tick, ...]
    down: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT


def power_figure(
    title: str, times_ns: Sequence[float], watts: Mapping[str, Sequence[float | None]], moments: Sequence[MomentRecord]
) -> PowerFigure | None:
    """The figure; None where there is nothing to draw.

    Args:
        times_ns: on the clock of the moments, rising. watts: rail -> its power at each of these times; None: no sample.
    """
    known = [value for values in watts.values() for value in values if value is not None]
    if len(times_ns) < 2 or not known:
        return None
    begin, span = times_ns[0], times_ns[-1] - times_ns[0]
    low, high = min(0.0, *known), max(*known, 1e-6) * 1.15

    def x(t_ns: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (t_ns - begin) / span

    def y(watt: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (high - watt) / (high - low)

    inside = [moment for moment in moments if begin <= moment.t_ns <= times_ns[-1]]
    return PowerFigure(
        title,
        tuple(
            _line(
                rail,
                number % COLOURS,
                [(x(t), None if w is None else y(w)) for t, w in zip(times_ns, values, strict=True)],
                values,
            )
            for number, (rail, values) in enumerate(watts.items())
        ),
        tuple(PowerMoment(x(m.t_ns), _TOP + 10 + 11 * (n % _STEPS), m.name) for n, m in enumerate(inside)),
        tuple(Tick(x(begin + 1e9 * at), text) for at, text in ticks(0, span / 1e9, 8)),
        tuple(Tick(y(at / 1000), text) for at, text in ticks(1000 * low, 1000 * high, 5)),
    )


def _line(
    rail: str, colour: int, points: Sequence[tuple[float, float | None]], values: Sequence[float | None]
) -> PowerLine:
    pieces: list[list[str]] = [[]]
    for across, down in points:
        if down is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{across:.1f},{down:.1f}")
    known = [value for value in values if value is not None]
    mean = f"{1000 * sum(known) / len(known):.1f}" if known else "no sample"
    return PowerLine(rail, colour, tuple(" ".join(piece) for piece in pieces if piece), mean)
