"""Renew what the README shows of `./run demo`, its numbers and the picture of its report. One command, after the demo:

    python tools/readme_demo.py

It takes the latest run of the store that is one of the whole demo: of a virtual board, 20 good cycles from each of three media.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import page_looks

from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_TIME

README: Final = Path(__file__).parents[1] / "README.md"
PICTURE: Final = Path(__file__).parents[1] / "docs" / "images" / "report.png"
BEGIN: Final = "<!-- python tools/readme_demo.py writes this -->\n"
END: Final = "<!-- to here -->\n"
CYCLES, MEDIA = 20, 3
COLUMNS: Final = 100  # of the terminal that the README shows
WIDTH, HEIGHT = 900, 1900  # of the report's window, in px
_LAB: Final = Path(sys.executable).with_name("lab")


def latest() -> dict[str, Any]:
    """The demo's latest run, as `lab results list --json` has it.

    Raises:
        SystemExit: the store has none.
    """
    runs = json.loads(_lab("results", "list", "--json", "--limit", "1000"))
    for run in runs:
        plan = run["plan"]
        whole = plan.get("cycles") == CYCLES and len(plan.get("media", ())) == MEDIA
        if run["kind"] == "boot" and run["provenance"].get("virtual") and whole and run["good"] == CYCLES * MEDIA:
            return run
    sys.exit(
        "the store has no run of the whole demo: ./run demo, on a machine that does nothing else, then this again"
    )


def block(run: dict[str, Any]) -> str:
    """The README's block: the run's boot time as `lab results show` prints it, and when it was measured."""
    shown = _lab("results", "show", str(run["id"])).partition(f"\n{BOOT_POWER_ON.name}\n")[0]
    head, time, table = shown.partition(f"\n{BOOT_TIME.name}\n")
    shown = "\n".join(line for line in head.splitlines() if len(line) <= COLUMNS) + time + table
    begun, told = datetime.fromisoformat(run["started_at"]), run["provenance"]
    measured = f"Measured on {begun:%-d %B %Y}, on a host with {told['host_cpus']} processors, by boardlab {told['boardlab']}."
    return f"```\n$ lab results show {run['id']}\n{shown}\n```\n\n{measured}\n"


def renewed(text: str, new: str) -> str:
    """The README with another block."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(
            f"README.md lacks one of the lines that the demo's numbers stand between: {BEGIN.strip()} {END.strip()}"
        )
    return f"{before}{begin}{new}{end}{after}"


def renew(picture: Path = PICTURE) -> None:
    """Write the block and the picture, both of the same run."""
    run = latest()
    README.write_text(renewed(README.read_text(encoding="utf-8"), block(run)), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        _lab("report", str(run["id"]), "--output", f"{folder}/report.html")
        page_looks.look([page_looks.Look(Path(folder), "/report.html", WIDTH, HEIGHT, picture=str(picture))])


def _lab(*words: str) -> str:
    environ = {**os.environ, "COLUMNS": str(COLUMNS)}
    return subprocess.run([_LAB, *words], check=True, stdout=subprocess.PIPE, text=True, env=environ).stdout


if __name__ == "__main__":
    renew()
