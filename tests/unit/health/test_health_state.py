"""What follows from checks and failures: states with reasons, and who is kept out."""

from __future__ import annotations

import datetime as dt

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from support.facts import missing_facts

from lab.errors import BoardError, LabError
from lab.health import (
    BoardCheck,
    CheckedPart,
    HealthEvent,
    QuarantineRule,
    derive,
    due,
    host_blamed,
    in_a_row,
    quarantine,
)
from lab.health.state import NOT_EQUIPMENT, PARTS, find_shared

NOW = dt.datetime(2026, 3, 2, 14, 0, tzinfo=dt.UTC)
RULE = QuarantineRule(faults=3)
GOOD = HealthEvent.of_attempt(NOW, "ok", None)
DEVICE = st.sampled_from(["kernel_panic", "hang_kernel", "reset", "silent", "login_failed", "io_error"])
LAB = st.sampled_from(["pdu_timeout", "port_lost", "power_off_ineffective", "strap_refused"])


def ago(hours: float) -> dt.datetime:
    return NOW - dt.timedelta(hours=hours)


def attempt(hours: float, failure: str = "ok", fault: str | None = None) -> HealthEvent:
    return HealthEvent.of_attempt(ago(hours), failure, fault)


def lab(hours: float, failure: str = "pdu_timeout") -> HealthEvent:
    return attempt(hours, failure, LabError.fault)


def board(hours: float, failure: str = "kernel_panic") -> HealthEvent:
    return attempt(hours, failure, BoardError.fault)


def check(hours: float, *failed: CheckedPart, host: str = "lab-1", name: str = "b1") -> BoardCheck:
    wrong = {part.name: part for part in failed}
    parts = tuple(wrong.get(each, CheckedPart(each, "ok")) for each in PARTS)
    return BoardCheck(name, "am62xx_sk", host, ago(hours), parts)


DEAD_PDU = CheckedPart("power", "failed", "pdu_timeout", "lab", "no answer to 'on'")
PANIC = CheckedPart("boot", "failed", "kernel_panic", "board", "panicked")
SILENT = CheckedPart("console", "failed", "silent", "board", "no byte")
BROKEN = CheckedPart("boot", "failed", "driver_broken", "lab", "no library")
NEVER_BEGAN = evolve(check(1), parts=(*(CheckedPart(each, "not tried") for each in PARTS if each != "boot"), BROKEN))


def events(*found: HealthEvent | BoardCheck) -> list[HealthEvent]:
    return [each.event if isinstance(each, BoardCheck) else each for each in found]


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        pytest.param([attempt(1)], "healthy", "", id="it measured"),
        pytest.param([check(1)], "healthy", "", id="it passed a check"),
        pytest.param([attempt(2), lab(1)], "suspect", "1 fault of the lab in a row: pdu_timeout", id="one fault"),
        pytest.param([lab(2), attempt(1)], "healthy", "", id="it measured since"),
        pytest.param([lab(4), lab(3), lab(2)], "bad", "3 faults of the lab in a row: pdu_timeout 3 times", id="many"),
        pytest.param([lab(4), lab(3), lab(2), check(1)], "healthy", "", id="it passed since"),
        pytest.param([check(1, DEAD_PDU)], "bad", "power: no answer to 'on' (pdu_timeout)", id="it failed a check"),
        pytest.param([check(2, DEAD_PDU), attempt(1)], "healthy", "", id="it measured since the check"),
        pytest.param([check(1, SILENT)], "bad", "console: no byte (silent)", id="nobody hears it"),
        pytest.param(
            [NEVER_BEGAN], "bad", "boot: no library (driver_broken)", id="only the boot failed, nothing else was tried"
        ),
        pytest.param(
            [evolve(NEVER_BEGAN, parts=())],
            "bad",
            "nothing showed that power and console work",
            id="nothing was tried",
        ),
        pytest.param([check(1, PANIC)], "suspect", "it does not boot (kernel_panic)", id="its release panics"),
        pytest.param([board(3), board(2), board(1)], "suspect", "failed on the board's account", id="device faults"),
        pytest.param([board(2), board(1)], "healthy", "", id="two device faults"),
        pytest.param([], "suspect", "never checked", id="nothing is known"),
    ],
)
def test_a_state_follows_from_what_was_recorded(
    found: list[HealthEvent | BoardCheck], state: str, reason: str
) -> None:
    checks = [each for each in found if isinstance(each, BoardCheck)]
    health = derive("b1", events(*found), checks, RULE, NOW)
    assert health.state == state
    assert any(reason in each for each in health.reasons) if reason else not health.reasons


