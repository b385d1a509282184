"""Which text is the prompt, what the kernel's lines give away, and what a boot must not show even after its prompt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from lab import boards
from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.benchmarks.boot.kernellog import BootKernelLog
from lab.benchmarks.boot.timeline import Usual, judge
from lab.console.model import Chunk, LineTiming
from lab.console.moments import MomentFinder, feed_watch
from lab.errors import BoardlabError, BoardTransientError, LabTransientError, TestTransientError
from lab.metrics import Flag, Sample, SampleRecord, summarise
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, BOOT_TIME

S = 1_000_000_000
ON = PowerEdge(requested_ns=9 * S, acknowledged_ns=10 * S)
QEMU = boards.load("qemu-virt")
KERNEL = (
    b"Starting kernel ...\r\n\r\n[    0.000000] Booting Linux on physical CPU 0x0\r\n"
    b"[    0.000000] Kernel command line: x bootmedia=sd\r\n[    0.900000] Run /init as init process\r\n"
    b"Root file system of medium sd\r\n"
)
BEGIN = b"U-Boot 2023.01 (x)\r\nHit any key to stop autoboot:  0 \r\nBoot mode pins: sd \r\n"
PROMPT = b"\r\nqemu-virt login: "
Said = Sequence[tuple[float, bytes]]


class Boot:
    """A boot that says these things at these seconds after power on."""

    def __init__(self, said: Said, board: boards.BoardType = QEMU, power: PowerEdge = ON) -> None:
        self.watch = BootWatch(board, "sd", power)
        self._finder = MomentFinder(board.moments, LineTiming(115200))
        self._position = 0
        self.now_ns = 0
        for at_s, data in said:
            self.say(at_s, data)

    def say(self, at_s: float, data: bytes) -> None:
        """At the line's speed, in the pieces that an adapter hands on."""
        self.now_ns = max(self.now_ns, 10 * S + round(at_s * S))
        for start in range(0, max(1, len(data)), 32):
            self._piece(data[start : start + 32])

    def _piece(self, data: bytes) -> None:
        self.now_ns += LineTiming(115200).bytes_ns(len(data))
        feed_watch(self.watch, Chunk(self.now_ns, self._position, data), [self._finder])
        self._position += len(data)
        self.watch.check(self.now_ns)

    def wait(self, seconds: float = 1.0) -> Boot:
        self.now_ns += round(seconds * S)
        self.watch.check(self.now_ns)
        return self

    def ask(self) -> Boot:
        self.wait()
        assert not self.watch.done
        assert self.watch.asks
        self.watch.asked(self.now_ns)
        return self

    def answer(self, data: bytes = PROMPT, after_s: float = 0.01) -> Boot:
        self.ask().say((self.now_ns - 10 * S) / S + after_s, b"\r\n" + data)
        return self

    def samples(self) -> list[SampleRecord]:
        assert self.watch.done
        return self.watch.finish()

    @property
    def boot_time(self) -> Sample:
        return next(s for s in self.samples() if s.metric == BOOT_TIME.name)


def healthy(*behind: tuple[float, bytes]) -> list[tuple[float, bytes]]:
    """A boot of 2 s whose prompt comes 3 s after power on, and what comes behind it."""
    return [(0.5, BEGIN), (1.0, KERNEL), (3.0, PROMPT), *behind]


@pytest.mark.parametrize(("behind", "seconds"), [(b"", 0.4), (b"\r\nmy-app: ready\r\n", 16.0)])
def test_a_prompt_into_which_the_kernel_wrote_is_no_hang_whatever_comes_behind_it(
    behind: bytes, seconds: float
) -> None:
    broken = b"\r\nqemu-vi[    2.100000] usb 1-1: new device\r\nrt login: "
    boot = Boot([*healthy()[:-1], (3.0, broken + behind)])
    with pytest.raises(TestTransientError, match="came in pieces"):
        boot.wait(seconds)


def value(boot: Boot) -> float:
    """The boot time, without the milliseconds that the texts take on the line."""
    return round(boot.boot_time.value, 1)


