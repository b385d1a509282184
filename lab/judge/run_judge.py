"""The history's judge on the store: judges stored runs.

A series is one number (metric, version of its definition, parameters) of one board (type and name), of runs of one
kind, on simulated boards or on real ones. Another serial number, card, adapter, host or image is a known cause within
it. Rejected runs do not count.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from lab.errors import BoardlabError, ConfigurationError
from lab.host.runtime import check_owner
from lab.judge.causes import CAUSES, causes, causes_at, changes, contents
from lab.judge.history import CONSTANTS, HistoryRun, Outcome, outcome
from lab.judge.history.table import Provenance, night
from lab.judge.history.walk import Walk
from lab.judge.labels import line_of
from lab.judge.rates import judge_rates
from lab.judge.records import DRIFT, UNSURE, NewVerdict
from lab.judge.store import read_verdicts, write_verdicts
from lab.metrics.rates import RATES
from lab.results import Run, Store
from lab.results.history import HistoryRunHead, Item, MeasuredNumber, RunNumbers, item_of, read_numbers, run_heads
from lab.results.series import BoardSeries, decisions_at

_MOST_LINES: Final = 4  # of builds that are remembered beside the current one


@frozen
class ItemVerdict:
    """The verdict on one number, with its item of the plan."""

    verdict: NewVerdict
    item: Item

    @property
    def asks(self) -> bool:
        """True if another run of the same night would tell more."""
        return self.verdict.outcome == Outcome.UNSURE.value


@define(eq=False)
class Cohort:
    """Numbers of one board, run by run, along one line of builds.

    Attributes:
        items, higher: of each number: its item of the plan, and True if more is better.
        runs: ids of the judged runs.
        causes_of_runs: their causes.
        counts: usable samples, (runs, numbers).
        lines: other lines -> this cohort as it was after their last run, the latest last.
        line: of the last run.
    """

    numbers: tuple[MeasuredNumber, ...]
    items: tuple[Item, ...]
    higher: tuple[bool, ...]
    walk: Walk = field(init=False)
    provenances: list[Provenance] = field(init=False)
    runs: list[int] = field(factory=list)
    causes_of_runs: list[Mapping[str, str]] = field(factory=list)
    counts: list[npt.NDArray[np.int32]] = field(factory=list)
    lines: dict[str, bytes] = field(factory=dict)
    line: str | None = None

    def __attrs_post_init__(self) -> None:
        self.walk = Walk(len(self.numbers), CONSTANTS)
        self.provenances = [Provenance(CONSTANTS) for _ in self.numbers]

    def _change_line(self, label: str) -> None:
        """Go on along the line of the next run."""
        line = line_of(label)
        if self.line is not None and line != self.line:
            state = (self.walk, self.provenances, self.runs, self.causes_of_runs, self.counts)
            self.lines[self.line] = pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
            if line in self.lines:
                state = pickle.loads(self.lines.pop(line))  # noqa: S301 - our own
                self.walk, self.provenances, self.runs, self.causes_of_runs, self.counts = state
            while len(self.lines) > _MOST_LINES:
                self.lines.pop(next(iter(self.lines)))
        self.line = line

    def concerns(self, runs: Sequence[RunNumbers]) -> bool:
        """True if these runs tried to measure any of the numbers."""
        return any(_has_tried(runs[0], number, item) for number, item in zip(self.numbers, self.items, strict=True))

    def step(self, runs: Sequence[RunNumbers]) -> list[ItemVerdict]:
        """Judge a night: a run and those that confirm it."""
        first, run_causes = runs[0], causes(runs[0])
        self._change_line(first.run.release)
        tried = [self._run(row, runs, run_causes) for row in range(len(self.numbers))]
        tonight = night(tried, self.provenances)
        result = self.walk.step(tonight)
        counts = np.isfinite(tonight.logs).sum(axis=1)
        self.runs.append(first.run.id)
        self.causes_of_runs.append(run_causes)
        self.counts.append(counts.astype(np.int32))
        t = len(self.runs) - 1
        judged = []
        for row, number in enumerate(self.numbers):
            if tried[row] is not None:
                words = outcome("", t, result, row, bool(counts[row]), higher_is_better=self.higher[row])
                since = words.since
                if since is not None:  # a run whose cycles all failed does not show a change, and explains none
                    since = next((at for at in range(since, t + 1) if self.counts[at][row]), since)
                if words.outcome is Outcome.NO_HISTORY:
                    n = sum(bool(count[row]) for count in self.counts[:t])
                else:
                    n = 0 if since is None else int(sum(count[row] for count in self.counts[since:]))
                verdict = NewVerdict(
                    metric=number.metric,
                    version=number.version,
                    params=dict(number.params),
                    outcome=words.outcome.value,
                    direction=int(result.level[row]),
                    since_run=None if since is None else self.runs[since],
                    n=n,
                    effect=words.effect,
                    low=words.low,
                    high=words.high,
                    mode=words.mode,
                    reruns=words.reruns,
                    differs=self._causes(row, since, words.crept),
                )
                judged.append(ItemVerdict(verdict, self.items[row]))
        return judged

    def _run(self, row: int, runs: Sequence[RunNumbers], run_causes: Mapping[str, str]) -> HistoryRun | None:
        """A number's run with failed cycles as NaN; None: not tried."""
        number, item = self.numbers[row], self.items[row]
        first = runs[0]
        if not _has_tried(first, number, item):
            return None
        readings = first.numbers.get(number)
        values = readings.values if readings else ()
        samples = np.array([*values, *([np.nan] * _count_failures(first, item))], dtype=np.float64)
        again = (run.numbers[number].values for run in runs[1:] if number in run.numbers)
        return HistoryRun(
            samples, causes_at(run_causes, item), tuple(np.array(values, dtype=np.float64) for values in again)
        )

    def _causes(self, row: int, since: int | None, crept: bool) -> Mapping[str, tuple[str, str]]:
        """The causes that differ between a change's run and the last ones with samples before."""
        if since is None:
            return {}
        if crept:
            return {DRIFT: (f"run {self.runs[since]}", f"run {self.runs[-1]}")}
        item = self.items[row]
        before: dict[str, str] = {}  # of each cause the last that is known
        for run_causes, counts in zip(self.causes_of_runs[:since], self.counts, strict=False):
            if counts[row]:
                before.update(causes_at(run_causes, item))
        return dict(changes(before, causes_at(self.causes_of_runs[since], item)))


