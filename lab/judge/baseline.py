"""Baselines of a run: the last runs not rejected, or a release's.

Runs are of the same board, board type and kind, whatever their release is called; numbers are of the same definition
and parameters; those of a virtual board are never compared with a real one's.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from lab.errors import ConfigurationError
from lab.judge import noise as noises
from lab.judge.builds import Flows, another_flow, flows_of
from lab.judge.compare import Judgement, Verdict, compare, is_history
from lab.judge.labels import Lines, precedes, release_before, releases_before, same_release
from lab.judge.noise import Noise, NoiseModel
from lab.judge.number import Number, PublishedNumbers, of_average
from lab.metrics.catalogue import STATES
from lab.metrics.rates import RATES, FailureRate, RateChange
from lab.results.records import PUBLISHED, RunHead
from lab.results.series import BoardSeries, decisions_at, run_head, runs_at
from lab.results.snapshot import StoreSnapshot
from lab.results.sums import Average

ACCEPTED: Final = "accepted"
REJECTED: Final = "rejected"
COMPLETED: Final = "completed"
RUNS_BACK: Final = 3  # times the runs that the noise is taken from: a number need not be in every run


@frozen
class Baseline:
    """The baseline of a number.

    Attributes:
        runs: ids, the oldest first.
        values: their averages, in the same order.
        value: the median of these.
        uncertainty: ± of one of them, at 95 %.
    """

    runs: tuple[int, ...]
    values: tuple[float, ...]
    value: float
    uncertainty: float


@frozen
class JudgedNumber:
    """A number of a run with its judgement."""

    average: Average
    baseline: Baseline | None
    judgement: Judgement


@frozen
class JudgedRun:
    """All numbers of a run.

    Attributes:
        against: the baseline, for a sentence: "the last accepted runs", "release 11.00".
        is_accepted: a person accepted its numbers.
        missing: numbers of the compared runs that this one lacks, with their last averages.
        rates: how often its board failed, by parameters, beside the compared runs.
        releases: of the compared runs, the oldest first.
    """

    head: RunHead
    against: str
    numbers: tuple[JudgedNumber, ...]
    is_accepted: bool = False
    missing: tuple[Average, ...] = ()
    rates: tuple[tuple[Mapping[str, str], RateChange], ...] = ()
    releases: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """The baseline with its releases: `the last accepted runs (11.00, 11.01)`."""
        named = any(release in self.against for release in self.releases)
        return self.against if named or not self.releases else f"{self.against} ({', '.join(self.releases)})"

    def of(self, verdict: Verdict) -> list[JudgedNumber]:
        """The numbers with this verdict."""
        return [number for number in self.numbers if number.judgement.verdict is verdict]


def earlier(heads: Iterable[RunHead], head: RunHead, decisions: Mapping[int, str]) -> list[RunHead]:
    """The runs that may be a run's baseline, oldest first.

    Completed earlier runs of the same board, kind and line of builds that are not rejected. Before a published guide
    come the earlier releases of its kernel, one run of each, in whichever order they were imported.
    """
    counting = [run for run in place(heads, head) if decisions.get(run.id) != REJECTED]
    if head.kind == PUBLISHED:
        return releases_before(counting, head.release)
    before = [run for run in counting if run.id < head.id]
    lines = Lines()
    for run in before:
        lines.add(run.release)
    return [before[index] for index in lines.before(head.release)]


def place(heads: Iterable[RunHead], head: RunHead) -> list[RunHead]:
    """The completed runs of the same board, board type and kind."""
    series = (head.board, head.board_type, head.kind)
    return [run for run in heads if run.status == COMPLETED and (run.board, run.board_type, run.kind) == series]


def judge_run(snapshot: StoreSnapshot, run_id: int, against: str | None = None) -> JudgedRun:
    """Judge every number of a run.

    Args:
        against: a release, to compare with its last runs on this board; None: with the last runs not rejected. A run
            accepted by a person begins the window anew: earlier runs no longer count.

    Raises:
        ConfigurationError: no such run, or nothing of that release on its board.
    """
    head = run_head(snapshot, run_id)
    if head is None:
        raise ConfigurationError(f"no run {run_id}; `lab results list` shows the runs")
    series = BoardSeries.of(head)
    heads, decisions = runs_at(snapshot, series), decisions_at(snapshot, series)
    before = earlier(heads, head, decisions)
    is_accepted = decisions.get(head.id) == ACCEPTED
    if against is None:
        references = window(before, decisions)
        judged = judge(snapshot, head, before, references, "the last accepted runs")
        return evolve(judged, is_accepted=is_accepted, rates=rate_changes(snapshot, head, references))
    others = [run for run in place(heads, head) if run.id != head.id and decisions.get(run.id) != REJECTED]
    references = [run for run in others if same_release(run.release, against)]
    if not references:
        names = ", ".join(dict.fromkeys(run.release for run in others)) or "none"
        raise ConfigurationError(
            f"board {head.board!r} has no other completed {head.kind} run of release {against!r}; there are: {names}"
        )
    judged = judge(snapshot, head, before, references, f"release {against}")
    return evolve(judged, is_accepted=is_accepted, rates=rate_changes(snapshot, head, references))


def rate_changes(
    snapshot: StoreSnapshot, head: RunHead, references: Sequence[RunHead], night: Sequence[int] = ()
) -> tuple[tuple[Mapping[str, str], RateChange], ...]:
    """How often a run's board failed, beside the compared runs together.

    Args:
        night: the run and those that confirm it, which count as one; empty: it alone.
    """
    own = {head.id, *night}
    if head.kind not in RATES:
        return ()
    counts: dict[bool, dict[frozenset[tuple[str, str]], list[tuple[str, str | None, int]]]] = {True: {}, False: {}}
    ids = [*(run.id for run in references if run.id not in own), *sorted(own)]
    virtual = {run_id: provenance.get("virtual") is True for run_id, provenance in snapshot.provenances(ids)}
    for tally in snapshot.tallies(ids):
        if virtual.get(tally.run_id) != virtual.get(head.id) or tally.params.get("mode") in STATES:
            continue
        group = counts[tally.run_id in own].setdefault(frozenset(tally.params.items()), [])
        group.append((tally.outcome, tally.fault, tally.count))
    return tuple(
        (dict(key), RateChange(now, FailureRate.of(counts[False].get(key, ()))))
        for key, outcomes in counts[True].items()
        if (now := FailureRate.of(outcomes)) is not None
    )


def release_before_run(snapshot: StoreSnapshot, head: RunHead) -> str | None:
    """The release measured before a run's own on its board.

    In a completed run of its kind that is not rejected.
    """
    series = BoardSeries.of(head)
    decisions = decisions_at(snapshot, series)
    others = [run for run in place(runs_at(snapshot, series), head) if decisions.get(run.id) != REJECTED]
    return release_before([run.release for run in others], head.release)


def window(before: Sequence[RunHead], decisions: Mapping[int, str]) -> list[RunHead]:
    """The earlier runs from the last accepted one on, oldest first."""
    accepted = [index for index, run in enumerate(before) if decisions.get(run.id) == ACCEPTED]
    return list(before[accepted[-1] :] if accepted else before)


def judge(
    snapshot: StoreSnapshot,
    head: RunHead,
    before: Sequence[RunHead],
    references: Sequence[RunHead],
    against: str,
    model: NoiseModel | None = None,
    averages: dict[int, list[Average]] | None = None,
) -> JudgedRun:
    """Judge a run against some runs.

    Args:
        averages: of runs that were read already; gets those that are read now.
        before: runs whose spread is the noise, if they are enough.
        references: the compared runs, the oldest first.
    """
    model = model or noises.load()
    longest = model.history.longest
    most = longest * RUNS_BACK
    by_run = _read(snapshot, (*before[-longest:], *references[-longest:], head), {} if averages is None else averages)
    if not _enough(by_run, head, before, longest) or not _enough(by_run, head, references, longest):
        by_run = _read(snapshot, (*before[-most:], *references[-most:]), by_run)
    compared = _by_key(by_run, references[-most:])
    own = by_run.get(head.id, ())
    judged = [average for average in own if model.of(average.metric.name, average.params).judged]
    history = _by_key(by_run, before[-most:])
    if head.kind == PUBLISHED:
        published = PublishedNumbers.of_runs(
            snapshot, {run.id: run for run in (*before[-most:], *references[-most:], head)}.values()
        )
        numbers = [
            _judge_published(
                average, history.get(average.key, ()), compared.get(average.key, ()), against, published, model
            )
            for average in judged
        ]
    else:
        numbers = [
            judge_number(average, history.get(average.key, ()), compared.get(average.key, ()), against, model)
            for average in judged
        ]
    last = references[-1:] if head.kind == PUBLISHED else references[-model.history.window :]
    had = [average for run in last for average in by_run.get(run.id, ())]
    flows = flows_of(average for run in references[-most:] for average in by_run.get(run.id, ()))
    explained = tuple(_explain(number, flows) for number in numbers)
    releases = tuple(dict.fromkeys(run.release for run in references[-model.history.window :]))
    return JudgedRun(head, against, explained, missing=_missing(own, had, model), releases=releases)


def read_run_averages(snapshot: StoreSnapshot, run_id: int) -> list[Average]:
    """A run's numbers, without parameters of the test."""
    model = noises.load()
    by_run = _read(snapshot, [head], {}) if (head := run_head(snapshot, run_id)) else {}
    return [average for average in by_run.get(run_id, ()) if model.of(average.metric.name, average.params).judged]


