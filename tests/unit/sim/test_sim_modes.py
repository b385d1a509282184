"""Every low-power mode of every board type, on simulated boards in virtual time, with the faults of the way down and back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from support.napping import Napper, kernel_error, napper
from support.railbench import RailBench
from support.simruns import planned
from support.simtarget import SimClock

from lab import boards
from lab.benchmarks.lowpower.modes import SuspendPlan, woken_by
from lab.benchmarks.lowpower.power import off
from lab.errors import BoardlabError, BoardTransientError
from lab.metrics import Flag
from lab.rails import AdcRange, Trace
from lab.rails.phase import cut
from lab.results import Attempt, open_store
from lab.results.listing import overview
from lab.run.lowpowerrun import KIND, LowPowerRun
from lab.run.progress import Progress
from lab.virtual.sim.linux.sleep import Sleeper
from lab.virtual.sim.model import simulated

SLEEP_S = 5
MODES = [
    (name, mode, wake)
    for name in simulated()
    for mode in boards.load(name).sleep
    for wake in woken_by(boards.load(name), mode)
    if not (boards.load(name).low_power.modes[mode].boots or wake == "wkup")
]
BOOTED = [
    (name, mode, wake)
    for name in simulated()
    for mode in boards.load(name).sleep
    for wake in woken_by(boards.load(name), mode)
    if boards.load(name).low_power.modes[mode].boots
]
# One of each kind: by a key, by a pin through the loaders, by the RTC through BL1.
KINDS = [
    ("am62xx_sk", "deep_sleep", "uart"),
    ("am62xx_sk", "deep_sleep", "rtc"),
    ("am62pxx_sk", "io_ddr", "can"),
    ("am62lxx_evm", "rtc_io_ddr", "rtc"),
]


def at_length(values: object) -> ParameterSet:
    """A case of the long form."""
    return pytest.param(*(values if isinstance(values, tuple) else (values,)), marks=pytest.mark.soak)


def set_jumpers(board: Napper) -> None:
    modes = board.strategy.type.low_power.modes.values()
    board.strategy.jumpers = [mode.jumper for mode in modes if mode.jumper]


@pytest.mark.parametrize(
    ("board_type", "mode", "wake"), [*KINDS, *map(at_length, [m for m in MODES if m not in KINDS])]
)
def test_a_mode_is_entered_verified_and_left_by_each_of_its_wake_up_sources(
    board_type: str, mode: str, wake: str
) -> None:
    with napper(board_type) as board:
        set_jumpers(board)
        done = board.strategy.low_power.cycle(SuspendPlan(mode, wake, SLEEP_S))
        assert done.flags == frozenset()
        assert kernel_error(done, board.wakeups()[0]) <= 1
        assert board.lab.board.cycle == 1, "it resumed"
        firmware = board.strategy.type.low_power.woken
        assert done.log.woken_by == (firmware.get(done.log.wake_source, "") if done.log.wake_source else "")
        again = board.strategy.low_power.cycle(SuspendPlan("deep_sleep", "rtc", SLEEP_S))
        assert again.flags == frozenset(), "what the mode needed is put back, so the next one is reached, too"


def measured(board: Napper, folder: Path, mode: str, wake: str) -> Attempt:
    """The only attempt of a run of one cycle."""
    plan = {"cycles": 1, "modes": [mode], "wake": wake, "sleep_s": SLEEP_S, "medium": "sd"}
    with open_store(f"sqlite:///{folder / 'results.db'}") as store:
        run = store.begin_run(KIND, board.strategy.type.name, "sim-1", "", plan=plan, provenance={})
        clock = SimClock(board.lab)
        made = LowPowerRun(
            store, run, board.strategy, Progress(lambda _line: None, clock, 1), clock, board.strategy.sleep, 0
        )
        with suppress(BoardlabError):  # the attempt says why
            made.measure(mode)
        (attempt,) = store.attempts(run.id)
        return attempt


@pytest.mark.parametrize(("board_type", "mode", "wake"), [BOOTED[0], *map(at_length, BOOTED[1:])])
def test_a_mode_that_is_left_by_a_boot_is_timed_from_its_wake_up(
    tmp_path: Path, board_type: str, mode: str, wake: str
) -> None:
    with napper(board_type) as board:
        set_jumpers(board)
        attempt = measured(board, tmp_path, mode, wake)
        assert attempt.outcome == "ok", attempt.message
        (sample,) = attempt.samples
        assert sample.flags == {Flag.SIMULATED}
        assert sample.metric == f"lpm.{mode}.resume_wake_to_prompt"
        asleep = [t_ns for t_ns, text in board.notes if f"stage={mode.replace('_', '-')}" in text]
        woken = next(t_ns for t_ns, text in board.notes if "stage=rom" in text and t_ns > asleep[0])
        prompt = board.lab.ports[board.lab.console].sent[-1]
        assert prompt is not None
        assert sample.uncertainty < (1100 if wake == "rtc" else 10), "the RTC's alarm is known to a second"
        assert 10_000 < sample.value < 40_000
        assert board.lab.board.cycle == 1
        assert woken > asleep[0]


@pytest.mark.parametrize(("board_type", "mode", "wake"), [KINDS[2], *map(at_length, [KINDS[0], *KINDS[1::2]])])
@pytest.mark.parametrize("fault", ["wakes_at_once", "wakes_by_boot", "ddr_lost", "hung_resume", "early_wake"])
def test_a_fault_of_the_way_back_has_its_class_in_each_mode(fault: str, board_type: str, mode: str, wake: str) -> None:
    expected = {"wakes_at_once": "early_wake", "wakes_by_boot": "woke_by_boot", "ddr_lost": "memory_lost"}
    with napper(board_type) as board:
        set_jumpers(board)
        board.lab.board.troubles_for = lambda cycle: [planned(fault).fault(cycle)] if cycle == 1 else []
        with pytest.raises(BoardTransientError) as raised:
            board.strategy.low_power.cycle(SuspendPlan(mode, wake, SLEEP_S))
        assert raised.value.failure == expected.get(fault, fault)
        board.strategy.low_power.cycle(SuspendPlan(mode, wake, SLEEP_S))
        assert board.lab.board.cycle == 2


@pytest.mark.parametrize("seconds", [240.0, at_length(-240.0), at_length(600.0)])
@pytest.mark.parametrize(("board_type", "mode", "wake"), KINDS[2:])
def test_an_rtc_that_is_off_by_minutes_is_flagged_or_its_alarm_is_no_wake_up(
    board_type: str, mode: str, wake: str, seconds: float
) -> None:
    with napper(board_type) as board:
        set_jumpers(board)
        board.lab.board.troubles_for = lambda cycle: [planned("rtc_off", seconds=seconds).fault(cycle)]
        if wake == "rtc" or (
            mode == "deep_sleep" and seconds > 0
        ):  # its alarm, also the one for safety, comes at once
            with pytest.raises(BoardTransientError) as raised:
                board.strategy.low_power.cycle(SuspendPlan(mode, wake, SLEEP_S))
            assert raised.value.failure == ("early_wake" if seconds > 0 else "hung_resume")
        else:
            done = board.strategy.low_power.cycle(SuspendPlan(mode, wake, SLEEP_S))
            assert done.rtc_off_s == pytest.approx(seconds, abs=2)
            assert done.flags == {Flag.CLOCK_DISAGREES}
            assert kernel_error(done, board.wakeups()[0]) <= 1, "the resume is right nevertheless"


@pytest.mark.parametrize(
    ("board_type", "mode", "wake", "fault", "failure"),
    [
        ("am62lxx_evm", "rtc_only", "rtc", "wakes_at_once", "wrong_sleep_mode"),
        ("am62pxx_sk", "partial_io", "can", "wakes_at_once", "wrong_sleep_mode"),
        ("am62lxx_evm", "rtc_only", "rtc", "rtc_off", "wrong_sleep_mode"),
    ],
)
def test_a_mode_that_is_left_by_a_boot_and_was_not_reached_gives_no_number(
    tmp_path: Path, board_type: str, mode: str, wake: str, fault: str, failure: str
) -> None:
    with napper(board_type) as board:
        set_jumpers(board)
        board.lab.board.troubles_for = lambda cycle: [planned(fault).fault(cycle)]
        attempt = measured(board, tmp_path, mode, wake)
        assert (attempt.outcome, list(attempt.samples)) == (failure, [])


def test_an_rtc_that_lost_its_time_while_the_board_was_off_proves_no_rtc_only(tmp_path: Path) -> None:
    with napper("am62lxx_evm") as board:
        set_jumpers(board)
        asked = board.strategy.asked

        def lost(questions: Sequence[str]) -> tuple[int, list[list[str]]] | None:
            board.lab.board.computer.wall_jump_s -= 3600  # type: ignore[union-attr]
            return asked(questions)

        board.strategy.asked = lost
        attempt = measured(board, tmp_path, "rtc_only", "rtc")
        assert (attempt.outcome, list(attempt.samples)) == ("rtc_lost", [])


def test_a_wake_up_source_that_is_left_makes_another_mode_of_it_and_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with napper("am62pxx_sk") as board:
        set_jumpers(board)
        monkeypatch.setattr(Sleeper, "_allowed", lambda _self, _name: False)
        with pytest.raises(BoardTransientError, match="deep_sleep") as raised:
            board.strategy.low_power.cycle(SuspendPlan("io_ddr", "can", SLEEP_S))
        assert raised.value.failure == "wrong_sleep_mode"


# --- Many suspends ---


def test_modes_at_random_go_on_after_failures_and_give_each_mode_its_rate(tmp_path: Path) -> None:
    cycles = 8
    plan = {"cycles": cycles, "modes": ["deep_sleep", "mcu_only"], "wake": "rtc", "sleep_s": 2, "medium": "sd"}
    with napper() as board, open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        # After each failure the board is power-cycled: every second power-on hangs in its first resume.
        board.lab.board.troubles_for = lambda cycle: [planned("hung_resume").fault(cycle)] if cycle % 2 else []
        clock = SimClock(board.lab)
        run = store.begin_run(KIND, "am62xx_sk", "sim-1", "11.01", plan={**plan, "shuffle": True}, provenance={})
        made = LowPowerRun(
            store, run, board.strategy, Progress(lambda _line: None, clock, 1), clock, board.strategy.sleep, 0
        )
        with pytest.raises(BoardTransientError):
            made.measure("deep_sleep")
        attempts = store.attempts(run.id)
        modes = [attempt.params["mode"] for attempt in attempts]
        assert len(modes) == 2 * cycles, "each cycle was tried once, whatever became of those before"
        assert modes != sorted(modes), "in one order of chance"
        outcomes = {attempt.outcome for attempt in attempts}
        assert outcomes == {"ok", "hung_resume"}
        rates = overview(store, run.id).failure_rates
        assert {dict(key)["mode"]: rate.tried for key, rate in rates.items()} == {
            "deep_sleep": cycles,
            "mcu_only": cycles,
        }
        assert sum(rate.failed for rate in rates.values()) == sum(a.outcome != "ok" for a in attempts) > 0


# --- A rail that stays up ---


def asleep(path: Path, board_type: str, mode: str, *faults: str) -> tuple[RailBench, Trace, tuple[int, int]]:
    bench = RailBench(board_type)
    bench.troubles += [planned(fault).fault(1) for fault in faults]
    ((_, start_ns, end_ns),) = bench.record(path, AdcRange.ACTIVE, (mode, 1.0))
    return bench, Trace.open(path), (start_ns, end_ns)


@pytest.mark.parametrize(
    ("board_type", "mode"),
    [
        ("am62dxx_evm", "io_ddr"),
        ("am62lxx_evm", "rtc_io_ddr"),
        ("am62lxx_evm", "rtc_only"),
        ("am62xx_sk", "partial_io"),
    ],
)
def test_a_rail_that_a_mode_switches_off_and_that_stays_up_is_refused(
    tmp_path: Path, board_type: str, mode: str
) -> None:
    board = boards.load(board_type)
    _, trace, (start_ns, end_ns) = asleep(tmp_path / "good.trace", board_type, mode)
    off(cut(trace, start_ns, end_ns).rails, board, mode)
    _, trace, (start_ns, end_ns) = asleep(tmp_path / "bad.trace", board_type, mode, "rail_stays_up")
    with pytest.raises(BoardTransientError, match=r"vdd_core 0\.[78]") as raised:
        off(cut(trace, start_ns, end_ns).rails, board, mode)
    assert raised.value.failure == "rails_up"
