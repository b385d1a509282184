"""Addresses of this host, and which ones nobody else reaches."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Final

from lab.errors import ConfigurationError

_DISCARD: Final = 9  # RFC 863; nothing is sent to it


def is_loopback(host: str) -> bool:
    """Whether a name or an address is only the asking host's own: 127.0.0.0/8, ::1 or "localhost"."""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def is_own(host: str) -> bool:
    """Whether a name or an address leads to the asking host itself; a name that nobody knows does not."""
    if is_loopback(host):
        return True
    try:
        return own_address(host) in {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except (ConfigurationError, OSError):
        return False


def own_address(towards: str) -> str:
    """This host's address on its way to another one, as its routes say; no packet is sent.

    Raises:
        ConfigurationError: there is no way there, or nobody knows the name.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(towards, _DISCARD, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as asks:
            asks.connect(address)
            return str(asks.getsockname()[0])
    except (OSError, UnicodeError) as error:  # the latter: no name of a host at all, e.g. with two dots in a row
        raise ConfigurationError(
            f"{towards}: this host knows no way there ({getattr(error, 'strerror', None) or error}); `ip route get` shows it"
        ) from error