def _has_tried(run: RunNumbers, number: MeasuredNumber, item: Item) -> bool:
    """True if a run tried to measure a number or its section."""
    return number in run.numbers or item in run.failed or _count_failures(run, item) > 0


def _count_failures(run: RunNumbers, item: Item) -> int:
    """Number of failed cycles of an item or its section.

    (section) of (row, section).
    """
    return max(run.failed.get(part, 0) for part in (item, *((pair,) for pair in item)))


def new_cohort(cohorts: Sequence[Cohort], run: RunNumbers) -> Cohort | None:
    """A cohort of the run's new numbers; None: none are new."""
    old = {number for cohort in cohorts for number in cohort.numbers}
    new = {number: readings for number, readings in run.numbers.items() if number not in old}
    if not new:
        return None
    return Cohort(
        tuple(new),
        tuple(readings.item for readings in new.values()),
        tuple(readings.higher_is_better for readings in new.values()),
    )


_log = logging.getLogger(__name__)
_MODULES: Final = ("*.py", "history/*.py")  # whose change makes a memory worthless
# Errors on reading a file that was cut short, damaged, or written by another version.
_UNREADABLE: Final = (
    *(OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, IndexError, KeyError),
    *(TypeError, ValueError, MemoryError),
)


@define(eq=False)
class Memory:
    """A board's numbers up to a night, remembered in a file.

    The file is this user's own and may be deleted at any time: the history is then walked through again.

    Attributes:
        walked: all runs up to that night.
        rejected: those of them that a person rejected.
    """

    cohorts: list[Cohort] = field(factory=list)
    walked: tuple[HistoryRunHead, ...] = ()
    rejected: frozenset[int] = frozenset()

    def holds(self, heads: list[HistoryRunHead], rejected: frozenset[int]) -> bool:
        """True if it covers the beginning of today's history."""
        count = len(self.walked)
        if self.walked and heads[count:] and heads[count].night == self.walked[-1].night:  # it was confirmed since
            return False
        return tuple(heads[:count]) == self.walked and self.rejected == rejected & {head.id for head in self.walked}