@pytest.mark.parametrize("before", [b"\x1b[0m", b"\x1b[!p\x1b]104\x07\x1b[?7h", b"\x1b]0;title\x1b\\", b"\x1b7\x1b8"])
def test_what_a_terminal_is_told_may_stand_before_the_prompt(before: bytes) -> None:
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (3.0, b"\r\n" + before + PROMPT.lstrip())]).answer()
    assert value(boot) == 2.0
    assert boot.boot_time.flags == {Flag.SIMULATED}


SEQUENCES = (
    b"\x1b[6n",
    b"\x1b[?2004h\x1b[0m",
    b"\x00",
    b"\x1b]3008;start=4f;type=session\x1b\\",
    b"\x1bP+q6E61\x1b\\",
)


def test_an_arrow_in_user_space_is_no_stop_at_uboots_prompt() -> None:
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (1.5, b"=> waiting")]).wait(2.0)
    boot.say(4.0, PROMPT)
    assert value(boot.answer()) == 3.0
    with pytest.raises(BoardTransientError, match="U-Boot stopped"):
        Boot([(0.5, BEGIN), (1.0, b"=> ")]).wait(2.0)


def test_a_logo_in_utf_8_is_no_garbage() -> None:
    logo = "▓▓▒▒░░ ┏━━━━━━┓ ▓▓▒▒░░\r\n".encode() * 40
    assert value(Boot([(0.5, BEGIN), (1.0, KERNEL), (1.5, logo), (3.0, PROMPT)]).answer()) == 2.0


@pytest.mark.parametrize("behind", [b"", *SEQUENCES])
def test_a_prompt_ends_the_output_and_is_followed_by_silence(behind: bytes) -> None:
    boot = Boot(healthy((3.0, behind)))
    assert not boot.watch.done
    assert value(boot.answer()) == 2.0
    assert boot.boot_time.flags == {Flag.SIMULATED}


@pytest.mark.parametrize(
    "lookalike",
    [
        b"systemd[1]: qemu-virt login: starting\r\n",
        b"note: qemu-virt login: \r\n",
        b"[    0.950000] audit: qemu-virt login: refused\r\n",
    ],
)
def test_a_lookalike_within_a_line_is_nothing(lookalike: bytes) -> None:
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (1.5, lookalike), (3.0, PROMPT)]).answer()
    assert value(boot) == 2.0
    assert Flag.PROMPT_REPEATED not in boot.boot_time.flags


@pytest.mark.parametrize("lookalike", [b"qemu-virt login: \r\n", b"qemu-virt login: session opened for root\r\n"])
def test_a_lookalike_at_a_lines_start_is_not_the_prompt_and_is_said(lookalike: bytes) -> None:
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (1.5, lookalike), (3.0, PROMPT)]).answer()
    assert value(boot) == 2.0
    assert Flag.PROMPT_REPEATED in boot.boot_time.flags


def test_a_lookalike_that_pauses_shorter_than_the_settling_time_is_not_the_prompt() -> None:
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (2.5, b"qemu-virt login: "), (2.65, b"\r\nmore\r\n"), (3.0, PROMPT)])
    assert value(boot.answer()) == 2.0
    assert Flag.PROMPT_REPEATED in boot.boot_time.flags


def test_kernel_text_on_the_prompts_line_is_asked_about_and_leaves_the_number_as_it_is() -> None:
    boot = Boot(healthy((3.1, b"[    1.900000] audit: type=1334\r\n"))).answer()
    assert value(boot) == 2.0
    assert boot.boot_time.flags == {Flag.SIMULATED}


@pytest.mark.parametrize("pause_s", [0.5, 1.5, 4.5])
def test_nobody_types_into_a_boot_that_goes_on_behind_a_lookalike(pause_s: float) -> None:
    lookalike = b"qemu-virt login: session opened for root\r\n"
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (1.5, lookalike)]).wait(pause_s)
    assert not boot.watch.asks
    boot.say(1.5 + pause_s + 0.5, PROMPT)
    assert value(boot.answer()) == round(1.0 + pause_s, 1)
    assert Flag.PROMPT_REPEATED in boot.boot_time.flags


def test_a_notice_behind_the_prompt_is_asked_about_and_flagged() -> None:
    boot = Boot(healthy((3.1, b"\r\nThe system is going to be watched.\r\n"))).wait(4.0).answer()
    assert value(boot) == 2.0
    assert Flag.PROMPT_REPEATED in boot.boot_time.flags


