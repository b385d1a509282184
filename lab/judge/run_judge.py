"""The history's judge on the store: judges stored runs.

A series is one number (metric, version of its definition, parameters) of one board (type and name), of runs of one kind, on
simulated boards or on real ones. Another serial number, card, adapter, host or image is a known cause within it. Rejected runs
do not count.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import os
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from lab.errors import BoardlabError, ConfigurationError
from lab.host.runtime import check_owner
from lab.judge.builds import causes
from lab.judge.cohort import Cohort, Judged, new_cohort
from lab.judge.history import CONSTANTS
from lab.judge.records import UNSURE, NewVerdict
from lab.judge.store import read_verdicts, reviews, write_verdicts
from lab.results import Run, Store
from lab.results.history import HistoryRunHead, Item, MeasuredNumber, RunNumbers, item_of, read_numbers, run_heads

# --- The remembered history of a board ---
# The file is this user's own and may be deleted at any time: the history is then walked through again.


_log = logging.getLogger(__name__)
_MODULES: Final = ("*.py", "history/*.py")  # whose change makes a memory worthless
# Errors on reading a file that was cut short, damaged, or written by another version.
_UNREADABLE: Final = (
    *(OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, IndexError, KeyError),
    *(TypeError, ValueError, MemoryError),
)


@define(eq=False)
class Memory:
    """A board's numbers up to a night.

    Attributes:
        walked: all runs up to that night. rejected: those of them that a person rejected.
    """

    cohorts: list[Cohort] = field(factory=list)
    walked: tuple[HistoryRunHead, ...] = ()
    rejected: frozenset[int] = frozenset()

    def holds(self, heads: list[HistoryRunHead], rejected: frozenset[int]) -> bool:
        """True if it covers the beginning of today's history."""
        count = len(self.walked)
        return tuple(heads[:count]) == self.walked and self.rejected == rejected & {head.id for head in self.walked}


def folder() -> Path:
    """$XDG_CACHE_HOME/boardlab/judge, or under ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "boardlab" / "judge"


def load(path: Path) -> Memory:
    """Load a remembered history; empty if there is no usable file."""
    try:
        check_owner(path.parent)  # what somebody else wrote there could do anything when it is unpickled
        found = pickle.loads(path.read_bytes())  # noqa: S301 - this user's own file in a folder of nobody else
    except (BoardlabError, *_UNREADABLE):
        return Memory()
    return found if isinstance(found, Memory) else Memory()


def dumped(memory: Memory) -> bytes:
    """Serialise a memory for its file."""
    return pickle.dumps(memory, pickle.HIGHEST_PROTOCOL)


def save(path: Path, memory: bytes) -> None:
    """Save a memory; on failure the next run only takes longer."""
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
    """The memory's file of a run's history.

    One file per store, board, kind of run and state of the judge's code.
    """
    here = Path(__file__).parent
    code = b"".join(path.read_bytes() for pattern in _MODULES for path in sorted(here.glob(pattern)))
    about = repr((store.url, run.board_type, run.board, run.kind, simulated)).encode()
    digest = hashlib.sha256(about).hexdigest()[:32]
    return where / f"{digest}-{hashlib.sha256(code).hexdigest()[:8]}.pickle"


# --- Judging a stored run ---
# A series is one number (metric, version of its definition, parameters) of one board (type and name), of runs of one kind, on
# simulated boards or on real ones. Another serial number, card, adapter, host or image is a known cause within it. Runs that a person
# rejected do not count.


CONFIRMS: Final = "confirms"  # key of a run's provenance: the run that it was asked for as confirmation of
NIGHT: Final = dt.timedelta(hours=12)  # a run of the same image so soon after one that asked confirms it
_AT_ONCE: Final = 40  # runs read together

Night = tuple[RunNumbers, ...]  # a run, and those that confirm it


@frozen
class RunVerdicts:
    """The verdicts on a run.

    Attributes:
        run: the night's first; the verdicts are stored under its id.
        confirmed_by: further runs of the same night that were used.
    """

    run: Run
    confirmed_by: tuple[int, ...]
    judged: tuple[Judged, ...]

    @property
    def asked(self) -> frozenset[Item]:
        """Items of the plan that need another run this night."""
        return frozenset(each.item for each in self.judged if each.asks)


def judge_run(store: Store, run_id: int, *, remember: Path | None = None) -> RunVerdicts:
    """Judge a run's numbers and replace its stored verdicts.

    An earlier change whose night was not judged becomes a verdict on its night. A run that confirms another one is judged with it; the verdicts belong to the other.

    Args:
        remember: the folder of remembered histories; None: the user's own.

    Raises:
        ConfigurationError: no such run, or it is rejected.
    """
    run = store.run(run_id)
    rejected = frozenset(each.run_id for each in reviews(store).values() if each.decision == "rejected")
    if run_id in rejected:
        raise ConfigurationError(
            f"run {run_id} was rejected and counts for nothing; `lab judge accept {run_id}` takes that back"
        )
    (target,) = read_numbers(store, [run_id])
    path = path_of(store, run, remember or folder(), simulated=target.simulated)
    heads = run_heads(store, run)
    memory = load(path)
    earlier = next((n for n, head in enumerate(heads) if head.id == run_id), 0)
    usable = memory.holds(heads, rejected)
    further = usable and len(memory.walked) > earlier  # an old run is judged again: what is remembered stays
    history = _History(store, heads, rejected, target, memory if usable and not further else Memory())
    night = history.walk_to()
    remembered = None if further else dumped(history.memory)
    judged = tuple(judged for cohort in history.cohorts_of(night) for judged in cohort.step(night))
    write_verdicts(store, night[0].run.id, [each.verdict for each in judged], history.found)
    if remembered is not None:
        save(path, remembered)
    return RunVerdicts(night[0].run, tuple(each.run.id for each in night[1:]), judged)


def asked_again(store: Store, run_id: int) -> frozenset[Item]:
    """Items of a run's plan that need another run."""
    verdicts = read_verdicts(store, run_id=run_id, outcomes=[UNSURE])
    unsure = {MeasuredNumber(verdict.metric, verdict.version, item_of(verdict.params)) for verdict in verdicts}
    return frozenset(
        readings.item
        for run in read_numbers(store, [run_id])
        for number, readings in run.numbers.items()
        if number in unsure
    )


