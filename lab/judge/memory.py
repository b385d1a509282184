"""How far a board's history was walked through, kept in a file, so that a run's end costs no year of runs.

The file is this user's own and may be deleted at any time: the history is then walked through again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import tempfile
from pathlib import Path
from typing import Final

from attrs import define, field

from lab.errors import BoardlabError
from lab.host.runtime import check_owner
from lab.judge.cohort import Cohort
from lab.results import Run, Store
from lab.results.history import RunHead

_log = logging.getLogger(__name__)
_MODULES: Final = ("*.py", "history/*.py")  # whose change makes a memory worthless
# What a file that was cut short, damaged, or written by another version raises when it is read.
_UNREADABLE: Final = (
    *(OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, IndexError, KeyError),
    *(TypeError, ValueError, MemoryError),
)


@define(eq=False)
class Memory:
    """A board's numbers up to a night.

    Attributes:
        walked: the runs up to there, also those that do not count. rejected: those of them that a person rejected.
    """

    cohorts: list[Cohort] = field(factory=list)
    walked: tuple[RunHead, ...] = ()
    rejected: frozenset[int] = frozenset()

    def holds(self, heads: list[RunHead], rejected: frozenset[int]) -> bool:
        """Whether it is of the beginning of this history, as it is today."""
        count = len(self.walked)
        return tuple(heads[:count]) == self.walked and self.rejected == rejected & {head.id for head in self.walked}


def folder() -> Path:
    """$XDG_CACHE_HOME/boardlab/judge, or under ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "boardlab" / "judge"


def load(path: Path) -> Memory:
    """What is remembered; nothing where there is no file, or none that can be used."""
    try:
        check_owner(path.parent)  # what somebody else wrote there could do anything when it is unpickled
        found = pickle.loads(path.read_bytes())  # noqa: S301 - this user's own file in a folder of nobody else
    except (BoardlabError, *_UNREADABLE):
        return Memory()
    return found if isinstance(found, Memory) else Memory()


def dumped(memory: Memory) -> bytes:
    """A memory as it is now, for its file."""
    return pickle.dumps(memory, pickle.HIGHEST_PROTOCOL)


def save(path: Path, memory: bytes) -> None:
    """Remember what was dumped; where that cannot be, the next run takes longer."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(memory)
        Path(file.name).replace(path)
        for other in set(path.parent.glob(f"{path.name.partition('-')[0]}-*")) - {
            path
        }:  # of the judge's code of before
            other.unlink(missing_ok=True)
    except (BoardlabError, OSError) as error:
        _log.info("the judge cannot remember %s (%s): it will walk through the whole history again", path.name, error)


def path_of(store: Store, run: Run, where: Path, *, simulated: bool) -> Path:
    """Where the history of a run is remembered: one file for each store, board, kind of run and state of the judge's code."""
    here = Path(__file__).parent
    code = b"".join(path.read_bytes() for pattern in _MODULES for path in sorted(here.glob(pattern)))
    about = repr((store.url, run.board_type, run.board, run.kind, simulated)).encode()
    digest = hashlib.sha256(about).hexdigest()[:32]
    return where / f"{digest}-{hashlib.sha256(code).hexdigest()[:8]}.pickle"
