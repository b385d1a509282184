"""The answers of a board about its boot, read and compared with the boot's moments."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from attrs import define, evolve, field

from lab.benchmarks.boot.crosscheck import CrossCheck, contradictions, doubts, read_facts
from lab.metrics import Flag, Moment

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
        "sys/kernel/printk:1       4       1       7",
        '/etc/os-release:NAME="Arago"',
        "/etc/os-release:BUILD_ID=7",
    ),
    (
        "22 1 179:2 / / rw,relatime - ext4 /dev/root rw",
        "31731887a216431685425718785cd7e3  /sys/firmware/fdt",
        f"{MODULES}  /lib/modules/6.12.34/modules.dep",
        "u-boot 2025.01-00502-g5350f13b6639",
        "degraded",
        "foo.service loaded failed failed A service",
    ),
    ("<3>[    1.000000] mmc1: error -110", "120 <6>[    0", "2 <30>[    0", "3 <7>[    0", "1 <3>[    1"),
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
    facts = read_facts((clock, ANSWERS[1], (*ANSWERS[2][:-2], state), ()))
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


def test_a_board_that_throttles_is_flagged_and_a_fan_that_turns_is_not() -> None:
    thermal = "/sys/class/thermal"
    zones = (
        f"{thermal}/thermal_zone0/temp:45312",
        f"{thermal}/thermal_zone1/temp:-40",
        f"{thermal}/thermal_zone2/temp:",
    )
    devices = {"cpufreq-cpu0": "2", "pwm-fan": "3", "thermal-devfreq-0": "0"}
    cooling = [
        line
        for number, (kind, state) in enumerate(devices.items())
        for line in (
            f"{thermal}/cooling_device{number}/type:{kind}",
            f"{thermal}/cooling_device{number}/cur_state:{state}",
        )
    ]
    facts = read_facts((ANSWERS[0], (*ANSWERS[1], *zones, *cooling), ANSWERS[2], ()))
    assert facts.temperatures_c == {"thermal_zone0": 45.312, "thermal_zone1": -0.04}
    assert facts.throttled == ("cpufreq-cpu0",)
    assert Flag.THROTTLED in CrossCheck(facts, (0, 0)).flags
    cool = read_facts((ANSWERS[0], (*ANSWERS[1], *zones, *cooling[2:]), ANSWERS[2], ()))
    assert Flag.THROTTLED not in CrossCheck(cool, (0, 0)).flags


@pytest.mark.parametrize("seed", range(8))
def test_a_prompt_sooner_than_its_getty_draws_one_is_doubted(seed: int) -> None:
    dice = random.Random(seed)
    early, late = moment("login", 12.88 + dice.uniform(0.1, 0.3)), moment("login", 13.88 + dice.uniform(0.1, 0.3))
    start = moment("starting_kernel", 9.7)
    check = checked()
    agetty = evolve(check, facts=evolve(check.facts, init="systemd"))
    busybox = evolve(check, facts=evolve(check.facts, init="init"))
    usual = [{"getty": dice.uniform(0.95, 1.3)}] * 3
    assert [doubts(agetty, start, each, []) for each in (early, late)] == [{Flag.PROMPT_REPEATED}, frozenset()]
    assert [doubts(busybox, start, each, []) for each in (early, late)] == [frozenset()] * 2
    assert [doubts(busybox, start, each, usual) for each in (early, late)] == [{Flag.PROMPT_REPEATED}, frozenset()]
    assert doubts(agetty, start, early, [{"getty": 0.11}] * 3) == frozenset()  # a getty that does not sleep


def test_an_answer_is_read() -> None:
    facts = read_facts(ANSWERS)
    assert (facts.uptime_ns, facts.getty_ns) == (4_510_000_000, 2_880_000_000)
    assert (facts.boot_id, facts.init, facts.state, facts.taint) == (BOOT, "systemd", "degraded", 0)
    assert facts.failed == ("foo.service",)
    assert facts.errors == ("<3>[    1.000000] mmc1: error -110",)
    assert facts.logged == {0: (122, 0), 1: (1, 1)}
    assert facts.software == {
        "uboot": "2025.01-00502-g5350f13b6639",
        "kernel_build": "Linux version 6.12.34",
        "command_line": "console=ttyS2 root=/dev/mmcblk1p2",
        "os_release": 'NAME="Arago" BUILD_ID=7',
        "root_options": "rw,relatime ext4 /dev/root rw",
        "device_tree": "31731887a216431685425718785cd7e3",
        "modules": MODULES,
    }


@pytest.mark.parametrize(
    "answers",
    [
        ((), (), (), ()),
        (("garbage", "(", "1 (x) S"), ("nothing",), ("-", "u-boot", "sh: systemctl: not found"), ("x", "sh: uniq")),
    ],
)
def test_what_is_missing_or_garbled_is_unknown(answers: tuple[tuple[str, ...], ...]) -> None:
    facts = read_facts(answers)
    assert (facts.uptime_ns, facts.getty_ns, facts.boot_id, facts.taint, facts.errors) == (None, None, "", None, ())
    assert CrossCheck.of(facts, 0, moment("uptime", 1)) is None


@pytest.mark.parametrize(
    ("part", "line", "flagged"),
    [
        (1, "sys/kernel/tainted:512", True),
        (1, "sys/kernel/tainted:4224", True),
        (1, "sys/kernel/tainted:4097", False),  # modules that are proprietary or out of the tree
        (2, "foo.service loaded failed failed A service", True),
        (3, "<2>[    1.000000] rcu: INFO: rcu_sched self-detected stall on CPU", True),
    ],
)
def test_trouble_that_the_console_need_not_show_is_a_flag(part: int, line: str, *, flagged: bool) -> None:
    well = [ANSWERS[0], ANSWERS[1], ANSWERS[2][:-1], ()]
    answers = well.copy()
    answers[part] = (*(each for each in well[part] if not each.startswith(line.partition(":")[0])), line)
    flags = [CrossCheck(read_facts(each), (0, 0)).flags for each in (well, answers)]
    assert [Flag.KERNEL_ERRORS in each for each in flags] == [False, flagged]


@pytest.mark.parametrize("name", ["(a (b) c)", "(x) y)"])
def test_a_process_may_have_any_name(name: str) -> None:
    own = SELF.replace("(cat)", name)
    assert read_facts((("@@4.51 3.90", own, GETTY), (), (), ())).getty_ns == 2_880_000_000


def test_a_script_of_init_on_the_terminal_is_no_getty() -> None:
    script = GETTY.replace("(login)", "(sh)").replace("288", "20")
    assert read_facts((("@@4.51 3.90", SELF, script, GETTY), (), (), ())).getty_ns == 2_880_000_000
    assert read_facts((("@@4.51 3.90", SELF, script), (), (), ())).getty_ns == 200_000_000


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


@pytest.mark.parametrize("early_s", [0.16, 1.3])
def test_a_start_that_was_stamped_behind_the_kernels_own_clock_is_late(early_s: float) -> None:
    check = checked()
    (error,) = contradictions(check, moment("kernel", check.zero_ns[1] / 1e9 + early_s), moment("login", 13.9), [])
    assert (error.failure, error.fault) == ("stamps_uncertain", "lab")
    assert f"ran {early_s:.2f} s before" in str(error)


def test_the_other_boots_of_the_run_narrow_the_limits() -> None:
    known = [{"boot_id": str(number), "zero": 0.1, "getty": 1.0} for number in range(3)]
    assert failures(checked(), 9.9, 13.9, known) == []
    assert failures(checked(), 8.9, 13.9, known) == ["second_kernel"]
    assert failures(checked(), 9.9, 14.7, known) == []  # a busy board
    assert failures(checked(), 9.9, 15.7, known) == ["prompt_again"]


@pytest.mark.parametrize("known", [[], [{"boot_id": str(number), "zero": 0.1, "getty": 1.0} for number in range(3)]])
def test_a_kernel_whose_console_was_slow_before_its_clock_ran_is_no_second_one(known: list[dict[str, Any]]) -> None:
    slow = evolve(checked(), switched_ns=round(10.5 * SECOND))  # its time 0 is at 10.0 s
    assert failures(slow, 3.5, 13.9, known) == []
    assert slow.started_once([moment("starting_kernel", 3.5)], 11 * SECOND)
    assert not slow.started_once([moment("starting_kernel", 3.5)], 9 * SECOND)  # the second one began behind that line
    killed = evolve(slow, switched_ns=round(9.8 * SECOND))  # the first kernel's clock ran before
    assert failures(killed, 3.5, 13.9, known) == ["second_kernel"]
    assert not killed.started_once([moment("starting_kernel", 3.5)], 11 * SECOND)


def test_a_board_that_did_not_reboot_or_is_sick_is_told() -> None:
    assert failures(checked(), 9.9, 13.9, [{"boot_id": BOOT}]) == ["not_rebooted"]
    assert failures(checked(state="maintenance"), 9.9, 13.9) == ["emergency_mode"]


@pytest.mark.parametrize("name", ["command_line", "os_release", "root_options", "kernel_build"])
def test_a_run_is_of_one_software_as_the_board_names_it(name: str) -> None:
    known = [{"boot_id": "1", "software": {**checked().facts.software, name: "another"}}]
    assert failures(checked(), 9.9, 13.9, known) == ["software_changed"]


# --- Lines that did not come ---


@define
class KernelLog:
    """A kernel's lines, drawn at random, with the console on which they come."""

    dice: random.Random
    cmdline: str = "console=ttyS2"
    records: list[tuple[float, int, str]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        times = sorted([0.0] * 9 + [round(self.dice.uniform(0, 8), 6) for _ in range(self.dice.randint(150, 400))])
        levels = self.dice.choices((3, 4, 5, 6, 7, 30, 29), (4, 4, 10, 60, 5, 15, 5), k=len(times))
        self.records = [
            (at, level, f"driver{number}: probed")
            for number, (at, level) in enumerate(zip(times, levels, strict=True))
        ]

    def lines(self, below: int = 7) -> list[str]:
        """The lines that the console lets through."""
        return [f"[{at:12.6f}] {text}" for at, level, text in self.records if level & 7 < below]

    def lost(self, console: list[str], *, forgotten: int = 0) -> CrossCheck:
        """The cross-check of a board that logged these lines, less the first ones of its ring, with those that came."""
        counts = Counter((level, int(at)) for at, level, _ in self.records[forgotten:])
        answer = [f"{count:7d} <{level}>[{second:5d}" for (level, second), count in counts.items()]
        files = (f"cmdline:{self.cmdline}", "sys/kernel/printk:1\t4\t1\t7")
        facts = read_facts((("@@12.00 1.00",), files, (), answer))
        found = CrossCheck.of(
            facts, 0, moment("uptime", 0.1), "\r\n".join(["U-Boot 2025.01", *console, "evm login: "])
        )
        assert found is not None
        return found


def is_overrun(check: CrossCheck) -> bool:
    return Flag.CONSOLE_OVERRUN in check.flags


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_whole_lines_are_counted(seed: int) -> None:
    log = KernelLog(random.Random(seed))
    console = log.lines()
    last_second = sum(line.startswith("[    7") for line in console)
    count = log.dice.choice((3, 10, 40))
    start = log.dice.randrange(len(console) - last_second - count)
    came = [*console[:start], *console[start + count :]]
    check = log.lost(came * log.dice.choice((1, 2)))  # twice: with an early console
    assert check.lost_lines == count
    assert is_overrun(check)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "kind", ["plain", "twice", "programs", "wrapped", "script", "ignore_loglevel", "elsewhere", "still logging"]
)
def test_a_console_that_came_whole_has_lost_nothing(kind: str, seed: int) -> None:
    dice = random.Random(seed)
    quiet = dice.choice(("", " quiet", " loglevel=4", " loglevel=5"))
    log = KernelLog(dice, f"console=ttyS2{quiet}")
    console = log.lines({"": 7, " loglevel=5": 5}.get(quiet, 4))
    forgotten = 0
    if kind == "twice":  # an early console, and the one that replays the ring
        console = console[: len(console) // 2] + console
    elif kind == "programs":
        console = [dice.choice(("", "[  OK  ] Started ", "Sta")) + line for line in console]
    elif kind == "wrapped":
        forgotten = dice.randrange(1, 100)
    elif kind == "script":  # `dmesg -n 1`, or kernel.printk of sysctl, at some time
        made_quiet_s, urgent = dice.uniform(0, 8), log.lines(dice.choice((1, 4)))
        console = [line for line in console if float(line[1:13]) < made_quiet_s or line in urgent]
    elif kind == "ignore_loglevel":
        console = log.lines(8)
    elif kind == "elsewhere":  # only the login is on this line
        console = []
    elif kind == "still logging":
        still_waiting_s = dice.uniform(5, 8)
        console = [line for line in console if float(line[1:13]) < still_waiting_s]
    check = log.lost(console, forgotten=forgotten)
    assert check.lost_lines == 0
    assert not is_overrun(check)


def test_a_few_parts_of_a_line_are_no_loss() -> None:
    log = KernelLog(random.Random(1))
    check = log.lost(log.lines()[2:])
    assert check.lost_lines == 2
    assert not is_overrun(check)


@pytest.mark.parametrize("seed", range(8))
def test_a_clock_that_starts_late_is_no_second_kernel_if_its_log_came(seed: int) -> None:
    log = KernelLog(random.Random(seed))
    console = log.lines()
    slow = log.lost(console)  # its uptime is 12 s at 0.1 s, so its clock began at -11.9 s
    start, prompt = moment("starting_kernel", -11.9 - log.dice.uniform(4.5, 9)), moment("login", -2)
    assert list(contradictions(slow, start, prompt, [])) == []
    assert doubts(slow, start, prompt, []) == {Flag.NOT_CROSS_CHECKED}
    assert doubts(slow, moment("starting_kernel", -13), prompt, []) == frozenset()
    first_life = [f"[{log.dice.uniform(0, 1):12.6f}] first kernel" for _ in range(log.dice.randint(1, 30))]
    second = log.lost([*first_life, *console])
    assert [error.failure for error in contradictions(second, start, prompt, [])] == ["second_kernel"]
