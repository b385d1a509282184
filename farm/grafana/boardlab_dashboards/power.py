"""Low power: rails, totals, resume latency."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.panels import Column, bars, buckets, lines, rows, top
from boardlab_dashboards.parts import FOR_BOARDS, HOST, NUMBER, dashboard, filled, to
from boardlab_dashboards.thresholds import GREEN, RED, thresholds


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard(
        "power", "boardlab: low power", "Power of the rails in each sleep mode, and resume latency.", FOR_BOARDS
    )
    cycles = "boardlab_resume_cycle_latency_seconds"
    by = "max by (board, release, mode)"
    board = Column("board", "Board", 0, link=("Board ${__value.text}", to("board", board="${__value.text}")))
    mode, release = Column("mode", "Mode", 105), Column("release", "Release", 80)
    values = (Column("Value #A", "Power", 90, "watt"), Column("Value #B", "±", 80, "watt"))
    resume = "max by (board, release, mode, definition)"
    to_board = ("Board", to("board", board="${__field.labels.board}"))
    sensors = f'{HOST},board=~"$board"'
    panels = (
        rows(
            "All rails together",
            "Sum of the unrounded powers, average of the latest completed run.",
            (board, mode, release, *values),
            f'{by} (boardlab_total_power_watts{{{NUMBER},stat="avg"}})',
            f"{by} (boardlab_total_power_uncertainty_watts{{{NUMBER}}})",
            by=[("Power", True)],
            nothing="no low-power run yet",
            span=11,
            height=10,
        ),
        rows(
            "Rails",
            "Average of the latest completed run.",
            (board, mode, Column("rail", "Rail", 140), release, *values),
            f'max by (board, release, mode, rail) (boardlab_rail_power_watts{{{NUMBER},stat="avg"}})',
            f"max by (board, release, mode, rail) (boardlab_rail_power_uncertainty_watts{{{NUMBER}}})",
            by=[("Power", True)],
            nothing="no low-power run yet",
            span=13,
            height=10,
        ),
        lines(
            "Power over time",
            "All rails together; the five that need most.",
            "watt",
            (top(f'{by} (boardlab_total_power_watts{{{NUMBER},stat="avg"}})'), "{{board}} {{release}} {{mode}}"),
            to=to_board,
        ),
        lines(
            "Resume latency",
            "Median of the latest completed run, by each definition; the five longest.",
            "s",
            (
                top(f'{resume} (boardlab_resume_latency_seconds{{{NUMBER},stat="median"}})'),
                "{{board}} {{release}} {{mode}} {{definition}}",
            ),
            to=to_board,
        ),
        rows(
            "Resume latency by board",
            "Of the latest completed run, the longest first.",
            (
                board,
                mode,
                Column("definition", "Definition", 180),
                release,
                Column("Value #A", "Median", 110, "s"),
                Column("Value #B", "95th percentile", 130, "s"),
            ),
            f'{resume} (boardlab_resume_latency_seconds{{{NUMBER},stat="median"}})',
            f'{resume} (boardlab_resume_latency_seconds{{{NUMBER},stat="p95"}})',
            by=[("Median", True)],
            nothing="no low-power run yet",
        ),
        buckets(
            "All resumes",
            "Number of resumes by latency.",
            "s",
            (f"sum by (le) (increase({cycles}_bucket{{{NUMBER}}}[$__rate_interval]))", "{{le}}"),
        ),
        bars(
            "Slowest sensors",
            "Samples per second of the ten rails that have fewest, while a run samples them; none is nothing to measure with.",
            "hertz",
            (
                f"bottomk(10, max by (board, rail) (boardlab_rail_rate_hertz{{{sensors}}}) and on (board, rail) "
                f"(time() - max by (board, rail) (boardlab_rail_told_timestamp_seconds{{{sensors}}}) < 60))",
                "{{board}} {{rail}}",
            ),
            look=thresholds(RED, (1, GREEN)),
            nothing="no rail is sampled",
        ),
        rows(
            "Gaps between samples, 1 day",
            "Energies of this time are too low or unknown. Only rails that had one.",
            (board, Column("rail", "Rail", 140), Column("Value", "Gaps", 90, "none", thresholds(RED), decimals=0)),
            f"sum by (board, rail) (increase(boardlab_rail_gaps_total{{{sensors}}}[1d])) > 0",
            by=[("Gaps", True)],
            nothing="no gap",
            span=12,
            height=9,
        ),
    )
    return filled(made, panels)
