"""What changed between two guides as causes: the record, and how its lines are written."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from attrs import field, frozen

from lab.guide import natures
from lab.guide.compare import Change

_MOST_NAMES = 5
_MOST_BOARDS = 3


class Kind(enum.StrEnum):
    """Of a cause, in the order in which a reader wants them."""

    WRONG = "wrong or broken"
    WORSE = "worse"
    SUSPECT = "suspect"
    CONDITIONS = "under other conditions"
    BETTER = "better"
    INCOMPARABLE = "not comparable"
    KNOWN = "known before, or only misleading"


@frozen
class Cause:
    """What one thing did to some numbers.

    Attributes:
        what: the rows, in a few words. why: what is known of the cause; may be empty.
        factors: the smallest and the largest new number over its old one, None where that says nothing.
        boards: by name. count: numbers that it is about.
        rule: id of the rule of ours that says it; empty where none does.
        changes: those of the numbers that both guides have and that are more than noise.
    """

    kind: Kind
    what: str
    why: str
    boards: tuple[str, ...]
    count: int
    factors: tuple[float, float] | None = None
    rule: str = ""
    changes: tuple[Change, ...] = field(default=(), repr=False)

    @property
    def factor(self) -> str:
        """`x 0.77`, or `x 0.75 to 0.80`; empty where there is none."""
        if self.factors is None:
            return ""
        low, high = (f"{factor:.3g}" if factor < 0.1 else f"{factor:.2f}" for factor in self.factors)
        return f"× {low}" if low == high else f"× {low} to {high}"

    @property
    def size(self) -> str:
        """`24 numbers of am62xx_sk-fs`."""
        numbers = f"{self.count} number{'s' * (self.count != 1)}"
        if not self.boards:
            return numbers
        return f"{numbers} of {', '.join(self.boards) if len(self.boards) <= _MOST_BOARDS else f'{len(self.boards)} boards'}"

    @property
    def text(self) -> str:
        """All but the factor, on one line."""
        return f"{self.what}: {self.size}" + (f"; {self.why}" if self.why else "")


def labels(rows: Iterable[tuple[str, Mapping[str, str]]], *, exact: bool = False) -> str:
    """Some rows' names, by metric and parameters: the most frequent first, and how many more there are.

    Args:
        exact: a name that stands for one row alone says its parameters, too.
    """
    found: dict[str, list[tuple[str, ...]]] = {}
    for metric, params in rows:
        found.setdefault(natures.of(metric, params).label, []).append(tuple(params.values()))
    names = [_named(name, found[name] if exact else []) for name in sorted(found, key=lambda name: -len(found[name]))]
    return ", ".join(names[:_MOST_NAMES]) + (
        f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    )


def _named(label: str, rows: list[tuple[str, ...]]) -> str:
    values = rows[0] if rows and len(set(rows)) == 1 else ()
    return " ".join([label, *(value for value in values if value not in label)])


def boards(named: Iterable[str | None]) -> tuple[str, ...]:
    """The boards, each once, by name."""
    return tuple(sorted({board for board in named if board}))
