"""Benchmark programs of Debian for the QEMU board, in an image of its own, so that the usual one boots quickly.

Debian's arm64 kernel has its block and network drivers as modules, which the board does not load; so these are the
programs that need neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from virtual.images import cache, debian
from virtual.images.tree import File, Tree

_LIB = "(usr/)?lib/aarch64-linux-gnu/"
# package -> file in it (regular expression) -> place on the board
_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "libc6": {
        _LIB + r"ld-linux-aarch64\.so\.1": "lib/ld-linux-aarch64.so.1",
        _LIB + r"libc\.so\.6": "lib/libc.so.6",
        _LIB + r"libm\.so\.6": "lib/libm.so.6",
        _LIB + r"libpthread\.so\.0": "lib/libpthread.so.0",
        _LIB + r"librt\.so\.1": "lib/librt.so.1",
    },
    "libssl3": {
        _LIB + r"libssl\.so\.3": "lib/libssl.so.3",
        _LIB + r"libcrypto\.so\.3": "lib/libcrypto.so.3",
    },
    "libnuma1": {_LIB + r"libnuma\.so\.1\.0\.0": "lib/libnuma.so.1"},
    "openssl": {r"usr/bin/openssl": "bin/openssl"},
    "rt-tests": {r"usr/s?bin/cyclictest": "bin/cyclictest"},
    "sysstat": {r"usr/bin/mpstat": "bin/mpstat"},
}
_PLACES: Final = {Path(place).name: place for members in _MEMBERS.values() for place in members.values()}


def obtain(root: Path, suite: str, architecture: str, report: cache.Report) -> Path:
    """The folder with the programs and their libraries, downloaded when missing.

    Raises:
        LabTransientError: the packages cannot be downloaded.
        LabStableError: a tool failed or the disk is full.
        ConfigurationError: a tool is not installed.
    """
    members = {name: dict(files) for name, files in _MEMBERS.items()}
    return cache.obtain(
        f"debian-tools-{suite}-{architecture}",
        cache.recipe_hash(suite=suite, architecture=architecture, members=members),
        lambda folder: _fetch(folder, suite, architecture, report),
        root=root,
        report=report,
    )


def tree(folder: Path) -> Tree:
    """Their places in a root file system."""
    return {place: File((folder / name).read_bytes(), 0o755) for name, place in _PLACES.items()}


def _fetch(folder: Path, suite: str, architecture: str, report: cache.Report) -> Mapping[str, object]:
    apt = debian.AptRoot(folder / "apt", suite, architecture)
    report(f"Downloading {', '.join(_MEMBERS)} of Debian {suite} ({architecture}, about 10 MB) from {apt.mirror}")
    apt.update()
    packages = apt.download(*_MEMBERS)
    for name, members in _MEMBERS.items():
        debian.extract(packages[name], {pattern: folder / Path(place).name for pattern, place in members.items()})
    apt.clean()
    return {"mirror": apt.mirror, "packages": {name: package.version for name, package in packages.items()}}
