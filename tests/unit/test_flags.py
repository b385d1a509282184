"""Every flag can appear: each has a fault of a simulated board, or a test, that makes it appear on a number."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from lab import boards
from lab.drivers import guarded_calls
from lab.metrics import Flag
from lab.virtual.sim.faults.catalogue import FAULTS

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parent / "docs"
WORDS = set(re.findall(r"Meaning\(\s*\"(\w+)\"", Path(guarded_calls.__file__).read_text(encoding="utf-8")))

# A fault's name (tests/integration/test_sim_faults.py and unit/rails/test_rail_faults.py prove what each carries), or FILE::TEST.
SHOWN_BY = {
    Flag.MEDIUM_UNVERIFIED: "unit/benchmarks/test_boot.py::"
    "test_a_medium_that_one_source_named_or_the_root_file_system_did_not_is_flagged",
    Flag.BOARD_UNVERIFIED: "integration/test_board_identity.py::"
    "test_a_board_that_does_not_say_what_the_env_expects_is_flagged",
    Flag.MODE_UNVERIFIED: "unit/sim/test_sim_low_power.py::test_numbers_of_a_mode_that_nobody_named_say_so",
    Flag.OFF_UNVERIFIED: "late_relay",
    Flag.ON_UNVERIFIED: "power_returns",
    Flag.CLOCK_DISAGREES: "clock_stopped",
    Flag.CONSOLE_OVERRUN: "lines_lost",
    Flag.REMOTE_STAMP: "unit/drivers/test_networkports.py::test_a_bare_port_is_read_and_every_number_of_it_says_so",
    Flag.PROMPT_REPEATED: "prompt_in_issue",
    Flag.FLOW_UNVERIFIED: "unit/benchmarks/test_boot_flows.py::test_an_sbl_that_says_nothing_is_one_as_well_and_flagged",
    Flag.NOT_CROSS_CHECKED: "unit/run/test_boot_run_cross_checks.py::test_a_board_that_does_not_answer_loses_no_cycle",
    Flag.KERNEL_ERRORS: "mmc_errors",
    Flag.UNCERTAIN: "unit/benchmarks/test_boot_prompt.py::"
    "test_a_board_that_is_heard_before_the_switch_has_answered_got_its_power_before_that",
    Flag.POWER_GAP: "unit/rails/test_rails_trace.py::test_missing_samples_are_a_gap",
    Flag.POWER_NACK: "sensor_nack",
    Flag.POWER_STUCK: "sensor_stuck",
    Flag.POWER_IMPLAUSIBLE: "wrong_shunt",
    Flag.POWER_FEW_SAMPLES: "unit/rails/test_rails_trace.py::"
    "test_a_phase_without_samples_has_no_value_and_neither_has_the_total",
    Flag.SENSOR_RESET: "sensor_reset",
    Flag.GOVERNOR: "unit/sections/test_section_preflights.py::"
    "test_the_governor_is_fixed_and_given_back_and_a_refusal_is_a_flag",
    Flag.CLOCK_DIFFERS: "unit/sections/test_section_preflights.py::test_another_clock_card_or_tool_than_before_is_a_flag",
    Flag.THROTTLED: "unit/benchmarks/test_boot_crosscheck.py::"
    "test_a_board_that_throttles_is_flagged_and_a_fan_that_turns_is_not",
    Flag.SETUP_CHANGED: "unit/sections/test_section_preflights.py::test_another_clock_card_or_tool_than_before_is_a_flag",
    Flag.NOT_MONOTONIC: "unit/sections/test_section_flags.py::"
    "test_packets_that_are_lost_below_a_rate_that_lost_none_are_said",
    Flag.SHORTENED: "unit/sections/test_section_flags.py::test_a_program_that_ran_shorter_than_its_definition_says_so",
    Flag.SIMULATED: "unit/sim/test_sim_strategy.py::"
    "test_samples_are_the_true_boot_times_and_say_that_they_are_simulated",
}


def carried(fault: str) -> tuple[str, ...]:
    """The flags that a number with this fault is proved to carry; of a rail's fault the test holds the first only."""
    outcome = FAULTS[fault].outcome
    return outcome.flags[:1] if outcome.trial == "rails" else outcome.flags


def named_in(test: str) -> set[str]:
    """The flags that a test names."""
    path, _, name = test.partition("::")
    source = (TESTS / path).read_text(encoding="utf-8")
    (function,) = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    text = "\n".join(source.splitlines()[first - 1 : function.end_lineno])
    return {flag for flag in Flag if re.search(rf"\bFlag\.{flag.name}\b|\"{flag}\"", text)}


@pytest.mark.parametrize("flag", Flag)
def test_every_flag_has_a_fault_or_a_test_that_makes_it_appear(flag: Flag) -> None:
    shown_by = SHOWN_BY[flag]
    assert flag in (named_in(shown_by) if "::" in shown_by else carried(shown_by))


def guarded_kinds() -> list[str]:
    """The kinds of drivers that are called behind a guard: their failures are named `<kind>_<what>`."""
    return [value.name for value in vars(guarded_calls).values() if isinstance(value, guarded_calls.DriverRole)]


@functools.cache
def classes() -> set[str]:
    """Every failure class that the code or a board type can give an attempt."""
    found = {f"hang_{stage}" for stage in ("spl", "uboot", "kernel", "before_login")}
    for package in ("lab", "virtual"):
        for path in (TESTS.parent / package).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            found |= set(re.findall(r"(?i)\bfailure(?:: [\w\[\]]+)?\s*=\s*\"(\w+)\"", source))
    found |= {f"{kind}_{word}" for kind in guarded_kinds() for word in WORDS}
    for name in boards.names():
        found |= {sign.means for sign in boards.load(name).failures.values()}
    return found


def test_a_class_that_does_not_exist_would_be_noticed() -> None:
    assert {"reset", "kernel_oops", "unreadable_output", "hang_spl", "io_error"} <= classes()
    assert "no_such_class" not in classes()


PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("farm/*.md")])
# How the pages speak of flags and of classes; names in backquotes follow, those of classes also in parentheses.
_NAMES = r"((?:(?: and| or)? \(?`\w+`[,)]*)+)"
_OF_FLAGS = re.compile(r"\b(?:flags?|flagged|flags? the samples?)((?:(?: and| or)? `\w+`,?)+)")
_OF_CLASSES = re.compile(
    rf"\b(?:class|classes|fails? as|ends? the run as|stops? with|refused(?: with)?|failed attempt){_NAMES}"
)


def names(pattern: re.Pattern[str], page: Path) -> set[str]:
    """What a page names in that way."""
    text = " ".join(page.read_text(encoding="utf-8").split())
    return {name for found in pattern.findall(text) for name in re.findall(r"`(\w+)`", found)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_only_flags_and_classes_that_exist(page: Path) -> None:
    assert names(_OF_FLAGS, page) <= set(Flag)
    assert names(_OF_CLASSES, page) <= classes()


def test_the_names_on_the_pages_are_found() -> None:
    assert names(_OF_FLAGS, DOCS / "runbooks.md") == {"console_overrun"}
    assert names(_OF_CLASSES, DOCS / "runbooks.md") == {"moment_missing"}
    assert names(_OF_CLASSES, DOCS / "concepts.md") == {"hang_kernel", "reset", "pdu_timeout"}
