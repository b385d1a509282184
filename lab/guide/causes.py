"""What was not read or was mended, one statement a cause: a guide with one flaw in forty rows has one flaw."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attrs import frozen

from lab.guide.model import Repair, Unread

_DIFFERS = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")  # names and numbers, from place to place


@frozen
class Cause:
    """A reason, and the lines where it holds."""

    reason: str
    lines: tuple[int, ...]

    @property
    def text(self) -> str:
        """The reason at its first place, and how often it holds."""
        more = len(self.lines) - 1
        return self.reason + (f" (and {more} more like it, the last in line {self.lines[-1]})" if more else "")


def of(parts: Iterable[Unread | Repair]) -> Iterator[Cause]:
    """The causes, in order of appearance."""
    found: dict[str, list[Unread | Repair]] = {}
    for part in parts:
        found.setdefault(_DIFFERS.sub("", part.reason.partition(": ")[0]), []).append(part)
    for members in found.values():
        yield Cause(members[0].reason, tuple(part.line for part in members))