def test_silence_without_an_answer_is_flagged() -> None:
    boot = Boot(healthy()).ask().wait(1.5)
    assert not boot.watch.done
    assert value(boot.wait()) == 2.0
    assert Flag.PROMPT_REPEATED in boot.boot_time.flags


def test_a_lookalike_that_pauses_longer_than_the_settling_time_does_not_answer() -> None:
    """The boot goes on by itself, and its real prompt comes later."""
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (1.5, b"qemu-virt login: ")]).ask()
    boot.say(2.8, b"\r\nStarting services\r\n")
    boot.wait(2.5)
    assert not boot.watch.done
    boot.say(6.0, PROMPT)
    assert value(boot.answer()) == 5.0
    assert Flag.PROMPT_REPEATED in boot.boot_time.flags


@pytest.mark.parametrize("by_itself", [(1.2, PROMPT), (0.3, b"[    1.900000] eth0: up" + PROMPT)])
def test_a_prompt_that_may_have_come_by_itself_is_no_answer(by_itself: tuple[float, bytes]) -> None:
    after_s, said = by_itself
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (1.5, b"qemu-virt login: ")]).answer(said, after_s)
    usual = Usual.of([0.005, 0.004, 0.006])
    assert usual
    assert Flag.PROMPT_REPEATED in judge(boot.watch.time_line, {"answer": usual}).flags


def test_a_reset_while_an_answer_is_waited_for_is_one() -> None:
    boot = Boot(healthy()).ask()
    with pytest.raises(BoardTransientError, match="reset while booting"):
        boot.say(5.0, BEGIN + KERNEL)


def test_a_prompt_that_nobody_answers_at_is_none() -> None:
    boot = Boot(healthy((3.1, b"[    1.900000] random: crng init done\r\n"))).ask()
    with pytest.raises(BoardTransientError, match=r"answer.*carriage return") as raised:
        boot.wait(6.0)
    assert raised.value.failure == "prompt_unanswered"


@pytest.mark.parametrize(
    "echo", [b"bootcmd=run x; echo Starting kernel ...; booti\r\n", b"ver=U-Boot 2023.01 (x)\r\n"]
)
def test_what_begins_a_boot_is_an_echo_within_a_line(echo: bytes) -> None:
    boot = Boot([(0.4, BEGIN), (0.5, echo), (1.0, KERNEL), (3.0, PROMPT)]).answer()
    assert value(boot) == 2.0


def test_the_moment_of_a_name_is_the_one_that_the_stages_use() -> None:
    moments = [evolve(moment, times=0) if moment.name == "kernel_load" else moment for moment in QEMU.moments]
    boot = Boot([(0.3, b"Boot mode pins: sd \r\n"), *healthy()], evolve(QEMU, moments=moments)).answer()
    named = [moment for moment in boot.watch.moments if moment.name == "kernel_load"]
    assert boot.watch.order["kernel_load"] == named[1], "the first one came before U-Boot"
    assert boot.watch.order["login"] == boot.watch.prompt
    assert BootWatch(QEMU, "sd", ON).order == {}


STARTS = (
    b"U-Boot 2023.01 (x)\r\n",
    b"Hit any key to stop autoboot:  0 \r\n",
    b"Starting kernel ...\r\n",
    b"[    0.000000] Booting Linux on physical CPU 0x0\r\n",
)


@pytest.mark.parametrize("again", [KERNEL, BEGIN + KERNEL, *(start + STARTS[-1] for start in STARTS[:-1])])
def test_a_stage_and_a_kernel_that_begin_anew_are_a_reset(again: bytes) -> None:
    with pytest.raises(BoardTransientError) as raised:
        Boot([(0.5, BEGIN), (1.0, KERNEL), (2.0, again)])
    assert raised.value.failure == "reset"


@pytest.mark.parametrize("again", [*STARTS, BEGIN, *(b"firmware: " + start for start in STARTS)])
@pytest.mark.parametrize("at_s", [1.5, 2.2, 2.9])
def test_one_text_of_a_start_in_user_space_is_no_reset(again: bytes, at_s: float) -> None:
    assert value(Boot(sorted([*healthy(), (at_s, again)])).answer()) == 2.0


