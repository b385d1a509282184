"""Colours of values: thresholds and value mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models

GREEN: Final = "green"
ORANGE: Final = "orange"  # yellow is hard to read on white
RED: Final = "red"
BLUE: Final = "blue"
PLAIN_TEXT: Final = "text"  # the theme's: neither good nor bad

Mappings = list[models.ValueMap | models.RangeMap | models.RegexMap | models.SpecialValueMap]


def thresholds(first: str, *steps: tuple[float, str]) -> builders.ThresholdsConfig:
    """Colour of the lowest values, and another from each step on."""
    made = [models.Threshold(value=None, color=first), *(models.Threshold(value=v, color=c) for v, c in steps)]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(made)


PLAIN: Final = thresholds(PLAIN_TEXT)
NONE_IS_GOOD: Final = thresholds(GREEN, (1, RED))  # counts of what must not be
ANY_IS_BAD: Final = thresholds(PLAIN_TEXT, (1, RED))  # the same, in a table where 0 needs no colour


def texts(found: Mapping[str, tuple[str, str]], *, absent: tuple[str, str] | None = None) -> Mappings:
    """Value -> (text, colour); `absent`: where there is no value at all."""
    options = {
        value: models.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(found.items())
    }
    made: Mappings = [models.ValueMap(options=options)]
    if absent is not None:
        nothing = models.ValueMappingResult(text=absent[0], color=absent[1], index=len(options))
        match = models.DashboardSpecialValueMapOptions(match=models.SpecialValueMatch.NULL, result=nothing)
        made.append(models.SpecialValueMap(options=match))
    return made


NEVER_S: Final = 1e10  # three centuries, which no age reaches
_NEVER_RESULT: Final = models.ValueMappingResult(text="never", color=RED, index=0)
NEVER: Final[Mappings] = [
    models.RangeMap(options=models.DashboardRangeMapOptions(from_val=NEVER_S / 10, to=None, result=_NEVER_RESULT))
]
STATES: Final = texts(
    {
        "needs a person": ("needs a person", RED),
        "failed": ("failed", RED),
        "worse": ("worse", ORANGE),
        "away": ("away", PLAIN_TEXT),
        "in maintenance": ("in maintenance", PLAIN_TEXT),
        "qualifying": ("qualifying", PLAIN_TEXT),
        "unknown": ("unknown", ORANGE),
        "never reached": ("never reached", PLAIN_TEXT),
        "measuring": ("measuring", BLUE),
        "held": ("held", BLUE),
        "waiting": ("waiting", BLUE),
        "free": ("free", GREEN),
    }
)


def open_page() -> Mappings:
    """Any address: the word `open`."""
    opens = models.ValueMappingResult(text="open", color=BLUE, index=0)
    return [models.RegexMap(options=models.DashboardRegexMapOptions(pattern=".+", result=opens))]
