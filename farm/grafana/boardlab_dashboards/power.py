"""Low power: rails, totals, resume latency."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.parts import FOR_BOARDS, HOST, NUMBER, bars, buckets, dashboard, filled, lines, regressions


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard(
        "power", "boardlab: low power", "Power of the rails in each sleep mode, and resume latency.", FOR_BOARDS
    )
    made.annotation(regressions())
    cycles = "boardlab_resume_cycle_latency_seconds"
    panels = (
        bars(
            "Rails",
            "Average of the latest completed run.",
            "watt",
            (f'boardlab_rail_power_watts{{{NUMBER},stat="avg"}}', "{{board}} {{release}} {{mode}} {{rail}}"),
        ),
        bars(
            "All rails together",
            "Sum of the unrounded powers.",
            "watt",
            (f'boardlab_total_power_watts{{{NUMBER},stat="avg"}}', "{{board}} {{release}} {{mode}}"),
        ),
        lines(
            "Power over time",
            "Of each sleep mode, all rails.",
            "watt",
            (f'boardlab_total_power_watts{{{NUMBER},stat="avg"}}', "{{board}} {{release}} {{mode}}"),
        ),
        lines(
            "Resume latency",
            "Median and 95th percentile of the latest completed run, by each definition.",
            "s",
            (
                f'boardlab_resume_latency_seconds{{{NUMBER},stat=~"median|p95"}}',
                "{{board}} {{release}} {{mode}} {{definition}} {{stat}}",
            ),
        ),
        buckets(
            "All resumes",
            "How many resumes took how long.",
            "s",
            (f"sum by (le) (increase({cycles}_bucket{{{NUMBER}}}[$__rate_interval]))", "{{le}}"),
        ),
        lines(
            "Sampling",
            "Samples per second of each rail.",
            "hertz",
            (f'boardlab_rail_rate_hertz{{{HOST},board=~"$board"}}', "{{board}} {{rail}}"),
        ),
        lines(
            "Gaps",
            "Between samples.",
            "short",
            (f'increase(boardlab_rail_gaps_total{{{HOST},board=~"$board"}}[$__rate_interval])', "{{board}} {{rail}}"),
        ),
    )
    return filled(made, panels)
