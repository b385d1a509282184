"""A boot is judged by its moments, its evidence of the medium, and its silence."""

from __future__ import annotations

import pytest
from attrs import frozen

from lab import boards
from lab.benchmarks.boot import ENDS, BootWatch, PowerEdge
from lab.errors import BoardTransientError, LabTransientError
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, BOOT_TIME

SECOND = 1_000_000_000
ON = PowerEdge(requested_ns=9 * SECOND, acknowledged_ns=10 * SECOND)
QEMU = boards.load("qemu-virt")
AM62 = boards.load("am62xx_sk")


@frozen
class Marker:
    name: str
    t_ns: int
    position: int = 0
    text: str = ""
    uncertainty_ns: int = 1_000_000


def watch(medium: str = "sd", board: boards.BoardType = QEMU) -> BootWatch:
    return BootWatch(board, medium, ON)


def healthy(end: str = "login", first_ns: int = 11 * SECOND) -> list[Marker]:
    names = [p.name for p in QEMU.moments if p.name not in ENDS] + [end]
    return [Marker(name, first_ns + i * SECOND, position=100 * (i + 1)) for i, name in enumerate(names)]


def feed(boot: BootWatch, data: bytes, t_ns: int) -> None:
    boot.feed(data, t_ns)


def settle(boot: BootWatch) -> BootWatch:
    """Let the settling time pass in silence, and answer the carriage return."""
    assert boot.prompt is not None
    boot.check(boot.prompt.t_ns + 2 * SECOND)
    assert boot.asks
    boot.asked(boot.prompt.t_ns + 2 * SECOND)
    boot.moment(Marker(boot.prompt.name, boot.prompt.t_ns + 2 * SECOND + 1, boot.prompt.position + 30))
    return boot


def booted(medium: str = "sd") -> BootWatch:
    boot = watch(medium)
    feed(boot, f"Boot mode pins: {medium} \r\n".encode(), 12 * SECOND)
    feed(boot, f"[    0.0] Kernel command line: x bootmedia={medium} y\r\n".encode(), 13 * SECOND)
    feed(boot, f"Root file system of medium {medium}\r\n".encode(), 13 * SECOND)
    for moment in healthy():
        boot.moment(moment)
    return settle(boot)


def test_boot_time_runs_from_starting_kernel_to_the_login_prompt() -> None:
    samples = {s.metric: s for s in booted().finish() if s.metric != BOOT_STAGE.name}
    assert samples[BOOT_TIME.name].value == 3.0  # the 4th to the 7th moment, a second apart
    assert samples[BOOT_TIME.name].uncertainty == 0.001
    assert samples[BOOT_POWER_ON.name].value == 7.0
    assert samples[BOOT_POWER_ON.name].uncertainty == 1.0  # how long the power switch took to answer


def test_with_init_bin_sh_the_shell_prompt_ends_the_boot_and_the_number_says_so() -> None:
    boot = watch()
    feed(boot, b"Kernel command line: console=ttyAMA0 init=/bin/sh bootmedia=sd\r\n", 12 * SECOND)
    for moment in healthy(end="shell"):
        boot.moment(moment)
    assert not boot.done, "nobody knows yet what comes behind the prompt"
    assert settle(boot).done
    sample = next(s for s in boot.finish() if s.metric == BOOT_TIME.name)
    assert sample.value == 3.0
    assert sample.params == {"medium": "sd", "init": "/bin/sh"}


def test_stages_add_up_to_power_on_to_prompt() -> None:
    samples = booted().finish()
    stages = [s for s in samples if s.metric == BOOT_STAGE.name]
    total = next(s.value for s in samples if s.metric == BOOT_POWER_ON.name)
    assert sum(s.value for s in stages) == pytest.approx(total)
    assert [s.params["stage"] for s in stages] == [m.stage for m in QEMU.moments if m.name != "shell"]


def test_the_window_of_a_number_ends_at_its_last_marker() -> None:
    boot_time = next(s for s in booted().finish() if s.metric == BOOT_TIME.name)
    assert (boot_time.log_start, boot_time.log_end) == (400, 700)


def test_a_virtual_boards_numbers_carry_their_mark() -> None:
    assert booted().finish()[0].flags == {Flag.SIMULATED}


@pytest.mark.parametrize(
    "said", [b"Boot mode pins: sd \r\n", b"Boot mode pins: sd \r\nKernel command line: x bootmedia=sd\r\n"]
)
def test_a_medium_that_one_source_named_or_the_root_file_system_did_not_is_flagged(said: bytes) -> None:
    boot = watch()
    feed(boot, said, 12 * SECOND)
    for moment in healthy():
        boot.moment(moment)
    assert Flag.MEDIUM_UNVERIFIED in boot.finish()[0].flags


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("Boot mode pins: emmc ", "'emmc' (emmc)"),
        ("Kernel command line: a bootmedia=ospi", "'ospi' (ospi)"),
        ("Boot mode pins: none ", "'none'"),
    ],
)
def test_another_medium_is_refused(line: str, says: str) -> None:
    boot = watch("sd")
    feed(boot, f"{line}\r\n".encode(), 11 * SECOND)
    with pytest.raises(LabTransientError, match="wrong medium") as raised:
        boot.check(11 * SECOND)
    assert raised.value.failure == "wrong_medium"
    assert says in str(raised.value)


def test_evidence_split_over_reads_counts_once_the_line_is_whole() -> None:
    boot = watch("sd")
    feed(boot, b"Boot mode pi", 11 * SECOND)
    feed(boot, b"ns: sd \r", 11 * SECOND)
    assert boot.seen == {}
    feed(boot, b"\n", 11 * SECOND)
    assert boot.seen == {"uboot": "sd"}


