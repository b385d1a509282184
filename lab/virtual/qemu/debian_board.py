"""Boards with unchanged packages of a Debian suite, and their media."""

from __future__ import annotations

import json
import lzma
import os
import tempfile
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import LabTransientError
from lab.virtual.images import cache, debian, filetree, tools
from lab.virtual.qemu import benchtools, rootfs
from lab.virtual.qemu.rootfs import quiet

KERNEL: Final = "kernel"
DEVICE_TREE: Final = "board.dtb"
DISKS: Final = ("sd", "emmc")  # media whose images begin with a partition table
# For file systems of a disk with benchmark programs, in this order.
FILE_SYSTEMS: Final = (
    *("jbd2", "mbcache", "crc16", "crc32c_generic", "ext4", "fat", "vfat", "nls_cp437", "nls_ascii"),
)
_DISK_BYTES: Final = 4 << 30  # with those; a power of two: an SD card has no other size in QEMU
_BUSYBOX: Final = "busybox"
_XZ: Final = b"\xfd7zXZ\0"


@frozen
class Software:
    """Software of a board.

    Attributes:
        board_type: its name in lab/boards; the host name, too.
        suite, architecture: Debian's.
        uboot: the package of its boot loaders.
        loaders: what is taken of it, regular expression of the path -> name here.
        kernel: the meta package of its kernel.
        image, device_tree: regular expressions of paths in that.
        console: the kernel's name of the login's UART.
        modules: drivers of the media and what they need, in the order in which they are loaded.
        network: those of its Ethernet, likewise.
        triplet, loader: of its programs' libraries, as in `lab.virtual.qemu.rootfs.with_usr`.
        known: the three packages in versions that work, for a day on which a mirror's index is not the one that was
            signed.
    """

    board_type: str
    suite: str
    architecture: str
    uboot: str
    loaders: Mapping[str, str]
    kernel: str
    image: str
    device_tree: str
    console: str
    modules: tuple[str, ...]
    network: tuple[str, ...]
    triplet: str
    loader: str
    known: tuple[debian.PinnedPackage, ...] = ()

    def obtain(self, root: Path, report: cache.Report) -> Path:
        """Folder with loaders, kernel, device tree, busybox and modules.

        They come out of the packages, which are downloaded when missing.

        Raises:
            LabTransientError: the packages cannot be downloaded.
            ConfigurationError: a tool is not installed.
        """
        named = ("suite", "architecture", "uboot", "kernel", "modules", "network")
        inputs = {name: getattr(self, name) for name in named} | {"file_systems": FILE_SYSTEMS}
        paths = {"loaders": dict(self.loaders), "image": self.image, "device_tree": self.device_tree}
        return cache.obtain(
            f"debian-{self.board_type}",
            cache.recipe_hash(**inputs, **paths),
            lambda folder: self._fetch(folder, report),
            root=root,
            report=report,
        )

    def programs(self, root: Path, report: cache.Report) -> Path:
        """The folder with benchmark programs for the board (`lab.virtual.qemu.benchtools`); raises as `obtain`."""
        return benchtools.obtain(root, self.suite, self.architecture, report)

    def media(
        self,
        name: str,
        root: Path,
        report: cache.Report,
        build: Callable[[Path, Path, Path | None], None],
        script: str,
        programs: Path | None = None,
    ) -> Path:
        """Folder with the board's media, built when missing.

        Raises as `obtain`.

        Args:
            name: of the set of images.
            build: writes them into its first folder, from the packages' files in its second, and perhaps programs in
                its third.
            script: what else they are made from, U-Boot's part of it as text.
            programs: the folder of `programs`.
        """
        packages = self.obtain(root, report)
        facts = json.loads((packages / cache.MANIFEST).read_text())

        def fill(folder: Path) -> Mapping[str, object]:
            report(f"Building the media of {name}")
            build(folder, packages, programs)
            return {"packages": facts["packages"], "mirror": facts["mirror"]}

        more = json.loads((programs / cache.MANIFEST).read_text())["files"] if programs else {}
        made_by = (
            "lab.virtual.images",
            __name__,
            "lab.virtual.qemu.rootfs",
            "lab.virtual.qemu.data",
        )
        recipe = cache.recipe_hash(*made_by, build.__module__, sources=facts["files"], script=script, more=more)
        return cache.obtain(name, recipe, fill, root=root, report=report)

    def root_file_system(
        self, packages: Path, medium: str, *, with_network: bool = False, build_id: str = "", usr: str = ""
    ) -> bytes:
        """Initial root file system of a medium, from `obtain`'s files.

        Args:
            with_network: it can bring its network up (/etc/init.d/network).
            build_id: of its os-release(5); empty: it has none.
            usr: the partition with the programs, as Linux names it; empty: it has none.
        """
        modules, network, tools_modules = (
            {f"{name}.ko": (packages / f"{name}.ko").read_bytes() for name in names}
            for names in (
                self.modules,
                self.network if with_network else (),
                (*self.modules, *self.network, *FILE_SYSTEMS) if usr else (),
            )
        )
        tree = rootfs.tree(
            quiet((packages / _BUSYBOX).read_bytes()),
            hostname=self.board_type,
            console=self.console,
            medium=medium,
            modules=modules,
            network=network,
            build_id=build_id,
        )
        return filetree.build(
            {**tree, **(rootfs.with_usr(tools_modules, usr, self.triplet, self.loader) if usr else {})}
        )

    def _fetch(self, folder: Path, report: cache.Report) -> Mapping[str, object]:
        apt = debian.AptRoot(folder / "apt", self.suite, self.architecture)
        report(
            f"Downloading U-Boot, a kernel and busybox of Debian {self.suite} ({self.architecture}, about 60 MB) from {apt.mirror}"
        )
        packages = self._packages(apt, report)
        (kernel,) = (name for name in packages if name.startswith("linux-image-"))
        debian.extract(packages[self.uboot], {path: folder / name for path, name in self.loaders.items()})
        modules = {name: folder / f"{name}.ko" for name in (*self.modules, *self.network, *FILE_SYSTEMS)}
        drivers = {rf"(usr/)?lib/modules/.*/{name}\.ko(\.xz)?": path for name, path in modules.items()}
        debian.extract(
            packages[kernel], {self.image: folder / KERNEL, self.device_tree: folder / DEVICE_TREE, **drivers}
        )
        for path in modules.values():
            if (packed := path.read_bytes()).startswith(_XZ):
                path.write_bytes(lzma.decompress(packed))
        debian.extract(packages["busybox-static"], {"(usr/)?bin/busybox": folder / _BUSYBOX})
        apt.clean()
        return {"mirror": apt.mirror, "packages": {name: package.version for name, package in packages.items()}}

    def _packages(self, apt: debian.AptRoot, report: cache.Report) -> dict[str, debian.Package]:
        """U-Boot, the kernel and busybox; by name."""
        try:
            apt.update()
            return apt.download(self.uboot, apt.resolve(self.kernel), "busybox-static")
        except LabTransientError as error:
            if not self.known:
                raise
            report(f"{error}. Taking known versions instead: {', '.join(Path(each.path).stem for each in self.known)}")
            return apt.download_known(self.known)


def grow(image: Path) -> None:
    """Enlarge a disk image with programs to an SD card's size."""
    os.truncate(image, _DISK_BYTES)


def text(name: str) -> str:
    """A file of lab/virtual/qemu/texts."""
    return (resources.files("lab.virtual.qemu") / "texts" / name).read_text(encoding="utf-8")


def boot_script(script: str, architecture: str) -> bytes:
    """A script as U-Boot's command `source` takes it.

    Raises:
        ConfigurationError: mkimage is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="boardlab-script-") as folder:
        source, target = Path(folder) / "boot.cmd", Path(folder) / "boot.scr"
        source.write_text(script)
        options = ["-A", architecture, "-T", "script", "-C", "none", "-n", "boot", "-d"]
        tools.run(["mkimage", *options, source, target])
        return target.read_bytes()
