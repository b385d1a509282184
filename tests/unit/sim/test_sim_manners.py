"""What boards in good health print or leave out, and a ROM that asks for a program: the texts, and when the boot truly
began and ended. What boardlab makes of them is proved by tests/integration/test_sim_faults.py."""

from __future__ import annotations

import re

import pytest
from support.simlab import MS, S, SimLab
from support.simruns import planned

from lab.virtual.sim.faults.catalogue import FAULTS
from lab.virtual.truth_log import TrueBoot, Truth, true_boots

HOST = "am62xx-evm"
LOGIN = f"{HOST} login: "
AM437X = "am43xx-gpevm"


def board(fault: str, board_type: str = "am62xx_sk", release: str | None = None, **parameters: object) -> SimLab:
    """A board that has the fault at its first power on."""
    lab = SimLab(board_type, release=release)
    plan = planned(fault, cycles="1", **parameters)
    lab.board.troubles_for = lambda cycle: [plan.fault(cycle)] if plan.strikes(cycle) else []
    return lab


def booted(fault: str, medium: str = "sd", board_type: str = "am62xx_sk", **parameters: object) -> SimLab:
    """The board, a second after it began to wait for a login."""
    lab = board(fault, board_type, **parameters)
    lab.on(medium)
    limit_ns = lab.now_ns + 200 * S
    while lab.board.stage != "login":
        assert lab.step_until(limit_ns), f"no login prompt; the end: {lab.said()[-300:]!r}"
    lab.run_for(1 * S)
    return lab


def boot_again(lab: SimLab, medium: str = "sd") -> None:
    lab.off()
    lab.run_for(2 * S)
    lab.on(medium)
    lab.run_until("Starting kernel")
    lab.run_until(LOGIN)


def truth(lab: SimLab) -> list[TrueBoot]:
    host = lab.board.model.identity.hostname
    return true_boots(Truth(115200, lab.ports[lab.console].sent, 0, [], lab.noted), host)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("second_prompt", rf"\n{LOGIN}\n\nArago Project {HOST} ttyS2\n\nArago 2025\.01 {HOST} ttyS2\n\n{LOGIN}$"),
        ("notice_after_prompt", rf"\n{LOGIN}\[  OK  \] Finished .*\.\n$"),
        ("autoboot_keyed", r"\nPress SPACE to abort autoboot in 2 seconds\nswitch to partitions #0, OK\n"),
        ("tee_talks", r"Starting kernel(.*\n)+I/TC: Secondary CPU 1 initializing\n"),
        ("clock_rates", r"\nSet clock rates for '/a53@0', CPU: 1400MHz at Speed Grade 'T'\n"),
        (
            "extlinux_boot",
            r"\nmmc1 is current device\nScanning mmc 1:1\.\.\.\nFound /extlinux/extlinux\.conf\n"
            r"Retrieving file: /extlinux/extlinux\.conf\n.* bytes read .*\n1:\tarago\nRetrieving file: /boot/Image\n.*\n"
            r"append: console=ttyS2,115200n8 root=/dev/mmcblk1p2 rw rootwait\nRetrieving file: .*\n.*\n## Flattened",
        ),
        ("no_card_present", r"\nMMC: no card present\nswitch to .*\nmmc1 is current device\nMMC: no card present\n"),
        (
            "erratum_i2331",
            r"U-Boot SPL .*\nResetting on cold boot to workaround ErrataID:i2331\n"
            r"Please resend tiboot3\.bin in case of UART/DFU boot\nresetting \.\.\.\n\nU-Boot SPL .*\nSYSFW ABI",
        ),
    ],
)
def test_a_boot_in_good_health_says_so_and_takes_as_long_as_it_takes(fault: str, says: str) -> None:
    lab = booted(fault)
    lab.run_for(2 * S)
    assert re.search(says, lab.said()), lab.said()[-2000:]
    (boot,) = truth(lab)
    assert lab.board.computer is not None
    assert boot.boot_s == pytest.approx(lab.board.computer.durations.boot_ns / S, abs=0.5)


def test_an_application_is_ready_with_its_line_until_the_power_goes() -> None:
    lab = board("application", again_ms=400.0)
    heard: list[tuple[int, str]] = []
    lab.board.ready_hook = lambda: heard.append((lab.now_ns, lab.said()))
    lab.on()
    lab.run_until(LOGIN)
    assert not lab.board.ready
    lab.run_for(2 * S)
    first, second = heard
    assert first[1].endswith(f"{LOGIN}\nmyapp: ready"), "the last byte has left the UART"
    assert second[0] - first[0] == pytest.approx(400 * MS, abs=3 * MS)
    assert lab.board.ready
    lab.run_for(200 * MS)
    assert not lab.board.ready
    lab.run_until("myapp: ready")
    lab.run_for(1 * MS)
    assert lab.board.ready
    lab.off()
    lab.run_for(1 * S)
    assert not lab.board.ready
    assert len(heard) == 3


@pytest.mark.parametrize("board_type", ["am62xx_sk", AM437X])
def test_a_quiet_kernel_says_nothing_until_its_prompt(board_type: str) -> None:
    lab = booted("quiet_kernel", board_type=board_type)
    after = lab.said().partition("Starting kernel ...\n")[2]
    model = lab.board.model
    host, tty = model.identity.hostname, model.board.console.linux
    banner = f"Arago Project {host} {tty} {model.release.distribution} {host} {tty} {host} login:"
    assert after.split() == banner.split()
    (boot,) = truth(lab)
    assert lab.board.computer is not None
    assert boot.boot_s == pytest.approx(lab.board.computer.durations.boot_ns / S, abs=0.01)


