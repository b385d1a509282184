"""Reading, checking and comparing performance guides: time and memory.

    uv run python bench/guides.py [FOLDER]

Reads every guide of the folder (default: ../shared/guides), checks each one, compares neighbouring releases of the same
boards, in one process, best of five. Times are of the processor, so that what runs beside it counts little; nothing is waited for. The
bound of issue 5 is 2 s and 200 MB for five guides.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from itertools import combinations
from pathlib import Path

ROUNDS = 5


def main() -> int:
    """Print the table; 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[2] / "shared" / "guides"
    parser.add_argument("folder", type=Path, nargs="?", default=default)
    files = sorted(path for path in parser.parse_args().folder.iterdir() if path.suffix in {".rst", ".txt"})
    start = time.process_time()
    from lab.guide import compare, measurements, reader, rulebook  # noqa: PLC0415 - the imports are measured

    imported = time.process_time() - start
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        sheets = [measurements.of_guide(reader.read(path)) for path in files]
        read = time.process_time()
        findings = sum(len(rulebook.run(one)) for one in sheets)
        checked = time.process_time()
        pairs = [(a, b) for a, b in combinations(sheets, 2) if set(a.guide.boards) & set(b.guide.boards)]
        rows = sum(len(compare.compare(a, b).changes) for a, b in pairs)
        rounds.append((read - start, checked - read, time.process_time() - checked))
    first, best = rounds[0], min(rounds, key=sum)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cells = sum(len(one.readings) for one in sheets)
    print(f"{len(files)} guides, {cells} cells, {findings} findings, {rows} compared rows")
    print(f"{'':14}  {'import':>7}  {'read':>7}  {'check':>7}  {'compare':>7}  {'total':>7}")
    print(
        f"{'first round':14}  {_ms(imported)}  "
        + "  ".join(_ms(part) for part in first)
        + f"  {_ms(imported + sum(first))}"
    )
    print(f"{'best of five':14}  {'':>7}  " + "  ".join(_ms(part) for part in best) + f"  {_ms(sum(best))}")
    print(f"peak memory: {memory_mb:.0f} MB")
    return int(imported + sum(first) > 2.0 or memory_mb > 200)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:4.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
