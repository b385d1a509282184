"""The start pages of the documents, followed: each step's commands, typed as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

PAGES: Final = Path(__file__).resolve().parents[2] / "docs" / "start"
NAMES: Final = ("lab-engineer", "release-manager", "on-call")
LAB: Final = "mylab"  # the folder that each page makes
_PROGRAMS: Final = {"lab": [str(Path(sys.executable).with_name("lab"))], "pytest": [sys.executable, "-m", "pytest"]}
_DEADLINE_S: Final = 300


def steps(name: str) -> list[list[str]]:
    """The commands of each step of a page: the lines that are indented as code."""
    texts = re.split(r"^\d+\. ", (PAGES / f"{name}.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [re.findall(r"^ {8}(\S.*)$", step, flags=re.MULTILINE) for step in texts]


def follow(name: str, folder: Path) -> str:
    """Type a page's steps in an empty folder; what they print. Boards and console server are gone afterwards.

    Raises:
        AssertionError: a command failed.
    """
    said: list[str] = []
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "LAB_DB": str(folder / "results.db"),
        "BOARDLAB_RUNTIME": str(folder / "runtime"),
    }
    environ.pop("BOARDLAB_VIRTUAL", None)
    there = folder
    try:
        for program, *words in (shlex.split(line) for step in steps(name) for line in step):
            if program == "cd":
                there = there / words[0]
                continue
            command = [*_PROGRAMS[program], *words]
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, cwd=there, env=environ, timeout=_DEADLINE_S
            )
            said.append(done.stdout)
            assert done.returncode == 0, f"{program} {words}: {done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        return "".join(said)
    finally:
        for words in (["virtual", "down"], ["console", "stop"]):
            subprocess.run(
                [*_PROGRAMS["lab"], *words], check=False, capture_output=True, cwd=there, env=environ, timeout=60
            )
