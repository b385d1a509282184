"""Locations of results: the database of a URL, and its artifacts."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from lab.errors import ConfigurationError, LabStableError
from lab.redaction import redact, scrub

if TYPE_CHECKING:
    from obstore.store import ObjectStore


PRIVATE_FOLDER, PRIVATE_FILE = 0o770, 0o660  # of results, before the umask: other users of the host do not read them
DATABASE_VARIABLE: Final = "LAB_DB"
ARTIFACTS_VARIABLE: Final = "LAB_ARTIFACTS"
_FORMS: Final = "a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE"


@frozen
class Location:
    """A database and the directory of its artifacts.

    Attributes:
        path: the file of an SQLite database; None for a server.
        shared: URL of the artifacts shared with other hosts; empty: none.
    """

    url: URL = field(repr=lambda url: redact(str(url)))
    path: Path | None
    artifacts: Path
    shared: str = ""

    @property
    def name(self) -> str:
        """The database's name in messages, without a password."""
        if self.path is not None:
            return str(self.path)
        return redact(self.url.set(drivername="postgresql").render_as_string(hide_password=True))

    @property
    def identity(self) -> str:
        """The database's identity on this host."""
        return str(self.path.resolve()) if self.path is not None else self.name

    @property
    def tag(self) -> str:
        """The identity as eight letters, for a file's or holder's name."""
        return tag_of(self.identity)

    def without_secrets(self, text: str) -> str:
        """Remove the URL's passwords from a driver's message."""
        return scrub(text, self.url.render_as_string(hide_password=False))


def tag_of(identity: str) -> str:
    """The tag of the database with this identity."""
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def locate(url: str | None = None) -> Location:
    """The location that `url`, else $LAB_DB, else the user's data directory means.

    Artifacts lie in $LAB_ARTIFACTS, else beside an SQLite file, else in the user's data directory.

    Raises:
        ConfigurationError: not a URL or path of a database that boardlab can use.
    """
    text = url or os.environ.get(DATABASE_VARIABLE)
    if not text:
        folder = data_home()
        try:
            private_folder(folder)
        except OSError as error:
            raise ConfigurationError(
                f"cannot create {folder} for the results: {error.strerror}; set ${DATABASE_VARIABLE} to another place"
            ) from error
        text = str(folder / "results.db")
    parsed = _parse(text)
    artifacts = os.environ.get(ARTIFACTS_VARIABLE)
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        try:
            import psycopg  # noqa: F401, PLC0415 - an extra; only needed for this kind of database
        except ImportError as error:
            raise ConfigurationError(
                "PostgreSQL needs the driver psycopg 3, which is not installed: pip install 'boardlab[postgresql]'"
            ) from error
        root = Path(artifacts) if artifacts else data_home() / "artifacts"
        url_there = _one_password(parsed).set(drivername="postgresql+psycopg")
        return Location(url_there, None, root.absolute(), _shared_url())
    path = _sqlite_path(parsed, redact(text))
    root = Path(artifacts) if artifacts else path.parent / "artifacts"
    return Location(URL.create("sqlite", database=str(path)), path, root.absolute(), _shared_url())


def _shared_url() -> str:
    url = os.environ.get(SHARED_VARIABLE, "")
    if url:
        check(url)
    return url


def data_home() -> Path:
    """The user's data directory of boardlab (XDG Base Directory Specification)."""
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "share") / "boardlab"


def _parse(text: str) -> URL:
    if "://" not in text and redact(text) == text:
        return URL.create("sqlite", database=text)
    try:
        parsed = make_url(text.replace("postgres://", "postgresql://", 1))
    except (ArgumentError, ValueError):  # its text may repeat parts of a password
        parsed = None
    if parsed is None or "@" in (parsed.host or ""):  # of a password that is not escaped
        raise ConfigurationError(
            f"{redact(text)!r} is not the URL of a results database; expected {_FORMS}, "
            "with %XX for special characters in user and password"
        )
    if parsed.drivername not in {"sqlite", "postgresql", "postgresql+psycopg"}:
        raise ConfigurationError(
            f"results cannot be kept in {parsed.drivername!r}; give {_FORMS} by --db, --lab-db or ${DATABASE_VARIABLE}"
        )
    return parsed


def _one_password(url: URL) -> URL:
    """Move a password of the query to where SQLAlchemy hides it."""
    password = url.query.get("password")
    if password is None:
        return url
    last = password if isinstance(password, str) else password[-1]
    return url.set(password=last).difference_update_query(["password"])


def _sqlite_path(url: URL, text: str) -> Path:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise ConfigurationError(f"{text!r} names no file, and results must outlive the program; give {_FORMS}")
    if url.query or url.host:
        raise ConfigurationError(f"{text!r}: SQLite takes sqlite:///PATH (three slashes) and no options")
    path = Path(url.database).expanduser().absolute()
    if path.is_dir():
        raise ConfigurationError(f"{path} is a directory; name a file in it, e.g. {path / 'results.db'}")
    if not path.parent.is_dir():
        raise ConfigurationError(f"the directory of {path} does not exist; create it: mkdir -p {path.parent}")
    return path


