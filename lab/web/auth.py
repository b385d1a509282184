"""Users, tokens, sessions and roles of `lab web`.

A viewer may look, an operator may act, a program with a token may do what its scope has. Only a session or a proxy
makes an operator, since a browser sends a password that it remembers with requests of other sites, too.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import bcrypt
from attrs import define, field, frozen
from starlette.datastructures import Headers

from lab.errors import BoardlabError, ConfigurationError
from lab.host import process
from lab.http.access import Guard, LoginAttempts, OneAtATime, plain_address
from lab.http.web_config import BCRYPT, WebConfig

# `lab web user add` writes it. The web-config file of Prometheus' exporter toolkit has no place for a role, so this is
# another file; the hashes are the same (bcrypt).
Role = Literal["viewer", "operator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
TokenScope = Literal["read", "reserve", "run"]
SCOPES: Final[tuple[TokenScope, ...]] = get_args(TokenScope)
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
SHORTEST, LONGEST = 8, 72  # characters of a password; bytes that bcrypt takes
_NO_USER: Final = b"$2b$12$" + b"." * 53  # no password has this hash; it costs as much to try as a user's
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FORM: Final = '{"users": {"lena": {"role": "operator", "password": "$2b$..."}}}'


@frozen
class User:
    """A user.

    Attributes:
        secret: the bcrypt hash of the password; empty: comes through a proxy, or is a program with a token.
        token: SHA-256 of a program's token, which cannot be guessed.
        scope: what the token may do.
    """

    role: Role
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    scope: frozenset[TokenScope] = frozenset()


def default_file() -> Path:
    """The default file of users (XDG Base Directory Specification)."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".config") / "boardlab" / "web-users.json"


