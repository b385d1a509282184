"""A suspend's numbers rest on more than one text: who wrote a line, the counters, the host's clock, the firmware's mode."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from attrs import evolve
from support.atlength import either
from support.facts import missing_facts

from lab import boards
from lab.benchmarks.lowpower.judge import Observed, judge
from lab.benchmarks.lowpower.kernellog import END, read_log, stamp
from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.benchmarks.lowpower.preflight import PrintkSettings, Stats
from lab.benchmarks.lowpower.result import MCU_UART, SuspendResult
from lab.benchmarks.lowpower.watch import SuspendWatch, WakeEdge
from lab.errors import BoardlabError
from lab.metrics import Flag, Moment

S, MS = 1_000_000_000, 1_000_000
AM62, QEMU, AM62L = boards.load("am62xx_sk"), boards.load("qemu-virt"), boards.load("am62lxx_evm")
DEEP, MCU_ONLY = SuspendPlan("deep_sleep", "uart", 5), SuspendPlan("mcu_only", "uart", 5)
BY_RTC = SuspendPlan("deep_sleep", "rtc", 5)
_ERRORS = ("<0>", "<1>", "<2>", "<3>")
START = "Enabling non-boot CPUs ..."
ASKED_NS = 5 * S  # the host's edge; the RTC's alarm is 5 s after the command at 0
BEFORE, AFTER = Stats(3, 0, tainted=0), Stats(4, 0, tainted=0)


@pytest.fixture
def dice() -> random.Random:
    return random.Random(34)


def line(t_s: float, text: str, level: int = 6, facility: int = 0) -> str:
    return f"<{facility * 8 + level}>[{t_s:12.6f}] {text}"


def suspended(latency_ms: float = 137.0, mode: str = "0x0", *more: str, variant: str = "deep") -> list[str]:
    """The kernel's log of a suspend; `more` stands after the lines of the resume's begin."""
    lines = [
        line(45.548480, f"PM: suspend entry ({variant})"),
        line(45.6, "Freezing user space processes"),
        line(45.601, "Freezing user space processes completed (elapsed 0.001 seconds)"),
        line(45.669270, "Disabling non-boot CPUs ..."),
        line(45.7, START),
        line(45.701, f"ti-sci 44043000.system-controller: ti_sci: wakeup source:0x80, pin:0x72, mode:{mode}"),
        *more,
        line(45.7 + latency_ms / 1e3, END),
    ]
    return lines if mode else [each for each in lines if "ti_sci" not in each]


def by_rtc(latency_ms: float) -> list[str]:
    """The log of a suspend that the alarm ended."""
    return [text.replace("source:0x80", "source:0x50") for text in suspended(latency_ms)]


def again(dmesg: Sequence[str]) -> list[str]:
    """Begin, end, the firmware's line and errors, as the board reads them a second time."""
    numbered = enumerate(dmesg, 1)
    read = [
        (n, each)
        for n, each in numbered
        if each.endswith((START, END)) or "wakeup source" in each or each[:3] in _ERRORS
    ]
    return [f"{number}:{each}" for number, each in read]


def judged(
    dmesg: Sequence[str],
    host_ms: float = 200.0,
    plan: SuspendPlan = DEEP,
    *,
    before: Stats | None = BEFORE,
    after: Stats | None = AFTER,
    mcu_text: str | None = None,
    read_again: Sequence[str] | None = (),
    board: boards.BoardType = AM62,
) -> SuspendResult:
    """The host has `host_ms` from its edge, or from the alarm, to the answer; `read_again` (): as the first time."""
    answer = Moment("answer", ASKED_NS + round(host_ms * MS), MS, 100, "boardlab: back 0")
    watch = SuspendWatch(board, plan, 0, 5 if plan.wake == "rtc" else 65)
    if plan.wake != "rtc":
        watch.edge = WakeEdge(plan.wake, ASKED_NS, ASKED_NS + 100_000)
    watch.moment(answer)
    lines = again(dmesg) if read_again == () else read_again
    found = PrintkSettings("7 4 1 7", ("ttyS2",))
    return judge(watch, Observed(found, before, after, dmesg, mcu_text, None, again=lines))


