"""What a release's label says: which release it is, of which kernel, and which one came before."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

REAL_TIME: Final = "-rt"  # ends the label of a release of the real-time kernel, e.g. 09.03-rt
_NUMBERED: Final = re.compile(rf"\d+(\.\d+)*({REAL_TIME})?", re.IGNORECASE)


class Labelled(Protocol):
    """What has a release's label, e.g. a run."""

    @property
    def release(self) -> str:
        """The label."""
        ...


_T = TypeVar("_T", bound=Labelled)


@functools.lru_cache(maxsize=1024)
def release_key(release: str | None) -> tuple[int, ...]:
    """For sorting and finding releases: 9.2.1 follows 09.02.00, which is 09.02; 09.02-rt, another kernel, is neither."""
    parts = [int(part) for part in re.findall(r"\d+", release or "")]
    while len(parts) > 2 and parts[-1] == 0:
        parts.pop()
    return (*parts, -1) if is_real_time(release or "") else tuple(parts)


def is_real_time(text: str) -> bool:
    """Whether a title, a file's name or a release names the real-time kernel, e.g. "RT-linux 09.03" and "am65x-09.03-rt"."""
    return re.search(r"(?<![a-z0-9])(?:rt|real[- ]?time)(?![a-z0-9])", text, re.IGNORECASE) is not None


def is_numbered(label: str) -> bool:
    """Whether a label is a release's number; a date with dashes, a branch and what git describes are none."""
    return _NUMBERED.fullmatch(label) is not None


def same_release(one: str, other: str) -> bool:
    """Whether two labels name one release: 9.2, 09.02 and 09.02.00 do; labels that are no numbers must be equal."""
    if is_numbered(one) and is_numbered(other):
        return release_key(one) == release_key(other)
    return one == other


def precedes(one: str, other: str) -> bool:
    """Whether a release comes before another one of the same kernel."""
    return is_real_time(one) == is_real_time(other) and release_key(one) < release_key(other)


def releases_before(found: Iterable[_T], release: str) -> list[_T]:
    """Of the releases before one, of its kernel, the last that is given of each; the oldest release first.

    So of a guide that was imported more than once the last import counts, and in which order guides were imported does not.
    """
    latest = {release_key(each.release): each for each in found if precedes(each.release, release)}
    return [latest[key] for key in sorted(latest)]


def release_before(labels: Sequence[str], release: str) -> str | None:
    """The release that comes before one; None where there is none.

    Numbered releases of one kernel go by their numbers. Before another label comes the one measured last before its first run.

    Args:
        labels: of runs of one board and kind, the oldest run first; the release's own among them.
    """
    lower = [each for each in labels if is_numbered(each) and precedes(each, release)]
    if is_numbered(release) and lower:
        return max(lower, key=release_key)
    own = next((place for place, each in enumerate(labels) if same_release(each, release)), len(labels))
    earlier = (each for each in reversed(labels[:own]) if is_real_time(each) == is_real_time(release))
    return next((each for each in earlier if not (is_numbered(each) and is_numbered(release))), None)
