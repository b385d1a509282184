"""TLS and passwords of a server, and the limits of wrong passwords."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
import ssl
import threading
from collections import deque
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import anyio
import bcrypt
import cattrs
from anyio import to_thread
from attrs import Factory, define, field, frozen

from lab import yamlfile
from lab.errors import ConfigurationError

# --- The web-config file of Prometheus' exporter toolkit ---
# Form: github.com/prometheus/exporter-toolkit, docs/web-configuration.md; `promtool check web-config FILE` knows it
# too.


BCRYPT: Final = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFIED: Final = "RequireAndVerifyClientCert"
_CLIENT_AUTH: Final = ("NoClientCert", _VERIFIED)


@frozen
class Tls:
    """tls_server_config. Files are relative to the web-config file."""

    cert_file: str
    key_file: str
    client_auth_type: str = "NoClientCert"
    client_ca_file: str = ""
    min_version: str = "TLS12"


@frozen
class WebConfig:
    """A web-config file.

    Attributes:
        basic_auth_users: name -> bcrypt hash of the password.
    """

    tls_server_config: Tls | None = None
    basic_auth_users: dict[str, str] = field(default=Factory(dict), repr=False)
    folder: Path = Path()

    @property
    def authenticates(self) -> bool:
        """Return whether a password or a verified certificate is required."""
        tls = self.tls_server_config
        return bool(self.basic_auth_users) or (tls is not None and tls.client_auth_type == _VERIFIED)

    def context(self) -> ssl.SSLContext | None:
        """The TLS context of the server's sockets; None without TLS.

        Raises:
            ConfigurationError: a certificate or key cannot be read, or they do not fit.
        """
        tls = self.tls_server_config
        if tls is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[tls.min_version]
        try:
            context.load_cert_chain(self.folder / tls.cert_file, self.folder / tls.key_file)
            if tls.client_auth_type == _VERIFIED:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.folder / tls.client_ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigurationError(
                f"the web-config's certificates in {self.folder} cannot be used ({error}); mend cert_file, key_file "
                "and client_ca_file"
            ) from error
        return context


def load(path: Path) -> WebConfig:
    """Read a web-config file.

    Raises:
        ConfigurationError: the file cannot be read, or asks for more than this server has.
    """
    try:
        data = yamlfile.load(path) or {}
    except ConfigurationError as error:  # its message may quote a password
        cause = error.__cause__ or error
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else type(cause).__name__
        raise ConfigurationError(f"{path}: cannot be read as a web-config file: {reason}") from None
    converter = cattrs.Converter(forbid_extra_keys=True)
    try:
        config = converter.structure({**data, "folder": str(path.absolute().parent)}, WebConfig)
    except (cattrs.BaseValidationError, TypeError, ValueError) as error:
        reasons = "; ".join(cattrs.transform_error(error)) if isinstance(error, cattrs.BaseValidationError) else ""
        raise ConfigurationError(
            f"{path}: {reasons or 'not a mapping'}; this server knows tls_server_config (cert_file, key_file, "
            "client_auth_type, client_ca_file, min_version) and basic_auth_users"
        ) from error
    _check(path, config)
    return config


def check_address(host: str, config: WebConfig | None) -> None:
    """Refuse to listen for other machines without TLS and authentication.

    Raises:
        ConfigurationError: `host` is no IP address, or one that is not loopback and not protected.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise ConfigurationError(
            f"--listen {host}: expected the IP address of an interface, e.g. 127.0.0.1:9870 or [::1]:9870"
        ) from error
    if address.is_loopback:
        return
    if config is None or config.tls_server_config is None or not config.authenticates:
        raise ConfigurationError(
            f"--listen {host} is open to other machines: that needs TLS and authentication. Give --web-config a file "
            f"with tls_server_config and either basic_auth_users or client_auth_type: {_VERIFIED}; or listen "
            "on 127.0.0.1"
        )


def _check(path: Path, config: WebConfig) -> None:
    tls = config.tls_server_config
    if tls is not None and tls.min_version not in _VERSIONS:
        raise ConfigurationError(f"{path}: min_version {tls.min_version!r}: expected {' or '.join(_VERSIONS)}")
    if tls is not None and tls.client_auth_type not in _CLIENT_AUTH:
        raise ConfigurationError(
            f"{path}: client_auth_type {tls.client_auth_type!r}: expected {' or '.join(_CLIENT_AUTH)}"
        )
    if tls is not None and (tls.client_auth_type == _VERIFIED) != bool(tls.client_ca_file):
        raise ConfigurationError(f"{path}: client_auth_type: {_VERIFIED} and client_ca_file need each other")
    for user, secret in config.basic_auth_users.items():
        if not BCRYPT.fullmatch(secret):
            raise ConfigurationError(
                f"{path}: the password of {user!r} is not a bcrypt hash; make one: htpasswd -nBC 10 {user}"
            )


# --- Passwords ---


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
        self._known: frozenset[bytes] = frozenset()

    @property
    def asks(self) -> bool:
        """Return whether there are users."""
        return bool(self._users)

    def knows(self, header: str | None) -> bool:
        """Return whether this Authorization header, or none, needs no trial."""
        digest = self._digest(header)
        return not self._users or any(hmac.compare_digest(digest, known) for known in self._known)

    def admits(self, header: str | None) -> bool:
        """Try the password of an Authorization header; bcrypt takes its time."""
        user, secret, password = self._read(header)
        right = bcrypt.checkpw(password.encode()[:_PASSWORD_BYTES], secret.encode()) and user in self._users
        if right:
            self._known |= {self._digest(header)}
        return right

    def _digest(self, header: str | None) -> bytes:
        return hashlib.sha256("\0".join(self._read(header)).encode()).digest()

    def _read(self, header: str | None) -> tuple[str, str, str]:
        user, _, password = decoded(header).partition(":")
        return user, self._users.get(user, _NO_USER), password


class OneAtATime:
    """Tries one password at a time, in a thread of its own.

    Guessing then takes one core at most.
    """

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None  # made when the server runs

    async def __call__(self, tries: Callable[..., _Answer], *given: str) -> _Answer:
        """The answer of a function that tries a password, from a thread."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(1)
        return await to_thread.run_sync(tries, *given, limiter=self._limiter)


def decoded(header: str | None) -> str:
    """`name:password` of an Authorization header (RFC 7617), or nothing."""
    kind, _, text = (header or "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


# --- Wrong passwords in a sliding window: limits for a name from an address, and higher ones for each alone ---


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
            self._times = {each: times for each, times in self._times.items() if times[-1] > now - WINDOW_S}
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
        its = origin(address)
        return {(name, its): MOST, f"name {name}": MOST_WIDE, f"address {its}": MOST_WIDE}


# --- Addresses of clients ---


_IPV6_PREFIX: Final = 64  # bits; one host chooses the others by itself (RFC 4291, 2.5.1)


def origin(address: str) -> str:
    """The key of a client's limits.

    It is the address for IPv4, the network of 64 bits for IPv6, and one key for loopback.
    """
    try:
        its = plain_address(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return address
    if its.is_loopback:
        return "127.0.0.1"  # a user of this host has all of 127.0.0.0/8
    if its.version == 4 or its.is_link_local:
        return str(its)
    return str(ipaddress.ip_network((int(its), _IPV6_PREFIX), strict=False))


def plain_address(address: _Address) -> _Address:
    """An address in its one form; ::ffff:192.0.2.7 is 192.0.2.7."""
    return getattr(address, "ipv4_mapped", None) or address
