"""Overview of the farm: failures, regressions, missing and late results."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.changes import MINE, regressed, undecided
from boardlab_dashboards.panels import Column, lines, number, rows, top
from boardlab_dashboards.parts import (
    BOARD,
    FAILURE,
    FOR_BOARDS,
    HOST,
    NUMBER,
    RUNBOOK,
    dashboard,
    filled,
    regressions,
    to,
)
from boardlab_dashboards.thresholds import ANY_IS_BAD, GREEN, NONE_IS_GOOD, ORANGE, PLAIN_TEXT, RED, texts, thresholds

FAILED: Final = 'outcome!="ok"'
_SCHEDULED: Final = f'{HOST},board=~"$board"'
_NONE: Final = texts({"0": ("none", GREEN)})
_BOARD: Final = ("Board ${__value.text}", to("board", board="${__value.text}"))


def since(period: str, selected: str, by: str = "") -> str:
    """Number of attempts with these outcomes in a period.

    `increase()` of every class of every board would be too much for a query. Without a value of then, or a
    scrape within that hour, it is the number of all.
    """
    series = f"boardlab_outcomes_total{{{BOARD}{',' if selected else ''}{selected}}}"
    before = f"sum {by}(last_over_time({series}[1h] offset {period}))"
    return f"(sum {by}({series}) - ({before} or 0 * sum {by}({series})))"


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard(
        "overview", "boardlab: farm overview", "Failures, regressions, missing and late results.", FOR_BOARDS
    )
    made.annotation(regressions())
    alerts = 'ALERTS{alertname=~"Boardlab.+",alertstate="firing",job=~"$job|",instance=~"$instance|",board=~"$board|"}'
    what = (
        '"what", " ", "device", "port", "outcome", "schedule", "collector", "metric", "pdu", "outlet", "rail", "what"'
    )
    overdue = (
        f"time() - boardlab_schedule_last_success_timestamp_seconds{{{_SCHEDULED}}}"
        f" > 1.25 * boardlab_schedule_interval_seconds{{{_SCHEDULED}}}"
    )
    panels = (
        number(
            "Boards",
            "Boards with results.",
            "none",
            (f"count(count by (board) (boardlab_attempts_total{{{BOARD}}}))", ""),
            nothing="no results yet",
            span=6,
        ),
        number(
            "Failed attempts, 1 day",
            "Attempts of the last day that did not end well, on all media. One is red: it is what one looks for.",
            "none",
            (since("1d", FAILED), ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            span=6,
        ),
        number(
            "Regressions",
            "Numbers that are worse in a board's newest release than in the one before.",
            "none",
            (f"sum(boardlab_release_regression{{{MINE}}})", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            span=6,
        ),
        number(
            "USB devices missing",
            "Devices of farm.yaml that are not plugged in.",
            "none",
            (f"sum(1 - boardlab_usb_device_present{{{HOST}}})", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            span=6,
            to=("Lab health", to("health", ("job", "instance"))),
        ),
        number(
            "Sources down",
            "Collectors of the exporter without an answer.",
            "none",
            (f"sum(1 - boardlab_collector_up{{{HOST}}})", ""),
            look=NONE_IS_GOOD,
            mappings=texts({"0": ("none", GREEN)}, absent=("NO EXPORTER", RED)),
            span=6,
            to=("Lab health", to("health", ("job", "instance"))),
        ),
        number(
            "Results",
            "State of the store. If it cannot be read, all results are the last known ones.",
            "none",
            (f"max(boardlab_results_stale{{{HOST}}})", ""),
            look=NONE_IS_GOOD,
            mappings=texts({"0": ("of now", GREEN), "1": ("STALE", RED)}, absent=("NO EXPORTER", RED)),
            span=6,
        ),
        number(
            "Overdue",
            "Schedules without a success for a quarter longer than their interval.",
            "none",
            (f"count({overdue})", ""),
            look=NONE_IS_GOOD,
            span=6,
        ),
        number(
            "To decide",
            "Undecided changes that the judge of histories calls a regression.",
            "none",
            (f'count(boardlab_verdict_change{{{BOARD},outcome="regression"}})', ""),
            look=NONE_IS_GOOD,
            span=6,
        ),
        rows(
            "Needs action",
            "Alerts that fire now. The name leads to its runbook, the board to its dashboard.",
            (
                Column("alertname", "Alert", 280, link=RUNBOOK),
                Column("severity", "For", 110, mappings=texts({"page": ("now", RED), "ticket": ("next day", ORANGE)})),
                Column("board", "Board", 320, link=_BOARD),
                Column("what", "What"),
            ),
            f"max by (alertname, severity, board, what) (label_join({alerts}, {what}))",
            by=[("For", False), ("Alert", False)],
            nothing="no alert fires",
            height=6,
        ),
        rows(
            "Failed attempts, 7 days",
            "By board and class, the 20 most frequent. docs/failures.md names the fault of each class.",
            (
                Column("board", "Board", 215, link=_BOARD),
                Column("outcome", "Class", look=thresholds(RED), link=FAILURE),
                Column("Value", "Attempts", 100, "none", look=ANY_IS_BAD),
            ),
            f"topk(20, {since('7d', FAILED, 'by (board, outcome) ')} > 0)",
            by=[("Attempts", True)],
            span=10,
            height=7,
        ),
        regressed(span=14),
        undecided(BOARD),
        lines(
            "Slowest boots from $medium",
            "Median of the latest completed run, from Starting kernel to the prompt; the five slowest.",
            "s",
            (
                top(
                    f'max by (board, release, init, medium) (boardlab_boot_duration_seconds{{{NUMBER},stat="median"}})'
                ),
                "{{board}} {{release}} {{init}}",
            ),
            each="medium",
            from_zero=False,
            to=("Boot time", to("boot", board="${__field.labels.board}", medium="${medium}")),
        ),
        rows(
            "Since the last success",
            "Of each board and kind of run: the 50 longest ago. Orange: no such run of any release in eight days; red: in fifteen.",
            (
                Column("board", "Board", 0, link=_BOARD),
                Column("board_type", "Type", 160),
                Column("kind", "Kind", 140),
                Column(
                    "Value",
                    "Ago",
                    160,
                    "s",
                    thresholds(PLAIN_TEXT, (8 * 86400, ORANGE), (15 * 86400, RED)),
                    decimals=1,
                ),
            ),
            f"topk(50, time() - max by (board, board_type, kind) (boardlab_last_success_timestamp_seconds{{{BOARD}}}))",
            by=[("Ago", True)],
            nothing="no run has completed yet",
        ),
    )
    return filled(made, panels)
