"""Which rows the sections measure on each type of board: `python tools/measured_rows.py` writes them to a fixture.

To measure all sections of six boards takes minutes, to compare what they measured with five guides seconds. So the rows
are kept in `tests/fixtures/guides/measured_rows.csv`: metric, parameters, board types. tests/integration/test_full_guide.py
holds the file equal to what is measured; tests/unit/sections/test_section_rows.py compares it with the guides.
"""

from __future__ import annotations

import csv
import io
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from board_rows import KEPT, MetricKey, kept, key

from lab.benchmarks.sections import ALL, of_chapter, order

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.section_bench import SectionBench, section_bench


def measured(bench: SectionBench) -> set[MetricKey]:
    """The rows of what a bench has measured."""
    attempts = bench.store.attempts(bench.run.run.id)
    return {key(sample.metric, sample.params) for attempt in attempts for sample in attempt.samples}


def text(rows: Mapping[str, Iterable[MetricKey]]) -> str:
    """Board type -> rows, as the file has them."""
    boards: dict[MetricKey, list[str]] = defaultdict(list)
    for board, of_board in sorted(rows.items()):
        for row in of_board:
            boards[row].append(board)
    written = io.StringIO()
    out = csv.writer(written, lineterminator="\n")
    for (metric, params), there in sorted(boards.items()):
        out.writerow([metric, ";".join(f"{name}={value}" for name, value in params), " ".join(there)])
    return written.getvalue()


def measure(folder: Path, board: str) -> set[MetricKey]:
    """Run every section that fits a board, those of Ethernet on each of its ports."""
    with section_bench(folder, board) as bench:
        for section in sorted((s for s in ALL if s.fits(bench.strategy.type)), key=order):
            bench.run.measure(section)
        found, links = measured(bench), [link.name for link in bench.strategy.type.links]
    return found | (second_port(folder, board) if "eth1" in links else set())


def second_port(folder: Path, board: str) -> set[MetricKey]:
    """The rows of a board's eth1, which the env names as `interface`."""
    (folder / "eth1").mkdir()
    with section_bench(folder / "eth1", board, interface="eth1") as bench:
        for section in of_chapter("Ethernet", bench.strategy.type):
            bench.run.measure(section)
        return measured(bench)


def main() -> None:
    rows = {}
    for board in sorted(kept()):
        with tempfile.TemporaryDirectory() as folder:
            rows[board] = measure(Path(folder), board)
    KEPT.write_text(text(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
