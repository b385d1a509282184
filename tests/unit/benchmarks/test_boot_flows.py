"""Which way a board booted, and from which medium: recognised by what it says, with made-up times between the lines."""

from __future__ import annotations

import random

import pytest
from attrs import evolve
from support.facts import missing_facts

from lab import boards
from lab.benchmarks.boot import PowerEdge
from lab.boards import NORMAL
from lab.console.model import Chunk, Event, LineTiming
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_EFI, BOOT_POWER_ON, BOOT_SPL, BOOT_STAGE, BOOT_TIME
from lab.run.rewatch import PromptReply, RewatchResult, rewatch

MS = 1_000_000
GAP_NS = 100 * MS  # between two lines
TIMING = LineTiming(115200)
ON_NS = 1_000 * MS

R5 = ["U-Boot SPL 2025.01-00502 (Jun 26 2025 - 14:32:24 +0000)", "SYSFW ABI: 4.0", "Trying to boot from MMC2"]
TFA = ["NOTICE:  BL31: v2.12.0(release):11.00.15", "NOTICE:  BL31: Built : 09:18:24, Jun 23 2025"]
A53 = ["", "U-Boot SPL 2025.01-00502 (Jun 26 2025 - 14:32:25 +0000)", "SYSFW ABI: 4.0", "Trying to boot from MMC2"]
UBOOT = [
    "",
    "U-Boot 2025.01-00502 (Jun 26 2025 - 14:32:25 +0000)",
    "DRAM:  2 GiB",
    "Hit any key to stop autoboot:  0 ",
]
LOAD = [
    "switch to partitions #0, OK",
    "mmc1 is current device",
    "22323712 bytes read in 250 ms",
    "",
    "Starting kernel ...",
    "",
]
BANNER = ["[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd034]"]
KERNEL = [
    "[    0.000000] Kernel command line: console=ttyS2,115200n8 root=PARTUUID=076c4a2a-02 rw rootwait",
    "[    2.640969] EXT4-fs (mmcblk1p2): mounted filesystem 766e618e r/w with ordered data mode. Quota mode: none.",
    "[    2.655000] VFS: Mounted root (ext4 filesystem) on device 179:98.",
    "[    2.671885] Run /sbin/init as init process",
]
USER = ["", "Arago 2025.01 am62xx-evm ttyS2", ""]
LINUX = [*BANNER, *KERNEL, *USER]
USUAL = [*R5, *TFA, *A53, *UBOOT, *LOAD, *LINUX]
SBL = ["SYSFW Firmware Version 8.6.4--v08.06.04 (Chill Capybar", "SYSFW ABI revision 3.1"]


def booted(
    lines: list[str], board: str = "am62xx_sk", medium: str = "sd", prompt: str = "am62xx-evm login: "
) -> RewatchResult:
    """What becomes of a boot that says these lines, and then waits at its prompt."""
    t_ns, position = ON_NS, 0
    events: list[Event] = []
    for text in [*(f"{line}\r\n".encode() for line in lines), prompt.encode()]:
        t_ns += GAP_NS
        events.append(Chunk(t_ns + TIMING.bytes_ns(len(text)), position, text))
        position += len(text)
    answer = PromptReply(b"\r\n\r\n" + prompt.encode(), t_ns) if prompt else None
    return rewatch(events, boards.load(board), medium, PowerEdge(ON_NS, ON_NS), TIMING, answer)


def failure(done: RewatchResult) -> str:
    """Its failure class, or none."""
    return "" if done.error is None else done.error.failure


def stages(done: RewatchResult) -> list[str]:
    """The titles of its stages."""
    return [sample.params["stage"] for sample in done.samples if sample.metric == BOOT_STAGE.name]


def flows(done: RewatchResult) -> set[str]:
    """What its numbers say of the flow."""
    assert done.error is None, done.error
    return {sample.params.get("flow", NORMAL) for sample in done.samples}


def seconds(done: RewatchResult, metric: object) -> float:
    """Its one number of that metric."""
    (value,) = (sample.value for sample in done.samples if sample.metric == metric.name)
    return value


def test_the_usual_flow_is_named_by_no_parameter() -> None:
    done = booted(USUAL)
    assert flows(done) == {NORMAL}
    assert seconds(done, BOOT_TIME) < seconds(done, BOOT_POWER_ON)


