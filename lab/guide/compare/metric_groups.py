"""Groups of results that can move together, from metric_groups.toml."""

from __future__ import annotations

import fnmatch
import functools
import re
import string
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources

from attrs import frozen

_MOST_NAMES = 5


@frozen
class MetricGroup:
    """A group of results that can move together.

    Attributes:
        label: the row's name in a line.
        name: the group's name, which several benchmarks may share.
        gap: difference of the logarithms of two factors from which two causes are more likely than one.
        alone: each board moves for itself.
    """

    label: str
    name: str
    gap: float
    alone: bool


def group_of(metric: str, params: Mapping[str, str]) -> MetricGroup:
    """Return the metric group of a result."""
    template = next(template for pattern, template in _load() if pattern.fullmatch(metric))
    values = {"name": metric, "metric": metric.rpartition(".")[2], **params}
    return MetricGroup(_fill(template.label, values), _fill(template.name, values), template.gap, template.alone)


def row_labels(rows: Iterable[tuple[str, Mapping[str, str]]], *, exact: bool = False) -> str:
    """Names of some rows, the most frequent first.

    Args:
        exact: a name that stands for one row alone includes its parameters.
    """
    values_by_label: dict[str, list[tuple[str, ...]]] = {}
    for metric, params in rows:
        values_by_label.setdefault(group_of(metric, params).label, []).append(tuple(params.values()))
    names = []
    for label, values in sorted(values_by_label.items(), key=lambda item: -len(item[1])):
        own = values[0] if exact and len(set(values)) == 1 else ()
        names.append(" ".join([label, *(value for value in own if value not in label)]))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


@functools.cache
def _load() -> tuple[tuple[re.Pattern[str], MetricGroup], ...]:
    """Pattern of a metric -> its group, whose texts name parameters in braces."""
    data = tomllib.loads((resources.files("lab.guide.compare") / "metric_groups.toml").read_text(encoding="utf-8"))
    usual = {"metric": "*", "label": "{name}", "gap": data["gap"]}
    return tuple(
        (
            re.compile(fnmatch.translate(row["metric"])),
            MetricGroup(
                row["label"],
                row.get("group", row["label"]),
                row.get("gap", data["gap"]) / 100,
                row.get("alone", False),
            ),
        )
        for row in [*data["row"], usual]
    )


def _fill(text: str, values: Mapping[str, str]) -> str:
    """A text with its parameters; one that is not there leaves nothing."""
    names = {name: values.get(name, "") for _, name, _, _ in string.Formatter().parse(text) if name}
    return " ".join(text.format_map(names).split()).rstrip(", ")
