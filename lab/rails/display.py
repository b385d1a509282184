"""Display of power: tables, SVG and JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from attrs import asdict

from lab.errors import ConfigurationError
from lab.figures import drawn
from lab.figures.power import power_figure
from lab.metrics import Moment
from lab.rails.live import Now
from lab.rails.model import PhasePower, RailPower
from lab.rails.phase import StagePower, samples_of
from lab.rails.selftest import SensorCheck
from lab.rails.trace import Trace
from lab.results.formatting import fixed
from lab.terminal import bad, doubtful, table

NA = "n/a"


def phase_lines(power: PhasePower) -> list[str]:
    """Table of a phase: the guide's columns, uncertainty and flags."""
    header = ["Rail name", "Rail voltage(V)", "Power (mW)", "±", "min", "max", "Energy (mJ)", "samples", "flags"]
    rows = [_row(rail) for rail in (*power.rails, power.total)]
    return table(header, rows, "<>>>>>>><")


def stage_lines(found: Sequence[StagePower]) -> list[str]:
    """Stages of a boot as a table."""
    header = ["from", "to", "seconds", "Power (mW)", "±", "Energy (mJ)", "±", "flags"]
    rows = []
    for stage in found:
        total = stage.power.total
        rows.append(
            [
                stage.start,
                stage.end,
                f"{(stage.power.end_ns - stage.power.start_ns) / 1e9:.3f}",
                _number(total.mean_w, 1000, 1),
                _number(total.uncertainty_w, 1000, 1),
                _number(total.energy_j, 1000, 1),
                _number(total.energy_uncertainty_j, 1000, 1),
                doubtful(", ".join(sorted(total.flags))),
            ]
        )
    return table(header, rows, "<<>>>>><")


def guide_lines(power: PhasePower) -> list[str]:
    """CSV lines of a phase in the performance guide's format.

    The total is that of the unrounded rails.
    """
    lines = ['"Rail name","Rail voltage(V)","Power (mW)"']
    for rail in power.rails:
        shown = _number(rail.mean_w, 1000, 2) if rail.measured else NA
        lines.append(f'"{rail.rail}","{rail.volts:.2f}","{shown}"')
    lines.append(f'"Total"," ","{_number(power.total.mean_w, 1000, 2)}"')
    return lines


def watch_lines(rails: Sequence[Now], inputs: Collection[str] = ()) -> list[str]:
    """Table of the rails' present power; `inputs` are not in the total."""
    rows = [[now.rail, _number(now.volts, 1, 3), _number(now.watts, 1000, 2), bad(now.text)] for now in rails]
    rows.append(["total", "", _number(sum(now.watts or 0.0 for now in rails if now.rail not in inputs), 1000, 2), ""])
    return table(["Rail name", "V", "mW", ""], rows, "<>><")


def answer_lines(answers: Sequence[SensorCheck]) -> list[str]:
    """The self-test as a table."""
    rows = [
        [
            answer.where,
            answer.rail or "-",
            f"{answer.expected_v:g}" if answer.rail else "-",
            _number(answer.volts, 1, 3),
            _number(answer.shunt_uv, 1, 1),
            answer.verdict if answer.good else bad(answer.verdict),
        ]
        for answer in answers
    ]
    return table(["address", "rail", "expected V", "reads V", "shunt uV", ""], rows, "<<>>><")


def document(power: PhasePower, provenance: Mapping[str, object]) -> dict[str, Any]:
    """A phase for JSON."""
    found = asdict(
        power, value_serializer=lambda _i, _f, value: sorted(value) if isinstance(value, frozenset) else value
    )
    return {**found, "provenance": dict(provenance)}


def _row(rail: RailPower) -> list[str]:
    volts = f"{rail.volts:.2f}" if rail.volts else ""
    if not rail.measured:
        return [rail.rail, volts, NA, "", "", "", "", "", ""]
    return [
        rail.rail,
        volts,
        _number(rail.mean_w, 1000, 2),
        _number(rail.uncertainty_w, 1000, 2),
        _number(rail.min_w, 1000, 2),
        _number(rail.max_w, 1000, 2),
        _number(rail.energy_j, 1000, 3),
        f"{rail.samples}/{rail.expected}",
        doubtful(", ".join(sorted(rail.flags))),
    ]


def _number(value: float | None, factor: float, decimals: int) -> str:
    return "-" if value is None else fixed(value * factor, decimals)


# --- A trace as a picture ---


_POINTS: Final = 800  # as many as the picture has columns
Floats = npt.NDArray[np.float64]


def stacked(trace: Trace, moments: Sequence[Moment] = ()) -> str:
    """SVG of a trace's stacked rails, with the console's moments.

    Where there are more samples than columns, each column shows their mean.

    Raises:
        ConfigurationError: the trace has too few samples.
    """
    start_ns, end_ns = trace.span_ns
    edges = np.linspace(start_ns, end_ns, min(_POINTS, max(2, len(trace.records) // len(trace.meta.channels))))
    watts = {c.rail: [float(w) for w in _binned(trace, n, edges)] for n, c in enumerate(trace.meta.channels)}
    times_ns = [float(t) for t in (edges[:-1] + edges[1:]) / 2]
    figure = power_figure(f"Rails of {trace.meta.board}, stacked", times_ns, watts, moments, stacked=True)
    if figure is None:
        raise ConfigurationError(f"{trace.path}: too few samples for a picture; sample longer")
    return drawn("trace", figure, True)


def _binned(trace: Trace, number: int, edges: Floats) -> Floats:
    """Mean power in watt between edges; empty columns are interpolated."""
    samples = samples_of(trace, number)
    sums, _ = np.histogram(samples.centre_ns, edges, weights=samples.power_w)
    counts, _ = np.histogram(samples.centre_ns, edges)
    filled = counts > 0
    if not filled.any():
        return np.zeros(len(counts))
    columns = np.arange(len(counts))
    means: Floats = np.interp(columns, columns[filled], sums[filled] / counts[filled])
    return means