def test_maintenance_and_quarantine_say_so_and_keep_the_other_reasons() -> None:
    found = [lab(3), lab(2), lab(1)]
    kept = derive("b1", found, [], RULE, NOW, quarantined="in quarantine since …")
    assert (kept.state, kept.reasons) == ("bad", ("in quarantine since …",))
    both = derive(
        "b1", found, [], RULE, NOW, quarantined="in quarantine since …", maintenance="in maintenance, set by ann …"
    )
    assert both.state == "maintenance"
    assert both.reasons == ("in maintenance, set by ann …", "in quarantine since …")
    assert not both.troubled


@given(st.lists(st.tuples(DEVICE, st.floats(0, 200)), max_size=60))
def test_no_sequence_of_device_faults_puts_a_board_in_quarantine(found: list[tuple[str, float]]) -> None:
    said = [board(hours, failure) for failure, hours in found]
    assert not quarantine(said, QuarantineRule(faults=1), NOW)
    assert derive("b1", said, [], RULE, NOW).state != "bad"


@given(st.lists(st.sampled_from(sorted(NOT_EQUIPMENT)), max_size=20))
def test_what_says_nothing_of_the_equipment_never_counts(found: list[str]) -> None:
    assert not quarantine([lab(1, failure) for failure in found], QuarantineRule(faults=1), NOW)


@given(st.lists(LAB, min_size=3, max_size=20), st.lists(st.booleans(), max_size=20))
def test_lab_faults_in_a_row_do_whatever_came_before_and_a_pass_lifts(failures: list[str], before: list[bool]) -> None:
    early = [attempt(60 - n / 10) if good else board(60 - n / 10) for n, good in enumerate(before)]
    row = [lab(10 - n / 5, failure) for n, failure in enumerate(failures)]
    assert not missing_facts(quarantine([*early, *row], RULE, NOW), f"{len(failures)} faults of the lab")
    assert not quarantine([*early, *row, check(1, PANIC).event], RULE, NOW), "a release that panics passes"
    assert quarantine([*early, *row, check(1, SILENT).event], RULE, NOW), "a silent board shows nothing"


@given(st.permutations([lab(5), lab(4), board(3), lab(2), lab(1)]))
def test_a_fault_of_the_board_shows_that_the_lab_worked_then(found: list[HealthEvent]) -> None:
    assert len(in_a_row(found, RULE, NOW)) == 2


def test_a_silent_board_breaks_no_row_since_its_console_may_be_what_is_dead() -> None:
    assert len(in_a_row([lab(3), board(2, "silent"), lab(1)], RULE, NOW)) == 2


def test_the_retries_of_one_outage_are_one_fault() -> None:
    retries = [lab(5 - minutes / 60) for minutes in (0, 2, 4, 9)]
    assert in_a_row(retries, RULE, NOW) == retries[:1]
    assert len(in_a_row([*retries, lab(4.8)], RULE, NOW)) == 2


def test_old_faults_count_no_more() -> None:
    assert not quarantine([lab(RULE.window_h + n) for n in (1, 2, 3)], RULE, NOW)


@pytest.mark.parametrize(
    ("last", "found", "kept", "why"),
    [
        pytest.param(None, [], False, "it was never checked", id="never"),
        pytest.param(check(25), [], False, "its last check is older than 24 h", id="old"),
        pytest.param(check(-25), [], False, "its last check is dated DATE, in the future", id="of the future"),
        pytest.param(check(2, SILENT), [], False, "its last check failed", id="failed"),
        pytest.param(check(2), [lab(1)], False, "it ended with a fault of the lab (pdu_timeout)", id="a fault since"),
        pytest.param(check(2), [], True, "it is in quarantine", id="kept"),
        pytest.param(check(2), [lab(1.5), attempt(1)], False, "", id="it measured since"),
        pytest.param(check(2, PANIC), [board(1)], False, "", id="device faults"),
    ],
)
def test_when_a_check_is_due(last: BoardCheck | None, found: list[HealthEvent], *, kept: bool, why: str) -> None:
    date = f"{last.at:%Y-%m-%d %H:%M} UTC" if last else ""
    assert due(last, events(*([last] if last else []), *found), RULE, NOW, quarantined=kept) == why.replace(
        "DATE", date
    )


