"""The numbers that are worse now: each board's latest runs, judged against their references.

A board's latest run is judged against the last runs that were not rejected, of any release. The latest run of each
kernel's newest release, by its number (11.01 comes after 10.00), is also judged against the release before.
"""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final, Self, TypeAlias

from attrs import define, evolve, field, frozen

from lab.judge import noise, text
from lab.judge.baseline import ACCEPTED, REJECTED, RUNS_BACK, JudgedRun, earlier, judge, window
from lab.judge.compare import Verdict
from lab.judge.labels import is_numbered, is_real_time, release_key
from lab.judge.records import Mute, StoredVerdict
from lab.judge.store import mutes_of, standing, still_open
from lab.metrics.catalogue import BOOT_STAGE
from lab.results.history import Item, item_of
from lab.results.records import APART, RunHead
from lab.results.revision import RunsRevision, runs_revision
from lab.results.series import BoardSeries, PlaceState, latest_completed, latest_with, run_head, states
from lab.results.snapshot import StoreSnapshot
from lab.results.store import Store, open_store
from lab.results.sums import VARIANT, Average

_log = logging.getLogger(__name__)
MEDIUM, INIT = VARIANT
_WHOLE: Final = 0.1  # from this relative change on, percentages have no decimals
WORSE: Final = frozenset({Verdict.REGRESSION, Verdict.BROKEN_RUN})


class Reference(enum.StrEnum):
    """Kind of the runs that a run is compared with."""

    RELEASE = "release"  # runs of the release before
    BASELINE = "baseline"  # the last runs that were not rejected


@frozen
class BootVariant:
    """Medium and init of a number; a later run replaces only the numbers of its own variants."""

    medium: str
    init: str = ""

    @classmethod
    def of(cls, params: Mapping[str, str]) -> Self:
        """Return the variant of a number with these parameters."""
        return cls(params.get(MEDIUM, ""), params.get(INIT, ""))


@frozen
class LatestComparison:
    """A latest run with the runs that it is compared with.

    Attributes:
        kind: kind of the references.
        before: earlier runs, which give the noise, the oldest first.
        references: compared runs, the oldest first.
        against: name of the references in sentences: the older release, or "the last accepted runs".
        is_accepted: True if a person has accepted the run.
        variants: variants of which it is the latest run.
    """

    kind: Reference
    head: RunHead
    before: tuple[RunHead, ...]
    references: tuple[RunHead, ...]
    against: str
    is_accepted: bool
    variants: frozenset[BootVariant]

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """The identity of the comparison: with an equal one the answer is equal, as completed runs never change."""
        before, references = (tuple(run.id for run in runs) for runs in (self.before, self.references))
        return self.kind, self.head.id, before, references, self.is_accepted

    def judge(self, snapshot: StoreSnapshot, averages: dict[int, list[Average]] | None = None) -> JudgedRun:
        """Judge all numbers of the run, of all variants.

        Args:
            averages: see `lab.judge.baseline.judge`.
        """
        return judge(snapshot, self.head, self.before, self.references, self.against, averages=averages)


def comparisons(
    runs: Sequence[RunHead], variants: Mapping[int, Iterable[BootVariant]], decisions: Mapping[int, str]
) -> list[LatestComparison]:
    """Return the comparisons of the latest runs of a series.

    Args:
        runs: completed runs that were not rejected, the oldest first.
        variants: run id -> variants that it measured.
        decisions: run id -> last decision.
    """
    by_fingerprint: dict[tuple[object, ...], LatestComparison] = {}
    latest: dict[BootVariant, RunHead] = {}
    by_release: dict[tuple[BootVariant, bool], dict[tuple[int, ...], list[RunHead]]] = {}

    def add(
        variant: BootVariant, kind: Reference, head: RunHead, references: Sequence[RunHead], accepted: bool
    ) -> None:
        most = noise.load().history.longest * RUNS_BACK
        before = earlier(runs, head, decisions)
        chosen = window(before, decisions) if kind is Reference.BASELINE else references
        against = "the last accepted runs" if kind is Reference.BASELINE else references[-1].release
        comparison = LatestComparison(
            kind, head, tuple(before[-most:]), tuple(chosen[-most:]), against, accepted, frozenset({variant})
        )
        existing = by_fingerprint.get(comparison.fingerprint, comparison)
        by_fingerprint[comparison.fingerprint] = evolve(existing, variants=existing.variants | comparison.variants)

    for head in runs:
        for variant in variants.get(head.id, ()):
            latest[variant] = head
            if is_numbered(head.release):
                of_kernel = by_release.setdefault((variant, is_real_time(head.release)), {})
                of_kernel.setdefault(release_key(head.release), []).append(head)
    for variant, head in latest.items():
        if head.kind not in APART:  # a published release is compared with the release before only
            add(variant, Reference.BASELINE, head, (), decisions.get(head.id) == ACCEPTED)
    for (variant, _), releases in by_release.items():
        if len(releases) > 1:
            old, new = (releases[number] for number in sorted(releases)[-2:])
            accepted = any(decisions.get(run.id) == ACCEPTED for run in new)
            add(variant, Reference.RELEASE, new[-1], old, accepted)
    return list(by_fingerprint.values())


