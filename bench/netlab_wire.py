"""The wire between two network namespaces: carries IP packets between two TUN devices, late and with losses, as it is told.

    python netlab_wire.py NAMESPACE ADDRESS NAMESPACE ADDRESS

`tc netem` does this in the kernel, where it was built in; this does it everywhere. It prints "ready", and then obeys lines:
`DELAY_MS LOSS`, of which the delay is added to what goes from the first to the second, as by netem at one host's end, and the
loss is the share of packets that each direction loses; `down` and `up`. It ends at the end of its input.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

_CLONE_NEWNET = 0x40000000  # <linux/sched.h>
_TUNSETIFF = 0x400454CA  # <linux/if_tun.h>
_IFF_TUN, _IFF_NO_PI = 1, 0x1000
_PACKET_BYTES = 65536
_QUEUED = 20000  # packets on their way; more are lost, as in netem's `limit`
_LIBC = ctypes.CDLL(None, use_errno=True)


def enter(namespace: str) -> None:
    """Let this thread be in a network namespace."""
    with open(f"/run/netns/{namespace}", "rb") as entered:  # noqa: PTH123 - its number is what is wanted
        if _LIBC.setns(entered.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"namespace {namespace}: {os.strerror(ctypes.get_errno())}")


def device(namespace: str, address: str, peer: str) -> int:
    """A TUN device in the namespace, up, with this address."""
    enter(namespace)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", b"wire", _IFF_TUN | _IFF_NO_PI))
    for words in (
        ("addr", "add", address, "peer", peer, "dev", "wire"),
        ("link", "set", "wire", "up"),
        ("link", "set", "lo", "up"),
    ):
        subprocess.run(["ip", *words], check=True)
    return fd


def main() -> None:
    """The program."""
    one, one_address, other, other_address = sys.argv[1:]
    ends = device(one, one_address, other_address), device(other, other_address, one_address)
    print("ready", flush=True)
    chance = random.Random(19)  # noqa: S311  (losses, not keys)
    delay_s, loss, up = 0.0, 0.0, True
    queue: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        wait_s = max(0.0, queue[0][0] - time.monotonic()) if queue else None
        ready, _, _ = select.select([0, *ends], [], [], wait_s)
        if 0 in ready:
            words = sys.stdin.readline().split()
            if not words:
                return
            if words[0] in {"up", "down"}:
                up = words[0] == "up"
            else:
                delay_s, loss = float(words[0]) / 1000, float(words[1])
            print("done", flush=True)
        now = time.monotonic()
        for at, fd in enumerate(ends):
            if fd in ready:
                packet = os.read(fd, _PACKET_BYTES)
                if up and chance.random() >= loss and len(queue) < _QUEUED:
                    number += 1
                    heapq.heappush(queue, (now + (delay_s if at == 0 else 0.0), number, ends[1 - at], packet))
        while queue and queue[0][0] <= time.monotonic():
            _, _, fd, packet = heapq.heappop(queue)
            os.write(fd, packet)


if __name__ == "__main__":
    main()
