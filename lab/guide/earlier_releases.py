"""Numbers of earlier releases in the store."""

from __future__ import annotations

from collections.abc import Iterable

from lab.guide.compare import Earlier, Key
from lab.judge import noise
from lab.judge.labels import release_key, releases_before
from lab.judge.number import Number, PublishedNumbers
from lab.results.averages import Average
from lab.results.records import PUBLISHED
from lab.results.snapshot import RunHead, StoreSnapshot, watch


def of_store(url: str | None, boards: Iterable[str], before: str) -> Earlier:
    """Load published numbers of the releases before one, same kernel only.

    Each board has as many releases as a run is judged against (lab/judge/noise.toml). The last import of a release's
    guide counts.

    Args:
        before: a release.
    """
    with watch(url).snapshot() as snapshot:
        return of_snapshot(snapshot, boards, before)


def of_snapshot(snapshot: StoreSnapshot, boards: Iterable[str], before: str) -> Earlier:
    """The same of a store at one instant."""
    wanted = set(boards)
    by_board: dict[str, list[RunHead]] = {}
    for head in snapshot.heads():
        if head.kind == PUBLISHED and head.board in wanted:
            by_board.setdefault(head.board, []).append(head)
    window = noise.load().history.window
    last_ones = [head for heads in by_board.values() for head in releases_before(heads, before)[-window:]]
    heads = {head.id: head for head in sorted(last_ones, key=lambda head: release_key(head.release))}
    published = PublishedNumbers.of_runs(snapshot, heads.values())
    averages: dict[int, list[Average]] = {id_: [] for id_ in heads}
    for average in snapshot.averages(sorted(heads)):
        averages[average.run_id].append(average)
    found: dict[Key, list[Number]] = {}
    for id_, head in heads.items():
        for average in averages[id_]:
            key = (head.board, average.metric.name, tuple(sorted(average.params.items())))
            found.setdefault(key, []).append(published.number(average))
    return Earlier(found, tuple(dict.fromkeys(head.release for head in heads.values())))
