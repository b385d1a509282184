"""Programs of the distribution that build images."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lab.errors import ConfigurationError, LabStableError
from lab.virtual.images import EPOCH

# program -> Debian's and Ubuntu's package of it; those of the second are only for images with benchmark programs
PACKAGES = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "apt-cache": "apt",
    "apt-get": "apt",
    "cp": "coreutils",
    "cpio": "cpio",
    "dd": "coreutils",
    "du": "coreutils",
    "debugfs": "e2fsprogs",
    "dpkg": "dpkg",
    "dpkg-deb": "dpkg",
    "make": "make",
    "mke2fs": "e2fsprogs",
    "mkenvimage": "u-boot-tools",
    "mkimage": "u-boot-tools",
    "qemu-system-aarch64": "qemu-system-arm",
    "sfdisk": "fdisk",
    "tar": "tar",
}
PACKAGES_OF_BENCHMARKS = {
    "bison": "bison",
    "flex": "flex",
    "mkfs.vfat": "dosfstools",
    "unshare": "util-linux",
}
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))  # mke2fs, outside a user's PATH


def find(program: str) -> str:
    """Path of `program`.

    Raises:
        ConfigurationError: it is not installed; the message names its package.
    """
    found = shutil.which(program, path=_PATH)
    if found is None:
        package = (PACKAGES | PACKAGES_OF_BENCHMARKS).get(program, program)
        raise ConfigurationError(f"the program {program} is not installed; install it: apt-get install {package}")
    return found


def require(programs: Iterable[str]) -> None:
    """Look for programs before anything is downloaded or built.

    Raises:
        ConfigurationError: some are not installed; the message names all their packages.
    """
    missing = [program for program in programs if shutil.which(program, path=_PATH) is None]
    if missing:
        packages = sorted({(PACKAGES | PACKAGES_OF_BENCHMARKS).get(program, program) for program in missing})
        raise ConfigurationError(
            f"the programs {', '.join(missing)} are not installed; install them: apt-get install {' '.join(packages)}"
        )


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> bytes:
    """Run a program in the C locale and return what it printed.

    Raises:
        ConfigurationError: the program is not installed.
        LabStableError: it failed; the message holds the end of its error output.
    """
    program = str(command[0])
    done = subprocess.run(
        [find(program), *map(str, command[1:])],
        check=False,
        capture_output=True,
        cwd=cwd,
        input=stdin,
        env={**os.environ, "PATH": _PATH, "LC_ALL": "C", "SOURCE_DATE_EPOCH": str(EPOCH), **(env or {})},
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        reason = "; ".join(lines[-3:]) or f"exit status {done.returncode}"
        raise LabStableError(f"{program} failed: {reason}", failure="image_build")
    return done.stdout
