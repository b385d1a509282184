"""The judge of stored runs: it walks through the history of a board, and stores the verdicts on a run.

A history is judged number by number. A number is a metric with a version of its definition and parameters, measured on
one board by runs of one kind; simulated boards are apart from real ones. Another serial number, card, adapter, host or
image is a known cause within a history. Rejected runs do not count.

A night is a run with those that confirm it, i.e. that repeat it because the judge asked.
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
from lab.judge.history.walk import StepResult, Walk
from lab.judge.labels import line_of
from lab.judge.rates import judge_rates
from lab.judge.records import DRIFT, UNSURE, NewVerdict
from lab.judge.store import read_verdicts, write_verdicts
from lab.metrics.rates import RATES
from lab.results import Run, Store
from lab.results.history import HistoryRunHead, Item, MeasuredNumber, RunNumbers, item_of, read_numbers, run_heads
from lab.results.series import BoardSeries, decisions_at

_MOST_LINES: Final = 4  # lines of builds that are remembered besides the current one


@frozen
class ItemVerdict:
    """The verdict on one number, with the item of the plan that measures it."""

    verdict: NewVerdict
    item: Item

    @property
    def asks(self) -> bool:
        """True if the judge asks for another run in the same night."""
        return self.verdict.outcome == Outcome.UNSURE.value


@define(eq=False)
class Cohort:
    """Numbers of one board that appeared with the same run; they are judged together, along one line of builds.

    Attributes:
        items: item of the plan of each number.
        higher: for each number True if more is better.
        walk: judge of the numbers, with its memory of their runs.
        provenances: known causes of each number's runs.
        runs: ids of the judged runs.
        causes_of_runs: causes of each of these runs.
        counts: usable samples by run and number.
        lines: other line -> the pickled state of this cohort after that line's last run; the latest line is last.
        line: line of the last run; None: no run was judged yet.
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
        """Switch to the state of the next run's line; a new line begins with the current state."""
        line = line_of(label)
        if self.line is not None and line != self.line:
            state = (self.walk, self.provenances, self.runs, self.causes_of_runs, self.counts)
            self.lines[self.line] = pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
            if line in self.lines:
                state = pickle.loads(self.lines.pop(line))  # noqa: S301 - pickled above
                self.walk, self.provenances, self.runs, self.causes_of_runs, self.counts = state
            while len(self.lines) > _MOST_LINES:
                self.lines.pop(next(iter(self.lines)))
        self.line = line

    def concerns(self, runs: Sequence[RunNumbers]) -> bool:
        """Return True if a night's first run tried to measure any of the numbers."""
        return any(_has_tried(runs[0], number, item) for number, item in zip(self.numbers, self.items, strict=True))

    def step(self, runs: Sequence[RunNumbers]) -> list[ItemVerdict]:
        """Judge the next night.

        Args:
            runs: its first run, and those that confirm it.

        Returns:
            A verdict on each number that the night tried to measure.
        """
        first, run_causes = runs[0], causes(runs[0])
        self._change_line(first.run.release)
        history_runs = [self._history_run(row, runs, run_causes) for row in range(len(self.numbers))]
        tonight = night(history_runs, self.provenances)
        result = self.walk.step(tonight)
        counts = np.isfinite(tonight.logs).sum(axis=1)
        self.runs.append(first.run.id)
        self.causes_of_runs.append(run_causes)
        self.counts.append(counts.astype(np.int32))
        return [
            ItemVerdict(self._verdict(row, result), self.items[row])
            for row in range(len(self.numbers))
            if history_runs[row] is not None
        ]

    def _verdict(self, row: int, result: StepResult) -> NewVerdict:
        """Return the verdict on a number in the last run."""
        number, t = self.numbers[row], len(self.runs) - 1
        step = outcome("", t, result, row, bool(self.counts[t][row]), higher_is_better=self.higher[row])
        since = step.since
        if since is not None:  # a run whose cycles all failed does not show the change, and cannot explain it
            since = next((at for at in range(since, t + 1) if self.counts[at][row]), since)
        if step.outcome is Outcome.NO_HISTORY:
            n = sum(bool(count[row]) for count in self.counts[:t])
        else:
            n = 0 if since is None else int(sum(count[row] for count in self.counts[since:]))
        return NewVerdict(
            metric=number.metric,
            version=number.version,
            params=dict(number.params),
            outcome=step.outcome.value,
            direction=int(result.level[row]),
            since_run=None if since is None else self.runs[since],
            n=n,
            effect=step.effect,
            low=step.low,
            high=step.high,
            mode=step.mode,
            reruns=step.reruns,
            differs=self._causes(row, since, step.crept),
        )

    def _history_run(self, row: int, runs: Sequence[RunNumbers], run_causes: Mapping[str, str]) -> HistoryRun | None:
        """Return a night's samples of a number, with NaN for failed cycles; None: the night did not try it."""
        number, item = self.numbers[row], self.items[row]
        first = runs[0]
        if not _has_tried(first, number, item):
            return None
        readings = first.numbers.get(number)
        values = readings.values if readings else ()
        samples = np.array([*values, *([np.nan] * _count_failures(first, item))], dtype=np.float64)
        reruns = (run.numbers[number].values for run in runs[1:] if number in run.numbers)
        return HistoryRun(
            samples, causes_at(run_causes, item), tuple(np.array(values, dtype=np.float64) for values in reruns)
        )

    def _causes(self, row: int, since: int | None, crept: bool) -> Mapping[str, tuple[str, str]]:
        """Return the causes that differ between a change's first run and the runs with samples before it.

        Args:
            since: index of the change's first run; None: there is no change.
            crept: True if the change is a drift.
        """
        if since is None:
            return {}
        if crept:
            return {DRIFT: (f"run {self.runs[since]}", f"run {self.runs[-1]}")}
        item = self.items[row]
        before: dict[str, str] = {}  # the last known value of each cause
        for run_causes, counts in zip(self.causes_of_runs[:since], self.counts, strict=False):
            if counts[row]:
                before.update(causes_at(run_causes, item))
        return dict(changes(before, causes_at(self.causes_of_runs[since], item)))


