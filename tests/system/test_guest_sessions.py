"""Whole sessions on the kernel's own drivers: their boot times are the board's, whatever happens to the adapters."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from support.chaos_verdict import Story, judge, untrue
from support.driver_guest import DEADLINE_S
from support.guest_lab import DRIVER_MOHM, MONITORS, STEP_A, GuestLab, Outcome, drawn, guest_lab, nominal_volts

from lab.metrics import Flag, SampleRecord
from lab.metrics.catalogue import RESUMES

pytestmark = [pytest.mark.soak, pytest.mark.timeout(4 * DEADLINE_S)]

BOOT: Final = ("/lab/project/tests_perf/test_boot.py", "--lab-medium", "sd", "--lab-release", "11.01")
SLEEP: Final = ("/lab/project/tests_perf/test_low_power.py", "--lab-mode", "deep_sleep", "--lab-release", "11.01")
RAIL_POWER: Final = RESUMES["deep_sleep"].rail.name
FAULTS: Final = 20  # of each kind
APART_S: Final = 40.0  # the longest time between two, of boots
SLEEPS_APART_S: Final = 120.0  # and of suspends with rails
AWAY_S: Final = 2.0  # the longest that an adapter is out
NO_POWER: Final = {Flag.POWER_FEW_SAMPLES, Flag.POWER_GAP, Flag.POWER_IMPLAUSIBLE, Flag.POWER_NACK, Flag.POWER_STUCK}
Fault: TypeAlias = Callable[[GuestLab, random.Random], None]


@pytest.fixture(scope="module")
def lab() -> Iterator[GuestLab]:
    with tempfile.TemporaryDirectory(prefix="guest-") as name, guest_lab(Path(name), "--time-scale", "0.25") as lab:
        lab.write_environment()
        yield lab


def test_a_session_s_boot_times_are_the_board_s(lab: GuestLab, tmp_path: Path) -> None:
    lab.start(*BOOT, "--lab-cycles", "2")
    while (status := lab.tick()) is None:
        time.sleep(0.2)
    outcome = lab.outcome(tmp_path)
    assert status == 0, outcome.log
    assert len(outcome.timed) == 2
    assert_true(lab, outcome)


def test_a_session_s_sleep_power_is_the_board_s(lab: GuestLab, tmp_path: Path) -> None:
    """Rails through the kernel's driver, whose shunt is another than the board's."""
    lab.start(*SLEEP, "--lab-cycles", "2")
    while (status := lab.tick()) is None:
        time.sleep(0.2)
    outcome = lab.outcome(tmp_path)
    assert status == 0, outcome.log
    powers = [sample for attempt in outcome.attempts for sample in attempt.samples if sample.metric == RAIL_POWER]
    assert Counter(sample.params["rail"] for sample in powers) == dict.fromkeys(MONITORS, 2)
    assert_powers(lab, powers)


def pulled(lab: GuestLab, dice: random.Random) -> None:
    """The board's adapter is pulled out, and plugged in again."""
    lab.unplug("main0")
    lab.tick_for(dice.uniform(0, AWAY_S))
    lab.plug("main0")


def named_anew(lab: GuestLab, dice: random.Random) -> None:
    """The adapter comes back as another device, and a stranger's has its old name."""
    for name in ("main0", "stranger"):
        lab.unplug(name)
    lab.tick_for(dice.uniform(0, AWAY_S))
    for name in ("stranger", "main0"):
        lab.plug(name)


def hub_reset(lab: GuestLab, dice: random.Random) -> None:
    """All adapters go, and come back in any order."""
    names = list(lab.cables)
    for name in names:
        lab.unplug(name)
    dice.shuffle(names)
    for name in names:
        lab.plug(name)


def exchanged(lab: GuestLab, dice: random.Random) -> None:
    """The board's adapter and a stranger's exchange their sockets for a while."""
    names = ("main0", "stranger")
    ports = [lab.cables[name].port for name in names]
    for order in (reversed(ports), ports):
        for name in names:
            lab.unplug(name)
        for name, port in zip(names, order, strict=True):
            lab.plug(name, port)
        lab.tick_for(dice.uniform(0, AWAY_S))


def unbound(lab: GuestLab, dice: random.Random) -> None:
    """A monitor's driver is unbound, and bound again: its number in hwmon is another one."""
    address, _ = MONITORS[dice.choice(list(MONITORS))]
    lab.guest.run(f"(bus / 'delete_device').write_text('{address:#x}')")
    lab.tick_for(dice.uniform(0, AWAY_S))
    lab.guest.run(f"probe([{address}])")


@pytest.mark.parametrize("fault", [pulled, named_anew, hub_reset, exchanged])
def test_a_fault_of_the_adapters_gives_no_wrong_number(lab: GuestLab, tmp_path: Path, fault: Fault) -> None:
    outcome = struck(lab, tmp_path, fault, APART_S, *BOOT)
    assert outcome.timed, outcome.log
    assert_true(lab, outcome)
    assert_named(outcome)


def test_a_monitor_that_goes_and_comes_gives_no_wrong_power(lab: GuestLab, tmp_path: Path) -> None:
    outcome = struck(lab, tmp_path, unbound, SLEEPS_APART_S, *SLEEP)
    powers = [sample for attempt in outcome.attempts for sample in attempt.samples if sample.metric == RAIL_POWER]
    assert powers, outcome.log
    assert_powers(lab, [sample for sample in powers if not sample.flags & NO_POWER])
    assert_named(outcome)


def struck(lab: GuestLab, folder: Path, fault: Fault, apart_s: float, *words: str) -> Outcome:
    """The outcome of one session after the other with faults at instants drawn at random."""
    dice = random.Random(fault.__name__)
    faults = 0
    while faults < FAULTS:
        lab.start(*words, "--lab-cycles", "6")
        due_s = time.monotonic() + dice.uniform(0, apart_s)
        while lab.tick() is None:
            time.sleep(0.2)
            if time.monotonic() >= due_s:
                fault(lab, dice)
                faults += 1
                due_s = time.monotonic() + dice.uniform(0, apart_s)
    return lab.outcome(folder)


def assert_named(outcome: Outcome) -> None:
    """Each failure is the lab's fault, but of a session's first try: nothing was there before."""
    failed = [attempt for attempt in outcome.attempts if not (attempt.ok or attempt.cycle == attempt.number == 1)]
    assert {attempt.fault for attempt in failed} <= {"lab"}, [(attempt.outcome, attempt.message) for attempt in failed]


def assert_powers(lab: GuestLab, samples: Iterable[SampleRecord]) -> None:
    """Each rail's power is what its monitor had while the board slept."""
    for sample in samples:
        rail = sample.params["rail"]
        step_mw = STEP_A / 2 * DRIVER_MOHM / MONITORS[rail][1] * nominal_volts()[rail] * 1e3  # of what was written
        true_mw = drawn(lab.bench.truth().notes, "rails=deep_sleep")[rail] * 1e3
        assert abs(sample.value - true_mw) <= sample.uncertainty + step_mw, sample


def assert_true(lab: GuestLab, outcome: Outcome) -> None:
    """Boot times are the board's within their ±, or flagged; another board sent and got nothing."""
    story = Story(lab.bench.truth())
    assert untrue([judge(timed, [story]) for timed in outcome.timed]) == []
    assert b"stranger" not in outcome.recorded
    assert bytes(lab.cables["stranger"].typed) == b""