def folder() -> Path:
    """$XDG_CACHE_HOME/boardlab/judge, or under ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "boardlab" / "judge"


def load(path: Path) -> Memory:
    """Load a remembered history; empty if there is no usable file."""
    try:
        check_owner(path.parent)  # what somebody else wrote there could do anything when it is unpickled
        memory = pickle.loads(path.read_bytes())  # noqa: S301 - this user's own file in a folder of nobody else
    except (BoardlabError, *_UNREADABLE):
        return Memory()
    return memory if isinstance(memory, Memory) else Memory()


def dump(memory: Memory) -> bytes:
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
        of_any_code = set(path.parent.glob(f"{path.name.partition('-')[0]}-*"))
        for other in of_any_code - {path}:  # of earlier code of the judge
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
    judged: tuple[ItemVerdict, ...]

    @property
    def asked(self) -> frozenset[Item]:
        """Items of the plan that need another run this night."""
        return frozenset(judgement.item for judgement in self.judged if judgement.asks)


def judge_run(store: Store, run_id: int, *, remember: Path | None = None) -> RunVerdicts:
    """Judge a run's numbers and replace its stored verdicts.

    An earlier change whose night was not judged becomes a verdict on its night. A run that confirms another one is
    judged with it; the verdicts belong to the other.

    Args:
        remember: the folder of remembered histories; None: the user's own.

    Raises:
        ConfigurationError: no such run, or it is rejected.
    """
    run = store.run(run_id)
    with store.snapshot() as snapshot:
        decisions = decisions_at(snapshot, BoardSeries(run.board, run.board_type, run.kind))
    rejected = frozenset(number for number, decision in decisions.items() if decision == "rejected")
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
    remembered = None if further else dump(history.memory)
    cohorts = history.cohorts_of(night)
    judged = tuple(_current(history.memory.cohorts, (judged for cohort in cohorts for judged in cohort.step(night))))
    with store.snapshot() as snapshot:
        on_rates = judge_rates(snapshot, [run.run.id for run in night])
    judged += tuple(ItemVerdict(verdict, item_of(verdict.params)) for verdict in on_rates)
    write_verdicts(store, night[0].run.id, [judgement.verdict for judgement in judged], history.late_changes)
    if remembered is not None:
        save(path, remembered)
    return RunVerdicts(night[0].run, tuple(run.run.id for run in night[1:]), judged)


def _current(cohorts: Sequence[Cohort], judged: Iterable[ItemVerdict]) -> Iterator[ItemVerdict]:
    """Verdicts without those on a definition's earlier, unmeasured versions."""
    newest: dict[tuple[str, Item], int] = {}
    for number in (number for cohort in cohorts for number in cohort.numbers):
        key = (number.metric, number.params)
        newest[key] = max(newest.get(key, 0), number.version)
    for judgement in judged:
        verdict = judgement.verdict
        if verdict.outcome != "no samples" or verdict.version == newest[verdict.metric, item_of(verdict.params)]:
            yield judgement


