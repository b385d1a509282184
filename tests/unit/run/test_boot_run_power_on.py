"""When the power of a boot came: the switch's word is compared with the board's other boots, and a contradiction is flagged or refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace

import attr
import pytest
from attrs import define
from labgrid.driver import Driver
from labgrid.factory import target_factory
from support.facts import missing_facts
from support.simlab import MS, SimLab
from support.simruns import SimBench, bench, planned

from lab.benchmarks.boot import PowerEdge
from lab.benchmarks.boot.poweron import PowerOnSilence, doubt
from lab.errors import LabStableError
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_TIME
from lab.rails import RailConfig, Trace
from lab.rails.model import Channel, SensorReading
from lab.rails.trace import TraceFile, TraceMeta, pack
from lab.results import StoredSample

DISCHARGE_S, ROM_S = 2.0, 0.21
DRAWN = Random(34)


def from_power(made: SimBench) -> dict[int, StoredSample]:
    return {sample.cycle: sample for sample in made.store.samples(made.run.run.id, metric=BOOT_POWER_ON.name)}


def is_true(made: SimBench, sample: StoredSample) -> bool:
    return min(abs(sample.value - boot.from_power_on_s) for boot in made.true_boots()) <= sample.uncertainty


def test_the_first_boots_of_a_board_have_none_to_be_compared_with_and_later_ones_are_confirmed(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=4) as made:
        made.measure()
        flagged = {cycle for cycle, sample in from_power(made).items() if Flag.ON_UNVERIFIED in sample.flags}
        assert flagged == {1, 2}
        boots = made.store.samples(made.run.run.id, metric=BOOT_TIME.name)
        assert not any(Flag.ON_UNVERIFIED in sample.flags for sample in boots)
    with bench(tmp_path, cycles=1) as made:
        made.measure()
        (sample,) = from_power(made).values()
        assert Flag.ON_UNVERIFIED not in sample.flags, "its run before has boots enough"


@pytest.mark.parametrize("early_s", [round(DRAWN.uniform(0.13, ROM_S - 0.02), 3) for _ in range(3)])
def test_power_that_returns_before_its_order_is_flagged(tmp_path: Path, early_s: float) -> None:
    """The board's first text comes behind the order, so that nothing but the other boots contradicts it."""
    told: list[str] = []
    fault = planned("power_returns", cycles="3", seconds=DISCHARGE_S - early_s)
    with bench(tmp_path, [fault], cycles=8, say=told.append) as made:  # beside fewer boots the ± covers it
        assert {attempt.outcome for attempt in made.measure()} == {"ok"}
        wrong = {cycle for cycle, sample in from_power(made).items() if not is_true(made, sample)}
        flagged = {cycle for cycle, sample in from_power(made).items() if Flag.ON_UNVERIFIED in sample.flags}
    assert wrong == {4}
    assert flagged == {1, 2, 4}
    assert any(not missing_facts(line, "power came", "not verified", "after the switch") for line in told)


@pytest.mark.parametrize("late_s", [round(DRAWN.uniform(0.15, 4.0), 3) for _ in range(3)])
def test_power_that_comes_after_the_switchs_answer_is_flagged(tmp_path: Path, late_s: float) -> None:
    with bench(tmp_path, [planned("slow_switch", cycles="3", seconds=late_s)], cycles=4) as made:
        assert {attempt.outcome for attempt in made.measure()} == {"ok"}
        wrong = {cycle for cycle, sample in from_power(made).items() if not is_true(made, sample)}
        flagged = {cycle for cycle, sample in from_power(made).items() if Flag.ON_UNVERIFIED in sample.flags}
    assert wrong == {4}
    assert flagged == {1, 2, 4}


@pytest.mark.parametrize("returns_s", [round(DRAWN.uniform(1.1, DISCHARGE_S - ROM_S - 0.05), 3) for _ in range(3)])
def test_a_board_that_speaks_between_off_and_on_is_refused(tmp_path: Path, returns_s: float) -> None:
    with bench(tmp_path, [planned("power_returns", cycles="2", seconds=returns_s)], cycles=3) as made:
        attempts = made.measure()
        samples = from_power(made)
        true = all(is_true(made, sample) for sample in samples.values())
    assert [attempt.outcome for attempt in attempts] == ["ok", "ok", "impossible_times", "ok"]
    assert not missing_facts(attempts[2].message, "power came back")
    assert len(samples) == 3
    assert true


@define
class PlayedSampler:
    """Samples a rail of a SimLab each 2 ms: its supply is up from the board's ROM until it is dark."""

    lab: SimLab
    path: Path
    from_ns: int

    def trace(self, _until_ns: int) -> Trace:
        rails = (RailConfig("vdd_core", 0.85, 0x40, 2.0),)
        channels = (Channel("vdd_core", 0.85, 2.0, 0.0, 0.001, 1250, 2500),)
        file = TraceFile(
            self.path, TraceMeta("b", rails, channels, "ina226", "p", "s", "active", *[2 * MS] * 3, "raw", "s")
        )
        changes = [
            (note.t_ns, "dark" not in note.text) for note in self.lab.noted if re.search("stage=rom|dark", note.text)
        ]
        for t_ns in range(self.from_ns, self.lab.now_ns, 2 * MS):
            is_on = next((on for at_ns, on in reversed(changes) if at_ns <= t_ns), False)
            file.add(pack(t_ns, [SensorReading(0, 850_000 * is_on, 250_000 * is_on)]))
        file.end(0)
        return Trace.open(self.path)


