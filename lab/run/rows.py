"""The rows of a section in a run: it keeps which are measured, which failed, and which to try again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Self, TypeAlias

from attrs import define, field

from lab.errors import BoardError, BoardlabError, BoardTransientError, TestError, TestTransientError
from lab.results import AttemptRecord

MAX_HUNG: Final = 2  # if so many different rows hang the board, the fault is not that of the rows
RowKey: TypeAlias = tuple[tuple[str, str], ...]


def row_key(row: Mapping[str, str]) -> RowKey:
    """Return a row's parameters as a hashable key."""
    return tuple(sorted(row.items()))


def row_name(row: Mapping[str, str]) -> str:
    """Return a row's parameters as text, e.g. `direction=capture, rate_hz=8000`."""
    return ", ".join(f"{name}={text}" for name, text in row_key(row))


@define
class RowLedger:
    """The rows of one section in one run, over all its cycles.

    Attributes:
        good: cycle and row of a measured row -> how many values it has.
        bad: cycle and row of a row that was given up in this session -> its last error.
    """

    good: dict[tuple[int, RowKey], int] = field(factory=dict)
    bad: dict[tuple[int, RowKey], BoardlabError] = field(factory=dict)
    _hung: set[RowKey] = field(factory=set)  # rows after which the board had to be power-cycled

    @classmethod
    def from_attempts(cls, attempts: Iterable[AttemptRecord]) -> Self:
        """Return a ledger of the rows that the good attempts at a section have measured."""
        ledger = cls()
        for attempt in attempts:
            if row := {name: text for name, text in attempt.params.items() if name != "section"}:
                ledger.keep(attempt.cycle, row, len(attempt.samples))
        return ledger

    def wants(self, cycle: int, row: Mapping[str, str]) -> bool:
        """Return True if a row has to be measured in a cycle.

        A row that hung the board is not tried in further cycles: it counts as failed there, too.
        """
        key = row_key(row)
        if key in self._hung and (cycle, key) not in self.good:
            first_error = next(error for (_, bad_key), error in self.bad.items() if bad_key == key)
            self.bad.setdefault((cycle, key), first_error)
        return (cycle, key) not in self.good and (cycle, key) not in self.bad

    def keep(self, cycle: int, row: Mapping[str, str], numbers: int) -> None:
        """Note that a row is measured and stored.

        Args:
            numbers: how many values it has.
        """
        self.good[cycle, row_key(row)] = numbers

    def failed_before(self, row: Mapping[str, str]) -> bool:
        """Return True if the row failed in another cycle of this session; one try is enough then."""
        return any(key == row_key(row) for _, key in self.bad)

    def give_up(self, cycle: int, row: Mapping[str, str], error: BoardlabError, *, hung: bool) -> bool:
        """Note that a row failed, and tell whether the other rows may still succeed.

        They may not if the failure is not the row's: it is stable, the lab's or a configuration's, it came between
        two rows, or several rows have hung the board.

        Args:
            row: the row; empty: the failure came between two rows.
            hung: True if the board has to be power-cycled after it.
        """
        if not row or not error.transient or not isinstance(error, BoardError | TestError):
            return False
        self.bad[cycle, row_key(row)] = error
        if hung:
            self._hung.add(row_key(row))
        return len(self._hung) < MAX_HUNG

    def rows(self, cycle: int) -> int:
        """Return how many rows of a cycle are measured or given up."""
        return sum(row_cycle == cycle for row_cycle, _ in (*self.good, *self.bad))

    def numbers(self, cycle: int) -> int:
        """Return how many values the measured rows of a cycle have."""
        return sum(count for (row_cycle, _), count in self.good.items() if row_cycle == cycle)

    def has_failed(self, cycle: int) -> bool:
        """Return True if a row of the cycle was given up."""
        return any(row_cycle == cycle for row_cycle, _ in self.bad)

    def raise_failures(self, run_id: int) -> None:
        """Raise an error that names all rows that were given up, if there are any.

        Raises:
            BoardTransientError, TestTransientError: rows failed; the failure class is that of the first one.
        """
        rows: dict[RowKey, tuple[list[int], BoardlabError]] = {}
        for (cycle, key), error in self.bad.items():
            rows.setdefault(key, ([], error))[0].append(cycle)
        if not rows:
            return
        failures = [
            f"{row_name(dict(key))} (cycle {', '.join(map(str, cycles))}): [{error.failure}] {error}"
            for key, (cycles, error) in rows.items()
        ]
        first = next(iter(self.bad.values()))
        kind = BoardTransientError if isinstance(first, BoardError) else TestTransientError
        raise kind(
            f"{len(rows)} of {len({key for _, key in (*self.good, *self.bad)})} rows could not be measured, the "
            f"others are in the store: {'; '.join(failures)}. Output of each try: lab results show {run_id} --log. "
            f"pytest --lab-resume {run_id} tries these rows again",
            failure=first.failure,
        )


def describe_missing(attempts: Iterable[AttemptRecord]) -> Iterator[str]:
    """Yield a line for each row, or section without rows, that was tried in a cycle and never succeeded there."""
    good: set[tuple[int, RowKey]] = set()
    bad: dict[RowKey, dict[int, AttemptRecord]] = {}
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
            title = f"{row.pop('section', '')} {row_name(row)}".strip()
            first = next(iter(missing.values()))
            numbers = ", ".join(map(str, missing))
            yield f"not measured: {title} (cycle {numbers}): [{first.outcome}, {first.fault}] {first.message}"
