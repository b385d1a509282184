"""The QEMU that a machine runs in, and its shared libraries.

The latter is unpacked into the image cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.virtual.images import cache, debian, tools

_WHOLE: Final = "-whole"  # in the cache: the program with libraries


@frozen
class QemuProgram:
    """Requirements of a machine for QEMU.

    Attributes:
        name: e.g. "qemu-system-arm".
        machine: as its option -machine calls it.
        versions: the first and the last major version that run it well.
        suite, package: Debian's, with such a version; empty: the host has one, whatever it is.
    """

    name: str
    machine: str
    versions: tuple[int, int] = (0, 0)
    suite: str = ""
    package: str = ""

    def obtain(self, root: Path, report: cache.Report) -> Path:
        """Path of the program, downloaded when needed (10 to 50 MB).

        The host's is used if it fits; the cache is `root`.

        Raises:
            LabTransientError: the package cannot be downloaded.
            ConfigurationError: it does not run on this host.
        """
        if not self.suite:
            tools.require([self.name])
            return Path(tools.find(self.name))
        own = shutil.which(self.name)
        if own is not None and self._fits(Path(own)):
            return Path(own)
        unpacked = self._unpacked(root, report)
        if absent := missing(unpacked):
            unpacked = self._unpacked(root, report, absent)
        if not self._fits(unpacked):
            raise ConfigurationError(
                f"{unpacked} of Debian {self.suite} does not run here: {_said(unpacked, '--version').strip()}. Install a "
                f"{self.name} of version {self.versions[0]} to {self.versions[1]}, or use a Debian 12 (container)"
            )
        return unpacked

    def _unpacked(self, root: Path, report: cache.Report, missing: Sequence[str] = ()) -> Path:
        """Program of the package, in the image cache.

        `missing`: with these libraries beside it.
        """
        architecture = tools.run(["dpkg", "--print-architecture"]).decode().strip()
        inputs = {"suite": self.suite, "architecture": architecture, "package": self.package, "name": self.name}

        def fetch(folder: Path) -> Mapping[str, object]:
            apt = debian.AptRoot(folder / "apt", self.suite, architecture)
            report(
                f"Downloading {self.package} of Debian {self.suite} from {apt.mirror}, for the machine {self.machine}"
            )
            apt.update()
            package = apt.download(self.package)[self.package]
            program = folder / self.name
            debian.extract(package, {f"usr/bin/{self.name}": program})
            program.chmod(0o755)
            more: dict[str, str] = {}
            if missing:
                report(f"Downloading what this host has not of its libraries: {', '.join(missing)}")
                more = add(program, package, self.suite, architecture)
            apt.clean()
            return {"mirror": apt.mirror, "packages": {package.name: package.version, **more}}

        if missing:
            recipe = cache.recipe_hash(**inputs, missing=list(missing))
            return cache.obtain(self.name + _WHOLE, recipe, fetch, root=root, report=report) / self.name
        recipe = cache.recipe_hash(**inputs)
        return cache.obtain(f"{self.name}-{self.suite}", recipe, fetch, root=root, report=report) / self.name

    def _fits(self, program: Path) -> bool:
        version = re.search(r"version (\d+)\.", _said(program, "--version"))
        first, last = self.versions
        return (
            version is not None
            and first <= int(version[1]) <= last
            and re.search(rf"^{re.escape(self.machine)} ", _said(program, "-machine", "help"), re.MULTILINE)
            is not None
        )


def _said(program: Path, *words: str) -> str:
    done = subprocess.run(
        [program, *words],
        env={**os.environ, **environment(program)},
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
    )
    return done.stdout or done.stderr


# --- Libraries of an unpacked program that the host lacks ---
# They come out of the packages that the program's package depends on.


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
        package: what the program is of.
        suite: Debian's; of backports the suite below it has the libraries.

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
