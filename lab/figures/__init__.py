"""Figures: one record for each kind, and one template that draws them.

`strips` has samples with their mean and ±, `bars` stages and rails, `lines` numbers over releases and runs, `power` a
trace. A page includes `page.css` and `figures.css`, and calls the macros of `figures.html.j2`, or `draw`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from attrs import frozen
from markupsafe import Markup

from lab.errors import ConfigurationError
from lab.terminal import environment

COLOURS: Final = 5  # that `tokens.css` has, safe for colour-blind readers; they repeat after these


@frozen
class Tick:
    """A labelled place of an axis, in the unit of its figure: pixels or per cent."""

    at: float
    text: str


def ticks(low: float, high: float, about: int) -> list[tuple[float, str]]:
    """About so many round values from low to high, with their texts.

    They are as far apart as 1, 2 or 5 of some decimal place.
    """
    raw = (high - low) / about
    place = math.floor(math.log10(raw))
    factor = next(factor for factor in (1, 2, 5, 10) if factor * 10.0**place >= raw * (1 - 1e-9))
    places = max(0, -place - (factor == 10))
    step = factor * 10.0**place
    return [(n * step, f"{n * step:z.{places}f}") for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def draw(kind: str, *figure: object) -> Markup:
    """A figure as the macro `kind` draws it."""
    macro = getattr(environment("lab.figures").get_template("figures.html.j2").module, kind)
    return Markup(macro(*figure).strip())  # noqa: S704 - the template escapes its texts


def write(path: Path, svg: str, option: str) -> None:
    """Write an SVG file.

    Args:
        option: that named the file.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    try:
        path.write_text(svg + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be written: {error.strerror}; choose another path for {option}"
        ) from error
