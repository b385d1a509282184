"""Recipe of a qemu-virt's media, and their packages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.virtual.images import cache, debian, disk, filetree, tools, uboot
from lab.virtual.images.filetree import RegularFile, Tree
from lab.virtual.qemu import benchtools, rootfs
from lab.virtual.qemu import uboot as qemu_uboot
from lab.virtual.qemu.rootfs import quiet

SUITE = "bookworm"
ARCHITECTURE = "arm64"
KERNEL_META = "linux-image-arm64"
MODULE = "boardlab_lpm"  # gives the machine a deep and a shallow low-power state (lab/virtual/qemu/data)
_HEADERS = "headers-{}.deb"  # the packages that it is built against, beside the kernel

STRAP_WORD = 0x4C00_0000  # in RAM, above all that U-Boot loads
FLASH_BYTES = 64 << 20  # the machine's second flash bank (QEMU hw/arm/virt.c)
ENV_BYTES = 256 << 10  # CONFIG_ENV_SIZE of Debian's qemu_arm64
_FLASH_BASE = 0x0400_0000  # the second bank
_KERNEL_OFFSET = 0x0008_0000
_ALIGN = 0x4_0000  # a sector of the flash
_DISK_MIB = 48
TOOLS = "-tools"  # in the names of images with benchmark programs
NETWORK = "-network"  # in the names of images for boards that releases can be put on
_WITH_TOOLS, _WITH_NETWORK = f"qemu-virt{TOOLS}", f"qemu-virt{NETWORK}"
OTHER_KERNEL_META = "linux-image-cloud-arm64"  # for a second release; of the same version
ORIGIN = "origin"  # beside a board's media: the name of the images that they are copies of
FLASH_MODULE = "boardlab_flash"  # lets Linux read the flash (lab/virtual/qemu/data)
# Modules of a board with benchmark programs, in this order: drivers of its disks and its network, file systems, and MTD.
_MODULES = (
    *("crc32c_generic", "crct10dif_common", "crct10dif_generic", "virtio_mmio", "virtio_blk", "crc-t10dif", "crc64"),
    *("crc64-rocksoft", "t10-pi", "nvme-core", "nvme", "jbd2", "mbcache", "crc16", "ext4", "fat", "vfat", "nls_cp437"),
    *("nls_ascii", "e1000e", "mtd"),
)
# Modules of a Linux that writes media, in this order: drivers of its disks, MTD and UBI; and of its network.
_MEDIA_MODULES = (
    *("crct10dif_common", "crct10dif_generic", "virtio_mmio", "virtio_blk", "crc-t10dif", "crc64", "crc64-rocksoft"),
    *("t10-pi", "nvme-core", "nvme", "mtd", "ubi"),
)
_NETWORK_MODULES = ("failover", "net_failover", "virtio_net")
DISKS = {"sd": 1, "emmc": 2}  # medium -> identity of its disk
_PARTITION = {"sd": "/dev/vda", "emmc": "/dev/nvme0n1p"}  # as Linux names them, but for the number
FLASH = "ospi"
FIRMWARE = "u-boot.bin"
_MADE_BY = (
    __name__,
    "lab.virtual.qemu.benchtools",
    "lab.virtual.qemu.rootfs",
    "lab.virtual.qemu.data",
    "lab.virtual.ramlinux",
)


def obtain(
    root: Path,
    report: cache.Report,
    *,
    with_tools: bool = False,
    with_network: bool = False,
    kernel_meta: str = KERNEL_META,
) -> Path:
    """Folder with u-boot.bin and an image per medium, built when missing.

    The images are sd.img, emmc.img and ospi.img.

    Args:
        with_tools: SD and eMMC have a second partition with the benchmark programs of `lab.virtual.qemu.benchtools`, a
            third one for benchmarks that overwrite it and a fourth one with FAT; the board loads the drivers that these
            need, and its U-Boot has the command `time`.
        with_network: its U-Boot loads over TFTP and writes the flash (`lab.virtual.qemu.uboot`).
        kernel_meta: Debian's package of its kernel.

    Raises:
        LabTransientError: the packages cannot be downloaded.
        LabStableError: a tool failed or the disk is full.
        ConfigurationError: a tool is not installed.
    """
    packages = sources(root, report, kernel_meta)
    loading = qemu_uboot.obtain(root, SUITE, ARCHITECTURE, report) if with_network else None
    facts = json.loads((packages / cache.MANIFEST).read_text())
    programs = benchtools.obtain(root, SUITE, ARCHITECTURE, report) if with_tools else None
    more = json.loads((programs / cache.MANIFEST).read_text()) if programs else {"packages": {}, "files": {}}

    def fill(folder: Path) -> Mapping[str, object]:
        report("Building the board's media")
        parts = build(folder, packages, programs, with_network=with_network)
        if loading is not None:
            (folder / FIRMWARE).write_bytes((loading / FIRMWARE).read_bytes())
        return {"packages": {**facts["packages"], **more["packages"]}, "mirror": facts["mirror"], "flash": parts}

    inputs = {"sources": facts["files"]} | ({"tools": more["files"]} if programs else {})
    inputs |= {"loading": json.loads((loading / cache.MANIFEST).read_text())["files"]} if loading else {}
    recipe = cache.recipe_hash("lab.virtual.images", *_MADE_BY, **inputs)
    name = _WITH_TOOLS if programs else _WITH_NETWORK if loading else "qemu-virt"
    return cache.obtain(name, recipe, fill, root=root, report=report)


def has_tools(media: Path) -> bool:
    """Return whether a board's media hold the benchmark programs."""
    origin = media / ORIGIN
    return origin.exists() and f"{TOOLS}-" in origin.read_text()


