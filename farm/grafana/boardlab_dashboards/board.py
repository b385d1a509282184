"""One board, or a few: its numbers, its failures, its jobs."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.parts import (
    BOARD,
    FOR_BOARDS,
    NUMBER,
    bars,
    dashboard,
    filled,
    lines,
    number,
    regressions,
    rows,
)


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard("board", "boardlab: board", "The numbers, failures and jobs of a board.", FOR_BOARDS)
    made.annotation(regressions())
    panels = (
        number(
            "Job",
            "Whether the board waits for a job, is measured, or is held without a sign of life.",
            "short",
            (f"sum by (board, state) (boardlab_jobs{{{BOARD}}})", "{{board}} {{state}}"),
        ),
        number(
            "Sign of life",
            "Since who holds the board last gave one.",
            "s",
            (f"boardlab_job_heartbeat_age_seconds{{{BOARD}}}", "{{board}}"),
        ),
        number(
            "Latest run took",
            "Latest completed run.",
            "s",
            (f"boardlab_run_duration_seconds{{{NUMBER}}}", "{{board}} {{kind}} {{medium}}"),
        ),
        lines(
            "Boot time",
            "Minimum, median and maximum of the latest completed run.",
            "s",
            (
                f'boardlab_boot_duration_seconds{{{NUMBER},stat=~"min|median|max"}}',
                "{{board}} {{medium}} {{release}} {{init}} {{stat}}",
            ),
        ),
        lines(
            "Attempts",
            "By how they ended, on all media.",
            "short",
            (
                f"sum by (board, outcome) (increase(boardlab_outcomes_total{{{BOARD}}}[$__rate_interval]))"
                f" and sum by (board, outcome) (increase(boardlab_outcomes_total{{{BOARD}}}[$__range])) > 0",
                "{{board}} {{outcome}}",
            ),
        ),
        bars(
            "Stages of the boot",
            "Average of the latest completed run.",
            "s",
            (
                f'boardlab_boot_stage_duration_seconds{{{NUMBER},stat="avg"}}',
                "{{board}} {{medium}} {{release}} {{init}} {{stage}}",
            ),
        ),
        bars(
            "Flagged samples",
            "Samples of the latest run that carry a flag; docs/results.md explains each.",
            "short",
            (f"sum by (board, metric, flag) (boardlab_flagged_samples{{{NUMBER}}})", "{{board}} {{metric}} {{flag}}"),
        ),
        rows(
            "Change from the release before",
            "Relative change of each average; 1 in the second query: a regression.",
            "percentunit",
            (f"boardlab_release_change_ratio{{{NUMBER}}}", ""),
            (f"boardlab_release_regression{{{NUMBER}}}", ""),
        ),
        rows(
            "Change from the last accepted runs",
            "Relative change of each average of the latest run, whatever its release is called; 1 in the second query: a regression.",
            "percentunit",
            (f"boardlab_baseline_change_ratio{{{NUMBER}}}", ""),
            (f"boardlab_baseline_regression{{{NUMBER}}}", ""),
        ),
    )
    return filled(made, panels)
