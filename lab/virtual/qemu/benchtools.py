"""Benchmark programs of Debian for QEMU boards, in separate images.

So the usual images boot quickly.

They lie with all they depend on in one file system, which the board mounts as /usr. lmbench and netperf come from
Debian's non-free, which has them for arm64; lmbench without what it depends on, which is a compiler. There U-Boot is
built from Debian's sources, since the packaged one has no command `time`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.virtual.images import cache, debian, disk, tools, uboot

IMAGE: Final = "usr.img"
FAT: Final = "fat.img"
FIRMWARE: Final = "u-boot.bin"
_FAT_KIB: Final = 64 << 10
SCRATCH_MIB: Final = 1536  # for fio's file of 1 GiB; the file of the image has no more blocks than were written
_DEFCONFIG: Final = "qemu_arm64_defconfig"
_SETTINGS: Final = ("CONFIG_CMD_TIME=y",)
_PACKAGES: Final = (
    *("bash", "coreutils", "dosfstools", "e2fsprogs", "ethtool", "fio", "iperf3", "netperf", "openssl", "rt-tests"),
    *("stress-ng", "sysbench", "sysstat"),
)
_NON_FREE: Final = ("netperf",)
_ALONE: Final = ("lmbench",)
_WHOLE: Final = "arm64"  # the architecture with all of it
_COMPONENTS: Final = ("main", "non-free")
_MERGED: Final = ("bin", "lib", "sbin")  # in Debian 12 some packages have files there, and there is the same as in usr
_UNUSED: Final = ("share/doc", "share/info", "share/locale", "share/man", "share/perl", "share/perl5", "lib/python3")


def partitions(programs: Path) -> list[Path | int]:
    """Further partitions: the programs, a scratch area, a FAT file system."""
    return [programs / IMAGE, SCRATCH_MIB, programs / FAT]


def obtain(root: Path, suite: str, architecture: str, report: cache.Report) -> Path:
    """Folder with IMAGE, FAT and, for arm64, FIRMWARE.

    It is downloaded and built when missing.

    Raises:
        LabTransientError: the packages cannot be downloaded.
        LabStableError: a tool failed or the disk is full.
        ConfigurationError: a tool is not installed.
    """
    packages = [name for name in _PACKAGES if architecture == _WHOLE or name not in _NON_FREE]
    alone, settings = (_ALONE, _SETTINGS) if architecture == _WHOLE else ((), ())
    inputs = {"packages": packages, "alone": alone, "unused": _UNUSED, "sh": "bash", "u-boot": settings}
    return cache.obtain(
        f"debian-tools-{suite}-{architecture}",
        cache.recipe_hash(suite=suite, architecture=architecture, **inputs),
        lambda folder: _fetch(folder, suite, architecture, report, packages, alone),
        root=root,
        report=report,
    )


def _fetch(
    folder: Path, suite: str, architecture: str, report: cache.Report, wanted: Sequence[str], alone: Sequence[str]
) -> Mapping[str, object]:
    apt = debian.AptRoot(folder / "apt", suite, architecture, _COMPONENTS)
    names = ", ".join(sorted((*wanted, *alone)))
    report(f"Downloading {names} of Debian {suite} ({architecture}, about 80 MB) from {apt.mirror}")
    apt.update(sources=architecture == _WHOLE)
    packages = {**apt.download_whole(*wanted), **(apt.download(*alone) if alone else {})}
    stage = folder / "stage"
    usr = stage / "usr"
    usr.mkdir(parents=True)
    for name in _MERGED:
        (usr / name).mkdir()
        (stage / name).symlink_to(f"usr/{name}")
    for package in packages.values():
        debian.unpack(package, stage)
    (usr / "bin" / "sh").symlink_to("bash")  # BusyBox's shell would prefer its own commands to these
    for name in _UNUSED:
        shutil.rmtree(usr / name, ignore_errors=True)
    disk.file_system(folder / IMAGE, usr)
    shutil.rmtree(stage)
    tools.run(["mkfs.vfat", "-C", "-i", "b0a2d104", "-n", "SCRATCH", folder / FAT, str(_FAT_KIB)])
    if architecture == _WHOLE:
        report("Building U-Boot")
        packages["u-boot"] = apt.source("u-boot")
        (folder / FIRMWARE).write_bytes(uboot.build(packages["u-boot"].deb, _DEFCONFIG, _SETTINGS))
    apt.clean()
    return {"mirror": apt.mirror, "packages": {name: package.version for name, package in packages.items()}}