def items_to_rerun(store: Store, run_id: int) -> frozenset[Item]:
    """Items of a run's plan that need another run."""
    verdicts = read_verdicts(store, run_id=run_id, outcomes=[UNSURE])
    rates = {metric.name for metric in RATES.values()}
    unsure = {MeasuredNumber(verdict.metric, verdict.version, item_of(verdict.params)) for verdict in verdicts}
    return frozenset(
        readings.item
        for run in read_numbers(store, [run_id])
        for number, readings in run.numbers.items()
        if number in unsure
    ) | {number.params for number in unsure if number.metric in rates}  # a rate's parameters are its attempts'


@define
class _History:
    """A board's history up to the night of a run.

    Attributes:
        late_changes: the first run of an earlier night, and a change in it.
    """

    store: Store
    heads: list[HistoryRunHead]
    rejected: frozenset[int]
    target: RunNumbers
    memory: Memory
    late_changes: list[tuple[int, NewVerdict]] = field(factory=list)

    def walk_to(self) -> Night:
        """Judge everything before the target's night; return that night."""
        night: Night = ()
        for run in self._runs():
            if not night:
                night = (run,)
            elif self._confirms(run, night):
                night = (*night, run)
            elif any(other.run.id == self.target.run.id for other in night):
                break
            else:
                for cohort in self.cohorts_of(night):
                    changed = (judged.verdict for judged in cohort.step(night) if judged.verdict.direction)
                    self.late_changes.extend((night[0].run.id, verdict) for verdict in changed)
                night = (run,)
        walked = tuple(self.heads[: next(n for n, head in enumerate(self.heads) if head.id == night[0].run.id)])
        self.memory.walked, self.memory.rejected = walked, self.rejected & {head.id for head in walked}
        return night

    def cohorts_of(self, night: Night) -> list[Cohort]:
        """Cohorts with numbers of a night, a new one included."""
        new = new_cohort(self.memory.cohorts, night[0])
        if new is not None:
            self.memory.cohorts.append(new)
        return [cohort for cohort in self.memory.cohorts if cohort.concerns(night)]

    def _runs(self) -> Iterator[RunNumbers]:
        """The counting runs after the remembered ones."""
        ids = [head.id for head in self.heads[len(self.memory.walked) :] if head.id not in self.rejected]
        parts = [ids[:3], *(ids[start : start + _AT_ONCE] for start in range(3, len(ids), _AT_ONCE))]
        for part in parts:  # a small one first: usually few are new
            by_id = {
                run.run.id: run
                for run in read_numbers(self.store, [run_id for run_id in part if run_id != self.target.run.id])
            }
            by_id[self.target.run.id] = self.target
            for run in (by_id[run_id] for run_id in part if run_id in by_id):
                if run.simulated == self.target.simulated and (run.failed or run.run.id == self.target.run.id):
                    yield run

    def _confirms(self, run: RunNumbers, night: Night) -> bool:
        """True if a run confirms a night.

        The night requested it, or it has the image and came while runs were requested. A run with another board, card,
        adapter, host or tester is a night of its own: it would hide what that changed.
        """
        first = night[0]
        asked_by = run.run.provenance.get(CONFIRMS)
        if any(CAUSES[name].kind == "setup" for name, _ in changes(causes(run), causes(first))):
            return False
        if asked_by is not None:
            return asked_by in {other.run.id for other in night}
        if len(night) > CONSTANTS.most_reruns or run.run.started_at - first.run.started_at > NIGHT:
            return False
        if not _same_software(run, first):
            return False
        tried = pickle.loads(pickle.dumps(self.cohorts_of(night), pickle.HIGHEST_PROTOCOL))  # noqa: S301 - our own
        return any(judged.asks for cohort in tried for judged in cohort.step(night))


def _same_software(one: RunNumbers, other: RunNumbers) -> bool:
    first, second = causes(one), causes(other)
    same = all(first.get(cause) == second.get(cause) for cause in ("image", "software", "release"))
    shared = first.keys() & second.keys() & {"user_space"}  # a board may not say it
    media, others = contents(first), contents(second)
    same &= all(media[medium] == others[medium] for medium in media.keys() & others.keys())
    return same and all(first[cause] == second[cause] for cause in shared)
