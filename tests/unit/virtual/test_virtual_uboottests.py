"""U-Boot's own tests come from the sources of the very U-Boot that the board runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lab.errors import ConfigurationError, LabStableError
from lab.virtual.images import cache, debian, uboot
from lab.virtual.qemu import uboot as qemu_uboot
from lab.virtual.qemu.bpim2u import BananaPi
from lab.virtual.qemu.virt import Virt

VERSION = "2023.01+dfsg-2"


class Mirror(debian.AptRoot):
    """Debian's archive, with sources of one version."""

    version = VERSION
    asked = 0

    def __init__(self, folder: Path, *_rest: str) -> None:
        self.mirror = "http://mirror/debian/"
        self.folder = folder

    def update(self, *, sources: bool = False) -> None:
        assert sources
        Mirror.asked += 1
        self.folder.mkdir()

    def source(self, name: str) -> debian.Package:
        return debian.Package(name, self.version, self.folder / f"{name}.orig.tar.xz")

    def clean(self) -> None:
        shutil.rmtree(self.folder)


def unpack_patched(_source: Path, folder: Path) -> None:
    for name in ("test/py/conftest.py", "scripts/env2string.awk", "drivers/large.c"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).touch()


def configure(_root: Path, build: Path, defconfig: str) -> None:
    (build / "include").mkdir(parents=True)
    (build / ".config").write_text(defconfig)
    (build / "include" / "autoconf.mk").touch()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the board's images were made from."""
    monkeypatch.setattr(Mirror, "version", VERSION)
    monkeypatch.setattr(Mirror, "asked", 0)
    monkeypatch.setattr(debian, "AptRoot", Mirror)
    monkeypatch.setattr(uboot, "unpack_patched", unpack_patched)
    monkeypatch.setattr(uboot, "configure", configure)
    folder = tmp_path / "packages"
    folder.mkdir()
    rebuilt = f"{VERSION}+b1"  # from the same sources
    (folder / cache.MANIFEST).write_text(json.dumps({"packages": {"u-boot-qemu": VERSION, "u-boot-sunxi": rebuilt}}))
    return folder


def unpack(packages: Path, target: str, of: qemu_uboot.UBootBuild = Virt.uboot) -> Path:
    folder = packages.parent / target
    qemu_uboot.unpack(of, packages, folder, packages.parent / "cache", lambda _line: None)
    return folder


def test_they_are_fetched_once(packages: Path) -> None:
    for target in ("one", "two"):
        folder = unpack(packages, target)
        files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert files == {
            *("u-boot/test/py/conftest.py", "u-boot/scripts/env2string.awk"),
            *("build/.config", "build/include/autoconf.mk"),
        }
    assert Mirror.asked == 1


def test_each_board_has_its_own_configuration(packages: Path) -> None:
    found = [unpack(packages, of.name, of) / "build" / ".config" for of in (Virt.uboot, BananaPi.uboot)]
    assert [path.read_text() for path in found] == ["qemu_arm64_defconfig", "Bananapi_M2_Ultra_defconfig"]


def test_sources_of_another_version_are_refused(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mirror, "version", "2025.01-3")
    with pytest.raises(LabStableError, match=r"U-Boot 2025\.01-3.*2023") as caught:
        unpack(packages, "one")
    assert str(caught.value).endswith(f"rm -r {packages}")


def test_headers_that_a_build_needs_are_asked_for_by_their_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uboot, "_HEADER", tmp_path / "evp.h")
    with pytest.raises(ConfigurationError, match=r"install libssl-dev"):
        uboot.build(tmp_path / "u-boot.tar", "qemu_arm64_defconfig", ())