def failure(*arguments: object, **words: object) -> tuple[str, str]:
    with pytest.raises(BoardlabError) as raised:
        judged(*arguments, **words)  # type: ignore[arg-type]
    assert len(str(raised.value)) > 40
    return raised.value.failure, str(raised.value)


def test_a_good_suspend_that_everything_confirms_has_no_flag(dice: random.Random) -> None:
    for _ in range(50):
        latency = dice.uniform(20, 900)
        assert judged(suspended(latency), latency + dice.uniform(0, 600)).flags == frozenset()
        rtc = judged(by_rtc(latency), latency + dice.uniform(-1400, 300), BY_RTC)
        assert rtc.kernel_ms[0] == pytest.approx(latency, abs=1e-3)


def test_a_mode_that_one_lost_bit_makes_the_asked_one_gives_no_verified_number(dice: random.Random) -> None:
    """The board was in MCU-only, and the number of Deep Sleep came; or anything else of that line differs."""
    true = suspended(mode="0x1")
    for number in ("0x0", "0x00", "0x8", "0x", "0xl", "1x0", "0x0 mode:0x1"):
        assert failure(suspended(mode=number), read_again=again(true))[0] in {
            "resume_lines_missing",
            "wrong_sleep_mode",
        }
    at = next(number for number, each in enumerate(true) if "mode:" in each)
    for _ in range(either(200, 5_000)):
        garbled = list(true[at])
        garbled[dice.randrange(len(garbled))] = chr(dice.randrange(32, 127))
        lines = [*true[:at], "".join(garbled), *true[at + 1 :]]
        try:
            done = judged(lines, read_again=again(true))
        except BoardlabError:
            continue
        assert Flag.MODE_UNVERIFIED in done.flags, lines[at]


# --- What woke the board ---


@pytest.mark.parametrize(
    ("number", "plan", "outcome"),
    [
        ("0x80", DEEP, "named"),  # the I/O daisy chain has the console's pin
        ("0x50", BY_RTC, "named"),
        ("0x50", DEEP, "refused"),  # the key was lost, and the RTC came
        ("0x82", DEEP, "refused"),  # CAN
        ("0x80", BY_RTC, "refused"),
        ("0x44", DEEP, "unnamed"),  # of no known source
        ("", DEEP, "unnamed"),
    ],
)
def test_a_latency_from_an_edge_counts_where_the_firmware_names_that_source(
    number: str, plan: SuspendPlan, outcome: str
) -> None:
    lines = [text.replace("source:0x80", f"source:{number}") for text in suspended()]
    if outcome == "refused":
        failed, message = failure(lines, plan=plan)
        assert (failed, "by the firmware's word" in message) == ("resume_contradicted", True)
    else:
        assert judged(lines, plan=plan).is_named == (outcome == "named")


def test_an_answer_behind_the_alarm_is_no_answer_to_a_key_that_the_firmware_does_not_name() -> None:
    lines = [text.replace("source:0x80", "source:0x44") for text in suspended()]
    late_ms = (65 - 5) * 1e3  # the alarm that wakes a board whose key is lost
    board = evolve(AM62, low_power=evolve(AM62.low_power, resume_s=70.0))
    assert not judged(lines, late_ms - 1600, board=board).is_named
    assert "alarm" in failure(lines, late_ms, board=board)[1]
    assert judged(suspended(), late_ms, board=board).is_named


# --- The host's clock ---


@pytest.mark.parametrize(("kernel_ms", "host_ms"), [(599, 55), (599, 22.7), (599, 3_600_355), (3_600_355, 599)])
def test_an_interval_that_the_hosts_clock_contradicts_gives_no_number(kernel_ms: float, host_ms: float) -> None:
    failed, message = failure(suspended(kernel_ms), host_ms)
    assert failed == "resume_contradicted"
    assert f"{kernel_ms:.3f} ms by its own clock" in message