def has_network(media: Path) -> bool:
    """Return whether a board with these media has a network for loads."""
    origin = media / ORIGIN
    return origin.exists() and f"{NETWORK}-" in origin.read_text()


def sources(root: Path, report: cache.Report, kernel_meta: str = KERNEL_META) -> Path:
    """Folder with U-Boot, kernel and busybox out of Debian's packages.

    They are downloaded when missing; raises as `obtain`.
    """
    modules = sorted({*_MODULES, *_MEDIA_MODULES, *_NETWORK_MODULES}) if kernel_meta == KERNEL_META else ()
    return cache.obtain(
        f"debian-{SUITE}-{ARCHITECTURE}",
        cache.recipe_hash(
            suite=SUITE, architecture=ARCHITECTURE, kernel=kernel_meta, headers=_HEADERS, modules=modules
        ),
        lambda folder: _fetch(folder, report, kernel_meta, modules),
        root=root,
        report=report,
    )


def _fetch(folder: Path, report: cache.Report, kernel_meta: str, modules: Sequence[str]) -> Mapping[str, object]:
    """Download the packages, and keep the files that are needed.

    These are files for boards and for the build of modules.
    """
    work = folder / "apt"
    apt = debian.AptRoot(work, SUITE, ARCHITECTURE)
    report(
        f"Downloading U-Boot, a kernel and busybox of Debian {SUITE} ({ARCHITECTURE}, about 90 MB) from {apt.mirror}"
    )
    apt.update()
    kernel = apt.resolve(kernel_meta)
    headers = kernel.replace("linux-image-", "linux-headers-")
    common = headers.removesuffix(ARCHITECTURE).removesuffix("cloud-") + "common"
    packages = apt.download("u-boot-qemu", kernel, "busybox-static", headers, common)
    packages |= _kbuild(work / "host", kernel)
    debian.extract(packages["u-boot-qemu"], {"usr/lib/u-boot/qemu_arm64/u-boot.bin": folder / FIRMWARE})
    drivers = {rf"lib/modules/.*/{name}\.ko": folder / f"{name}.ko" for name in modules}
    debian.extract(packages[kernel], {"boot/vmlinuz-.*": folder / "Image", **drivers})
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


