"""What is said of a release, as JSON, as CSV, and as Markdown for a comment in CI."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from lab.judge.text import differing
from lab.report.against import NOT_MEASURED, UNCHANGED, UNCOMPARED, line
from lab.results.audit import cell
from lab.results.formatting import label
from lab.results.snapshot import RunHead
from lab.shown.templates import MOST_BYTES, cut, environment
from lab.web.releases import ReleaseRun, counted, tried

_SIZES: Final = (
    (100, 40),
    (30, 10),
    (10, 0),
    (0, 0),
)  # rows, and numbers not measured, of a comment: the first that fits
_MOVED: Final = ("worse", "better")
_BOARDS: Final = 8  # of a cause that are named
_RUNS: Final = 5  # with failed attempts that are named
_TITLES: Final = 3  # numbers of a cause that are named
_MOST_TEXT: Final = 400  # characters of a cause
_MOST_NAME: Final = 120  # characters of whatever a comment names
_NUMBER: Final = ("metric", "version", "params", "unit", "was", "was_uncertainty", "value", "uncertainty", "n")
_COLUMNS: Final = (
    *("board_type", "board", "kind", "run", "release", "against"),
    *(*_NUMBER, "effect", "low", "high", "verdict", "reason"),
)


@frozen
class Cause:
    """What differs in some runs whose numbers moved: from what they were compared with.

    Attributes:
        differs: cause -> (before, now); empty: nothing that is known.
    """

    differs: Mapping[str, tuple[str, str]]
    runs: Sequence[ReleaseRun]

    @property
    def counts(self) -> dict[str, int]:
        """The numbers that are not as they were."""
        every = counted(self.runs)
        return {word: every[word] for word in (*_MOVED, "not comparable") if every[word]}

    @property
    def text(self) -> str:
        """It in a line."""
        return differing(self.differs)

    @property
    def line(self) -> str:
        """What became of the numbers, and where."""
        boards = list(dict.fromkeys(run.head.board for run in self.runs))
        more = f" and {len(boards) - _BOARDS} more boards" if len(boards) > _BOARDS else ""
        return f"{line(self.counts)} on {', '.join(boards[:_BOARDS])}{more}"

    @property
    def titles(self) -> list[str]:
        """The first numbers of it, those that need a person first."""
        rows = sorted((row for run in self.runs for row in run.rows), key=lambda row: not row.bad)
        return list(dict.fromkeys(f"{row.title}: {row.verdict}" for row in rows))[:_TITLES]


@frozen
class Compared:
    """A release against another one, or (None) against the one before, of each board.

    Attributes:
        left: how many runs are not judged yet.
    """

    against: str | None
    runs: Sequence[ReleaseRun]
    left: int = 0

    @property
    def line(self) -> str:
        """The verdict, e.g. `3 of 40 attempts failed (kernel_panic 3); 2 worse, 96 unchanged, 12 not measured`."""
        return _line(self.runs)

    @property
    def bad(self) -> bool:
        """Whether something needs a person: a number, or a failed attempt."""
        return any(run.needs_a_person for run in self.runs)

    @property
    def state(self) -> str:
        """`bad` where something needs a person, `good` where all is as it was, `plain` where that is not known, else empty."""
        words = set(counted(self.runs))
        if self.bad:
            return "bad"
        if self.left or words <= {UNCOMPARED}:
            return "plain"
        is_whole = all(run.is_over and not run.tried.failed for run in self.runs)
        return "good" if words <= {UNCHANGED} and is_whole else ""

    @property
    def name(self) -> str:
        """What it is compared with."""
        if self.against:
            return f"release {self.against}"
        found = {run.said["against"] for run in self.runs if run.said.get("against")}
        return found.pop() if len(found) == 1 and not self.left else "the release before of each board"

    @property
    def failures(self) -> list[tuple[RunHead, str]]:
        """The boards and kinds with failed attempts, most of the board's fault first: head of a run, and what failed."""
        found = sorted((run for run in self.runs if run.tried.failed), key=lambda run: -run.tried.undecided)
        return [(run.head, f"{run.tried.line} in {_named(run.tried.runs)}") for run in found]

    @property
    def causes(self) -> list[Cause]:
        """What differs where numbers moved, most numbers that got worse first."""
        groups: dict[tuple[object, ...], list[ReleaseRun]] = {}
        for run in self.runs:
            if run.rows:
                groups.setdefault(tuple(sorted(run.differs.items())), []).append(run)
        found = [Cause(runs[0].differs, runs) for runs in groups.values()]
        return sorted(found, key=lambda cause: tuple(-cause.counts.get(word, 0) for word in _MOVED))

    @property
    def by_type(self) -> list[tuple[str, str]]:
        """Board type and the verdict on its boards; empty where there is only one type."""
        types = dict.fromkeys(run.head.board_type for run in self.runs)
        if len(types) < 2:
            return []
        return [(name, _line([run for run in self.runs if run.head.board_type == name])) for name in types]