def not_measured(runs: Iterable[RunHead]) -> list[tuple[RunHead, str]]:
    """Return the series that were measured with the release before a kernel's newest one, but not with the newest.

    Args:
        runs: completed runs of all boards that were not rejected, the oldest first.

    Returns:
        The last run of each such series, and the newest release.
    """
    by_kernel: dict[bool, dict[tuple[int, ...], dict[BoardSeries, RunHead]]] = {}
    for head in runs:
        if is_numbered(head.release) and head.kind not in APART:
            of_kernel = by_kernel.setdefault(is_real_time(head.release), {})
            of_kernel.setdefault(release_key(head.release), {})[BoardSeries.of(head)] = head
    missing: list[tuple[RunHead, str]] = []
    for releases in by_kernel.values():
        if len(releases) > 1:
            old, new = (releases[number] for number in sorted(releases)[-2:])
            name = next(iter(new.values())).release
            missing += [(head, name) for series, head in old.items() if series not in new]
    return missing


BUDGET_S: Final = 1.0  # time of one look; in a large lab the next look continues
# So many times as many runs are read as a comparison needs: a medium may be measured by each fourth run only.
_LATEST: Final = 4
WORTH_A_PROCESS: Final = 32  # series or runs; fewer are judged faster than a process starts
_AT_ONCE: Final = 64  # series that the process judges between two looks
_NICE: Final = 5
_Key: TypeAlias = tuple[str, str, int, Item]  # kind, metric, version, parameters


@frozen
class WorseNumber:
    """A number that is worse in a run that no person has accepted or rejected.

    Attributes:
        run, release, kind: those of the run.
        at: end of the run.
        against: name of the compared runs in sentences: the older release, or a phrase for earlier runs.
        effect: relative change; None: unknown.
        is_release: True if it is compared with another release.
        since: first run of the standing verdict on the number; None: no history confirms it.
        is_confirmed: True if it was worse before the last night that could show it, still is, and no verdict of a
            history reports it.
        rate: change of a failure rate in words; empty: it is another number.
        outcome: outcome of the standing verdict; empty: there is none.
    """

    run: int
    release: str
    kind: str
    at: dt.datetime | None
    against: str
    metric: str
    version: int
    params: Mapping[str, str]
    effect: float | None
    is_release: bool
    since: int | None = None
    is_confirmed: bool = False
    rate: str = ""
    outcome: str = ""

    @property
    def key(self) -> _Key:
        """The number's identity on its board."""
        return self.kind, self.metric, self.version, item_of(self.params)

    @property
    def title(self) -> str:
        """The metric with the values of the parameters, e.g. `boot.time sd`."""
        return " ".join([self.metric, *(value for _, value in sorted(self.params.items()))])

    @property
    def size(self) -> str:
        """The change as text, e.g. `+23 %` or `+4.1 %`."""
        if self.rate:
            return self.rate
        if self.effect is None:
            return "is broken"
        return f"{100 * self.effect:+.{0 if abs(self.effect) >= _WHOLE else 1}f} %"


def describe(worse: Sequence[WorseNumber]) -> str:
    """Return worse numbers as text; there must be at least one.

    E.g. `boot.time sd +23 % in 11.01 against 11.00, and 5 more numbers (run 12)`.
    """
    first, more = worse[0], len(worse) - 1
    also = f", and {more} more number{'s' * (more > 1)}" if more else ""
    runs = ", ".join(str(run) for run in dict.fromkeys(number.run for number in worse))
    return f"{first.title} {first.size} in {first.release} against {first.against}{also} (run {runs})"


