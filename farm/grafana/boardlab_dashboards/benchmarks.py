"""Benchmarks across releases: any metric, and what changed."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.parts import (
    FOR_BOARDS,
    NUMBER,
    bars,
    dashboard,
    filled,
    lines,
    query_variable,
    regressions,
    rows,
)


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard(
        "benchmarks", "boardlab: benchmarks across releases", "Any metric of the store, and what changed.", FOR_BOARDS
    )
    names = query_variable(
        "metric", "Metric", f'query_result(count by (__name__) ({{__name__=~"boardlab_.+_samples",{NUMBER}}}))', ".+"
    )
    made.with_variable(names.regex("/boardlab_(.+)_samples/"))
    made.annotation(regressions())
    value = f'{{__name__=~"boardlab_($metric)(_[a-z_]+)?",{NUMBER},stat="avg"}}'
    series = "{{__name__}} {{board}} {{medium}} {{size}} {{release}}"
    panels = (
        bars(
            "Averages by release",
            "Of the latest completed run of each release, in base units.",
            "short",
            (value, series),
        ),
        lines("Averages over time", "The same, as they came.", "short", (value, series)),
        bars(
            "Samples",
            "How many each number has.",
            "short",
            (f'{{__name__=~"boardlab_($metric)_samples",{NUMBER}}}', series),
        ),
        bars(
            "Uncertainty",
            "± of the average at 95 %, in base units.",
            "short",
            (f'{{__name__=~"boardlab_($metric)_uncertainty(_[a-z_]+)?",{NUMBER}}}', series),
        ),
        rows(
            "What changed from the release before",
            "Relative change of each average, the largest first.",
            "percentunit",
            (f"sort_desc(abs(boardlab_release_change_ratio{{{NUMBER}}}))", ""),
        ),
        rows(
            "Regressions",
            "1: worse by more than equal runs differ (docs/judge.md); the alert wants the same of two runs.",
            "short",
            (f"boardlab_release_regression{{{NUMBER}}}", ""),
        ),
    )
    return filled(made, panels)