def _line(runs: Sequence[ReleaseRun]) -> str:
    """What became of the attempts and the numbers of some runs."""
    unfinished = sum(not run.is_over for run in runs)
    parts = (tried(runs).line, f"{unfinished} without a completed run" * bool(unfinished), line(counted(runs)))
    return "; ".join(filter(None, parts))


def _named(runs: Sequence[int]) -> str:
    """`run 12`, or the last of several."""
    shown = ", ".join(map(str, runs[-_RUNS:]))
    more = f" and {len(runs) - _RUNS} more" if len(runs) > _RUNS else ""
    return f"run{'s' * (len(runs) > 1)} {shown}{more}"


def document(release: str, compared: Iterable[Compared]) -> dict[str, Any]:
    """For programs; numbers that are as they were are only counted."""
    return {
        "release": release,
        "comparisons": [
            {
                "against": each.against,
                "verdict": each.line,
                "counts": dict(counted(each.runs)),
                "attempts": _attempts(each.runs),
                "needs_a_person": each.bad,
                "causes": [
                    {
                        "differs": {what: list(both) for what, both in cause.differs.items()},
                        "counts": cause.counts,
                        "runs": [run.head.id for run in cause.runs],
                    }
                    for cause in each.causes
                ],
                "runs": [_run(run) for run in each.runs],
            }
            for each in compared
        ],
    }


def as_csv(compared: Iterable[Compared]) -> str:
    """A line for each number that is not as it was or was not measured, and for the failed attempts of a board (RFC 4180)."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, restval="", extrasaction="ignore")
    writer.writeheader()
    for each in compared:
        for run in each.runs:
            for row in _rows(run):
                writer.writerow({name: cell(value) for name, value in row.items()})
    return text.getvalue()


def markdown(release: str, compared: Sequence[Compared], address: str) -> str:
    """A comment that a forge takes, whatever the size of the release.

    Args:
        address: of the page, for a link.
    """
    template = environment("lab.web", escapes=False).get_template("release.md.j2")
    for rows, missing in _SIZES:
        parts = [
            {
                "line": each.line,
                "name": cut(each.name, _MOST_NAME),
                "by_type": [(cut(name, _MOST_NAME), said) for name, said in each.by_type[:rows]],
                "causes": [
                    [cut(text, _MOST_TEXT) for text in (cause.text, cause.line, "; ".join(cause.titles))]
                    for cause in each.causes[: rows // 5]
                ],
                "failures": [
                    tuple(cut(text, _MOST_TEXT) for text in (head.board, head.kind, text))
                    for head, text in each.failures[: rows // 2]
                ],
                "more_failures": max(0, len(each.failures) - rows // 2),
                "more_causes": max(0, len(each.causes) - rows // 5),
                "rows": list(itertools.islice(_moved(each), rows)),
                "more": max(0, sum(len(run.rows) for run in each.runs) - rows),
                "missing": list(itertools.islice(_gone(each), missing)),
                "more_missing": max(0, sum(len(run.missing) for run in each.runs) - missing),
            }
            for each in compared
        ]
        text = template.render(release=cut(release, _MOST_NAME), parts=parts, address=address)
        if len(text.encode()) <= MOST_BYTES:
            break
    return text


def _run(run: ReleaseRun) -> dict[str, Any]:
    head = run.head
    return {
        **run.said,
        "board_type": head.board_type,
        "board": head.board,
        "kind": head.kind,
        "release": head.release,
        "counts": dict(run.counts),
        "problem": run.problem,
        "status": head.status,
        "attempts": _attempts([run]),
    }


def _attempts(runs: Sequence[ReleaseRun]) -> dict[str, Any]:
    every = tried(runs)
    return {"good": every.good, "failed": dict(every.failed), "runs": list(every.runs)}


def _rows(run: ReleaseRun) -> Iterator[dict[str, Any]]:
    head = run.head
    place = {"board_type": head.board_type, "board": head.board, "kind": head.kind, "release": head.release}
    place["against"] = run.said["against"]
    if run.tried.failed:
        yield {**place, "run": run.tried.runs[-1], "verdict": "failed attempts", "reason": run.tried.line}
    for number in run.said["numbers"]:
        yield {**place, "run": head.id, **number, "params": label(number["params"])}
    for number in run.said["not_measured"]:
        yield {**place, **number, "params": label(number["params"]), "verdict": NOT_MEASURED}


def _moved(compared: Compared) -> Iterator[tuple[str, ...]]:
    """The cells of a comment's table: what needs a person first."""
    every = [(row, run.head) for run in compared.runs for row in run.rows]
    for row, head in sorted(every, key=lambda each: not each[0].bad):
        cells = (row.title, head.board, row.before, row.now, row.change, row.verdict, f"run {head.id}: {row.reason}")
        yield tuple(cut(each, _MOST_NAME) for each in cells)


def _gone(compared: Compared) -> Iterator[tuple[str, str]]:
    for run in compared.runs:
        yield from ((cut(run.head.board, _MOST_NAME), cut(title, _MOST_NAME)) for title in run.missing)
