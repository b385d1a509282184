"""The hand on the power switch in bench/sim.py: boots every board of a bench again and again, each in its own rhythm.

A process of its own on the core of the boards. It prints "ready", goes when it gets a line on stdin, and prints "done".
A boot has ended when the board's own truth log says so, since a peer that is measured tells nothing while it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from pathlib import Path
from urllib.parse import quote

from attrs import define

from lab.virtual.state import BoardState, expect
from lab.virtual.tasmota import PATH

LOGIN_NOTE = b" stage=login"
DWELL_S = (0.2, 1.2)  # off; drawn anew each time, so that the boards do not march in step
LINGER_S = 0.3  # on, behind the note: the prompt still has to be sent, logged and stamped
POLL_S = 0.1  # the truth is written every tenth of a second


@define
class Driver:
    """Cycles one board."""

    switch: str
    board: BoardState
    dice: random.Random

    async def cycle(self, times: int, *, leave_on: bool) -> None:
        """Boot it so many times."""
        for _ in range(times):
            await self._switch("Off")
            await asyncio.sleep(self.dice.uniform(*DWELL_S))
            truth = Path(self.board.truth)
            start = truth.stat().st_size
            await self._switch("On")
            seen = b""
            while LOGIN_NOTE not in seen:
                await asyncio.sleep(POLL_S)
                more = _from(truth, start)
                start += len(more)
                seen = seen[-len(LOGIN_NOTE) :] + more
            await asyncio.sleep(LINGER_S)
        if not leave_on:
            await self._switch("Off")

    async def _switch(self, state: str) -> None:
        host, _, port = self.switch.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        command = quote(f"Power{self.board.outlet} {state}")
        writer.write(f"GET {PATH}?cmnd={command} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        assert b" 200 " in answer.split(b"\r\n", 1)[0], answer


def _from(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()


async def drive(folder: Path, cycles: int, *, leave_on: bool) -> None:
    """Boot all boards of the bench in this folder."""
    bench = expect(folder)
    dice = random.Random(1)  # noqa: S311  (pauses, not keys)
    drivers = [Driver(bench.http, board, random.Random(dice.random())) for board in bench.boards]  # noqa: S311
    await asyncio.gather(*(driver.cycle(cycles, leave_on=leave_on) for driver in drivers))


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cycles", type=int, required=True)
    parser.add_argument("--leave-on", action="store_true")
    options = parser.parse_args()
    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(drive(options.folder, options.cycles, leave_on=options.leave_on))
    print("done", flush=True)


if __name__ == "__main__":
    main()
