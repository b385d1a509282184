"""TLS and passwords of a server, and the limits of wrong passwords."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias, TypeVar

import anyio
import bcrypt
from anyio import to_thread
from attrs import define, field

from lab.http.web_config import WebConfig

_NO_USER: Final = "$2b$10$" + "." * 53  # no password has this hash; it costs as much to try as a user's
_PASSWORD_BYTES: Final = 72  # that bcrypt takes
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Answer = TypeVar("_Answer")


class Guard:
    """The users of a web-config file.

    It remembers an accepted header by a quick hash, as bcrypt is slow.
    """

    def __init__(self, config: WebConfig | None) -> None:
        self._users = config.basic_auth_users if config else {}
        self._accepted: frozenset[bytes] = frozenset()

    @property
    def asks(self) -> bool:
        """Return whether there are users."""
        return bool(self._users)

    def knows(self, header: str | None) -> bool:
        """Return whether this Authorization header, or none, needs no trial."""
        digest = self._digest(header)
        return not self._users or any(hmac.compare_digest(digest, accepted) for accepted in self._accepted)

    def admits(self, header: str | None) -> bool:
        """Try the password of an Authorization header; bcrypt takes its time."""
        user, secret, password = self._read(header)
        right = bcrypt.checkpw(password.encode()[:_PASSWORD_BYTES], secret.encode()) and user in self._users
        if right:
            self._accepted |= {self._digest(header)}
        return right

    def _digest(self, header: str | None) -> bytes:
        return hashlib.sha256("\0".join(self._read(header)).encode()).digest()

    def _read(self, header: str | None) -> tuple[str, str, str]:
        user, _, password = decode_credentials(header).partition(":")
        return user, self._users.get(user, _NO_USER), password


class OneAtATime:
    """Tries one password at a time, in a thread of its own.

    Guessing then takes one core at most.
    """

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None  # made when the server runs

    async def __call__(self, tries: Callable[..., _Answer], *arguments: str) -> _Answer:
        """The answer of a function that tries a password, from a thread."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(1)
        return await to_thread.run_sync(tries, *arguments, limiter=self._limiter)


def decode_credentials(header: str | None) -> str:
    """`name:password` of an Authorization header (RFC 7617), or nothing."""
    kind, _, text = (header or "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


MOST: Final = 10  # wrong passwords for a name from an address
MOST_WIDE: Final = 100  # for a name from all addresses, or from an address for all names; see `LoginAttempts`
WINDOW_S: Final = 600.0
_MOST_KEYS: Final = 10_000


@define
class Window:
    """Counts of events in the last WINDOW_S; `now` is monotonic, in seconds."""

    now: Callable[[], float]
    _times: dict[Hashable, deque[float]] = field(factory=dict, init=False)

    def wait_s(self, key: Hashable, most: int) -> float:
        """The seconds until a key is below `most` events; 0: it is."""
        times = self._times.get(key, ())
        return max(0.0, times[-most] + WINDOW_S - self.now()) if len(times) >= most else 0.0

    def count(self, key: Hashable, most: int) -> None:
        """Count an event now; the last `most` are kept."""
        now = self.now()
        if len(self._times) >= _MOST_KEYS:
            self._times = {other: times for other, times in self._times.items() if times[-1] > now - WINDOW_S}
        self._times.setdefault(key, deque(maxlen=most)).append(now)

    def take_back(self, key: Hashable) -> None:
        """Remove the last event of a key."""
        times = self._times.get(key)
        if times:
            times.pop()
        if not times:
            self.forget(key)

    def forget(self, key: Hashable) -> None:
        """Remove all events of a key."""
        self._times.pop(key, None)


@define
class LoginAttempts:
    """Recent failed logins and those in progress.

    `now` is monotonic, in seconds.

    MOST_WIDE slows down the guessing of many names, or from many addresses. It does not hold for a name from an
    address that gave the right password before, so that guessing elsewhere locks out no user.
    """

    now: Callable[[], float]
    _failed: Window = field(init=False)
    _right: dict[tuple[str, str], None] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._failed = Window(self.now)

    def begin(self, name: str, address: str) -> float:
        """Count an attempt before its trial; return the time to wait.

        Parallel attempts so share the limit. The time is in seconds, for this name at this address; only an
        attempt with 0 is counted and may be tried.
        """
        with self._lock:
            limits = self._limits(name, address)
            pair = (name, origin(address))
            asked = limits if pair not in self._right else {pair: MOST}
            wait_s = max(self._failed.wait_s(key, most) for key, most in asked.items())
            if not wait_s:
                for key, most in limits.items():
                    self._failed.count(key, most)
            return wait_s

    def succeeded(self, name: str, address: str) -> None:
        """Remove a right attempt, and earlier wrong ones from there."""
        with self._lock:
            pair = (name, origin(address))
            for key in self._limits(name, address):
                self._failed.take_back(key)
            self._failed.forget(pair)
            self._right.pop(pair, None)
            self._right[pair] = None
            if len(self._right) > _MOST_KEYS:
                del self._right[next(iter(self._right))]

    def _limits(self, name: str, address: str) -> dict[Hashable, int]:
        source = origin(address)
        return {(name, source): MOST, f"name {name}": MOST_WIDE, f"address {source}": MOST_WIDE}


_IPV6_PREFIX: Final = 64  # bits; one host chooses the others by itself (RFC 4291, 2.5.1)


def origin(address: str) -> str:
    """The key of a client's limits.

    It is the address for IPv4, the network of 64 bits for IPv6, and one key for loopback.
    """
    try:
        plain = plain_address(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return address
    if plain.is_loopback:
        return "127.0.0.1"  # a user of this host has all of 127.0.0.0/8
    if plain.version == 4 or plain.is_link_local:
        return str(plain)
    return str(ipaddress.ip_network((int(plain), _IPV6_PREFIX), strict=False))


def plain_address(address: _Address) -> _Address:
    """An address in its one form; ::ffff:192.0.2.7 is 192.0.2.7."""
    return getattr(address, "ipv4_mapped", None) or address