def test_no_kernel_takes_longer_than_the_host_has_seen(dice: random.Random) -> None:
    for _ in range(100):
        host_ms = dice.uniform(10, 2000)
        assert failure(suspended(host_ms + 2 + dice.expovariate(1 / 100)), host_ms)[0] == "resume_contradicted"
        beyond = host_ms + 1502 + dice.expovariate(1 / 1000)  # an alarm counts whole seconds
        assert failure(by_rtc(beyond), host_ms, BY_RTC)[0] == "resume_contradicted"


def test_no_board_resumes_longer_beside_its_kernel_than_its_type_allows(dice: random.Random) -> None:
    limit_ms = AM62.low_power.resume_s * 1e3
    for _ in range(50):
        kernel_ms, over_ms = dice.uniform(20, 900), dice.expovariate(1 / 5000)
        assert failure(suspended(kernel_ms), kernel_ms + limit_ms + 2 + over_ms)[0] == "resume_contradicted"


def test_a_hardware_that_slept_longer_than_the_host_waited_is_refused_and_one_that_did_not_sleep_is_flagged() -> None:
    slept = Stats(4, 0, last_hw_sleep_us=4_000_000, tainted=0)
    assert judged(suspended(), after=slept).flags == frozenset()
    assert failure(suspended(), after=evolve(slept, last_hw_sleep_us=5_300_000))[0] == "resume_contradicted"
    assert judged(suspended(), after=evolve(slept, last_hw_sleep_us=0)).flags == {Flag.MODE_UNVERIFIED}


# --- Lines: of whom, how many, in which order ---


def test_a_line_that_a_program_wrote_is_none_of_the_kernels(dice: random.Random) -> None:
    texts = [
        "PM: suspend exit-hook",
        END,
        START,
        "PM: suspend entry (s2idle)",
        "wakeup source:0x50, pin:0x0, mode:0x6",
    ]
    texts += ["PM: failed to suspend: error -16", "Freezing user space processes failed after 20.0 seconds"]
    good = suspended()
    for _ in range(200):
        lines, at = list(good), dice.randrange(len(good) + 1)
        lines[at:at] = [line(dice.uniform(45.55, 45.84), dice.choice(texts), dice.randrange(8), dice.randint(1, 23))]
        assert read_log(lines, AM62) == evolve(read_log(good, AM62), end_number=len(good) + (at < len(good)))
        assert judged(lines).flags == frozenset()


@pytest.mark.parametrize(
    "text", ["PM: suspend exit-hook", "my PM: suspend exit", "PM: suspend exiting", "[app] PM: suspend exit"]
)
def test_the_end_is_the_kernels_whole_line(text: str) -> None:
    bare = [each.partition(">")[2] for each in suspended()]
    lookalike = f"[   45.750000] {text}"
    assert read_log([*bare[:-1], lookalike, bare[-1]], AM62).end_s == pytest.approx(45.837)


def test_each_line_of_a_suspend_comes_once(dice: random.Random) -> None:
    good = suspended()
    for text in ("PM: suspend entry (deep)", START, END):
        one = next(each for each in good if each.endswith(text))
        at = good.index(one)
        for _ in range(10):
            lines = list(good)
            lines.insert(dice.randint(at, len(good) - (text == START)), line(45.7 if text == START else 45.55, text))
            assert failure(lines)[0] in {"resume_contradicted", "resume_lines_missing"}
        gone = [each for each in good if each != one]
        assert failure(gone)[0] in {"did_not_suspend", "resume_lines_missing"}


def test_a_resume_that_begins_after_its_end_gives_no_number(dice: random.Random) -> None:
    *rest, end = suspended()
    for _ in range(10):
        at = dice.randrange(1, 4)
        assert failure([*rest[:at], end, *rest[at:]])[0] == "resume_lines_missing"


