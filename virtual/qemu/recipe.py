"""What the media of a qemu-virt hold, and from which packages it is built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from virtual.images import cache, debian, disk, flash, initramfs, module, tools
from virtual.images.tree import File, Folder, Link, Tree
from virtual.qemu import benchtools

SUITE = "bookworm"
ARCHITECTURE = "arm64"
KERNEL_META = "linux-image-arm64"
MODULE = "boardlab_lpm"  # gives the machine a deep and a shallow low-power state (virtual/qemu/data)
_HEADERS = "headers-{}.deb"  # the packages that it is built against, beside the kernel

STRAP_WORD = 0x4C00_0000  # in RAM, above all that U-Boot loads
FLASH_BYTES = 64 << 20  # the machine's second flash bank (QEMU hw/arm/virt.c)
ENV_BYTES = 256 << 10  # CONFIG_ENV_SIZE of Debian's qemu_arm64
_FLASH_BASE = 0x0400_0000  # the second bank
_KERNEL_OFFSET = 0x0008_0000
_ALIGN = 0x1_0000
_DISK_MIB = 48
_PROGRAMS_MIB = 16  # more, for the benchmark programs
_NO_PROGRAMS: Tree = {}
DISKS = {"sd": 1, "emmc": 2}  # medium -> identity of its disk
FLASH = "ospi"
FIRMWARE = "u-boot.bin"


def obtain(root: Path, report: cache.Report, *, with_tools: bool = False) -> Path:
    """The folder with u-boot.bin and one image per medium (sd.img, emmc.img, ospi.img), built when missing.

    Args:
        with_tools: SD and eMMC also hold the benchmark programs of `virtual.qemu.benchtools`.

    Raises:
        LabTransientError: the packages cannot be downloaded.
        LabStableError: a tool failed or the disk is full.
        ConfigurationError: a tool is not installed.
    """
    packages = sources(root, report)
    facts = json.loads((packages / cache.MANIFEST).read_text())
    programs = benchtools.obtain(root, SUITE, ARCHITECTURE, report) if with_tools else None
    more = json.loads((programs / cache.MANIFEST).read_text()) if programs else {"packages": {}, "files": {}}

    def fill(folder: Path) -> Mapping[str, object]:
        report("Building the board's media")
        build(folder, packages, benchtools.tree(programs) if programs else {})
        return {"packages": {**facts["packages"], **more["packages"]}, "mirror": facts["mirror"]}

    inputs = {"sources": facts["files"]} | ({"tools": more["files"]} if programs else {})
    recipe = cache.recipe_hash("virtual.images", "virtual.qemu", **inputs)
    return cache.obtain("qemu-virt-tools" if programs else "qemu-virt", recipe, fill, root=root, report=report)


def sources(root: Path, report: cache.Report) -> Path:
    """The folder with U-Boot, the kernel and busybox out of Debian's packages, downloaded when missing; raises as
    `obtain`.
    """
    return cache.obtain(
        f"debian-{SUITE}-{ARCHITECTURE}",
        cache.recipe_hash(suite=SUITE, architecture=ARCHITECTURE, kernel=KERNEL_META, headers=_HEADERS),
        lambda folder: _fetch(folder, report),
        root=root,
        report=report,
    )


def _fetch(folder: Path, report: cache.Report) -> Mapping[str, object]:
    """Download the packages; keep the three files that a board needs of them, and what modules are built against."""
    work = folder / "apt"
    apt = debian.AptRoot(work, SUITE, ARCHITECTURE)
    report(
        f"Downloading U-Boot, a kernel and busybox of Debian {SUITE} ({ARCHITECTURE}, about 90 MB) from {apt.mirror}"
    )
    apt.update()
    kernel = apt.resolve(KERNEL_META)
    headers = kernel.replace("linux-image-", "linux-headers-")
    common = headers.removesuffix(ARCHITECTURE) + "common"
    packages = apt.download("u-boot-qemu", kernel, "busybox-static", headers, common)
    packages |= _kbuild(work / "host", kernel)
    debian.extract(packages["u-boot-qemu"], {"usr/lib/u-boot/qemu_arm64/u-boot.bin": folder / FIRMWARE})
    debian.extract(packages[kernel], {"boot/vmlinuz-.*": folder / "Image"})
    debian.extract(packages["busybox-static"], {"(usr/)?bin/busybox": folder / "busybox"})
    for package in packages.values():
        if package.name.startswith(("linux-headers-", "linux-kbuild-")):
            package.deb.rename(folder / _HEADERS.format(package.name))
    apt.clean()
    return {"mirror": apt.mirror, "packages": {name: package.version for name, package in packages.items()}}


def _kbuild(work: Path, kernel: str) -> dict[str, debian.Package]:
    """The kernel's build programs, which run on this host."""
    apt = debian.AptRoot(work, SUITE, tools.run(["dpkg", "--print-architecture"]).decode().strip())
    apt.update()
    version = ".".join(kernel.removeprefix("linux-image-").split(".")[:2])
    return apt.download(f"linux-kbuild-{version}")


