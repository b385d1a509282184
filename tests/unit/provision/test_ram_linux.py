"""A Linux in a board's memory: its files, where they are loaded to, U-Boot's command, and what a start that fails says."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import pytest

from lab import boards
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError
from lab.provision import ramlinux
from lab.provision.errors import RecoveryFailedError
from lab.provision.ramlinux import PROMPT, RamLinux, Start
from lab.provision.release import RecoveryStage

MIB = 1 << 20
ARM64 = struct.pack("<IIQQQQQQ", 0x91005A4D, 0, 0, 3 * MIB, 0xA, 0, 0, 0)[:56] + b"ARM\x64" + bytes(MIB)
ARM = bytes(36) + struct.pack("<I", 0x016F2818) + bytes(MIB)
ARCHIVE = gzip.compress(b"070701")


def stage(folder: Path, name: str, data: bytes) -> RecoveryStage:
    (folder / name).write_bytes(data)
    return RecoveryStage(name=name, source=str(folder / name), sha256=hashlib.sha256(data).hexdigest())


def test_its_files_are_known_by_their_names_and_the_initramfs_stays_packed(tmp_path: Path) -> None:
    found = ramlinux.read(
        [
            stage(tmp_path, "k3-am625-sk.dtb", b"tree"),
            stage(tmp_path, "ram-linux-arm64.cpio.gz", ARCHIVE),
            stage(tmp_path, "Image.gz", gzip.compress(ARM64)),
        ]
    )
    assert (found.kernel, found.device_tree, found.initramfs, found.command) == (ARM64, b"tree", ARCHIVE, "booti")
    assert found.kernel_room == 3 * MIB
    assert ramlinux.read([stage(tmp_path, "zImage", ARM), stage(tmp_path, "initrd.img", b"i")]).command == "bootz"


@pytest.mark.parametrize(
    ("names", "said"), [(("Image",), "no initramfs"), (("a.cpio",), "no kernel"), (("wrong", "a.cpio"), "neither")]
)
def test_what_is_missing_is_said(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ramlinux.read([stage(tmp_path, name, ARM64 if name == "Image" else b"x" * 100) for name in names])


def test_nothing_is_loaded_over_anything_else() -> None:
    linux = RamLinux(ARM64, ARCHIVE, b"tree")
    kernel, tree, initramfs = ramlinux.place(linux, (0x8200_0001, 0x9000_0000))
    assert kernel.address == 0x8220_0000
    assert tree.address == 0x8220_0000 + 4 * MIB
    assert initramfs.address == tree.address + 2 * MIB
    assert (
        ramlinux.start(linux, [kernel, tree, initramfs]) == f"booti 0x82200000 0x82800000:{len(ARCHIVE):#x} 0x82600000"
    )
    with pytest.raises(ConfigurationError, match="memory"):
        ramlinux.place(linux, (0x8200_0000, 0x8220_0000))


def test_without_a_device_tree_it_is_u_boots_own_and_an_arm_kernel_has_room_to_unpack() -> None:
    linux = RamLinux(ARM, ARCHIVE, command="bootz")
    placed = ramlinux.place(linux, (0x8200_0000, 0x9000_0000))
    assert placed[0].address >= 0x8200_0000 + 4 * len(ARM)
    assert ramlinux.start(linux, placed).endswith(" ${fdtcontroladdr}")


def test_the_kernels_command_line() -> None:
    assert ramlinux.arguments("ttyS2", 115200) == "console=ttyS2,115200n8 rdinit=/init loglevel=4"
    given = ramlinux.arguments("ttyS2", 115200, "192.168.0.2", "earlycon")
    assert given.endswith(" loglevel=4 ip=192.168.0.2:::255.255.255.0:::off earlycon")
    with pytest.raises(ConfigurationError):
        ramlinux.arguments("ttyS2", 115200, "", "x; reset")


def started(*reads: bytes) -> Start:
    failures = boards.load("qemu-virt").failures
    watch = Start(PROMPT, {pattern: sign.means for pattern, sign in failures.items()})
    for read in reads:
        watch.feed(read)
    return watch


def test_it_is_up_when_its_prompt_came_in_whatever_pieces() -> None:
    assert not started(b"Starting kernel ...\r\n\r\nLinux in memory is up: 6.1.0\r\n").up
    assert started(b"Linux in memory is up: 6.1.0\r\nroot@ram-", b"linux:/# ").up
    assert started(b"Linux in memory is up: 6.1.0\r\nroot@ram-linux:~# [ 12.3] mmc1: error -110\r\n").up


@pytest.mark.parametrize(
    ("said", "kind", "failure"),
    [
        (b"[    0.9] Kernel panic - not syncing: No working init found.\r\n", BoardTransientError, "kernel_panic"),
        (b"U-Boot 2023.01+dfsg-2 (Jan 01 2023)\r\n", BoardTransientError, "reset"),
        (b"Bad Linux ARM64 Image magic!\r\n", RecoveryFailedError, "recovery_failed"),
        (b"Wrong Ramdisk Image Format\r\n", RecoveryFailedError, "recovery_failed"),
        (b"Unknown command 'booti' - try 'help'\r\n", RecoveryFailedError, "recovery_failed"),
    ],
)
def test_a_start_that_fails_has_its_class(said: bytes, kind: type[BoardlabError], failure: str) -> None:
    with pytest.raises(kind) as caught:
        started(b"booti 0x44000000\r\n", said[:7], said[7:])
    assert caught.value.failure == failure


def test_a_start_that_falls_silent_says_what_came_last() -> None:
    error = started(b"Starting kernel ...\r\n\r\n").silence_error(60)
    assert error.failure == "hang_kernel"
    assert "Starting kernel" in str(error)