def _has_tried(run: RunNumbers, number: MeasuredNumber, item: Item) -> bool:
    """Return True if a run tried to measure a number or its section."""
    return number in run.numbers or item in run.failed or _count_failures(run, item) > 0


def _count_failures(run: RunNumbers, item: Item) -> int:
    """Return how many cycles of an item failed, or of its section if the item is a row of one."""
    return max(run.failed.get(part, 0) for part in (item, *((pair,) for pair in item)))


def new_cohort(cohorts: Sequence[Cohort], run: RunNumbers) -> Cohort | None:
    """Return a cohort of the numbers that appear first in this run; None: there are none."""
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
_MODULES: Final = ("*.py", "history/*.py")  # a change of these makes a memory invalid
# Errors on reading a file that was cut short, damaged, or written by another version.
_UNREADABLE: Final = (
    *(OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, IndexError, KeyError),
    *(TypeError, ValueError, MemoryError),
)


@define(eq=False)
class Memory:
    """The state of a board's judge after a night, which a file keeps for the next one.

    The file is this user's own, and may be deleted at any time: the judge then walks through the history again.

    Attributes:
        walked: all runs up to that night.
        rejected: ids of those runs that a person rejected.
    """

    cohorts: list[Cohort] = field(factory=list)
    walked: tuple[HistoryRunHead, ...] = ()
    rejected: frozenset[int] = frozenset()

    def holds(self, heads: list[HistoryRunHead], rejected: frozenset[int]) -> bool:
        """Return True if the memory is of the beginning of this history, so that it can be continued."""
        count = len(self.walked)
        if self.walked and heads[count:] and heads[count].night == self.walked[-1].night:
            return False  # its last night has got a further run since
        return tuple(heads[:count]) == self.walked and self.rejected == rejected & {head.id for head in self.walked}


