"""Tables of changes from one release to the next."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import table

from boardlab_dashboards.panels import Column, rows
from boardlab_dashboards.parts import BOARD, NUMBER, to
from boardlab_dashboards.thresholds import ORANGE, PLAIN_TEXT, RED, open_page, texts, thresholds

_OWN: Final = "job, instance, board_type, kind, version"  # of each number; the labels that are left are its parameters
_BOARD: Final = ("Board ${__value.text}", to("board", board="${__value.text}"))
_WHERE: Final = (
    Column("board", "Board", 230, link=_BOARD),
    Column("metric", "Metric", 240),
    Column("medium", "Medium", 80),
    Column("mode", "Mode", 105),
    Column("rail", "Rail", 130),
    Column("release", "Release", 80),
)
MINE: Final = f'{NUMBER},kind!="published"'  # a vendor's published guides are not of this farm


def regressed(span: int = 24) -> table.Panel:
    """Table of regressions only."""
    worse = f"boardlab_release_regression{{{MINE}}} == 1"
    return rows(
        "Regressed metrics",
        "Worse than in the release before, by more than equal runs differ (docs/judge.md); the alert wants the same of two runs.",
        (
            Column("board", "Board", 205, link=_BOARD),
            Column("metric", "Metric"),
            Column("medium", "Medium", 65),
            Column("release", "Release", 70),
            Column("against", "Against", 70),
            Column("Value", "Change", 90, "percentunit", thresholds(RED), decimals=1),
        ),
        f"max by (board, metric, medium, release, against) (boardlab_release_change_ratio{{{MINE}}} and ignoring (against) ({worse}))",
        by=[("Change", True)],
        nothing="no regression",
        span=span,
        height=7,
    )


def not_measured() -> table.Panel:
    """Table of boards that the newest release lacks."""
    return rows(
        "Not measured with the newest release",
        "Boards and kinds of run that the release before has a completed run of, and the newest by number has none.",
        (
            Column("board", "Board", 230, link=_BOARD),
            Column("board_type", "Type"),
            Column("kind", "Kind", 140),
            Column("release", "Release", 110),
            Column("against", "Measured with", 140),
        ),
        f"max by (board, board_type, kind, release, against) (boardlab_release_not_measured{{{BOARD}}})",
        by=[("Board", False)],
        nothing="none is missing",
        height=6,
    )


def changed(against: str, title: str, about: str) -> table.Panel:
    """Table of all changes with their direction.

    Args:
        against: part of the families' names, "release" or "baseline".
    """
    return rows(
        title,
        f"{about} With its sign: regressions first, then from the largest growth to the largest decrease.",
        (
            *_WHERE,
            Column("against", "Against", 80),
            Column("Value #A", "Change", 90, "percentunit", decimals=1),
            Column("Value #B", "Verdict", 85, mappings=texts({"1": ("worse", RED), "0": ("", PLAIN_TEXT)})),
        ),
        f"max without ({_OWN}) (boardlab_{against}_change_ratio{{{MINE}}})",
        f"max without ({_OWN}) (boardlab_{against}_regression{{{MINE}}})",
        by=[("Verdict", True), ("Change", True)],
        nothing="nothing to compare with yet",
        height=10,
    )


def undecided(selected: str) -> table.Panel:
    """Table of undecided verdicts, with links to the run's report."""
    told = f'label_replace(boardlab_verdict_change_info{{{selected}}}, "url", "$1", "report", "(https?://.+)")'
    report = f'label_replace({told}, "report", "", "url", ".+")'  # an address is behind a word; a command is shown
    return rows(
        "Verdicts that wait for a decision",
        "Numbers that moved in a board's history: lab judge list, then accept, reject or mute. The run's page needs "
        "`reports` in farm.yaml.",
        (
            Column("board", "Board", 230, link=_BOARD),
            Column(
                "outcome",
                "Verdict",
                105,
                mappings=texts({"regression": ("regression", RED), "environment": ("environment", ORANGE)}),
            ),
            Column("title", "Change"),
            Column("since_run", "Since run", 90),
            Column("report", "Report", 130),
            Column("url", "Run page", 90, mappings=open_page(), link=("Run page", "${__value.raw:raw}")),
        ),
        f"max by (board, outcome, title, since_run, report, url) ({report})",
        nothing="none",
        height=6,
    )
