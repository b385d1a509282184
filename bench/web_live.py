"""Delay of a live console on the web, and of stamps under viewers.

    uv run python bench/web_live.py [--viewers 200] [--seconds 15] [--lines 1500] [--rounds 3]

A board says a line of 80 bytes each 20 ms, as a kernel that boots does, on a pty that the console server reads; each line has the
instant at which it was written. `lab web` serves it, all as processes of their own.

1. How long after its stamp is a line on the screen? Measured in the page, in Chromium: its clock is related to the host's by the
   quickest of 50 answers of /api/v1/clock, ± half of that one's time. Aim: p99 100 ms.
2. What do so many viewers cost `lab web`, and how late are the server's stamps, without them and with them, in turn, so many rounds?
   Aim: 20 % of a core; no later stamp than without. The rounds without viewers say how much of a difference is the machine's.
   How long after the stamp of its first line does each tenth of them have a piece? Aim: p99 100 ms.
   In a lab the viewers are elsewhere. Here they share the cores, so they are a process that lets everything else go first: of idle priority, and,
   as `lab web` is under systemd, in a session and thus an autogroup of its own (sched(7)): priorities are compared within such a group only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tty
from pathlib import Path

import numpy as np
import psutil
from common import parser, print_table, spread
from page_looks import Look, look
from support.web_process import running_web

from lab.console import ConsoleClient, ensure_server
from lab.console.recording import Recording
from lab.host import scheduling
from lab.host.clock import MonotonicRaw

PERIOD_S, BOARD = 0.02, "bench-1"
HEADER = (
    *("viewers", "of a core", "stamp after the write p50 ms", "p99 ms", "max ms"),
    *("first line of a piece after its stamp p50 ms", "p99 ms", "max ms"),
)
LINE = re.compile(rb"(\d+) ns +\r\n")
FIRST = re.compile(rb'"lines": \[(?:null, )*([\d.]+)')  # when the first line of a piece was stamped, in microseconds
# In the page: relate the clocks, then note of each piece when it is about to be painted.
BEHIND = """
(async () => {
  const found = [];
  let best = { about: Infinity };
  for (let n = 0; n < 50; n += 1) {
    const before = performance.now();
    const answer = await (await fetch('/api/v1/clock')).json();
    const after = performance.now();
    const about = (after - before) / 2;
    if (about < best.about) best = { about, ahead: answer.now_us / 1000 - (after + before) / 2 };
  }
  await new Promise((done) => {
    document.addEventListener('console-text', (event) => requestAnimationFrame(() => {
      found.push(performance.now() + best.ahead - event.detail / 1000);
      if (found.length === %d) done();
    }));
  });
  return { found, about: best.about };
})()
"""


def speak() -> None:
    """The board: lines on a pty whose name is printed first, until stdin ends."""
    board, line = os.openpty()
    tty.setraw(line)
    print(os.ttyname(line), flush=True)
    sys.stdin.readline()
    clock = MonotonicRaw()
    due = time.monotonic()
    while True:
        due += PERIOD_S
        time.sleep(max(0.0, due - time.monotonic()))
        text = b"%d ns" % clock.now_ns()
        os.write(board, text.ljust(78) + b"\r\n")


def step_aside() -> None:
    """Let everything else on this machine go first."""
    with contextlib.suppress(FileNotFoundError):  # a kernel without autogroups
        Path("/proc/self/autogroup").write_text("19")
    scheduling.choose_slice(scheduling.LONGEST_NS)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


async def view(address: str, count: int, seconds: float) -> list[float]:
    """So many viewers for so long; how old the first line of a piece was when it came, in milliseconds, of each tenth of them."""
    host, port = address.removeprefix("http://").split(":")
    clock = MonotonicRaw()
    begun_ms, ages = clock.now_ns() / 1e6, list[float]()

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /events/consoles/{BOARD} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                data = await asyncio.wait_for(reader.read(1 << 16), left)
            except TimeoutError:
                break
            assert data, "lab web ended the stream"
            if number % 10 == 0:
                stamps = [float(match[1]) / 1e3 for match in FIRST.finditer(data)]
                ages.extend(clock.now_ns() / 1e6 - stamp for stamp in stamps if stamp > begun_ms)  # earlier: the past
        writer.close()

    await asyncio.gather(*(one(number) for number in range(count)))
    return ages


def late_ms(recording: Path, begin_ns: int, end_ns: int) -> np.ndarray:
    """How long after a line was written its last byte was stamped."""
    found, text = [], b""
    for chunk in Recording.open(recording).chunks():
        text += chunk.data
        for match in LINE.finditer(text):
            if begin_ns <= (at := int(match[1])) < end_ns:
                found.append((chunk.t_ns - at) / 1e6)
        text = text[text.rfind(b"\n") + 1 :]
    return np.array(found)


def main() -> None:
    """Measure."""
    options = parser(__doc__)
    options.add_argument("--viewers", type=int, default=200)
    options.add_argument("--seconds", type=float, default=15.0)
    options.add_argument("--lines", type=int, default=1500)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--role", choices=["speaker", "viewers"], help=argparse.SUPPRESS)
    options.add_argument("--address", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.role == "speaker":
        speak()
    elif given.role == "viewers":
        step_aside()
        print(json.dumps(asyncio.run(view(given.address, given.viewers, given.seconds))))
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), given.viewers, given.seconds, given.lines, given.rounds)


def measure(folder: Path, viewers: int, seconds: float, lines: int, rounds: int) -> None:
    """All of it in one run, in an empty lab in this folder."""
    runtime, own = folder / "run", [sys.executable, __file__]
    board = subprocess.Popen([*own, "--role", "speaker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert board.stdin is not None
    assert board.stdout is not None
    client = ConsoleClient(ensure_server(runtime))
    client.open(Path(board.stdout.readline().strip()), name=BOARD, board=BOARD)
    try:
        words = ("--db", folder / "none.db", "--runtime", runtime)
        with running_web(folder, os.environ, *words) as web:
            board.stdin.write("go\n")
            board.stdin.flush()
            (seen,) = look([Look(web.url, f"/boards/{BOARD}", ask=BEHIND % lines)])
            p50, p99 = np.percentile(seen.answer["found"], (50, 99))
            print(
                f"on the screen after the stamp: p50 {p50:.1f} ms, p99 {p99:.1f} ms, ± {seen.answer['about']:.1f} ms"
            )
            process, clock = psutil.Process(web.pid), MonotonicRaw()
            found: dict[int, list[np.ndarray]] = {0: [], viewers: []}
            rows = []
            for count in (0, viewers) * rounds:
                looking = None
                if count:
                    words = ["--address", web.url, "--viewers", str(count), "--seconds", str(seconds + 4)]
                    command = [*own, "--role", "viewers", *words]
                    looking = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
                    time.sleep(3)  # they connect
                used_s, begin_ns = sum(process.cpu_times()[:2]), clock.now_ns()
                time.sleep(seconds)
                share = (sum(process.cpu_times()[:2]) - used_s) / (clock.now_ns() - begin_ns) * 1e9
                found[count].append(late_ms(runtime / "recordings" / f"{BOARD}.log", begin_ns, clock.now_ns()))
                first = spread(json.loads(looking.communicate()[0]), [50, 99]) if looking is not None else ["-"] * 3
                rows.append([str(count), f"{share:.1%}", *spread(found[count][-1], [50, 99]), *first])
            rows += [
                [f"{n}, all rounds", "", *spread(np.concatenate(each), [50, 99]), *[""] * 3]
                for n, each in found.items()
            ]
            print_table(HEADER, rows)
            print(f"memory of lab web: {process.memory_info().rss / 1e6:.0f} MB")
    finally:
        client.stop()
        board.kill()
        board.wait()


if __name__ == "__main__":
    main()
