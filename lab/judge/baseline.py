"""Judgement of a run's numbers against a baseline: the last runs that were not rejected, or those of a release.

The compared runs are of the same board, board type and kind, whatever their release. The compared numbers have the same
definition and parameters. Numbers of a virtual board are never compared with those of a real one.
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
# So many times as many runs are read as the noise is taken from: a number need not be in every run.
RUNS_BACK: Final = 3


@frozen
class Baseline:
    """The baseline of a number.

    Attributes:
        runs: ids of the compared runs, the oldest first.
        values: averages of these runs, in the same order.
        value: median of the averages.
        uncertainty: median of their ± at 95 %.
    """

    runs: tuple[int, ...]
    values: tuple[float, ...]
    value: float
    uncertainty: float


@frozen
class JudgedNumber:
    """A number of a run with its judgement; `baseline` None: there was nothing to compare it with."""

    average: Average
    baseline: Baseline | None
    judgement: Judgement


@frozen
class JudgedRun:
    """All numbers of a run with their judgements.

    Attributes:
        against: name of the baseline in sentences: "the last accepted runs", "release 11.00".
        is_accepted: True if a person has accepted the run.
        missing: last averages of the numbers that the compared runs have and this one lacks.
        rates: failure rate of the run beside that of the compared runs, each with its parameters.
        releases: releases of the compared runs, the oldest first.
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
        """The name of the baseline with its releases: `the last accepted runs (11.00, 11.01)`."""
        names_release = any(release in self.against for release in self.releases)
        return self.against if names_release or not self.releases else f"{self.against} ({', '.join(self.releases)})"

    def of(self, verdict: Verdict) -> list[JudgedNumber]:
        """Return the numbers with this verdict."""
        return [number for number in self.numbers if number.judgement.verdict is verdict]


def earlier(heads: Iterable[RunHead], head: RunHead, decisions: Mapping[int, str]) -> list[RunHead]:
    """Return the runs that may be a run's baseline, the oldest first.

    They are the earlier completed runs of the same board, kind and line of builds that were not rejected. For a
    published guide they are those of the earlier releases of its kernel, one of each, whenever they were imported.

    Args:
        decisions: run id -> last decision.
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
    """Return the completed runs of the same board, board type and kind."""
    series = (head.board, head.board_type, head.kind)
    return [run for run in heads if run.status == COMPLETED and (run.board, run.board_type, run.kind) == series]


def judge_run(snapshot: StoreSnapshot, run_id: int, against: str | None = None) -> JudgedRun:
    """Judge all numbers of a run.

    Args:
        against: a release, whose last runs on this board are the baseline. None: the last runs that were not rejected,
            from the last accepted one on.

    Raises:
        ConfigurationError: there is no such run, or no run of that release on its board.
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
    """Return the failure rates of a run beside those of all compared runs together, each with its parameters.

    Args:
        night: ids of the run and of those that confirm it, which count as one; empty: the run alone.
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
    """Return the release that was measured before a run's own on its board; None: there is none.

    Only completed runs of the same kind that were not rejected count.
    """
    series = BoardSeries.of(head)
    decisions = decisions_at(snapshot, series)
    others = [run for run in place(runs_at(snapshot, series), head) if decisions.get(run.id) != REJECTED]
    return release_before([run.release for run in others], head.release)


def window(before: Sequence[RunHead], decisions: Mapping[int, str]) -> list[RunHead]:
    """Return the earlier runs from the last accepted one on, the oldest first."""
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
    """Judge all numbers of a run against some runs.

    Args:
        before: runs whose spread gives the noise, the oldest first.
        references: compared runs, the oldest first.
        against: name of the references in sentences.
        model: the noise of metrics; None: the shipped one.
        averages: run id -> averages that were read before; those that are read now are added.
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
    earlier_averages = [average for run in last for average in by_run.get(run.id, ())]
    flows = flows_of(average for run in references[-most:] for average in by_run.get(run.id, ()))
    explained = tuple(_explain(number, flows) for number in numbers)
    releases = tuple(dict.fromkeys(run.release for run in references[-model.history.window :]))
    missing = _missing(own, earlier_averages, model)
    return JudgedRun(head, against, explained, missing=missing, releases=releases)


def read_run_averages(snapshot: StoreSnapshot, run_id: int) -> list[Average]:
    """Return the averages of a run's numbers, without numbers that are parameters of a test."""
    model = noises.load()
    by_run = _read(snapshot, [head], {}) if (head := run_head(snapshot, run_id)) else {}
    return [average for average in by_run.get(run_id, ()) if model.of(average.metric.name, average.params).judged]


def _missing(own: Sequence[Average], earlier_averages: Iterable[Average], model: NoiseModel) -> tuple[Average, ...]:
    """Return the last averages of the numbers that earlier runs have and this run lacks.

    A number with a new definition is not missing. Neither are boots of another flow: `remarks` names them.
    """
    flows = flows_of(own)
    measured = {(average.metric.name, frozenset(average.params.items())) for average in own}
    last = {(average.metric.name, frozenset(average.params.items())): average for average in earlier_averages}
    absent = (average for key, average in last.items() if key not in measured)
    return tuple(
        sorted(
            (
                average
                for average in absent
                if model.of(average.metric.name, average.params).judged and not another_flow(average, flows)
            ),
            key=lambda average: (average.metric.name, sorted(average.params.items())),
        )
    )


