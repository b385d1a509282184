"""Each start page's steps, typed as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "start"
PROGRAMS = Path(sys.executable).parent
DEADLINE_S = 300


def commands(page: Path) -> list[list[str]]:
    """The commands of each step: the lines that are indented as code."""
    steps = re.split(r"^\d+\. ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [re.findall(r"^ {8}(\S.*)$", step, flags=re.MULTILINE) for step in steps]


@pytest.mark.parametrize("name", ["lab-engineer", "release-manager", "on-call"])
def test_a_page_has_a_picture_and_five_steps_that_work_as_they_stand(name: str, tmp_path: Path) -> None:
    page = PAGES / f"{name}.md"
    picture = re.search(r"^!\[.+\]\((\S+)\)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert picture is not None
    assert (PAGES / picture[1]).is_file()
    steps = commands(page)
    assert len(steps) == 5
    assert all(steps)
    environ = {
        **os.environ,
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LAB_DB": str(tmp_path / "results.db"),
        "BOARDLAB_RUNTIME": str(tmp_path / "runtime"),
    }
    environ.pop("BOARDLAB_VIRTUAL", None)
    script = "set -eux\n" + "\n".join(line for step in steps for line in step)
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environ,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        if name == "on-call":
            assert "hang_kernel" in done.stdout
    finally:
        for words in (["virtual", "down"], ["console", "stop"]):  # whatever was reached
            command = [PROGRAMS / "lab", *words]
            subprocess.run(command, check=False, capture_output=True, cwd=tmp_path / "mylab", env=environ, timeout=60)
