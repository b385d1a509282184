"""U-Boot from the upstream archive of its distribution's source package, with more commands than the packaged one has.

The distribution's own patches are not in it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabStableError
from virtual.images import tools

_COMPILER = "aarch64-linux-gnu-"
_UNPACKED = "--strip-components=1"


def build(source: Path, defconfig: str, settings: Sequence[str]) -> bytes:
    """u-boot.bin of a 64-bit Arm board.

    Args:
        source: the archive of the sources. defconfig: of the board, e.g. "qemu_arm64_defconfig".
        settings: lines of Kconfig that are added to it.

    Raises:
        ConfigurationError: the cross compiler, make, bison or flex is not installed.
        LabStableError: it cannot be built, or the sources do not know a setting.
    """
    for program in (f"{_COMPILER}gcc", "bison", "flex"):
        tools.find(program)
    with tempfile.TemporaryDirectory(prefix="boardlab-u-boot-") as folder:
        root = Path(folder)
        tools.run(["tar", "--extract", f"--file={source}", f"--directory={root}", _UNPACKED])
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
