"""The least that can stamp consoles, for bench/stamps.py and sim.py: epoll_wait(2), read(2), the clock, and nothing else.

No recording, no readers, no evidence of lateness. What it is late by is the machine's: its kernel's way from a pty to a reader.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
from pathlib import Path

from lab.console.serial_line import open_port
from lab.host.clock import MonotonicRaw

READ_BYTES = 4096


def main() -> None:
    """`stamps_bare.py OUTPUT PORT ...`: read all ports until SIGTERM, then pickle what each read brought into OUTPUT.

    Prints "ready" when all ports are open.
    """
    output, ports = Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]]
    fds = [open_port(port, 115200).fd for port in ports]
    reads: dict[int, list[tuple[int, bytes]]] = {fd: [] for fd in fds}
    ended, ending = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: os.write(ending, b"."))
    epoll = select.epoll()
    for fd in (ended, *fds):
        epoll.register(fd, select.EPOLLIN)
    print("ready", flush=True)
    now, poll, read = MonotonicRaw().now_ns, epoll.poll, os.read
    gc.disable()
    going = True
    while going:
        for fd, _ in poll():
            if fd == ended:
                going = False
                continue
            data = read(fd, READ_BYTES)
            reads[fd].append((now(), data))
    output.write_bytes(pickle.dumps([reads[fd] for fd in fds]))


if __name__ == "__main__":
    main()
