"""U-Boot from its distribution's source package.

It is built from the upstream archive alone, with more commands than the packaged one has; or unpacked as the packaged
one was built, with its configuration.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from lab.errors import ConfigurationError, LabStableError
from lab.virtual.images import tools

_COMPILER = "aarch64-linux-gnu-"
_UNPACKED = "--strip-components=1"
_CONFIGURE = ("make", "bison", "flex")
PROGRAMS = (f"{_COMPILER}gcc", *_CONFIGURE)
_HEADER = Path("/usr/include/openssl/evp.h")  # its programs for this host can sign images
_SERIES = Path("debian/patches/series")


@frozen
class Edit:
    """A change of a unique text in a source file."""

    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Make it.

        Raises:
            LabStableError: the text is not there once.
        """
        path = root / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise LabStableError(
                f"{self.file} of U-Boot has {self.old.strip()!r} {text.count(self.old)} times", failure="image_build"
            )
        path.write_text(text.replace(self.old, self.new))


def require() -> None:
    """Look for what a build needs, before anything is downloaded.

    Raises:
        ConfigurationError: a program, or OpenSSL's headers, are not installed.
    """
    tools.require(PROGRAMS)
    if not _HEADER.exists():
        raise ConfigurationError(f"{_HEADER} is missing, which U-Boot is built with; apt-get install libssl-dev")


def build(source: Path, defconfig: str, settings: Sequence[str], edits: Sequence[Edit] = ()) -> bytes:
    """u-boot.bin of a 64-bit Arm board, without the distribution's own patches.

    Args:
        source: the archive of the sources. defconfig: of the board, e.g. "qemu_arm64_defconfig".
        settings: lines of Kconfig that are added to it. edits: of the sources.

    Raises:
        ConfigurationError: the cross compiler, make, bison, flex or OpenSSL's headers are not installed.
        LabStableError: it cannot be built, or the sources do not know a setting.
    """
    require()
    with tempfile.TemporaryDirectory(prefix="boardlab-u-boot-") as folder:
        root = Path(folder)
        tools.run(["tar", "--extract", f"--file={source}", f"--directory={root}", _UNPACKED])
        for edit in edits:
            edit.apply(root)
        make: list[str | Path] = ["make", "-s", "-C", root, f"CROSS_COMPILE={_COMPILER}", f"-j{os.cpu_count() or 1}"]
        tools.run([*make, defconfig])
        config = root / ".config"
        config.write_text(config.read_text() + "".join(f"{line}\n" for line in settings))
        tools.run([*make, "olddefconfig"])
        missing = sorted(set(settings) - set(config.read_text().splitlines()))
        if missing:
            raise LabStableError(f"{source.name} does not know {', '.join(missing)}", failure="image_build")
        tools.run([*make, "u-boot.bin"])
        return (root / "u-boot.bin").read_bytes()


def unpack_patched(source: Path, folder: Path) -> None:
    """Unpack the sources with the distribution's patches.

    Their archive lies beside the sources'; the folder is empty.

    Raises:
        ConfigurationError: git is not installed, which applies them.
        LabStableError: there is no such archive, or a patch does not fit.
    """
    tools.run(["tar", "--extract", f"--file={source}", f"--directory={folder}", _UNPACKED])
    found = sorted(source.parent.glob(f"{source.name.partition('_')[0]}_*.debian.tar.*"))
    if len(found) != 1:
        raise LabStableError(
            f"expected one archive of patches beside {source}, got {len(found)}", failure="image_build"
        )
    tools.run(["tar", "--extract", f"--file={found[0]}", f"--directory={folder}"])
    lines = (line.partition("#")[0].split() for line in (folder / _SERIES).read_text().splitlines())
    patches = [folder / _SERIES.parent / words[0] for words in lines if words]
    # The folder may lie in somebody's repository, which is none of git's business here.
    alone = {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)}
    tools.run(["git", "apply", "--whitespace=nowarn", *patches], cwd=folder, env=alone)


def configure(root: Path, build: Path, defconfig: str) -> None:
    """Write a board's configuration into the folder `build`.

    It has .config and include/autoconf.mk, for any architecture.

    The second has what is set elsewhere than in Kconfig. Only the board's compiler can tell, and nothing that asks for
    it is left in U-Boot: it is empty.

    Raises:
        ConfigurationError: make, bison or flex is not installed.
        LabStableError: it cannot be made.
    """
    tools.require(_CONFIGURE)
    tools.run(["make", "-s", "-C", root, f"O={build}", defconfig])
    (build / "include").mkdir(exist_ok=True)
    (build / "include" / "autoconf.mk").write_text("")