@define
class _History:
    """A board's history up to the night of a run.

    Attributes:
        found: on the way: the first run of a night, and a change found in it.
    """

    store: Store
    heads: list[HistoryRunHead]
    rejected: frozenset[int]
    target: RunNumbers
    memory: Memory
    found: list[tuple[int, NewVerdict]] = field(factory=list)

    def walk_to(self) -> Night:
        """Judge everything before the target's night; return that night."""
        night: Night = ()
        for run in self._runs():
            if not night:
                night = (run,)
            elif self._confirms(run, night):
                night = (*night, run)
            elif any(each.run.id == self.target.run.id for each in night):
                break
            else:
                self._walk(night)
                night = (run,)
        walked = tuple(head for head in self.heads if head.id < night[0].run.id)
        self.memory.walked, self.memory.rejected = walked, self.rejected & {head.id for head in walked}
        return night

    def cohorts_of(self, night: Night) -> list[Cohort]:
        """Cohorts with numbers of a night, a new one included."""
        made = new_cohort(self.memory.cohorts, night[0])
        if made is not None:
            self.memory.cohorts.append(made)
        return [cohort for cohort in self.memory.cohorts if cohort.concerns(night)]

    def _walk(self, night: Night) -> None:
        for cohort in self.cohorts_of(night):
            called = (judged.verdict for judged in cohort.step(night) if judged.verdict.direction)
            self.found.extend((night[0].run.id, verdict) for verdict in called)

    def _runs(self) -> Iterator[RunNumbers]:
        """The counting runs after the remembered ones."""
        ids = [head.id for head in self.heads[len(self.memory.walked) :] if head.id not in self.rejected]
        for part in _parts(ids):
            found = {
                run.run.id: run
                for run in read_numbers(self.store, [each for each in part if each != self.target.run.id])
            }
            found[self.target.run.id] = self.target
            for run in (found[each] for each in part if each in found):
                if run.simulated == self.target.simulated and (run.failed or run.run.id == self.target.run.id):
                    yield run

    def _confirms(self, run: RunNumbers, night: Night) -> bool:
        """True if a run confirms a night.

        The night requested it, or it has the image and came while runs were requested.
        """
        first = night[0]
        asked_by = run.run.provenance.get(CONFIRMS)
        if asked_by is not None:
            return asked_by in {each.run.id for each in night}
        if len(night) > CONSTANTS.most_reruns or run.run.started_at - first.run.started_at > NIGHT:
            return False
        if not _same_software(run, first):
            return False
        tried = pickle.loads(pickle.dumps(self.cohorts_of(night), pickle.HIGHEST_PROTOCOL))  # noqa: S301 - our own
        return any(judged.asks for cohort in tried for judged in cohort.step(night))


def _same_software(one: RunNumbers, other: RunNumbers) -> bool:
    first, second = causes(one), causes(other)
    return all(first.get(cause) == second.get(cause) for cause in ("image", "software", "release"))


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split ids with a small part first: usually few are new."""
    yield ids[:3]
    for start in range(3, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
