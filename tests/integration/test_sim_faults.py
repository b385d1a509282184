"""Every fault of a simulated board ends as its documentation says: through strategy, watch, run and store.

Time is virtual, so that a hang of half a minute takes none. What is observed becomes docs/failures.md; when it changes,
BOARDLAB_WRITE_DOCS=1 writes the page anew.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simlab import S
from simruns import Bench, Told, bench, planned

from lab.results import Attempt
from virtual.sim.faults.base import Fault, Outcome
from virtual.sim.faults.catalogue import FAULTS

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
WRITE = "BOARDLAB_WRITE_DOCS"
BY_CHANCE_SEEDS = range(6)
BOARD = {
    name: kind for name, kind in FAULTS.items() if kind.outcome.trial != "rails"
}  # the others: test_rail_faults.py
SURE = [name for name, kind in BOARD.items() if not kind.outcome.may_succeed]
BY_CHANCE = [name for name, kind in BOARD.items() if kind.outcome.may_succeed]
KNOWN = {failure for kind in FAULTS.values() for failure in kind.outcome.failures} | {"ok"}


@define
class Observed:
    """What came of each fault, over all tests of this module."""

    told: dict[str, list[Attempt | Told]] = field(factory=dict)


@pytest.fixture(scope="module")
def observed() -> Observed:
    return Observed()


def trial(made: Bench, outcome: Outcome) -> Sequence[Attempt | Told]:
    """The attempts of the trial that shows a fault."""
    match outcome.trial:
        case "boot" | "off":
            return made.measure()
        case "login":
            return made.bring("linux")
        case "bootloader":
            return made.bring("bootloader")
        case "suspend":
            return made.sleep()
        case _:
            raise AssertionError(f"no trial {outcome.trial!r}: say here what shows such a fault")


def check_samples(made: Bench) -> None:
    """Every sample is a true boot time, within its stated ±."""
    true = made.true_boot_times_s()
    for value, uncertainty in made.samples_s():
        assert min(abs(value - each) for each in true) <= uncertainty


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


@pytest.mark.parametrize("name", SURE)
def test_a_fault_ends_as_documented_and_the_next_cycle_is_clean(tmp_path: Path, observed: Observed, name: str) -> None:
    kind = FAULTS[name]
    after_a_boot = kind.outcome.trial == "off"
    with bench(tmp_path, [planned(name, cycles="1")], cycles=2) as made:
        attempts = trial(made, kind.outcome)
        observed.told[name] = list(attempts)
        failed = [attempt for attempt in attempts if attempt.outcome != "ok"]
        for attempt in failed:
            check_attempt(attempt, kind)
        assert len(failed) == bool(kind.outcome.failures)
        if kind.outcome.transient:
            assert attempts[-1].outcome == "ok", "the fault was gone, and the cycle was not tried again"
            assert [a.number for a in attempts if a.cycle == 1] == list(range(1, len(failed) + 2))
        else:
            assert attempts[-1].outcome != "ok"
            made.lab.board.clear_troubles()
            made.lab.run_for(60 * S)  # supplies that fall slowly have fallen
            assert made.measure()[-1].outcome == "ok", "the fault was mended, and the run did not go on"
        if kind.outcome.trial in {"boot", "off"}:
            assert len(made.samples_s()) == 2
            assert after_a_boot or [a.outcome for a in attempts if a.cycle == 2] == ["ok"]
        check_samples(made)


@pytest.mark.parametrize("name", BY_CHANCE)
def test_a_fault_by_chance_ends_as_documented_or_leaves_a_true_number(
    tmp_path: Path, observed: Observed, name: str
) -> None:
    kind = FAULTS[name]
    for seed in BY_CHANCE_SEEDS:
        (tmp_path / str(seed)).mkdir()
        fault = planned(name, cycles="1", seed=seed, share=0.01 if name != "input_lost" else 0.1)
        with bench(tmp_path / str(seed), [fault]) as made:
            attempts = trial(made, kind.outcome)
            observed.told.setdefault(name, []).extend(attempts)
            for attempt in attempts:
                if attempt.outcome != "ok":
                    check_attempt(attempt, kind)
            assert attempts[-1].outcome == "ok"
            check_samples(made)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(1, 14),
            st.sampled_from(list(FAULTS)),
            st.integers(0, 99),
        ),
        max_size=8,
    )
)
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


def row(kind: type[Fault], told: Sequence[Attempt | Told]) -> str:
    """A fault's row; of one by chance the documented classes, since which of them come depends on the chance."""
    outcome = kind.outcome
    failed = [attempt for attempt in told if attempt.outcome != "ok"]
    classes = outcome.failures if outcome.may_succeed else dict.fromkeys(attempt.outcome for attempt in failed)
    recorded = ", ".join(f"`{each}`" for each in classes) or "a sample: the number holds"
    if outcome.may_succeed:
        recorded = f"a true sample, or {recorded}"
    whose = outcome.fault or ("board or lab" if outcome.failures else "")
    then = ("tried again" if outcome.transient else "the run stops") if outcome.failures else "–"
    message = "" if outcome.may_succeed or not failed else settled(failed[0].message)
    return f"| `{kind.name}` | {kind.does()} | {recorded} | {whose} | {then} | {message} |"


