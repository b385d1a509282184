"""The power of a board that is off, idle and at full load, in virtual time; each state is verified."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.napping import Napper, napper
from support.playedrails import PlayedRails
from support.railbench import RailBench
from support.simruns import planned
from support.simtarget import SimClock

from lab.errors import BoardlabError
from lab.metrics import Flag
from lab.results import Attempt, Store, open_store
from lab.results.listing import overview
from lab.run.lowpower import KIND, LowPowerRun
from lab.run.progress import Progress
from lab.virtual.rails.levels import BUSY, IDLE, OFF

BOARD, SECONDS = "am62xx_lp_sk", 2
PLAYED = {"off": OFF, "idle": IDLE, "full_load": BUSY}


@pytest.fixture
def board() -> Iterator[Napper]:
    with napper(BOARD) as board:
        board.strategy.rails = PlayedRails(board.strategy.target, None, bench=RailBench(BOARD), seconds=SECONDS + 0.5)
        yield board


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def measured(board: Napper, store: Store, state: str, retries: int = 0) -> tuple[list[Attempt], list[str]]:
    """The attempts of a run of one cycle, and what was told."""
    board.strategy.rails.plays = PLAYED[state]
    plan = {"cycles": 1, "modes": [state], "wake": "rtc", "sleep_s": SECONDS, "medium": "sd"}
    run = store.begin_run(KIND, BOARD, "sim-1", "", plan=plan, provenance={})
    clock, told = SimClock(board.lab), list[str]()
    made = LowPowerRun(
        store, run, board.strategy, Progress(told.append, clock, 1), clock, board.strategy.sleep, retries
    )
    with contextlib.suppress(BoardlabError):
        made.measure(state)
        assert (made.pending(state), made.missing(state)) == ([], [])
    assert overview(store, run.id).failure_rates == {}, "a state is no suspend"
    return list(store.attempts(run.id)), told


@pytest.mark.parametrize("state", PLAYED)
def test_a_state_has_the_power_of_each_rail_and_its_temperature(board: Napper, store: Store, state: str) -> None:
    (attempt,), told = measured(board, store, state)
    assert attempt.outcome == "ok", attempt.message
    true_mw = {rail: watts * 1e3 for rail, watts in board.strategy.rails.bench.watts(PLAYED[state]).items()}
    rails = {s.params["rail"]: s for s in attempt.samples if s.metric == f"lpm.{state}.power_rail"}
    assert "vdd_core" in rails
    for rail, sample in rails.items():
        assert abs(sample.value - true_mw.get(rail, 0.0)) <= sample.uncertainty
        assert sample.flags == {Flag.SIMULATED}
    (total,) = (s for s in attempt.samples if s.metric == f"lpm.{state}.power_total")
    assert abs(total.value - sum(true_mw.values())) <= total.uncertainty
    assert attempt.artifact("power-trace") is not None
    details = attempt.details["state"]
    if state == "off":
        assert (details["busy"], details["temperatures_c"]) == ([], {})
        assert board.lab.board.stage == "off"
    else:
        assert details["temperatures_c"] == {"thermal_zone0": 45.312}
        assert told[-1].endswith("45.3 °C (thermal_zone0)")
        assert len(details["busy"]) == 4
        assert total.params.get("program", "") == details["program"] == ("stress-ng" if state == "full_load" else "")
        assert all((share > 0.9) == (state == "full_load") for share in details["busy"])


def test_a_load_that_ends_early_and_a_board_that_does_not_idle_give_no_number(board: Napper, store: Store) -> None:
    board.lab.board.troubles_for = lambda _cycle: [
        planned("program_interrupted", words="stress-ng", share=0.4).fault(1)
    ]
    (attempt,), _ = measured(board, store, "full_load")
    assert (attempt.outcome, attempt.fault, list(attempt.samples)) == ("wrong_load", "board", [])


def test_a_board_that_works_on_is_not_idle(board: Napper, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    board.strategy.transition("linux")
    kernel = board.kernel
    monkeypatch.setattr(
        type(kernel), "busy_ns", property(lambda self: self.clock_ns // 5, lambda *_: None), raising=False
    )
    (attempt,), _ = measured(board, store, "idle")
    assert (attempt.outcome, list(attempt.samples)) == ("wrong_load", [])
    assert "busy for 20%" in attempt.message


def test_rails_of_a_board_that_is_off_are_off(board: Napper, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLAYED, "off", IDLE)
    (attempt,), _ = measured(board, store, "off")
    assert (attempt.outcome, list(attempt.samples)) == ("rails_up", [])
    assert not missing_facts(attempt.message, "board is off", "vdd_core 0.7")


def test_each_suspend_has_the_temperatures_before_and_after(board: Napper, store: Store) -> None:
    board.strategy.rails = None
    plan = {"cycles": 1, "modes": ["deep_sleep"], "wake": "rtc", "sleep_s": 5, "medium": "sd"}
    run = store.begin_run(KIND, BOARD, "sim-1", "", plan=plan, provenance={})
    clock = SimClock(board.lab)
    LowPowerRun(
        store, run, board.strategy, Progress(lambda _line: None, clock, 1), clock, board.strategy.sleep, 0
    ).measure("deep_sleep")
    (attempt,) = store.attempts(run.id)
    zone = {"thermal_zone0": 45.312}
    assert attempt.details["suspend"]["temperatures_c"] == {"before": zone, "after": zone}
    assert attempt.samples[0].flags == {Flag.SIMULATED}