@pytest.mark.parametrize("again", [STARTS[0], BEGIN])
def test_a_board_that_dies_behind_a_second_start_has_reset(again: bytes) -> None:
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (2.0, again)])
    with pytest.raises(BoardTransientError, match=r"reset.*Then: hung") as raised:
        boot.wait(60.0)
    assert raised.value.failure == "reset"


def test_a_kernel_clock_that_begins_anew_is_a_reset() -> None:
    first = b"".join(b"[    %d.%06d] line %d\r\n" % (n // 10, n % 10 * 100_000, n) for n in range(1, 40))
    second = b"".join(b"[    0.%06d] other %d\r\n" % (n * 1000, n) for n in range(1, 10))
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (5.0, first), (5.5, second), (7.0, PROMPT)]).answer()
    with pytest.raises(BoardTransientError, match="clock began anew") as raised:
        boot.samples()
    assert raised.value.failure == "reset"


@pytest.mark.parametrize("died_s", [0.3, 0.6, 0.95])
def test_a_kernel_that_begins_again_in_its_first_second_is_a_reset(died_s: float) -> None:
    def lines(until_s: float, word: bytes) -> list[tuple[float, bytes]]:
        return [(n / 50, b"[    0.%06d] %s %d\r\n" % (n * 20_000, word, n)) for n in range(1, round(until_s * 50))]

    zero = b"[    0.000000] Linux version 6.1\r\n"
    one = [(1.0 + at_s, line) for at_s, line in lines(died_s, b"one")]
    two = [(3.0 + at_s, line) for at_s, line in lines(0.98, b"two")]
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL + zero), *one, (3.0, zero), *two, (7.0, PROMPT)]).answer()
    with pytest.raises(BoardTransientError, match="clock began anew"):
        boot.samples()


def test_an_old_log_that_a_program_prints_is_no_reset_once_the_kernels_clock_goes_on() -> None:
    kernel = [(1.0 + n / 10, b"[    %d.%06d] line %d\r\n" % (n // 10, n % 10 * 100_000, n)) for n in range(10, 30)]
    old = b"".join(b"[    0.%06d] of another boot %d\r\n" % (n * 1000, n) for n in range(1, 10))
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), *kernel, (4.0, old), (4.5, b"[    3.500000] on\r\n"), (7.0, PROMPT)])
    assert value(boot.answer()) == 6.0


