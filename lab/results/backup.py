"""Backup and restore of a store, its artifacts and a lab's files.

A folder of backups holds one folder for each backup, named by its time, and `artifacts`, which all share:

    20261127T020000Z/manifest.json   digests and versions
                    /results.db      the store as an SQLite file, from PostgreSQL too: each restores on the other
    artifacts/ab/12...               artifacts and files by SHA-256, as lab.results.artifacts has them

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
ACTION: Final = "backup"  # in the audit, by which the exporter and `lab doctor` know the last one
KEEP: Final = 7  # backups
INTERVAL_S: Final = 86_400.0
OLD_S: Final = 50 * 3600.0  # two nights missed; as BoardlabBackupOld in farm/prometheus/rules/alerts.yml
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_PART: Final = ".new-"
_INTACT: Final = "earlier backups are intact"


@frozen
class SavedFile:
    """A file of the lab. path: absolute. mode: its permissions."""

    path: str
    sha256: str
    size: int
    mode: int


@frozen
class Backup:
    """A complete backup, as its manifest has it.

    Attributes:
        path: its folder.
        boardlab, schema: of the program that wrote it.
        at: in UTC, ISO 8601.
        source: the database's name.
        sha256: of its database.
        artifacts: their number.
        missing: SHA-256 of those that were nowhere, or damaged.
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
    """Artifacts that a backup or restore wrote, or a check found intact.

    Attributes:
        bytes: of artifacts and files.
        missing: SHA-256 of those that it could not write or read.
        files: of the lab, that a check found intact.
    """

    count: int
    bytes: int
    missing: Sequence[str]
    files: int = 0


def back_up(
    store: Store, folder: Path, files: Iterable[Path], keep: int = KEEP, at: dt.datetime | None = None
) -> tuple[Backup, CopyResult]:
    """Back up a store in use, and keep only the newest backups.

    Args:
        folder: of backups; it exists.
        files: of the lab; missing ones are left out.
        keep: number of backups.
        at: its time; None: now.

    Raises:
        ConfigurationError: there is no such folder.
        LabTransientError: another backup or a removal of runs goes on.
        LabStableError: it cannot be written or read; earlier backups are intact.
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
        for left in folder.glob(f"{_PART}*"):  # of one that was killed
            shutil.rmtree(left)
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
        _forget(folder, keep)
    return backup, copied


def backups(folder: Path) -> list[Backup]:
    """Complete backups of a folder, the newest first.

    Raises:
        LabStableError: a manifest cannot be read.
    """
    return [_read(path.parent) for path in sorted(folder.glob(f"*/{MANIFEST}"), reverse=True)]


def _copy_database(store: Store, path: Path) -> str:
    """Write the store at one instant as an SQLite file; writers go on meanwhile.

    Returns:
        its SHA-256.
    """
    path.touch(mode=PRIVATE_FILE)
    with database.guard(store.location), database.reader(store._engine).connect() as source:
        if store.location.path is not None:
            origin: Any = source.connection.driver_connection
            with (
                failing(f"cannot copy {store.url} to {path}", _INTACT),
                contextlib.closing(sqlite3.connect(path)) as target,
            ):
                # Nobody else has the new file, it goes if this fails, and it is synchronised below, at once.
                for pragma in ("synchronous=OFF", "journal_mode=OFF", "locking_mode=EXCLUSIVE"):
                    target.execute(f"PRAGMA {pragma}")
                origin.backup(target)
        else:
            _copy_rows_to_file(source, path)
    with ThreadPoolExecutor(1) as beside, path.open("rb") as file:
        digest = beside.submit(_sha256, path)  # the disk works meanwhile
        os.fsync(file.fileno())
        return digest.result()


def _copy_rows_to_file(source: Connection, path: Path) -> None:
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
    """Copy the artifacts that a database file names.

    Args:
        verify: read those that are there, too, and mend damaged ones.
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
    for path in dict.fromkeys(file.absolute() for file in files):
        try:
            data, mode = path.read_bytes(), path.stat().st_mode & 0o777
        except FileNotFoundError:
            continue
        ref = target.add(data)
        yield SavedFile(str(path), ref.sha256, ref.size, mode)


