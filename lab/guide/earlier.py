"""The numbers of the releases before those that are compared; `lab.guide.stored_earlier` has the store's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from lab.guide import annotated
from lab.guide.catalogue import CellReading
from lab.guide.numbers import number_of
from lab.guide.sheet import Sheet
from lab.judge.number import Number

Key = tuple[str | None, str, tuple[tuple[str, str], ...]]


@frozen
class Earlier:
    """Numbers by board, metric and parameters, of each the oldest first.

    Attributes:
        names: of the releases, the oldest first.
    """

    numbers: Mapping[Key, Sequence[Number]] = field(factory=dict)
    names: tuple[str, ...] = ()

    def of(self, key: Key) -> Sequence[Number]:
        """Of one result; empty where no release has it."""
        return self.numbers.get(key, ())


def key_of(reading: CellReading, board: str | None) -> Key:
    """What must be the same in results of several releases."""
    return (board, *reading.key)


def of_sheets(sheets: Sequence[Sheet]) -> Earlier:
    """The numbers of some guides, given the oldest first."""
    found: dict[Key, list[Number]] = {}
    names: dict[str, None] = {}
    for sheet in sheets:
        side = annotated.annotate(sheet)
        names[side.name] = None
        for reading in sheet.of(*sheet.by_metric):
            found.setdefault(key_of(reading, reading.board), []).append(number_of(reading, side, reading.board))
    return Earlier(found, tuple(names))
