"""`measure.moment`: the time to a line of one's own, by the stamps that time the boots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from support.facts import missing_facts
from support.simruns import SimBench, bench
from support.simtarget import SimClock

from lab.benchmarks.cycles import CycleAttempt
from lab.errors import BoardTransientError, ConfigurationError, LabTransientError, TestStableError
from lab.host.clock import Clock
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_TIME
from lab.metrics.lab_metrics import Declarations
from lab.pytest_plugin.labgridboard import NoConsole
from lab.run import measure as measuring
from lab.run.measure import Measure, MeasureRun
from lab.run.moment_sources import Answer, Signal
from lab.run.progress import Progress


@pytest.fixture(params=[1, 2, 3], ids=lambda seed: f"seed{seed}")
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SimBench]:
    with bench(tmp_path, seed=request.param) as found:
        yield found


@pytest.fixture
def runs(lab: SimBench) -> MeasureRun:
    plan = {"tests": ["test_own.py::test_ready"], "repeats": {}}
    run = lab.store.begin_run("measure", "am62xx_sk", "sim-1", "1", plan=plan, provenance={})
    clock = SimClock(lab.lab)
    return MeasureRun(lab.store, run, lab.strategy, Progress(lambda _line: None, clock, 1), clock, lambda _s: None, 0)


def network(answers: Callable[[], bool], _address: str, clock: Clock, since_ns: int, _pin: object) -> Signal:
    """A network that answers as told."""
    return Answer(answers, clock, since_ns)


@pytest.fixture
def measure(runs: MeasureRun) -> Measure:
    return runs.begin({})


def test_a_moment_of_the_guide_has_the_guides_number(lab: SimBench, measure: Measure) -> None:
    watch = lab.strategy.boot()
    guide = {sample.metric: sample for sample in watch.finish()}
    measure.moment("app.login", r"am62xx-evm login: ")
    measure.moment("app.after_the_kernel", r"am62xx-evm login: ", since=r"Starting kernel \.\.\.")
    power_on, kernel = measure.samples
    assert (power_on.value, power_on.uncertainty) == (
        guide[BOOT_POWER_ON.name].value,
        guide[BOOT_POWER_ON.name].uncertainty,
    )
    assert (kernel.value, kernel.uncertainty) == (guide[BOOT_TIME.name].value, guide[BOOT_TIME.name].uncertainty)
    (true,) = lab.true_boot_times_s()
    assert abs(kernel.value - true) <= kernel.uncertainty
    assert kernel.log_end == power_on.log_end == guide[BOOT_TIME.name].log_end
    assert [moment.name for moment in measure.moments[1:]] == [r"Starting kernel \.\.\.", r"am62xx-evm login: "]
    metric = kernel.declared
    assert metric is not None
    assert (metric.unit, metric.better, metric.resolution) == ("s", "lower", BOOT_TIME.resolution)


def test_a_line_behind_the_prompt_is_waited_for_from_the_first_call_on(lab: SimBench, measure: Measure) -> None:
    lab.strategy.transition("linux")
    lab.strategy.shell.run('echo application rea""dy')  # whose echo is not the line
    measure.moment("app.ready", "application ready")
    (ready,) = measure.samples
    shown = lab.strategy.console.captured()[: ready.log_end].splitlines()[-1]
    assert shown.endswith(b"application ready")
    lab.strategy.transition("off")
    lab.strategy.switch_on()
    measure.moment("app.spl", "U-Boot SPL", timeout_s=20)
    assert 0 < measure.samples[-1].value < 20


def test_a_block_is_timed_by_the_hosts_clock_and_one_that_fails_is_not(lab: SimBench, measure: Measure) -> None:
    lab.strategy.transition("linux")
    with measure.time("app.work", params={"size": "small"}):
        start_ns = lab.lab.now_ns
        lab.strategy.shell.run("sleep 2")
        took_s = (lab.lab.now_ns - start_ns) / 1e9
    (sample,) = measure.samples
    assert sample.value == pytest.approx(took_s, abs=1e-9)
    assert sample.value > 1
    assert sample.params == {"size": "small"}
    assert sample.declared is not None
    assert (sample.declared.unit, sample.declared.better, sample.declared.resolution) == ("s", "lower", 0.001)
    with pytest.raises(RuntimeError), measure.time("app.work", params={"size": "small"}):
        raise RuntimeError
    assert len(measure.samples) == 1


def test_the_power_is_confirmed_by_the_runs_other_boots_as_a_boots_is(lab: SimBench, runs: MeasureRun) -> None:
    test, flags = "test_own.py::test_ready", []
    for cycle in (1, 2, 3):
        measure = runs.begin({})
        lab.strategy.boot()
        if cycle == 3:
            assert lab.strategy.edge is not None
            lab.strategy.edge = evolve(lab.strategy.edge, off_verified=False)
        measure.moment("app.login", "login: ")
        measure.moment("app.since", "login: ", since="Starting kernel")
        runs.record(test, CycleAttempt(cycle, 1, measure, None), measure)
        flags.append([sample.flags & {Flag.OFF_UNVERIFIED, Flag.ON_UNVERIFIED} for sample in measure.samples])
    dark = {Flag.OFF_UNVERIFIED, Flag.ON_UNVERIFIED}  # a board that was silent before it was switched off
    assert flags == [[dark, set()], [{Flag.ON_UNVERIFIED}, set()], [{Flag.OFF_UNVERIFIED}, set()]]
    kept = lab.store.attempts(runs.run.id)
    assert [len(attempt.moments) for attempt in kept] == [3, 3, 3]
    assert {sample.metric for attempt in kept for sample in attempt.samples} == {"app.login", "app.since"}


@pytest.mark.parametrize("opens_s", [0.4, 3.0, 7.5])
def test_the_first_answer_of_the_network_is_between_the_last_try_that_failed_and_the_first_that_did_not(
    lab: SimBench, measure: Measure, monkeypatch: pytest.MonkeyPatch, opens_s: float
) -> None:
    lab.strategy.off()
    edge = lab.strategy.switch_on()

    def answers() -> bool:
        lab.lab.run_for(3_000_000)  # a try takes its time
        return bool(lab.lab.now_ns >= edge.acknowledged_ns + opens_s * 1e9)

    monkeypatch.setattr(measuring, "signal", partial(network, answers))
    measure.answer("app.http", "http://192.168.7.2/")
    (answer,) = measure.samples
    assert abs(answer.value - opens_s) <= answer.uncertainty < 0.05
    assert answer.declared is not None
    assert not missing_facts(answer.declared.definition, "power on", "first answer", "http://192.168.7.2/")


def test_a_board_that_answered_before_the_first_try_has_no_sure_number(
    lab: SimBench, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.strategy.boot()
    monkeypatch.setattr(measuring, "signal", partial(network, lambda: True))
    measure.answer("app.http", "tcp://192.168.7.2:80")
    (answer,) = measure.samples
    assert Flag.UNCERTAIN in answer.flags
    assert answer.uncertainty >= answer.value


def test_a_network_that_does_not_answer_is_the_boards_failure(
    lab: SimBench, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.strategy.boot()
    monkeypatch.setattr(measuring, "signal", partial(network, lambda: False))
    with pytest.raises(BoardTransientError, match=r"tcp.*:80 .*within 3 s") as caught:
        measure.answer("app.http", "tcp://192.168.7.2:80", timeout_s=3.0)
    assert caught.value.failure == "moment_missing"


def test_a_pin_that_no_driver_reads_is_the_environments_fault(lab: SimBench, measure: Measure) -> None:
    lab.strategy.boot()
    with pytest.raises(ConfigurationError, match=r"pin://APP: .* no driver"):
        measure.answer("app.pin", "pin://APP")


def test_a_pin_whose_equipment_fails_is_the_labs_fault(
    lab: SimBench, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.strategy.boot()
    broken = SimpleNamespace(get=lambda: (_ for _ in ()).throw(OSError("no route to the relay")))
    monkeypatch.setattr(lab.strategy.target, "get_driver", lambda _protocol, name: {"APP": broken}[name])
    with pytest.raises(LabTransientError, match=r"pin://APP.*no route") as caught:
        measure.answer("app.pin", "pin://APP")
    assert caught.value.failure == "tester_broken"


def test_a_line_that_does_not_come_is_the_boards_failure(lab: SimBench, measure: Measure) -> None:
    lab.strategy.boot()
    for pattern, since, lacking in (("no such line", "", "no such line"), ("login", "no such start", "no such start")):
        began_ns = lab.lab.now_ns
        with pytest.raises(BoardTransientError, match=f"'{lacking}' within 5 s") as caught:
            measure.moment("app.ready", pattern, since=since, timeout_s=5.0)
        assert caught.value.failure == "moment_missing"
        assert 5.0 <= (lab.lab.now_ns - began_ns) / 1e9 < 8.0
    assert measure.samples == []


def test_a_cycle_that_began_warm_has_no_power_on(lab: SimBench, runs: MeasureRun) -> None:
    lab.strategy.transition("linux")
    warm = runs.begin({})
    lab.strategy.shell.run('echo application rea""dy')
    with pytest.raises(ConfigurationError, match=r"not switched on"):
        warm.moment("app.ready", "application ready")


def test_a_warm_reboot_is_timed_from_its_own_line_and_not_from_the_power_on_before(
    lab: SimBench, runs: MeasureRun
) -> None:
    lab.strategy.transition("linux")  # as the fixture does for start="reboot"
    cycles = lab.lab.board.cycle
    measure = runs.begin({"start": "reboot"})
    lab.strategy.reboot()
    measure.moment("app.again", "am62xx-evm login: ", since="reboot: Restarting system")
    (again,) = measure.samples
    assert lab.lab.board.cycle == cycles, "no power cycle"
    assert again.params == {"start": "reboot"}
    log = lab.strategy.console.captured()
    assert log.startswith(b"reboot"), "the evidence begins with the command"
    base = lab.strategy.console.capture[0].position
    assert again.log_start is not None
    assert again.log_end is not None
    assert b"U-Boot SPL" in log[again.log_start - base : again.log_end - base]
    with pytest.raises(ConfigurationError, match=r"not switched on"):
        measure.moment("app.on", "login: ")
    lab.strategy.transition("linux")
    assert lab.lab.board.cycle == cycles + 1, "after a reboot the state is unknown"


def test_a_wrong_call_says_what_it_needs(lab: SimBench, measure: Measure) -> None:
    with pytest.raises(ConfigurationError, match="not a regular expression"):
        measure.moment("app.ready", "(")
    lab.strategy.boot()
    lab.strategy.edge = None
    with pytest.raises(ConfigurationError, match="or give `since`"):
        measure.moment("app.ready", "login: ")
    measure("app.ready", 3, unit="ms", better="lower", resolution=1)
    with pytest.raises(ConfigurationError, match=r"'s'.*'ms'"):
        measure.moment("app.ready", "login: ", since="Starting kernel")
    assert [each["metric"] for each in measure.refused] == ["app.ready"]
    measure._board = type("Plain", (), {"console": NoConsole()})()
    with pytest.raises(ConfigurationError, match=r"needs.*console's"):
        measure.moment("app.ready", "login: ")


class Gone:
    """Readings of a sensor that goes away."""

    def __iter__(self) -> Iterator[float]:
        yield 0.25
        raise OSError("the sensor is gone")


@pytest.mark.parametrize(
    ("call", "kept", "error"),
    [
        ({"value": [1.0, 1e200]}, "[1.0, 1e+200]", TestStableError),
        ({"value": 10**5000}, "a int that cannot be shown", TestStableError),
        ({"value": Gone()}, "[0.25]", OSError),
        ({"value": 0.5, "uncertainty": "wide"}, "0.5", TestStableError),
        ({"value": 0.5, "uncertainty": 10**400}, "0.5", TestStableError),
        ({"value": 0.5, "params": "left"}, "0.5", ConfigurationError),
        ({"value": 0.5, "params": {"start": "cold"}}, "0.5", ConfigurationError),
        ({"value": 0.5, "name": 7}, "0.5", ConfigurationError),
    ],
)
def test_a_wrong_call_keeps_what_it_measured(
    runs: MeasureRun, call: dict[str, Any], kept: str, error: type[Exception]
) -> None:
    measure = runs.begin({"start": "first"})
    with pytest.raises(error):
        measure(**{"name": "app.frame", "unit": "s", "better": "lower", "resolution": 0.01, **call})
    (refused,) = measure.refused
    assert (refused["value"], bool(refused["why"])) == (kept, True)
    assert refused["params"]["start"]  # type: ignore[index]
    assert measure.samples == []


def test_numbers_of_every_library_are_numbers(measure: Measure) -> None:
    for value in (Decimal("0.25"), Fraction(1, 4), np.float32(0.25), np.array([0.25, 0.25]), (0.25 for _ in range(2))):
        measure("app.frame", value, unit="s", better="lower", resolution=0.01)  # type: ignore[arg-type]
    assert [sample.value for sample in measure.samples] == [0.25] * 7


def test_a_name_that_another_metric_of_the_results_has_in_prometheus_is_refused(runs: MeasureRun) -> None:
    measure = runs.begin({})
    measure("app.first_frame", 0.25, unit="s", better="lower", resolution=0.01)
    runs.record("test_own.py::test_ready", CycleAttempt(1, 1, measure, None), measure)
    runs.declarations = Declarations()  # a later session
    with pytest.raises(ConfigurationError, match=r"frame and app\.first"):
        runs.begin({})("app.first.frame", 0.25, unit="s", better="lower", resolution=0.01)