def _explain(number: JudgedNumber, flows: Flows) -> JudgedNumber:
    """Return a number with the reason, if it has no baseline because earlier boots took another flow."""
    why = "" if number.baseline else another_flow(number.average, flows)
    judgement = Judgement(Verdict.NOT_COMPARABLE, f"not compared: {why}", rule="flow")
    return evolve(number, judgement=judgement) if why else number


def _read(
    snapshot: StoreSnapshot, heads: Iterable[RunHead], averages: dict[int, list[Average]]
) -> dict[int, list[Average]]:
    """Add the averages of these runs to those that were read before, and return all."""
    unread = sorted({run.id for run in heads} - averages.keys())
    averages.update({run_id: [] for run_id in unread})
    for average in snapshot.averages(unread):
        averages[average.run_id].append(average)
    return averages


def _enough(averages: Mapping[int, list[Average]], head: RunHead, runs: Sequence[RunHead], longest: int) -> bool:
    """Return True if each of the last `longest` runs has all numbers of a run, or if there are no more runs."""
    if len(runs) <= longest:
        return True
    counts = Counter(average.key for run in runs[-longest:] for average in averages.get(run.id, ()))
    return all(counts[average.key] >= longest for average in averages.get(head.id, ()))


def judge_number(
    average: Average, history: Sequence[Average], compared: Sequence[Average], against: str, model: NoiseModel
) -> JudgedNumber:
    """Judge one number against the same number of earlier runs.

    Args:
        history: averages whose spread gives the noise, the oldest first.
        compared: averages of the references, the oldest first.
        against: name of the references in sentences.
    """
    bound = max([average.uncertainty, *_bound_of_single_sample(average, history[-model.history.longest :])])
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


def _bound_of_single_sample(average: Average, history: Sequence[Average]) -> list[float]:
    """Return the ± of an average of one sample, by the scatter of samples in earlier runs.

    Returns:
        One bound; empty if the average has several samples, or the scatter is unknown.
    """
    # The ± of a mean of n samples is that of one sample, divided by the root of n.
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
    """Judge a published number against the last guide before it, as `lab guide compare`.

    Args:
        history: the number in earlier guides, the oldest release first; they give remarks.
        compared: the number in the references; the last one counts.
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
    """Return the judgement of a number without references."""
    return compare(Number(against, average.metric, average.params, None), new, model.default)


def _by_key(averages: Mapping[int, list[Average]], heads: Iterable[RunHead]) -> dict[object, list[Average]]:
    """Group the averages of runs by what makes them comparable (`Average.key`), in the order of the runs."""
    by_key: dict[object, list[Average]] = {}
    for head in heads:
        for average in averages.get(head.id, ()):
            by_key.setdefault(average.key, []).append(average)
    return by_key


_MOST_OF_CHANGE = 0.7  # a change did not creep if a single step has more than this share of it
_SAME = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}


def judge_release(earlier: Sequence[Number], old: Number, new: Number, model: NoiseModel) -> Judgement:
    """Judge a number against that of the last release, with remarks on earlier ones.

    An earlier release counts only if its number has the same definition, conditions and clock, and is not suspect. The
    earlier ones show how much the number moves by itself, whether a change only returns to an earlier level, and
    whether small changes of one direction have added up.

    Args:
        earlier: numbers of the releases before `old`, the oldest first; may be empty.
    """
    usual = model.of(new.metric.name if new.metric else "", new.params)
    *comparable, last = [number if is_history(number, new, usual) else None for number in (*earlier, old)]
    history = [number for number in comparable if number is not None]
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
    """Judge a number anew that has moved by several small steps of one direction, none of them beyond noise.

    Args:
        before: numbers of earlier releases, the oldest first.
        judgement: its judgement against the last release, which is returned if nothing crept.
    """
    if len(before) < 2:
        return judgement
    steps = [new]
    direction = _difference(before[-1], new)
    for number in reversed(before):
        turns = not direction or _difference(number, steps[0]) * direction < 0
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
    """Return True if a single step is most of the change, as after an outlier: nothing crept then."""
    logs = [math.log(number.value) for number in steps if number.value and number.value > 0]
    moves = [abs(later - earlier) for earlier, later in itertools.pairwise(logs)]
    return len(logs) < len(steps) or max(moves) > _MOST_OF_CHANGE * sum(moves)


def _difference(before: Number, after: Number) -> float:
    return (after.value or 0.0) - (before.value or 0.0)


def document(judged: JudgedRun, notes: Sequence[str], numbers: Sequence[JudgedNumber]) -> dict[str, Any]:
    """Return a run's numbers with their judgements for JSON.

    Args:
        notes: remarks on the run's label.
        numbers: numbers of the run to include.
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
    """Return a missing number, with its last average, for JSON."""
    return {
        "metric": average.metric.name,
        "version": average.metric.version,
        "params": dict(average.params),
        "unit": average.metric.unit,
        "was": average.value,
        "was_uncertainty": average.uncertainty,
        "run": average.run_id,
    }
