"""The version of what is built from this tree, for hatchling: the number in lab/__init__.py, and in a clone the commits since it was set."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
NUMBER: Final = "lab/__init__.py"


def version(root: Path = ROOT) -> str:
    """`1.0.0` of a release or without git, `1.0.0+5.g1a2b3c4` of the fifth commit after it, `1.0.0+g1a2b3c4` of a shallow clone.

    An unpacked sdist has the version that it was built with.
    """
    built = root / "PKG-INFO"
    if built.exists():
        return _line(r"^Version: (\S+)$", built)
    number = _line(r'^__version__ = "(\S+)"', root / NUMBER)
    if not (root / ".git").exists():
        return number
    try:
        commit = f"g{_git(root, 'rev-parse', '--short', 'HEAD')}"
        if _git(root, "rev-parse", "--is-shallow-repository") == "true":
            return f"{number}+{commit}"
        released = _git(root, "log", "-1", "--format=%H", "-G^__version__ = ", "--", NUMBER)
        later = int(_git(root, "rev-list", "--count", f"{released}..HEAD")) if released else 0
    except (OSError, subprocess.CalledProcessError):
        return number
    return f"{number}+{later}.{commit}" if later else number


def _line(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"{path}: no line `{pattern}`")
    return match[1]


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