def folder() -> Path:
    """Return the folder of the memories: $XDG_CACHE_HOME/boardlab/judge, by default under ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "boardlab" / "judge"


def load(path: Path) -> Memory:
    """Load a memory; it is empty if there is no usable file."""
    try:
        check_owner(path.parent)  # a pickle of another user could run any code
        memory = pickle.loads(path.read_bytes())  # noqa: S301 - this user's own file in this user's own folder
    except (BoardlabError, *_UNREADABLE):
        return Memory()
    return memory if isinstance(memory, Memory) else Memory()


def dump(memory: Memory) -> bytes:
    """Return a memory as the bytes of its file."""
    return pickle.dumps(memory, pickle.HIGHEST_PROTOCOL)


def save(path: Path, memory: bytes) -> None:
    """Write a memory's file; if that fails, the next judgement only takes longer."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(memory)
        Path(file.name).replace(path)
        all_versions = set(path.parent.glob(f"{path.name.partition('-')[0]}-*"))
        for other in all_versions - {path}:  # memories of earlier versions of the judge
            other.unlink(missing_ok=True)
    except (BoardlabError, OSError) as error:
        _log.info("the judge cannot remember %s (%s): it will walk through the whole history again", path.name, error)


def path_of(store: Store, run: Run, where: Path, *, simulated: bool) -> Path:
    """Return the file of the memory of a run's history.

    Each store, board, kind of run and version of the judge's code has its own file.

    Args:
        where: folder of the memories.
        simulated: True for simulated boards.
    """
    here = Path(__file__).parent
    code = b"".join(path.read_bytes() for pattern in _MODULES for path in sorted(here.glob(pattern)))
    history = repr((store.url, run.board_type, run.board, run.kind, simulated)).encode()
    digest = hashlib.sha256(history).hexdigest()[:32]
    return where / f"{digest}-{hashlib.sha256(code).hexdigest()[:8]}.pickle"


CONFIRMS: Final = "confirms"  # key of a run's provenance: id of the run that it confirms
NIGHT: Final = dt.timedelta(hours=12)  # a run of the same image confirms an unsure one that began so much earlier
_AT_ONCE: Final = 40  # runs that are read together

Night = tuple[RunNumbers, ...]  # a run, and those that confirm it


@frozen
class RunVerdicts:
    """The verdicts on a night.

    Attributes:
        run: first run of the night; the verdicts are stored under its id.
        confirmed_by: ids of the night's further runs.
        judged: the verdicts, one for each number.
    """

    run: Run
    confirmed_by: tuple[int, ...]
    judged: tuple[ItemVerdict, ...]

    @property
    def asked(self) -> frozenset[Item]:
        """The items of the plan for which the judge asks another run in this night."""
        return frozenset(judgement.item for judgement in self.judged if judgement.asks)


def judge_run(store: Store, run_id: int, *, remember: Path | None = None) -> RunVerdicts:
    """Judge a run's numbers, and replace its stored verdicts.

    A change of an earlier night that was never judged becomes a verdict on that night. A run that confirms another one
    is judged with it, and the verdicts are stored under the other's id.

    Args:
        remember: folder of the memories; None: the user's own.

    Raises:
        ConfigurationError: there is no such run, or it was rejected.
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
    is_old = usable and len(memory.walked) > earlier  # an old run is judged again: the newer memory stays
    history = _History(store, heads, rejected, target, memory if usable and not is_old else Memory())
    night = history.walk_to()
    memory_bytes = None if is_old else dump(history.memory)  # before this night, which may still get a further run
    cohorts = history.cohorts_of(night)
    judged = tuple(_current(history.memory.cohorts, (judged for cohort in cohorts for judged in cohort.step(night))))
    with store.snapshot() as snapshot:
        rate_verdicts = judge_rates(snapshot, [run.run.id for run in night])
    judged += tuple(ItemVerdict(verdict, item_of(verdict.params)) for verdict in rate_verdicts)
    write_verdicts(store, night[0].run.id, [judgement.verdict for judgement in judged], history.late_changes)
    if memory_bytes is not None:
        save(path, memory_bytes)
    return RunVerdicts(night[0].run, tuple(run.run.id for run in night[1:]), judged)


def _current(cohorts: Sequence[Cohort], judged: Iterable[ItemVerdict]) -> Iterator[ItemVerdict]:
    """Yield the verdicts, without those on earlier versions of a definition that the run did not measure."""
    newest: dict[tuple[str, Item], int] = {}
    for number in (number for cohort in cohorts for number in cohort.numbers):
        key = (number.metric, number.params)
        newest[key] = max(newest.get(key, 0), number.version)
    for judgement in judged:
        verdict = judgement.verdict
        if verdict.outcome != "no samples" or verdict.version == newest[verdict.metric, item_of(verdict.params)]:
            yield judgement


def items_to_rerun(store: Store, run_id: int) -> frozenset[Item]:
    """Return the items of a run's plan for which the judge asks another run."""
    verdicts = read_verdicts(store, run_id=run_id, outcomes=[UNSURE])
    rates = {metric.name for metric in RATES.values()}
    unsure = {MeasuredNumber(verdict.metric, verdict.version, item_of(verdict.params)) for verdict in verdicts}
    return frozenset(
        readings.item
        for run in read_numbers(store, [run_id])
        for number, readings in run.numbers.items()
        if number in unsure
    ) | {number.params for number in unsure if number.metric in rates}  # the parameters of a rate are an item's


