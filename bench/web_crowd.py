"""Times of pages beside viewers of the wall and silent connections.

    uv run python bench/web_crowd.py [--boards 1000] [--viewers 200] [--silent 1100] [--requests 100]

Fills a store with so many boards of two runs, starts `lab web` as a process, and asks for pages one after the other: alone, beside so
many viewers of the wall (each an event stream), and beside so many connections that say nothing; then the exporter's page alone and
beside such connections. The crowd is a process of its own. Aim: p99 of what they take alone + 100 ms, at most 150 ms; 200 MB.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import requests
from common import parser, print_table
from support import exporter_serving
from support.farm_store import fill
from support.web_process import running_web

from lab.host.clock import utc_now
from lab.host.process import open_many_files

PAGES = ("/", "/runs", "/runs/1", "/boards/board-0001", "/api/v1/clock")
SERIES = 20_000  # of the exporter
AGAIN_S = 5.0  # after which a connection that was closed comes again


def main() -> None:
    """Measure, or be the crowd."""
    options = parser(__doc__)
    for name, default in (("--boards", 1000), ("--viewers", 200), ("--silent", 1100), ("--requests", 100)):
        options.add_argument(name, type=int, default=default)
    options.add_argument("--crowd", nargs=3, metavar=("ADDRESS", "PATH", "COUNT"), help="Only be the crowd.")
    given = options.parse_args()
    open_many_files()
    if given.crowd:
        address, path, count = given.crowd
        asyncio.run(crowd(address, path, int(count)))
        return
    with tempfile.TemporaryDirectory() as folder:
        url = fill(Path(folder) / "results.db", boards=given.boards, metrics=2, samples=2, releases=2, last=utc_now())
        words = ("--db", url, "--runtime", Path(folder) / "runtime")
        with running_web(Path(folder), os.environ, *words) as web:
            process = psutil.Process(web.pid)
            judged(web.url)
            for name, path, count in (("wall viewers", "/events/wall", given.viewers), ("silent", "", given.silent)):
                alone = asked_ms([web.url + page for page in PAGES], given.requests)
                with crowded(web.url, path, count):
                    beside = asked_ms([web.url + page for page in PAGES], given.requests)
                report(f"lab web, {count} {name}", dict(zip(PAGES, zip(alone, beside, strict=True), strict=True)))
            print(f"memory of lab web: {process.memory_info().rss / 1e6:.0f} MB")
    with exporter_serving.serving(series=SERIES) as url:
        ((alone,), address) = asked_ms([url], given.requests), url.removesuffix("/metrics")
        with crowded(address, "", given.silent):
            (beside,) = asked_ms([url], given.requests)
        report(f"exporter, {given.silent} silent", {"/metrics": (alone, beside)})


def judged(address: str) -> None:
    """Wait until the newest release and all boards are judged: that is another measurement."""
    while "comparisons so far" in requests.get(f"{address}/releases/02.00", timeout=600).text:
        time.sleep(1)
    while any(not board["is_judged"] for board in requests.get(f"{address}/api/v1/lab", timeout=600).json()["boards"]):
        time.sleep(1)


def asked_ms(urls: list[str], count: int) -> list[np.ndarray]:
    """How long each page takes, in turns."""
    times: list[list[float]] = [[] for _ in urls]
    for _ in range(count):
        for taken, url in zip(times, urls, strict=True):
            began = time.monotonic()  # of a connection of its own: an idle one is closed for the crowd of its address
            assert requests.get(url, timeout=600, headers={"Connection": "close"}).status_code == 200, url
            taken.append(1e3 * (time.monotonic() - began))
    return [np.array(taken) for taken in times]


def report(title: str, found: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Print both, and their ratio."""
    print(f"{title}:")
    rows = []
    for page, both in found.items():
        (p50, p99), (p50_b, p99_b) = (np.percentile(each, (50, 99)) for each in both)
        rows.append([page, *(f"{value:.1f}" for value in (p50, p99, p50_b, p99_b)), f"{p99_b / p99:.2f}"])
    print_table(("page", "alone p50 ms", "p99 ms", "beside p50 ms", "p99 ms", "p99 ratio"), rows)


@contextlib.contextmanager
def crowded(address: str, path: str, count: int) -> Iterator[None]:
    """Connections of a process of their own, once all are open."""
    words = [sys.executable, __file__, "--crowd", address, path, str(count)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield
        finally:
            process.terminate()


async def crowd(address: str, path: str, count: int) -> None:
    """Keep so many connections open; one that is closed comes again.

    Each asks for the path, or for nothing.
    """
    host, port = address.removeprefix("http://").split(":")
    open_now = asyncio.Semaphore(0)

    async def one() -> None:
        while True:
            reader, writer = await asyncio.open_connection(host, int(port), family=socket.AF_INET)
            if path:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                await reader.read(1)
            open_now.release()
            with contextlib.suppress(ConnectionError):
                while await reader.read(1 << 16):
                    pass
            writer.close()
            await asyncio.sleep(AGAIN_S)

    tasks = [asyncio.ensure_future(one()) for _ in range(count)]
    for _ in range(count):
        await open_now.acquire()
    print("open", flush=True)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    main()
