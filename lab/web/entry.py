"""Who comes in, from the options of `lab web`: what is safe on this host's loopback is refused for other machines."""

from __future__ import annotations

import errno
import ipaddress
import re
import secrets
import socket
from collections.abc import Sequence
from typing import Final, TypeAlias

from exporters.server import Guard
from exporters.webconfig import WebConfig
from lab.errors import ConfigurationError
from lab.host import process
from lab.web.access import Access, Proxy, plain_address
from lab.web.users import Users

BROWSERS_LOOPBACK: Final = (
    "127.0.0.1",
    "::1",
)  # what browsers make of NAME.localhost (RFC 6761, 6.3), either of the two
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_VERIFIED: Final = "client_auth_type: RequireAndVerifyClientCert"
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def access_of(
    host: str, protection: WebConfig | None, users: Users, proxies: Sequence[str] = (), header: str | None = None
) -> Access:
    """Who may look and act.

    Args:
        host: what is listened at. proxies, header: `--trust-proxy` and `--user-header`.

    Raises:
        ConfigurationError: it would be open to other machines without TLS, or to people whom nobody knows; or an option is wrong.
    """
    address = _address("--listen", host)
    proxy = _proxy(protection, proxies, header)
    there = bool(users.all())
    tls = protection is not None and protection.tls_server_config is not None
    asks = there or proxy is not None or (protection is not None and bool(protection.basic_auth_users))
    if not address.is_loopback and not (tls and (asks or (protection is not None and protection.authenticates))):
        missing = (
            "users: `lab web user add NAME --role operator` makes one"
            if tls
            else "TLS: give --web-config a file with tls_server_config"
        )
        raise ConfigurationError(
            f"--listen {host} is open to other machines: that needs TLS and users. It lacks {missing}; or listen on 127.0.0.1"
        )
    here = address.is_loopback and not asks
    named = here and not tls and str(address) in BROWSERS_LOOPBACK
    return Access(
        users=users if there or proxy is not None else None,
        guard=Guard(protection),
        proxy=proxy,
        owner=process.person() if here else "",
        token=secrets.token_urlsafe(24) if here else "",
        own_name=f"{secrets.token_hex(8)}.localhost" if named else "",
        open=not asks,
    )


def _proxy(protection: WebConfig | None, proxies: Sequence[str], header: str | None) -> Proxy | None:
    if bool(proxies) != bool(header):
        raise ConfigurationError("--trust-proxy and --user-header need each other: who says it, and in which header")
    if not header:
        return None
    if not _HEADER.fullmatch(header):
        raise ConfigurationError(f"--user-header {header!r:.80}: the name of a header, e.g. X-Forwarded-User")
    found = [plain_address(_address("--trust-proxy", given)) for given in proxies]
    tls = protection.tls_server_config if protection is not None else None
    verified = tls is not None and bool(tls.client_ca_file)
    here = [each for each in found if _of_this_host(each)]
    if here and not verified:
        raise ConfigurationError(
            f"--trust-proxy {here[0]}: any user of this host could pass for a proxy on it. Have the proxy come with a certificate "
            f"({_VERIFIED} in the --web-config file), or from another machine"
        )
    return Proxy(frozenset(map(str, found)), header)


def _of_this_host(address: _Address) -> bool:
    """Whether a process of this host may ask from an address: it may where it can bind a socket to it."""
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((str(address), 0))
    except OSError as error:  # any other error leaves it open, e.g. a link-local address without its interface
        return error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
    return True


def _address(option: str, text: str) -> _Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} {text}: expected an IP address, e.g. 127.0.0.1 or ::1") from error
