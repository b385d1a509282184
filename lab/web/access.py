"""Who asks, and what that person may do: sessions, a proxy's word, a password with each request, or whoever started the site.

A viewer may look, an operator may act. Only a session or a proxy makes an operator, since a browser sends a password that it
remembers with requests of other sites, too.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import anyio
from anyio import to_thread
from attrs import define, field, frozen
from starlette.datastructures import Headers

from exporters.server import Guard
from lab.errors import BoardlabError
from lab.web.attempts import Attempts
from lab.web.users import NAME, Role, Users

SESSION_S: Final = 12 * 3600.0
_MOST_SESSIONS: Final = 10_000
_Answer = TypeVar("_Answer")


@frozen
class Person:
    """Who asks.

    Attributes:
        name: empty: nobody is known. csrf: what a form of this person's pages carries; empty: nothing may be changed.
        session: has one, which can be ended.
    """

    name: str
    role: Role = "viewer"
    csrf: str = ""
    session: bool = False

    @property
    def acts(self) -> bool:
        """Whether this person may change something."""
        return self.role == "operator" and bool(self.name and self.csrf)


NOBODY: Final = Person("")


@frozen
class Proxy:
    """A reverse proxy that says in a header who asks; `addresses`: where it asks from."""

    addresses: frozenset[str]
    header: str


@frozen
class _Session:
    name: str
    ends_s: float
    secret: str | None  # the password's hash then; None: by the link that was printed where the site was started


@define
class Access:
    """Who may come in.

    Attributes:
        users: of a file; None: there is none. guard: the users of the web-config file, who may look.
        owner, token: on loopback without users: who started the site, and what proves it. open: everybody may look.
        own_name: the only name by which the token is taken; empty: any. A browser sends cookies of a host to all its ports, so
            that a server of another user would be sent those of 127.0.0.1, but never those of a name that nobody else has.
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
    attempts: Attempts = field(init=False)
    _trying: anyio.CapacityLimiter | None = field(default=None, init=False)
    _sessions: dict[str, _Session] = field(factory=dict, init=False)
    _key: bytes = field(factory=lambda: secrets.token_bytes(32), init=False)
    _known: dict[bytes, tuple[str, str]] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self.attempts = Attempts(self.now)

    def person(self, headers: Mapping[str, str], cookie: str, address: str) -> Person | None:
        """Who asks; None: nobody who may look.

        Args:
            headers: names in lower case. cookie: of a session. address: which the connection comes from.
        """
        return self._of_session(cookie) or self._of_proxy(headers, address) or (Person("") if self.open else None)

    async def tried(self, asks: Callable[..., _Answer], *given: str) -> _Answer:
        """What a method says that tries a password, one at a time: guessing takes one core, and no other page's thread."""
        if self._trying is None:
            self._trying = anyio.CapacityLimiter(1)
        return await to_thread.run_sync(asks, *given, limiter=self._trying)

    def known(self, authorization: str | None) -> Person | None:
        """Who asks with a password that was right before."""
        name, secret = self._known.get(_digest(authorization), ("", ""))
        if name and self._secret(name) == secret:
            return Person(name)
        if authorization and self.guard.asks and self.guard.knows(authorization):
            return Person("")
        return None

    def still(self, person: Person, headers: Mapping[str, str], cookie: str, address: str) -> bool:
        """Whether who asked before, with the same words, is let in now as the same person; for answers that last."""
        try:
            return (self.person(headers, cookie, address) or self.known(headers.get("authorization"))) == person
        except BoardlabError:  # the file of users cannot be read: nobody stays
            return False

    def by_password(self, authorization: str, name: str, password: str) -> Person | None:
        """Who asks with a password that has yet to be tried; that takes its time. Such a person only looks."""
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
        """The cookie of a session of whoever started the site; None: a wrong token, or not by the name that is its own."""
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
            for old in [key for key, each in self._sessions.items() if each.ends_s <= now]:
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

    def _of_proxy(self, headers: Mapping[str, str], address: str) -> Person | None:
        if self.proxy is None or _plain(address) not in self.proxy.addresses:
            return None
        header = self.proxy.header.lower()
        given = headers.getlist(header) if isinstance(headers, Headers) else [headers.get(header, "")]
        name = given[0] if len(given) == 1 else ""  # twice: the proxy let through what it was sent
        if not NAME.fullmatch(name):
            return None
        user = self.users.all().get(name) if self.users is not None else None
        return Person(name, user.role if user else "viewer", self._csrf(f"proxy {name}"))

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


def plain_address(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address in its one form; ::ffff:192.0.2.7 is 192.0.2.7."""
    return getattr(address, "ipv4_mapped", None) or address


def _digest(authorization: str | None) -> bytes:
    return hashlib.sha256((authorization or "").encode()).digest()
