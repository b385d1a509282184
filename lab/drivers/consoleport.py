"""A port of labgrid's at the console server: what the drivers of a console have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.console.client import ConsoleClient
from lab.console.spawn import ensure_server
from lab.errors import ConfigurationError


def check_plugged(port: Any) -> None:
    """See that a SerialPort of labgrid's has a device now.

    Raises:
        ConfigurationError: it has none.
    """
    if not port.port:
        raise ConfigurationError(
            f"{port.display_name}: no such serial port now; is the adapter plugged in, and does `match` fit it? "
            "(udevadm info /dev/ttyUSB0)"
        )


@contextmanager
def new_client(runtime: str) -> Iterator[ConsoleClient]:
    """A client of the console server of this runtime directory (empty: the usual one), closed only if the block fails."""
    client = ConsoleClient(ensure_server(Path(runtime) if runtime else None))
    try:
        yield client
    except BaseException:
        client.close()
        raise
