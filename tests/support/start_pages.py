"""The start pages of the documents, followed: each step's commands, typed as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

PAGES: Final = Path(__file__).resolve().parents[2] / "docs" / "start"
NAMES: Final = ("lab-engineer", "release-manager", "on-call")
LAB: Final = "mylab"  # the folder that each page makes
_PROGRAMS: Final = Path(sys.executable).parent
_DEADLINE_S: Final = 300


def steps(name: str) -> list[list[str]]:
    """The commands of each step of a page: the lines that are indented as code."""
    texts = re.split(r"^\d+\. ", (PAGES / f"{name}.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [re.findall(r"^ {8}(\S.*)$", step, flags=re.MULTILINE) for step in texts]


def follow(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Type a page's steps in an empty folder; boards and console server are gone afterwards, whatever was reached."""
    environ = {
        **os.environ,
        "PATH": f"{_PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "LAB_DB": str(folder / "results.db"),
        "BOARDLAB_RUNTIME": str(folder / "runtime"),
    }
    environ.pop("BOARDLAB_VIRTUAL", None)
    script = "set -eux\n" + "\n".join(line for step in steps(name) for line in step)
    try:
        return subprocess.run(
            ["bash", "-c", script],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environ,
            timeout=_DEADLINE_S,
        )
    finally:
        for words in (["virtual", "down"], ["console", "stop"]):
            command = [_PROGRAMS / "lab", *words]
            there = folder / LAB if (folder / LAB).is_dir() else folder
            subprocess.run(command, check=False, capture_output=True, cwd=there, env=environ, timeout=60)
