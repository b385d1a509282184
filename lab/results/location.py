"""The location of results: database, artifacts, and the shared store."""

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


PRIVATE_FOLDER, PRIVATE_FILE = 0o770, 0o660  # modes of results, less the umask: other users must not read them
DATABASE_VARIABLE: Final = "LAB_DB"
ARTIFACTS_VARIABLE: Final = "LAB_ARTIFACTS"
_FORMS: Final = "a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE"


@frozen
class Location:
    """A database and the directory of its artifacts.

    Attributes:
        path: file of an SQLite database; None: the database is on a server.
        artifacts: folder of the artifacts.
        shared: URL of the artifact store that is shared with other hosts; empty: there is none.
    """

    url: URL = field(repr=lambda url: redact(str(url)))
    path: Path | None
    artifacts: Path
    shared: str = ""

    @property
    def name(self) -> str:
        """The database's name in messages: its path, or its URL without the password."""
        if self.path is not None:
            return str(self.path)
        return redact(self.url.set(drivername="postgresql").render_as_string(hide_password=True))

    @property
    def identity(self) -> str:
        """A text that is equal for equal databases of this host."""
        return str(self.path.resolve()) if self.path is not None else self.name

    @property
    def tag(self) -> str:
        """The identity as eight hexadecimal digits, for the names of files and job holders."""
        return tag_of(self.identity)

    def without_secrets(self, text: str) -> str:
        """Return a driver's message without the URL's passwords."""
        return scrub(text, self.url.render_as_string(hide_password=False))


def tag_of(identity: str) -> str:
    """Return the tag of the database with this identity."""
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def locate(url: str | None = None) -> Location:
    """Return the location of results.

    Artifacts are in $LAB_ARTIFACTS, else beside an SQLite file, else in the user's data directory.

    Args:
        url: path or URL of the database; None: $LAB_DB, else a file in the user's data directory.

    Raises:
        ConfigurationError: it is not a URL or path of a database that boardlab can use.
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
    """Return the checked URL of the shared artifact store; empty: there is none."""
    url = os.environ.get(SHARED_VARIABLE, "")
    if url:
        check(url)
    return url


def data_home() -> Path:
    """Return boardlab's folder in the user's data directory (XDG Base Directory Specification)."""
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "share") / "boardlab"


def _parse(text: str) -> URL:
    """Parse a path, or a URL of SQLite or PostgreSQL.

    Raises:
        ConfigurationError: it is neither; the message has no password.
    """
    if "://" not in text and redact(text) == text:
        return URL.create("sqlite", database=text)
    try:
        parsed = make_url(text.replace("postgres://", "postgresql://", 1))
    except (ArgumentError, ValueError):  # the error is dropped: its text may contain parts of a password
        parsed = None
    if parsed is None or "@" in (parsed.host or ""):  # an "@" that is not escaped in a password
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
    """Return the path of an SQLite database.

    Args:
        text: the URL in messages.

    Raises:
        ConfigurationError: it names no file in an existing directory.
    """
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
    """Create a folder that its owner can use, and a group as far as the umask allows.

    Raises:
        OSError: it cannot be created.
    """
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


# The credentials of the shared store are never in its URL. The environment has them, as for AWS's own programs:
# AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a web identity, or the role of a container or a machine.


SHARED_VARIABLE: Final = "LAB_SHARED_ARTIFACTS"
FORMS: Final = "s3://BUCKET/PREFIX or file:///PATH"
_PLAIN: Final = "AWS_ALLOW_HTTP"  # variable that allows a server without TLS, e.g. on loopback
_CONNECT: Final = dt.timedelta(seconds=10)
_ANSWER: Final = dt.timedelta(seconds=60)
_PATIENCE: Final = dt.timedelta(seconds=30)  # for all tries together
_TRIES: Final = 3
_READ: Final = dt.timedelta(seconds=10)  # shorter than for uploads: a person waits for the file
_SLOW_S: Final = 5.0  # a failure that takes longer means that the store does not answer: a refusal comes at once
_AGAIN_S: Final = 30.0  # then the store is not asked again for so long: a run has many artifacts


@define
class _Outage:
    """A time in which the shared store is not asked again, since it did not answer.

    Attributes:
        until: end of that time, by the clock of `Shared`.
        error: the last error.
    """

    until: float = 0.0
    error: Exception = field(factory=Exception)


@frozen
class Shared:
    """A store of contents by SHA-256 that hosts share, laid out as in `lab.results.artifacts`.

    Attributes:
        url: its URL, one of `FORMS`.
    """

    url: str
    _store: ObjectStore = field(repr=False)
    _reader: ObjectStore = field(repr=False)  # the same store with shorter time limits
    _clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _outage: _Outage = field(factory=_Outage, init=False, repr=False, eq=False)

    def get(self, sha256: str) -> bytes | None:
        """Return stored contents; None: the store does not have them.

        Raises:
            LabStableError: the store refuses, or does not answer, or did not half a minute ago.
        """
        import obstore  # noqa: PLC0415 - an extra; only needed where artifacts are shared
        from obstore.exceptions import BaseError  # noqa: PLC0415

        start = self._clock()
        if start < self._outage.until:
            raise self._failure("read", sha256, self._outage.error)
        try:
            return bytes(obstore.get(self._reader, _key(sha256)).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            if self._clock() - start >= _SLOW_S:
                self._outage.until, self._outage.error = self._clock() + _AGAIN_S, error
            raise self._failure("read", sha256, error) from None

    def put(self, sha256: str, data: bytes) -> None:
        """Store contents; they appear under their name when they are complete.

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
        """Return the SHA-256 of all stored contents.

        Raises:
            LabStableError: the store does not answer, or refuses.
        """
        import obstore  # noqa: PLC0415
        from obstore.exceptions import BaseError  # noqa: PLC0415

        try:
            return {entry["path"].replace("/", "") for part in obstore.list(self._store) for entry in part}
        except (BaseError, OSError) as error:
            raise self._failure("listed", "all", error) from None

    def _failure(self, done: str, sha256: str, error: Exception) -> LabStableError:
        """Return the error of a failed request; `done` is a participle, e.g. "read"."""
        return LabStableError(
            f"artifact {sha256} cannot be {done} in {self.url}: {str(error).partition(chr(10))[0]}. Check "
            f"${SHARED_VARIABLE}, its settings in the environment (AWS_ENDPOINT_URL, AWS_REGION, credentials), and "
            "the network",
            failure="artifacts",
        )


@functools.lru_cache(maxsize=8)
def at(url: str) -> Shared:
    """Return the shared store at a URL, without a request to it.

    Raises:
        ConfigurationError: the URL is wrong, or the library for it is not installed.
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
        # The library reads this variable itself only if no client options are given.
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
    """Require that a text is the URL of a shared store without a password.

    Raises:
        ConfigurationError: it is no such URL, or has a password.
    """
    if redact(url) != url or not url.startswith(("s3://", "file:///")):
        raise ConfigurationError(
            f"${SHARED_VARIABLE}: {redact(url)!r}: expected {FORMS}, without a password: that is in the environment "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in the machine's role"
        )


def _key(sha256: str) -> str:
    """Return the key of contents in the shared store."""
    return f"{sha256[:2]}/{sha256[2:]}"
