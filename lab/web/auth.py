"""Users, tokens, sessions and roles of `lab web`.

A viewer may look, an operator may act, and a program with a token may do what its scope allows. A person is recognised
by a session, by a reverse proxy's header, by a password that comes with each request, or by the link that was printed
where the site was started. Only a session or a proxy makes an operator: a browser that remembers a password also sends
it with requests that other sites cause.
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

# Users are in a file of their own, which `lab web user add` writes, since the web-config file of Prometheus' exporter
# toolkit has no field for a role. The password hashes are the same (bcrypt).
Role = Literal["viewer", "operator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
TokenScope = Literal["read", "reserve", "run"]
SCOPES: Final[tuple[TokenScope, ...]] = get_args(TokenScope)
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
SHORTEST, LONGEST = 8, 72  # of a password: at least so many characters, at most so many bytes (the limit of bcrypt)
_NO_USER: Final = b"$2b$12$" + b"." * 53  # no password has this hash, but to try one takes as long as for a user
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FORM: Final = '{"users": {"lena": {"role": "operator", "password": "$2b$..."}}}'


@frozen
class User:
    """A user of the site: a person, or a program with a token.

    Attributes:
        secret: the bcrypt hash of the password; empty: a person who comes through a proxy, or a program.
        token: the SHA-256 of a program's token, in hex; empty: a person. A plain hash suffices, since the token is
            random and cannot be guessed.
        scope: what the token allows.
    """

    role: Role
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    scope: frozenset[TokenScope] = frozenset()


def default_file() -> Path:
    """Return the default file of users (XDG Base Directory Specification)."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".config") / "boardlab" / "web-users.json"


@define
class Users:
    """The users in a file, which is read again after each change."""

    path: Path
    _stamp: tuple[int, int, int] | None = field(default=None, init=False)  # of the file that `_users` was read from
    _users: Mapping[str, User] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _trying: threading.Lock = field(factory=threading.Lock, init=False)  # one hash at a time: guessers take one core

    def all(self) -> Mapping[str, User]:
        """Return the users by name; none if there is no file.

        Raises:
            ConfigurationError: the file cannot be read, other users of the host may read it, or it is not a file of
                users.
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
        """Return whether a password is right; an unknown name takes as long to try.

        Raises:
            ConfigurationError: as for `all`.
        """
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
        """Add a user or replace one; return whether the user is new.

        Args:
            password: the new password; None: the user comes through a proxy only.

        Raises:
            ConfigurationError: the name or the password is not allowed, or the file cannot be read or written.
        """
        if password is not None and not (len(password) >= SHORTEST and len(password.encode()) <= LONGEST):
            raise ConfigurationError(f"a password has at least {SHORTEST} characters, and at most {LONGEST} bytes")
        secret = "" if password is None else bcrypt.hashpw(password.encode(), bcrypt.gensalt()).decode()
        return self._store_user(name, User(role, secret))

    def add_token(self, name: str, scope: Collection[TokenScope]) -> str:
        """Add a program or give it a new token; return the token.

        The file has only the SHA-256 of the token, so that it cannot be read again later.

        Raises:
            ConfigurationError: the name is not allowed, or the file cannot be read or written.
        """
        token = f"{name}.{secrets.token_urlsafe(32)}"
        role: Role = "operator" if {*scope} - {"read"} else "viewer"
        self._store_user(name, User(role, token=_sha256(token), scope=frozenset(scope)))
        return token

    def of_token(self, token: str) -> tuple[str, User] | None:
        """Return the name and the user of the program with this token; None: there is none."""
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
        """Remove a user; their sessions end at once.

        Raises:
            ConfigurationError: there is no such user, or the file cannot be read or written.
        """
        with self._changing() as users:
            if users.pop(name, None) is None:
                raise ConfigurationError(f"no user {name!r:.80}; there are: {', '.join(sorted(users)) or 'none'}")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, User]]:
        """Yield the users for a change, under a lock; then replace the file.

        If the block raises an exception, the file stays as it was.
        """
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
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # its text may contain a password
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


SESSION_S: Final = 12 * 3600.0
_MOST_SESSIONS: Final = 10_000


@frozen
class Person:
    """The person or program behind a request.

    Attributes:
        name: the user's name; empty: somebody unknown, who may look.
        csrf: the token that forms on this person's pages carry; empty: this person may change nothing by a form.
        session: the person is logged in and can log out.
        scope: what the program's token allows; None: a person.
    """

    name: str
    role: Role = "viewer"
    csrf: str = ""
    session: bool = False
    scope: frozenset[TokenScope] | None = None

    @property
    def page_key(self) -> tuple[str, ...]:
        """The key by which pages are cached: it differs where the pages of two persons differ."""
        return self.name, self.role, str(self.session), self.csrf

    @property
    def acts(self) -> bool:
        """True if this person may change something."""
        return self.role == "operator" and bool(self.name and self.csrf)


NOBODY: Final = Person("")


@frozen
class Proxy:
    """A reverse proxy that is trusted to name the person in a header.

    Attributes:
        addresses: the addresses that it connects from.
        header: the name of the header.
    """

    addresses: frozenset[str]
    header: str


@frozen
class _Session:
    name: str
    ends_s: float  # by the clock `Access.now`
    secret: str | None  # the password's hash at the login; None: it began with the printed link


@define
class Access:
    """Decides who is behind a request, and keeps the sessions.

    Attributes:
        users: the users in the file; None: they are not used.
        guard: the users of the web-config file, who may look.
        proxy: the trusted reverse proxy; None: there is none.
        owner, token: on loopback without users: the person who started the site, and the secret in the printed link.
        own_name: the only host name at which `token` is accepted; empty: any. A browser sends the cookies of a host
            to all ports of that host. Those of 127.0.0.1 would thus reach a server of another user on this machine;
            those of a random name reach only this site.
        open: everybody may look.
        now: a monotonic clock, in seconds.
        attempts: limits failed logins.
        tried: lets one password be tried at a time.
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
    # SHA-256 of an authorization header that was right -> the name, and the password's hash at that time
    _known: dict[bytes, tuple[str, str]] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self.attempts = LoginAttempts(self.now)

    def person(self, headers: Mapping[str, str], cookie: str, address: str) -> Person | None:
        """Return the person behind a request; None: this person may not look.

        Args:
            headers: the request's headers, with their names in lower case.
            cookie: the session cookie; empty: none.
            address: the address that the connection comes from.

        Raises:
            ConfigurationError: the file of users cannot be read.
        """
        person = self._of_session(cookie) or self._of_token(headers) or self._of_proxy(headers, address)
        return person or (Person("") if self.open else None)

    def recall(self, authorization: str | None) -> Person | None:
        """Return the person whose password was right in an earlier request, without trying it again.

        Args:
            authorization: the authorization header.
        """
        name, secret = self._known.get(_digest(authorization), ("", ""))
        if name and self._secret(name) == secret:
            return Person(name)
        if authorization and self.guard.asks and self.guard.knows(authorization):
            return Person("")
        return None

    def still(self, person: Person, headers: Mapping[str, str], cookie: str, address: str) -> bool:
        """Return whether a request still has the same person; for answers that take long."""
        try:
            return (self.person(headers, cookie, address) or self.recall(headers.get("authorization"))) == person
        except BoardlabError:  # the file of users cannot be read
            return False

    def by_password(self, authorization: str, name: str, password: str) -> Person | None:
        """Try the password of a request, which takes a while; None: it is wrong.

        The person may only look.

        Args:
            authorization: the whole header, by which `recall` knows the person later.
            name, password: the name and the password in it.
        """
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
        """Begin a session; return its cookie, or None if the name or password is wrong."""
        if self.users is None or not self.users.right(name, password):
            return None
        return self._begin(name, self._secret(name) or "")

    def log_in_here(self, token: str, host: str) -> str | None:
        """Begin a session of the owner; return its cookie, or None if the token is wrong.

        Args:
            token: the secret of the printed link.
            host: the host name that the browser used; see `own_name`.
        """
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
        name = names[0] if len(names) == 1 else ""  # two: the proxy passed on a header that the browser sent
        if not NAME.fullmatch(name):
            return None
        user = self.users.all().get(name) if self.users is not None else None
        # A person with the name of a program must not get the program's role.
        return Person(name, user.role if user and not user.token else "viewer", self._csrf(f"proxy {name}"))

    def _secret(self, name: str) -> str | None:
        user = self.users.all().get(name) if self.users is not None else None
        return user.secret if user else None

    def _csrf(self, login: str) -> str:
        """Return the form token of a login, which no other site can compute."""
        return hmac.new(self._key, login.encode(), hashlib.sha256).hexdigest()