def test_a_log_that_is_printed_again_is_no_reset() -> None:
    lines = b"".join(b"[    %d.%06d] line %d\r\n" % (n // 10, n % 10 * 100_000, n) for n in range(1, 40))
    boot = Boot([(0.5, BEGIN), (1.0, KERNEL), (5.0, lines), (6.0, lines), (7.0, PROMPT)]).answer()
    assert value(boot) == 6.0


@pytest.mark.parametrize(
    "line", [b"[    9.100000] a\r\n", b"[    1.300000] a\r\n[    0.100000] b\r\n[    1.400000] c\r\n"]
)
def test_garbled_digits_are_no_reset(line: bytes) -> None:
    lines = b"".join(b"[    1.%06d] line %d\r\n" % (n * 1000, n) for n in range(1, 40))
    assert value(Boot([(0.5, BEGIN), (1.0, KERNEL), (2.0, line + lines), (3.0, PROMPT)]).answer()) == 2.0


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        (b"[    1.95] Unable to handle kernel NULL pointer dereference at virtual address 18", "kernel_oops"),
        (b"[    1.95] SError Interrupt on CPU2, code 0x00000000bf000002 -- SError", "kernel_oops"),
        (b"[    1.95] Internal error: synchronous external abort: 0000000096000210 [#1] SMP", "kernel_oops"),
        (b"[    1.95] Internal error: : 1028 [#1] SMP ARM", "kernel_oops"),
        (b"[    1.95] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [swapper/0:1]", "kernel_lockup"),
        (b"[    1.95] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "kernel_lockup"),
        (b"[    1.95] Kernel panic - not syncing: Fatal exception", "kernel_panic"),
    ],
)
@pytest.mark.parametrize("at_s", [2.0, 3.1])
def test_what_means_death_fails_the_boot_even_behind_its_prompt(line: bytes, failure: str, at_s: float) -> None:
    said = sorted([*healthy(), (at_s, b"\r\n" + line + b"\r\n")])
    with pytest.raises(BoardTransientError) as raised:
        Boot(said)
    assert raised.value.failure == failure


EMERGENCY = b"You are in emergency mode. After logging in, type\r\n"
QUOTED = b"pstore-reader: <4>[   88.100000] Kernel panic - not syncing: of the boot before\r\n"
LATER = b"[  812.100000] Kernel panic - not syncing: Attempted to kill init!\r\n"  # sooner than this kernel could
EARLIER = b"".join(b"[    4.%d00000] usb 1-1: new device\r\n" % n for n in range(9)) + (
    b"[    2.900000] Kernel panic - not syncing: Fatal exception\r\n"
)


ALONE = [
    (EMERGENCY, "emergency_mode"),
    *((line, "kernel_panic") for line in (QUOTED, LATER, EARLIER)),
    (b"[    1.950000] reboot: Restarting system\r\n", "reset"),
]


@pytest.mark.parametrize(("line", "failure"), ALONE)
def test_a_text_that_decides_nothing_alone_is_to_blame_when_the_boot_does_not_go_on(line: bytes, failure: str) -> None:
    boot = Boot([*healthy()[:-1], (2.0, line)])
    with pytest.raises(BoardTransientError, match="Then: hung") as raised:
        boot.wait(60.0)
    assert raised.value.failure == failure


@pytest.mark.parametrize(("line", "kind"), ALONE)
def test_a_text_that_decides_nothing_alone_is_a_flag_at_the_login_prompt(line: bytes, kind: str) -> None:
    boot = Boot(sorted([*healthy(), (2.0, line)])).answer()
    assert Flag.KERNEL_ERRORS in boot.boot_time.flags
    assert boot.watch.log.counts == {kind: 1}


def test_a_reboot_that_a_boot_or_its_prompt_ends_with_is_a_reset() -> None:
    reboots = b"\r\n[    2.050000] reboot: Restarting system\r\n"
    for said in ([*healthy(), (3.1, reboots)], [*healthy()[:-1], (2.0, reboots), (2.4, BEGIN), (2.9, KERNEL)]):
        with pytest.raises(BoardTransientError, match="Restarting system") as raised:
            Boot(said)
        assert raised.value.failure == "reset"


def test_an_emergency_shell_is_no_boot() -> None:
    with pytest.raises(BoardTransientError, match="emergency mode") as raised:
        Boot([*healthy()[:-1], (2.0, EMERGENCY), (3.0, b"\r\n/ # ")]).answer(b"/ # ")
    assert raised.value.failure == "emergency_mode"


@pytest.mark.parametrize(
    "line",
    [b"Wrong Image Format for bootm command\r\n", b'"Synchronous Abort" handler, esr 0x96000046\r\n'],
)
def test_a_bootloader_that_found_another_way_has_not_failed_and_one_that_did_not_has(line: bytes) -> None:
    assert value(Boot([(0.4, BEGIN + line), (1.0, KERNEL), (3.0, PROMPT)]).answer()) == 2.0
    with pytest.raises(BoardTransientError, match="Then: U-Boot stopped") as raised:
        Boot([(0.4, BEGIN + line + b"=> ")]).wait()
    assert raised.value.failure in {"bad_image", "uboot_abort"}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"[    1.5] mmc1: error -110 whilst initialising SD card", "mmc"),
        (b"[    1.5] mmcblk1: error -110 transferring data, sector 2048, nr 8, cmd response 0x900", "mmc"),
        (b"[    1.5] mmc0: cache flush error -110", "mmc"),
        (b"[    1.5] UBI error: ubi_io_read: error -74 while reading 64 bytes from PEB 12", "ubi"),
        (b"[    1.5] ubi0 error: ubi_read_volume_table: the layout volume was not found", "ubi"),
        (b"[    1.5] UBIFS error (ubi0:0 pid 1): ubifs_scan: corrupt empty space", "ubi"),
        (b"[    1.5] EXT4-fs error (device mmcblk1p2): ext4_lookup:1855: inode #12: comm init", "file_system"),
        (b"[    1.5] EXT4-fs (mmcblk1p2): Remounting filesystem read-only", "read_only"),
        (b"[    1.5] FAT-fs (mmcblk1p1): Filesystem has been set read-only", "read_only"),
        (b"[    1.5] ubi0: fixable bit-flip detected at PEB 12", "ubi"),
        (b"[    1.5] thermal thermal_zone0: main0-thermal: critical temperature reached, shutting down", "supply"),
        (b"[    1.5] hwmon hwmon1: Undervoltage detected!", "supply"),
        (b"systemd-fsck[210]: root: Inode 130 ref count is 2, should be 1.  FIXED.", "fsck"),
        (b"[FAILED] Failed to start Network Time Service.", "unit"),
        (b"\x1b[0;1;31m[\x1b[0m\x1b[0;1;31mFAILED\x1b[0m] Failed to start weston.service.", "unit"),
        (b"[\x1b[0;1;33mDEPEND\x1b[0m] Dependency failed for /boot.", "unit"),
        (b"[ TIME ] Timed out waiting for device /dev/mmcblk1p3.", "unit"),
        (b"[\x1b[0;1;31m TIME \x1b[0m] Timed out starting Weston.", "unit"),
        (b"Starting sshd: FAIL", "script"),  # Buildroot
        (b"Starting network...failed!", "script"),
        (b"[FAIL] Starting enhanced syslogd: rsyslogd", "script"),
        (b"[\x1b[31;01m!!\x1b[0m]", "script"),
        (b" * ERROR: sshd failed to start", "script"),
        (b"Warning: Bootlimit (3) exceeded. Using altbootcmd.", "fallback"),
        (b"<3>[    1.500000] imx: cannot probe", "level"),
    ],
)
def test_what_means_trouble_is_a_flag_with_its_line(line: bytes, kind: str) -> None:
    boot = Boot(sorted([*healthy(), (2.0, line + b"\r\n")])).answer()
    assert Flag.KERNEL_ERRORS in boot.boot_time.flags
    assert boot.watch.log.counts == {kind: 1}
    assert boot.watch.log.lines == [line.decode("latin-1").strip()]


