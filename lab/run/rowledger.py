"""Which rows of a section a run has in each cycle, which could not be measured, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Self, TypeAlias

from attrs import define, field

from lab.errors import BoardError, BoardlabError, BoardTransientError, TestError, TestTransientError
from lab.results import Attempt
from lab.results.records import GoodAttempt

MAX_HUNG: Final = 2  # rows after which the board had to be power-cycled; more of them, and it is not about the rows
RowKey: TypeAlias = tuple[tuple[str, str], ...]


def row_key(row: Mapping[str, str]) -> RowKey:
    """A row's parameters, to look it up by."""
    return tuple(sorted(row.items()))


def row_name(row: Mapping[str, str]) -> str:
    """How a row is named to a person: `direction=capture, rate_hz=8000`."""
    return ", ".join(f"{name}={text}" for name, text in row_key(row))


@define
class RowLedger:
    """The rows of one section in one run.

    Attributes:
        good: cycle and row -> how many numbers it gave.
        bad: cycle and row -> what it failed with in this session, after its retries.
    """

    good: dict[tuple[int, RowKey], int] = field(factory=dict)
    bad: dict[tuple[int, RowKey], BoardlabError] = field(factory=dict)
    _hung: set[RowKey] = field(factory=set)

    @classmethod
    def of(cls, attempts: Iterable[GoodAttempt], section: str) -> Self:
        """What the run has already."""
        ledger = cls()
        for attempt in attempts:
            row = dict(attempt.params)
            if row.pop("section", "") == section and row:
                ledger.keep(attempt.cycle, row, attempt.samples)
        return ledger

    def wants(self, cycle: int, row: Mapping[str, str]) -> bool:
        """Whether a row is still to be measured. One that the board did not come back from is tried in one cycle only."""
        place = cycle, row_key(row)
        if place[1] in self._hung and place not in self.good:
            self.bad.setdefault(place, next(error for (_, key), error in self.bad.items() if key == place[1]))
        return place not in self.good and place not in self.bad

    def keep(self, cycle: int, row: Mapping[str, str], numbers: int) -> None:
        """A row is in the store."""
        self.good[cycle, row_key(row)] = numbers

    def failed_before(self, row: Mapping[str, str]) -> bool:
        """Whether it could not be measured in another cycle of this session; then one try of it is enough."""
        return any(key == row_key(row) for _, key in self.bad)

    def give_up(self, cycle: int, row: Mapping[str, str], error: BoardlabError, *, hung: bool) -> bool:
        """A row could not be measured; whether the other rows still can be.

        They cannot where the failure is not about the row: it is the lab's or somebody's who has to mend a file, or a
        stable one, or no row was at work (`row` is empty), or the board did not come back from several rows.

        Args:
            hung: the board has to be power-cycled.
        """
        if not row or not error.transient or not isinstance(error, BoardError | TestError):
            return False
        self.bad[cycle, row_key(row)] = error
        if hung:
            self._hung.add(row_key(row))
        return len(self._hung) < MAX_HUNG

    def rows(self, cycle: int) -> int:
        """How many rows of a cycle have been dealt with."""
        return sum(each == cycle for each, _ in (*self.good, *self.bad))

    def numbers(self, cycle: int) -> int:
        """How many numbers the rows of a cycle gave."""
        return sum(count for (each, _), count in self.good.items() if each == cycle)

    def lost(self, cycle: int) -> bool:
        """Whether rows of a cycle could not be measured."""
        return any(each == cycle for each, _ in self.bad)

    def tell(self, run_id: int) -> None:
        """Say which rows could not be measured.

        Raises:
            BoardTransientError, TestTransientError: there are some; the failure class is that of the first.
        """
        rows: dict[RowKey, tuple[list[int], BoardlabError]] = {}
        for (cycle, key), error in self.bad.items():
            rows.setdefault(key, ([], error))[0].append(cycle)
        if not rows:
            return
        told = [
            f"{row_name(dict(key))} (cycle {', '.join(map(str, cycles))}): [{error.failure}] {error}"
            for key, (cycles, error) in rows.items()
        ]
        first = next(iter(self.bad.values()))
        kind = BoardTransientError if isinstance(first, BoardError) else TestTransientError
        raise kind(
            f"{len(rows)} of {len({key for _, key in (*self.good, *self.bad)})} rows could not be measured, the others are in "
            f"the store: {'; '.join(told)}. What each try printed: lab results show {run_id} --log. pytest "
            f"--lab-resume {run_id} tries these rows again",
            failure=first.failure,
        )


def not_measured(attempts: Iterable[Attempt]) -> Iterator[str]:
    """A line for each row, and each section, that a run tried and does not have in one of its cycles."""
    good: set[tuple[int, RowKey]] = set()
    bad: dict[RowKey, dict[int, Attempt]] = {}
    for attempt in attempts:
        key = row_key(attempt.params)
        if attempt.ok:
            good.add((attempt.cycle, key))
        else:
            bad.setdefault(key, {})[attempt.cycle] = attempt
    for key, cycles in bad.items():
        missing = {cycle: attempt for cycle, attempt in cycles.items() if (cycle, key) not in good}
        if missing:
            row = dict(key)
            which = f"{row.pop('section', '')} {row_name(row)}".strip()
            reason = next(iter(missing.values()))
            where = ", ".join(map(str, missing))
            yield f"not measured: {which} (cycle {where}): [{reason.outcome}, {reason.fault}] {reason.message}"
