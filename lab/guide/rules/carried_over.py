"""Numbers that are the older release's to the last digit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.guide.catalogue import CellReading
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

_LEAST_NUMBERS = 4  # in a table, that a second measurement would not repeat
_LEAST_DIGITS = 3
_LEAST_TABLES = 4  # of a guide
# Programs that count whole seconds, and numbers that are set: a second run gives the same.
_REPEATS = ("whetstone.", "cpu.", "dhrystone.", "camera.", "ethernet.udp.datagram", "lmbench.lat_ops")

_Key = tuple[str | None, str, tuple[tuple[str, str], ...]]


def check(sheet: Sheet, older: Sheet | None) -> Iterator[Remark]:
    """Only with an older guide. A measurement repeats to its last digit now and then, a table of them never."""
    if older is None:
        return
    before = {_key(r): r.cell.value.text for r in older.of(*older.by_metric)}
    tables = group((r for r in sheet.of(*sheet.by_metric) if _tells(r)), lambda r: (r.cell.table, r.board))
    shared = {place: [r for r in readings if _key(r) in before] for place, readings in tables.items()}
    judged = {place: readings for place, readings in shared.items() if len(readings) >= _LEAST_NUMBERS}
    same = {place: readings for place, readings in judged.items() if _all_same(readings, before)}
    if len(same) == len(judged) >= _LEAST_TABLES:
        first = next(iter(same.values()))[0]
        count = sum(map(len, same.values()))
        yield Remark(
            f"all {count} numbers of {len(same)} tables that can be compared are the older guide's to the last digit: nothing "
            "was measured again",
            line=first.table.line,
        )
        return
    for (_, board), readings in same.items():
        yield Remark(
            f"all {len(readings)} numbers{f' of {board}' if board else ''} in {readings[0].table.name!r} are the older guide's "
            "to the last digit: carried over, and not measured for this release",
            readings[0],
            also=tuple(readings[1:]),
        )


def _key(r: CellReading) -> _Key:
    return (r.board, *r.key)


def _all_same(readings: Sequence[CellReading], before: dict[_Key, str]) -> bool:
    return all(before[_key(r)] == r.cell.value.text for r in readings)


def _tells(r: CellReading) -> bool:
    """Whether another run would have given another text."""
    digits = sum(c.isdigit() for c in r.cell.value.text.split("(")[0].strip().lstrip("0."))
    return digits >= _LEAST_DIGITS and bool(r.number) and not r.metric.startswith(_REPEATS)


RULE = Rule(id="carried-over", title="The older release's numbers", severity=Severity.WARNING, check=check)
