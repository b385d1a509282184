"""Root file system of a Linux in memory: busybox and mtd-utils.

It can write every medium of its board.

It opens a shell on the kernel's console without a login; U-Boot's prompt is as open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError
from lab.virtual.images import cache, debian, filetree
from lab.virtual.images.filetree import Directory, RegularFile, Symlink, Tree
from lab.virtual.qemu.rootfs import quiet

SUITE: Final = "bookworm"
ARCHITECTURES: Final = ("arm64", "armhf")
FILE: Final = "ram-linux-{}.cpio.gz"
NAME: Final = "ram-linux"  # of the host; lab.provision.ramlinux knows its prompt by it
MODULES: Final = "lib/modules/ram"
_PACKAGES: Final = ("busybox-static", "libc6", "mtd-utils")
_TOOLS: Final = (
    *("flash_erase", "flashcp", "mtdinfo", "nandwrite"),
    *("ubiattach", "ubidetach", "ubiformat", "ubimkvol", "ubinfo", "ubiupdatevol"),
)
_MADE_BY: Final = (
    "lab.virtual.images.filetree",
    "lab.virtual.qemu.rootfs",
    "lab.virtual.ramlinux",
)


def obtain(root: Path, architecture: str, report: cache.Report) -> Path:
    """Folder with FILE of an architecture, built when missing.

    The board's kernel has its drivers built in.

    Raises:
        LabTransientError: the packages cannot be downloaded.
        LabStableError: a tool failed or the disk is full.
        ConfigurationError: a tool is not installed, or there is no such architecture.
    """
    packages = programs(root, architecture, report)
    facts = json.loads((packages / cache.MANIFEST).read_text())

    def fill(folder: Path) -> Mapping[str, object]:
        (folder / FILE.format(architecture)).write_bytes(filetree.build(tree(packages)))
        return {"packages": facts["packages"], "mirror": facts["mirror"]}

    recipe = cache.recipe_hash(*_MADE_BY, sources=facts["files"])
    return cache.obtain(f"ram-linux-{architecture}", recipe, fill, root=root, report=report)


def programs(root: Path, architecture: str, report: cache.Report) -> Path:
    """Folder with the programs out of Debian's packages; raises as `obtain`.

    They are downloaded when missing.
    """
    if architecture not in ARCHITECTURES:
        raise ConfigurationError(f"architecture {architecture!r:.30}: expected {' or '.join(ARCHITECTURES)}")

    def fetch(folder: Path) -> Mapping[str, object]:
        apt = debian.AptRoot(folder / "apt", SUITE, architecture)
        report(f"Downloading {', '.join(_PACKAGES)} of Debian {SUITE} ({architecture}, about 4 MB) from {apt.mirror}")
        apt.update()
        packages = apt.download(*_PACKAGES)
        debian.extract(packages["busybox-static"], {"(usr/)?bin/busybox": folder / "busybox"})
        debian.extract(packages["mtd-utils"], {rf"usr/sbin/{name}": folder / name for name in _TOOLS})
        libraries = {r"lib/[^/]+/libc\.so\.6": "libc.so.6", r"lib/[^/]+/ld-linux[^/]*": _loader(architecture)}
        debian.extract(packages["libc6"], {path: folder / name for path, name in libraries.items()})
        apt.clean()
        return {"mirror": apt.mirror, "packages": {name: package.version for name, package in packages.items()}}

    recipe = cache.recipe_hash(suite=SUITE, packages=_PACKAGES, tools=_TOOLS)
    return cache.obtain(f"debian-ram-linux-{architecture}", recipe, fetch, root=root, report=report)


def tree(packages: Path, modules: Mapping[str, bytes] | None = None) -> Tree:
    """The root file system.

    Args:
        packages: the folder of `programs`.
        modules: drivers that the kernel does not have built in, in the order in which they are loaded.
    """
    libraries = [path for path in packages.iterdir() if path.name.startswith(("libc.", "ld-linux"))]
    return {
        **{name: Directory() for name in ("dev", "mnt", "proc", "run", "sys", "tmp")},
        "root": Directory(0o700),
        "init": Symlink("bin/busybox"),
        "bin/busybox": RegularFile(quiet((packages / "busybox").read_bytes()), 0o755),
        "bin/sh": Symlink("busybox"),
        **{f"usr/sbin/{name}": RegularFile((packages / name).read_bytes(), 0o755) for name in _TOOLS},
        **{f"lib/{path.name}": RegularFile(path.read_bytes(), 0o755) for path in libraries},
        "etc/hostname": RegularFile(f"{NAME}\n".encode()),
        "etc/inittab": RegularFile(data("inittab")),
        "etc/init.d/sysinit": RegularFile(data("sysinit"), 0o755),
        "etc/passwd": RegularFile(b"root::0:0:root:/root:/bin/sh\n"),
        "etc/group": RegularFile(b"root:x:0:\n"),
        "etc/profile": RegularFile(b"export PATH=/usr/sbin:/sbin:/usr/bin:/bin\nexport PS1='root@\\h:\\w# '\n"),
        "etc/init.d/network": RegularFile(data("network"), 0o755),
        "etc/udhcpc": RegularFile(data("udhcpc"), 0o755),
        **{
            f"{MODULES}/{number:02}-{name}": RegularFile(content)
            for number, (name, content) in enumerate((modules or {}).items())
        },
    }


def data(name: str) -> bytes:
    """A file of lab/virtual/ramlinux/data."""
    return (resources.files("lab.virtual.ramlinux") / "data" / name).read_bytes()


def _loader(architecture: str) -> str:
    """The dynamic linker as programs of an architecture name it (its ABI)."""
    return {"arm64": "ld-linux-aarch64.so.1", "armhf": "ld-linux-armhf.so.3"}[architecture]
