"""Which of a build's first stages and firmware files are those for devices of a state, by their names.

A build has one for each state of the devices, and for each revision of the silicon. meta-ti's `sysfw.itb` of the AM65x is that for
SR2.0, and `sysfw-am65x-gp-evm.itb` beside it that for SR1.0; so the plain name is the machine's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.errors import ConfigurationError

FIRST_STAGE: Final = "tiboot3.bin"
FIRMWARE: Final = "sysfw.itb"
_STATES: Final[Mapping[str, str]] = {  # of U-Boot's and Yocto's names; HS alone is HS-SE
    "gp": r"(?<![a-z])gp(?![a-z])",
    "hs-fs": r"hs-?fs",
    "hs-se": r"hs(-?se)?(?!-?fs)(?![a-z])",
}


def first_stage(folder: Path, security: str) -> Path | None:
    """The tiboot3*.bin for devices of that state; the one without a state in its name only where no other has one. None: none is there.

    Raises:
        ConfigurationError: several are.
    """
    there = _there(folder, "tiboot3*.bin")
    stated = [path for path in there if states(path)]
    fits = [path for path in stated if security == "none" or security in states(path)]
    return _only(folder, FIRST_STAGE, fits if stated else there)


def firmware(folder: Path, security: str) -> Path | None:
    """The sysfw*.itb for devices of that state; for secure ones the one without a state in its name only where no other fits. None: none fits.

    Raises:
        ConfigurationError: several do.
    """
    there = _there(folder, "sysfw*.itb")
    stated = [path for path in there if security in states(path)]
    plain = [path for path in there if not states(path)]
    return _only(folder, FIRMWARE, stated if stated and security != "gp" else [*stated, *plain])


def _there(folder: Path, pattern: str) -> list[Path]:
    """The files, links followed, each once."""
    return sorted({path.resolve() for path in folder.glob(pattern) if path.is_file()})


def states(path: Path) -> list[str]:
    """The states of devices that a first stage is for, by its name; empty: it does not say."""
    return [state for state, pattern in _STATES.items() if re.search(pattern, path.name)]


def _only(folder: Path, name: str, fits: list[Path]) -> Path | None:
    """The one that fits: of several that of the plain name, or which it is a link to."""
    plain = (folder / name).resolve() if (folder / name).is_file() else None
    if plain in fits:
        return plain
    if len(fits) > 1:
        raise ConfigurationError(
            f"{folder}: several files may be {name} ({', '.join(path.name for path in fits)}), e.g. for other machines or revisions of the silicon. "
            f"Make {name} a link to the one that is meant, or take the others away"
        )
    return fits[0] if fits else None