def _missing(own: Sequence[Average], had: Iterable[Average], model: NoiseModel) -> tuple[Average, ...]:
    """Numbers of earlier runs that this run lacks.

    A number with a new definition is not missing; boots of another flow have a remark.
    """
    flows = flows_of(own)
    measured = {(average.metric.name, frozenset(average.params.items())) for average in own}
    last = {(average.metric.name, frozenset(average.params.items())): average for average in had}
    gone = (average for key, average in last.items() if key not in measured)
    return tuple(
        sorted(
            (
                average
                for average in gone
                if model.of(average.metric.name, average.params).judged and not another_flow(average, flows)
            ),
            key=lambda average: (average.metric.name, sorted(average.params.items())),
        )
    )


def _explain(number: JudgedNumber, flows: Flows) -> JudgedNumber:
    """Explain a number whose only baseline is of another flow."""
    why = "" if number.baseline else another_flow(number.average, flows)
    judgement = Judgement(Verdict.NOT_COMPARABLE, f"not compared: {why}", rule="flow")
    return evolve(number, judgement=judgement) if why else number


def _read(
    snapshot: StoreSnapshot, heads: Iterable[RunHead], known: dict[int, list[Average]]
) -> dict[int, list[Average]]:
    """The known averages, with those of these runs."""
    missing = sorted({run.id for run in heads} - known.keys())
    known.update({run_id: [] for run_id in missing})
    for average in snapshot.averages(missing):
        known[average.run_id].append(average)
    return known


