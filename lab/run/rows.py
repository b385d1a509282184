"""The rows of a section in a run: which are measured, which failed, and which are tried again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Self, TypeAlias

from attrs import define, field

from lab.errors import BoardError, BoardlabError, BoardTransientError, TestError, TestTransientError
from lab.results import AttemptRecord

MAX_HUNG: Final = 2  # rows after which the board had to be power-cycled; more of them, and it is not about the rows
RowKey: TypeAlias = tuple[tuple[str, str], ...]


def row_key(row: Mapping[str, str]) -> RowKey:
    """A row's parameters as a hashable key."""
    return tuple(sorted(row.items()))


def row_name(row: Mapping[str, str]) -> str:
    """A row for people: `direction=capture, rate_hz=8000`."""
    return ", ".join(f"{name}={text}" for name, text in row_key(row))


@define
class RowLedger:
    """The rows of one section in one run.

    Attributes:
        good: cycle and row -> number of its values.
        bad: cycle and row -> its error in this session, after retries.
    """

    good: dict[tuple[int, RowKey], int] = field(factory=dict)
    bad: dict[tuple[int, RowKey], BoardlabError] = field(factory=dict)
    _hung: set[RowKey] = field(factory=set)

    @classmethod
    def from_attempts(cls, attempts: Iterable[AttemptRecord]) -> Self:
        """The rows that good attempts at a section have."""
        ledger = cls()
        for attempt in attempts:
            if row := {name: text for name, text in attempt.params.items() if name != "section"}:
                ledger.keep(attempt.cycle, row, len(attempt.samples))
        return ledger

    def wants(self, cycle: int, row: Mapping[str, str]) -> bool:
        """True if a row must be measured.

        A row that hung the board is tried in one cycle only.
        """
        place = cycle, row_key(row)
        if place[1] in self._hung and place not in self.good:
            self.bad.setdefault(place, next(error for (_, key), error in self.bad.items() if key == place[1]))
        return place not in self.good and place not in self.bad

    def keep(self, cycle: int, row: Mapping[str, str], numbers: int) -> None:
        """Note a stored row."""
        self.good[cycle, row_key(row)] = numbers

    def failed_before(self, row: Mapping[str, str]) -> bool:
        """True if it failed in another cycle of this session.

        Then one try of it is enough.
        """
        return any(key == row_key(row) for _, key in self.bad)

    def give_up(self, cycle: int, row: Mapping[str, str], error: BoardlabError, *, hung: bool) -> bool:
        """Note a failed row; True if other rows may still succeed.

        They may not if the failure is not about the row: it is the lab's, a configuration's, or a
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
        """Number of a cycle's rows with a result."""
        return sum(row_cycle == cycle for row_cycle, _ in (*self.good, *self.bad))

    def numbers(self, cycle: int) -> int:
        """Number of values of a cycle's rows."""
        return sum(count for (row_cycle, _), count in self.good.items() if row_cycle == cycle)

    def has_failed(self, cycle: int) -> bool:
        """True if rows of a cycle could not be measured."""
        return any(row_cycle == cycle for row_cycle, _ in self.bad)

    def raise_failures(self, run_id: int) -> None:
        """Raise an error that names the failed rows.

        Raises:
            BoardTransientError, TestTransientError: rows failed; the failure class is that of the first.
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
    """A line for each tried row and section that a cycle lacks."""
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
