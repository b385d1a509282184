"""Overview of the farm: failures, regressions, missing and late results."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.changes import undecided
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
    to,
)
from boardlab_dashboards.thresholds import (
    ANY_IS_BAD,
    GREEN,
    NEVER,
    NEVER_S,
    NONE_IS_GOOD,
    ORANGE,
    PLAIN_TEXT,
    RED,
    STATES,
    texts,
    thresholds,
)

FAILED: Final = 'outcome!="ok"'
_PROBLEM: Final = f'{BOARD},state=~"needs a person|failed|worse|away"'
_SCHEDULED: Final = f'{HOST},board=~"$board"'
_NONE: Final = texts({"0": ("none", GREEN)}, absent=("not known", ORANGE))
_WHEN: Final = texts({"page": ("now", RED), "ticket": ("next day", ORANGE), "decide": ("decide", ORANGE)})
_BOARD: Final = ("Board ${__value.text}", to("board", board="${__value.text}"))


def _none_if_up(collector: str) -> str:
    """Return the part of a query that makes nothing 0.

    Nothing counts as none only while the exporter and this source of it answer.
    """
    is_down = f'min(boardlab_collector_up{{{HOST},collector="{collector}"}}) == 0'
    return f"or (0 * max(boardlab_collector_up{{{HOST}}}) unless {is_down})"


def since(period: str, selected: str, by: str = "") -> str:
    """Number of attempts with these outcomes in a period.

    `increase()` of every class of every board would be too much for a query. Without a value of then, or a
    scrape within that hour, it is the number of all.
    """
    series = f"boardlab_outcomes_total{{{BOARD}{',' if selected else ''}{selected}}}"
    before = f"sum {by}(last_over_time({series}[1h] offset {period}))"
    return f"(sum {by}({series}) - ({before} or 0 * sum {by}({series})))"


def success_age(selected: str, by: str) -> str:
    """Seconds since the last success; NEVER_S without one."""
    success = f"max by ({by}) (boardlab_last_success_timestamp_seconds{{{selected}}})"
    ended = f"max by ({by}) (boardlab_last_completion_timestamp_seconds{{{selected}}})"
    known = f"max by (board, board_type) (boardlab_board_state{{{selected}}})"
    of_board = f"max by (board, board_type) (boardlab_last_completion_timestamp_seconds{{{selected}}})"
    found = f"(time() - {success}) or (0 * ({ended} unless {success}) + {NEVER_S:.0f})"
    return f"({found} or (0 * ({known} unless {of_board}) + {NEVER_S:.0f}))"


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard(
        "overview", "boardlab: farm overview", "Failures, regressions, missing and late results.", FOR_BOARDS
    )
    alerts = 'ALERTS{alertname=~"Boardlab.+",alertstate="firing",job=~"$job|",instance=~"$instance|",board=~"$board|"}'
    what = (
        '"what", " ", "device", "port", "outcome", "schedule", "collector", "metric", "pdu", "outlet", "rail", "what"'
    )
    overdue = (
        f"time() - boardlab_schedule_last_success_timestamp_seconds{{{_SCHEDULED}}}"
        f" > 1.25 * boardlab_schedule_interval_seconds{{{_SCHEDULED}}}"
    )
    worse = f"(max by (board) (boardlab_board_worse_numbers{{{BOARD}}}) > 0)"
    told = 'ALERTS{alertname=~"BoardlabVerdict|BoardlabRegressionConfirmed",alertstate="firing"}'
    undecided_worse = f"{worse} unless on (board) {told}"
    for label, value in (("alertname", "BoardlabVerdict"), ("severity", "decide"), ("what", "worse numbers")):
        undecided_worse = f'label_replace({undecided_worse}, "{label}", "{value}", "board", ".*")'
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
            "Numbers of boards' latest runs that are worse than in the last accepted runs or the release before, and wait for a decision.",
            "none",
            (f"sum(boardlab_board_worse_numbers{{{BOARD}}})", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            span=6,
        ),
        number(
            "USB devices missing",
            "Devices of farm.yaml that are not plugged in.",
            "none",
            (f"sum(1 - boardlab_usb_device_present{{{HOST}}}) {_none_if_up('usb')}", ""),
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
            (f"count({overdue}) {_none_if_up('schedules')}", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            span=6,
        ),
        number(
            "Boards with a problem",
            "Boards that need a person, failed, are worse or away, as on the wall and in lab status.",
            "none",
            (f"count(boardlab_board_state{{{_PROBLEM}}}) or 0 * count(boardlab_board_state{{{BOARD}}})", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            span=6,
        ),
        rows(
            "Boards with a problem, by cause",
            "The state of each, the same as on the wall and in lab status, and for how long.",
            (
                Column("board", "Board", 230, link=_BOARD),
                Column("state", "State", 140, mappings=STATES),
                Column("cause", "Cause"),
                Column("Value", "For", 110, "s", decimals=0),
            ),
            f"max by (board, state, cause) (boardlab_board_state_info{{{_PROBLEM}}})"
            f" * on (board) group_left () (time() - max by (board) (boardlab_board_state_since_timestamp_seconds{{{BOARD}}}))"
            f" or max by (board, state, cause) (boardlab_board_state_info{{{_PROBLEM}}}) * 0",
            by=[("State", True), ("For", True)],
            nothing="no board has a problem",
            height=10,
        ),
        rows(
            "Needs action",
            "Alerts that fire now, and boards with worse numbers that nobody decided on. The name leads to its runbook, the board to its dashboard.",
            (
                Column("alertname", "Alert", 280, link=RUNBOOK),
                Column("severity", "For", 110, mappings=_WHEN),
                Column("board", "Board", 320, link=_BOARD),
                Column("what", "What"),
            ),
            f"max by (alertname, severity, board, what) (label_join({alerts}, {what})) or {undecided_worse}",
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
        rows(
            "Worse numbers",
            'Of each board, those that "Regressions" counts: worse than in the last accepted runs or the release before.',
            (
                Column("board", "Board", 205, link=_BOARD),
                Column("cause", "First of them"),
                Column("Value", "Numbers", 90, "none", thresholds(RED)),
            ),
            f'{worse} * on (board) group_left (cause) max by (board, cause) (boardlab_board_state_info{{{BOARD},state="worse"}})'
            f" or on (board) {worse}",
            by=[("Numbers", True)],
            nothing="none",
            span=14,
            height=7,
        ),
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
            to=("Boot time", to("boot", board="${__field.labels.board}", medium="${medium}")),
        ),
        rows(
            "Since the last success",
            "Of each board and kind of run: the 50 longest ago, those without any first. Orange: no such run of any release in eight days; red: in fifteen.",
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
                    NEVER,
                    decimals=1,
                ),
            ),
            f"topk(50, {success_age(BOARD, 'board, board_type, kind')})",
            by=[("Ago", True)],
            nothing="no run has completed yet",
        ),
    )
    return filled(made, panels)