def test_extlinux_says_the_root_of_the_medium_that_it_boots_from() -> None:
    said = booted("extlinux_boot", "emmc").said()
    assert "append: console=ttyS2,115200n8 root=/dev/mmcblk0p1 rw rootwait\n" in said
    assert "(mmcblk0p1): mounted filesystem" in said
    assert "append: console=ttyS0,115200n8 root=/dev/mmcblk0p2 rw" in booted("extlinux_boot", board_type=AM437X).said()


def test_a_quiet_kernel_still_says_what_went_wrong() -> None:
    lab = SimLab()
    plans = [planned("quiet_kernel"), planned("oops")]
    lab.board.troubles_for = lambda cycle: [plan.fault(cycle) for plan in plans]
    lab.on()
    lab.run_until(LOGIN)
    assert "Unable to handle kernel NULL pointer dereference" in lab.said()
    assert "Booting Linux" not in lab.said()


def test_a_keyed_countdown_stops_for_a_space_only() -> None:
    lab = board("autoboot_keyed")
    lab.on()
    lab.run_until("Press SPACE to abort autoboot in 2 seconds\n")
    start_ns = lab.now_ns
    lab.type("x\r")
    lab.run_until("switch to partitions")
    assert 2 * S <= lab.now_ns - start_ns <= 2.2 * S
    lab = board("autoboot_keyed", AM437X)
    lab.on()
    lab.run_until("Press SPACE to abort autoboot in 2 seconds\n")
    lab.type("x ")
    lab.run_until("=> ", limit_s=1)


def test_a_silent_bl31_leaves_the_rest_as_it_is() -> None:
    silent, usual = (booted(fault).said() for fault in ("silent_bl31", "clock_jump"))
    assert "BL31" not in silent
    assert "BL31" in usual
    assert silent.count("U-Boot SPL ") == usual.count("U-Boot SPL ") == 2


def test_two_spl_of_two_builds_have_two_stamps() -> None:
    found = re.findall(
        r"U-Boot SPL (\S+) \((.*)\)", booted("spl_rebuilt", built="Jan 01 2026 - 00:00:00 +0000").said()
    )
    (first, stamp), (second, other) = found
    assert first == second
    assert stamp == "Jan 01 2026 - 00:00:00 +0000" != other


def test_a_cold_start_with_the_erratum_has_three_banners_and_one_power_on() -> None:
    lab = booted("erratum_i2331")
    assert lab.said().count("U-Boot SPL ") == 3
    (boot,) = truth(lab)
    assert boot.on_ns == 1000 * S
    boot_again(lab)
    assert lab.said().count("U-Boot SPL ") == 5, "it strikes in its cycles only"


def test_a_second_prompt_is_not_the_true_one() -> None:
    lab = booted("second_prompt")
    assert lab.said().count(LOGIN) == 1
    (boot,) = truth(lab)
    lab.run_until("\nArago Project")
    lab.run_until(LOGIN)
    assert lab.now_ns - boot.prompt_ns > 1500 * MS
    assert truth(lab) == [boot]


@pytest.mark.parametrize(("board_type", "names_itself"), [("am62xx_sk", "[0-9a-f]{32,}"), (AM437X, "")])
def test_a_rom_without_a_medium_may_ask_for_a_program(board_type: str, names_itself: str) -> None:
    lab = board("rom_over_uart", board_type)
    lab.on()
    lab.run_for(30 * S)
    assert re.fullmatch(f"{names_itself}C{{25,35}}", lab.said())
    assert lab.board.stage == "rom-without-medium"


def test_a_board_with_a_talking_rom_boots_from_the_medium_that_it_has() -> None:
    lab = board("rom_over_uart")
    lab.on()
    lab.run_for(5 * S)
    lab.off()
    lab.run_for(1 * S)
    lab.on()
    lab.run_until(LOGIN)


def test_a_resume_may_begin_with_a_banner_of_spl() -> None:
    lab = booted("resume_with_spl")
    lab.type("root\r")
    lab.run_until("# ")
    said = lab.command("rtcwake -m mem -s 5", f"root@{HOST}:~# ")
    assert re.search(
        r"Suspending console.*\n(.*\n)*U-Boot SPL 2025\.01.*\nSYSFW ABI: .*\n\[.*\n(.*\n)*.*PM: suspend exit", said
    )


def test_an_oops_of_a_32_bit_board_has_only_a_number() -> None:
    said = booted("arm_abort", board_type=AM437X).said()
    assert re.search(r"\] Unhandled fault: external abort on non-linefetch \(0x1028\) at 0xf9e3e054\n", said)
    assert re.search(r"\] Internal error: : 1028 \[#1\] SMP ARM\n", said)


def test_a_stock_environment_is_a_fault_of_one_cycle_too() -> None:
    lab = booted("stock_environment", "emmc")
    assert "Trying to boot from MMC1" in lab.said()
    assert "(mmcblk1p2): mounted filesystem" in lab.said()
    boot_again(lab, "emmc")
    assert "(mmcblk0p1): mounted filesystem" in lab.said()


@pytest.mark.parametrize(
    ("fault", "failures"),
    [
        ("stock_environment", ("mixed_boot",)),
        ("root_elsewhere", ("mixed_boot",)),
        ("rom_over_uart", ("rom_no_medium",)),
        ("arm_abort", ("kernel_oops",)),
        ("quiet_kernel", ("software_changed",)),
        ("erratum_i2331", ()),
    ],
)
def test_each_says_what_boardlab_shall_make_of_it(fault: str, failures: tuple[str, ...]) -> None:
    assert FAULTS[fault].outcome.failures == failures