@target_factory.reg_driver
@attr.s(eq=False)
class RisingRails(Driver):
    """Rails of a SimLab; what fails is raised at the start."""

    lab: SimLab = attr.ib(default=None, repr=False)
    fails: Exception | None = attr.ib(default=None)
    sensors = SimpleNamespace(backend="ina226")

    def check_clock(self) -> None: ...

    def prepare(self, path: Path) -> None: ...

    @contextmanager
    def sampling(self, path: Path, *, reported: bool) -> Iterator[PlayedSampler]:
        assert not reported, "no energy is measured from it, so its gaps alarm nobody"
        if self.fails is not None:
            raise self.fails
        yield PlayedSampler(self.lab, path, self.lab.now_ns)


@pytest.mark.parametrize(
    ("fault", "seconds", "says"),
    [
        *(
            ("power_returns", round(DISCHARGE_S - DRAWN.uniform(0.02, ROM_S - 0.02), 3), "before it was switched on")
            for _ in range(2)
        ),
        *(("slow_switch", round(DRAWN.uniform(0.15, 4.0), 3), "after the switch's answer") for _ in range(2)),
    ],
)
def test_rails_confirm_the_first_boot_and_contradict_a_switch(
    tmp_path: Path, fault: str, seconds: float, says: str
) -> None:
    told: list[str] = []
    with bench(tmp_path, [planned(fault, cycles="1", seconds=seconds)], cycles=3, say=told.append) as made:
        made.strategy.rails = RisingRails(made.strategy.target, None, lab=made.lab)
        assert {attempt.outcome for attempt in made.measure()} == {"ok"}
        wrong = {cycle for cycle, sample in from_power(made).items() if not is_true(made, sample)}
        flagged = {cycle for cycle, sample in from_power(made).items() if Flag.ON_UNVERIFIED in sample.flags}
    assert wrong == flagged == {2}
    assert [line for line in told if says in line]


def test_sensors_that_fail_lose_no_boot(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=1) as made:
        fails = LabStableError("0x40 does not answer", failure="power_sensor")
        made.strategy.rails = RisingRails(made.strategy.target, None, lab=made.lab, fails=fails)
        assert [attempt.outcome for attempt in made.measure()] == ["ok"]
        (sample,) = from_power(made).values()
        assert Flag.ON_UNVERIFIED in sample.flags


def test_an_adapter_that_the_board_feeds_is_named_and_stops_the_run(tmp_path: Path) -> None:
    with bench(tmp_path, [planned("adapter_fed_by_board", cycles="2")], cycles=3) as made:
        *good, last = made.measure()
    assert {attempt.outcome for attempt in good} == {"ok"}
    assert (last.outcome, last.fault, last.transient) == ("adapter_fed_by_board", "lab", False)
    assert "is fed by the board" in last.message


def silence(least_s: float, window_s: float = 0.01, first: str = "spl") -> PowerOnSilence:
    return PowerOnSilence(first, least_s, least_s + window_s)


@pytest.mark.parametrize(
    ("others", "confirmed"),
    [
        ([], False),
        ([0.4], False),
        ([0.4, 0.41], True),
        ([0.4, 0.9], False),
        ([0.9, 0.4, 0.41], True),
        ([0.9, 0.9, 0.9, 0.4, 0.41], False),
    ],
)
def test_a_silence_is_confirmed_by_two_boots_that_agree_where_no_more_disagree(
    others: list[float], confirmed: bool
) -> None:
    power = PowerEdge(0, 10_000_000)
    assert (doubt(power, silence(0.42), [silence(each) for each in others]) == "") is confirmed
    assert doubt(power, silence(0.42), [silence(each, first="uboot") for each in others])


@pytest.mark.parametrize(
    ("rose_ms", "text"),
    [
        ((-300, -290), "were up 0.290 s before"),
        ((-5, 1), ""),
        ((60, 65), ""),
        ((900, 905), "rose at least 0.890 s after"),
        ((-500, 1), "in other boots"),
        ((50, 10**9), "in other boots"),
    ],
)
def test_rails_that_are_sensed_decide_where_they_say_enough(rose_ms: tuple[int, int], text: str) -> None:
    rose_ns = (rose_ms[0] * 1_000_000, rose_ms[1] * 1_000_000)
    found = doubt(PowerEdge(0, 10_000_000, rose_ns=rose_ns), silence(0.42), [silence(9.0)] * 3)
    assert (text in found) if text else found == ""