@define
class _History:
    """A board's history up to the night of one run.

    Attributes:
        heads: all runs of the board and kind, the oldest night first.
        rejected: ids of rejected runs.
        target: the run.
        memory: state of the judge, which the walk continues.
        late_changes: id of an earlier night's first run, and a change that the walk has found there.
    """

    store: Store
    heads: list[HistoryRunHead]
    rejected: frozenset[int]
    target: RunNumbers
    memory: Memory
    late_changes: list[tuple[int, NewVerdict]] = field(factory=list)

    def walk_to(self) -> Night:
        """Judge all nights before that of the target, and return the target's night."""
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
        """Return the cohorts with numbers of a night; a cohort of its new numbers is added to the memory."""
        new = new_cohort(self.memory.cohorts, night[0])
        if new is not None:
            self.memory.cohorts.append(new)
        return [cohort for cohort in self.memory.cohorts if cohort.concerns(night)]

    def _runs(self) -> Iterator[RunNumbers]:
        """Yield the runs after those of the memory, without rejected ones and those of the other kind of board."""
        ids = [head.id for head in self.heads[len(self.memory.walked) :] if head.id not in self.rejected]
        # The first part is small: usually only a few runs are new.
        parts = [ids[:3], *(ids[start : start + _AT_ONCE] for start in range(3, len(ids), _AT_ONCE))]
        for part in parts:
            by_id = {
                run.run.id: run
                for run in read_numbers(self.store, [run_id for run_id in part if run_id != self.target.run.id])
            }
            by_id[self.target.run.id] = self.target
            for run in (by_id[run_id] for run_id in part if run_id in by_id):
                if run.simulated == self.target.simulated and (run.failed or run.run.id == self.target.run.id):
                    yield run

    def _confirms(self, run: RunNumbers, night: Night) -> bool:
        """Return True if a run confirms a night.

        It does if the night asked for it, or if it has the same software and came soon after a night that asks for a
        run. A run with another board, card, adapter, host or tester is a night of its own: as a confirmation it would
        hide the effect of that change.
        """
        first = night[0]
        confirmed_id = run.run.provenance.get(CONFIRMS)
        if any(CAUSES[name].kind == "setup" for name, _ in changes(causes(run), causes(first))):
            return False
        if confirmed_id is not None:
            return confirmed_id in {other.run.id for other in night}
        if len(night) > CONSTANTS.most_reruns or run.run.started_at - first.run.started_at > NIGHT:
            return False
        if not _same_software(run, first):
            return False
        # Judge the night on a copy of the cohorts: the run may still become part of it.
        copies = pickle.loads(pickle.dumps(self.cohorts_of(night), pickle.HIGHEST_PROTOCOL))  # noqa: S301 - our own
        return any(judged.asks for cohort in copies for judged in cohort.step(night))


def _same_software(run: RunNumbers, other: RunNumbers) -> bool:
    """Return True if two runs had the same software, as far as both know it."""
    own, others = causes(run), causes(other)
    if any(own.get(cause) != others.get(cause) for cause in ("image", "software", "release")):
        return False
    own_contents, other_contents = contents(own), contents(others)
    if any(own_contents[medium] != other_contents[medium] for medium in own_contents.keys() & other_contents.keys()):
        return False
    shared = own.keys() & others.keys() & {"user_space"}  # some boards do not tell it
    return all(own[cause] == others[cause] for cause in shared)
