"""One board: its failures, its numbers, its jobs."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models

from boardlab_dashboards.boot import stages_in_order
from boardlab_dashboards.changes import changed, undecided
from boardlab_dashboards.overview import FAILED, since, success_age
from boardlab_dashboards.panels import Column, bars, lines, number, rows
from boardlab_dashboards.parts import (
    BOARD,
    DOCS,
    FAILURE,
    FOR_BOARDS,
    NUMBER,
    cell,
    dashboard,
    filled,
    regressions,
    to,
)
from boardlab_dashboards.thresholds import GREEN, NEVER, NONE_IS_GOOD, ORANGE, RED, texts, thresholds

_NONE: Final = texts({"0": ("none", GREEN)}, absent=("not known", ORANGE))


def build() -> builders.Dashboard:
    """The dashboard."""
    about = "The failures, numbers and jobs of one board."
    made = dashboard("board", "boardlab: board", about, FOR_BOARDS, single=("board",))
    made.annotation(regressions())
    well = f'increase(boardlab_outcomes_total{{{BOARD},outcome="ok"}}[$__rate_interval])'
    badly = f"increase(boardlab_outcomes_total{{{BOARD},{FAILED}}}[$__rate_interval])"
    attempts = lines(
        "Attempts",
        "As they ended, on all media: ok, and each class that there was in this time.",
        "none",
        (f"sum({well})", "ok"),
        (
            f"sum by (outcome) ({badly})"
            f" and sum by (outcome) (increase(boardlab_outcomes_total{{{BOARD},{FAILED}}}[$__range])) > 0",
            "{{outcome}}",
        ),
    )
    attempts.draw_style(common.GraphDrawStyle.BARS).fill_opacity(80).color_scheme(
        _fixed(RED, models.FieldColorModeId.SHADES)
    )
    attempts.override_by_name("ok", [models.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": GREEN})])
    latest = "max by (kind, medium, release, init)"
    panels = (
        number(
            "Failed attempts, 1 day",
            "Attempts of the last day that did not end well, on all media.",
            "none",
            (since("1d", FAILED), ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
        ),
        number(
            "Regressions",
            "Numbers of its latest runs that are worse than in the last accepted runs or the release before, and wait for a decision.",
            "none",
            (f"sum(boardlab_board_worse_numbers{{{BOARD}}})", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
        ),
        number(
            "Job",
            "State of the board's job: it waits, measures, or gives no sign of life.",
            "none",
            (f'sum(boardlab_jobs{{{BOARD},state="queued"}}) > 0', "waiting"),
            (f'sum(boardlab_jobs{{{BOARD},state="running"}}) > 0', "running"),
            (f'sum(boardlab_jobs{{{BOARD},state="stuck"}}) > 0', "STUCK"),
            nothing="idle, if the job source is up",
        ).override_by_name("STUCK", [models.DynamicConfigValue("thresholds", thresholds(RED).build())]),
        number(
            "Sign of life",
            "Since who holds the board last gave one; after a minute the job counts as stuck.",
            "s",
            (f"max(boardlab_job_heartbeat_age_seconds{{{BOARD}}})", ""),
            look=thresholds(GREEN, (30, ORANGE), (60, RED)),
            nothing="free, if the job source is up",
        ),
        number(
            "Since the last success",
            "Of any run.",
            "s",
            (f"min({success_age(BOARD, 'board, board_type')})", ""),
            look=thresholds(GREEN, (8 * 86400, ORANGE), (15 * 86400, RED)),
            mappings=NEVER,
            nothing="no such board",
        ),
        number(
            "Flagged samples",
            "Samples of the latest runs that carry a flag. A flag is a remark, not a failure.",
            "none",
            (f"sum(boardlab_flagged_samples{{{NUMBER}}})", ""),
        ),
        lines(
            "Boot time from $medium",
            "Minimum, median and maximum of the latest completed run.",
            "s",
            (
                f"max by (medium, release, init, stat) (boardlab_boot_duration_seconds{{{NUMBER},"
                'stat=~"min|median|max"})',
                "{{release}} {{init}} {{stat}}",
            ),
            each="medium",
            to=("Boot time", to("boot", medium="${medium}")),
        ),
        attempts,
        rows(
            "Failed attempts of all time",
            "By class, medium and release, and whose fault it was.",
            (
                Column("outcome", "Class", 0, look=thresholds(RED), link=FAILURE),
                Column("medium", "Medium", 90),
                Column("release", "Release", 90),
                Column("fault", "Fault", 120),
                Column("Value", "Attempts", 100, "none"),
            ),
            f"sum by (outcome, medium, release, fault) (boardlab_attempts_total{{{NUMBER},{FAILED}}}) > 0",
            by=[("Attempts", True)],
            span=12,
            height=9,
        ),
        rows(
            "Latest completed runs",
            "Duration and flagged samples of each. The last column leads to their numbers.",
            (
                Column("kind", "Kind"),
                Column("medium", "Medium", 80),
                Column("release", "Release", 80),
                Column("init", "Init", 90),
                Column("Value #A", "Took", 90, "s"),
                Column("Value #B", "Flagged", 80, "none"),
                Column("page", "Numbers", 110, link=("Numbers", to("${__value.text}", release=cell("Release")))),
            ),
            _with_page(f"{latest} (boardlab_run_duration_seconds{{{NUMBER}}})"),
            _with_page(f"sum by (kind, medium, release, init) (boardlab_flagged_samples{{{NUMBER}}})"),
            by=[("Release", True), ("Kind", False)],
            nothing="no run has completed yet",
            span=12,
        ),
        rows(
            "Flagged samples by flag",
            "Of the latest completed runs; a flag leads to its explanation.",
            (
                Column("flag", "Flag", 0, link=("What ${__value.text} means", f"{DOCS}/results/#flags")),
                Column("metric", "Metric", 200),
                Column("medium", "Medium", 90),
                Column("release", "Release", 90),
                Column("Value", "Samples", 90, "none"),
            ),
            f"sum by (flag, metric, medium, release) (boardlab_flagged_samples{{{NUMBER}}})",
            by=[("Samples", True)],
            nothing="no flag",
            span=12,
        ),
        bars(
            "Stages of the boot from $medium",
            "Average of the latest completed run, in the order of a boot.",
            "s",
            (stages_in_order(), "{{release}} {{init}} {{stage}}"),
            each="medium",
            nothing="no boot yet",
            height=14,
        ),
        undecided(BOARD),
        changed("release", "Change from the release before", "Relative change of each average."),
        changed(
            "baseline",
            "Change from the last accepted runs",
            "Relative change of each average of the latest run, whatever its release is called.",
        ),
    )
    return filled(made, panels)


def _with_page(expression: str) -> str:
    """Add the label `page`: the dashboard for a kind of run."""
    for kind, page in ((".*", "benchmarks"), ("boot", "boot"), ("low_power", "power")):
        expression = f'label_replace({expression}, "page", "{page}", "kind", "{kind}")'
    return expression


def _fixed(color: str, mode: models.FieldColorModeId) -> builders.FieldColor:
    return builders.FieldColor().mode(mode).fixed_color(color)
