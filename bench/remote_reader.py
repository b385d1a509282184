"""One reader of bench/remote.py, on the other host, in a process of its own as a measurement is: python remote_reader.py NUMBER, orders as JSON on stdin.

It prints "ready", reads until it has so many bytes as a second line of stdin says, and writes what it found beside the orders.
"""

from __future__ import annotations

import json
import mmap
import struct
import sys
import threading
import time
from array import array
from pathlib import Path
from typing import Any, Final

from lab.boards import MomentPattern
from lab.console import Chunk, ConsoleClient, find_moments
from lab.console.reader import ELSEWHERE_S, PortOrder, ReconnectingReader
from lab.host.clock import MonotonicRaw
from lab.host.ssh import SshLink

COUNT: Final = struct.Struct("<q")  # of a reader, in the shared file: how many cuts it has come back from
DRAIN_S: Final = 120.0  # for what is on its way when the line has played everything
LOOK_S: Final = 0.2


def main() -> None:
    """The program."""
    number, order = int(sys.argv[1]), json.loads(sys.stdin.readline())
    folder = Path(order["folder"])
    client = reader(order, order["devices"][number])
    with (folder / "counts").open("r+b") as shared:
        counts = mmap.mmap(shared.fileno(), 0)
    wanted: list[int] = []
    threading.Thread(target=lambda: wanted.append(int(sys.stdin.readline() or 0)), daemon=True).start()
    print("ready", flush=True)
    clock, events, behind_ms, heard, deadline = MonotonicRaw(), [], array("d"), 0, 0.0
    while not wanted or (heard < wanted[0] and time.monotonic() < deadline):
        if not wanted:
            deadline = time.monotonic() + DRAIN_S
        event = client.read_event(LOOK_S)
        if event is None:
            continue
        events.append(event)
        if isinstance(event, Chunk):
            heard += len(event.data)
            behind_ms.append((clock.now_ns() - event.t_ns) / 1e6)
            COUNT.pack_into(counts, COUNT.size * number, client.cuts)
    patterns = [MomentPattern(name=name, pattern=pattern) for name, pattern in order["markers"].items()]
    moments = find_moments(events, patterns, client.info.meta.timing)
    client.close()
    found = {"cuts": client.cuts, "stamps": [[each.name, each.t_ns, each.uncertainty_ns] for each in moments]}
    (folder / f"data{number}").write_bytes(b"".join(each.data for each in events if isinstance(each, Chunk)))
    (folder / f"behind{number}").write_bytes(behind_ms.tobytes())
    (folder / f"found{number}").write_text(json.dumps(found))


def reader(order: dict[str, Any], device: str) -> ReconnectingReader:
    """Connected through ssh."""
    host = order["host"]
    link = SshLink(host, Path(order["sockets"]), order["config"])
    return ReconnectingReader(
        lambda: ConsoleClient(link.forwarded(order["server"]), ELSEWHERE_S), link.reset, PortOrder(device), host
    )


if __name__ == "__main__":
    main()
