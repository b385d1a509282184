"""How long do the pages of `lab web` take over a large store, and how much memory does it need?

    uv run python bench/web.py [--boards 1000] [--runs 100] [--metrics 10] [--samples 10] [--requests 100]

Fills a store in SQLite with so many boards, runs a board, metrics a run and samples a metric (the defaults: 100,000 runs, 10 million
samples; filling takes some minutes), starts `lab web` as a process, and asks for each page so many times, one after the other.
The first request of each page is left out: it fills caches. Aim: p99 150 ms for each page, 200 MB.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import requests

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from farm_store import fill

LAB = Path(sys.executable).with_name("lab")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("boards", 1000), ("runs", 100), ("metrics", 10), ("samples", 10), ("requests", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        url = fill(
            Path(folder) / "results.db",
            boards=given.boards,
            metrics=given.metrics,
            samples=given.samples,
            releases=given.runs,
        )
        size_mb = (Path(folder) / "results.db").stat().st_size / 1e6
        print(f"{given.boards * given.runs} runs, {size_mb:.0f} MB, filled in {time.monotonic() - began:.0f} s")
        measure(url, Path(folder), given.boards * given.runs, given.runs, given.requests)


def measure(url: str, folder: Path, last: int, releases: int, count: int) -> None:
    """Ask for the pages."""
    server = subprocess.Popen(
        [LAB, "web", "--listen", "127.0.0.1:0", "--db", url, "--runtime", str(folder / "runtime")],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert server.stdout is not None
    address = server.stdout.readline().removeprefix("serving ").strip()
    pages = {
        "/": "/",
        "/runs": f"/runs?before={last // 2}",
        "/runs/R": f"/runs/{last}",
        "/boards/B": "/boards/board-0001",
        "/releases/X": f"/releases/{releases:02}.00",
        "/metrics/M": "/metrics/boot.time",
        "/api/v1/runs": "/api/v1/runs?limit=100",
    }
    try:
        with requests.Session() as session:
            for name, page in pages.items():
                times = []
                for _ in range(count + 1):
                    began = time.monotonic()
                    answer = session.get(address + page, timeout=600)
                    times.append(1e3 * (time.monotonic() - began))
                    assert answer.status_code == 200, (page, answer.text[-500:])
                first, rest = times[0], times[1:]
                p50, p99 = np.percentile(rest, (50, 99))
                print(
                    f"{name:14} first {first:7.0f} ms, p50 {p50:6.1f} ms, p99 {p99:6.1f} ms, {len(answer.content)} bytes"
                )
        print(f"memory: {psutil.Process(server.pid).memory_info().rss / 1e6:.0f} MB")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


if __name__ == "__main__":
    main()
