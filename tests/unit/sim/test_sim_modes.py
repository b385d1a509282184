"""Every low-power mode of every board type, on simulated boards in virtual time, with the faults of the way down and back."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from _pytest.mark.structures import ParameterSet
from attrs import define, field
from support.atlength import either
from support.napping import Napper, kernel_error, napper
from support.railbench import RailBench
from support.simruns import planned
from support.simtarget import SimClock

from lab import boards
from lab.benchmarks.lowpower.modes import SuspendPlan, woken_by
from lab.benchmarks.lowpower.power import off
from lab.errors import BoardlabError, BoardTransientError
from lab.failures import CATALOGUE
from lab.metrics import Flag, SampleRecord
from lab.rails import AdcRange, Trace
from lab.rails.phase import cut
from lab.results import Attempt, open_store
from lab.results.listing import overview
from lab.run.lowpower import KIND, LowPowerRun
from lab.run.progress import Progress
from lab.virtual.sim.computer import Computer
from lab.virtual.sim.faults.base import Fault, FaultOutcome
from lab.virtual.sim.faults.catalogue import FAULTS
from lab.virtual.sim.linux.sleep import Sleeper
from lab.virtual.sim.model import simulated
from lab.virtual.sim.program import Program
from lab.virtual.truth_log import Truth

SLEEP_S = 5
MODES = [
    (name, mode, wake)
    for name in simulated()
    for mode in boards.load(name).sleep
    for wake in woken_by(boards.load(name), mode)
    if not boards.load(name).low_power.modes[mode].boots
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

        def lost(*question: Any) -> tuple[int, list[str]] | None:
            board.lab.board.computer.wall_jump_s -= 3600  # type: ignore[union-attr]
            return asked(*question)

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


# --- All modes, all faults ---


SUSPENDS = {name: kind.outcome for name, kind in FAULTS.items() if kind.outcome.trial == "suspend"}
# What does not depend on the way back is of the usual wake-up source alone.
USUAL = [(name, mode) for name in simulated() for mode in boards.load(name).sleep]
MATRIX = [
    *((name, mode, fault) for name, mode in USUAL for fault in SUSPENDS),
    *((name, mode, fault) for name, mode, _ in KINDS[1:] for fault in FAULTS if fault not in SUSPENDS),
]
CHEAP = [
    ("am62lxx_evm", "rtc_io_ddr", "wakes_by_boot"),
    ("am62dxx_evm", "io_ddr", "rtc_off"),
    ("am62pxx_sk", "partial_io", "wakes_at_once"),
    ("am62pxx_sk", "mcu_only", "firmware_mode"),
    ("am62xx_sk", "deep_sleep", "garbled"),
]
# It is suspend-to-idle; a kernel before 6.12, and the AM62L's, print no number of the mode.
HARMLESS = {
    ("am62lxx_evm", "rtc_io_ddr", "mem_sleep_changed"),
    *((name, mode, "firmware_mode") for name, mode in USUAL if name in {"am62axx_sk", "am62lxx_evm"}),
}
# The other mode is not left by the wake-up source of the wanted one; or only a missing line tells them apart, and that is a flag.
OTHERWISE = {
    ("am62dxx_evm", "io_ddr", "mode_refused"): "hung_resume",
    ("am62lxx_evm", "deep_sleep", "mode_refused"): "hung_resume",
    ("am62lxx_evm", "rtc_io_ddr", "mode_refused"): "ok",
}


def is_true(board: Napper, sample: SampleRecord, mode: str) -> bool:
    """Return whether a number of the last, good cycle is within its ±."""
    truth = Truth(115200, board.lab.ports[board.lab.console].sent, 0, [])
    woken = [t_ns for t_ns, text in board.notes if " woken " in text]
    if sample.metric.endswith(".resume_kernel"):
        worked = [text.rpartition("planned_ns=")[2] for _, text in board.notes if "stage=resume " in text]
        true_ms = int(worked[-1]) / 1e6
    elif boards.load(board.strategy.type.name).low_power.modes[mode].boots:
        asleep = [t_ns for t_ns, text in board.notes if f"stage={mode.replace('_', '-')}" in text]
        woken_ns = next(t_ns for t_ns, text in board.notes if "stage=rom" in text and t_ns > asleep[-1])
        true_ms = (next(t_ns for t_ns in truth.find(rb" login: ") if t_ns > woken_ns) - woken_ns) / 1e6
    elif sample.metric.endswith(".resume_wake_to_prompt"):
        true_ms = (next(t_ns for t_ns in truth.find(rb"boardlab: back \d") if t_ns > woken[-1]) - woken[-1]) / 1e6
    else:
        return True
    return abs(sample.value - true_ms) <= sample.uncertainty


@pytest.mark.parametrize(
    ("board_type", "mode", "fault"), [*CHEAP, *map(at_length, [m for m in MATRIX if m not in CHEAP])]
)
def test_no_fault_in_any_mode_leaves_a_wrong_number_without_a_flag(
    tmp_path: Path, board_type: str, mode: str, fault: str
) -> None:
    wake = woken_by(boards.load(board_type), mode)[0]
    with napper(board_type) as board:
        set_jumpers(board)
        board.lab.board.troubles_for = lambda cycle: [planned(fault).fault(cycle)] if cycle == 1 else []
        (tmp_path / "fault").mkdir()
        attempt = measured(board, tmp_path / "fault", mode, wake)
        assert attempt.outcome == "ok" or attempt.outcome in CATALOGUE
        for sample in attempt.samples:
            assert sample.flags - {Flag.SIMULATED} or is_true(board, sample, mode), (sample, attempt.details)
        outcome = FAULTS[fault].outcome
        boots = boards.load(board_type).low_power.modes[mode].boots
        if fault in SUSPENDS and not boots and (board_type, mode, fault) not in HARMLESS:
            expected = OTHERWISE.get((board_type, mode, fault), "") or outcome.failures or ("ok",)
            assert attempt.outcome in expected or fault == "rtc_off", attempt.message
            assert (
                attempt.outcome != "ok"
                or not outcome.failures
                or all(sample.flags - {Flag.SIMULATED} for sample in attempt.samples)
            ), "it is flagged"
        if outcome.trial == "off":
            return  # it strikes when the board is switched off, below
        # Without it the next cycle is good, whatever the fault left behind.
        board.lab.switch("off")
        board.lab.run_for(10**9)
        board.strategy.force("unknown")
        board.lab.board.clear_troubles()
        board.lab.board.troubles_for = lambda _cycle: []
        (tmp_path / "good").mkdir()
        good = measured(board, tmp_path / "good", mode, wake)
        assert good.outcome == "ok", good.message
        assert all(is_true(board, sample, mode) for sample in good.samples)


# --- Many suspends ---


@define(kw_only=True, eq=False)
class WakesBySome(Fault):
    """Something wakes the board at once from some of its sleeps."""

    name: ClassVar[str] = "wakes_by_some"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("early_wake",), "board")
    share: float = 0.02
    struck: list[str] = field(factory=list)

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "suspend.asleep" and self.dice.random() < self.share:
            self.struck.append(computer.sleep)
            computer.wakes_in_ns = 0
        yield from ()


@pytest.mark.soak
def test_a_thousand_suspends_in_random_order_have_the_rate_of_failed_resumes_of_each_mode(tmp_path: Path) -> None:
    cycles, share = either(6, 250), either(0.2, 0.02)
    with napper("am62pxx_sk") as board, open_store(f"sqlite:///{tmp_path / 'results.db'}") as store:
        set_jumpers(board)
        fault = WakesBySome(dice=Random(41), share=share)
        board.lab.board.troubles_for = lambda _cycle: [fault]
        modes = board.strategy.type.sleep
        plan = {"cycles": cycles, "modes": modes, "wake": "can", "sleep_s": 1, "medium": "sd", "shuffle": True}
        run = store.begin_run(KIND, "am62pxx_sk", "sim-1", "12.00", plan=plan, provenance={})
        clock = SimClock(board.lab)
        made = LowPowerRun(
            store, run, board.strategy, Progress(lambda _line: None, clock, 1), clock, board.strategy.sleep, 0
        )
        with pytest.raises(BoardlabError):
            made.measure("deep_sleep")
        attempts = store.attempts(run.id)
        assert len(attempts) == len(modes) * cycles, "each cycle was tried once, whatever became of those before"
        assert {each.outcome for each in attempts} == {"ok", "early_wake"}
        failed = Counter(each.params["mode"] for each in attempts if each.outcome == "early_wake")
        assert failed == Counter(fault.struck)
        rates = {dict(key)["mode"]: rate for key, rate in overview(store, run.id).failure_rates.items()}
        for mode in modes:
            assert (rates[mode].tried, rates[mode].failed) == (cycles, failed[mode])
            low, high = rates[mode].interval_percent
            assert low <= 100 * (0 if mode == "partial_io" else share) <= high, rates[mode].text()


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
