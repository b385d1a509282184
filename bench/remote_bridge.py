"""The TCP ports of bench/remote.py, as `lab farm export` has them: python remote_bridge.py SOCKET ADDRESS DEVICE..."""

from __future__ import annotations

import sys
from pathlib import Path

from lab.console.rfc2217_server import Bridge


def main() -> None:
    """Serve until the end of stdin."""
    socket_path, address, *devices = sys.argv[1:]
    bridges = [Bridge(Path(socket_path), lambda device=device: device, 115200, address) for device in devices]  # type: ignore[misc]
    print(*(bridge.port for bridge in bridges), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
