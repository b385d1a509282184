"""A comparison of two guides as an HTML page and as Markdown.

The page needs no network; the Markdown is a comment for CI.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

from attrs import evolve, frozen

from lab.guide.catalogue import CellReading, params_text
from lab.guide.compare.causes import Cause, Kind, find_causes, heading, quiet_changes, verdict_line
from lab.guide.compare.comparison import Change, Comparison
from lab.judge.compare import Verdict
from lab.results.formatting import decimals, format_fixed
from lab.terminal import MOST_BYTES, cut, environment

_BAD: Final = {Kind.WRONG, Kind.WORSE}
_IN_A_COMMENT: Final = (Kind.WRONG, Kind.WORSE, Kind.SUSPECT, Kind.CONDITIONS, Kind.BETTER)
_SIZES: Final = ((40, 60), (40, 20), (20, 10), (10, 0), (1, 0))  # causes and rows of a comment; the first that fits
_MOST_OF_A_CAUSE: Final = 5  # rows
_MOST_TEXT: Final = 400  # characters of a cause
_MOST_NAME: Final = 120  # characters of whatever else a guide names
_LEAST, _MOST = 0.5, 2.0  # ratios between which a percentage says more than a factor


@frozen
class ChangeRowView:
    """One number in both guides, as both forms print it.

    Attributes:
        name: metric and parameters.
        old: with ± and unit.
        new: with ± and unit.
        change: in per cent with its interval at 95 %, or as a factor; empty: no ratio.
        where: its lines in the two files.
        bad: a regression, or a broken number.
    """

    name: str
    board: str
    old: str
    new: str
    change: str
    verdict: str
    reason: str
    where: str
    bad: bool

    @property
    def short(self) -> ChangeRowView:
        """The same with texts as long as a comment shows them."""
        return evolve(
            self,
            name=cut(self.name, _MOST_NAME),
            board=cut(self.board, _MOST_NAME),
            old=cut(self.old, _MOST_NAME),
            new=cut(self.new, _MOST_NAME),
        )


@frozen
class CauseView:
    """A cause and its numbers."""

    anchor: str
    cause: Cause
    rows: tuple[ChangeRowView, ...]

    @property
    def text(self) -> str:
        """The cause in a line, as long as a comment shows it."""
        return cut(self.cause.text, _MOST_TEXT)


@frozen
class GroupView:
    """The causes of a kind."""

    anchor: str
    title: str
    bad: bool
    causes: tuple[CauseView, ...]


def html(comparison: Comparison) -> str:
    """The page: verdict, causes, and each number with its reason and evidence."""
    groups = _groups(comparison)
    return (
        environment("lab.guide.write", "lab.figures")
        .get_template("compare.html.j2")
        .render(
            found=comparison,
            line=verdict_line(comparison),
            bad=any(group.bad for group in groups),
            groups=groups,
            quiet=[_row_view(change) for change in quiet_changes(comparison)],
            missing=[_describe_reading(reading) for reading in comparison.only_old],
            new=[_describe_reading(reading) for reading in comparison.only_new],
            program=f"boardlab {version('boardlab')}",
        )
    )


def markdown(comparison: Comparison) -> str:
    """Write the comment: verdict, causes, and the first numbers of each.

    It is short enough for the limit of a forge's comments.
    """
    groups = [group for group in _groups(comparison) if group.causes[0].cause.kind in _IN_A_COMMENT]
    texts = (_comment(comparison, groups, *most) for most in _SIZES)
    return next((text for text in texts if len(text.encode()) <= MOST_BYTES), verdict_line(comparison))


def _comment(comparison: Comparison, groups: Sequence[GroupView], most_causes: int, most_rows: int) -> str:
    """The comment with so many causes and rows at most.

    It says how many are left out.
    """
    remaining = most_causes
    listed: list[GroupView] = []
    for group in groups:
        if remaining:
            listed.append(evolve(group, causes=group.causes[:remaining]))
        remaining = max(0, remaining - len(group.causes))
    rows_by_cause = [list(view.rows) for group in listed for view in group.causes]
    # All causes get the same number of rows, as far as they have so many; the last ones get none where there is no room
    # for one of each.
    sizes = [len(rows) for rows in rows_by_cause]
    same = next((n for n in range(_MOST_OF_A_CAUSE, 1, -1) if sum(min(size, n) for size in sizes) <= most_rows), 1)
    shares = [min(size, same) if place < most_rows else 0 for place, size in enumerate(sizes)]
    rows_listed = [row for rows, most in zip(rows_by_cause, shares, strict=True) for row in rows[:most]]
    return (
        environment("lab.guide.write", "lab.figures", escapes=False)
        .get_template("compare.md.j2")
        .render(
            line=verdict_line(comparison),
            names=[cut(name, _MOST_NAME) for name in comparison.names],
            paths=[cut(path, _MOST_NAME) for path in comparison.paths],
            looked_at=cut(comparison.looked_at, _MOST_NAME),
            groups=listed,
            rows=[row.short for row in rows_listed],
            more_causes=sum(len(group.causes) for group in groups) - len(rows_by_cause),
            more=sum(map(len, rows_by_cause)) - len(rows_listed),
        )
    )


def _groups(comparison: Comparison) -> list[GroupView]:
    """The causes by kind, in the order of the kinds."""
    groups = []
    by_kind = itertools.groupby(find_causes(comparison), key=lambda cause: cause.kind)
    for place, (kind, members) in enumerate(by_kind):
        causes = tuple(
            CauseView(f"cause-{place}-{number}", cause, tuple(map(_row_view, cause.changes)))
            for number, cause in enumerate(members)
        )
        title = heading(kind, comparison.names)
        groups.append(GroupView(f"kind-{place}", title[0].upper() + title[1:], kind in _BAD, causes))
    return groups


def _row_view(change: Change) -> ChangeRowView:
    old, new = (
        f"{format_fixed(value, places)} ± {format_fixed(uncertainty, places)} {change.unit}".strip()
        for value, uncertainty in zip((change.old, change.new), change.uncertainties, strict=True)
        for places in [min(decimals(uncertainty), 3)]
    )
    return ChangeRowView(
        name=f"{change.metric} {params_text(change.params)}".strip(),
        board=change.board or "",
        old=old,
        new=new,
        change=_describe_ratio(change),
        verdict=str(change.verdict),
        reason=change.reason,
        where=f"lines {change.lines[0]}, {change.lines[1]}",
        bad=change.verdict in {Verdict.REGRESSION, Verdict.BROKEN_RUN},
    )


def _describe_ratio(change: Change) -> str:
    """The change as a percentage with its interval.

    Beyond a factor of two it is that factor; empty: there is no ratio.
    """
    if change.ratio is None:
        return ""
    if not _LEAST <= change.ratio <= _MOST:
        return f"× {change.ratio:.3g}"
    between = f" ({_percent(change.interval[0])} to {_percent(change.interval[1])})" if change.interval else ""
    return f"{_percent(change.ratio - 1)} %{between}"


def _percent(share: float) -> str:
    text = format_fixed(100 * share, 1 if abs(share) < 0.1 else 0)
    return text if text.startswith("-") or not float(text) else f"+{text}"


def _describe_reading(reading: CellReading) -> str:
    params = params_text(reading.params or reading.cell.params)
    parts = (reading.board or "", reading.metric or reading.cell.row, params, reading.cell.value.text)
    return f"{' '.join(filter(None, parts))}, line {reading.cell.line}"
