"""Labels and builds that do not fit: how many builds a release's label had, and how many labels its newest build."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field, frozen

from exporters.labels import clean
from lab.judge.builds import Build, builds
from lab.results.snapshot import RunHead, StoreSnapshot


@frozen
class LabelledBuilds:
    """A release's label on one board.

    Attributes:
        builds: how many builds had this label. labels: how many labels the label's latest build had, on boards of that type.
    """

    board: str
    board_type: str
    release: str
    builds: int
    labels: int


@define
class BuildReader:
    """Reads the builds of completed runs; of each only once, since it never changes."""

    _known: dict[int, Build] = field(factory=dict, init=False)

    def read(self, snapshot: StoreSnapshot, heads: Iterable[RunHead]) -> tuple[LabelledBuilds, ...]:
        """Of the completed runs given, the oldest first; a label without a known build is left out."""
        runs = list(heads)
        self._known |= builds(snapshot, [head.id for head in runs if head.id not in self._known])
        of_label: dict[tuple[str, str, str], list[Build]] = {}
        labels: dict[tuple[str, Build], set[str]] = {}
        for head in runs:
            build = self._known.get(head.id, Build())
            if build.is_known:
                mine = of_label.setdefault((head.board, head.board_type, head.release), [])
                if build in mine:
                    mine.remove(build)
                mine.append(build)  # the latest stands last
                labels.setdefault((head.board_type, build), set()).add(head.release)
        return tuple(
            LabelledBuilds(
                clean(board), clean(board_type), clean(release), _distinct(found), len(labels[board_type, found[-1]])
            )
            for (board, board_type, release), found in of_label.items()
        )


def _distinct(found: list[Build]) -> int:
    """How many builds there are, where one of which less is known may be one of the others."""
    distinct: list[Build] = []
    for build in found:
        if not any(build.is_same(other) for other in distinct):
            distinct.append(build)
    return len(distinct)
