"""People at `lab web`: browsers that log in and send forms, and who may come in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import bcrypt
import requests
from attrs import define, field, frozen

from lab.results import Store, open_store
from lab.web.auth import Access, Users

BOARD = "SK-AM62-0042"
PASSWORDS = {"olga": "olga's password", "vera": "vera's password"}
TIMEOUT_S = 60


class Time:
    """A monotonic clock that a test turns."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@frozen
class GuardedSite:
    """A site that asks who comes."""

    url: str
    folder: Path
    time: Time

    @property
    def database(self) -> str:
        return str(self.folder / "results.db")

    def store(self) -> Store:
        return open_store(self.database)


def users(folder: Path) -> Users:
    """Olga is an operator, vera a viewer."""
    roles = {"olga": "operator", "vera": "viewer"}
    entries = {name: {"role": role, "password": _hash(PASSWORDS[name])} for name, role in roles.items()}
    file = folder / "users.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps({"users": entries}))
    return Users(file)


def _hash(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()  # as quick as bcrypt allows


def access(folder: Path, now: Time | None = None) -> Access:
    """Only they come in."""
    return Access(users=users(folder), now=now or Time())


@define
class Browser:
    """One that sends what browsers send: its cookies, and with a form where the page was from."""

    url: str
    session: requests.Session = field(factory=requests.Session)
    own_host: str = ""  # name and port by which it asks; empty: those of the address

    def __attrs_post_init__(self) -> None:
        if self.own_host:
            self.session.headers["Host"] = self.own_host
        self.session.trust_env = False  # else $REQUESTS_CA_BUNDLE has its way

    def get(self, path: str, **options: object) -> requests.Response:
        headers = {"Accept": "text/html"}
        return self.session.get(self.url + path, headers=headers, timeout=TIMEOUT_S, **options)  # type: ignore[arg-type]

    def log_in(self, name: str, password: str | None = None) -> requests.Response:
        word = PASSWORDS[name] if password is None else password
        return self.send("/login", csrf=False, name=name, password=word)

    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.get("/runs").text)
        return found[1] if found else ""

    def send(self, path: str, *, csrf: bool = True, origin: str | None = None, **fields: str) -> requests.Response:
        """Send a form; `origin`: of the page that has it, of this site where it is None."""
        own = (f"http://{self.own_host}" if self.own_host else self.url) if origin is None else origin
        headers = {"Origin": own, "Accept": "text/html"} if own else {"Accept": "text/html"}
        data = {"csrf": self.csrf(), **fields} if csrf else fields
        return self.session.post(self.url + path, data=data, headers=headers, allow_redirects=False, timeout=TIMEOUT_S)


def logged_in(url: str, name: str) -> Browser:
    """A browser of somebody who has logged in."""
    found = Browser(url)
    answer = found.log_in(name)
    assert (answer.status_code, answer.headers["location"]) == (303, "/"), answer.text
    return found
