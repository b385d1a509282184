"""U-Boot of Debian's source package, and flash with its environment.

It is built from the upstream archive alone, with more commands than the packaged one has; or unpacked as the packaged one
was built, with its configuration. A CFI flash image has its environment at the start.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
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
        source: the archive of the sources.
        defconfig: of the board, e.g. "qemu_arm64_defconfig".
        settings: lines of Kconfig that are added to it.
        edits: of the sources.

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


# --- CFI flash images with U-Boot's environment, and texts of environments ---


def environment(text: str, values: Mapping[str, str] | None = None) -> dict[str, str]:
    """Parse U-Boot variables from lines `name=value`.

    An indented line continues the one above it.

    Lines that begin with # are comments. `@name@` is replaced from `values`.

    Raises:
        ConfigurationError: a line is no assignment, a name comes twice, or a placeholder has no value.
    """
    variables: dict[str, str] = {}
    name = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _filled(raw, values or {}, number)
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            if not name:
                raise ConfigurationError(f"line {number}: expected name=value before the first indented line")
            variables[name] += " " + line.strip()
            continue
        name, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"\w+", name):
            raise ConfigurationError(f"line {number}: expected name=value, found {line!r}")
        if name in variables:
            raise ConfigurationError(f"line {number}: {name} is set twice")
        variables[name] = value.strip()
    return variables


def _filled(line: str, values: Mapping[str, str], number: int) -> str:
    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in values:
            raise ConfigurationError(f"line {number}: no value for @{name}@; there are: {', '.join(sorted(values))}")
        return values[name]

    return re.sub(r"@(\w+)@", value, line)


def environment_image(variables: Mapping[str, str], size_bytes: int) -> bytes:
    """The environment as U-Boot stores it, with its checksum.

    Raises:
        ConfigurationError: mkenvimage is not installed.
        LabStableError: the variables do not fit.
    """
    text = "".join(f"{name}={value}\n" for name, value in sorted(variables.items()))
    with tempfile.TemporaryDirectory(prefix="boardlab-env-") as folder:
        target = Path(folder) / "env.bin"
        tools.run(["mkenvimage", "-s", str(size_bytes), "-o", target, "-"], stdin=text.encode())
        return target.read_bytes()


def build_flash(path: Path, parts: Mapping[int, bytes], *, size_bytes: int) -> None:
    """Write a flash image: parts at offsets, zeros elsewhere (sparse).

    Raises:
        ConfigurationError: two parts overlap, or one does not fit.
    """
    end = 0
    for offset, content in sorted(parts.items()):
        if offset < end:
            raise ConfigurationError(f"the part at {offset:#x} overlaps the one before it, which ends at {end:#x}")
        end = offset + len(content)
    if end > size_bytes:
        raise ConfigurationError(f"the parts end at {end:#x}, the flash at {size_bytes:#x}")
    with path.open("wb") as image:
        image.truncate(size_bytes)
        for offset, content in sorted(parts.items()):
            image.seek(offset)
            image.write(content)
