"""The answers of a board about its boot, read and compared with the boot's moments."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import define, evolve, field

from lab.benchmarks.boot.crosscheck import (
    BoardFacts,
    BoardSoftware,
    CrossCheck,
    LogFacts,
    contradictions,
    read_facts,
    read_log,
    read_software,
    same_software,
    whole_text,
    with_digest,
    zero_of,
)
from lab.benchmarks.boot.timeline import TimeLine
from lab.metrics import Flag, Moment

SECOND = 10**9
SHELL = "471 (sh) S 412 471 471 1088 431"
GETTY = "412 (login) S 1 412 412 1088 288"
MODULES = "b08476c62919b70aa3ddf951347b8b9a"
BOOT = "7321cb29-9e53-485f-9524-8bd73eba1e38"
DIGEST = "0cc175b9c0f1b6a831c399e269772661"
FACTS = (
    "4.51 3.90",
    SHELL,
    GETTY,
    BOOT,
    "0",
    f"{DIGEST}  -",
    "thermal/thermal_zone0/temp:45312",
    "degraded",
    "foo.service loaded failed failed A service",
    "      1 .000123]",
    "      1 <3>[    1.000000] mmc1: error -110",
    "    120 <6>[    0",
)
FIRST = (
    "1/comm:systemd",
    "cmdline:console=ttyS2 root=/dev/mmcblk1p2",
    "version:Linux version 6.12.34",
    "sys/kernel/printk:1       4       1       7",
    '/etc/os-release:NAME="Arago"',
    "/etc/os-release:BUILD_ID=7",
    "22 1 179:2 / / rw,relatime - ext4 /dev/root rw",
    "dmesg:-Sr",
    "31731887a216431685425718785cd7e3  /sys/firmware/fdt",
    f"{MODULES}  /lib/modules/6.12.34/modules.dep",
    "u-boot 2025.01-00502-g5350f13b6639",
    "thermal/thermal_zone0/temp:45312",
)


def facts_of(*lines: str) -> BoardFacts:
    found = read_facts(lines)
    assert found is not None
    return found


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
    facts = facts_of(f"{uptime} 3.90", SHELL, GETTY.replace("288", str(getty)), *FACTS[3:6], state)
    zero_ns = zero_of(facts, round(asked_s * SECOND), moment("uptime", answered_s))
    assert zero_ns is not None
    return CrossCheck(facts, zero_ns, software=read_software(FIRST))


def failures(
    check: CrossCheck, start_s: float, prompt_s: float, known: list[dict[str, Any]] | None = None
) -> list[str]:
    """Classes of the contradictions."""
    found = contradictions(
        check, moment("starting_kernel", start_s), None, moment("login", prompt_s, "am62xx login:"), known or []
    )
    return [error.failure for error in found]


def test_a_board_that_throttles_is_flagged_and_a_fan_that_turns_is_not() -> None:
    zones = ("thermal/thermal_zone0/temp:45312", "thermal/thermal_zone1/temp:-40", "thermal/thermal_zone2/temp:")
    devices = {"cpufreq-cpu0": "2", "pwm-fan": "3", "thermal-devfreq-0": "0"}
    cooling = [
        line
        for number, (kind, state) in enumerate(devices.items())
        for line in (
            f"thermal/cooling_device{number}/type:{kind}",
            f"thermal/cooling_device{number}/cur_state:{state}",
        )
    ]
    facts = facts_of(*FACTS[:6], *zones, *cooling)
    assert facts.temperatures_c == {"thermal_zone0": 45.312, "thermal_zone1": -0.04}
    assert facts.throttled == ("cpufreq-cpu0",)
    assert Flag.THROTTLED in CrossCheck(facts, (0, 0)).flags
    assert Flag.THROTTLED not in CrossCheck(facts_of(*FACTS[:6], *zones, *cooling[2:]), (0, 0)).flags


def test_an_answer_is_read() -> None:
    facts = facts_of(*FACTS)
    assert (facts.uptime_ns, facts.getty_ns) == (4_510_000_000, 2_880_000_000)
    assert (facts.boot_id, facts.state, facts.taint, facts.fingerprint) == (BOOT, "degraded", 0, DIGEST)
    assert facts.failed == ("foo.service",)
    assert facts.temperatures_c == {"thermal_zone0": 45.312}
    assert read_log(FACTS, "", 7).errors == ("<3>[    1.000000] mmc1: error -110",)
    software = read_software(FIRST)
    assert (software.init, software.level, software.dmesg, software.has_thermal) == ("systemd", 7, "-Sr", True)
    assert software.names == {
        "uboot": "2025.01-00502-g5350f13b6639",
        "kernel_build": "Linux version 6.12.34",
        "init": "systemd",
        "command_line": "console=ttyS2 root=/dev/mmcblk1p2",
        "os_release": 'NAME="Arago" BUILD_ID=7',
        "root_options": "rw,relatime ext4 /dev/root rw",
        "root_partition": "2",
        "device_tree": "31731887a216431685425718785cd7e3",
        "modules": MODULES,
    }


def damage(dice: random.Random, lines: Sequence[str]) -> list[str]:
    """An answer whose bits flip, whose bytes go missing, or into which the kernel or systemd writes."""
    text = bytearray("\n".join(lines), "latin-1")
    at, size = dice.randrange(len(text)), dice.randint(1, 8)
    match dice.randrange(4):
        case 0:
            text[at] ^= 1 << dice.randrange(7)
        case 1:
            text[at : at + size] = dice.randbytes(size)
        case 2:
            del text[at : at + size]
        case _:
            text[at:at] = dice.choice([b"[    9.123456] eth0: up\n", b"[  OK  ] Reached target Login.\n"])
    return text.decode("latin-1").split("\n")


@pytest.mark.parametrize("seed", range(300))
def test_a_damaged_answer_says_nothing(seed: int) -> None:
    dice = random.Random(seed)
    whole = with_digest(dice.choice([FACTS, FIRST]))
    assert whole_text(whole) == whole[:-1]
    damaged = damage(dice, whole)
    assert damaged == whole or whole_text(damaged) is None


@pytest.mark.parametrize("lines", [[], ["4.51 3.90"], ["garbage", "(", "1 (x) S"], [f"{DIGEST}  -"]])
def test_what_is_no_answer_says_nothing(lines: list[str]) -> None:
    assert whole_text(lines) is None
    assert read_facts(lines[1:]) is None


@pytest.mark.parametrize("uptime", ["4.51 3.90", "4.51 3.90 "])  # of BusyBox' cut
def test_a_board_that_says_little_is_unknown(uptime: str) -> None:
    facts = facts_of(uptime)
    assert (facts.getty_ns, facts.boot_id, facts.taint, facts.state) == (None, "", None, "")


@pytest.mark.parametrize(
    ("facts", "errors", "flagged"),
    [
        (BoardFacts(taint=512), (), True),
        (BoardFacts(taint=4224), (), True),
        (BoardFacts(taint=4097), (), False),  # modules that are proprietary or out of the tree
        (BoardFacts(failed=("foo.service",)), (), True),
        (BoardFacts(), ("<2>[    1.000000] rcu: INFO: rcu_sched self-detected stall on CPU",), True),
    ],
)
def test_trouble_that_the_console_need_not_show_is_a_flag(
    facts: BoardFacts, errors: tuple[str, ...], *, flagged: bool
) -> None:
    assert (Flag.KERNEL_ERRORS in CrossCheck(facts, (0, 0), LogFacts(errors)).flags) == flagged


@pytest.mark.parametrize(
    ("units", "flags"),
    [
        (["MainPID=412", "NRestarts=0"], set()),
        (["NRestarts=1", "MainPID=412"], {Flag.PROMPT_REPEATED}),
        (["MainPID=300", "NRestarts=2", "", "MainPID=471", "NRestarts=0", "", "MainPID=0", "NRestarts=1"], set()),
        (["MainPID=300", "NRestarts=0", "", "MainPID=412"], {Flag.NOT_CROSS_CHECKED}),  # systemd before 235
        (["MainPID=300", "NRestarts=0"], {Flag.NOT_CROSS_CHECKED}),  # the prompt's unit has another name
        ([], {Flag.NOT_CROSS_CHECKED}),
    ],
)
def test_a_getty_that_systemd_started_again_may_have_lost_its_first_prompt(units: list[str], flags: set[Flag]) -> None:
    facts = facts_of(*FACTS[:7], "running", *units, *FACTS[9:])
    assert facts.state == "running"
    assert CrossCheck(facts, (0, 0), software=BoardSoftware(init="systemd")).flags == flags
    unasked = {Flag.NOT_CROSS_CHECKED} & CrossCheck(facts, (0, 0), software=BoardSoftware(init="init")).flags
    assert not unasked


def test_a_getty_that_starts_behind_the_prompts_answer_is_another_one() -> None:
    assert not checked().getty_starts_behind(round(13.9 * SECOND))
    assert checked().getty_starts_behind(round(12.8 * SECOND))
    assert not CrossCheck(BoardFacts(), (0, 0)).getty_starts_behind(0)


def test_a_script_of_init_on_the_terminal_is_no_getty() -> None:
    script, supervisor = "300 (sh) S 1 300 300 1088 20", "300 (supervise) S 1 300 300 0 20"
    assert facts_of(FACTS[0], SHELL, GETTY, script).getty_ns == 2_880_000_000
    assert facts_of(FACTS[0], SHELL, script).getty_ns == 200_000_000
    assert facts_of(FACTS[0], SHELL, GETTY, supervisor).getty_ns == 2_880_000_000  # on no terminal


def test_a_good_boot_is_not_contradicted() -> None:
    assert failures(checked(), 9.9, 13.9) == []
    assert failures(checked(), 9.3, 13.0) == []  # BusyBox' getty sleeps 0.1 s; TCG's clock starts late


@pytest.mark.parametrize("is_first", [False, True])
def test_the_first_line_tells_of_the_kernel_that_runs_where_the_boards_log_has_it(*, is_first: bool) -> None:
    check = evolve(checked(), log=LogFacts(is_first=is_first))
    line = check.time_line(moment("kernel", 9.9), moment("login", 13.9), TimeLine(begun=0.1))
    assert line.begun == (0.1 if is_first else None)


@pytest.mark.parametrize("restarts", [None, 0, 1])
def test_a_text_from_before_the_one_start_of_the_getty_is_no_prompt(restarts: int | None) -> None:
    check = checked()  # whose getty came at 12.88 s, and whose answer came .07 s behind the question
    check = evolve(check, facts=evolve(check.facts, restarts=restarts))
    line = check.time_line(moment("kernel", 9.9), moment("login", 13.9), TimeLine(drawn=(1.2, 1.05, 0.5)))
    assert len(line.drawn) == (2 if restarts == 0 else 3)


@pytest.mark.parametrize("early_s", [0.1, 1.3, 3.1])
def test_a_text_from_before_the_getty_is_no_prompt(early_s: float) -> None:
    assert failures(checked(), 9.9, 12.8 - early_s) == ["prompt_not_real"]


@pytest.mark.parametrize("early_s", [0.02, 0.16, 1.3])
def test_a_start_that_was_stamped_behind_the_kernels_own_clock_is_late(early_s: float) -> None:
    check = checked()
    start = moment("kernel", check.zero_ns[1] / 1e9 + early_s + 0.001)
    (error,) = contradictions(check, start, None, moment("login", 13.9), [])
    assert (error.failure, error.fault) == ("stamps_uncertain", "lab")
    assert f"ran {early_s:.2f} s before" in str(error)


def test_a_board_that_did_not_reboot_or_is_sick_is_told() -> None:
    assert failures(checked(), 9.9, 13.9, [{"boot_id": BOOT}]) == ["not_rebooted"]
    assert failures(checked(state="maintenance"), 9.9, 13.9) == ["emergency_mode"]


@pytest.mark.parametrize(
    ("number", "partition"), [("179:2", "2"), ("179:34", "2"), ("179:3", "3"), ("259:2", None), ("0:17", None)]
)
def test_another_slot_shows_by_its_partition_and_another_number_of_its_card_does_not(
    number: str, partition: str | None
) -> None:
    lines = [line.replace("179:2", number) for line in FIRST]
    assert read_software(lines).names.get("root_partition") == partition


@pytest.mark.parametrize(
    "name", ["command_line", "init", "os_release", "root_options", "root_partition", "kernel_build"]
)
def test_a_run_is_of_one_software_as_the_board_names_it(name: str) -> None:
    known = [{"boot_id": "1", "software": {**checked().software.names, name: "another"}}]
    assert failures(checked(), 9.9, 13.9, known) == ["software_changed"]


@pytest.mark.parametrize("name", ["uboot", "kernel_build", "init", "command_line", "root_options", "modules"])
def test_boots_of_another_software_are_not_compared_with(name: str) -> None:
    names = checked().software.names
    assert same_software({"software": names}, {"software": {**names, "seed": "of this boot"}})
    assert not same_software({"software": names}, {"software": {**names, name: "another"}})
    assert not same_software({"software": names}, {})


# --- The kernel's log ---


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

    def lost(self, console: list[str], *, forgotten: int = 0, marks: Sequence[str] | None = None) -> LogFacts:
        """Compare a console's lines with a board's log, less the first ones of its ring."""
        if marks is None:
            marks = [found[1] for line in console[::40] if (found := re.search(r"(\d+\.\d{6})\]", line))]
        text = "\r\n".join(["U-Boot 2025.01", *console, "evm login: "])
        kept = self.records[forgotten:]
        counts = Counter((level, int(at)) for at, level, _ in kept)
        stamps = {f"{at:.6f}" for at, _, _ in kept}
        found = [f"1 {mark[mark.index('.') :]}]" for mark in marks if mark in stamps]
        answer = [f"{count:7d} <{level}>[{second:5d}" for (level, second), count in counts.items()]
        level = read_software((f"cmdline:{self.cmdline}", "sys/kernel/printk:1\t4\t1\t7")).level
        return read_log([*found, *answer], text, level, marks)


def is_overrun(log: LogFacts) -> bool:
    return Flag.CONSOLE_OVERRUN in CrossCheck(BoardFacts(), (0, 0), log).flags


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


@pytest.mark.parametrize("seed", range(20))
def test_a_kernel_is_known_by_the_times_of_its_lines(seed: int) -> None:
    log = KernelLog(random.Random(seed))
    console = log.lines()
    assert log.lost(console).is_first
    times = sorted(log.dice.uniform(0.001, log.dice.uniform(0.01, 5)) for _ in range(log.dice.randint(4, 60)))
    first = [f"[{at:12.6f}] first kernel" for at in times]
    assert not log.lost([*first, *console], marks=[f"{at:.6f}" for at in times[:8]]).is_first
    assert not log.lost(console, forgotten=len(log.records) // 2).is_first, "its ring has lost them"
    assert not log.lost([]).is_first, "a quiet kernel"


@pytest.mark.parametrize(
    ("before_s", "failure"), [(-0.1, []), (0.0, []), (0.02, ["second_kernel"]), (4, ["second_kernel"])]
)
def test_a_kernels_line_from_before_the_running_kernels_time_0_is_another_kernels(
    before_s: float, failure: list[str]
) -> None:
    check = checked()
    line = moment("init", check.zero_ns[0] / 1e9 - before_s, "Run /sbin/init as init process")
    found = contradictions(check, moment("starting_kernel", 5.0), line, moment("login", 13.9), [])
    assert [error.failure for error in found] == failure


def test_a_kernel_whose_clock_or_log_is_the_first_ones_started_once() -> None:
    check = checked()  # its time 0 is at 9.93 to 10.01 s
    assert check.is_first(round(10.1 * SECOND))
    assert not check.is_first(round(9.97 * SECOND))
    assert evolve(check, log=LogFacts(is_first=True)).is_first(0)
