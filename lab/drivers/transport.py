"""How another host is reached: what a console's `transport` says holds for the rails server and the pdudaemon there, too."""

from __future__ import annotations

from typing import Final

from lab.console.tlsway import TlsWay
from lab.errors import ConfigurationError
from lab.host.tls import Identity

AUTO: Final = "auto"
SSH: Final = "ssh"
TLS: Final = "tls"
TRANSPORTS: Final = (AUTO, SSH, TLS)


def is_tls(transport: str, tls_port: int) -> bool:
    """Whether the way is TLS, and not ssh.

    Args:
        tls_port: which the exporter there names; 0: none.
    """
    return transport == TLS or (transport == AUTO and tls_port > 0)


def tls_way(host: str, tls_port: int, shown: str) -> TlsWay:
    """The TLS front of a host.

    Args:
        shown: what shall be reached, for messages.

    Raises:
        ConfigurationError: its exporter names no port for it.
    """
    if not tls_port:
        raise ConfigurationError(
            f"{shown}: transport: tls, but its exporter names no port for that: `lab console tls` there, and `lab farm export --tls-port`. "
            "One of an earlier boardlab names none for power: update it and start it again"
        )
    return TlsWay(host, tls_port, Identity.found())
