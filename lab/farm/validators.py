"""attrs validators of farm.yaml's values."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, Final

from lab.errors import ConfigurationError
from lab.judge.text import EvidenceLinks
from lab.redaction import redact
from lab.results.location import check

UNGUARDED: Final = (
    "it has no authentication, and every host that reaches it may use every board: expected an address of loopback "
    "or of a private network, e.g. "
    'WireGuard\'s (docs/farm/several-hosts.md, "Between hosts")'
)
_NOT_QUOTED: Final = "%\"'\\$;"  # characters that a quoted path of a unit file must not have


def _matching(pattern: str, expected: str) -> Callable[[object, Any, str], None]:
    """A validator of text by a pattern."""

    def validate(_instance: object, attribute: Any, value: str) -> None:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{attribute.name}: {redact(value)!r}: {expected}")

    return validate


def _validate_by(read: Callable[[str], object]) -> Callable[[object, Any, str], None]:
    """A validator of text that another module reads."""

    def validate(_instance: object, attribute: Any, value: str) -> None:
        try:
            read(value)
        except ConfigurationError as error:
            raise ValueError(f"{attribute.name}: {error}") from None

    return validate


name = _matching(r"[a-z0-9][a-z0-9-]{0,60}", "small letters, digits and -, as it becomes a unit's name")
time = _matching(r"([01]\d|2[0-3]):[0-5]\d", "expected a time of day in quotes, e.g. '02:00'")
word = _matching(r"[^\s%\"'\\$;]*", "no blanks, quotes, $, ; and %, as it stands in a unit file")
site = _matching(  # it stands in YAML and JSON, and a page's path follows
    r"(?a:https?://[\w.\[\]:-]+(/[\w.~%+-]+)*)",
    "expected http(s), a host and perhaps a path, without / at the end, e.g. https://docs.lab.example/boardlab",
)
shared = _validate_by(lambda value: check(value) if value else None)  # a place of artifacts
reports = _validate_by(EvidenceLinks)  # the address of a report, with {run}


def quotable(_instance: object, attribute: Any, value: str) -> None:
    """Require text that can stand in quotes in a unit file."""
    if not value.isprintable() or value != value.strip() or any(c in _NOT_QUOTED for c in value):
        raise ValueError(
            f"{attribute.name}: {redact(value)!r}: expected a path without quotes, $, %, ; and blanks at its end"
        )


def path(instance: object, attribute: Any, value: str) -> None:
    """Require a path that can stand in quotes in a unit file."""
    quotable(instance, attribute, value)
    if not value or value.startswith("~"):
        raise ValueError(
            f"{attribute.name}: {value!r}: expected a path; ~ stands for another folder with each user, so write it out"
        )


def path_if_any(instance: object, attribute: Any, value: str) -> None:
    """Require a path or nothing."""
    if value:
        path(instance, attribute, value)


def program(instance: object, attribute: Any, value: str) -> None:
    """Require a path, a program's name or nothing."""
    if "/" in value:
        path(instance, attribute, value)
    else:
        word(instance, attribute, value)


def loopback(_instance: object, attribute: Any, value: str) -> None:
    """Require a loopback address and a port."""
    machine, _, port = value.rpartition(":")
    try:
        wrong = not ipaddress.ip_address(machine.strip("[]")).is_loopback or not 0 < int(port) < 65_536
    except ValueError:
        wrong = True
    if wrong:
        raise ValueError(
            f"{attribute.name}: {value!r}: expected a loopback address and a port, e.g. 127.0.0.1:8010: it knows no "
            "TLS, so other hosts reach it through ssh -L or WireGuard"
        )


def private_address(_instance: object, attribute: Any, value: str) -> None:
    """Require loopback or a private network; `lab farm check` resolves names."""
    try:
        address = ipaddress.ip_address(value.rpartition(":")[0].strip("[]"))
    except ValueError:
        return
    if not is_guarded(address):
        raise ValueError(f"{attribute.name}: {value!r}: {UNGUARDED}")


def is_guarded(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether only this host or a private network reaches it."""
    return not address.is_unspecified and (address.is_private or address.is_loopback)


def public(_instance: object, attribute: Any, value: str) -> None:
    """Refuse passwords, since every user reads units (`systemctl show`)."""
    if redact(value) != value:
        raise ValueError(
            f"{attribute.name}: {redact(value)!r}: no password here, since every user can read a unit's environment; "
            "put it into a file of the service user: add ?passfile=/var/lib/boardlab/pgpass (libpq's ~/.pgpass)"
        )
