"""Who may look and who may act: names, roles and password hashes in a file of its own, mode 0600.

`lab web user add` writes it. The web-config file of Prometheus' exporter toolkit has no place for a role, so this is another file;
the hashes are the same (bcrypt).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, get_args

import bcrypt
from attrs import define, field, frozen

from lab.errors import ConfigurationError

Role = Literal["viewer", "operator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
SHORTEST, LONGEST = 8, 72  # characters of a password; bytes that bcrypt takes
_NOBODY: Final = b"$2b$12$" + b"." * 53  # no password has this hash; it costs as much to try as anybody's
_BCRYPT: Final = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_FORM: Final = '{"users": {"lena": {"role": "operator", "password": "$2b$..."}}}'


@frozen
class User:
    """A user; `secret`: the bcrypt hash of the password, empty: comes through a proxy only."""

    role: Role
    secret: str = field(default="", repr=False)


def default_file() -> Path:
    """Where the users of a host's `lab web` are (XDG Base Directory Specification)."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".config") / "boardlab" / "web-users.json"


@define
class Users:
    """The users of a file, read again whenever it was changed."""

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
                found = self.path.stat()
            except FileNotFoundError:
                self._stamp, self._users = None, {}
                return self._users
            except OSError as error:
                raise ConfigurationError(f"{self.path}: cannot be read: {error.strerror}") from error
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            if stamp != self._stamp:
                if found.st_mode & 0o077:
                    raise ConfigurationError(
                        f"{self.path} has password hashes that others may read: chmod 600 {self.path}"
                    )
                self._users, self._stamp = _read(self.path), stamp
            return self._users

    def right(self, name: str, password: str) -> bool:
        """Whether that is the user's password; takes as long for a name that there is not."""
        user = self.all().get(name)
        secret = user.secret.encode() if user and user.secret else _NOBODY
        given = password.encode()
        with self._trying:
            return bcrypt.checkpw(given[:LONGEST], secret) and secret != _NOBODY and len(given) <= LONGEST

    def add(self, name: str, role: Role, password: str | None) -> bool:
        """Add a user or change one; `password` of None: comes through a proxy only. Returns whether the user is new.

        Raises:
            ConfigurationError: a wrong name or password, or the file cannot be used.
        """
        if not NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r:.80}: a name has letters, digits and . _ @ -, at most 64 of them")
        if password is not None and not (len(password) >= SHORTEST and len(password.encode()) <= LONGEST):
            raise ConfigurationError(f"a password has at least {SHORTEST} characters, and at most {LONGEST} bytes")
        secret = "" if password is None else bcrypt.hashpw(password.encode(), bcrypt.gensalt()).decode()
        with self._changing() as users:
            new = name not in users
            users[name] = User(role, secret)
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
        """The users, to be changed by one process at a time, and written in one piece."""
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


def _document(user: User) -> dict[str, str]:
    return {"role": user.role} | ({"password": user.secret} if user.secret else {})


def _read(path: Path) -> dict[str, User]:
    try:
        users = json.loads(path.read_text(encoding="utf-8"))["users"]
        found = {str(name): User(entry["role"], entry.get("password", "")) for name, entry in users.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # its words may be a password's
        raise ConfigurationError(f"{path} is no file of users ({type(error).__name__}); it is like {_FORM}") from None
    for name, user in found.items():
        if (
            not NAME.fullmatch(name)
            or user.role not in ROLES
            or not (user.secret == "" or _BCRYPT.fullmatch(user.secret))
        ):
            raise ConfigurationError(
                f"{path}: {name!r:.80} is wrong; it is like {_FORM}: `lab web user add` writes it"
            )
    return found
