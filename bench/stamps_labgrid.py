"""A console stamped with labgrid's SerialDriver and `expect`, for bench/stamps.py and bench/sim.py: the time just after `expect` returned."""

from __future__ import annotations

import json
import sys

from labgrid import Target
from labgrid.driver import SerialDriver
from labgrid.resource import NetworkSerialPort, RawSerialPort

from lab.host.clock import MonotonicRaw

TIMEOUT_S = 30.0
FOR_EVER_S = 86_400.0


def main() -> None:
    """Expect the markers of `boots` boots on the port, a device or HOST:PORT, then print their names and times as JSON.

    With 0 boots expect the first marker for as long as it takes.
    """
    port, boots, markers = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    clock = MonotonicRaw()
    target = Target("main")
    host, _, tcp = port.rpartition(":")
    if host:
        NetworkSerialPort(target, name=None, host=host, port=int(tcp), speed=115200, protocol="rfc2217")
    else:
        RawSerialPort(target, name=None, port=port, speed=115200)
    console = SerialDriver(target, name=None)
    target.activate(console)
    print("ready", flush=True)
    stamps: list[tuple[str, int]] = []
    if not boots:
        console.expect(next(iter(markers.values())), timeout=FOR_EVER_S)
    for _ in range(boots):
        for name, pattern in markers.items():
            console.expect(pattern, timeout=TIMEOUT_S)
            stamps.append((name, clock.now_ns()))
    print(json.dumps(stamps), flush=True)


if __name__ == "__main__":
    main()
