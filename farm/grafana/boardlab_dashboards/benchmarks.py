"""Benchmarks across releases: one metric at a time, and what changed."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models

from boardlab_dashboards.changes import changed, not_measured, regressed
from boardlab_dashboards.panels import Column, lines, rows, top
from boardlab_dashboards.parts import FOR_BOARDS, NUMBER, dashboard, filled, query_variable, to

_OWN: Final = "job, instance, board_type, kind, version, stat"
# Ending of a family's name -> Grafana's unit; other endings are plain numbers. A metric has one of them.
_ENDS: Final = {
    "seconds": "s",
    "bytes_per_second": "Bps",
    "watts": "watt",
    "joules": "joule",
    "ratio": "percentunit",
    "hertz": "hertz",
}
_OTHER: Final = "short"
# These distinguish the columns by unit; a metric has only its own.
_SHOWN: Final = {
    "s": " (time)",
    "Bps": " (rate)",
    "watt": " (power)",
    "joule": " (energy)",
    "percentunit": " (share)",
    "hertz": " (frequency)",
    "short": "",
}


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard(
        "benchmarks", "boardlab: benchmarks across releases", "A metric of the store, and its changes.", FOR_BOARDS
    )
    names = query_variable(
        "metric",
        "Metric",
        f'query_result(count by (__name__) ({{__name__=~"boardlab_.+_samples",__name__!="boardlab_flagged_samples",{NUMBER}}}))',
        ".+",
        single=True,
    )
    made.with_variable(names.regex("/boardlab_(.+)_samples/"))
    to_board = ("Board ${__value.text}", to("board", board="${__value.text}"))
    columns = (
        Column("board", "Board", 260, link=to_board),
        Column("medium", "Medium", 90),
        Column("mode", "Mode", 110),
        Column("rail", "Rail", 130),
        Column("size", "Size", 90),
        Column("release", "Release", 90),
        *(
            Column(f"Value #{letter}", f"Average{_SHOWN[unit]}", 130, unit)
            for letter, unit in zip("ABCDEFG", _units(), strict=True)
        ),
        *(
            Column(f"Value #{letter}", f"±{_SHOWN[unit]}", 110, unit)
            for letter, unit in zip("HIJKLMN", _units(), strict=True)
        ),
        Column("Value #O", "Samples", 90, "none"),
    )
    over_time = lines(
        "$metric over time",
        "Averages as they came; the five highest.",
        "short",
        *(
            (top(f"max without ({_OWN}) ({value})"), "{{board}} {{medium}} {{mode}} {{rail}} {{size}} {{release}}")
            for value in _values("")
        ),
        to=("Board", to("board", board="${__field.labels.board}")),
    )
    for letter, unit in zip("ABCDEFG", _units(), strict=True):
        over_time.override_by_query(letter, [models.DynamicConfigValue("unit", unit)])
    panels = (
        over_time.span(24),
        rows(
            "$metric by board and release",
            "Average and its ± at 95 %, of the latest completed run of each release.",
            columns,
            *(f"max without ({_OWN}) ({value})" for value in (*_values(""), *_values("_uncertainty"))),
            f'max without ({_OWN}) ({{__name__=~"boardlab_($metric)_samples",{NUMBER}}})',
            by=[(f"Average{_SHOWN[unit]}", True) for unit in _units()],
            nothing="not measured yet",
            height=10,
        ),
        not_measured(),
        regressed(),
        changed("release", "Changes from the previous release", "Relative change of each average."),
    )
    return filled(made, panels)


def _units() -> tuple[str, ...]:
    return (*_ENDS.values(), _OTHER)


def _values(what: str) -> list[str]:
    """Selectors of the families by unit, and of those without one."""
    stat = ',stat="avg"' if not what else ""
    family = f"boardlab_($metric){what}"
    own = [f'{{__name__=~"{family}_{end}",{NUMBER}{stat}}}' for end in _ENDS]
    others = f'{{__name__=~"{family}(_[a-z_]+)?",__name__!~".+_({"|".join(_ENDS)}|samples)",{NUMBER}{stat}}}'
    if not what:
        others = others.replace('samples)"', 'samples)",__name__!~".+_uncertainty(_.+)?"')
    return [*own, others]
