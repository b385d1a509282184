"""Rows, bytes, objects and CPU of a large lab's month.

    uv run python bench/store_sizes.py [--jobs 100000] [--boots 20] [--runs 12]

Runs of 60 recorded boots (three media) are recorded in a store of SQLite, read by an exporter that
has just started, packed, backed up, and pruned. A job's share is that of its boots.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import parser, print_table
from sqlalchemy import func, select, update
from support.recorded_run import record

from exporters.results import ResultsReader
from lab.host.clock import utc_now
from lab.results import Store, open_store, retention
from lab.results.backup import back_up
from lab.results.models import ArtifactRow, AttemptArtifactRow, AttemptRow, MomentRow, RunRow, SampleRow
from lab.results.records import Retention
from lab.results.snapshot import watch

BOOTS = 60  # of a recorded run
DAY_S = 86_400
MONTH_DAYS = 30


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of a call, its threads included."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def rows(store: Store) -> int:
    """Rows of attempts and all that belongs to them."""
    return store.read(
        lambda session: sum(
            session.scalar(select(func.count()).select_from(model)) or 0
            for model in (AttemptRow, SampleRow, MomentRow, AttemptArtifactRow, ArtifactRow)
        )
    )


def database_bytes(folder: Path) -> int:
    """Bytes of the database without free pages."""
    copy = folder / "compact.db"
    copy.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(folder / "results.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    return copy.stat().st_size


def main() -> None:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--jobs", type=int, default=100_000, help="in a month, each a run of one medium")
    options.add_argument("--boots", type=int, default=20, help="of a job")
    options.add_argument("--runs", type=int, default=12, help="that are measured here")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name, open_store(f"{name}/results.db") as store:
        folder = Path(name)
        record(store, seed=0, virtual=False)
        empty_bytes, empty_rows = database_bytes(folder), rows(store)
        recording_s = cpu_s(lambda: [record(store, seed=seed + 1, virtual=False) for seed in range(given.runs)])
        database, all_rows = database_bytes(folder) - empty_bytes, rows(store) - empty_rows
        files = [path for path in store.artifacts.root.rglob("*") if path.is_file()]
        objects, object_bytes = len(files), sum(path.stat().st_size for path in files)
        reading_s = cpu_s(ResultsReader(watch(f"{name}/results.db")).read)
        with store._engine.begin() as connection:
            connection.execute(update(RunRow).values(finished_at=utc_now().replace(year=2000)))
        packing_s = cpu_s(lambda: retention.prune(store, Retention(packed=1), pause=lambda _s: None))
        packs = [path for path in store.artifacts.root.rglob("*") if path.is_file()]
        pack_bytes = sum(path.stat().st_size for path in packs)
        (folder / "backups").mkdir()
        backup_s = cpu_s(lambda: back_up(store, folder / "backups", ()))
        for path in packs:
            os.utime(path, (0, 0))
        pruning_s = cpu_s(lambda: retention.prune(store, Retention(runs=365), pause=lambda _s: None))
    boots, month = BOOTS * given.runs, given.jobs * given.boots
    share = 1 / boots
    table = [
        ("rows", f"{all_rows * share:.1f}", f"{all_rows * share * month / 1e6:.1f} million"),
        ("database", f"{database * share / 1e3:.2f} kB", f"{database * share * month / 1e9:.1f} GB"),
        ("objects", f"{objects / (boots + BOOTS):.2f}", f"{objects / (boots + BOOTS) * month / 1e6:.2f} million"),
        (
            "recordings",
            f"{object_bytes / (boots + BOOTS) / 1e3:.1f} kB",
            f"{object_bytes / (boots + BOOTS) * month / 1e9:.0f} GB",
        ),
        (
            f"packed: {len(packs) / (given.runs + 1):.0f} of a run",
            f"{pack_bytes / (boots + BOOTS) / 1e3:.1f} kB",
            f"{given.jobs / 1e6:.1f} million, {pack_bytes / (boots + BOOTS) * month / 1e9:.1f} GB",
        ),
        *(
            (title, f"{1e3 * took * share:.2f} ms", f"{took * share * month / MONTH_DAYS / DAY_S:.2%} of a core")
            for title, took in (
                ("CPU of recording, with the sums", recording_s),
                ("CPU of a first read by the exporter", reading_s),
                ("CPU of packing", packing_s),
                ("CPU of the first backup, packed", backup_s),
                ("CPU of a prune", pruning_s),
            )
        ),
    ]
    print_table(("", "A boot", f"A month of {given.jobs:,} jobs of {given.boots} boots"), table)


if __name__ == "__main__":
    main()