def build(
    folder: Path, sources: Path, programs: Path | None = None, *, with_network: bool = False
) -> dict[str, list[int]]:
    """Write U-Boot and one image per medium into `folder`.

    `sources` has the files of the packages.

    Returns:
        what is where on the flash, by name: offset and bytes.

    Args:
        programs: the folder of `lab.virtual.qemu.benchtools`.
        with_network: see `obtain`.
    """
    kernel = (sources / "Image").read_bytes()
    busybox = quiet((sources / "busybox").read_bytes())
    lpm = _module(MODULE, sources)
    (folder / FIRMWARE).write_bytes(((programs or sources) / FIRMWARE).read_bytes())
    media, network = (media_modules(sources), network_modules(sources)) if with_network else ({}, {})
    loads = rootfs.drivers(media, network)
    for medium, identity in DISKS.items():
        more = with_programs(sources, medium) if programs else loads
        tree: Tree = {
            "boot/Image": RegularFile(kernel),
            "boot/initrd.gz": RegularFile(filetree.build({**root_file_system(busybox, lpm, medium), **more})),
        }
        behind = benchtools.partitions(programs) if programs else []
        disk.build(folder / f"{medium}.img", tree, size_mib=_DISK_MIB, identity=identity, more=behind)
    initrd = filetree.build({**root_file_system(busybox, lpm, FLASH), **loads})
    initrd_offset = _KERNEL_OFFSET + -(-len(kernel) // _ALIGN) * _ALIGN
    variables = environment(
        kernel_offset=_KERNEL_OFFSET, kernel_bytes=len(kernel), initrd_offset=initrd_offset, initrd_bytes=len(initrd)
    )
    parts = {0: uboot.environment_image(variables, ENV_BYTES), _KERNEL_OFFSET: kernel, initrd_offset: initrd}
    uboot.build_flash(folder / f"{FLASH}.img", parts, size_bytes=FLASH_BYTES)
    return {
        "kernel": [_KERNEL_OFFSET, len(kernel)],
        "initrd": [initrd_offset, len(initrd)],
        "u-boot.env": [0, ENV_BYTES],  # last: with it the board finds the others
    }


def environment(*, kernel_offset: int, kernel_bytes: int, initrd_offset: int, initrd_bytes: int) -> dict[str, str]:
    """U-Boot's variables for kernel and initrd at these flash offsets."""
    values = {
        "straps": f"{STRAP_WORD:#x}",
        "kernel": f"{_FLASH_BASE + kernel_offset:#x}",
        "kernel_size": f"{kernel_bytes:#x}",
        "initrd": f"{_FLASH_BASE + initrd_offset:#x}",
        "initrd_size": f"{initrd_bytes:#x}",
    }
    return uboot.environment(rootfs.data("u-boot.env").decode(), values)


def root_file_system(busybox: bytes, lpm: bytes, medium: str) -> Tree:
    """The root file system of a medium; /etc/medium says which."""
    tree = rootfs.tree(busybox, hostname="qemu-virt", console="ttyAMA0", medium=medium)
    return {**tree, f"lib/modules/{MODULE}.ko": RegularFile(lpm)}


def with_programs(sources: Path, medium: str) -> Tree:
    """Addition to a root file system with /usr on partition 2."""
    modules = {f"{name}.ko": (sources / f"{name}.ko").read_bytes() for name in _MODULES}
    modules[f"{FLASH_MODULE}.ko"] = _module(FLASH_MODULE, sources)
    return rootfs.with_usr(modules, f"{_PARTITION[medium]}2", "aarch64-linux-gnu", "ld-linux-aarch64.so.1")


def media_modules(sources: Path) -> dict[str, bytes]:
    """Linux drivers of a board's media, in load order.

    The other kernel has none.
    """
    found = _modules(sources, _MEDIA_MODULES)
    return {**found, f"{FLASH_MODULE}.ko": _module(FLASH_MODULE, sources)} if found else {}


def network_modules(sources: Path) -> dict[str, bytes]:
    """Those of its network, likewise."""
    return _modules(sources, _NETWORK_MODULES)


def _modules(sources: Path, names: Sequence[str]) -> dict[str, bytes]:
    paths = [sources / f"{name}.ko" for name in names]
    return {path.name: path.read_bytes() for path in paths} if all(path.exists() for path in paths) else {}


def _module(name: str, sources: Path) -> bytes:
    return debian.build(name, rootfs.data(f"{name}.c"), sorted(sources.glob(_HEADERS.format("*"))))
