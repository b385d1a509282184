"""Artifacts of this host that others shall read, brought to where they are shared; after measuring, and again where it failed.

What is to be brought is marked beside the artifacts when they are kept, which costs a file's name and no word with the network. A mark goes
when its artifact lies there, so whatever fails is brought at the next occasion, and nothing that was measured is ever removed here.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import frozen

from lab.errors import BoardlabError, ConfigurationError, LabStableError
from lab.results import shared
from lab.results.artifacts import ArtifactStore

_log = logging.getLogger(__name__)


@frozen
class Brought:
    """What was done. busy: another process does it, and takes what is marked now, too."""

    count: int
    bytes: int
    busy: bool = False


def upload(
    artifacts: ArtifactStore, *, everything: bool = False, say: Callable[[str], None] = lambda _: None
) -> Brought:
    """Bring what is marked, and what is marked meanwhile.

    Args:
        everything: also what has no mark and does not lie there, e.g. of before artifacts were shared.

    Raises:
        ConfigurationError: artifacts are not shared here.
        LabStableError: where they are shared does not answer, or refuses; what is left stays marked.
    """
    if not artifacts.shared:
        raise ConfigurationError(
            f"artifacts are not shared: set ${shared.SHARED_VARIABLE} to {shared.FORMS} (docs/results.md)"
        )
    there = shared.at(artifacts.shared)
    count = size = 0
    with _alone(artifacts) as ours:
        if not ours:
            return Brought(0, 0, busy=True)
        if everything:
            known = there.names()
            for sha256 in artifacts.kept():
                if sha256 not in known:
                    artifacts.mark(sha256)
        tried: set[str] = set()
        while names := [name for name in artifacts.marked() if name not in tried]:
            for sha256 in names:
                tried.add(sha256)
                try:
                    data = artifacts.local(sha256)
                except BoardlabError as error:  # a damaged one must not spread, and must not stop the others
                    say(str(error))
                    continue
                if data is None:  # it is marked first, and written then
                    continue
                there.put(sha256, data)
                count, size = count + 1, size + len(data)
                artifacts.unmark(sha256)
    return Brought(count, size)


@contextmanager
def _alone(artifacts: ArtifactStore) -> Iterator[bool]:
    """One process of a host at a time; whether it is this one."""
    try:
        artifacts.marks.mkdir(parents=True, exist_ok=True)
        fd = os.open(artifacts.marks / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LabStableError(
            f"{artifacts.marks}: {error.strerror}: run `lab results upload` as the user whose folder it is",
            failure="artifacts",
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)