def _forget(folder: Path, keep: int) -> None:
    """Remove older backups, and artifacts that no remaining one names."""
    old = backups(folder)[keep:]
    if not old:
        return
    for backup in old:
        shutil.rmtree(backup.path.rename(folder / f"{_PART}{backup.path.name}"))  # half a backup is none
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
    """The backup of this folder, or the newest in it.

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
    """Read all of a backup and check its digests.

    Returns: what is intact; `missing`: damaged or missing artifacts and files.

    Raises:
        LabStableError: the database is damaged or missing.
    """
    artifacts, missing, intact, size = ArtifactStore(backup.path.parent / ARTIFACTS), list[str](), [0, 0], 0
    with failing(f"cannot read {backup.path}", "choose another backup"):
        _check_database(backup)
        with _open_database(backup.path / DATABASE) as rows:
            names = [sha256 for sha256, _ in _own_files(rows)]
    for kind, hashes in enumerate((names, [file.sha256 for file in backup.files])):
        for sha256 in hashes:
            data = _intact(artifacts, sha256)
            if data is None:
                missing.append(sha256)
            else:
                intact[kind], size = intact[kind] + 1, size + len(data)
    return CopyResult(intact[0], size, missing, files=intact[1])


def _check_database(backup: Backup) -> None:
    digest = _sha256(backup.path / DATABASE)
    if digest != backup.sha256:
        raise LabStableError(
            f"{backup.path / DATABASE} is damaged: its SHA-256 is {digest}, not {backup.sha256}; choose another backup",
            failure="results",
        )


def _intact(artifacts: ArtifactStore, sha256: str) -> bytes | None:
    """Verified bytes of an artifact; None: missing or damaged."""
    try:
        data = artifacts.local(sha256)
        if data is None and artifacts.shared:
            data = location.at(artifacts.shared).get(sha256)
        if data is None and artifacts.pack_of(sha256) is not None:  # since the database was copied
            data = artifacts.read(sha256)
    except BoardlabError:  # the others are wanted all the same
        return None
    return data if data is not None and hashlib.sha256(data).hexdigest() == sha256 else None


def restore(backup: Backup, target: Location) -> CopyResult:
    """Restore artifacts and database, each verified by its digest.

    The database comes last, at once or not at all; after a kill the next try ends well.

    Raises:
        ConfigurationError: the target has other results, or the backup is of a newer boardlab.
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
    """Write the lab's files below a folder, all or none; return the new ones.

    Raises:
        ConfigurationError: one is there with other contents.
        LabStableError: one is damaged, or cannot be written.
    """
    artifacts = ArtifactStore(backup.path.parent / ARTIFACTS)
    missing_files, taken = dict[Path, SavedFile](), list[str]()
    with failing(f"cannot write the files below {folder}", "mend this and try again"):
        for file in backup.files:
            path = folder / os.path.normpath(file.path).lstrip("/")  # no `..` leads out of it
            if not path.exists():
                missing_files[path] = file
            elif not path.is_file() or _sha256(path) != file.sha256:
                taken.append(str(path))
        if taken:
            raise ConfigurationError(
                f"nothing was written, since there is already, and otherwise: {', '.join(taken)}. "
                "Move that away, or name another folder"
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
    """Require that nothing is in the way of the database.

    The log of a lost database must not be applied to a restored one.

    Raises:
        ConfigurationError: something is.
    """
    if path.exists() and _sha256(path) == backup.sha256:
        return
    there = [str(file) for end in ("", "-wal", "-shm") if (file := path.with_name(path.name + end)).exists()]
    if there:
        raise ConfigurationError(
            f"there are results already: {', '.join(there)}. "
            "Stop the services, move that away, or name another database with --db"
        )


def _place(file: Path, path: Path, sha256: str) -> None:
    if path.exists():  # the same, as an earlier try left it
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
        os.link(part, path)  # unlike a rename it replaces nothing
        _sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _restore_to_server(file: Path, target: Location) -> None:
    engine = database.create(target, BUSY_TIMEOUT_S)
    try:
        with database.guard(target, "then restore once more"):
            schema.make_ready(engine, target, create=True, migrate=None)
            with _file_engine(file) as source_engine, source_engine.connect() as source, engine.begin() as server:
                nonempty = transfer.nonempty_tables(server)
                if nonempty and transfer.digests(server) == transfer.digests(source):  # as an earlier try left it
                    return
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
    """Keep artifacts from being removed, or remove them alone.

    Raises:
        LabTransientError: a backup and a removal meet.
    """
    location.private_folder(artifacts.root)
    with _flock(artifacts.root, fcntl.LOCK_EX if removing else fcntl.LOCK_SH):
        yield


@contextmanager
def _flock(folder: Path, how: int) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabTransientError(
                f"{folder}: another program backs up or removes runs just now; try again when it has ended",
                failure="results",
            ) from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def failing(doing: str, meanwhile: str) -> Iterator[None]:
    """Convert errors of files to ours."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise LabStableError(
            f"{doing}: {getattr(error, 'strerror', None) or error}: {meanwhile}; free space, or mend rights and disk",
            failure="results",
        ) from error


@contextmanager
def _open_database(file: Path) -> Iterator[sqlite3.Connection]:
    """A backup's database, without SQLite's files beside a changing one."""
    with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as opened:
        yield opened


def _own_files(rows: sqlite3.Connection) -> list[tuple[str, int]]:
    """SHA-256 and size of a database's artifacts that lie in no pack."""
    columns = {name for _, name, *_ in rows.execute("PRAGMA table_info(artifacts)")}
    where = "WHERE pack IS NULL" if "pack" in columns else ""  # an older backup has no packs
    return rows.execute(f"SELECT sha256, size FROM artifacts {where} ORDER BY sha256").fetchall()  # noqa: S608


@contextmanager
def _file_engine(file: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{file.absolute().as_uri()}?immutable=1&uri=true")
    try:
        yield engine
    finally:
        engine.dispose()


def _read(path: Path) -> Backup:
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
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
