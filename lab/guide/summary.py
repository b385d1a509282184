"""What a written guide says first: what it holds of each board."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from lab.guide.entries import GuideEntry, GuideRelease
from lab.metrics import by_name

_HEADLINE = "boot.time"  # of each medium, with the default root file system


@frozen
class BoardSummary:
    """A board of a written guide.

    Attributes:
        numbers: how many it has; `measured` of them here, the others are published ones.
        care: how many are to be taken with care.
        boots: medium -> boot time as printed, with its unit.
    """

    board: str
    numbers: int
    measured: int
    care: int
    boots: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """In one sentence."""
        sources = [
            f"{count} {word}"
            for count, word in ((self.measured, "measured here"), (self.numbers - self.measured, "published"))
            if count
        ]
        care = f"; {self.care} to be taken with care" if self.care else ""
        boots = "".join(f"; boots from {medium} in {time}" for medium, time in self.boots)
        return f"{self.numbers} number{'s' * (self.numbers != 1)} ({', '.join(sources)}){care}{boots}"


def boards(release: GuideRelease) -> list[BoardSummary]:
    """Each board of a release, in its order."""
    return [_board(name, [e for e in release.entries if e.board == name]) for name in release.boards]


def _board(name: str, entries: Sequence[GuideEntry]) -> BoardSummary:
    boots = [
        (entry.params["medium"], f"{entry.text} {by_name(_HEADLINE).unit}")
        for entry in entries
        if entry.metric == _HEADLINE and entry.params.keys() == {"medium"}
    ]
    return BoardSummary(
        name,
        len(entries),
        sum(entry.evidence.samples is not None for entry in entries),
        sum(bool(entry.evidence.note) for entry in entries),
        tuple(sorted(boots)),
    )