def test_a_boot_without_the_moment_that_its_number_counts_from_has_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a drafted type, in which that moment need not come."""
    board = boards.load("am62xx_sk")
    moments = [evolve(each, required=False) for each in board.moments]
    monkeypatch.setattr(boards, "load", lambda _name: evolve(board, moments=moments, flows={}))
    done = booted([line for line in USUAL if line != "Starting kernel ..."])
    assert (failure(done), done.samples) == ("moment_missing", ())
    assert not missing_facts(str(done.error), "starting_kernel", "not come")


def test_a_quiet_kernel_prints_neither_its_banner_nor_its_init() -> None:
    quiet = booted([*R5, *TFA, *A53, *UBOOT, *LOAD, *USER])
    assert flows(quiet) == {"quiet"}
    assert seconds(quiet, BOOT_TIME) > 0
    assert "User space" not in stages(quiet)  # nobody knows when it began
    assert "Kernel load" in stages(quiet)


def test_a_kernel_that_does_not_say_what_it_runs_gives_its_time_to_no_other_stage() -> None:
    done = booted([line for line in USUAL if "as init process" not in line])
    assert {"Kernel", "User space"}.isdisjoint(stages(done))
    assert "Kernel entry" in stages(done)


def test_a_falcon_boot_is_measured_from_its_spl() -> None:
    done = booted([*R5, *TFA, *LINUX])
    assert flows(done) == {"falcon"}
    assert stages(done) == ["Power on to SPL", "SPL", "TF-A, kernel entry", "Kernel", "User space"]
    assert 0 < seconds(done, BOOT_SPL) < seconds(done, BOOT_POWER_ON)
    assert not [sample for sample in done.samples if sample.metric == BOOT_TIME.name]


def test_a_falcon_boot_with_a_quiet_kernel_has_its_number() -> None:
    done = booted([*R5, *TFA, *USER])
    assert flows(done) == {"falcon_quiet"}
    assert 0 < seconds(done, BOOT_SPL) < seconds(done, BOOT_POWER_ON)
    assert stages(done) == ["Power on to SPL", "SPL"]


EFI = ["Booting /\\EFI\\BOOT\\bootaa64.efi", "EFI stub: Booting Linux Kernel...", "EFI stub: Exiting boot services..."]


@pytest.mark.parametrize("kernel", [LINUX, USER], ids=["told", "quiet"])
def test_a_boot_through_efi_is_measured_from_the_kernels_efi_stub(kernel: list[str]) -> None:
    done = booted([*R5, *TFA, *A53, *UBOOT, *LOAD[:3], *EFI, *kernel])
    assert flows(done) == {"efi" if kernel is LINUX else "efi_quiet"}
    assert stages(done)[:6] == [
        *("Power on to SPL", "SPL (R5)", "TF-A, SPL (A53)", "U-Boot start-up", "Autoboot countdown", "Kernel load"),
    ]
    assert ("EFI stub" in stages(done)) is (kernel is LINUX)
    assert 0 < seconds(done, BOOT_EFI) < seconds(done, BOOT_POWER_ON)
    assert not [sample for sample in done.samples if sample.metric in {BOOT_TIME, BOOT_SPL}]


def test_an_efi_boot_whose_kernel_starts_twice_is_flagged() -> None:
    done = booted([*R5, *TFA, *A53, *UBOOT, *EFI, *EFI, *LINUX])
    assert all(Flag.FLOW_UNVERIFIED in sample.flags for sample in done.samples)


def test_an_sbl_boot_has_tf_a_before_its_only_spl_banner() -> None:
    done = booted([*SBL, *TFA, *A53, *UBOOT, *LOAD, *LINUX])
    assert flows(done) == {"sbl"}
    assert not any(Flag.FLOW_UNVERIFIED in sample.flags for sample in done.samples)
    assert stages(done)[:4] == ["Power on to TF-A", "TF-A", "SPL (A53)", "U-Boot start-up"]
    assert seconds(done, BOOT_TIME) == pytest.approx(seconds(booted(USUAL), BOOT_TIME), abs=1e-3)


def test_an_sbl_that_says_nothing_is_one_as_well_and_flagged() -> None:
    done = booted([*TFA, *A53, *UBOOT, *LOAD, *LINUX])
    assert flows(done) == {"sbl"}
    assert all(Flag.FLOW_UNVERIFIED in sample.flags for sample in done.samples)


def test_an_sbl_that_says_the_same_twice_may_have_begun_twice() -> None:
    done = booted([*SBL, *SBL, *TFA, *A53, *UBOOT, *LOAD, *LINUX])
    assert all(Flag.FLOW_UNVERIFIED in sample.flags for sample in done.samples)


def test_a_lost_first_banner_makes_no_sbl() -> None:
    assert failure(booted(USUAL[1:])) == "moment_order"


@pytest.mark.parametrize("left", [UBOOT[1], UBOOT[3], "mmc1 is current device", "Starting kernel ..."])
def test_a_boot_with_a_trace_of_u_boot_is_no_falcon(left: str) -> None:
    said = [*R5, *TFA, "switch to partitions #0, OK", left, *LINUX]
    assert failure(booted(said)) == "moment_missing"


def test_a_falcon_boot_that_began_anew_is_no_other_flow() -> None:
    assert failure(booted([*R5, *TFA, *R5, *TFA, *LINUX])) in {"moment_missing", "reset"}


@pytest.mark.parametrize("words", ["r/w with", "ro with", "with"])
def test_the_root_is_evidence_however_it_is_mounted(words: str) -> None:
    done = booted([line.replace("r/w with", words) for line in USUAL], medium="sd")
    assert done.error is None
    assert not any("medium_unverified" in sample.flags for sample in done.samples)


@pytest.mark.parametrize(
    ("spl", "root", "named"), [("MMC1", "mmcblk1p2", "mixed_boot"), ("MMC2", "mmcblk0p1", "mixed_boot")]
)
def test_a_root_on_another_medium_than_spl_is_a_mixed_boot(spl: str, root: str, named: str) -> None:
    device = {"mmcblk1p2": "mmc1", "mmcblk0p1": "mmc0(part 0)"}[root]
    said = [line.replace("MMC2", spl).replace("mmcblk1p2", root).replace("mmc1 is", f"{device} is") for line in USUAL]
    done = booted(said, medium={"MMC1": "emmc", "MMC2": "sd"}[spl])
    assert failure(done) == named
    assert done.error is not None
    assert "environment" in str(done.error)


@pytest.mark.parametrize(
    ("card", "outcome"),
    [
        ("mmc0: new ultra high speed SDR104 SDHC card at address aaaa", ""),
        ("mmc0: new HS200 MMC card at address 0001", "mixed_boot"),
        ("mmc1: new ultra high speed SDR104 SDHC card at address aaaa", "mixed_boot"),  # nothing says what mmc0 is
    ],
)
def test_a_card_that_was_numbered_otherwise_is_known_by_its_kind(card: str, outcome: str) -> None:
    said = [
        line.replace("root=/dev/mmcblk1p2", "root=PARTUUID=1-02").replace("mmcblk1p2", "mmcblk0p2") for line in USUAL
    ]
    at = next(number for number, line in enumerate(said) if "mmcblk0p2" in line)
    said[at:at] = [f"[    1.000000] {card}", "[    1.000100] mmcblk0: mmc0:aaaa SR32G 29.7 GiB"]
    assert failure(booted(said, medium="sd")) == outcome


def test_another_medium_altogether_is_the_straps_fault() -> None:
    done = booted(USUAL, medium="emmc")
    assert failure(done) == "wrong_medium"
    assert "straps" in str(done.error)


def test_what_u_boot_turned_to_before_the_last_device_says_nothing() -> None:
    said = [line.replace("MMC2", "MMC1").replace("mmcblk1p2", "mmcblk0p1") for line in USUAL]
    at = said.index("mmc1 is current device")
    said.insert(at + 1, "mmc0(part 0) is current device")
    assert booted(said, medium="emmc").error is None


TFTP = [
    "Using ethernet@8000000port@1 device",
    "TFTP from server 192.168.1.1; our IP address is 192.168.1.2",
    "Filename 'Image'.",
    "Load address: 0x82000000",
    "Loading: #################################################################",
    "\t 21.3 MiB/s",
    "done",
]
OTHER_SOURCES = {
    "TFTP": [*TFTP, "Bytes transferred = 22323712 (154a200 hex)"],
    "DHCP": [
        "BOOTP broadcast 1",
        "DHCP client bound to address 192.168.1.2 (3 ms)",
        *TFTP,
        "Bytes transferred = 7 (7 hex)",
    ],
    "USB": ["USB device 0: ", "    Device 0: Vendor: SanDisk Rev: 1.00 Prod: Ultra", "... is now current device"],
    "USB by bootflow": ["** Booting bootflow 'usb_mass_storage.lun0.bootdev.part_1' with extlinux"],
    "network by bootflow": ["** Booting bootflow 'ethernet@8000000port@1.bootdev.0' with script"],
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("source", OTHER_SOURCES)
def test_a_kernel_from_the_network_or_from_usb_is_of_another_medium(source: str, seed: int) -> None:
    dice = random.Random(seed)
    first = USUAL.index("switch to partitions #0, OK")
    at = USUAL.index("Starting kernel ...")
    shown = dice.choice((USUAL[first:at], USUAL[first : at - 2], []))  # the SD card's environment was read, or nothing
    done = booted([*USUAL[:first], *shown, *OTHER_SOURCES[source], *USUAL[at:]])
    assert failure(done) == "mixed_boot"
    assert "uboot says" in str(done.error)


@pytest.mark.parametrize("seed", range(4))
def test_a_network_or_usb_that_was_only_tried_is_no_source(seed: int) -> None:
    dice = random.Random(seed)
    tried = [
        ["scanning bus for storage devices... 1 Storage Device(s) found"],
        [
            "BOOTP broadcast 1",
            "DHCP client bound to address 192.168.1.2 (3 ms)",
            *TFTP[:4],
            "Loading: T T T",
            "Retry count exceeded; starting again",
        ],
        OTHER_SOURCES["USB"],
        OTHER_SOURCES["TFTP"],  # of a script; the card is named behind it
    ]
    dice.shuffle(tried)
    first = USUAL.index("switch to partitions #0, OK")
    assert booted([*USUAL[:first], *tried[0], *tried[1], *USUAL[first:]]).error is None
    failed = [each for each in tried if each not in OTHER_SOURCES.values()]
    at = USUAL.index("Starting kernel ...")
    assert booted([*USUAL[:at], *dice.choice(failed), *USUAL[at:]]).error is None


def test_an_echo_of_the_environment_says_nothing() -> None:
    at = USUAL.index("mmc1 is current device")
    said = [*USUAL[:at], "MMC: no card present", "SD/MMC found on device 0", "MMC: no card present", *USUAL[at:]]
    assert booted(said).error is None


def test_the_boot_menus_command_line_is_evidence() -> None:
    at = USUAL.index("Starting kernel ...")
    said = [*USUAL[:at], "append: console=ttyS2,115200n8 root=/dev/mmcblk0p1 rw", *USUAL[at:]]
    assert failure(booted(said)) == "mixed_boot"


def test_space_stops_an_autoboot_too() -> None:
    said = [
        line.replace("Hit any key to stop autoboot:  0 ", "Press SPACE to abort autoboot in 2 seconds")
        for line in USUAL
    ]
    assert "Autoboot countdown" in stages(booted(said))


def test_a_reset_for_an_erratum_is_planned_once() -> None:
    cold = [*R5, "Resetting on cold boot to workaround ErrataID:i2331", "resetting ..."]
    assert flows(booted([*cold, *USUAL])) == {NORMAL}
    assert failure(booted([*cold, *cold, *USUAL])) == "reset"


@pytest.mark.parametrize(
    "asks", ["C" * 3, "\r\nCCCCCC", "02000000011a0000616d3632783800000000000000475020" * 2 + "\r\nCCC"]
)
def test_a_rom_that_asks_over_the_uart_found_no_medium(asks: str) -> None:
    assert failure(booted([], prompt=asks)) == "rom_no_medium"


def test_cs_behind_a_banner_are_no_rom() -> None:
    assert failure(booted(R5, prompt="CCCC")) != "rom_no_medium"


def test_an_am437x_loads_from_qspi_by_spi() -> None:
    said = [
        "U-Boot SPL 2017.01-g9fd60700db (Jun 28 2017 - 09:38:07)",
        "Trying to boot from SPI",
        "U-Boot 2017.01-g9fd60700db (Jun 28 2017 - 09:38:07)",
        "Hit any key to stop autoboot:  0 ",
        "SF: Detected mx66l51235l with page size 256 Bytes, erase size 64 KiB, total 64 MiB",
        "Starting kernel ...",
        "[    0.000000] Booting Linux on physical CPU 0x0",
        "[    0.000000] Kernel command line: console=ttyO0,115200n8 root=/dev/mtdblock6 rootfstype=jffs2",
        "[    3.000000] VFS: Mounted root (jffs2 filesystem) on device 31:4.",
    ]
    done = booted(said, "am43xx-gpevm", "qspi", "am437x-evm login: ")
    assert done.error is None
    assert {"Kernel", "User space"}.isdisjoint(stages(done))


@pytest.mark.parametrize("loading", ["", "Loading Environment from SPIFlash... "])
def test_a_flash_that_u_boot_has_its_environment_in_loads_no_kernel_yet(loading: str) -> None:
    at = USUAL.index("Hit any key to stop autoboot:  0 ")
    flash = f"{loading}SF: Detected mx66l51235l with page size 256 Bytes"
    stages = {
        s.params["stage"] for s in booted([*USUAL[:at], flash, *USUAL[at:]]).samples if s.metric == BOOT_STAGE.name
    }
    assert {"U-Boot start-up", "Autoboot countdown", "Kernel load"} <= stages


def test_a_boot_that_names_no_device_but_its_environments_is_from_what_spl_says() -> None:
    flash = "Loading Environment from SPIFlash... SF: Detected mx66l51235l with page size 256 Bytes"
    lines = [line for line in USUAL if "current device" not in line and "switch to" not in line]
    at = lines.index("Hit any key to stop autoboot:  0 ")
    assert booted([*lines[:at], flash, *lines[at:]]).error is None


def test_an_internal_error_with_a_die_count_is_an_oops() -> None:
    at = USUAL.index("[    2.655000] VFS: Mounted root (ext4 filesystem) on device 179:98.")
    said = [*USUAL[:at], "[    2.650000] Internal error: : 1028 [#1] SMP ARM", *USUAL[at:]]
    assert failure(booted(said)) == "kernel_oops"
