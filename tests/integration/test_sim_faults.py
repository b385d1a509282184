"""Every fault of a simulated board ends as its documentation says: through strategy, watch, run and store.

Time is virtual, so that a hang of half a minute takes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.atlength import LONG, either
from support.section_bench import section_bench
from support.simlab import S
from support.simprovision import provisioning
from support.simruns import RETRIES, SimBench, Told, bench, planned

from lab.benchmarks import audio
from lab.errors import BoardTransientError
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_TIME
from lab.results import Attempt
from lab.virtual.sim.faults.base import Fault, FaultOutcome
from lab.virtual.sim.faults.catalogue import FAULTS

BY_CHANCE_SEEDS = range(either(2, 6))
BOARD = {
    name: kind
    for name, kind in FAULTS.items()
    if kind.outcome.trial not in {"rails", "asleep", "section", "program", "provision"}
}  # of the rails: test_rail_faults.py, test_sim_modes.py
PROVISION = [name for name, kind in FAULTS.items() if kind.outcome.trial == "provision"]
SECTION = [name for name, kind in FAULTS.items() if kind.outcome.trial == "section"]
SURE = [name for name, kind in BOARD.items() if not kind.outcome.may_succeed]
BY_CHANCE = [name for name, kind in BOARD.items() if kind.outcome.may_succeed]
LASTING = {"other_software", "extlinux_boot"}  # a run that began with it goes on only with it
KNOWN = {failure for kind in FAULTS.values() for failure in kind.outcome.failures} | {"ok"}
KNOWN.add("too_slow")  # of two faults in one cycle


def trial(made: SimBench, outcome: FaultOutcome) -> Sequence[Attempt | Told]:
    """The attempts of the trial that shows a fault."""
    match outcome.trial:
        case "boot" | "off":
            return made.measure(outcome.medium)
        case "login":
            return made.bring("linux")
        case "bootloader":
            return made.bring("bootloader")
        case "suspend":
            return made.sleep()
        case "partial_io":
            return made.bring("partial_io")
        case _:
            raise AssertionError(f"no trial {outcome.trial!r}: say here what shows such a fault")


def check_samples(made: SimBench) -> None:
    """Every boot time is a true one within its ±; so is every time from power on, unless it says that it may not be."""
    true = made.true_boots()
    for value, uncertainty in made.samples_s():
        assert min(abs(value - boot.boot_s) for boot in true) <= uncertainty
    for sample in made.store.samples(made.run.run.id, metric=BOOT_POWER_ON.name):
        if not {Flag.OFF_UNVERIFIED, Flag.ON_UNVERIFIED} & sample.flags:
            assert min(abs(sample.value - boot.from_power_on_s) for boot in true) <= sample.uncertainty


def flags_of(attempt: Attempt, metric: str) -> set[str]:
    """What a number carries beside that the board is simulated."""
    (sample,) = [sample for sample in attempt.samples if sample.metric == metric]
    return set(sample.flags) - {Flag.SIMULATED}


def check_flags(attempts: Sequence[Attempt | Told], outcome: FaultOutcome) -> None:
    """The struck cycle's numbers carry the documented flags, and no number others; a board that was silent before it
    was switched off may always have been on, and the first boots have none to be compared with."""
    new = {Flag.NOT_CROSS_CHECKED}
    for attempt in attempts:
        if isinstance(attempt, Told) and outcome.trial == "suspend" and not outcome.failures:
            assert attempt.flags == set(outcome.flags)
        if not isinstance(attempt, Attempt) or attempt.outcome != "ok":
            continue
        struck = attempt.cycle == outcome.cycle
        flags, may = (set(outcome.flags), set(outcome.may_carry)) if struck else (set(), set())
        boot, from_power_on = (flags_of(attempt, metric) for metric in (BOOT_TIME.name, BOOT_POWER_ON.name))
        assert flags <= from_power_on
        assert from_power_on <= flags | may | new | {Flag.OFF_UNVERIFIED, Flag.ON_UNVERIFIED}
        if outcome.from_power_on:
            flags = set()
        assert flags <= boot <= flags | may | new


def check_attempt(attempt: Attempt | Told, kind: type[Fault]) -> None:
    """A failed attempt has the documented class and message, and its evidence."""
    outcome = kind.outcome
    assert attempt.outcome in outcome.failures
    assert attempt.fault == outcome.fault or not outcome.fault
    assert attempt.transient == outcome.transient
    assert len(attempt.message) > 40, "a message says what was expected, what came, and what to do next"
    if isinstance(attempt, Attempt):
        assert attempt.samples == ()
        kinds = {artifact.kind for artifact in attempt.artifacts}
        assert kinds in ({"console-log", "console-index"}, set())
        assert kinds or attempt.outcome in {"silent", "pdu_refused", "pdu_timeout", "pdu_unreachable"}


@pytest.mark.longer
@pytest.mark.parametrize("name", SURE)
def test_a_fault_ends_as_documented_and_the_next_cycle_is_clean(tmp_path: Path, name: str) -> None:
    kind = FAULTS[name]
    after_a_boot, struck = kind.outcome.trial == "off", kind.outcome.cycle
    tried_again = kind.outcome.failures and kind.outcome.transient  # that is a clean power cycle, too
    cycles = 1 if tried_again and struck == 1 and not LONG else 2
    with bench(tmp_path, [planned(name, cycles=str(struck))], cycles=cycles) as made:
        attempts = trial(made, kind.outcome)
        failed = [attempt for attempt in attempts if attempt.outcome != "ok"]
        for attempt in failed:
            check_attempt(attempt, kind)
        assert len(failed) == bool(kind.outcome.failures)
        if kind.outcome.transient:
            assert attempts[-1].outcome == "ok", "the fault was gone, and the cycle was not tried again"
            assert [a.number for a in attempts if a.cycle == struck] == list(range(1, len(failed) + 2))
        else:
            assert attempts[-1].outcome != "ok"
            made.lab.board.clear_troubles()
            made.lab.run_for(60 * S)  # supplies that fall slowly have fallen
            assert made.measure()[-1].outcome == "ok", "the fault was mended, and the run did not go on"
        if kind.outcome.trial in {"boot", "off"}:
            assert len(made.samples_s()) == cycles
            assert after_a_boot or [a.outcome for a in attempts if a.cycle == 3 - struck] == ["ok"] * (cycles - 1)
        check_flags(attempts, kind.outcome)
        check_samples(made)


@pytest.mark.longer
@pytest.mark.parametrize("name", BY_CHANCE)
def test_a_fault_by_chance_ends_as_documented_or_leaves_a_true_number(tmp_path: Path, name: str) -> None:
    kind = FAULTS[name]
    for seed in BY_CHANCE_SEEDS:
        (tmp_path / str(seed)).mkdir()
        fault = planned(name, cycles="1", seed=seed, share=0.01 if name != "input_lost" else 0.1)
        with bench(tmp_path / str(seed), [fault]) as made:
            attempts = trial(made, kind.outcome)
            for attempt in attempts:
                if attempt.outcome != "ok":
                    check_attempt(attempt, kind)
            assert attempts[-1].outcome == "ok"
            check_samples(made)


@pytest.mark.parametrize("name", SECTION)
def test_a_fault_of_a_row_costs_that_row_until_it_is_mended(tmp_path: Path, name: str) -> None:
    kind, fault = FAULTS[name], planned(name, cycles="all")
    with section_bench(tmp_path, retries=RETRIES) as made:
        made.lab.board.troubles_for = lambda cycle: [fault.fault(cycle)]
        with pytest.raises(BoardTransientError, match=r"2 of 20 rows") as told:
            made.run.measure(audio.SECTION)
        attempts = made.store.attempts(made.run.run.id)
        failed = [attempt for attempt in attempts if not attempt.ok]
        for attempt in failed:
            assert (attempt.outcome, attempt.fault, attempt.transient) == (kind.outcome.failures[0], "board", True)
            assert attempt.params["rate_hz"] == "44100"
            assert attempt.message in str(told.value)
        tries = [a.number for a in attempts if a.params == {**a.params, "rate_hz": "44100", "direction": "capture"}]
        assert tries == list(range(1, RETRIES + 2))
        assert sum(len(attempt.samples) for attempt in attempts) == 2 * 18
        made.lab.board.clear_troubles()
        made.run.measure(audio.SECTION)
        rows = {(s.params["rate_hz"], s.params["direction"]): s.cycle for s in made.store.samples(made.run.run.id)}
        assert len(rows) == 20
        assert len(made.store.samples(made.run.run.id)) == 2 * 20, "what was there was not measured again"
        assert made.run.pending("alsa") == []


@pytest.mark.parametrize("name", PROVISION)
def test_a_fault_while_a_release_is_put_on_a_board_ends_as_documented_and_the_next_try_does_it(
    tmp_path: Path, name: str
) -> None:
    kind = FAULTS[name]
    with provisioning(tmp_path, kind.outcome.medium, fault=planned(name)) as made:
        before = made.elsewhere()
        attempts = made.told()
        assert [attempt.outcome for attempt in attempts] == [*(kind.outcome.failures or ("ok",)), "ok"]
        if kind.outcome.failures:
            assert (attempts[0].fault, attempts[0].transient) == (kind.outcome.fault, kind.outcome.transient)
            assert len(attempts[0].message) > 40
        assert made.elsewhere() == before, "something was written beside the target"


GARBLED_VERSION = [
    *((12, "suspend_refused", 22), (3, "prompt_split", 0), (14, "wrong_baud", 0)),
    *((10, "login_refused", 80), (13, "no_power", 0), (1, "garbled", 80)),
]


# The same strikes each time, and some that once ended the run: the kernel's version line of the first boot was damaged.
@pytest.mark.soak
@settings(
    max_examples=10, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 14),
            st.sampled_from([name for name in FAULTS if name not in {*LASTING, *PROVISION}]),
            st.integers(0, 99),
        ),
        max_size=8,
    )
)
@example(strikes=GARBLED_VERSION)
@pytest.mark.timeout(600)
def test_ten_cycles_end_with_ten_true_samples_whatever_strikes(
    tmp_path_factory: pytest.TempPathFactory, strikes: list[tuple[int, str, int]]
) -> None:
    faults = [planned(name, cycles=str(cycle), seed=seed) for cycle, name, seed in strikes]
    with bench(tmp_path_factory.mktemp("run"), faults, cycles=10) as made:
        for _ in range(len(faults) + 1):  # a person mends what stopped the run, and resumes it
            attempts = made.measure()
            if len(made.samples_s()) == 10:
                break
            made.lab.board.clear_troubles()
            made.lab.run_for(60 * S)
        assert {attempt.outcome for attempt in attempts} <= KNOWN
        assert sorted(a.cycle for a in attempts if a.outcome == "ok") == list(range(1, 11))
        check_samples(made)