def _plain(address: str) -> str:
    try:
        return str(plain_address(ipaddress.ip_address(address)))
    except ValueError:
        return ""


def _digest(authorization: str | None) -> bytes:
    return hashlib.sha256((authorization or "").encode()).digest()


BROWSERS_LOOPBACK: Final = ("127.0.0.1", "::1")  # a browser resolves NAME.localhost to one of these (RFC 6761, 6.3)
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_VERIFIED: Final = "client_auth_type: RequireAndVerifyClientCert"
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def access_of(
    host: str, protection: WebConfig | None, users: Users, proxies: Sequence[str] = (), header: str | None = None
) -> Access:
    """Build the access that the options of `lab web` ask for.

    On loopback the site may do without users: everybody on the host may look, and the printed link makes an operator.
    A site that other machines can reach needs TLS and users.

    Args:
        host: the address that the site listens at.
        protection: the web-config file; None: there is none.
        users: the file of users.
        proxies: the addresses of `--trust-proxy`.
        header: the header of `--user-header`.

    Raises:
        ConfigurationError: the site would be open to other machines without TLS or without users, an option is wrong,
            or the file of users cannot be read.
    """
    address = _address("--listen", host)
    proxy = _proxy(protection, proxies, header)
    has_users = bool(users.all())
    tls = protection is not None and protection.tls_server_config is not None
    asks = has_users or proxy is not None or (protection is not None and bool(protection.basic_auth_users))
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
        users=users if has_users or proxy is not None else None,
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
    """Return whether an address is, or may be, one of this host's."""
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as error:
        # Other errors do not tell, e.g. that of a link-local address without its interface: be careful then.
        return error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
    return True


def _address(option: str, text: str) -> _Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} {text}: expected an IP address, e.g. 127.0.0.1 or ::1") from error
