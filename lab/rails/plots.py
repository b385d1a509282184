"""A trace as a picture: the rails stacked over time, with the console's moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import frozen
from matplotlib.figure import Figure

from lab.errors import ConfigurationError
from lab.rails.phase import samples_of
from lab.rails.trace import Trace
from lab.results.plots import colours, style, svg

_SIZE_IN: Final = (9.0, 3.6)
_POINTS: Final = 1200  # more than the picture has columns
Floats = npt.NDArray[np.float64]


@frozen
class Event:
    """Something that the console said, at an instant of CLOCK_MONOTONIC_RAW."""

    t_ns: int
    name: str


def stacked(trace: Trace, events: Sequence[Event] = ()) -> str:
    """The trace as an SVG element. Where there are more samples than columns, each column shows their mean.

    Raises:
        ConfigurationError: the trace has too few samples.
    """
    start_ns, end_ns = trace.span_ns
    edges = np.linspace(start_ns, end_ns, min(_POINTS, max(2, len(trace.records) // len(trace.meta.channels))))
    seconds = (edges[:-1] + edges[1:]) / 2e9 - start_ns / 1e9
    layers = [_binned(trace, number, edges) * 1000 for number in range(len(trace.meta.channels))]
    if len(seconds) < 2:
        raise ConfigurationError(f"{trace.path}: too few samples for a picture; sample longer")
    with style():
        figure = Figure(figsize=_SIZE_IN, layout="constrained")
        axes = figure.subplots()
        names = [channel.rail for channel in trace.meta.channels]
        axes.stackplot(seconds, *layers, labels=names, colors=colours(len(names)), alpha=0.85, linewidth=0)
        top = float(np.sum(layers, axis=0).max()) * 1.25 or 1.0
        for event in events:
            if start_ns <= event.t_ns <= end_ns:
                at = (event.t_ns - start_ns) / 1e9
                axes.axvline(at, linewidth=0.7, linestyle=":", color="#d1242f")
                axes.annotate(event.name, (at, top), rotation=90, va="top", ha="right", fontsize=6.5)
        axes.set_ylim(0, top)
        axes.set_xlim(float(seconds[0]), float(seconds[-1]))
        axes.set_xlabel("seconds")
        axes.set_ylabel("mW")
        axes.legend(loc="upper left", fontsize=7, ncols=3, frameon=False)
        return svg(figure, "rails", f"Power of the rails of {trace.meta.board}, stacked")


def _binned(trace: Trace, number: int, edges: Floats) -> Floats:
    """Mean power in watt between neighbouring edges; a column without a sample continues its neighbours."""
    samples = samples_of(trace, number)
    sums, _ = np.histogram(samples.centre_ns, edges, weights=samples.power_w)
    counts, _ = np.histogram(samples.centre_ns, edges)
    filled = counts > 0
    if not filled.any():
        return np.zeros(len(counts))
    columns = np.arange(len(counts))
    means: Floats = np.interp(columns, columns[filled], sums[filled] / counts[filled])
    return means
