"""Faults in which a boot ends well and its log warns.

The texts are the programs' own; the numbers in them are made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from attrs import define, field

from lab.virtual.sim.faults.base import Fault, FaultOutcome
from lab.virtual.sim.program import Program

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer

_ERRORS = FaultOutcome(flags=("kernel_errors",))
_ERROR, _CRITICAL = 3, 2  # syslog's levels


@define(kw_only=True, eq=False)
class _Logged(Fault):
    """Lines of the kernel's log, at points of the boot."""

    lines: ClassVar[Mapping[str, tuple[str, ...]]]
    level: ClassVar[int] = _ERROR

    def at(self, point: str, computer: Computer) -> Program[None]:
        yield from computer.printk(*self.lines.get(point, ()), level=self.level)


class MmcErrors(_Logged):
    """The SD card answers badly; transfers have to be recovered."""

    name: ClassVar[str] = "mmc_errors"
    outcome: ClassVar[FaultOutcome] = _ERRORS
    lines: ClassVar[Mapping[str, tuple[str, ...]]] = {
        # drivers/mmc/core/core.c (mmc_execute_tuning); drivers/mmc/core/sd.c (mmc_attach_sd)
        "kernel.middle": ("mmc1: tuning execution failed: -5", "mmc1: error -110 whilst initialising SD card"),
        "init": ("mmcblk1: recovery failed!",),  # drivers/mmc/core/block.c (mmc_blk_mq_rw_recovery)
    }


class UbiErrors(_Logged):
    """The flash with the root file system has unreadable blocks."""

    name: ClassVar[str] = "ubi_errors"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(flags=("kernel_errors",), medium="ospi")
    lines: ClassVar[Mapping[str, tuple[str, ...]]] = {
        # drivers/mtd/ubi/io.c (ubi_io_read) by ubi_err; fs/ubifs/io.c (ubifs_read_node) by ubifs_err (fs/ubifs/misc.c)
        "init": (
            "ubi0 error: ubi_io_read: error -74 (ECC error) while reading 4096 bytes from PEB 21:8192, read 4096 bytes",
            "UBIFS error (ubi0:0 pid 1): ubifs_read_node: bad node type (255 but expected 1)",
        ),
    }


class RootReadOnly(_Logged):
    """The root file system has an error and becomes read-only."""

    name: ClassVar[str] = "root_read_only"
    outcome: ClassVar[FaultOutcome] = _ERRORS
    level: ClassVar[int] = _CRITICAL
    lines: ClassVar[Mapping[str, tuple[str, ...]]] = {
        # fs/ext4/super.c (__ext4_error_inode, ext4_handle_error); fs/jbd2/journal.c (jbd2_journal_abort)
        "user.middle": (
            "EXT4-fs error (device mmcblk1p2): ext4_lookup:1857: inode #131076: comm systemd-udevd: iget: checksum invalid",
            "Aborting journal on device mmcblk1p2-8.",
            "EXT4-fs (mmcblk1p2): Remounting filesystem read-only",
        ),
    }


@define(kw_only=True, eq=False)
class FsckRepairs(Fault):
    """The file system check repairs a partition during the boot.

    The board was switched off while it wrote.
    """

    name: ClassVar[str] = "fsck_repairs"
    outcome: ClassVar[FaultOutcome] = _ERRORS

    def at(self, point: str, computer: Computer) -> Program[None]:
        """Print the messages as systemd-fsck@.service does.

        Sources: e2fsck/journal.c, e2fsck/super.c, e2fsck/unix.c.
        """
        if point == "user.middle":
            for text in (
                "recovering journal",
                "Clearing orphaned inode 262 (uid=0, gid=0, mode=0100644, size=4096)",
                "***** FILE SYSTEM WAS MODIFIED *****",
                "clean, 412/65536 files, 19648/262144 blocks",
            ):
                yield from computer.say(f"systemd-fsck[142]: /dev/mmcblk1p3: {text}\n")


@define(kw_only=True, eq=False)
class UnitFailed(Fault):
    """A service does not start; systemd says so and goes on."""

    name: ClassVar[str] = "unit_failed"
    outcome: ClassVar[FaultOutcome] = _ERRORS
    colour: bool = field(default=True)

    def at(self, point: str, computer: Computer) -> Program[None]:
        """Print systemd's message, with or without a terminal's colours.

        Source: systemd, src/core/job.c (job_emit_done_message).
        """
        if point == "user.middle":
            red, bold, plain = ("\x1b[0;1;31m", "\x1b[0;1;39m", "\x1b[0m") if self.colour else ("", "", "")
            unit = "Network Time Synchronization"
            yield from computer.say(f"[{red}FAILED{plain}] Failed to start {bold}{unit}{plain}.\n")
            yield from computer.say("See 'systemctl status systemd-timesyncd.service' for details.\n")
