"""Kernel modules for a stock Debian kernel, built reproducibly.

They are built against its packaged headers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabStableError
from lab.virtual.images import tools

_COMPILER = "aarch64-linux-gnu-"
_CC = f"{_COMPILER}gcc"
_SOURCES = "usr/src"


def build(name: str, source: bytes, headers: Sequence[Path]) -> bytes:
    """The module `name`.ko for arm64.

    Args:
        source: its only C file.
        headers: the packages linux-headers-*-arm64, linux-headers-*-common and linux-kbuild-* of one kernel, the last
            of them for this host.

    Raises:
        ConfigurationError: the cross compiler or make is not installed.
        LabStableError: it cannot be built.
    """
    tools.find(_CC)
    with tempfile.TemporaryDirectory(prefix="boardlab-module-") as folder:
        root, work = Path(folder) / "root", Path(folder) / "module"
        for package in headers:
            tools.run(["dpkg-deb", "-x", package, root])
        kernel, common = (_only(root / _SOURCES, f"linux-headers-*-{kind}") for kind in ("arm64", "common"))
        (kernel / "Makefile").write_text(f"include {common}/Makefile\n")  # the packaged one has an absolute path
        work.mkdir()
        (work / f"{name}.c").write_bytes(source)
        (work / "Kbuild").write_text(f"obj-m := {name}.o\n")
        compiler = [f"CROSS_COMPILE={_COMPILER}", f"CC={_CC}", "ARCH=arm64"]
        # Without debug information nothing in the module tells of the folder that it was built in.
        tools.run(["make", "-s", "-C", kernel, f"M={work}", *compiler, "KCFLAGS=-g0", "modules"])
        return (work / f"{name}.ko").read_bytes()


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise LabStableError(
            f"expected one {pattern} in the kernel's packages, got {len(found)}", failure="image_build"
        )
    return found[0]
