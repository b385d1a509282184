"""A release: what its runs say against another release, or against the runs before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from attrs import frozen

from lab.errors import ConfigurationError
from lab.judge.baseline import judge_run, same_release
from lab.report.against import Comparison, comparison
from lab.report.names import Names
from lab.results.records import PUBLISHED
from lab.results.store import Store
from lab.results.watch import RunHead, StoreSnapshot


@frozen
class ReleaseRun:
    """The last completed run of one kind on one board; `problem`: why nothing is said of it."""

    head: RunHead
    said: Comparison | None
    problem: str = ""


def names(heads: Iterable[RunHead]) -> list[str]:
    """The releases that were measured here, the one measured last first."""
    return list(dict.fromkeys(head.release for head in reversed([*heads]) if head.kind != PUBLISHED))


def judged(snapshot: StoreSnapshot, store: Store, release: str, against: str | None) -> list[ReleaseRun]:
    """What the judge says of the last completed run of each board and kind.

    Args:
        against: a release; None: the last runs that nobody rejected.

    Raises:
        ConfigurationError: no completed run of that release.
    """
    last: dict[tuple[str, str, str], RunHead] = {}
    for head in snapshot.heads():
        if head.kind != PUBLISHED and head.status == "completed" and same_release(head.release, release):
            last[head.board_type, head.board, head.kind] = head
    if not last:
        known = ", ".join(names(snapshot.heads())) or "none"
        raise ConfigurationError(f"no completed run of release {release!r}; there are: {known}")
    return [_judged(snapshot, store, head, against) for _, head in sorted(last.items())]


def line(found: Iterable[ReleaseRun]) -> str:
    """The verdict on a release, e.g. `2 worse, 96 unchanged`."""
    counts: Counter[str] = Counter()
    for run in found:
        if run.said is not None:
            counts.update(run.said.counts)
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no numbers"


def _judged(snapshot: StoreSnapshot, store: Store, head: RunHead, against: str | None) -> ReleaseRun:
    try:
        judged_run = judge_run(snapshot, head.id, against)
    except ConfigurationError as error:  # this board never had that release
        return ReleaseRun(head, None, str(error))
    return ReleaseRun(head, comparison(judged_run, Names(store.run(head.id))))
