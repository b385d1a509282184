"""Libraries of an unpacked program that the host lacks.

They come out of the packages that the program's package depends on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.virtual.images import debian

_DEPTH: Final = 3  # a library of a library
# The host's own, always: they belong to its loader, and an older one would not do for its other libraries.
_THE_HOSTS: Final = frozenset({"libc6", "libgcc-s1", "libstdc++6"})
_PATH: Final = "LD_LIBRARY_PATH"


def environment(program: Path) -> Mapping[str, str]:
    """Environment that finds the libraries beside a program; {}: there are none."""
    return {_PATH: str(program.parent)} if any(program.parent.glob("*.so.*")) else {}


def missing(program: Path) -> list[str]:
    """Libraries that the loader does not find, as "libaio.so.1", sorted."""
    done = subprocess.run(
        ["ldd", program],
        env={**os.environ, "LC_ALL": "C", **environment(program)},
        capture_output=True,
        text=True,
        check=False,
    )
    return sorted(set(re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE)))


def add(program: Path, package: debian.Package, suite: str, architecture: str) -> dict[str, str]:
    """Add a program's missing libraries; returns their packages and versions.

    Args:
        package: what the program is of. suite: Debian's; of backports the suite below it has the libraries.

    Raises:
        LabTransientError: a package cannot be downloaded.
        LabStableError: it cannot be unpacked.
        ConfigurationError: a tool is not installed.
    """
    folder = program.parent
    apt = debian.AptRoot(folder / "apt-libraries", suite.removesuffix("-backports"), architecture)
    apt.update()
    used: dict[str, str] = {}
    seen = set(_THE_HOSTS)
    depends = debian.depends(package)
    for _ in range(_DEPTH):
        wanted = missing(program)
        names = [name for name in depends if name.startswith("lib") and name not in seen]
        if not wanted or not names:
            break
        seen.update(names)
        depends = []
        for found in apt.download(*names).values():
            stage = folder / "stage"
            stage.mkdir()
            debian.unpack(found, stage)
            for name in wanted:
                for path in stage.rglob(name):
                    shutil.copyfile(path, folder / name)
                    used[found.name] = found.version
                    depends += debian.depends(found)
            shutil.rmtree(stage)
    apt.clean()
    return used
