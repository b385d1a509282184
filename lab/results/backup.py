"""Backup and restore of a store, its artifacts and a lab's files.

A folder of backups has one folder for each backup, named by its time, and the folder `artifacts`, which all share:

    20261127T020000Z/manifest.json   digests and versions
                    /results.db      the store as an SQLite file; it can be restored to SQLite and PostgreSQL
    artifacts/ab/12...               artifacts and files by SHA-256, as in lab.results.artifacts

A backup gets its name when it is complete on the disk. A restore writes the database last.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import cattrs
from attrs import asdict, frozen
from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
)

from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.host.clock import utc_now
from lab.results import database, location, schema, transfer
from lab.results.artifacts import ArtifactStore
from lab.results.location import PRIVATE_FILE, Location
from lab.results.store import BUSY_TIMEOUT_S, Store

MANIFEST: Final = "manifest.json"
DATABASE: Final = "results.db"
ARTIFACTS: Final = "artifacts"
ACTION: Final = "backup"  # in the audit log; the exporter and `lab doctor` find the last backup by it
KEEP: Final = 7  # number of backups that are kept
INTERVAL_S: Final = 86_400.0  # one each night
OLD_S: Final = 50 * 3600.0  # two nights missed; as BoardlabBackupOld in farm/prometheus/rules/alerts.yml
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_PART: Final = ".new-"  # prefix of what is not complete yet
_INTACT: Final = "earlier backups are intact"


@frozen
class SavedFile:
    """A file of the lab in a backup.

    Attributes:
        path: absolute path that it was read from.
        mode: its permissions.
    """

    path: str
    sha256: str
    size: int
    mode: int


@frozen
class Backup:
    """A complete backup, as its manifest describes it.

    Attributes:
        path: folder of the backup.
        boardlab: version of the program that wrote it.
        schema: schema of that program's database.
        at: time of the backup in UTC, as ISO 8601.
        source: name of the database.
        sha256: SHA-256 of the backup's database file.
        runs: number of runs.
        artifacts: number of artifacts.
        missing: SHA-256 of the artifacts that could not be read, or were damaged.
    """

    path: Path
    boardlab: str
    schema: str
    at: str
    source: str
    sha256: str
    runs: int
    artifacts: int
    missing: Sequence[str]
    files: Sequence[SavedFile]


@frozen
class CopyResult:
    """The artifacts that a backup or restore has written, or that a check has found intact.

    Attributes:
        count: number of these artifacts.
        bytes: size of the artifacts and files.
        missing: SHA-256 of artifacts and files that could not be read, or were damaged.
        files: number of the lab's files that a check has found intact.
    """

    count: int
    bytes: int
    missing: Sequence[str]
    files: int = 0


def back_up(
    store: Store, folder: Path, files: Iterable[Path], keep: int = KEEP, at: dt.datetime | None = None
) -> tuple[Backup, CopyResult]:
    """Back up a store in use, and remove older backups.

    Args:
        folder: existing folder for all backups.
        files: the lab's files; missing ones are left out.
        keep: number of backups to keep, with the new one.
        at: time of the backup; None: now.

    Raises:
        ConfigurationError: there is no such folder.
        LabTransientError: another backup or a removal of runs is in progress.
        LabStableError: the backup cannot be written, or the store cannot be read; earlier backups are intact.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"{folder}: no such folder; mount or make it first, then back up")
    at = at or utc_now()
    path = folder / at.strftime(_STAMP)
    part = folder / f"{_PART}{path.name}"
    if path.exists():
        raise LabTransientError(f"{path}: there is a backup of this second; try again", failure="results")
    with (
        failing(f"cannot back up to {folder}", _INTACT),
        _flock(folder, fcntl.LOCK_EX),
        in_use(store.artifacts),
    ):
        for partial in folder.glob(f"{_PART}*"):  # left by a backup that was killed
            shutil.rmtree(partial)
        try:
            part.mkdir(mode=0o700)
            digest = _copy_database(store, part / DATABASE)
            copied = _copy_artifacts(store.artifacts, folder / ARTIFACTS, part / DATABASE)
            saved = list(_save_files(files, ArtifactStore(folder / ARTIFACTS)))
            with _open_database(part / DATABASE) as copy:
                runs = copy.execute("SELECT count(*) FROM runs").fetchone()[0]
                artifacts = len(_own_files(copy))
            backup = Backup(
                path,
                version("boardlab"),
                schema.NEWEST,
                at.isoformat(),
                store.url,
                digest,
                runs,
                artifacts,
                copied.missing,
                saved,
            )
            _write(part / MANIFEST, json.dumps({**asdict(backup), "path": path.name}, indent=1).encode(), PRIVATE_FILE)
            part.rename(path)
            _sync(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        _remove_old_backups(folder, keep)
    return backup, copied


def backups(folder: Path) -> list[Backup]:
    """Return the complete backups in a folder, the newest first.

    Raises:
        LabStableError: a manifest cannot be read.
    """
    return [_read(path.parent) for path in sorted(folder.glob(f"*/{MANIFEST}"), reverse=True)]


def _copy_database(store: Store, path: Path) -> str:
    """Write the store as of one instant to an SQLite file, while other programs write to it.

    Returns:
        The SHA-256 of the file.
    """
    path.touch(mode=PRIVATE_FILE)
    with database.guard(store.location), database.reader(store._engine).connect() as source:
        if store.location.path is not None:
            origin: Any = source.connection.driver_connection
            with (
                failing(f"cannot copy {store.url} to {path}", _INTACT),
                contextlib.closing(sqlite3.connect(path)) as target,
            ):
                # Nobody else uses the new file, a failure removes it, and it is synchronised below as a whole.
                for pragma in ("synchronous=OFF", "journal_mode=OFF", "locking_mode=EXCLUSIVE"):
                    target.execute(f"PRAGMA {pragma}")
                origin.backup(target)
        else:
            _copy_rows_to_file(source, path)
    with ThreadPoolExecutor(1) as beside, path.open("rb") as file:
        digest = beside.submit(_sha256, path)  # the processor hashes while the disk synchronises
        os.fsync(file.fileno())
        return digest.result()


def _copy_rows_to_file(source: Connection, path: Path) -> None:
    """Write all rows of a server's database to an SQLite file."""
    where = location.locate(str(path))
    engine = database.create(where, BUSY_TIMEOUT_S)
    try:
        with database.guard(where, _INTACT):
            schema.make_ready(engine, where, create=True, migrate=None)
            with engine.begin() as target:
                transfer.copy(source, target)
    finally:
        engine.dispose()
    with failing(f"cannot write {path}", _INTACT), contextlib.closing(sqlite3.connect(path)) as copy:
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _copy_artifacts(source: ArtifactStore, folder: Path, store: Path, *, verify: bool = False) -> CopyResult:
    """Copy the artifacts that a database names to a folder, unless it has them.

    Args:
        folder: folder of artifacts to copy to.
        store: SQLite file of the database.
        verify: True: also read the artifacts that the folder has, and replace damaged ones.
    """
    target, missing = ArtifactStore(folder), list[str]()
    count = size = 0
    with _open_database(store) as rows:
        for sha256, length in _own_files(rows):
            with contextlib.suppress(OSError):
                if not verify and target.path(sha256).stat().st_size == length:
                    continue
            data = _intact(source, sha256)
            if data is None:
                missing.append(sha256)
                continue
            target.add(data)
            count, size = count + 1, size + length
    return CopyResult(count, size, missing)


def _save_files(files: Iterable[Path], target: ArtifactStore) -> Iterator[SavedFile]:
    """Store the lab's files among the artifacts; missing files are left out."""
    for path in dict.fromkeys(file.absolute() for file in files):
        try:
            data, mode = path.read_bytes(), path.stat().st_mode & 0o777
        except FileNotFoundError:
            continue
        ref = target.add(data)
        yield SavedFile(str(path), ref.sha256, ref.size, mode)


def _remove_old_backups(folder: Path, keep: int) -> None:
    """Remove all but the newest backups, and the artifacts that none of these names."""
    old = backups(folder)[keep:]
    if not old:
        return
    for backup in old:
        # Without its name a partly removed backup is no longer listed.
        shutil.rmtree(backup.path.rename(folder / f"{_PART}{backup.path.name}"))
    needed = set[str]()
    for backup in backups(folder):
        needed.update(file.sha256 for file in backup.files)
        with _open_database(backup.path / DATABASE) as rows:
            needed.update(sha256 for sha256, _ in _own_files(rows))
    artifacts = ArtifactStore(folder / ARTIFACTS)
    for sha256 in artifacts.hashes():
        if sha256 not in needed:
            artifacts.path(sha256).unlink()


def find_backup(folder: Path) -> Backup:
    """Return the backup in this folder, or the newest one of a folder of backups.

    Raises:
        ConfigurationError: there is none.
    """
    if not folder.exists():
        raise ConfigurationError(f"{folder}: no such folder; name the one that `lab backup` wrote to")
    if (folder / MANIFEST).is_file():
        return _read(folder)
    complete = backups(folder)
    if not complete:
        raise ConfigurationError(f"{folder}: no complete backup there; `lab backup` writes one")
    return complete[0]


def verify(backup: Backup) -> CopyResult:
    """Read all of a backup, and check the digests.

    Returns:
        The number of intact artifacts and files; `missing` has the others.

    Raises:
        LabStableError: the database is damaged or missing.
    """
    with failing(f"cannot read {backup.path}", "choose another backup"):
        _check_database(backup)
        with _open_database(backup.path / DATABASE) as rows:
            names = [sha256 for sha256, _ in _own_files(rows)]
    artifacts, missing, size = ArtifactStore(backup.path.parent / ARTIFACTS), list[str](), 0

    def count_intact(hashes: Iterable[str]) -> int:
        nonlocal size
        count = 0
        for sha256 in hashes:
            data = _intact(artifacts, sha256)
            if data is None:
                missing.append(sha256)
            else:
                count, size = count + 1, size + len(data)
        return count

    intact_artifacts = count_intact(names)
    intact_files = count_intact(file.sha256 for file in backup.files)
    return CopyResult(intact_artifacts, size, missing, files=intact_files)


def _check_database(backup: Backup) -> None:
    """Require that a backup's database has its digest.

    Raises:
        LabStableError: it is damaged.
    """
    digest = _sha256(backup.path / DATABASE)
    if digest != backup.sha256:
        raise LabStableError(
            f"{backup.path / DATABASE} is damaged: its SHA-256 is {digest}, not {backup.sha256}; choose another backup",
            failure="results",
        )


def _intact(artifacts: ArtifactStore, sha256: str) -> bytes | None:
    """Return the verified bytes of an artifact; None: it is missing or damaged."""
    try:
        data = artifacts.local(sha256)
        if data is None and artifacts.shared:
            data = location.at(artifacts.shared).get(sha256)
        if data is None and artifacts.pack_of(sha256) is not None:  # it was packed after the database was copied
            data = artifacts.read(sha256)
    except BoardlabError:  # one unreadable artifact must not end the backup of the others
        return None
    return data if data is not None and hashlib.sha256(data).hexdigest() == sha256 else None


def restore(backup: Backup, target: Location) -> CopyResult:
    """Restore the artifacts and the database of a backup, each verified by its digest.

    The database comes last, and as a whole. A restore that was killed can be repeated.

    Raises:
        ConfigurationError: the target has other results, or a newer boardlab has written the backup.
        LabStableError: the backup is damaged, or the target cannot be written.
    """
    if backup.schema not in schema.readable_revisions():
        raise ConfigurationError(
            f"{backup.path} is of boardlab {backup.boardlab}, whose schema "
            f"{backup.schema} this one does not know; install that boardlab"
        )
    file = backup.path / DATABASE
    if target.path is not None:
        _check_free(target.path, backup)
    elif backup.schema != schema.NEWEST:
        raise ConfigurationError(
            f"{backup.path} has schema {backup.schema}; restore it to an SQLite file (--db FILE), then lab results "
            "migrate --db FILE, back that up and restore it"
        )
    with failing("cannot restore", "the backup is intact; mend this and try again"):
        _check_database(backup)
        copied = _copy_artifacts(ArtifactStore(backup.path.parent / ARTIFACTS), target.artifacts, file, verify=True)
        if target.path is not None:
            _place(file, target.path, backup.sha256)
        else:
            _restore_to_server(file, target)
    return copied


def write_files(backup: Backup, folder: Path) -> list[Path]:
    """Write the lab's files of a backup below a folder, all or none.

    Returns:
        The paths of the files that were not there yet.

    Raises:
        ConfigurationError: a file is there with other contents.
        LabStableError: a file is damaged, or cannot be written.
    """
    artifacts = ArtifactStore(backup.path.parent / ARTIFACTS)
    missing_files, different = dict[Path, SavedFile](), list[str]()
    with failing(f"cannot write the files below {folder}", "mend this and try again"):
        for file in backup.files:
            path = folder / os.path.normpath(file.path).lstrip("/")  # a `..` must not lead out of the folder
            if not path.exists():
                missing_files[path] = file
            elif not path.is_file() or _sha256(path) != file.sha256:
                different.append(str(path))
        if different:
            raise ConfigurationError(
                f"nothing was written, since these files exist with other contents: {', '.join(different)}. "
                "Move them away, or name another folder"
            )
        contents = {path: artifacts.read(file.sha256) for path, file in missing_files.items()}
        for path, file in missing_files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{_PART}{path.name}")
            part.unlink(missing_ok=True)
            _write(part, contents[path], file.mode)
            part.rename(path)
    return list(missing_files)


def _check_free(path: Path, backup: Backup) -> None:
    """Require that there is no other database at a path, nor the log of one.

    SQLite would apply the log of a lost database to the restored one.

    Raises:
        ConfigurationError: there is one.
    """
    if path.exists() and _sha256(path) == backup.sha256:
        return
    existing = [str(file) for end in ("", "-wal", "-shm") if (file := path.with_name(path.name + end)).exists()]
    if existing:
        raise ConfigurationError(
            f"there are results already: {', '.join(existing)}. "
            "Stop the services, move that away, or name another database with --db"
        )


def _place(file: Path, path: Path, sha256: str) -> None:
    """Copy a database file to its place, where it appears as a whole."""
    if path.exists():  # `_check_free` has found the same contents, which an earlier try has placed
        return
    location.private_folder(path.parent)
    part = path.with_name(f"{path.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
        shutil.copyfile(file, part)
        if _sha256(part) != sha256:
            raise LabStableError(f"{part} differs from {file} after it was copied; check the disk and the memory")
        with part.open("rb") as copied:
            os.fsync(copied.fileno())
        os.link(part, path)  # a rename would replace a database that was created meanwhile
        _sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _restore_to_server(file: Path, target: Location) -> None:
    """Write all rows of a database file to a server, in one transaction.

    Raises:
        ConfigurationError: the server's database has other results.
    """
    engine = database.create(target, BUSY_TIMEOUT_S)
    try:
        with database.guard(target, "then restore once more"):
            schema.make_ready(engine, target, create=True, migrate=None)
            with _file_engine(file) as source_engine, source_engine.connect() as source, engine.begin() as server:
                nonempty = transfer.nonempty_tables(server)
                if nonempty and transfer.digests(server) == transfer.digests(source):
                    return  # an earlier try has written all
                if nonempty:
                    raise ConfigurationError(
                        f"there are results already in {target.name}: {', '.join(nonempty)}. "
                        "Name an empty database with --db: createdb NAME"
                    )
                transfer.copy(source, server)
    finally:
        engine.dispose()


@contextmanager
def in_use(artifacts: ArtifactStore, *, removing: bool = False) -> Iterator[None]:
    """Lock the artifacts of this host while they are read, or while some are removed.

    Args:
        removing: True: the block removes artifacts, and no other block may run; False: it reads them.

    Raises:
        LabTransientError: a backup or a removal is in progress.
    """
    location.private_folder(artifacts.root)
    with _flock(artifacts.root, fcntl.LOCK_EX if removing else fcntl.LOCK_SH):
        yield


@contextmanager
def _flock(folder: Path, how: int) -> Iterator[None]:
    """Hold a lock on a folder during the block.

    Raises:
        LabTransientError: another program holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabTransientError(
                f"{folder}: another program is backing up or removing runs; try again when it has ended",
                failure="results",
            ) from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def failing(doing: str, meanwhile: str) -> Iterator[None]:
    """Convert errors of files in the block to LabStableError.

    Args:
        doing: what failed, e.g. "cannot back up to /srv".
        meanwhile: what is still safe, for the message.
    """
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise LabStableError(
            f"{doing}: {getattr(error, 'strerror', None) or error}: {meanwhile}; free space, or mend rights and disk",
            failure="results",
        ) from error


@contextmanager
def _open_database(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a backup's database read-only; SQLite then creates no files beside it."""
    with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as opened:
        yield opened


def _own_files(rows: sqlite3.Connection) -> list[tuple[str, int]]:
    """Return SHA-256 and size of the artifacts of a database that are in no pack."""
    columns = {name for _, name, *_ in rows.execute("PRAGMA table_info(artifacts)")}
    where = "WHERE pack IS NULL" if "pack" in columns else ""  # older backups have no packs
    return rows.execute(f"SELECT sha256, size FROM artifacts {where} ORDER BY sha256").fetchall()  # noqa: S608


@contextmanager
def _file_engine(file: Path) -> Iterator[Engine]:
    """Open a backup's database read-only by SQLAlchemy."""
    engine = create_engine(f"sqlite:///{file.absolute().as_uri()}?immutable=1&uri=true")
    try:
        yield engine
    finally:
        engine.dispose()


def _read(path: Path) -> Backup:
    """Read the manifest of a backup.

    Raises:
        LabStableError: it cannot be read.
    """
    try:
        data = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        return cattrs.structure({**data, "path": str(path)}, Backup)
    except (OSError, ValueError, TypeError, cattrs.BaseValidationError) as error:
        raise LabStableError(
            f"{path / MANIFEST} cannot be read ({error}); remove {path}, or choose another backup", failure="results"
        ) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a new file to the disk, with these permissions from the start."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