@pytest.mark.parametrize(
    "line",
    [
        b"[    1.5] mmc1: SDHCI controller on fa00000.mmc [fa00000.mmc] using ADMA 64-bit",
        b"[    1.5] mmcblk1: mmc1:aaaa SR32G 29.7 GiB",
        b"[    1.5] EXT4-fs (mmcblk1p2): recovery complete",
        b"[    1.5] random: crng init done",
        b"[    1.500000] Zone ranges: [mem 0x80000000-0xffffffff] usable, [[1] 2] x",
        b"[1.5s] a program's own clock",
        b"[  OK  ] Started Network Time Service.",
        b"Starting sshd: OK",
        b"[ ok ] Starting enhanced syslogd: rsyslogd.",
        b"my-app: 3 tests, FAIL count 0",
        b"weston[410]: Internal error: no seat, Oops: going on",
        b"<6>[    1.500000] mmc0: new HS200 MMC card at address 0001",
    ],
)
def test_ordinary_lines_are_no_trouble(line: bytes) -> None:
    assert Boot(sorted([*healthy(), (2.0, line + b"\r\n")])).answer().boot_time.flags == {Flag.SIMULATED}


@pytest.mark.parametrize(
    "torn",
    [
        b"[    1.500000] am65-cpsw-nuss 8000[    1.700000] usb 1-1: new device\r\n",
        b"[    1.500000] CPU1: Booted secondary [0x0] .708416] GICv3: CPU3: found\r\n",
        b"[    1.5tem: loaded\r\n",
    ],
)
def test_a_kernel_line_that_another_one_breaks_off_shows_that_bytes_are_lost(torn: bytes) -> None:
    assert Flag.CONSOLE_OVERRUN in Boot(sorted([*healthy(), (2.0, torn)])).answer().boot_time.flags


@pytest.mark.parametrize(
    "line",
    [
        "[    1.500000] x",
        "[    1.500000][    T1] x",
        "[    1.500000][   C0] x",
        "<4>[    1.500000] x",
        "2026-11-22T01:02:03+0100 [    1.500000] x",
        "Nov 22 01:02:03 [    1.500000] x",
    ],
)
def test_the_kernels_time_is_read_whatever_stands_around_it(line: str) -> None:
    log = BootKernelLog({})
    for later in range(5):
        log.whole_line(line.replace("1.5", f"{6 + later}.5"), 20)
    for earlier in range(4):
        log.whole_line(line.replace("1.5", f"0.{earlier}"), 21)
    assert log.restarted