def _enough(averages: Mapping[int, list[Average]], head: RunHead, runs: Sequence[RunHead], longest: int) -> bool:
    """True if the last runs have each number, or are all."""
    if len(runs) <= longest:
        return True
    counts = Counter(average.key for run in runs[-longest:] for average in averages.get(run.id, ()))
    return all(counts[average.key] >= longest for average in averages.get(head.id, ()))


def judge_number(
    average: Average, history: Sequence[Average], compared: Sequence[Average], against: str, model: NoiseModel
) -> JudgedNumber:
    """Judge one number against the same number of earlier runs."""
    bound = max([average.uncertainty, *_reach_of_one(average, history[-model.history.longest :])])
    new = of_average(average.metric, average.params, average.value, bound, f"run {average.run_id}")
    last = compared[-model.history.window :]
    if not last:
        return JudgedNumber(average, None, _nothing(average, new, against, model))
    longest = history[-model.history.longest :]
    noise = model.learn(
        model.of(average.metric.name, average.params),
        [past.value for past in longest],
        [past.uncertainty / abs(past.value) if past.value else 0.0 for past in longest],
        len(last),
    )
    baseline = Baseline(
        tuple(past.run_id for past in last),
        tuple(past.value for past in last),
        statistics.median(past.value for past in last),
        statistics.median(past.uncertainty for past in last),
    )
    old = of_average(average.metric, average.params, baseline.value, baseline.uncertainty, against)
    return JudgedNumber(average, baseline, compare(old, new, noise))


def _reach_of_one(average: Average, history: Sequence[Average]) -> list[float]:
    """The ± of a sample that is alone, by the scatter in earlier runs.

    It is empty where that is unknown, or the sample is not alone.
    """
    # The ± of a mean of n samples is that of one, divided by their root
    of_one = [past.uncertainty * math.sqrt(past.n) for past in history if past.n > 1]
    return [statistics.median(of_one)] if average.n == 1 and of_one else []


def _judge_published(
    average: Average,
    history: Sequence[Average],
    compared: Sequence[Average],
    against: str,
    published: PublishedNumbers,
    model: NoiseModel,
) -> JudgedNumber:
    """Judge a published number against the last guide, as `lab guide compare`.

    Args:
        history: the number in the runs before, the oldest release first, for remarks.
        compared: the last of them counts.
    """
    new = published.number(average)
    if not compared:
        return JudgedNumber(average, None, _nothing(average, new, against, model))
    old = compared[-1]
    release = published.releases
    before = [past for past in history if precedes(release[past.run_id], release[old.run_id])]
    numbers = [published.number(past) for past in before[-model.history.window :]]
    judgement = judge_release(numbers, published.number(old, against), new, model)
    return JudgedNumber(average, Baseline((old.run_id,), (old.value,), old.value, old.uncertainty), judgement)