def test_nothing_is_known_of_a_board_that_passed_long_ago_and_was_silent_since() -> None:
    silent, failed = (derive("b1", [], [check(24 * 20, *parts)], RULE, NOW) for parts in ((), (DEAD_PDU,)))
    assert (silent.state, silent.known) == ("suspect", False)
    assert not missing_facts(silent.reasons[0], "20 days ago")
    assert (failed.state, failed.known) == ("bad", True)
    assert derive("b1", [attempt(1)], [check(24 * 20)], RULE, NOW).state == "healthy"


def test_a_check_says_what_it_did_not_try() -> None:
    untried = CheckedPart("medium", "not tried")
    result = check(1, PANIC, untried)
    assert result.passed
    assert not missing_facts(result.verdict, "passed", PANIC.failure, "not tried: medium")


def test_a_board_that_passes_on_another_host_is_its_hosts() -> None:
    here, there = check(1, DEAD_PDU), check(30, host="lab-2")
    assert "it passed on lab-2" in host_blamed([here, there])
    assert "the fault is lab-1's" in derive("b1", [here.event], [here, there], RULE, NOW).reasons[-1]
    assert not host_blamed([check(1), check(2, DEAD_PDU, host="lab-2")]), "it works where it is now"
    assert not host_blamed([here, check(2, DEAD_PDU, host="lab-2")])
    assert not host_blamed([here, check(24 * 20, host="lab-2")]), "long ago"


@pytest.mark.parametrize("failure", ["exporter_gone", "coordinator_unreachable", "console_link"])
def test_a_way_that_is_cut_is_no_fault_of_the_host_at_its_end_or_of_the_one_that_looked(failure: str) -> None:
    cut = CheckedPart("console", "failed", failure, "lab", "no way there")
    here, there = check(1, cut), check(30, host="lab-2")
    told = derive("b1", [here.event], [here, there], RULE, NOW)
    assert not any("the fault is" in each for each in told.reasons)
    assert f"console: no way there ({failure})" in told.reasons
    assert not find_shared([here, evolve(here, board="b2")])
    before = check(2, DEAD_PDU)
    assert "the fault is lab-1's" in host_blamed([evolve(here, host=""), before, there]), "what was seen there stands"


def test_a_host_is_the_same_with_its_domain_and_without() -> None:
    assert not host_blamed([check(1, DEAD_PDU), check(30, host="lab-1.example.org")])
    assert not host_blamed([check(1, DEAD_PDU, host="lab-1.example.org"), check(30)])
    assert host_blamed([check(1, DEAD_PDU), check(30, host="lab-12")])


def test_a_check_of_a_host_that_nobody_knows_blames_none() -> None:
    assert not host_blamed([check(1, DEAD_PDU, host=""), check(30, host="lab-2")])


@pytest.mark.parametrize("failure", ["wrong_medium", "garbled", "host_suspended", "console_overrun", "console_full"])
def test_a_release_that_falls_back_or_a_host_that_sleeps_is_no_fault_of_the_equipment(failure: str) -> None:
    assert not quarantine([lab(hours, failure) for hours in (3, 2, 1)], RULE, NOW)
    assert check(1, CheckedPart("medium", "failed", failure, "lab", "…")).fault is None


def test_boards_of_a_host_that_sleeps_name_each_other() -> None:
    asleep = CheckedPart("boot", "failed", "host_suspended", "lab", "it slept")
    nothing = tuple(asleep if each == "boot" else CheckedPart(each, "not tried") for each in PARTS)
    found = find_shared([evolve(check(1, name=name), parts=nothing) for name in ("b1", "b2")])
    assert not missing_facts(found["b1"], "b2", "lab-1", "host_suspended")


def test_boards_of_a_host_that_fail_the_same_way_name_each_other() -> None:
    failing = [check(1, DEAD_PDU, name=name) for name in ("b1", "b2")]
    alone = check(1, DEAD_PDU, name="b3", host="lab-2")
    found = find_shared([*failing, alone])
    assert found.keys() == {"b1", "b2"}
    for name, other in (("b1", "b2"), ("b2", "b1")):
        assert not missing_facts(found[name], other, "lab-1", "pdu_timeout", "nothing on it passed")
    assert "others on it passed" in find_shared([*failing, check(1, name="b4")])["b1"]
    assert not find_shared([failing[0], evolve(check(1, SILENT), board="b2")]), "not the same"
