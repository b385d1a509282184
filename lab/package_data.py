"""Files shipped with boardlab: environments, strategy, suite, farm configuration, documents.

A checkout has them at its top; a wheel holds the same folders in `lab/lab_folder` (pyproject.toml puts them there).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

ENVS: Final = "envs"
STRATEGIES: Final = "strategies"
STRATEGY_BESIDE: Final = f"../{STRATEGIES}/boardstrategy.py"  # as an environment in ENVS imports it
SUFFIXES: Final = frozenset({".yaml", ".yml"})  # of environments
TESTS: Final = "tests_perf"
FARM: Final = "farm"
DOCS: Final = "docs"
SITE: Final = "site"  # DOCS as pages; a checkout has them after `mkdocs build`
BENCH_PDU: Final = "bench"  # the power switch of virtual boards: their environments name "bench/BOARD", with index 1
_PACKAGE: Final = Path(__file__).resolve().parent
_IN_WHEEL: Final = _PACKAGE / "lab_folder"


def is_bench(pdu: object) -> bool:
    """True if a PDUDaemonPort's `pdu` switches virtual boards."""
    return str(pdu).partition("/")[0] == BENCH_PDU


def checkout() -> Path | None:
    """The checkout of this boardlab; None: installed from a wheel."""
    return None if _IN_WHEEL.is_dir() else _PACKAGE.parent


def folder(name: str) -> Path:
    """ENVS, STRATEGIES, TESTS, FARM, DOCS or SITE as it came with boardlab."""
    return (checkout() or _IN_WHEEL) / name


def strategy_file() -> Path:
    """The file of BoardStrategy as it came with boardlab."""
    return folder(STRATEGIES) / "boardstrategy.py"


def tests(lab: Path) -> Path:
    """The suite for a lab's folder: its own, else boardlab's."""
    own = lab / TESTS
    return own if own.is_dir() else folder(TESTS)


def environments(name: str, lab: Path) -> list[Path]:
    """Candidates for an environment: `name`, and a bare name in ENVS."""
    path = Path(name)
    candidates = [lab / path]
    if path.name == name:
        candidates += [lab / ENVS / name]
        candidates += [] if path.suffix in SUFFIXES else [lab / ENVS / f"{name}.yaml"]
    return candidates


def program(name: str) -> str:
    """The command of a boardlab program: its name, or its path."""
    ours = Path(sys.executable).with_name(name)
    on_path = shutil.which(name)
    return name if on_path and Path(on_path) == ours else str(ours)
