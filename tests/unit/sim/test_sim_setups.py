"""A board says what its setup makes it say: who boots it, and which medium its environment loads Linux from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.simlab import S, SimLab

from lab.errors import ConfigurationError
from lab.virtual.sim import setup
from lab.virtual.sim.kind import SimOptions, board_specs
from lab.virtual.sim.model import model
from lab.virtual.sim.setup import SimConfig, SimSetup
from lab.virtual.truth_log import Truth, true_boots

LOGIN = "-evm login: "
PROMPT = "=> "


def booted(medium: str = "sd", board_type: str = "am62xx_sk", release: str | None = None, **setup: object) -> SimLab:
    """A board that waits for a login."""
    lab = SimLab(board_type, release=release, setup=SimSetup(**setup))
    lab.on(medium)
    lab.run_until(LOGIN)
    return lab


def stages(lab: SimLab) -> list[str]:
    return [note.split("stage=")[1].split()[0] for note in lab.notes if "stage=" in note]


def in_order(said: str, *texts: str) -> None:
    """Each of the texts comes after the one before."""
    position = 0
    for text in texts:
        position = said.find(text, position)
        assert position >= 0, text
        position += len(text)


def command_line(lab: SimLab) -> list[str]:
    (found,) = re.findall(r"Kernel command line: (.*)", lab.said())
    return str(found).split()


# Falcon mode and SBL


@pytest.mark.parametrize(("medium", "word"), [("sd", "MMC2"), ("emmc", "MMC1"), ("ospi", "SPI")])
def test_in_falcon_mode_spl_loads_the_kernel_and_tf_a_starts_it(medium: str, word: str) -> None:
    lab = booted(medium, flow="falcon")
    said = lab.said()
    in_order(
        said, f"Trying to boot from {word}", f"Loading falcon payload from {word}", "BL31: v", "] Booting Linux", LOGIN
    )
    assert said.count("U-Boot SPL") == 1
    assert "\nU-Boot 20" not in said
    assert "Starting kernel" not in said
    assert "autoboot" not in said
    assert stages(lab) == ["rom", "spl", "tfa", "kernel", "user", "login"]


def test_a_falcon_boot_truly_begins_when_tf_a_hands_over() -> None:
    lab = booted(flow="falcon")
    lab.run_for(1 * S)
    (boot,) = true_boots(Truth(115200, lab.ports[lab.console].sent, 0, [], lab.noted), "am62xx-evm")
    assert lab.board.computer is not None
    planned = lab.board.computer.durations
    assert boot.boot_s == pytest.approx(planned.boot_ns / S, abs=0.001)
    before_ns = planned.rom_ns + planned.falcon_ns + planned.tfa_ns / 2
    assert boot.from_power_on_s == pytest.approx((before_ns + planned.boot_ns) / S, abs=0.01)


def test_a_falcon_kernel_mounts_its_root_read_only_since_nobody_passed_rw() -> None:
    lab = booted(flow="falcon")
    assert command_line(lab) == ["console=ttyS2,115200n8", "root=PARTUUID=076c4a2a-02", "rootwait"]
    assert re.search(
        r"\(mmcblk1p2\): mounted filesystem \S+ ro with ordered data mode\. Quota mode: none\.", lab.said()
    )
    assert "VFS: Mounted root (ext4 filesystem) readonly on device" in lab.said()
    assert re.search(r"\(mmcblk1p2\): re-mounted \S+ r/w\.\n", lab.said())


@pytest.mark.parametrize(
    ("release", "firmware", "hands_over"),
    [
        ("08.05", "DMSC Firmware Version 8.5.3--v08.05.03", True),
        ("09.02", "SYSFW Version 9.2.7--v09.02.07", True),
        ("11.01", "SYSFW Firmware Version 11.1.0--v11.01.00", False),
    ],
)
def test_with_sbl_only_the_spl_behind_tf_a_has_a_banner(release: str, firmware: str, hands_over: bool) -> None:
    lab = booted(release=release, flow="sbl")
    said = lab.said()
    in_order(
        said,
        firmware,
        "[BOOTLOADER_PROFILE] Boot Media       : SD Card",
        "[BOOTLOADER_PROFILE] SBL Total Time Taken",
        "Image loading done, switching to application ...",
        "NOTICE:  BL31: v",
        "U-Boot SPL 20",
        "Trying to boot from MMC2",
        "\nU-Boot 20",
        "Starting kernel ...",
        LOGIN,
    )
    assert said.count("U-Boot SPL") == 1
    assert ("Starting linux and RTOS/Baremetal applications" in said) == hands_over
    assert stages(lab) == ["rom", "sbl", "tfa", "uboot", "load", "kernel", "user", "login"]


def test_flows_are_for_boards_with_tf_a() -> None:
    with pytest.raises(ConfigurationError, match="has no TF-A"):
        model("am43xx-gpevm").check(SimSetup(flow="sbl"))
    model("am654x-evm").check(SimSetup(flow="sbl"))
    with pytest.raises(ConfigurationError, match="has no TF-A"):
        board_specs(SimOptions(["am43xx-gpevm"], 1, "", 0, 1.0, flow="falcon"))
    with pytest.raises(ConfigurationError, match=r"normal, falcon, sbl"):
        board_specs(SimOptions([], 1, "", 0, 1.0, flow="eagle"))


def test_a_board_of_a_bench_keeps_how_it_was_set_up(tmp_path: Path) -> None:
    setup.save(tmp_path, SimConfig(flow="falcon", stock=True))
    assert setup.load(tmp_path).setup == SimSetup(flow="falcon", stock=True)
    (tmp_path / setup.FILE).write_text(json.dumps({"flow": "eagle"}))
    with pytest.raises(ConfigurationError, match="up sim"):
        setup.load(tmp_path)
    (tmp_path / setup.FILE).write_text(json.dumps({"seed": 3}))  # written before there were flows
    assert setup.load(tmp_path).setup == SimSetup()


# The environment


@pytest.mark.parametrize(
    ("board_type", "medium", "spl", "device"),
    [
        ("am62xx_sk", "emmc", "MMC1", "mmc1"),
        ("am62xx_sk", "ospi", "SPI", "mmc1"),
        ("am62xx_lp_sk", "ospi", "SPINAND", "mmc1"),
        ("am43xx-gpevm", "qspi", "SPI", "mmc0"),
    ],
)
def test_with_the_environment_that_ti_ships_linux_comes_from_sd_whatever_the_straps(
    board_type: str, medium: str, spl: str, device: str
) -> None:
    said = booted(medium, board_type, stock=True).said()
    in_order(
        said, f"Trying to boot from {spl}\n", f"{device} is current device", "] VFS: Mounted root (ext4 filesystem)"
    )
    assert "(mmcblk0p1): mounted" not in said
    assert "SF: Detected" not in said
    assert "ubi0" not in said


@pytest.mark.parametrize("medium", ["emmc", "ospi"])
def test_an_environment_that_a_lab_prepared_loads_linux_from_the_medium_of_the_straps(medium: str) -> None:
    said = booted(medium).said()
    words = {
        "emmc": ("mmc0(part 0) is current device", "(mmcblk0p1): mounted"),
        "ospi": ("SF: Detected", "UBIFS (ubi0:0)"),
    }
    in_order(said, *words[medium])
    assert "mmc1 is current device" not in said
    assert "(mmcblk1p2): mounted" not in said


def test_what_a_lab_sets_and_saves_makes_a_stock_board_boot_from_its_emmc() -> None:
    lab = SimLab(setup=SimSetup(stock=True))
    lab.on("emmc")
    lab.run_until("stop autoboot:")
    lab.type(" ")
    lab.run_until(f"\n{PROMPT}")
    assert lab.command("printenv mmcdev bootpart", PROMPT).splitlines()[-2:] == ["mmcdev=1", "bootpart=1:2"]
    assert "OK" in lab.command("setenv mmcdev 0; setenv bootpart 0:1; saveenv", PROMPT)
    lab.off()
    lab.run_for(1 * S)
    lab.on("emmc")
    lab.run_until(LOGIN)
    second = lab.said()[lab.said().rindex("Starting ATF") :]
    in_order(
        second, "mmc0(part 0) is current device", "root=PARTUUID=c1f0a9d4-01 rw", "(mmcblk0p1): mounted filesystem"
    )


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("part uuid mmc 1:2", "076c4a2a-02\n"),
        ("part uuid mmc 0:1 x; echo ${x}", "c1f0a9d4-01\n"),
        ("part uuid mmc 7:1", "no mmc device at slot 7\n"),
        ("part list mmc 1", "Usage:"),
    ],
)
def test_u_boot_names_a_partition(command: str, says: str) -> None:
    lab = SimLab()
    lab.on()
    lab.run_until("stop autoboot:")
    lab.type(" ")
    lab.run_until(f"\n{PROMPT}")
    assert says in lab.command(command, PROMPT)


@pytest.mark.parametrize(
    ("release", "medium", "lines"),
    [
        ("08.05", "sd", ["switch to partitions #0, OK", "mmc1(part 0) is current device", "SD/MMC found on device 1"]),
        ("09.02", "sd", ["switch to partitions #0, OK", "mmc1 is current device", "SD/MMC found on device 1"]),
        (
            "09.02",
            "emmc",
            ["switch to partitions #0, OK", "mmc0(part 0) is current device", "SD/MMC found on device 0"],
        ),
        ("11.01", "sd", ["switch to partitions #0, OK", "mmc1 is current device", "Failed to load 'boot.scr'"]),
    ],
)
def test_each_release_names_its_medium_in_its_own_words(release: str, medium: str, lines: list[str]) -> None:
    assert "\n".join(["", *lines, ""]) in booted(medium, release=release).said()
