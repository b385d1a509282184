"""Time and memory of reading, comparing and importing performance guides.

    uv run python bench/guides.py FOLDER
    uv run python bench/guides.py --store 250

The first reads every guide of the folder, checks each one, and compares neighbouring releases of the same boards, in one process, best of five.
Times are of the processor, so that what runs beside it counts little; nothing is waited for. Bounds: 2 s and 200 MB for five guides.

The second builds a history of so many guides of five devices with the tables of the family's guides, imports 174 of them and then the others with
`lab guide import FILE...`, and follows metrics with `lab guide trend`. Bounds: 30 s for 174 guides, 1 s for a trend. Exit status 3 when one is broken.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

from common import LAB, MISSED, parser, print_table

ROUNDS = 5
FIRST = 174
IMPORT_S, TREND_S = 30.0, 1.0
READ_S, READ_MB = 2.0, 200.0
BOARD = "am62xx_sk-fs"


def main() -> int:
    """Print the table; 1 if a bound is broken."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path, nargs="?")
    options.add_argument("--store", type=int, metavar="GUIDES")
    given = options.parse_args()
    if (given.folder is None) == (given.store is None):
        options.error("give a folder of guides, or --store")
    return folder(given.folder) if given.folder else store(given.store)


def folder(path: Path) -> int:
    """Read, check and compare."""
    files = sorted(each for each in path.iterdir() if each.suffix in {".rst", ".txt"})
    start = time.process_time()
    from lab.guide import measurements  # noqa: PLC0415 - the imports are measured
    from lab.guide.check.findings import run_rules  # noqa: PLC0415
    from lab.guide.compare import comparison  # noqa: PLC0415
    from lab.guide.read import reader  # noqa: PLC0415

    imported = time.process_time() - start
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        sheets = [measurements.of_guide(reader.read(each)) for each in files]
        read = time.process_time()
        findings = sum(len(run_rules(one)) for one in sheets)
        checked = time.process_time()
        pairs = [(a, b) for a, b in combinations(sheets, 2) if set(a.guide.boards) & set(b.guide.boards)]
        rows = sum(len(comparison.compare(a, b).changes) for a, b in pairs)
        rounds.append((read - start, checked - read, time.process_time() - checked))
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cells = sum(len(one.readings) for one in sheets)
    print(f"{len(files)} guides, {cells} cells, {findings} findings, {rows} compared rows; {memory_mb:.0f} MB at most")
    both = (("first round", imported, rounds[0]), ("best of five", 0.0, min(rounds, key=sum)))
    print_table(
        ("", "import s", "read s", "check s", "compare s", "total s"),
        [[name, *(f"{part:.3f}" for part in (first, *parts, first + sum(parts)))] for name, first, parts in both],
    )
    return MISSED if imported + sum(rounds[0]) > READ_S or memory_mb > READ_MB else 0


def store(count: int) -> int:
    """Import, and follow."""
    from support import guide_history  # noqa: PLC0415 - not in the memory of the other measurement

    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as made:
        os.environ["LAB_DB"] = str(Path(made) / "results.db")
        files = guide_history.write(Path(made) / "guides", count)
        first_s = taken_s(rows, f"import {len(files[:FIRST])} guides", "import", *files[:FIRST])
        if files[FIRST:]:
            taken_s(rows, f"import {len(files[FIRST:])} more", "import", *files[FIRST:])
        trends_s = [taken_s(rows, f"trend {m}", "trend", m, "--board", BOARD) for m in ("boot.time", "lmbench.bw_mem")]
    print_table(("command", "wall s", "CPU s"), rows)
    return MISSED if first_s > IMPORT_S or max(trends_s) > TREND_S else 0


def taken_s(rows: list[list[str]], name: str, *words: object) -> float:
    """Run `lab guide`, add a row, and return its wall time in s."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([LAB, "guide", *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rows.append([name, f"{wall_s:.2f}", f"{cpu_s:.2f}"])
    return wall_s


if __name__ == "__main__":
    sys.exit(main())
