"""What U-Boot answers decides. The answers are those of Debian's U-Boot 2023.01 on QEMU 7.2, and of U-Boot's sources for mmc, sf and ubi."""

from __future__ import annotations

import pytest

from lab.errors import BoardlabError, ConfigurationError
from lab.provision.errors import (
    ImageTooLargeError,
    MediaBadBlockError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    MediaWriteProtectedError,
    TftpTimeoutError,
)
from lab.provision.writers import ubootanswers as answers
from lab.provision.writers import ubootmedia
from lab.provision.writers.command import Command
from lab.provision.writers.ubootmedia import Cfi, Mtd, SpiFlash, UbiVolume, UBootBlocks

BDINFO = """\
boot_params = 0x0000000000000000
DRAM bank   = 0x0000000000000000
-> start    = 0x0000000040000000
-> size     = 0x0000000010000000
flashstart  = 0x0000000000000000
relocaddr   = 0x000000004fef7000
reloc off   = 0x000000004fef7000
fdt_blob    = 0x000000004edb6db0
lmb_dump_all:
 memory.cnt  = 0x1
 memory[0]	[0x40000000-0x4fffffff], 0x10000000 bytes flags: 0
 reserved.cnt  = 0x2
 reserved[0]	[0x4ddb2000-0x4fffffff], 0x0224e000 bytes flags: 0
irq_sp      = 0x000000004edb6da0""".splitlines()

