"""Boot time by medium and release: uncertainty, stages and cycles."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.panels import Column, bars, buckets, lines, rows, top
from boardlab_dashboards.parts import FOR_BOARDS, NUMBER, dashboard, filled, to
from lab import boards


def stage_names() -> list[str]:
    """The stages of all board types, in the order of a boot."""
    before: dict[str, set[str]] = {}
    for name in boards.shipped():
        its = list(dict.fromkeys(moment.stage for moment in boards.load(name).moments if moment.stage))
        for earlier, later in zip(["", *its], its, strict=False):
            before.setdefault(later, set()).update({earlier} - {""})
    return list(TopologicalSorter(before).static_order())


def stages_in_order(*by: str) -> str:
    """Query of the stages' lengths by these labels, in the order of `or`."""

    def of(matcher: str) -> str:
        series = f'boardlab_boot_stage_duration_seconds{{{NUMBER},stat="avg",stage{matcher}}}'
        return f"avg by ({', '.join((*by, 'medium', 'release', 'init', 'stage'))}) ({series})"

    known = stage_names()
    others = "|".join(re.sub(r"[().]", r"\\\\\g<0>", name) for name in known)
    return " or ".join([*(of(f'="{name}"') for name in known), of(f'!~"{others}"')])


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard("boot", "boardlab: boot time", "From Starting kernel to the Linux prompt.", FOR_BOARDS)
    boot, cycles = "boardlab_boot_duration_seconds", "boardlab_boot_cycle_duration_seconds"
    by = "max by (board, medium, release, init)"
    series = "{{board}} {{release}} {{init}}"
    to_board = ("Board", to("board", board="${__field.labels.board}"))

    def statistic(name: str) -> str:
        return f'{by} ({boot}{{{NUMBER},stat="{name}"}})'

    names = ("Median", "Average", "95th percentile", "Maximum")
    values = [
        Column(f"Value #{letter}", name, 110, "s", decimals=3) for letter, name in zip("ABCD", names, strict=True)
    ]
    panels = (
        rows(
            "Boot time by board",
            "Of the latest completed run of each release, the slowest first. ±: of the average at 95 %.",
            (
                Column("board", "Board", 0, link=("Board ${__value.text}", to("board", board="${__value.text}"))),
                Column("medium", "Medium", 90),
                Column("release", "Release", 90),
                Column("init", "Init", 90),
                *values[:2],
                Column("Value #E", "±", 100, "s"),
                *values[2:],
                Column("Value #F", "Samples", 90, "none"),
            ),
            *(statistic(name) for name in ("median", "avg", "p95", "max")),
            f"{by} (boardlab_boot_duration_uncertainty_seconds{{{NUMBER}}})",
            f"{by} (boardlab_boot_duration_samples{{{NUMBER}}})",
            by=[("Median", True)],
            nothing="no boot yet",
            height=11,
        ),
        lines(
            "Median from $medium",
            "Of the latest completed run; the five slowest boards.",
            "s",
            (top(statistic("median")), series),
            each="medium",
            to=to_board,
        ),
        lines(
            "95th percentile from $medium",
            "Of the latest completed run; the five slowest boards.",
            "s",
            (top(statistic("p95")), series),
            each="medium",
            to=to_board,
        ),
        bars(
            "Release by release from $medium",
            "Median of the latest completed run of each release, averaged over the boards of a type.",
            "s",
            (
                f'avg by (board_type, medium, release, init) ({boot}{{{NUMBER},stat="median"}})',
                "{{board_type}} {{release}} {{init}}",
            ),
            each="medium",
            nothing="no boot yet",
            height=6,
        ),
        bars(
            "Stages from $medium",
            "Average lengths, from power on to the prompt, over the boards of a type, in the order of a boot.",
            "s",
            (
                stages_in_order("board_type"),
                "{{board_type}} {{release}} {{init}} {{stage}}",
            ),
            each="medium",
            nothing="no boot yet",
            height=14,
        ),
        lines(
            "Power on to prompt from $medium",
            "From the power switch's acknowledgement; the five slowest boards.",
            "s",
            (top(f'{by} (boardlab_boot_power_on_to_prompt_seconds{{{NUMBER},stat="avg"}})'), series),
            each="medium",
            to=to_board,
        ),
        lines(
            "95 % of all cycles of one day are faster",
            "From the histogram of all boards, also of runs that go on.",
            "s",
            (
                f"histogram_quantile(0.95, sum by (medium, release, le) (increase({cycles}_bucket{{{NUMBER}}}[1d])))",
                "{{medium}} {{release}}",
            ),
        ).span(24),
        buckets(
            "All cycles",
            "Number of boots by duration.",
            "s",
            (f"sum by (le) (increase({cycles}_bucket{{{NUMBER}}}[$__rate_interval]))", "{{le}}"),
        ),
    )
    return filled(made, panels)
