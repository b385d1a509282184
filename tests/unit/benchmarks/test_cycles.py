"""Cycles are retried after transient errors only, within a bound, and every attempt is recorded."""

from __future__ import annotations

import pytest

from lab.benchmarks.cycles import AWAY_BACKOFF_S, AWAY_S, CycleAttempt, run_cycles
from lab.errors import BoardlabError, BoardTransientError, LabStableError, LabTransientError


class Script:
    """Plays one outcome per attempt: a number is a result, an error is raised."""

    def __init__(self, *outcomes: int | BoardlabError) -> None:
        self.outcomes = list(outcomes)
        self.recorded: list[CycleAttempt[int]] = []
        self.slept: list[float] = []

    def measure(self, _cycle: int, _number: int) -> int:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BoardlabError):
            raise outcome
        return outcome

    def run(self, cycles: range, retries: int) -> None:
        run_cycles(cycles, self.measure, self.recorded.append, retries=retries, sleep=self.slept.append)


def test_each_cycle_gives_one_result() -> None:
    script = Script(10, 20, 30)
    script.run(range(1, 4), retries=2)
    assert [(a.cycle, a.number, a.result) for a in script.recorded] == [(1, 1, 10), (2, 1, 20), (3, 1, 30)]


def test_a_transient_failure_is_recorded_and_retried() -> None:
    hang = BoardTransientError("hung", failure="hang_kernel")
    script = Script(hang, hang, 10, 20)
    script.run(range(1, 3), retries=2)
    assert [(a.cycle, a.number, a.result, a.error) for a in script.recorded] == [
        (1, 1, None, hang),
        (1, 2, None, hang),
        (1, 3, 10, None),
        (2, 1, 20, None),
    ]
    assert script.slept == [0.0, 2.0]


@pytest.mark.parametrize("failure", ["exporter_gone", "console_link", "port_missing"])
def test_a_host_that_boots_uses_up_no_retries(failure: str) -> None:
    away = LabTransientError("its host is down", failure=failure)
    hang = BoardTransientError("hung", failure="hang_kernel")
    script = Script(hang, away, away, away, away, hang, 10)
    script.run(range(1, 2), retries=2)
    assert script.slept == [0.0, 5.0, 20.0, 40.0, 40.0, 2.0]
    assert [attempt.number for attempt in script.recorded] == list(range(1, 8))
    assert [attempt.again for attempt in script.recorded] == [*[True] * 6, False]


def test_a_host_that_stays_away_is_given_up_after_five_minutes() -> None:
    script = Script(*[LabTransientError("its host is down", failure="port_missing")] * 99)
    with pytest.raises(LabTransientError):
        script.run(range(1, 3), retries=2)
    assert AWAY_S - max(AWAY_BACKOFF_S) < sum(script.slept) <= AWAY_S
    assert not script.recorded[-1].again


def test_without_retries_a_host_that_is_away_is_not_waited_for() -> None:
    script = Script(LabTransientError("its host is down", failure="port_missing"), 10)
    with pytest.raises(LabTransientError):
        script.run(range(1, 2), retries=0)
    assert script.slept == []


def test_retries_end() -> None:
    script = Script(*[BoardTransientError("hung")] * 3, 99)
    with pytest.raises(BoardTransientError):
        script.run(range(1, 3), retries=2)
    assert len(script.recorded) == 3
    assert script.outcomes == [99]


def test_a_stable_failure_is_not_retried() -> None:
    script = Script(10, LabStableError("relay stuck"), 99)
    with pytest.raises(LabStableError):
        script.run(range(1, 4), retries=5)
    assert [a.cycle for a in script.recorded] == [1, 2]
