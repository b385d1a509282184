"""The rails of a run's attempts, read from their traces for the run's page."""

from __future__ import annotations

from typing import Final

import numpy as np

from lab.errors import BoardlabError
from lab.rails.phase import samples_of
from lab.rails.trace import Trace
from lab.report.names import Names
from lab.report.power import PowerFigure, power_figure
from lab.results.artifacts import ArtifactStore
from lab.results.listing import Overview
from lab.results.records import POWER_TRACE, Attempt

MOST: Final = 6  # figures of a page; the traces of all attempts are among its files
_COLUMNS: Final = 300


def power_of(run: Overview, artifacts: ArtifactStore) -> list[PowerFigure]:
    """The first good attempt of each item of the run that has a trace; one that is missing or damaged has no figure."""
    names, seen = Names(run.run), set()
    found: list[PowerFigure] = []
    for attempt in run.attempts:
        item = frozenset(attempt.params.items())
        if not attempt.ok or item in seen or len(found) == MOST:
            continue
        figure = _figure(f"{names.of(attempt.params)}, cycle {attempt.cycle}", attempt, artifacts)
        if figure is not None:
            seen.add(item)
            found.append(figure)
    return found


def _figure(title: str, attempt: Attempt, artifacts: ArtifactStore) -> PowerFigure | None:
    ref = attempt.artifact(POWER_TRACE)
    if ref is None:
        return None
    try:
        artifacts.read(ref.sha256)  # says so where it is damaged
        trace = Trace.open(artifacts.path(ref.sha256))
        begin_ns, end_ns = trace.span_ns
    except BoardlabError:
        return None
    count = min(_COLUMNS, max(1, len(trace.records) // max(1, len(trace.meta.channels))))
    edges = np.linspace(begin_ns, end_ns, count + 1)
    watts: dict[str, list[float | None]] = {}
    for number, channel in enumerate(trace.meta.channels):
        samples = samples_of(trace, number)
        sums, _ = np.histogram(samples.centre_ns, edges, weights=samples.power_w)
        counts, _ = np.histogram(samples.centre_ns, edges)
        watts[channel.rail] = [float(total / here) if here else None for total, here in zip(sums, counts, strict=True)]
    return power_figure(title, [float(t) for t in (edges[:-1] + edges[1:]) / 2], watts, attempt.moments)
