"""What a board says of its boot, read and compared with the boot's moments."""

from __future__ import annotations

from typing import Any

import pytest

from lab.benchmarks.boot.crosscheck import CrossCheck, contradictions, read_facts
from lab.console.model import Moment

SECOND = 10**9
SELF = "95 (cat) R 94 95 85 1088 95 4194304 1 0 0 0 0 0 0 0 20 0 1 0 431 1 1"
GETTY = "85 (login) S 1 85 85 1088 95 4194560 1 0 0 0 0 0 0 0 20 0 1 0 288 1 1"
OTHER = "86 (agetty) S 1 86 86 1025 86 4194560 1 0 0 0 0 0 0 0 20 0 1 0 120 1 1"
MODULES = "b08476c62919b70aa3ddf951347b8b9a"
BOOT = "7321cb29-9e53-485f-9524-8bd73eba1e38"
ANSWERS = (
    ("@@4.51 3.90", SELF, OTHER, GETTY),
    (
        "1/comm:systemd",
        "cmdline:console=ttyS2 root=/dev/mmcblk1p2",
        "version:Linux version 6.12.34",
        f"sys/kernel/random/boot_id:{BOOT}",
        "sys/kernel/tainted:0",
        '/etc/os-release:NAME="Arago"',
        "/etc/os-release:BUILD_ID=7",
    ),
    (
        "22 1 179:2 / / rw,relatime - ext4 /dev/root rw",
        "31731887a216431685425718785cd7e3  /sys/firmware/fdt",
        f"{MODULES}  -",
    ),
    ("degraded", "foo.service loaded failed failed A service"),
    ("<3>[    1.000000] mmc1: error -110",),
)


def moment(name: str, at_s: float, text: str = "") -> Moment:
    """A moment that is sure."""
    return Moment(name, round(at_s * SECOND), 1_000_000, 0, text or name)


def checked(
    *,
    uptime: str = "4.51",
    getty: int = 288,
    state: str = "running",
    asked_s: float = 14.45,
    answered_s: float = 14.52,
) -> CrossCheck:
    """A check of a kernel that started at 10.0 s, and its getty at 12.88 s."""
    clock = (f"@@{uptime} 3.90", SELF, GETTY.replace("288", str(getty)))
    facts = read_facts((clock, ANSWERS[1], ANSWERS[2], (state,), ()))
    found = CrossCheck.of(facts, round(asked_s * SECOND), moment("uptime", answered_s))
    assert found is not None
    return found


def failures(
    check: CrossCheck, start_s: float, prompt_s: float, known: list[dict[str, Any]] | None = None
) -> list[str]:
    """Classes of the contradictions."""
    found = contradictions(
        check, moment("starting_kernel", start_s), moment("login", prompt_s, "am62xx login:"), known or []
    )
    return [error.failure for error in found]


def test_an_answer_is_read() -> None:
    facts = read_facts(ANSWERS)
    assert (facts.uptime_ns, facts.getty_ns) == (4_510_000_000, 2_880_000_000)
    assert (facts.boot_id, facts.init, facts.state, facts.taint) == (BOOT, "systemd", "degraded", 0)
    assert facts.failed == ("foo.service",)
    assert facts.errors == ("<3>[    1.000000] mmc1: error -110",)
    assert facts.software == {
        "kernel_build": "Linux version 6.12.34",
        "command_line": "console=ttyS2 root=/dev/mmcblk1p2",
        "os_release": 'NAME="Arago" BUILD_ID=7',
        "root_options": "rw,relatime ext4 /dev/root rw",
        "device_tree": "31731887a216431685425718785cd7e3",
        "modules": MODULES,
    }


@pytest.mark.parametrize(
    "answers",
    [((), (), (), (), ()), (("garbage", "(", "1 (x) S"), ("nothing",), ("-",), ("sh: systemctl: not found",), ("x",))],
)
def test_what_is_missing_or_garbled_is_unknown(answers: tuple[tuple[str, ...], ...]) -> None:
    facts = read_facts(answers)
    assert (facts.uptime_ns, facts.getty_ns, facts.boot_id, facts.taint, facts.errors) == (None, None, "", None, ())
    assert CrossCheck.of(facts, 0, moment("uptime", 1)) is None


@pytest.mark.parametrize("name", ["(a (b) c)", "(x) y)"])
def test_a_process_may_have_any_name(name: str) -> None:
    own = SELF.replace("(cat)", name)
    assert read_facts((("@@4.51 3.90", own, GETTY), (), (), (), ())).getty_ns == 2_880_000_000


def test_a_script_of_init_on_the_terminal_is_no_getty() -> None:
    script = GETTY.replace("(login)", "(sh)").replace("288", "20")
    assert read_facts((("@@4.51 3.90", SELF, script, GETTY), (), (), (), ())).getty_ns == 2_880_000_000
    assert read_facts((("@@4.51 3.90", SELF, script), (), (), (), ())).getty_ns == 200_000_000


def test_a_good_boot_is_not_contradicted() -> None:
    assert failures(checked(), 9.9, 13.9) == []
    assert failures(checked(), 9.3, 13.0) == []  # BusyBox' getty sleeps 0.1 s; TCG's clock starts late


@pytest.mark.parametrize("early_s", [0.3, 1.3, 3.1])
def test_a_text_from_before_the_getty_is_no_prompt(early_s: float) -> None:
    assert failures(checked(), 9.9, 12.8 - early_s) == ["prompt_not_real"]


@pytest.mark.parametrize("late_s", [5.0, 10.0])
def test_a_prompt_that_the_getty_drew_again_is_late(late_s: float) -> None:
    assert failures(checked(asked_s=29.4, answered_s=29.52, uptime="19.51"), 9.9, 13.9 + late_s) == ["prompt_again"]


@pytest.mark.parametrize("later_s", [4.2, 9.0])
def test_a_kernel_that_started_later_is_another_one(later_s: float) -> None:
    assert failures(checked(), 9.95 - later_s, 13.9) == ["second_kernel"]


def test_the_other_boots_of_the_run_narrow_the_limits() -> None:
    known = [{"boot_id": str(number), "zero": 0.1, "getty": 1.0} for number in range(3)]
    assert failures(checked(), 9.9, 13.9, known) == []
    assert failures(checked(), 8.9, 13.9, known) == ["second_kernel"]
    assert failures(checked(), 9.9, 14.7, known) == ["prompt_again"]


def test_a_board_that_did_not_reboot_or_is_sick_is_told() -> None:
    assert failures(checked(), 9.9, 13.9, [{"boot_id": BOOT}]) == ["not_rebooted"]
    assert failures(checked(state="maintenance"), 9.9, 13.9) == ["emergency_mode"]


@pytest.mark.parametrize("name", ["command_line", "os_release", "root_options", "kernel_build"])
def test_a_run_is_of_one_software_as_the_board_names_it(name: str) -> None:
    known = [{"boot_id": "1", "software": {**checked().facts.software, name: "another"}}]
    assert failures(checked(), 9.9, 13.9, known) == ["software_changed"]
