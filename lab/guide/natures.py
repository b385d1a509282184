"""Which rows of a guide have something in common, so that they can move together; from natures.toml."""

from __future__ import annotations

import fnmatch
import functools
import re
import string
import tomllib
from collections.abc import Mapping
from importlib import resources

from attrs import frozen


@frozen
class Nature:
    """What a result has in common with others.

    Attributes:
        label: how a line calls the row. name: what rows of several benchmarks may share.
        gap: difference of the logarithms of two factors from which two causes are more likely than one.
        alone: each board moves for itself.
    """

    label: str
    name: str
    gap: float
    alone: bool


@frozen
class _Entry:
    metric: re.Pattern[str]
    label: str
    nature: str
    gap: float
    alone: bool


@functools.cache
def _load() -> tuple[_Entry, ...]:
    data = tomllib.loads((resources.files("lab.guide") / "natures.toml").read_text(encoding="utf-8"))
    usual = {"metric": "*", "label": "{name}", "gap": data["gap"]}
    return tuple(
        _Entry(
            re.compile(fnmatch.translate(row["metric"])),
            row["label"],
            row.get("nature", row["label"]),
            row.get("gap", data["gap"]) / 100,
            row.get("alone", False),
        )
        for row in [*data["row"], usual]
    )


def of(metric: str, params: Mapping[str, str]) -> Nature:
    """What a result has in common with others."""
    entry = next(entry for entry in _load() if entry.metric.fullmatch(metric))
    words = {"name": metric, "metric": metric.rpartition(".")[2], **params}
    return Nature(_filled(entry.label, words), _filled(entry.nature, words), entry.gap, entry.alone)


def _filled(text: str, words: Mapping[str, str]) -> str:
    """A text with its parameters; one that is not there leaves nothing."""
    names = {name: words.get(name, "") for _, name, _, _ in string.Formatter().parse(text) if name}
    return " ".join(text.format_map(names).split()).rstrip(", ")