def settled(message: str) -> str:
    """A message without what changes from run to run."""
    message = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:16421", message)
    message = re.sub(r"/dev/pts/\d+", "/dev/ttyUSB0", message)
    message = re.sub(r"(the last it said was|The last line:) .*", r"\1 …", message)
    message = re.sub(r"\[ *\d+\.\d{6}\]", "[…]", message)  # the kernel's stamps
    message = re.sub(r"10\d{5} bytes", "1000000 bytes", message)
    message = re.sub(r"within 0\.2 s", "within 30 s", message)
    return message.replace("|", "/")


def page(observed: Observed) -> str:
    rows = [row(BOARD[name], observed.told[name]) for name in BOARD]
    rails = [kind for name, kind in FAULTS.items() if name not in BOARD]
    flagged = [
        f"| `{kind.name}` | {kind.does()} | {', '.join(f'`{flag}`' for flag in kind.outcome.flags)} |"
        for kind in rails
    ]
    return "\n".join([*_HEAD, *rows, *_RAILS, *flagged, ""])


def test_the_page_on_failures_says_what_was_observed(observed: Observed) -> None:
    assert set(observed.told) == set(BOARD), "run this module as a whole: the page comes from all of its tests"
    text = page(observed)
    if os.environ.get(WRITE):
        PAGE.write_text(text, encoding="utf-8")
    written = PAGE.read_text(encoding="utf-8").splitlines()
    different = [f"- {old}\n+ {new}" for old, new in itertools.zip_longest(written, text.splitlines()) if old != new]
    assert not different, f"write the page anew with {WRITE}=1:\n" + "\n".join(different)


_HEAD = (
    "# Failures",
    "",
    "What boardlab makes of a board, a line or a lab that misbehaves. Each row is a fault that a",
    "[simulated board](simulated-boards.md) can be made to have. The table is written by the test that proves it",
    "(`tests/integration/test_sim_faults.py`); the messages are those of its runs, with U-Boot and Linux of the SK-AM62.",
    "",
    "A failed attempt is recorded with its class, its message and its console log, and gives no sample. A transient one",
    "is tried again after a power cycle, within `--retries`; after any other the run stops, and `--resume` goes on with it",
    "once the fault is mended.",
    "",
    "| Fault | What goes wrong | Recorded as | Whose | Then | Message |",
    "|---|---|---|---|---|---|",
)

_RAILS = (
    "",
    "## Rails",
    "",
    "A fault of a rail's sensor spoils no boot. The power that is measured carries flags, see [Power](power.md); those of",
    "this table are proven by `tests/unit/power/test_rail_faults.py`.",
    "",
    "| Fault | What goes wrong | Flags |",
    "|---|---|---|",
)