def test_a_host_that_was_suspended_has_no_number() -> None:
    boot = Boot(healthy())
    boot.watch.suspended(4 * S)
    with pytest.raises(LabTransientError, match=r"4\.000 s behind") as raised:
        boot.wait()
    assert raised.value.failure == "host_suspended"


def test_a_board_that_is_heard_before_the_switch_has_answered_got_its_power_before_that() -> None:
    boot = Boot([(-0.02, BEGIN), (1.0, KERNEL), (3.0, PROMPT)]).answer()
    first = next(s for s in boot.samples() if s.metric == BOOT_STAGE.name)
    assert first.value == 0.0
    assert first.uncertainty == pytest.approx(0.98, abs=0.02)
    assert Flag.UNCERTAIN in first.flags


def test_a_board_that_is_heard_before_the_switch_was_told_has_no_number() -> None:
    boot = Boot([(-1.5, BEGIN), (1.0, KERNEL), (3.0, PROMPT)]).answer()
    with pytest.raises(LabTransientError, match=r"before.*switched on") as raised:
        boot.samples()
    assert raised.value.failure == "impossible_times"


def test_only_what_begins_at_power_on_says_that_off_was_not_verified() -> None:
    boot = Boot(healthy(), power=evolve(ON, off_verified=False)).answer()
    flagged = {(s.metric, s.params.get("stage")) for s in boot.samples() if Flag.OFF_UNVERIFIED in s.flags}
    assert flagged == {(BOOT_POWER_ON.name, None), (BOOT_STAGE.name, "Power on to U-Boot")}


