"""The power of a board's rails over time, in pixels: the moments of its console stand on the same axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from attrs import frozen

from lab.figures import COLOURS, Tick, ticks
from lab.metrics import Moment

WIDTH: Final = 800
HEIGHT: Final = 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 8, 22
_WHOLE: Final = 0.99  # of the instants, from which on a mean needs no remark
_STEPS: Final = 4  # heights that the moments' names take in turn, so that close ones can be read


@frozen
class PowerLine:
    """A rail: the points of its line or area (SVG), in pieces where samples are missing, and its mean in milliwatt."""

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
    """The rails of one trace; `across` in seconds since the first sample, `down` in milliwatt.

    Attributes:
        stacked: the lines are areas, each from the axis to the sum of its rail and those before it.
    """

    title: str
    lines: tuple[PowerLine, ...]
    moments: tuple[PowerMoment, ...]
    across: tuple[Tick, ...]
    down: tuple[Tick, ...]
    stacked: bool = False
    width: int = WIDTH
    height: int = HEIGHT


def power_figure(
    title: str,
    times_ns: Sequence[float],
    watts: Mapping[str, Sequence[float | None]],
    moments: Sequence[Moment],
    *,
    stacked: bool = False,
) -> PowerFigure | None:
    """The figure; None where there is nothing to draw.

    Args:
        times_ns: on the clock of the moments, rising.
        watts: rail -> its power at each of these times; None: no sample.
        stacked: the rails stand on each other, instead of side by side.
    """
    tops = [list(values) for values in watts.values()]
    if stacked:
        tops = [[sum(w or 0.0 for w in here) for here in zip(*tops[: n + 1], strict=True)] for n in range(len(tops))]
    present = [value for values in tops for value in values if value is not None]
    if len(times_ns) < 2 or not present:
        return None
    begin, span = times_ns[0], times_ns[-1] - times_ns[0]
    low, high = min(0.0, *present), max(*present, 1e-6) * 1.15

    def x(t_ns: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (t_ns - begin) / span

    def y(watt: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (high - watt) / (high - low)

    inside = [moment for moment in moments if begin <= moment.t_ns <= times_ns[-1]]
    base = f" {x(times_ns[-1]):.1f},{y(0):.1f} {x(begin):.1f},{y(0):.1f}" if stacked else ""
    return PowerFigure(
        title,
        tuple(
            PowerLine(
                rail,
                number % COLOURS,
                tuple(piece + base for piece in _pieces(times_ns, top, x, y)),
                _mean(values),
            )
            for number, ((rail, values), top) in enumerate(zip(watts.items(), tops, strict=True))
        ),
        tuple(PowerMoment(x(m.t_ns), _TOP + 10 + 11 * (n % _STEPS), m.name) for n, m in enumerate(inside)),
        tuple(Tick(x(begin + 1e9 * at), text) for at, text in ticks(0, span / 1e9, 8)),
        tuple(Tick(y(at / 1000), text) for at, text in ticks(1000 * low, 1000 * high, 5)),
        stacked,
    )


def _pieces(
    times_ns: Sequence[float],
    values: Sequence[float | None],
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> list[str]:
    pieces: list[list[str]] = [[]]
    for t_ns, watt in zip(times_ns, values, strict=True):
        if watt is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{x(t_ns):.1f},{y(watt):.1f}")
    return [" ".join(piece) for piece in pieces if piece]


def _mean(values: Sequence[float | None]) -> str:
    present = [value for value in values if value is not None]
    if not present:
        return "no sample"
    part = f" in {100 * len(present) / len(values):.0f} % of the time" if len(present) < _WHOLE * len(values) else ""
    return f"{1000 * sum(present) / len(present):.1f}{part}"
