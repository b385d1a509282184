"""Common settings of virtual boards for U-Boot's test/py."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

NAME = "boardlab-test.bin"
SIZE_BYTES = 1 << 20


def served_file(address: int) -> dict[str, object]:
    """Write a file for the board's TFTP server, and describe it.

    BOARDLAB_TFTP names the server's folder.

    Returns:
        `env__net_tftp_readable_file` of test/py, to be loaded to this address; empty where nothing is named.
    """
    folder = os.environ.get("BOARDLAB_TFTP")
    if not folder:
        return {}
    data = b"".join(number.to_bytes(4, "little") for number in range(SIZE_BYTES // 4))
    Path(folder, NAME).write_bytes(data)
    return {"fn": NAME, "addr": address, "size": len(data), "crc32": f"{zlib.crc32(data):08x}"}