def test_lines_that_read_otherwise_a_second_time_give_no_number(dice: random.Random) -> None:
    for _ in range(100):
        good = suspended(dice.uniform(50, 190))
        number = dice.choice([4, len(good) - 1])  # the resume's begin, its end
        digits = [at for at, letter in enumerate(good[number][:20]) if letter.isdecimal() and at > 3]
        at = dice.choice(digits)
        other = dice.choice([digit for digit in "0123456789" if digit != good[number][at]])
        damaged = [*good]
        damaged[number] = good[number][:at] + other + good[number][at + 1 :]
        stamps = {each[3:17] for each in (damaged[4], damaged[-1])}
        found = [f"{place}:{each}" for place, each in enumerate(good, 1) if each[3:17] in stamps]
        assert failure(damaged, 10_000, read_again=found)[0] == "resume_lines_missing"


def test_lines_that_were_lost_on_the_console_are_counted_by_the_board() -> None:
    good = suspended()
    for number in (1, 2, 3):  # no line of the latency, and none that names the mode
        for lost in range(1, 4 - number + 1):
            less = [*good[:number], *good[number + lost :]]
            done = judged(less, read_again=again(good))
            assert (done.lost_lines, done.flags) == (lost, {Flag.CONSOLE_OVERRUN})
            assert done.kernel_ms[0] == pytest.approx(137.0)
    more = [*good[:3], "a program's line on the console", *good[3:]]
    assert judged(more, read_again=again(good)).flags == frozenset()


def damaged_lines(good: list[str], dice: random.Random) -> list[str]:
    """Bytes that changed, came in between or were lost, or lines that were lost, came twice or changed places."""
    lines, text = list(good), "\n".join(good)
    at, one, other = dice.randrange(len(text)), dice.randrange(len(good)), dice.randrange(len(good))
    match dice.randrange(6):
        case 0:
            return (text[:at] + chr(dice.randrange(32, 127)) + text[at + 1 :]).split("\n")
        case 1:
            return (text[:at] + str(dice.randrange(10)) + text[at + text[at].isdecimal() :]).split("\n")
        case 2:
            return (text[:at] + text[at + dice.randint(1, 40) :]).split("\n")
        case 3:
            del lines[one : one + dice.randint(1, 3)]
        case 4:
            lines.insert(other, lines[one])
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return lines