def test_a_boot_time_that_is_known_to_a_tenth_is_refused() -> None:
    boot = Boot(healthy()).answer()
    boot.watch.moments = [
        evolve(m, uncertainty_ns=S // 4) if m.name == "starting_kernel" else m for m in boot.watch.moments
    ]
    with pytest.raises(LabTransientError, match="not sure enough") as raised:
        boot.samples()
    assert raised.value.failure == "stamps_uncertain"


def test_a_mean_leaves_out_what_is_uncertain_while_there_is_more() -> None:
    sure, unsure = Sample(2.0, 0.001, 1), Sample(9.0, 8.0, 2, frozenset({Flag.UNCERTAIN}))
    assert summarise([sure, unsure]).mean == 2.0
    assert summarise([sure, unsure]).n == 1
    assert summarise([unsure]).mean == 9.0


def root(line: str, medium: str = "sd") -> BootWatch:
    watch = BootWatch(boards.load("am62xx_sk"), medium, ON)
    for text in (line, "VFS: Mounted root (ext4 filesystem) on device 179:98."):
        watch.feed(f"[    1.5] {text}\r\n".encode(), 11 * S)
    return watch


@pytest.mark.parametrize("how", ["5d6f-8e ro with ordered", "5d6f-8e r/w with ordered", "with ordered"])
def test_the_root_file_system_is_seen_however_it_is_mounted(how: str) -> None:
    line = f"EXT4-fs (mmcblk1p2): mounted filesystem {how} data mode. Quota mode: none."
    assert root(line).seen == {"rootfs": "sd"}
    with pytest.raises(BoardlabError, match="wrong medium"):
        root(line, "emmc").check(11 * S)


def test_the_last_file_system_before_the_root_is_it_and_none_after_it() -> None:
    watch = root(
        "EXT4-fs (mmcblk0p1): mounted filesystem with x\r\n[    1.5] EXT4-fs (mmcblk1p2): mounted filesystem with x"
    )
    watch.feed(b"[    2.5] EXT4-fs (mmcblk0p1): mounted filesystem r/w\r\n", 12 * S)
    watch.check(12 * S)
    assert watch.seen == {"rootfs": "sd"}


@pytest.mark.parametrize(
    "damaged", [b"qemu-vipt login: ", b"qemuvirt login: ", b"qemu-virt lgin:\x80 ", b"q%mu-virt log\x00in: "]
)
@pytest.mark.parametrize("again_s", [0.7, 5.0])
def test_a_damaged_prompt_before_the_one_that_is_taken_is_a_flag(damaged: bytes, again_s: float) -> None:
    boot = Boot([*healthy()[:-1], (3.0, b"\r\n" + damaged), (3.0 + again_s, PROMPT)]).answer()
    assert Flag.PROMPT_REPEATED in boot.boot_time.flags


@pytest.mark.parametrize(
    "line", [b"Debian GNU/Linux 12 qemu-virt ttyAMA0", b"Welcome to qemu-virt", b"[    1.9] random: crng init done"]
)
def test_another_line_before_the_prompt_is_no_damaged_one(line: bytes) -> None:
    boot = Boot(sorted([*healthy(), (2.5, line + b"\r\n")])).answer()
    assert Flag.PROMPT_REPEATED not in boot.boot_time.flags


ASKING = evolve(
    QEMU,
    moments=[
        evolve(p, pattern=r"Please press Enter to activate this console\.") if p.name == "login" else p
        for p in QEMU.moments
    ],
    prompts=evolve(QEMU.prompts, shell=r"\S+:[^ ]*# "),  # noqa: S604 - no process
)
PRESS = b"\r\nPlease press Enter to activate this console. "


@pytest.mark.parametrize("after_s", [0.05, 0.6, 1.5])
def test_a_console_that_is_activated_by_enter_answers_with_its_shell(after_s: float) -> None:
    boot = Boot([*healthy()[:-1], (3.0, PRESS[:-1])], ASKING).answer(b"\r\nroot@x:~# ", after_s)
    assert boot.watch.done
    assert boot.boot_time.value == pytest.approx(2.0, abs=0.01)
    assert boot.watch.time_line.answer == pytest.approx(after_s, abs=0.01)


@pytest.mark.parametrize(
    ("end", "hint"),
    [
        (b"\r\nqemu-virt login: root (automatic login)\r\n\r\nroot@qemu-virt:~# ", "log in by itself"),
        (b"\r\n\x1b[1mqemu\x1b[0m-virt login: ", "terminal sequences"),
    ],
)
def test_a_prompt_that_is_not_known_is_named_when_the_board_hangs(end: bytes, hint: str) -> None:
    boot = Boot([*healthy()[:-1], (3.0, end)])

    def until_it_hangs() -> None:
        for _ in range(100):
            boot.wait(1.0)
            if boot.watch.asks:
                boot.watch.asked(boot.now_ns)
                boot.say((boot.now_ns - 10 * S) / S, b"\r\n" + end.rpartition(b"\n")[2])

    with pytest.raises(BoardTransientError, match=hint) as raised:
        until_it_hangs()
    assert raised.value.failure == "hang_before_login"


def test_a_stage_that_seemed_to_come_twice_is_not_to_blame_for_a_kernel_that_hangs_later() -> None:
    boot = Boot([(0.4, BEGIN + b"U-Boot 2023.01 (x)\r\n"), (1.0, KERNEL)])
    with pytest.raises(BoardTransientError, match=r"^hung in") as raised:
        boot.wait(60.0)
    assert raised.value.failure == "hang_before_login"


def test_a_panic_is_a_panic_although_a_program_printed_a_bootloaders_text_before() -> None:
    with pytest.raises(BoardTransientError) as raised:
        Boot(
            [(0.5, BEGIN), (1.0, KERNEL), (2.0, STARTS[0]), (2.5, b"[    1.950000] Kernel panic - not syncing: x\r\n")]
        )
    assert raised.value.failure == "kernel_panic"


def test_an_image_without_a_login_is_measured_if_its_type_says_so() -> None:
    shell = next(moment.pattern for moment in QEMU.moments if moment.name == "shell")
    moments = [evolve(moment, pattern=shell) if moment.name == "login" else moment for moment in QEMU.moments]
    said = [(0.5, BEGIN), (1.0, KERNEL), (3.0, b"\r\n~ # ")]
    for board, flags in ((QEMU, {Flag.FLOW_UNVERIFIED}), (evolve(QEMU, moments=moments), set[Flag]())):
        boot = Boot(said, board).answer(b"\r\n~ # ")
        (time,) = (sample for sample in boot.samples() if sample.metric == BOOT_TIME.name)
        assert time.flags - {Flag.SIMULATED} == flags
        assert abs(time.value - 2.0) < 0.1
