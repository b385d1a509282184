"""Boot time: by medium and release, with its uncertainty, its stages and all its cycles."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.parts import FOR_BOARDS, NUMBER, bars, buckets, dashboard, filled, lines, regressions


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard("boot", "boardlab: boot time", "From Starting kernel to the Linux prompt.", FOR_BOARDS)
    made.annotation(regressions())
    boot, uncertainty = "boardlab_boot_duration_seconds", "boardlab_boot_duration_uncertainty_seconds"
    average = f'{boot}{{{NUMBER},stat="avg"}}'
    cycles = "boardlab_boot_cycle_duration_seconds"
    series = "{{board}} {{medium}} {{release}} {{init}}"
    panels = (
        lines(
            "Average and its ±",
            "At 95 %: the spread of the samples and the bound of one reading.",
            "s",
            (average, f"{series}"),
            (f"{average} + ignoring (stat) {uncertainty}{{{NUMBER}}}", f"{series} +"),
            (f"{average} - ignoring (stat) {uncertainty}{{{NUMBER}}}", f"{series} -"),
        ),
        lines(
            "95th percentile and maximum",
            "Of the latest completed run.",
            "s",
            (f'{boot}{{{NUMBER},stat=~"p95|max"}}', f"{series} {{{{stat}}}}"),
        ),
        bars(
            "Median by release",
            "Of the latest completed run of each release.",
            "s",
            (f'{boot}{{{NUMBER},stat="median"}}', series),
        ),
        bars(
            "Stages",
            "Average lengths, from power on to the prompt.",
            "s",
            (
                f'avg by (board_type, medium, release, init, stage) (boardlab_boot_stage_duration_seconds{{{NUMBER},stat="avg"}})',
                "{{board_type}} {{medium}} {{release}} {{init}} {{stage}}",
            ),
        ),
        lines(
            "Power on to prompt",
            "From the power switch's acknowledgement.",
            "s",
            (f'boardlab_boot_power_on_to_prompt_seconds{{{NUMBER},stat="avg"}}', series),
        ),
        lines(
            "95 % of all cycles of one day are faster",
            "From the histogram, also of runs that go on.",
            "s",
            (
                f"histogram_quantile(0.95, sum by (board, medium, release, le) (increase({cycles}_bucket{{{NUMBER}}}[1d])))",
                series,
            ),
        ),
        buckets(
            "All cycles",
            "How many boots took how long.",
            "s",
            (f"sum by (le) (increase({cycles}_bucket{{{NUMBER}}}[$__rate_interval]))", "{{le}}"),
        ),
    )
    return filled(made, panels)