@pytest.mark.parametrize(
    ("last_moment", "failure"),
    [(None, "hang_spl"), ("uboot", "hang_uboot"), ("first_printk", "hang_kernel"), ("init", "hang_before_login")],
)
def test_silence_before_the_prompt_is_a_hang_of_the_stage(last_moment: str | None, failure: str) -> None:
    boot = watch()
    feed(boot, b"last words\r\n", 12 * SECOND)
    for moment in healthy():
        if last_moment is None:
            break
        boot.moment(moment)
        if moment.name == last_moment:
            break
    boot.check(12 * SECOND + 1)
    with pytest.raises(BoardTransientError, match="last words") as raised:
        boot.check(12 * SECOND + int(QEMU.timeouts.hang_silence_s * 1e9) + 1)
    assert raised.value.failure == failure


def test_a_board_that_never_says_anything_is_silent() -> None:
    boot = watch()
    boot.check(ON.acknowledged_ns + int(QEMU.timeouts.first_byte_s * 1e9))
    with pytest.raises(BoardTransientError, match="no byte within 3 s") as raised:
        boot.check(ON.acknowledged_ns + int(QEMU.timeouts.first_byte_s * 1e9) + 1)
    assert raised.value.failure == "silent"


def test_a_panic_is_named_with_its_line() -> None:
    boot = watch()
    for moment in healthy()[:4]:
        boot.moment(moment)
    feed(boot, b"[    1.2] Kernel panic - not syncing: Attempted to kill init!\r\n", 12 * SECOND)
    with pytest.raises(BoardTransientError, match="Attempted to kill init") as raised:
        boot.check(12 * SECOND)
    assert raised.value.failure == "kernel_panic"


def test_a_board_that_waits_at_the_u_boot_prompt_is_not_booting() -> None:
    boot = watch()
    feed(boot, b"Hit any key to stop autoboot:  0 \r\n=> ", 12 * SECOND)
    boot.check(12 * SECOND + SECOND // 10)  # it may still go on
    with pytest.raises(BoardTransientError, match="stopped at its prompt") as raised:
        boot.check(12 * SECOND + SECOND // 2)
    assert raised.value.failure == "stopped_at_uboot"


def test_a_console_at_the_wrong_speed_is_the_labs_fault() -> None:
    boot = watch()
    feed(boot, bytes([0xF8, 0x00, 0x80, 0xFE]) * 300, 11 * SECOND)
    with pytest.raises(LabTransientError, match="115200 Bd") as raised:
        boot.check(11 * SECOND)
    assert raised.value.failure == "garbled"


def test_a_chattering_board_that_never_logs_in_is_too_slow() -> None:
    boot = watch()
    late_ns = ON.acknowledged_ns + int(QEMU.timeouts.boot_s * 1e9) + 1
    feed(boot, b"still here\r\n", late_ns)
    with pytest.raises(BoardTransientError, match=r"login prompt.*60 s") as raised:
        boot.check(late_ns)
    assert raised.value.failure == "too_slow"


def test_a_lost_marker_is_an_error_and_no_sample() -> None:
    boot = watch()
    for moment in healthy():
        if moment.name != "starting_kernel":
            boot.moment(moment)
    feed(boot, b"", 17 * SECOND)
    assert settle(boot).done
    with pytest.raises(BoardTransientError, match="starting_kernel") as raised:
        boot.finish()
    assert raised.value.failure == "moment_missing"


def test_moments_out_of_order_are_an_error() -> None:
    boot = watch()
    for moment in reversed(healthy()):
        boot.moment(moment)
    boot.moments = [Marker(m.name, 20 * SECOND - i * SECOND, m.position) for i, m in enumerate(healthy())]
    with pytest.raises(BoardTransientError, match="out of order"):
        boot.finish()


def test_what_booted_is_read_from_the_banners() -> None:
    boot = watch()
    feed(
        boot, b"\r\nU-Boot 2023.01+dfsg-2 (Mar 2023)\r\n[    0.0] Linux version 6.1.0-50-arm64 (x) #1\r\n", 11 * SECOND
    )
    assert boot.software == {
        "uboot": "U-Boot 2023.01+dfsg-2 (Mar 2023)",
        "kernel": "Linux version 6.1.0-50-arm64 (x) #1",
    }


def test_a_version_line_with_a_damaged_character_is_none() -> None:
    boot = watch()
    feed(
        boot, b"U-Boot 2023.01\x07-2 (Mar 2023)\r\n[    0.0] Linux version 6.1.0-50 (GCC) 1\xb3.3 #1\r\n", 11 * SECOND
    )
    assert boot.software == {}


def stages(board: boards.BoardType, names: list[str]) -> list[str]:
    """The stages of a boot of which these moments were seen, a second apart."""
    boot = watch(board=board)
    feed(boot, b"Linux\r\n", 11 * SECOND)
    for number, name in enumerate(names):
        boot.moment(Marker(name, (11 + number) * SECOND, position=100 * (number + 1)))
    return [s.params["stage"] for s in settle(boot).finish() if s.metric == BOOT_STAGE.name]


def test_where_a_moment_was_lost_there_is_no_stage_on_either_side_of_it() -> None:
    names = [moment.name for moment in healthy()]
    titles = stages(QEMU, names)
    names.remove("autoboot")
    assert stages(QEMU, names) == [title for title in titles if title not in {"U-Boot start-up", "Autoboot countdown"}]


def test_of_a_text_that_came_less_often_than_in_a_healthy_boot_nobody_knows_which_one_was_lost() -> None:
    names = [p.name for p in AM62.moments if p.name != "shell"]
    assert stages(AM62, ["spl", *names])[:2] == ["Power on to SPL", "SPL (R5)"]
    assert stages(AM62, names)[0] == "TF-A, SPL (A53)"
