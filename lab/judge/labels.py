"""Labels of releases and builds: their numbers, their kernel, their order and their lines."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

from attrs import define, field

REAL_TIME: Final = "-rt"  # ends the label of a release of the real-time kernel, e.g. 09.03-rt
_NUMBERED: Final = re.compile(rf"\d+(\.\d+)*({REAL_TIME})?", re.IGNORECASE)


_HASH: Final = re.compile(r"g?(?=[a-z]*[0-9])[0-9a-f]{7,64}")
_VERSION: Final = re.compile(r"v?[0-9]+\.[0-9]+")  # major and minor version, which name a release line


class Labelled(Protocol):
    """A record with a release's label, e.g. a run."""

    @property
    def release(self) -> str:
        """The label."""
        ...


_T = TypeVar("_T", bound=Labelled)


@functools.lru_cache(maxsize=1024)
def release_key(release: str | None) -> tuple[int, ...]:
    """Return the sort key of a release.

    9.2.1 comes after 09.02.00, which equals 09.02. The key of 09.02-rt, which has another kernel, equals neither.
    """
    parts = [int(part) for part in re.findall(r"\d+", release or "")]
    while len(parts) > 2 and parts[-1] == 0:
        parts.pop()
    return (*parts, -1) if is_real_time(release or "") else tuple(parts)


def is_real_time(text: str) -> bool:
    """Return True if a title, file name or release names the real-time kernel, as "am65x-09.03-rt" does."""
    return re.search(r"(?<![a-z0-9])(?:rt|real[- ]?time)(?![a-z0-9])", text, re.IGNORECASE) is not None


def is_numbered(label: str) -> bool:
    """Return True if a label is the number of a release; dates, branches and git's descriptions are not."""
    return _NUMBERED.fullmatch(label) is not None


def same_release(label: str, other: str) -> bool:
    """Return True if two labels name one release, as 9.2 and 09.02.00 do; other labels must be equal."""
    if is_numbered(label) and is_numbered(other):
        return release_key(label) == release_key(other)
    return label == other


def precedes(release: str, other: str) -> bool:
    """Return True if a release comes before another one of the same kernel."""
    return is_real_time(release) == is_real_time(other) and release_key(release) < release_key(other)


def releases_before(records: Iterable[_T], release: str) -> list[_T]:
    """Return the last record of each release before one, with the same kernel, in the order of the releases.

    So of several imports of a guide the last one counts, and the order of the imports does not matter.
    """
    latest = {release_key(record.release): record for record in records if precedes(record.release, release)}
    return [latest[key] for key in sorted(latest)]


def release_before(labels: Sequence[str], release: str) -> str | None:
    """Return the release before one; None: there is none.

    Numbered releases of one kernel are in the order of their numbers. Before another label comes the one that was
    measured last before the label's first run.

    Args:
        labels: labels of all runs of one board and kind, the oldest run first.
    """
    lower = [label for label in labels if is_numbered(label) and precedes(label, release)]
    if is_numbered(release) and lower:
        return max(lower, key=release_key)
    own = next((index for index, label in enumerate(labels) if same_release(label, release)), len(labels))
    earlier = (label for label in reversed(labels[:own]) if is_real_time(label) == is_real_time(release))
    return next((label for label in earlier if not (is_numbered(label) and is_numbered(release))), None)


@functools.lru_cache(maxsize=4096)
def line_of(label: str) -> str:
    """Return the line of a build, i.e. its branch or its release without hashes, dates and counts.

    The line of main-0412 and main-g1a2b3c4 is "main", that of 11.01.07 is "11.01".
    """
    words = re.split(r"[-_/+ ]+", label.lower())
    significant = (_VERSION.match(word) or word for word in words if not word.isdigit() and not _HASH.fullmatch(word))
    parts = (part if isinstance(part, str) else part[0].lstrip("v") for part in significant)
    return "-".join(part for part in parts if not re.fullmatch(r"rc[0-9]*", part))


@define
class Lines:
    """The runs of each line of builds.

    Builds of two branches may be measured alternately; each is compared with builds of its own line. A new line
    continues the line that was measured before its first run.

    Attributes:
        runs: line -> indices of its runs, and of the runs that it continues.
        last: line of the last run; None: there is no run yet.
    """

    runs: dict[str, list[int]] = field(factory=dict)
    last: str | None = None
    _count: int = 0

    def add(self, label: str) -> str:
        """Add the next run, and return its line."""
        line = line_of(label)
        if line not in self.runs:
            self.runs[line] = [] if self.last is None else list(self.runs[self.last])
        self.runs[line].append(self._count)
        self.last, self._count = line, self._count + 1
        return line

    def before(self, label: str) -> list[int]:
        """Return the indices of the runs that a next run with this label is compared with."""
        return self.runs.get(line_of(label), self.runs.get(self.last, []) if self.last is not None else [])