def still_worse(worse: Sequence[WorseNumber], needs: str = "") -> str:
    """Return a sentence on changes that a run still shows, and on numbers that are worse without a verdict.

    Args:
        worse: at least one number.
        needs: the history that the numbers without a verdict lack, e.g. "needs 8 earlier runs, has 5".
    """
    parts = []
    for outcome, begin in (("regression", "still worse"), ("environment", "environment, still")):
        confirmed = [number for number in worse if number.since is not None and number.outcome == outcome]
        if confirmed:
            parts.append(f"{begin} since run {min(number.since or 0 for number in confirmed)}: {describe(confirmed)}")
    if new := [number for number in worse if number.since is None]:
        parts.append(f"worse, but not confirmed by a history{f' ({needs})' if needs else ''}: {describe(new)}")
    return "; ".join(parts)


@frozen
class LabComparison:
    """The worse numbers of all boards.

    Attributes:
        worse: board -> its worse numbers, the largest change first, stages of the boot last.
        left: boards with runs that are not judged yet.
    """

    worse: Mapping[str, tuple[WorseNumber, ...]] = field(factory=dict)
    left: frozenset[str] = frozenset()


@define
class LatestJudge:
    """Judges each board's latest runs, with a cache for frequent looks.

    A series is judged again only if a run of it was completed, accepted or rejected since.

    Attributes:
        budget_s: time of one look, after which no further series is judged.
        now_s: a monotonic clock.
        in_process: True: many series are judged by another process, some between two looks. A thread would hold
            Python's lock meanwhile.
        only: boards to judge; None: all.
    """

    budget_s: float = BUDGET_S
    now_s: Callable[[], float] = time.monotonic
    in_process: bool = False
    only: frozenset[str] | None = None
    _process: ProcessPoolExecutor | None = field(default=None, init=False)
    _part: tuple[dict[BoardSeries, PlaceState], Future[list[tuple[WorseNumber, ...]]]] | None = field(
        default=None, init=False
    )
    _revision: RunsRevision | None = field(default=None, init=False)
    _states: Mapping[BoardSeries, PlaceState] = field(factory=dict, init=False)
    _judged: dict[BoardSeries, tuple[PlaceState, tuple[WorseNumber, ...]]] = field(factory=dict, init=False)

    def of(self, store: Store, now: dt.datetime) -> LabComparison:
        """Return the worse numbers of all boards, without those that are muted at an instant.

        Raises:
            LabError: the results cannot be read.
        """
        revision = runs_revision(store)
        with store.snapshot() as snapshot:
            if revision != self._revision:
                every = states(snapshot)
                self._states = {
                    series: state
                    for series, state in every.items()
                    if series.kind not in APART and (self.only is None or series.board in self.only)
                }
                self._judged = {series: judged for series, judged in self._judged.items() if series in self._states}
                self._revision = revision
            left = self._judge(snapshot, store)
            stands = snapshot.read(lambda session: standing(session, now))
            mutes = snapshot.read(mutes_of)
        numbers: dict[str, dict[_Key, WorseNumber]] = {}
        for series, (_, series_numbers) in self._judged.items():
            numbers.setdefault(series.board, {}).update({number.key: number for number in series_numbers})
        for verdict in stands.unmuted:
            if self.only is not None and verdict.run.board not in self.only:
                continue
            number, by_key = _of_verdict(verdict), numbers.setdefault(verdict.run.board, {})
            if verdict.outcome == "regression":
                worse = by_key.get(number.key, number)
                by_key[number.key] = evolve(
                    worse, since=number.since, outcome=number.outcome, rate=number.rate, is_confirmed=False
                )
            elif verdict.worse and number.key in by_key:
                worse = by_key[number.key]
                by_key[number.key] = evolve(worse, since=number.since, outcome=number.outcome, is_confirmed=False)
        return LabComparison(
            {
                board: shown
                for board, by_key in numbers.items()
                if (shown := _order(board, by_key.values(), mutes, now))
            },
            left,
        )

    def _judge(self, snapshot: StoreSnapshot, store: Store) -> frozenset[str]:
        """Judge the series that have changed, the last measured first.

        Returns:
            The boards with series that are left for the next look.
        """
        if self._part is not None and self._part[1].done():
            self._take(*self._part)
        stale = [series for series, state in self._states.items() if self._judged.get(series, (None, ()))[0] != state]
        stale.sort(
            key=lambda series: at.timestamp() if (at := self._states[series].finished_at) else 0.0, reverse=True
        )
        if self._part is not None or (self.in_process and len(stale) >= WORTH_A_PROCESS):
            if self._part is None:
                self._submit(store, stale[:_AT_ONCE])
            return frozenset(series.board for series in stale)
        if self._process is not None:
            self._process.shutdown(wait=False)
            self._process = None
        ends_s = self.now_s() + self.budget_s
        for count, series in enumerate(stale):
            if count and self.now_s() >= ends_s:
                return frozenset(series.board for series in stale[count:])
            self._judged[series] = self._states[series], tuple(worse_numbers(snapshot, series))
        return frozenset()

    def _take(self, part: Mapping[BoardSeries, PlaceState], judged: Future[list[tuple[WorseNumber, ...]]]) -> None:
        """Take the results of the process; if it was killed, they are left for the next look."""
        self._part = None
        try:
            results = judged.result()
        except BrokenProcessPool:
            _log.warning("the judging process was killed, perhaps for lack of memory: it is started again")
            self._process = None
            return
        self._judged |= {
            series: (state, numbers)
            for (series, state), numbers in zip(part.items(), results, strict=True)
            if series in self._states
        }

    def _submit(self, store: Store, batch: Sequence[BoardSeries]) -> None:
        """Let the process judge these series; if it was killed while it was idle, the next look starts it again."""
        if self._process is None:  # by "spawn": a forked process would share the database's connections
            self._process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), begin_judging)
        url = store.location.url.render_as_string(hide_password=False)
        try:
            judged = self._process.submit(_worse_of, url, list(batch))
        except BrokenProcessPool:
            self._process = None
            return
        self._part = {series: self._states[series] for series in batch}, judged