def build(folder: Path, sources: Path, programs: Tree = _NO_PROGRAMS) -> None:
    """Write U-Boot and one image per medium into `folder`, from the files of the packages in `sources`.

    Args:
        programs: more files of the root file systems of SD and eMMC; the flash has no room for them.
    """
    kernel = (sources / "Image").read_bytes()
    busybox = (sources / "busybox").read_bytes()
    lpm = module.build(MODULE, _data(f"{MODULE}.c"), sorted(sources.glob(_HEADERS.format("*"))))
    (folder / FIRMWARE).write_bytes((sources / FIRMWARE).read_bytes())
    for medium, identity in DISKS.items():
        tree: Tree = {
            "boot/Image": File(kernel),
            "boot/initrd.gz": File(initramfs.build({**root_file_system(busybox, lpm, medium), **programs})),
        }
        size = _DISK_MIB + (_PROGRAMS_MIB if programs else 0)
        disk.build(folder / f"{medium}.img", tree, size_mib=size, identity=identity)
    initrd = initramfs.build(root_file_system(busybox, lpm, FLASH))
    initrd_offset = _KERNEL_OFFSET + -(-len(kernel) // _ALIGN) * _ALIGN
    variables = environment(
        kernel_offset=_KERNEL_OFFSET, kernel_bytes=len(kernel), initrd_offset=initrd_offset, initrd_bytes=len(initrd)
    )
    parts = {0: flash.environment_image(variables, ENV_BYTES), _KERNEL_OFFSET: kernel, initrd_offset: initrd}
    flash.build(folder / f"{FLASH}.img", parts, size_bytes=FLASH_BYTES)


def environment(*, kernel_offset: int, kernel_bytes: int, initrd_offset: int, initrd_bytes: int) -> dict[str, str]:
    """U-Boot's variables, for a kernel and an initrd at these offsets of the flash."""
    values = {
        "straps": f"{STRAP_WORD:#x}",
        "kernel": f"{_FLASH_BASE + kernel_offset:#x}",
        "kernel_size": f"{kernel_bytes:#x}",
        "initrd": f"{_FLASH_BASE + initrd_offset:#x}",
        "initrd_size": f"{initrd_bytes:#x}",
    }
    return flash.environment(_data("u-boot.env").decode(), values)


def root_file_system(busybox: bytes, lpm: bytes, medium: str) -> Tree:
    """The root file system of a medium; /etc/medium says which."""
    return {
        **{name: Folder() for name in ("dev", "mnt", "proc", "run", "sys", "tmp")},
        "root": Folder(0o700),
        "init": Link("bin/busybox"),
        "bin/busybox": File(busybox, 0o755),
        "bin/sh": Link("busybox"),
        f"lib/modules/{MODULE}.ko": File(lpm),
        "etc/hostname": File(b"qemu-virt\n"),
        "etc/inittab": File(_data("inittab")),
        "etc/init.d/sysinit": File(_data("sysinit"), 0o755),
        "etc/issue": File(b""),
        "etc/medium": File(f"{medium}\n".encode()),
        "etc/passwd": File(b"root::0:0:root:/root:/bin/sh\n"),
        "etc/group": File(b"root:x:0:\n"),
        "etc/profile": File(b"export PS1='root@\\h:\\w# '\n"),
    }


def _data(name: str) -> bytes:
    return (resources.files("virtual.qemu") / "data" / name).read_bytes()
