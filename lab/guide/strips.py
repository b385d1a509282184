"""The boards of a type beside each other: each board's boots as a strip of dots, one panel a medium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen
from matplotlib.figure import Figure

from lab.metrics import Sample, summarise
from lab.results import plots

_WIDTH_IN: Final = 9.0
_STRIP_IN: Final = 0.24
_LANES: Final = 5  # beside each other, so that equal values do not hide each other
_LANE: Final = 0.09  # of a strip's height


@frozen
class Strip:
    """All samples of a board on a medium."""

    board: str
    samples: Sequence[Sample]


def draw(media: Mapping[str, Sequence[Strip]], unit: str) -> str:
    """Every sample a dot; a bar for the mean and its ±. The boards are in the same order in all panels."""
    boards = list(dict.fromkeys(strip.board for strips in media.values() for strip in strips))
    with plots.style():
        figure = Figure(figsize=(_WIDTH_IN, 1.0 + _STRIP_IN * len(boards)), layout="constrained")
        panels = figure.subplots(1, len(media), sharey=True, squeeze=False)[0]
        for axes, (medium, strips), colour in zip(panels, media.items(), plots.colours(len(media)), strict=True):
            for strip in strips:
                at = boards.index(strip.board)
                lanes = [at + _LANE * (number % _LANES - _LANES // 2) for number in range(len(strip.samples))]
                values = [sample.value for sample in strip.samples]
                axes.plot(values, lanes, "o", markersize=2.5, alpha=0.5, color=colour, markeredgewidth=0)
                summary = summarise(strip.samples)
                axes.errorbar(
                    summary.mean, at, xerr=summary.uncertainty, marker="|", markersize=9, capsize=2, color=colour
                )
            axes.set_title(medium, fontsize="medium")
            axes.set_xlabel(unit)
        panels[0].set_yticks(range(len(boards)), boards)
        panels[0].invert_yaxis()
        return plots.svg(figure, "strips", "Each boot of each board, by medium, with the mean and its uncertainty")
