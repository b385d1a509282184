"""Where results are kept: which database a URL means, and where its artifacts lie."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from attrs import field, frozen
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from lab.errors import ConfigurationError
from lab.redaction import redacted, scrubbed
from lab.results.shared import SHARED_VARIABLE, check

DATABASE_VARIABLE: Final = "LAB_DB"
ARTIFACTS_VARIABLE: Final = "LAB_ARTIFACTS"
_FORMS: Final = "a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE"


@frozen
class Location:
    """A database and the directory of its artifacts.

    Attributes:
        path: the file of an SQLite database; None for a server.
        shared: where artifacts are shared with other hosts, see lab.results.shared; empty: nowhere.
    """

    url: URL = field(repr=lambda url: redacted(str(url)))
    path: Path | None
    artifacts: Path
    shared: str = ""

    @property
    def name(self) -> str:
        """How a message calls the database; without a password."""
        if self.path is not None:
            return str(self.path)
        return redacted(self.url.set(drivername="postgresql").render_as_string(hide_password=True))

    @property
    def identity(self) -> str:
        """What tells it from the other databases of a host."""
        return str(self.path.resolve()) if self.path is not None else self.name

    @property
    def tag(self) -> str:
        """The same in eight letters, for the name of a file or of a holder."""
        return tag_of(self.identity)

    def without_secrets(self, said: str) -> str:
        """What a driver says about the database, without the passwords of its URL."""
        return scrubbed(said, self.url.render_as_string(hide_password=False))


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
        _make(folder)
        text = str(folder / "results.db")
    parsed = _parse(text)
    artifacts = os.environ.get(ARTIFACTS_VARIABLE)
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        _require_driver()
        root = Path(artifacts) if artifacts else data_home() / "artifacts"
        url_there = _one_password(parsed).set(drivername="postgresql+psycopg")
        return Location(url_there, None, root.absolute(), _shared())
    path = _sqlite_path(parsed, redacted(text))
    root = Path(artifacts) if artifacts else path.parent / "artifacts"
    return Location(URL.create("sqlite", database=str(path)), path, root.absolute(), _shared())


def _shared() -> str:
    found = os.environ.get(SHARED_VARIABLE, "")
    if found:
        check(found)
    return found


def data_home() -> Path:
    """The directory of what boardlab keeps for this user (XDG Base Directory Specification)."""
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "share") / "boardlab"


def _parse(text: str) -> URL:
    if "://" not in text and redacted(text) == text:
        return URL.create("sqlite", database=text)
    try:
        parsed = make_url(text.replace("postgres://", "postgresql://", 1))
    except (ArgumentError, ValueError):  # its text may repeat parts of a password
        parsed = None
    if parsed is None or "@" in (parsed.host or ""):  # of a password that is not escaped
        raise ConfigurationError(
            f"{redacted(text)!r} is not the URL of a results database; expected {_FORMS}, "
            "with %XX for special characters in user and password"
        )
    if parsed.drivername not in {"sqlite", "postgresql", "postgresql+psycopg"}:
        raise ConfigurationError(
            f"results cannot be kept in {parsed.drivername!r}; give {_FORMS} by --db, --lab-db or ${DATABASE_VARIABLE}"
        )
    return parsed


def _one_password(url: URL) -> URL:
    """The URL with a password of its query where SQLAlchemy knows and hides it."""
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


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create {folder} for the results: {error.strerror}; set ${DATABASE_VARIABLE} to another place"
        ) from error


def _require_driver() -> None:
    try:
        import psycopg  # noqa: F401, PLC0415 - an extra; only needed for this kind of database
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL needs the driver psycopg 3, which is not installed: pip install 'boardlab[postgresql]'"
        ) from error
