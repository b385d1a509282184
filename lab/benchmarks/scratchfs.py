"""A file system on the scratch partition: make, mount, unmount."""

from __future__ import annotations

from lab.benchmarks import needs
from lab.benchmarks.section import Bench, Need

MOUNT = "/mnt/boardlab"
_MAKE = {"ext2": "mkfs.ext2 -F", "ext3": "mkfs.ext3 -F", "ext4": "mkfs.ext4 -F", "vfat": "mkfs.vfat"}
_PACKAGES = {"vfat": "dosfstools", "ubifs": "mtd-utils"}


def of_medium(medium: str, filesystem: str) -> tuple[Need, ...]:
    """The needs of a section that formats a scratch partition."""
    tools = ("flash_eraseall", "ubiattach") if filesystem == "ubifs" else (_MAKE[filesystem].split()[0],)
    return (
        needs.scratch(medium),
        needs.unmounted(medium),
        *(needs.tool(name, _PACKAGES.get(filesystem, "e2fsprogs")) for name in tools),
        needs.filesystem(filesystem),
    )


def make(bench: Bench, medium: str, filesystem: str) -> None:
    """Format and mount, without sync, which is many times slower."""
    device = bench.site.scratch[medium]
    bench.run(f"umount {device} 2>/dev/null; mkdir -p {MOUNT}")
    if filesystem == "ubifs":
        bench.run(f"flash_eraseall {device}", timeout_s=300)
        bench.run(f"ubiattach -p {device} && ubimkvol /dev/ubi0 -N boardlab -m", timeout_s=60)
        bench.run(f"mount -t ubifs -o async ubi0:boardlab {MOUNT}")
    else:
        bench.run(f"{_MAKE[filesystem]} {device} > /dev/null 2>&1", timeout_s=300)
        bench.run(f"mount -t {filesystem} -o async {device} {MOUNT}")


def cool(bench: Bench, medium: str, filesystem: str) -> None:
    """Drop its page cache."""
    device = "ubi0:boardlab" if filesystem == "ubifs" else bench.site.scratch[medium]
    bench.run(f"sync; umount {MOUNT} && echo 3 > /proc/sys/vm/drop_caches")
    bench.run(f"mount -t {filesystem} -o async {device} {MOUNT}")


def leave(bench: Bench) -> None:
    """Unmount it, if mounted."""
    bench.run(f"umount {MOUNT} 2>/dev/null; rmdir {MOUNT} 2>/dev/null", check=False)
    if bench.status(f"grep -q ' {MOUNT} ' /proc/mounts") == 0:
        bench.run(f"umount -l {MOUNT}")


def detach(bench: Bench) -> None:
    """Unmount and detach a file system on raw flash."""
    leave(bench)
    bench.run(f"ubidetach -p {bench.site.scratch['nand']}", check=False)