@define
class Users:
    """The users of a file, read again after each change."""

    path: Path
    _stamp: tuple[int, int, int] | None = field(default=None, init=False)
    _users: Mapping[str, User] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _trying: threading.Lock = field(factory=threading.Lock, init=False)  # guessing must not take all cores

    def all(self) -> Mapping[str, User]:
        """Name -> user; none where there is no file.

        Raises:
            ConfigurationError: the file cannot be read, others may read it, or it is not of this form.
        """
        with self._lock:
            try:
                status = self.path.stat()
            except FileNotFoundError:
                self._stamp, self._users = None, {}
                return self._users
            except OSError as error:
                raise ConfigurationError(f"{self.path}: cannot be read: {error.strerror}") from error
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            if stamp != self._stamp:
                if status.st_mode & 0o077:
                    raise ConfigurationError(
                        f"{self.path} has password hashes that others may read: chmod 600 {self.path}"
                    )
                self._users, self._stamp = _read(self.path), stamp
            return self._users

    def right(self, name: str, password: str) -> bool:
        """Try a user's password; an unknown name takes as long."""
        user = self.all().get(name)
        secret = user.secret.encode() if user and user.secret else _NO_USER
        password_bytes = password.encode()
        with self._trying:
            return (
                bcrypt.checkpw(password_bytes[:LONGEST], secret)
                and secret != _NO_USER
                and len(password_bytes) <= LONGEST
            )

    def add(self, name: str, role: Role, password: str | None) -> bool:
        """Add a user or change one; return whether the user is new.

        Args:
            password: None: the user comes through a proxy only.

        Raises:
            ConfigurationError: a wrong name or password, or the file cannot be used.
        """
        if password is not None and not (len(password) >= SHORTEST and len(password.encode()) <= LONGEST):
            raise ConfigurationError(f"a password has at least {SHORTEST} characters, and at most {LONGEST} bytes")
        secret = "" if password is None else bcrypt.hashpw(password.encode(), bcrypt.gensalt()).decode()
        return self._store_user(name, User(role, secret))

    def add_token(self, name: str, scope: Collection[TokenScope]) -> str:
        """Add a program, or give it a new token; return the token, which is kept as its SHA-256 only.

        Raises:
            ConfigurationError: a wrong name, or the file cannot be used.
        """
        token = f"{name}.{secrets.token_urlsafe(32)}"
        role: Role = "operator" if {*scope} - {"read"} else "viewer"
        self._store_user(name, User(role, token=_sha256(token), scope=frozenset(scope)))
        return token

    def of_token(self, token: str) -> tuple[str, User] | None:
        """The program with this token, and its name; None: there is none."""
        name = token.rpartition(".")[0]
        user = self.all().get(name)
        is_right = user is not None and user.token and hmac.compare_digest(user.token, _sha256(token))
        return (name, user) if user is not None and is_right else None

    def _store_user(self, name: str, user: User) -> bool:
        if not NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r:.80}: a name has letters, digits and . _ @ -, at most 64 of them")
        with self._changing() as users:
            new = name not in users
            users[name] = user
        return new

    def remove(self, name: str) -> None:
        """Remove a user; sessions of that name end at once.

        Raises:
            ConfigurationError: there is none, or the file cannot be used.
        """
        with self._changing() as users:
            if users.pop(name, None) is None:
                raise ConfigurationError(f"no user {name!r:.80}; there are: {', '.join(sorted(users)) or 'none'}")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, User]]:
        """Lock the users for a change, and write them atomically."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock_file = self.path.with_name(f"{self.path.name}.lock")
            with os.fdopen(os.open(lock_file, os.O_CREAT | os.O_RDWR, 0o600)) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                users = dict(self.all())
                yield users
                new = self.path.with_name(f"{self.path.name}.new")
                new.unlink(missing_ok=True)
                with os.fdopen(
                    os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8"
                ) as file:
                    json.dump({"users": {n: _document(u) for n, u in sorted(users.items())}}, file, indent=2)
                    file.write("\n")
                    file.flush()
                    os.fsync(file.fileno())
                new.replace(self.path)
        except OSError as error:
            raise ConfigurationError(
                f"{self.path}: cannot be written: {error.strerror}; name another --users FILE"
            ) from error


def _document(user: User) -> dict[str, Any]:
    password = {"password": user.secret} if user.secret else {}
    return {"role": user.role} | password | ({"token": user.token, "scope": sorted(user.scope)} if user.token else {})


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _read(path: Path) -> dict[str, User]:
    try:
        users = json.loads(path.read_text(encoding="utf-8"))["users"]
        users_of_file = {
            str(name): User(
                entry["role"], entry.get("password", ""), entry.get("token", ""), frozenset(entry.get("scope", []))
            )
            for name, entry in users.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # its words may be a password's
        raise ConfigurationError(f"{path} is no file of users ({type(error).__name__}); it is like {_FORM}") from None
    for name, user in users_of_file.items():
        if (
            not NAME.fullmatch(name)
            or user.role not in ROLES
            or not (user.secret == "" or BCRYPT.fullmatch(user.secret))
            or not (user.token == "" or _SHA256.fullmatch(user.token))
            or not user.scope <= {*SCOPES}
        ):
            raise ConfigurationError(
                f"{path}: {name!r:.80} is wrong; it is like {_FORM}: `lab web user add` writes it"
            )
    return users_of_file


# --- Persons: by a session, a proxy's header, a password with each request, or the link of the site's owner ---
# A viewer may look, an operator may act. Only a session or a proxy makes an operator, since a browser sends a password
# that it remembers with requests of other sites, too.
SESSION_S: Final = 12 * 3600.0
_MOST_SESSIONS: Final = 10_000


@frozen
class Person:
    """The person behind a request.

    Attributes:
        name: empty: unknown.
        csrf: what a form of this person's pages carries; empty: nothing may be changed.
        session: has one, which can be ended.
        scope: of a program with a token, which a browser never sends by itself; None: a person.
    """

    name: str
    role: Role = "viewer"
    csrf: str = ""
    session: bool = False
    scope: frozenset[TokenScope] | None = None

    @property
    def page_key(self) -> tuple[str, ...]:
        """Tells this person's pages from others'."""
        return self.name, self.role, str(self.session), self.csrf

    @property
    def acts(self) -> bool:
        """True if this person may change something."""
        return self.role == "operator" and bool(self.name and self.csrf)


NOBODY: Final = Person("")


@frozen
class Proxy:
    """A reverse proxy that names the person in a header."""

    addresses: frozenset[str]
    header: str


@frozen
class _Session:
    name: str
    ends_s: float
    secret: str | None  # the password's hash then; None: by the link that was printed where the site was started


@define
class Access:
    """Access to the site.

    Attributes:
        users: of a file; None: there is none.
        guard: the users of the web-config file, who may look.
        owner, token: on loopback without users: who started the site, and what proves it.
        open: everybody may look.
        own_name: the only name by which the token is taken; empty: any. A browser sends cookies of a host to all its
            ports, so that a server of another user would be sent those of 127.0.0.1, but never those of a name that
            nobody else has.
        now: monotonic, in seconds.
    """

    users: Users | None = None
    guard: Guard = field(factory=lambda: Guard(None))
    proxy: Proxy | None = None
    owner: str = ""
    token: str = ""
    own_name: str = ""
    open: bool = False
    now: Callable[[], float] = time.monotonic
    attempts: LoginAttempts = field(init=False)
    tried: OneAtATime = field(factory=OneAtATime, init=False)
    _sessions: dict[str, _Session] = field(factory=dict, init=False)
    _key: bytes = field(factory=lambda: secrets.token_bytes(32), init=False)
    _known: dict[bytes, tuple[str, str]] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self.attempts = LoginAttempts(self.now)

    def person(self, headers: Mapping[str, str], cookie: str, address: str) -> Person | None:
        """The person behind a request; None: one who may not look.

        Args:
            headers: names in lower case.
            cookie: of a session.
            address: which the connection comes from.
        """
        person = self._of_session(cookie) or self._of_token(headers) or self._of_proxy(headers, address)
        return person or (Person("") if self.open else None)

    def recall(self, authorization: str | None) -> Person | None:
        """The person of a password that was right before."""
        name, secret = self._known.get(_digest(authorization), ("", ""))
        if name and self._secret(name) == secret:
            return Person(name)
        if authorization and self.guard.asks and self.guard.knows(authorization):
            return Person("")
        return None

    def still(self, person: Person, headers: Mapping[str, str], cookie: str, address: str) -> bool:
        """True if a request still has the same person; for long answers."""
        try:
            return (self.person(headers, cookie, address) or self.recall(headers.get("authorization"))) == person
        except BoardlabError:  # the file of users cannot be read
            return False

    def by_password(self, authorization: str, name: str, password: str) -> Person | None:
        """Try a password, which takes its time; such a person only looks."""
        if self.guard.asks and self.guard.admits(authorization):
            return Person("")
        if self.users is not None and self.users.right(name, password):
            with self._lock:
                if len(self._known) >= _MOST_SESSIONS:
                    self._known.clear()
                self._known[_digest(authorization)] = (name, self._secret(name) or "")
            return Person(name)
        return None

    def log_in(self, name: str, password: str) -> str | None:
        """The cookie of a new session; None: a wrong name or password."""
        if self.users is None or not self.users.right(name, password):
            return None
        return self._begin(name, self._secret(name) or "")

    def log_in_here(self, token: str, host: str) -> str | None:
        """The cookie of the owner's session; None: wrong token or host."""
        if not self.token or host != (self.own_name or host):
            return None
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        return self._begin(self.owner, None)

    def log_out(self, cookie: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(cookie, None)

    def _begin(self, name: str, secret: str | None) -> str:
        cookie, now = secrets.token_urlsafe(32), self.now()
        with self._lock:
            for old in [key for key, session in self._sessions.items() if session.ends_s <= now]:
                del self._sessions[old]
            while len(self._sessions) >= _MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[cookie] = _Session(name, now + SESSION_S, secret)
        return cookie

    def _of_session(self, cookie: str) -> Person | None:
        with self._lock:
            session = self._sessions.get(cookie) if cookie else None
        if session is None or session.ends_s <= self.now():
            return None
        if session.secret is None:
            return Person(session.name, "operator", self._csrf(cookie), session=True)
        user = self.users.all().get(session.name) if self.users is not None else None
        if user is None or user.secret != session.secret:  # removed, or the password was changed
            return None
        return Person(session.name, user.role, self._csrf(cookie), session=True)

    def _of_token(self, headers: Mapping[str, str]) -> Person | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if self.users is None or scheme.lower() != "bearer":
            return None
        program = self.users.of_token(token.strip())
        return Person(program[0], program[1].role, scope=program[1].scope) if program else None

    def _of_proxy(self, headers: Mapping[str, str], address: str) -> Person | None:
        if self.proxy is None or _plain(address) not in self.proxy.addresses:
            return None
        header = self.proxy.header.lower()
        names = headers.getlist(header) if isinstance(headers, Headers) else [headers.get(header, "")]
        name = names[0] if len(names) == 1 else ""  # twice: the proxy let through what it was sent
        if not NAME.fullmatch(name):
            return None
        user = self.users.all().get(name) if self.users is not None else None
        # A program's name is none that a proxy may give a person.
        return Person(name, user.role if user and not user.token else "viewer", self._csrf(f"proxy {name}"))

    def _secret(self, name: str) -> str | None:
        user = self.users.all().get(name) if self.users is not None else None
        return user.secret if user else None

    def _csrf(self, of: str) -> str:
        return hmac.new(self._key, of.encode(), hashlib.sha256).hexdigest()


def _plain(address: str) -> str:
    try:
        return str(plain_address(ipaddress.ip_address(address)))
    except ValueError:
        return ""


def _digest(authorization: str | None) -> bytes:
    return hashlib.sha256((authorization or "").encode()).digest()


# --- Access by the options of `lab web`: other machines need more than loopback ---


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
    """The access that the options of `lab web` give.

    Args:
        host: the address that the site listens at.
        proxies, header: `--trust-proxy` and `--user-header`.

    Raises:
        ConfigurationError: it would be open to other machines without TLS, or to people whom nobody knows; or an
            option is wrong.
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
            f"--listen {host} is open to other machines: that needs TLS and users. It lacks {missing}; or listen on "
            "127.0.0.1"
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
        raise ConfigurationError(
            "--trust-proxy and --user-header need each other: the proxy's address, and its header"
        )
    if not header:
        return None
    if not _HEADER.fullmatch(header):
        raise ConfigurationError(f"--user-header {header!r:.80}: the name of a header, e.g. X-Forwarded-User")
    proxy_addresses = [plain_address(_address("--trust-proxy", proxy_address)) for proxy_address in proxies]
    tls = protection.tls_server_config if protection is not None else None
    verified = tls is not None and bool(tls.client_ca_file)
    here = [proxy_address for proxy_address in proxy_addresses if _of_this_host(proxy_address)]
    if here and not verified:
        raise ConfigurationError(
            f"--trust-proxy {here[0]}: any user of this host could pass for a proxy on it. Have the proxy come with a "
            "certificate "
            f"({_VERIFIED} in the --web-config file), or from another machine"
        )
    return Proxy(frozenset(map(str, proxy_addresses)), header)


def _of_this_host(address: _Address) -> bool:
    """True if a socket can be bound to this address."""
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
