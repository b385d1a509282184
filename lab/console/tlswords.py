"""What a client and the TLS front say to each other before bytes are handed on.

A client names what it wants by TLS' ALPN (RFC 7301). Who names nothing wants the console, as clients did before there was anything
else. The console server greets by itself; for all else the front says one line of JSON first: `{}`, or `{"error": ..., "absent": ...}`
and nothing more.
"""

from __future__ import annotations

import json
from typing import Final

from lab.errors import BoardlabError, ConfigurationError

CONSOLE: Final = "boardlab-console"
RAILS: Final = "boardlab-rails"
POWER: Final = "boardlab-power"  # of no port that the front knows: refused
LINE_BYTES: Final = 4096
ADMITTED: Final = b"{}\n"


def power(port: int) -> str:
    """The name of the pdudaemon at this TCP port of the front's loopback."""
    return f"{POWER}:{port}"


def denied(error: BoardlabError) -> bytes:
    """The front's line for a client that it cannot let through; anything but a ConfigurationError may pass."""
    absent = not isinstance(error, ConfigurationError)
    return json.dumps({"error": str(error), "absent": absent}).encode() + b"\n"


def check_admitted(line: bytes, shown: str) -> None:
    """See that the front lets us through.

    Args:
        shown: the front, for messages.

    Raises:
        ConfigurationError: it refuses, or this is no line of a front.
        ConnectionRefusedError: what was asked for does not answer there, now.
    """
    try:
        said = json.loads(line)
        error, absent = str(said.get("error", "")), bool(said.get("absent"))
    except (ValueError, AttributeError) as wrong:
        raise ConfigurationError(
            f"{shown}: {line[:80]!r} is no answer of `lab console tls`: is this its port (--tls-port of the exporter there)?"
        ) from wrong
    if absent:
        raise ConnectionRefusedError(error)
    if error:
        raise ConfigurationError(f"{shown}: {error}")