@pytest.mark.parametrize("seed", range(either(3, 60)))
def test_no_damage_of_the_kernels_lines_gives_a_wrong_number_without_a_flag(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(333):
        latency = dice.uniform(20, 900)
        good = suspended(latency, "0x0", line(45.75, "mmc0: PM: failed to resume: error -110", dice.choice((3, 6))))
        lines = damaged_lines(good, dice)
        log = read_log(lines, AM62)
        stamps = () if log.start_s is None or log.end_s is None else (stamp(log.start_s), stamp(log.end_s))
        numbered = enumerate(good, 1)
        found = [f"{at}:{each}" for at, each in numbered if each[:3] in _ERRORS or any(s in each for s in stamps)]
        try:
            done = judged(lines, latency + 62, read_again=found if stamps else None)
        except BoardlabError:
            continue
        assert done.kernel_ms[0] == pytest.approx(latency, abs=2e-3) or done.flags, lines
        assert not again(good[-2:-1]) or done.flags, lines


# --- The counters ---


@pytest.mark.parametrize(("successes", "failures"), [(0, 0), (0, 1), (2, 0), (1, 1), (-3, 0)])
def test_the_counters_have_one_success_more(dice: random.Random, successes: int, failures: int) -> None:
    for start in (0, dice.randrange(3, 500)):
        after = Stats(start + successes, failures, last_failed="suspend of 2800000.serial", tainted=0)
        failed, message = failure(suspended(), before=Stats(start, 0, tainted=0), after=after)
        assert failed == "did_not_suspend"
        assert f"counts {successes} more successes and {failures} more failures" in message
        assert "2800000.serial" in message


def test_a_board_that_cannot_be_asked_gives_a_number_with_a_flag() -> None:
    good = suspended()
    bare = [each.partition(">")[2] for each in good]
    asked: list[dict[str, object]] = [{"before": None}, {"after": None}, {"after": Stats(4, 0)}, {"read_again": None}]
    for words in asked:
        done = judged(good, **words)  # type: ignore[arg-type]
        assert done.flags == {Flag.NOT_CROSS_CHECKED}, words
        assert done.kernel_ms[0] == pytest.approx(137.0)
        assert done.unchecked
    done = judged(bare)
    assert (done.flags, done.kernel_ms[0]) == ({Flag.NOT_CROSS_CHECKED}, pytest.approx(137.0))
    assert "priorities" in done.unchecked


# --- The mode ---


@pytest.mark.parametrize("number", ["0x2", "0x3", "0x4", "0x5"])
@pytest.mark.parametrize("plan", [DEEP, MCU_ONLY], ids=str)
def test_another_mode_of_the_firmware_is_not_the_one_that_was_asked_for(number: str, plan: SuspendPlan) -> None:
    failed, message = failure(suspended(137.0, number), plan=plan)
    assert failed == "wrong_sleep_mode"
    assert "the kernel's lines: " in message


@pytest.mark.parametrize("number", ["0xff", "0xfe", "0xfd", "0x6", "0x40"])
def test_a_number_that_is_no_mode_leaves_it_unverified(number: str) -> None:
    done = judged(suspended(137.0, number))
    assert done.flags == {Flag.MODE_UNVERIFIED}
    assert f"the firmware names mode {number}" in done.unverified
    asleep = judged(suspended(137.0, number), plan=MCU_ONLY, mcu_text="Suspend request to MCU-only mode received")
    assert asleep.flags == frozenset(), f"{MCU_UART} names it"


@pytest.mark.parametrize("variant", ["s2idle", "shallow"])
@pytest.mark.parametrize("plan", [DEEP, MCU_ONLY, BY_RTC], ids=str)
def test_another_state_of_linux_is_not_the_one_that_was_asked_for(variant: str, plan: SuspendPlan) -> None:
    """Suspend-to-idle has neither the lines of the processors nor the firmware's mode."""
    idle = [line(45.5, f"PM: suspend entry ({variant})"), line(45.8, "OOM killer enabled."), line(45.9, END)]
    assert failure(idle, plan=plan)[0] == "wrong_sleep_mode"
    assert failure(idle, plan=BY_RTC, board=AM62L)[0] == "wrong_sleep_mode", (
        "its one mode of suspend-to-idle has a text"
    )
    assert failure(suspended(variant=variant, mode=""), plan=plan)[0] == "wrong_sleep_mode"


@pytest.mark.parametrize(
    ("board", "mode", "source"),
    [(AM62L, "rtc_io_ddr", "RTC"), (AM62, "", "MAIN_IO"), (QEMU, "", "")],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_number_means_what_the_board_types_firmware_means_by_it_and_two_name_no_mode(
    board: boards.BoardType, mode: str, source: str
) -> None:
    notify = "k3_wkup_src_notify wkup-src-notify: wakeup source:0x80, pin:0xff, mode:0x6"
    log = read_log(suspended(137.0, "", line(45.71, notify)), board)
    assert (log.mode, log.woken_by) == (mode, source)
    assert read_log(suspended(137.0, "0x0", line(45.71, notify)), board).mode == ""


# --- Errors ---


def test_errors_of_the_kernel_are_flagged_and_those_of_a_program_are_not(dice: random.Random) -> None:
    texts = [
        "mmc0: PM: failed to resume: error -110",
        "xhci-hcd xhci-hcd.0.auto: HC died; cleaning up",
        "some other text",
    ]
    for _ in range(50):
        text, level = dice.choice(texts), dice.randrange(8)
        done = judged(suspended(137.0, "0x0", line(45.75, text, level)))
        assert done.flags == ({Flag.KERNEL_ERRORS} if level <= 3 else frozenset())
        assert done.errors == ((text,) if level <= 3 else ())
        assert judged(suspended(137.0, "0x0", line(45.75, text, level, dice.randint(1, 23)))).flags == frozenset()


def test_an_error_that_was_damaged_in_one_reading_is_flagged_by_the_other(dice: random.Random) -> None:
    good = suspended(137.0, "0x0", line(45.75, "mmc0: PM: failed to resume: error -110", 3))
    for _ in range(50):
        damaged, at = list(good), dice.randrange(20)
        damaged[-2] = good[-2][:at] + dice.choice("#xZ~") + good[-2][at + 1 :]
        assert judged(damaged, read_again=again(good)).flags == {Flag.KERNEL_ERRORS}
        assert judged(good, read_again=again(damaged)).flags == {Flag.KERNEL_ERRORS}


@pytest.mark.parametrize(("bit", "failed"), [(7, "kernel_oops"), (14, "kernel_lockup")])
def test_an_oops_fails_the_cycle_whatever_its_text(bit: int, failed: str) -> None:
    for before in (0, 1, 512):
        after = Stats(4, 0, tainted=before | 1 << bit)
        died = line(45.75, "Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP", 0)
        found, message = failure(suspended(137.0, "0x0", died), before=Stats(3, 0, tainted=before), after=after)
        assert found == failed
        assert "Internal error: Oops" in message
        assert judged(suspended(), before=evolve(after, success=3), after=after).flags == frozenset(), "an older one"


def test_a_warning_and_a_device_that_did_not_resume_are_flagged_by_the_kernels_counters() -> None:
    assert judged(suspended(), after=Stats(4, 0, tainted=512)).flags == {Flag.KERNEL_ERRORS}
    done = judged(suspended(), after=Stats(4, 0, failed_resume=1, last_failed="resume of mmc1:aaaa", tainted=0))
    assert done.flags == {Flag.KERNEL_ERRORS}
    assert "resume of mmc1:aaaa" in done.errors[0]


# --- The reason of a refusal ---

_GENERAL = [
    "PM: suspend of devices aborted after 3.214 msecs",
    "PM: Some devices failed to suspend, or early wake event detected",
]
_REASONS = [
    "Freezing user space processes failed after 20.015 seconds (1 tasks refusing to freeze, wq_busy=0):",
    "Freezing remaining freezable tasks failed after 20.008 seconds (0 tasks refusing to freeze, wq_busy=1):",
    "Freezing of tasks failed after 20.001 seconds (3 tasks refusing to freeze, wq_busy=0):",
    "Error taking CPU1 down: -16",
    "Error taking CPU3 down: -110",
    "Non-boot CPUs are not disabled",
    "omap8250 2800000.serial: PM: failed to suspend: error -16",
    "mmcblk mmc0:0001: PM: failed to suspend late: error -110",
    "PM: Device 2b300050.target-module failed to suspend noirq: error -16",
    "PM: last active wakeup source: 2b1f0000.rtc",
    "PM: active wakeup source: 20000000.i2c",
]


@pytest.mark.parametrize("reason", _REASONS)
@pytest.mark.parametrize("levels", [True, False])
def test_the_reason_of_a_refusal_is_its_own_line_and_not_what_follows_from_it(reason: str, levels: bool) -> None:
    texts = ["PM: suspend entry (deep)", "Freezing user space processes", *_GENERAL, "OOM killer enabled.", END]
    for at in range(2, 5):
        more = [*texts[:at], reason, *texts[at:]]
        lines = [line(60 + number / 10, text, 3 if text == reason else 6) for number, text in enumerate(more)]
        assert read_log(lines if levels else [each[3:] for each in lines], AM62).reason == reason


def test_a_device_is_a_better_reason_than_its_callback() -> None:
    texts = [
        "PM: dpm_run_callback(): platform_pm_suspend returns -16",
        "PM: Device 2800000.serial failed to suspend: error -16",
    ]
    lines = [
        line(60.0, "PM: suspend entry (deep)"),
        *(line(60.1, text, 3) for text in texts),
        line(60.2, _GENERAL[1], 3),
    ]
    assert read_log(lines, AM62).reason == texts[1]


def test_an_error_that_no_list_has_is_a_reason_too() -> None:
    lines = [line(60.0, "PM: suspend entry (deep)"), line(60.1, "acme-pm: rail vdd_core is busy", 3), line(60.2, END)]
    assert not missing_facts(read_log(lines, AM62).reason, "acme-pm", "vdd_core", "busy")