def _nothing(average: Average, new: Number, against: str, model: NoiseModel) -> Judgement:
    return compare(Number(against, average.metric, average.params, None), new, model.default)


def _by_key(averages: Mapping[int, list[Average]], heads: Iterable[RunHead]) -> dict[object, list[Average]]:
    by_key: dict[object, list[Average]] = {}
    for head in heads:
        for average in averages.get(head.id, ()):
            by_key.setdefault(average.key, []).append(average)
    return by_key


_MOST_OF_WAY = 0.7  # share of one step in what crept
_SAME = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}


def judge_release(earlier: Sequence[Number], old: Number, new: Number, model: NoiseModel) -> Judgement:
    """Judge a number against the last release, with remarks on earlier ones.

    Earlier releases count only with numbers of the same definition, conditions and clock, and without suspect ones.
    They tell how much the number moves by itself, whether a change only goes back to where it was, and whether small
    changes of one direction have added up.

    Args:
        earlier: of the releases before `old`, the oldest first; may be empty.
    """
    usual = model.of(new.metric.name if new.metric else "", new.params)
    *like, last = [number if is_history(number, new, usual) else None for number in (*earlier, old)]
    history = [number for number in like if number is not None]
    noise = model.of_releases(usual, [number.value or 0.0 for number in (*history, *([last] if last else []))])
    judgement = compare(old, new, noise)
    if judgement.verdict.moved or judgement.verdict is Verdict.SUSPECT:
        for number in reversed(history):
            if compare(number, new, noise).verdict in _SAME:
                level = f"{number.value:g} {new.metric.unit if new.metric else ''}".strip()
                reason = f"{judgement.reason}; this only returns to the level of {number.source}, {level}"
                return evolve(judgement, reason=reason, returns_to=number.source)
        return judgement
    return (
        _detect_creep([*history, old], new, noise, judgement)
        if last and judgement.verdict is Verdict.NOISE
        else judgement
    )


def _detect_creep(before: Sequence[Number], new: Number, noise: Noise, judgement: Judgement) -> Judgement:
    """Detect a change that crept in by small steps of one direction."""
    if len(before) < 2:
        return judgement
    steps = [new]
    way = _difference(before[-1], new)
    for number in reversed(before):
        turns = not way or _difference(number, steps[0]) * way < 0
        if turns or compare(number, steps[0], noise).verdict.moved:
            break
        steps.insert(0, number)
    first = compare(steps[0], new, noise)
    if not first.verdict.moved or first.effect is None or _is_one_step(steps):
        return judgement
    change = f"{1 + first.effect:.2f} times {steps[0].source}, beyond noise, in steps that are none alone"
    reason = f"{judgement.reason}; {change}"
    return evolve(judgement, verdict=first.verdict, reason=reason, rule="crept", crept_from=steps[0].source)


def _is_one_step(steps: Sequence[Number]) -> bool:
    """True if most of a way is a single step, as behind an outlier: nothing crept."""
    way = [math.log(number.value) for number in steps if number.value and number.value > 0]
    moves = [abs(later - earlier) for earlier, later in itertools.pairwise(way)]
    return len(way) < len(steps) or max(moves) > _MOST_OF_WAY * sum(moves)


def _difference(one: Number, other: Number) -> float:
    return (other.value or 0.0) - (one.value or 0.0)


def document(judged: JudgedRun, notes: Sequence[str], numbers: Sequence[JudgedNumber]) -> dict[str, Any]:
    """A run's numbers with their judgements.

    Args:
        notes: on its label.
        numbers: the numbers to include.
    """
    return {
        "run": judged.head.id,
        "against": judged.against,
        "notes": list(notes),
        "numbers": [
            {
                "metric": number.average.metric.name,
                "version": number.average.metric.version,
                "params": dict(number.average.params),
                "unit": number.average.metric.unit,
                "value": number.average.value,
                "uncertainty": number.average.uncertainty,
                "n": number.average.n,
                "was": number.baseline.value if number.baseline else None,
                "was_uncertainty": number.baseline.uncertainty if number.baseline else None,
                "runs": list(number.baseline.runs) if number.baseline else [],
                "verdict": str(number.judgement.verdict),
                "effect": number.judgement.effect,
                "low": number.judgement.low,
                "high": number.judgement.high,
                "reason": number.judgement.reason,
            }
            for number in numbers
        ],
        "not_measured": [missing_document(average) for average in judged.missing],
    }


def missing_document(average: Average) -> dict[str, Any]:
    """A missing number with its last average."""
    return {
        "metric": average.metric.name,
        "version": average.metric.version,
        "params": dict(average.params),
        "unit": average.metric.unit,
        "was": average.value,
        "was_uncertainty": average.uncertainty,
        "run": average.run_id,
    }
