"""The judge on failure rates: evidence that a board fails more or less often, added up over nights.

Each night may be the first of a change. Its e-value is the likelihood of all boots under "one rate before it, another
rate since", averaged over priors of both, by the highest likelihood under one constant rate (universal inference:
Wasserman, Ramdas, Balakrishnan, PNAS 117, 2020). Their sum is an e-detector (Shin, Ramdas, Rinaldo, "E-detectors", New
England Journal of Statistics in Data Science 2, 2024): by Ville's inequality it reaches 1 / SURE within T nights of a
constant rate with a chance of at most T x SURE, however often it is looked at, and whatever the rate is. Reruns need no
correction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from attrs import frozen

from lab.judge.baseline import earlier, window
from lab.judge.history.model import Floats, Ints
from lab.judge.records import UNSURE, NewVerdict, OutcomeName
from lab.metrics import Metric
from lab.metrics.catalogue import STATES
from lab.metrics.rates import FAILED, HINT, RATES, SURE, FailureRate
from lab.results.history import Item, item_of
from lab.results.series import BoardSeries, decisions_at, run_head, runs_at
from lab.results.snapshot import StoreSnapshot

# Beta priors, by which alone the delays are better or worse: no prior can break the bound.
_GOOD: Final = (0.2, 20.0)  # of the lower rate: mostly below 1 %
_BAD: Final = (1.0, 10.0)  # of the higher one: some 10 %, at a wide range
_LOOK_BACK: Final = 366  # nights with which a change may begin; as for numbers, the last year


@frozen
class RateState:
    """The evidence after a night.

    Attributes:
        direction: 1: the rate rose, -1: it fell, for sure; 0: neither.
        is_doubtful: a rise is likely and not sure, and an attempt of the night failed; more attempts would tell.
        since: index of the likeliest first night.
        before, now: the rates before it and since then; None: nothing moved.
    """

    direction: int = 0
    is_doubtful: bool = False
    since: int = 0
    before: FailureRate | None = None
    now: FailureRate | None = None


def rate_states(nights: Sequence[FailureRate]) -> list[RateState]:
    """The state after each night, oldest first; a called change begins the comparison anew."""
    failed = np.cumsum([0, *(night.failed for night in nights)])
    tried = np.cumsum([0, *(night.tried for night in nights)])
    tables = _Tables(int(tried[-1]) + 1)
    states, base = [RateState() for _ in nights], 0
    for t in range(1, len(nights)):
        if failed[t + 1] == failed[base]:
            continue
        firsts = np.arange(max(base + 1, t + 1 - _LOOK_BACK), t + 1)
        rises, falls = tables.values(failed, tried, base, firsts, t + 1)
        evidence = rises.sum()
        direction = 1 if evidence >= 1 / SURE else -1 if falls.sum() >= 1 / SURE else 0
        is_doubtful = bool(not direction and evidence >= 1 / HINT and nights[t].failed > 0)
        if direction or is_doubtful:
            first = int(firsts[(falls if direction < 0 else rises).argmax()])
            was = FailureRate(int(failed[first] - failed[base]), int(tried[first] - tried[base]))
            now = FailureRate(int(failed[t + 1] - failed[first]), int(tried[t + 1] - tried[first]))
            states[t] = RateState(direction, is_doubtful, first, was, now)
            base = first if direction else base
    return states


class _Tables:
    """Logarithms of rising factorials and of counts, up to a number of attempts."""

    def __init__(self, most: int) -> None:
        counts = np.arange(most, dtype=np.float64)
        self._rising = {
            start: np.concatenate([[0.0], np.cumsum(np.log(start + counts))])
            for start in {*_GOOD, *_BAD, sum(_GOOD), sum(_BAD)}
        }
        self._counts = np.concatenate([[0.0], counts[1:] * np.log(counts[1:])])  # n log n

    def values(self, failed: Ints, tried: Ints, base: int, firsts: Ints, end: int) -> tuple[Floats, Floats]:
        """E-values of a rise and of a fall with each of these first nights."""
        old_failed, old_tried = failed[firsts] - failed[base], tried[firsts] - tried[base]
        new_failed, new_tried = failed[end] - failed[firsts], tried[end] - tried[firsts]
        all_failed, all_tried = failed[end] - failed[base], tried[end] - tried[base]
        # The highest log likelihood of one rate.
        same = self._counts[all_failed] + self._counts[all_tried - all_failed] - self._counts[all_tried]
        with np.errstate(over="ignore"):
            rise = np.exp(self._mean(_GOOD, old_failed, old_tried) + self._mean(_BAD, new_failed, new_tried) - same)
            fall = np.exp(self._mean(_BAD, old_failed, old_tried) + self._mean(_GOOD, new_failed, new_tried) - same)
        way = new_failed * old_tried - old_failed * new_tried
        return np.where(way > 0, rise, 0.0), np.where(way < 0, fall, 0.0)

    def _mean(self, prior: tuple[float, float], failed: Ints, tried: Ints) -> Floats:
        """Log likelihood, averaged over a Beta prior."""
        bad, good = prior
        mean: Floats = self._rising[bad][failed] + self._rising[good][tried - failed] - self._rising[bad + good][tried]
        return mean


def judge_rates(snapshot: StoreSnapshot, night: Sequence[int]) -> list[NewVerdict]:
    """Verdicts on failure rates that moved, or may have risen.

    A night without a good attempt is no rate but a standing failure.

    Args:
        night: ids of a run and those that confirm it.
    """
    head = run_head(snapshot, night[0])
    if head is None or head.kind not in RATES:
        return []
    series = BoardSeries.of(head)
    decisions = decisions_at(snapshot, series)
    before = window(earlier(runs_at(snapshot, series), head, decisions), decisions)
    ids = [*(run.id for run in before if run.id not in night), *night]
    verdicts = []
    for params, nights in _nights(snapshot, ids, night).items():
        first_runs, rates = list(nights), list(nights.values())
        if first_runs[-1:] == [night[0]]:
            verdict = _verdict(RATES[head.kind], params, rate_states(rates)[-1], first_runs, len(night) - 1)
            verdicts += [verdict] if verdict else []
    return verdicts


def _nights(
    snapshot: StoreSnapshot, ids: Sequence[int], last: Sequence[int]
) -> Mapping[Item, Mapping[int, FailureRate]]:
    """The rate of each night by its first run, by parameters; simulated boards apart."""
    provenances = dict(snapshot.provenances(ids))
    is_virtual = provenances.get(last[0], {}).get("virtual") is True
    first_run = dict.fromkeys(last, last[0])
    for run_id in ids:
        asked_by = provenances.get(run_id, {}).get("confirms", run_id)
        first_run.setdefault(run_id, first_run.get(asked_by, run_id))
    outcomes: dict[Item, dict[int, list[tuple[str, str | None, int]]]] = {}
    order = {run_id: place for place, run_id in enumerate(ids)}
    for tally in sorted(snapshot.tallies(ids), key=lambda tally: order[tally.run_id]):
        same_kind = (provenances.get(tally.run_id, {}).get("virtual") is True) == is_virtual
        if same_kind and tally.params.get("mode") not in STATES:
            of_params = outcomes.setdefault(item_of(tally.params), {})
            counts = (tally.outcome, tally.fault, tally.count)
            of_params.setdefault(first_run[tally.run_id], []).append(counts)
    return {
        params: {
            run_id: rate
            for run_id, counts in of_params.items()
            if (rate := FailureRate.of(counts)) is not None and (rate.failed < rate.tried or rate.tried == 1)
        }
        for params, of_params in outcomes.items()
    }


def _verdict(
    metric: Metric, params: Item, state: RateState, first_runs: Sequence[int], reruns: int
) -> NewVerdict | None:
    if state.now is None or state.before is None:
        return None
    called: dict[int, OutcomeName] = {1: "regression", 0: UNSURE, -1: "improvement"}
    about: dict[str, Any] = {"metric": metric.name, "version": metric.version, "params": dict(params)}
    if state.direction:
        change = state.now.percent / state.before.percent - 1 if state.before.failed else None
        about |= {"direction": state.direction, "since_run": first_runs[state.since], "effect": change}
    return NewVerdict(
        **about,
        outcome=called[state.direction],
        n=state.now.tried,
        reruns=reruns,
        differs={FAILED: (state.before.share, state.now.share)},
    )