NVME, EMMC, FLASH = UBootBlocks("nvme", 0), UBootBlocks("mmc", 0, "boot0"), Mtd("nor1", 0x40000)
GOOD = [
    (NVME.write(0x42000000, 0x200000, 0x2000000)[0], "nvme write: device 0 block # 4096, count 65536 ... 65536 blocks written: OK"),
    (NVME.read(0x44000000, 0x200000, 0x2000000)[0], "nvme read: device 0 block # 4096, count 65536 ... 65536 blocks read: OK"),
    (NVME.select()[2], "Device 0: Vendor: 0x1b36 Rev: 7.2.22   Prod: emmc\n            Type: Hard Disk\n... is now current device"),
    (EMMC.select()[0], "switch to partitions #1, OK\nmmc0(part 1) is current device"),
    (EMMC.write(0x82000000, 0, 0x80000)[0], "MMC write: dev # 0, block # 0, count 1024 ... 1024 blocks written: OK"),
    (FLASH.before(0x80000, 0x100000)[0], "Erasing 0x00080000 ... 0x0017ffff (4 eraseblock(s))"),
    (FLASH.write(0x42000000, 0x80000, 0x10000)[0], "Writing 65536 byte(s) at offset 0x00080000"),
    (FLASH.write(0x42000000, 0x80000, 0x10000)[0], "Writing 65536 byte(s) (32 page(s)) at offset 0x00080000"),
    (FLASH.write(0x42000000, 0, 1000)[0], "Size not on a page boundary (0x800), rounding to 0x800\nWriting 2048 byte(s) (1 page(s)) at offset 0x00000000"),
    (FLASH.select()[0], '* nor0\n  - 0x000000000000-0x000004000000 : "nor0"\n* nor1'),
    (SpiFlash().select()[0], "SF: Detected s28hs512t with page size 256 Bytes, erase size 256 KiB, total 64 MiB"),
    (SpiFlash().write(0x82000000, 0x80000, 262144)[0], "device 0 offset 0x80000, size 0x40000\n196608 bytes written, 65536 bytes skipped in 0.4s, speed 1 B/s"),
    (SpiFlash().read(0x82000000, 0x80000, 262144)[0], "device 0 offset 0x80000, size 0x40000\nSF: 262144 bytes @ 0x80000 Read: OK"),
    (Cfi(0x4000000).before(0x80000, 0x20000)[0], "Un-Protected 1 sectors"),
    (Cfi(0x4000000).before(0x80000, 0x20000)[1], ". done\nErased 1 sectors"),
    (Cfi(0x4000000).write(0x42000000, 0x80000, 4096)[0], "Copy to Flash... done"),
    (UbiVolume("rootfs", "root", 4096).write(0x82000000, 0, 4096)[0], "4096 bytes written to volume root"),
]  # fmt: skip
BAD: list[tuple[Command, str, int, type[BoardlabError]]] = [
    (NVME.write(0, 98288 * 512, 512 * 256)[0], "nvme write: device 0 block # 98288, count 256 ... ERROR: status = 4080, phase = 1, head = 1\n0 blocks written: ERROR", 1, MediaWriteFailedError),
    (NVME.write(0, 98288 * 512, 512 * 256)[0], "nvme write: device 0 block # 98288, count 256 ... -19 blocks written: ERROR", 1, MediaMissingError),
    (NVME.write(0, 0, 512 * 256)[0], "nvme write: device 0 block # 0, count 256 ... 255 blocks written: OK", 0, MediaWriteFailedError),
    (NVME.write(0, 0, 512)[0], "", 0, MediaWriteFailedError),
    (NVME.write(0, 0, 512 * 256)[0], "nvme write: device 0 block # 16, count 256 ... 256 blocks written: OK", 0, MediaWriteFailedError),
    (EMMC.write(0, 512, 512)[0], "MMC write: dev # 0, block # 0, count 1 ... 1 blocks written: OK", 0, MediaWriteFailedError),
    (SpiFlash().write(0, 0x80000, 4096)[0], "device 0 offset 0x8000, size 0x1000\n4096 bytes written, 0 bytes skipped in 0.1s, speed 1 B/s", 0, MediaWriteFailedError),
    (SpiFlash().read(0, 0x80000, 4096)[0], "device 0 offset 0x8000, size 0x1000\nSF: 4096 bytes @ 0x8000 Read: OK", 0, MediaWriteFailedError),
    (FLASH.write(0, 0x80000, 65536)[0], "Writing 65536 byte(s) at offset 0x00008000", 0, MediaWriteFailedError),
    (FLASH.write(0, 0, 1000)[0], "Size not on a page boundary (0x800), rounding to 0x1000\nWriting 2048 byte(s) (1 page(s)) at offset 0x00000000", 0, MediaWriteFailedError),
    (NVME.select()[2], "Device 3: unknown device", 1, MediaMissingError),
    (EMMC.select()[0], "MMC: no card present\nmmc_init: -123, time 2", 1, MediaMissingError),
    (EMMC.select()[0], "** Bad device mmc 0 **", 0, MediaMissingError),
    (EMMC.write(0, 0, 512)[0], "MMC write: dev # 0, block # 0, count 1 ... Error: card is write protected!", 1, MediaWriteProtectedError),
    (EMMC.write(0, 0, 512)[0], "Unknown command 'mmc' - try 'help' without arguments for list of all known commands", 0, ConfigurationError),
    (FLASH.write(0, 0, 65536)[0], "Writing 65536 byte(s) at offset 0x00000000\nFailure while writing at offset 0x0\nWrite on nor1 failed with error -5", 1, MediaWriteFailedError),
    (FLASH.write(0, 0, 65536)[0], "MTD device nor1 not found, ret -19", 1, MediaMissingError),
    (FLASH.before(0, 65536)[0], "Erasing 0x00000000 ... 0x0003ffff (1 eraseblock(s))\n- Warning: 1 protected sectors will not be erased!", 0, MediaWriteProtectedError),
    (FLASH.before(0, 65536)[0], "Erasing 0x00000000 ... 0x0003ffff (1 eraseblock(s))\n0x00020000: Skipping bad block", 0, MediaBadBlockError),
    (FLASH.before(0, 65536)[0], "Offset not aligned with a block (0x20000)", 1, MediaWriteFailedError),
    (SpiFlash().select()[0], "Failed to initialize SPI flash at 0:0 (error -2)", 1, MediaMissingError),
    (SpiFlash().write(0, 0, 4096)[0], "device 0 offset 0x0, size 0x1000\nSPI flash failed in erase step", 1, MediaWriteFailedError),
    (SpiFlash().write(0, 0, 4096)[0], "ERROR: attempting update past flash size (0x4000000)", 1, ImageTooLargeError),
    (SpiFlash().write(0, 0, 4096)[0], "1024 bytes written, 0 bytes skipped in 0.1s, speed 1 B/s", 0, MediaWriteFailedError),
    (Cfi(0x4000000).write(0, 0, 64)[0], "Copy to Flash... Can't write to protected Flash sectors", 0, MediaWriteProtectedError),
    (Cfi(0x4000000).write(0, 0, 64)[0], "Copy to Flash... Flash buffer write timeout at address 4080000 data 0\nTimeout writing to Flash", 0, MediaWriteFailedError),
    (EMMC.read(0, 8192 * 512, 512)[0], "MMC read: dev # 0, block # 8192, count 1 ... MMC: block number 0x2001 exceeds max(0x2000)\n0 blocks read: ERROR", 1, ImageTooLargeError),
    (UbiVolume("rootfs", "root", 64).before(0, 64)[0], "Volume root not found!", 1, MediaMissingError),
]  # fmt: skip


@pytest.mark.parametrize(("command", "text"), GOOD, ids=[command.text for command, _ in GOOD])
def test_a_good_answer_is_good(command: Command, text: str) -> None:
    command.judge(text.splitlines(), 0)


@pytest.mark.parametrize(("command", "text", "status", "kind"), BAD)
def test_a_bad_answer_is_its_class_whatever_the_exit_status(
    command: Command, text: str, status: int, kind: type[BoardlabError]
) -> None:
    with pytest.raises(kind):
        command.judge(text.splitlines(), status)


@pytest.mark.parametrize(("command", "text"), GOOD, ids=[command.text for command, _ in GOOD])
def test_silence_and_half_an_answer_are_no_success(command: Command, text: str) -> None:
    with pytest.raises(MediaWriteFailedError):
        command.judge([], 0)
    with pytest.raises(MediaWriteFailedError):
        command.judge(text.splitlines(), 1)


