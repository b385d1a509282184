"""Times of pages beside viewers of the wall and silent connections.

    uv run python bench/web_crowd.py [--boards 1000] [--viewers 200] [--silent 1100] [--requests 100]

Fills a store with so many boards of two runs, starts `lab web` as a process, and asks for pages one after the other: while the
newest release is judged, alone, beside so many viewers of the wall (each an event stream), beside so many of a console that says a
line each 20 ms, and beside so many connections that say nothing; then the exporter's page alone and beside such connections. The crowd is a process of its own. Aim: p99 of what they take
alone + 100 ms, at most 150 ms; 200 MB. The CPU seconds of `lab web` for each request, and of its judging process, say the same
where the machine is busy.
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
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import psutil
import requests
import web_live
from attrs import frozen
from common import parser, print_table
from support import exporter_serving
from support.farm_store import fill
from support.web_process import running_web

from lab.console import ConsoleClient, ensure_server
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
    turns = range(given.requests)
    if given.crowd:
        address, path, count = given.crowd
        asyncio.run(crowd(address, path, int(count)))
        return
    with tempfile.TemporaryDirectory() as folder:
        url = fill(Path(folder) / "results.db", boards=given.boards, metrics=2, samples=2, releases=2, last=utc_now())
        runtime = Path(folder) / "runtime"
        words = ("--db", url, "--runtime", runtime)
        with talking_board(runtime), running_web(Path(folder), os.environ, *words) as web:
            pages = Pages([web.url + page for page in PAGES], web.pid)
            judging = pages.asked(iter(lambda: judged(web.url), True))
            pages.report("lab web, the newest release is judged", pages.asked(turns), judging)
            for name, path, count in (
                ("viewers of the wall", "/events/wall", given.viewers),
                ("viewers of a console", f"/events/consoles/{web_live.BOARD}", given.viewers),
                ("silent", "", given.silent),
            ):
                alone = pages.asked(turns)
                with crowded(web.url, path, count):
                    beside = pages.asked(turns)
                pages.report(f"lab web, {count} {name}", alone, beside)
            print(f"memory of lab web: {psutil.Process(web.pid).memory_info().rss / 1e6:.0f} MB")
    with exporter_serving.serving(series=SERIES) as url:
        pages = Pages([url], os.getpid())
        alone = pages.asked(turns)
        with crowded(url.removesuffix("/metrics"), "", given.silent):
            beside = pages.asked(turns)
        pages.report(f"exporter, {given.silent} silent", alone, beside)


@contextlib.contextmanager
def talking_board(runtime: Path) -> Iterator[None]:
    """A board whose console is read, and which says a line each 20 ms."""
    words = [sys.executable, web_live.__file__, "--role", "speaker"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as board:
        assert board.stdin is not None
        assert board.stdout is not None
        client = ConsoleClient(ensure_server(runtime))
        try:
            client.open(Path(board.stdout.readline().strip()), name=web_live.BOARD, board=web_live.BOARD)
            print("go", file=board.stdin, flush=True)
            yield
        finally:
            client.stop()
            board.kill()


def judged(address: str) -> bool:
    """Return whether the newest release and all boards are judged."""
    boards = requests.get(f"{address}/api/v1/lab", timeout=600).json()["boards"]
    release = requests.get(f"{address}/releases/02.00", timeout=600).text
    return "comparisons so far" not in release and all(board["is_judged"] for board in boards)


@frozen
class Asked:
    """Times of pages, a row each, in ms.

    With CPU seconds of the server and of its processes meanwhile.
    """

    ms: np.ndarray
    own_s: float
    children_s: float


@frozen
class Pages:
    """Pages of a server."""

    urls: list[str]
    pid: int

    def asked(self, turns: Iterable[object]) -> Asked:
        """Ask for each page once a turn."""
        rows, began = [], self._cpu_s()
        for _ in turns:
            rows.append([])
            for url in self.urls:
                begun = (
                    time.monotonic()
                )  # of a connection of its own: an idle one is closed for the crowd of its address
                assert requests.get(url, timeout=600, headers={"Connection": "close"}).status_code == 200, url
                rows[-1].append(1e3 * (time.monotonic() - begun))
        own_s, children_s = (now - before for now, before in zip(self._cpu_s(), began, strict=True))
        return Asked(np.array(rows).T, own_s, children_s)

    def report(self, title: str, alone: Asked, beside: Asked) -> None:
        """Print both, and their ratio."""
        rows = []
        for url, *both in zip(self.urls, alone.ms, beside.ms, strict=True):
            (p50, p99), (p50_b, p99_b) = (np.percentile(each, (50, 99)) for each in both)
            shown = (f"{value:.1f}" for value in (p50, p99, p50_b, p99_b))
            rows.append(["/" + url.split("/", 3)[3], *shown, f"{p99_b / p99:.2f}"])
        print(f"{title}:")
        print_table(("page", "alone p50 ms", "p99 ms", "beside p50 ms", "p99 ms", "p99 ratio"), rows)
        cpu = (f"{1e3 * each.own_s / each.ms.size:.1f}" for each in (alone, beside))
        print(
            "CPU ms of the server a page, alone and beside: "
            + ", ".join(cpu)
            + f"; of its processes beside: {beside.children_s:.1f} s"
        )

    def _cpu_s(self) -> tuple[float, float]:
        """CPU of the server; of its processes, as far as they run."""
        process = psutil.Process(self.pid)
        own = process.cpu_times()
        ended, running = own.children_user + own.children_system, 0.0
        for each in process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                running += times.user + times.system
        return own.user + own.system, ended + running


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