def begin_judging() -> None:
    """Initialise the judging process: it ignores Ctrl-C, has a low priority, and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    # PR_SET_PDEATHSIG would not do: it ends the process with the thread that has started it.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the end of the parent process, and then end this one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _worse_of(url: str, batch: Sequence[BoardSeries]) -> list[tuple[WorseNumber, ...]]:
    """Return the worse numbers of each of these series; it runs in the judging process."""
    with open_store(url, create=False) as store, store.snapshot() as snapshot:
        return [tuple(worse_numbers(snapshot, series)) for series in batch]


def worse_of_run(store: Store, run_id: int, verdicts: Sequence[StoredVerdict]) -> tuple[WorseNumber, ...]:
    """Return the open changes that a run still shows, and its worse numbers without a verdict.

    Muted numbers are left out. Numbers without a verdict are returned only if the run is its board's latest one, and
    has no change of its own.

    Args:
        verdicts: verdicts on the run; its own changes are left out.

    Raises:
        LabError: the results cannot be read.
    """
    with store.snapshot() as snapshot:
        head = run_head(snapshot, run_id)
        if head is None:
            return ()
        numbers = [number for number in worse_numbers(snapshot, BoardSeries.of(head)) if number.run == run_id]
        mutes, now = snapshot.read(mutes_of), snapshot.now()
    by_key = {} if any(verdict.direction for verdict in verdicts) else {number.key: number for number in numbers}
    by_key |= {number.key: number for number in map(_of_verdict, still_open(store, store.run(run_id), verdicts))}
    return _order(head.board, by_key.values(), mutes, now)


def worse_numbers(snapshot: StoreSnapshot, series: BoardSeries) -> list[WorseNumber]:
    """Return the worse numbers of a series' latest runs; one that is worse than both references counts once."""
    latest = _latest_runs(snapshot, series)
    decisions = snapshot.decisions_on([head.id for head in latest])
    runs = [head for head in latest if decisions.get(head.id) != REJECTED]
    variants: dict[int, set[BootVariant]] = {}
    for run_id, params in snapshot.params([head.id for head in runs]):
        variants.setdefault(run_id, set()).add(BootVariant.of(params))
    numbers = _worse(snapshot, comparisons(runs, variants, decisions))
    confirmed: set[_Key] = set()
    for variant in {BootVariant.of(number.params) for number in numbers.values()}:
        first = _first_of_night(snapshot, max(head.id for head in runs if variant in variants.get(head.id, ())))
        before = comparisons([head for head in runs if head.id < first], variants, decisions)
        of_variant = [
            evolve(comparison, variants=frozenset({variant}))
            for comparison in before
            if variant in comparison.variants
        ]
        confirmed |= _worse(snapshot, of_variant).keys()
    return [evolve(number, is_confirmed=key in confirmed) for key, number in numbers.items()]