def private_folder(folder: Path) -> None:
    """Make a folder for its owner and, as the umask has it, a group.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


# The environment has the credentials of shared artifacts, as for AWS's own programs: AWS_ACCESS_KEY_ID and
# AWS_SECRET_ACCESS_KEY, a web identity, a container's or a machine's role; never by the address.


SHARED_VARIABLE: Final = "LAB_SHARED_ARTIFACTS"
FORMS: Final = "s3://BUCKET/PREFIX or file:///PATH"
_PLAIN: Final = "AWS_ALLOW_HTTP"  # a server without TLS, e.g. on loopback
_CONNECT: Final = dt.timedelta(seconds=10)
_ANSWER: Final = dt.timedelta(seconds=60)
_PATIENCE: Final = dt.timedelta(seconds=30)  # with tries again
_TRIES: Final = 3
_READ: Final = dt.timedelta(seconds=10)  # a person waits for it
_SLOW_S: Final = 5.0  # who needs longer to fail does not answer; a refusal comes at once
_AGAIN_S: Final = 30.0  # so long it is not asked again then: a run has many artifacts


@define
class _Away:
    """An unreachable store, not asked again before `until` (`Shared`'s clock)."""

    until: float = 0.0
    error: Exception = field(factory=Exception)


@frozen
class Shared:
    """Shared contents by SHA-256, laid out as in `lab.results.artifacts`.

    Attributes:
        url: one of FORMS.
    """

    url: str
    _store: ObjectStore = field(repr=False)
    _reader: ObjectStore = field(repr=False)  # the same, with less patience
    _clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _away: _Away = field(factory=_Away, init=False, repr=False, eq=False)

    def get(self, sha256: str) -> bytes | None:
        """Return the stored contents; None: not stored.

        Raises:
            LabStableError: the store does not answer, did not half a minute ago, or refuses.
        """
        import obstore  # noqa: PLC0415 - an extra; only needed where artifacts are shared
        from obstore.exceptions import BaseError  # noqa: PLC0415

        began = self._clock()
        if began < self._away.until:
            raise self._failure("read", sha256, self._away.error)
        try:
            return bytes(obstore.get(self._reader, _key(sha256)).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            if self._clock() - began >= _SLOW_S:
                self._away.until, self._away.error = self._clock() + _AGAIN_S, error
            raise self._failure("read", sha256, error) from None

    def put(self, sha256: str, data: bytes) -> None:
        """Store contents under their name when they are complete.

        Raises:
            LabStableError: the store does not answer, or refuses.
        """
        import obstore  # noqa: PLC0415
        from obstore.exceptions import BaseError  # noqa: PLC0415

        try:
            obstore.put(self._store, _key(sha256), data)
        except (BaseError, OSError) as error:
            raise self._failure("written", sha256, error) from None

    def remove(self, sha256: str) -> None:
        """Remove stored contents, if there are any.

        Raises:
            LabStableError: the store does not answer, or refuses.
        """
        import obstore  # noqa: PLC0415
        from obstore.exceptions import BaseError  # noqa: PLC0415

        try:
            obstore.delete(self._store, _key(sha256))
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise self._failure("removed", sha256, error) from None

    def names(self) -> set[str]:
        """The SHA-256 of all stored contents.

        Raises:
            LabStableError: the store does not answer, or refuses.
        """
        import obstore  # noqa: PLC0415
        from obstore.exceptions import BaseError  # noqa: PLC0415

        try:
            return {entry["path"].replace("/", "") for part in obstore.list(self._store) for entry in part}
        except (BaseError, OSError) as error:
            raise self._failure("listed", "all", error) from None

    def _failure(self, done: str, what: str, error: Exception) -> LabStableError:
        return LabStableError(
            f"artifact {what} cannot be {done} in {self.url}: {str(error).partition(chr(10))[0]}. Look at "
            f"${SHARED_VARIABLE}, at what the "
            "environment says of it (AWS_ENDPOINT_URL, AWS_REGION, credentials), and at the network",
            failure="artifacts",
        )


@functools.lru_cache(maxsize=8)
def at(url: str) -> Shared:
    """The shared store at an address; no request is made yet.

    Raises:
        ConfigurationError: no such address, or the library is not installed.
    """
    check(url)
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415
        from obstore.store import from_url  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            f"${SHARED_VARIABLE} needs obstore, which is not installed: pip install 'boardlab[s3]'"
        ) from None
    tries: Any = {"max_retries": _TRIES, "retry_timeout": _PATIENCE}
    try:
        if url.startswith("file:"):
            store = from_url(url)
            return Shared(url, store, store)
        client: Any = {"connect_timeout": _CONNECT, "timeout": _ANSWER}
        # Options that are given hide the library's own look at it
        if os.environ.get(_PLAIN, "").lower() in {"1", "true"}:
            client["allow_http"] = True
        reader: Any = {
            "client_options": {**client, "read_timeout": _READ},
            "retry_config": {**tries, "retry_timeout": _READ},
        }
        return Shared(url, from_url(url, client_options=client, retry_config=tries), from_url(url, **reader))
    except (BaseError, ValueError, OSError) as error:
        why = str(error).partition("\n")[0]
        raise ConfigurationError(f"${SHARED_VARIABLE}: {url}: {why}; expected {FORMS}, which is there") from None


def check(url: str) -> None:
    """Check an address of a shared store; it must have no password.

    Raises:
        ConfigurationError: it is none, or has a password.
    """
    if redact(url) != url or not url.startswith(("s3://", "file:///")):
        raise ConfigurationError(
            f"${SHARED_VARIABLE}: {redact(url)!r}: expected {FORMS}, without a password: that is in the environment "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in the machine's role"
        )


def _key(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256[2:]}"
