"""Times of the pages of `lab web` over a large store, and its memory.

    uv run python bench/web.py [--postgresql] [--boards 1000] [--runs 100] [--metrics 10] [--samples 10] [--requests 100]

Fills a store with so many boards, runs a board, metrics a run and samples a metric (the defaults: 100,000 runs, 10 million samples; a
minute or two), the last of them today, in SQLite or in a PostgreSQL server of its own, starts `lab web` as a process, and asks for each
page so many times, one after the other. Before each request another attempt is recorded on another board, so that no page is
given as it was made before because nothing in the store has changed. The page of a release is asked for a second time: before
each of those requests a run of one of its boards ends. The first request of each page is told by itself: it fills what `lab web` keeps
of runs that have ended.

Before all that, from the start of `lab web` on, some pages are asked for in turn while the release that was measured last is judged, and how long
that takes is told. Aim: p99 150 ms for each page, at any time; 200 MB.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import requests
from common import parser, print_table
from support.farm_store import fill
from support.postgresql_cluster import cluster
from support.web_process import running_web

from lab.host.clock import utc_now
from lab.results import AttemptRecord, SampleRecord, Store, open_store

ENDED = "/releases/X, one run ended"
MEANWHILE = ("/", "/runs/R", "/releases/X", "/metrics/M")  # asked for while a release is judged
LEFT = "comparisons so far"  # on its page until then


def main() -> None:
    """Measure."""
    options = parser(__doc__)
    for name, default in (("--boards", 1000), ("--runs", 100), ("--metrics", 10), ("--samples", 10)):
        options.add_argument(name, type=int, default=default)
    options.add_argument("--requests", type=int, default=100, help="Of each page.")
    options.add_argument("--postgresql", action="store_true", help="In a PostgreSQL server, not in SQLite.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        at = stack.enter_context(cluster(fsync=True)).url if given.postgresql else Path(folder) / "results.db"
        began = time.monotonic()
        sizes = {"boards": given.boards, "metrics": given.metrics, "samples": given.samples, "releases": given.runs}
        url = fill(at, **sizes, last=utc_now())
        runs = given.boards * given.runs
        print(
            f"{runs} runs, {runs * given.metrics * given.samples} samples, filled in {time.monotonic() - began:.0f} s"
        )
        measure(url, Path(folder), runs, given.runs, given.requests)


def measure(url: str, folder: Path, last: int, releases: int, count: int) -> None:
    """Ask for the pages."""
    pages = {
        "/": "/",
        "/runs": f"/runs?before={last // 2}",
        "/runs/R": f"/runs/{last}",
        "/boards/B": "/boards/board-0001",
        "/releases/X": f"/releases/{releases:02}.00",
        ENDED: f"/releases/{releases:02}.00",
        "/metrics/M": "/metrics/boot.time",
        "/search": "/search?q=board-00",
        "/api/v1/runs": "/api/v1/runs?limit=100",
    }
    words = ("--db", url, "--runtime", folder / "runtime")
    with running_web(folder, os.environ, *words) as web, requests.Session() as session, open_store(url) as store:
        process = psutil.Process(web.pid)
        running = store.begin_run("boot", "am62xx_sk", "board-0000", "next", plan={}, provenance={}).id
        cycle = meanwhile(session, web.url, {name: pages[name] for name in MEANWHILE}, store, running)
        rows = []
        for name, page in pages.items():
            times, used_s = [], 0.0
            for _ in range(count + 1):
                cycle += 1
                record(store, running, cycle)
                if name == ENDED:
                    of = store.run(max(1, last - len(times)))
                    ended = store.begin_run("boot", of.board_type, of.board, "next", plan={}, provenance={}).id
                    record(store, ended, 1)
                    store.finish_run(ended, "completed")
                used_s = sum(process.cpu_times()[:2]) if len(times) == 1 else used_s
                times.append(asked_ms(session, web.url + page)[0])
            cpu_ms = 1e3 * (sum(process.cpu_times()[:2]) - used_s) / count
            rows.append([name, *(f"{t:.1f}" for t in (times[0], *np.percentile(times[1:], (50, 99)), cpu_ms))])
        print_table(("page", "first ms", "p50 ms", "p99 ms", "processor ms"), rows)
        print(f"memory: {process.memory_info().rss / 1e6:.0f} MB")


def asked_ms(session: requests.Session, url: str) -> tuple[float, str]:
    """Ask for a page; the time that it took, and its text."""
    began = time.monotonic()
    answer = session.get(url, timeout=600)
    taken_ms = 1e3 * (time.monotonic() - began)
    assert answer.status_code == 200, (url, answer.text[-500:])
    return taken_ms, answer.text


def meanwhile(session: requests.Session, address: str, pages: dict[str, str], store: Store, run: int) -> int:
    """Ask for some pages in turn until a release is judged; how many attempts were recorded."""
    times: dict[str, list[float]] = {name: [] for name in pages}
    began, count, left = time.monotonic(), 0, True
    while left:
        for name, page in pages.items():
            count += 1
            record(store, run, count)
            taken_ms, text = asked_ms(session, address + page)
            times[name].append(taken_ms)
            left = LEFT in text if name == "/releases/X" else left
    print(f"while the newest release is judged, {time.monotonic() - began:.1f} s:")
    rows = [
        [name, str(len(t)), *(f"{x:.1f}" for x in (t[0], *np.percentile(t, (50, 99))))] for name, t in times.items()
    ]
    print_table(("page", "n", "first ms", "p50 ms", "p99 ms"), rows)
    return count


def record(store: Store, run: int, cycle: int) -> None:
    """Record a boot."""
    sample, medium = SampleRecord("boot.time", {"medium": "sd"}, 2.0, 0.001), {"medium": "sd"}
    store.record_attempt(run, AttemptRecord(cycle, 1, medium, "ok", None, None, "", utc_now(), 6.0, (sample,)))


if __name__ == "__main__":
    main()
