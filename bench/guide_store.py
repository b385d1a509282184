"""A store of many guides: what importing them takes, and a trend over them.

    uv run python bench/guide_store.py [--guides N]

Builds a history of N guides (default: 250) of five devices with the tables of the family's guides, imports 174 of them and
then the others with `lab guide import FILE...`, and follows metrics with `lab guide trend`. Wall time says what a person waits
for, CPU time what the machine did: the other programs on it are not in that. Bounds: 30 s for 174 guides, 1 s for a trend.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attrs import frozen

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import guide_history

FIRST = 174
IMPORT_S = 30.0
TREND_S = 1.0
BOARD = "am62xx_sk-fs"


@frozen
class Taken:
    """Wall and CPU time of a command, in seconds."""

    wall_s: float
    cpu_s: float


def main() -> int:
    """Print the table; 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guides", type=int, default=250)
    count = parser.parse_args().guides
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAB_DB"] = str(Path(folder) / "results.db")
        files = guide_history.write(Path(folder) / "guides", count)
        first = _line(f"import {len(files[:FIRST])} guides", "import", *files[:FIRST])
        if files[FIRST:]:
            _line(f"import {len(files[FIRST:])} more", "import", *files[FIRST:])
        _line("import one of them again", "import", files[0])
        trends = [_line(f"trend {m}", "trend", m, "--board", BOARD) for m in ("boot.time", "lmbench.bw_mem")]
        _line("trend boot.time, drawn", "trend", "boot.time", "--board", BOARD, "--svg", Path(folder) / "boot.svg")
    return int(first.wall_s > IMPORT_S or max(one.wall_s for one in trends) > TREND_S)


def _line(what: str, *arguments: object) -> Taken:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [str(Path(sys.executable).with_name("lab")), "guide", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what:28} {wall_s:6.2f} s, {cpu_s:6.2f} s CPU", flush=True)
    return Taken(wall_s, cpu_s)


if __name__ == "__main__":
    sys.exit(main())