def test_all_bytes_of_a_load_must_come() -> None:
    judge = answers.judge_load(33554432, "piece")
    judge(["done", "Bytes transferred = 33554432 (2000000 hex)"], 0)
    for text in (
        "Loading: *T T T T T T T T T T \nRetry count exceeded; starting again",
        "ARP Retry count exceeded; starting again",
        "TFTP error: 'File not found' (1)\nNot retrying...",
        "Bytes transferred = 4096 (1000 hex)",
    ):
        with pytest.raises(TftpTimeoutError):
            judge(text.splitlines(), 0)
    with pytest.raises(MediaMissingError, match="no network"):
        judge(["No ethernet found."], 1)


def test_a_digest_is_compared() -> None:
    answers.digest_is("59450445", "x")(["crc32 for 42000000 ... 43ffffff ==> 59450445"], 0)
    with pytest.raises(MediaVerifyFailedError):
        answers.digest_is("00000000", "x")(["crc32 for 42000000 ... 43ffffff ==> 59450445"], 0)
    with pytest.raises(MediaWriteFailedError):
        answers.digest_is("59450445", "x")(["nothing"], 0)


def test_a_digest_of_other_bytes_than_were_asked_for_is_none() -> None:
    judge = answers.digest_is("59450445", "u-boot.img: read back", (0x44000000, 0x2000000))
    judge(["crc32 for 44000000 ... 45ffffff ==> 59450445"], 0)
    for said in ("42000000 ... 43ffffff", "44000000 ... 441fffff"):
        with pytest.raises(MediaWriteFailedError, match="another place or count"):
            judge([f"crc32 for {said} ==> 59450445"], 0)


MTD = """List of MTD devices:
* nor0
  - device: flash@0
  - type: NOR flash
  - block size: 0x40000 bytes
  - min I/O: 0x1 bytes
  - 0x000000000000-0x000004000000 : "nor0"
    - 0x000000000000-0x000000080000 : "ospi.tiboot3"
    - 0x000000800000-0x000003fc0000 : "ospi.rootfs"
* nand0
  - type: NAND flash
  - block size: 0x20000 bytes
  - 0x000000000000-0x000010000000 : "nand0\"""".splitlines()
FLINFO = """
Bank # 1: CFI conformant flash (32 x 16)  Size: 64 MB in 256 Sectors
  Intel Extended command set, Manufacturer ID: 0x89, Device ID: 0x18
  Erase timeout: 16384 ms, write timeout: 3 ms

  Sector Start Addresses:
  00000000   RO   00040000   RO   00080000   RO

Bank # 2: CFI conformant flash (32 x 16)  Size: 32 MB in 256 Sectors
  Sector Start Addresses:
  04000000        04020000        04040000      """.splitlines()


def test_the_size_of_a_medium_is_what_it_says() -> None:
    assert ubootmedia.block_device(["            Capacity: 48.0 MB = 0.0 GB (98304 x 512)"]) == 98304 * 512
    assert ubootmedia.block_device(["Capacity: 7.1 GiB"]) == round(7.15 * (1 << 30))  # the most that it can mean
    assert ubootmedia.block_device(["nothing of it"]) is None
    assert (
        ubootmedia.spi_flash(["SF: Detected x with page size 256 Bytes, erase size 256 KiB, total 64 MiB"]) == 64 << 20
    )
    assert ubootmedia.mtd(MTD, "ospi.rootfs", 0x40000) == 0x37C0000
    assert ubootmedia.mtd(MTD, "nand0", 0x40000) == 0x10000000
    assert ubootmedia.cfi(FLINFO, 0x4000000, 0x20000) == 32 << 20
    assert ubootmedia.cfi(FLINFO, 0x4100000, 0x20000) == 31 << 20
    assert ubootmedia.cfi(["Bank # 1: CFI conformant flash (32 x 16)"], 0, 1) is None
    assert (
        ubootmedia.ubi_volume(["ubi0: reserved_pebs   40", "usable_leb_size 126976", "name   root"], "root")
        == 40 * 126976
    )
    with pytest.raises(MediaMissingError, match=r"ospi\.env"):
        ubootmedia.mtd(MTD, "ospi.env", 0x40000)
    for wrong in (lambda: ubootmedia.mtd(MTD, "ospi.rootfs", 0x20000), lambda: ubootmedia.cfi(FLINFO, 0, 0x20000)):
        with pytest.raises(ConfigurationError, match="set erase_kib to 256"):
            wrong()


def test_memory_is_free_below_what_uboot_keeps() -> None:
    assert answers.ram(BDINFO) == (0x40000000, 0x4DDB2000)
    with pytest.raises(BoardlabError):
        answers.ram(["nothing"])


def test_a_medium_is_named_as_uboot_does() -> None:
    assert ubootmedia.parse("mmc 0") == UBootBlocks("mmc", 0)
    assert ubootmedia.parse("mtd ospi.rootfs", erase_bytes=4096) == Mtd("ospi.rootfs", 4096)
    assert ubootmedia.parse("sf 0:0") == SpiFlash("0:0")
    for wrong in ("mmc", "mmc x", "sf;reset", "mtd a;b", "cfi 5", "nvme 99"):
        with pytest.raises(ConfigurationError):
            ubootmedia.parse(wrong)
