"""The farm at a glance: what runs, what is late, what fails, what got worse."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.parts import (
    BOARD,
    FOR_BOARDS,
    HOST,
    NUMBER,
    bars,
    dashboard,
    filled,
    lines,
    number,
    regressions,
    rows,
)

FAILED: Final = 'outcome!="ok"'


def _since(period: str, selected: str, by: str = "") -> str:
    """How many attempts ended so in a period: `increase()` of every class of every board would be too much for a query.

    Where there was nothing yet, or no scrape within the hour, all of them.
    """
    series = f"boardlab_outcomes_total{{{BOARD}{',' if selected else ''}{selected}}}"
    before = f"sum {by}(last_over_time({series}[1h] offset {period}))"
    return f"(sum {by}({series}) - ({before} or 0 * sum {by}({series})))"


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard(
        "overview", "boardlab: farm overview", "What runs, what is late, what fails, what got worse.", FOR_BOARDS
    )
    made.annotation(regressions())
    panels = (
        number(
            "Boards",
            "Boards with results.",
            "short",
            (f"count(count by (board) (boardlab_attempts_total{{{BOARD}}}))", ""),
        ),
        number(
            "Jobs",
            "Jobs that wait, measure, or gave no sign of life for a minute.",
            "short",
            (f"sum by (state) (boardlab_jobs{{{BOARD}}})", "{{state}}"),
        ),
        number(
            "Sources that are down",
            "Collectors of the exporter without an answer.",
            "short",
            (f"count(boardlab_collector_up{{{HOST}}}) - sum(boardlab_collector_up{{{HOST}}})", ""),
        ),
        number(
            "Stale",
            "1: the store cannot be read, and results are as of before.",
            "short",
            (f"max(boardlab_results_stale{{{HOST}}})", ""),
        ),
        number(
            "Regressions",
            "Numbers that are worse in a board's newest release than in the one before.",
            "short",
            (f'sum(boardlab_release_regression{{{NUMBER},kind!="published"}})', ""),
        ),
        number(
            "Failed attempts of one day",
            "Share of the attempts of one day, on all media.",
            "percentunit",
            (f"{_since('1d', FAILED)} / {_since('1d', '')}", ""),
        ),
        lines(
            "Boot time, median",
            "From Starting kernel to the prompt, latest completed run.",
            "s",
            (f'boardlab_boot_duration_seconds{{{NUMBER},stat="median"}}', "{{board}} {{medium}} {{release}} {{init}}"),
        ),
        bars(
            "Failed attempts by class, seven days",
            "Whose fault each class is stands in docs/failures.md.",
            "short",
            (f"({_since('7d', FAILED, 'by (outcome) ')}) > 0", "{{outcome}}"),
        ),
        rows(
            "Since the last success",
            "Of each board and kind of run.",
            "s",
            (f"time() - max by (board, board_type, kind) (boardlab_last_success_timestamp_seconds{{{BOARD}}})", ""),
        ),
    )
    return filled(made, panels)