def _latest_runs(snapshot: StoreSnapshot, series: BoardSeries) -> list[RunHead]:
    """Return the completed runs that the comparisons of a series' latest runs need, the oldest first.

    They are the last ones, and those of each kernel's two newest releases.
    """
    most = noise.load().history.longest * RUNS_BACK
    runs = {head.id: head for head in latest_completed(snapshot, series, _LATEST * most)}
    if len(runs) < _LATEST * most:  # the series has no further runs
        return list(runs.values())
    labels: dict[bool, dict[tuple[int, ...], list[str]]] = {}
    for label in filter(is_numbered, snapshot.labels()):
        labels.setdefault(is_real_time(label), {}).setdefault(release_key(label), []).append(label)
    for of_kernel in labels.values():
        newest = (latest_with(snapshot, series, of_kernel[key], most) for key in sorted(of_kernel, reverse=True))
        for heads in itertools.islice(filter(None, newest), 2):
            runs |= {head.id: head for head in heads}
    return [runs[run_id] for run_id in sorted(runs)]


def _first_of_night(snapshot: StoreSnapshot, run_id: int) -> int:
    """Return the id of the run that a run confirms, directly or through others; else the run's own."""
    while True:
        confirmed = dict(snapshot.provenances([run_id])).get(run_id, {}).get("confirms")
        if confirmed is None or confirmed >= run_id:
            return run_id
        run_id = confirmed


def _worse(snapshot: StoreSnapshot, tasks: Iterable[LatestComparison]) -> dict[_Key, WorseNumber]:
    """Return the worse numbers of comparisons; a comparison with a release counts before one with a baseline."""
    numbers: dict[_Key, WorseNumber] = {}
    for comparison in sorted(tasks, key=lambda comparison: comparison.kind is not Reference.RELEASE):
        if comparison.is_accepted or not comparison.references:
            continue
        head = comparison.head
        for judged in comparison.judge(snapshot).numbers:
            average, verdict = judged.average, judged.judgement.verdict
            if verdict not in WORSE or BootVariant.of(average.params) not in comparison.variants:
                continue
            number = WorseNumber(
                run=head.id,
                release=head.release,
                kind=head.kind,
                at=head.finished_at,
                against=comparison.against,
                metric=average.metric.name,
                version=average.metric.version,
                params=average.params,
                effect=judged.judgement.effect,
                is_release=comparison.kind is Reference.RELEASE,
            )
            numbers.setdefault(number.key, number)
    return numbers


def _of_verdict(verdict: StoredVerdict) -> WorseNumber:
    """Return the number of a verdict as a worse number."""
    run = verdict.run
    return WorseNumber(
        run=run.id,
        release=run.release,
        kind=run.kind,
        at=run.finished_at,
        against="its history",
        metric=verdict.metric,
        version=verdict.version,
        params=verdict.params,
        effect=verdict.effect,
        is_release=False,
        since=verdict.since_run,
        outcome=verdict.outcome,
        rate=text.size(verdict) if text.failure_rates(verdict) else "",
    )


def _order(
    board: str, numbers: Iterable[WorseNumber], mutes: Sequence[Mute], now: dt.datetime
) -> tuple[WorseNumber, ...]:
    """Return the numbers that are not muted, the largest change first, stages of the boot last."""
    unmuted = [
        number
        for number in numbers
        if not any(mute.covers(board, number.metric, number.params, now) for mute in mutes)
    ]
    return tuple(
        sorted(unmuted, key=lambda number: (number.metric == BOOT_STAGE.name, -abs(number.effect or 0.0), number.key))
    )
