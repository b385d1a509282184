"""Labels of releases: number, kernel, and order."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

from attrs import define, field

REAL_TIME: Final = "-rt"  # ends the label of a release of the real-time kernel, e.g. 09.03-rt
_NUMBERED: Final = re.compile(rf"\d+(\.\d+)*({REAL_TIME})?", re.IGNORECASE)


_HASH: Final = re.compile(r"g?(?=[a-z]*[0-9])[0-9a-f]{7,64}")
_VERSION: Final = re.compile(r"v?[0-9]+\.[0-9]+")  # of a release line: major and minor


class Labelled(Protocol):
    """A record with a release's label, e.g. a run."""

    @property
    def release(self) -> str:
        """The label."""
        ...


_T = TypeVar("_T", bound=Labelled)


@functools.lru_cache(maxsize=1024)
def release_key(release: str | None) -> tuple[int, ...]:
    """The sort key of a release.

    9.2.1 follows 09.02.00, which equals 09.02; 09.02-rt, another kernel, is neither.
    """
    parts = [int(part) for part in re.findall(r"\d+", release or "")]
    while len(parts) > 2 and parts[-1] == 0:
        parts.pop()
    return (*parts, -1) if is_real_time(release or "") else tuple(parts)


def is_real_time(text: str) -> bool:
    """True if a title, file name or release names the RT kernel.

    E.g. "RT-linux 09.03" and "am65x-09.03-rt".
    """
    return re.search(r"(?<![a-z0-9])(?:rt|real[- ]?time)(?![a-z0-9])", text, re.IGNORECASE) is not None


def is_numbered(label: str) -> bool:
    """True if a label is a release's number.

    A date with dashes, a branch and git's descriptions are none.
    """
    return _NUMBERED.fullmatch(label) is not None


def same_release(one: str, other: str) -> bool:
    """True if two labels name one release.

    9.2, 09.02 and 09.02.00 do; labels without numbers must be equal.
    """
    if is_numbered(one) and is_numbered(other):
        return release_key(one) == release_key(other)
    return one == other


def precedes(one: str, other: str) -> bool:
    """True if a release precedes another of the same kernel."""
    return is_real_time(one) == is_real_time(other) and release_key(one) < release_key(other)


def releases_before(records: Iterable[_T], release: str) -> list[_T]:
    """The last item of each earlier release of its kernel, in order.

    So the last import of a guide counts, and the order of imports does not.
    """
    latest = {release_key(record.release): record for record in records if precedes(record.release, release)}
    return [latest[key] for key in sorted(latest)]


def release_before(labels: Sequence[str], release: str) -> str | None:
    """The preceding release; None: none.

    Numbered releases of one kernel are ordered by number. Another label follows the one measured last before its first
    run.

    Args:
        labels: of runs of one board and kind, the oldest run first; the release's own among them.
    """
    lower = [label for label in labels if is_numbered(label) and precedes(label, release)]
    if is_numbered(release) and lower:
        return max(lower, key=release_key)
    own = next((index for index, label in enumerate(labels) if same_release(label, release)), len(labels))
    earlier = (label for label in reversed(labels[:own]) if is_real_time(label) == is_real_time(release))
    return next((label for label in earlier if not (is_numbered(label) and is_numbered(release))), None)


@functools.lru_cache(maxsize=4096)
def line_of(label: str) -> str:
    """The branch or release line of a build's label.

    E.g. "main" of main-0412 and main-g1a2b3c4, "11.01" of 11.01.07: without hashes, dates and counts.
    """
    words = re.split(r"[-_/+ ]+", label.lower())
    significant = (_VERSION.match(word) or word for word in words if not word.isdigit() and not _HASH.fullmatch(word))
    parts = (part if isinstance(part, str) else part[0].lstrip("v") for part in significant)
    return "-".join(part for part in parts if not re.fullmatch(r"rc[0-9]*", part))


@define
class Lines:
    """Runs by line: each line goes on from the line measured before its first run.

    Builds of two branches may be measured in turn: each is compared along its own line.

    Attributes:
        runs: line -> the indices of its runs, and of those that it goes on from.
        last: line of the last run; None: no run yet.
    """

    runs: dict[str, list[int]] = field(factory=dict)
    last: str | None = None
    _count: int = 0

    def add(self, label: str) -> str:
        """Add the next run; its line."""
        line = line_of(label)
        if line not in self.runs:
            self.runs[line] = [] if self.last is None else list(self.runs[self.last])
        self.runs[line].append(self._count)
        self.last, self._count = line, self._count + 1
        return line

    def before(self, label: str) -> list[int]:
        """The indices of the runs that a next one is compared with."""
        return self.runs.get(line_of(label), self.runs.get(self.last, []) if self.last is not None else [])
