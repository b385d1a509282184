"""The files that come with boardlab and are no programs: environments, the suite, what a lab host installs, documents.

A checkout has them at its top; a wheel holds the same folders in `lab/lab_folder` (pyproject.toml puts them there).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

ENVS: Final = "envs"
SUFFIXES: Final = frozenset({".yaml", ".yml"})  # of environments
TESTS: Final = "tests_perf"
FARM: Final = "farm"
DOCS: Final = "docs"
BENCH_PDU: Final = "bench"  # the power switch of virtual boards: their environments name "bench/BOARD", with index 1
_PACKAGE: Final = Path(__file__).resolve().parent
_IN_WHEEL: Final = _PACKAGE / "lab_folder"


def is_bench(pdu: object) -> bool:
    """Whether a PDUDaemonPort's `pdu` names the power switch of virtual boards."""
    return str(pdu).partition("/")[0] == BENCH_PDU


def checkout() -> Path | None:
    """The checkout that this boardlab runs from; None: it was installed from a wheel."""
    return None if _IN_WHEEL.is_dir() else _PACKAGE.parent


def folder(name: str) -> Path:
    """ENVS, TESTS, FARM or DOCS as it came with boardlab."""
    return (checkout() or _IN_WHEEL) / name


def tests(lab: Path) -> Path:
    """The suite that is meant in a lab's folder: its own, else boardlab's."""
    own = lab / TESTS
    return own if own.is_dir() else folder(TESTS)


def environments(name: str, lab: Path) -> list[Path]:
    """Where an environment may be in a lab's folder: `name` as it stands, and where it is a bare name, in ENVS."""
    given = Path(name)
    found = [lab / given]
    if given.name == name:
        found += [lab / ENVS / name]
        found += [] if given.suffix in SUFFIXES else [lab / ENVS / f"{name}.yaml"]
    return found


def program(name: str) -> str:
    """How this user's shell calls a program of boardlab's environment: by its name, or by its path where that finds none or another."""
    ours = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    return name if found and Path(found) == ours else str(ours)
