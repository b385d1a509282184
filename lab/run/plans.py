"""Checks of stored plans before a run is resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.results import Run
from lab.run.options import MAX_CYCLES, MAX_SLEEP_S


@frozen
class _Value:
    """The expected value of a plan's key."""

    described: str
    fits: Callable[[object], bool]
    required: bool = True


def _number(maximum: int) -> _Value:
    return _Value(f"a whole number from 1 to {maximum}", lambda value: type(value) is int and 1 <= value <= maximum)


def _names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) and name for name in value)


_CYCLES: Final = _number(MAX_CYCLES)
_NAMES: Final = _Value("a list of names", _names)
_NAME: Final = _Value("a name", lambda value: isinstance(value, str) and bool(value))
_FLAG: Final = _Value("true or false", lambda value: isinstance(value, bool), required=False)
_REPEATS: Final = _Value(
    f"section: whole number from 1 to {MAX_CYCLES}",
    lambda value: isinstance(value, dict) and all(_CYCLES.fits(count) for count in value.values()),
    required=False,  # before it was there, each section was measured once
)
_KINDS: Final[Mapping[str, Mapping[str, _Value]]] = {
    "boot": {"cycles": _CYCLES, "media": _NAMES, "init": _Value("a path", _NAME.fits, required=False)},
    "low_power": {
        "cycles": _CYCLES,
        "modes": _NAMES,
        "wake": _NAME,
        "sleep_s": _number(MAX_SLEEP_S),
        "medium": _NAME,
        "energy": _FLAG,
    },
    "sections": {"sections": _NAMES, "destructive": _FLAG, "repeats": _REPEATS},
}


def check(run: Run) -> None:
    """Check that this program can resume a run's plan.

    Raises:
        ConfigurationError: a key is missing or wrong; the message names the run and the key.
    """
    hint = "it was damaged, or another boardlab wrote it; begin a new run"
    if run.kind not in _KINDS:
        raise ConfigurationError(
            f"run {run.id} is of a kind that this boardlab does not measure: {run.kind!r}; {hint}"
        )
    for key, value in _KINDS[run.kind].items():
        if key not in run.plan:
            if value.required:
                raise ConfigurationError(f"the plan of run {run.id} has no {key!r} ({value.described}): {hint}")
        elif not value.fits(run.plan[key]):
            text = repr(run.plan[key])[:60]
            raise ConfigurationError(
                f"the plan of run {run.id}: {key}: expected {value.described}, got {text}: {hint}"
            )
