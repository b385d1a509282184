"""Removal of artifacts' files after their rows.

The names of the files are noted on the disk before their rows are deleted. So a program that is killed between the two
leaves no file behind: the next removal finds the note.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, select
from sqlalchemy.orm import Session

from lab.results import location
from lab.results.artifacts import ArtifactStore
from lab.results.models import ArtifactRow, AttemptArtifactRow, AttemptRow
from lab.results.records import CONSOLE_INDEX, CONSOLE_LOG, POWER_TRACE
from lab.results.store import Store

RECORDINGS: Final = (CONSOLE_LOG, CONSOLE_INDEX)
TRACES: Final = (POWER_TRACE,)
OTHERS: Final = ()  # stands for all other kinds
NAMES_PER_STATEMENT: Final = 5000
_NOTES: Final = ".to-remove"  # folder of the notes, among the artifacts
# The attempt of an artifact that was written or reused less than this ago may not be committed yet.
_FRESH_S: Final = 86_400.0
_DIGITS: Final = 64  # of a SHA-256


def files_of(runs: Sequence[int], kinds: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition of the links to these runs' files of some kinds.

    Args:
        kinds: `RECORDINGS`, `TRACES` or `OTHERS`.
    """
    attempts = select(AttemptRow.id).where(AttemptRow.run_id.in_(runs))
    kind = AttemptArtifactRow.kind
    return and_(
        AttemptArtifactRow.attempt_id.in_(attempts),
        kind.in_(kinds) if kinds else kind.not_in((*RECORDINGS, *TRACES)),
    )


def note_files(
    artifacts: ArtifactStore, session: Session, runs: Sequence[int], kinds: Sequence[str] = (), *, only: bool = False
) -> list[str]:
    """Note the artifacts of runs in the transaction that deletes their rows, or the links to them.

    Args:
        runs: ids of the runs.
        kinds: kinds of the files, with `only`.
        only: True: only files of these kinds; False: all files.

    Returns:
        The SHA-256 of the noted artifacts.
    """
    condition = (
        files_of(runs, kinds)
        if only
        else AttemptArtifactRow.attempt_id.in_(select(AttemptRow.id).where(AttemptRow.run_id.in_(runs)))
    )
    names = list(session.scalars(select(AttemptArtifactRow.sha256).where(condition).distinct()))
    packs = select(ArtifactRow.pack).join(AttemptArtifactRow, AttemptArtifactRow.sha256 == ArtifactRow.sha256)
    # Packs come last: they are needed until the artifacts in them are removed.
    names += filter(None, session.scalars(packs.where(condition).distinct()))
    if names:
        note_names(artifacts, f"{runs[0]}-{runs[-1]}-{len(names)}", names)
    return names


def note_names(artifacts: ArtifactStore, title: str, names: Sequence[str]) -> None:
    """Note artifacts, which `remove_noted_files` removes once nothing needs them.

    Args:
        title: file name of the note.
        names: SHA-256 of the artifacts.
    """
    location.private_folder(artifacts.root / _NOTES)
    (artifacts.root / _NOTES / title).write_text("\n".join(names), encoding="ascii")


def remove_noted_files(store: Store) -> int:
    """Remove the files of noted artifacts that no attempt refers to, or that a pack contains.

    Returns:
        The number of bytes that were removed.
    """
    size = 0
    folder = store.artifacts.root / _NOTES
    for note in sorted(folder.glob("*")) if folder.is_dir() else ():
        # If the writer of the note was killed, its last name is incomplete; the row of that one is still there.
        names = [name for name in note.read_text(encoding="ascii").split() if len(name) == _DIGITS]
        later: list[str] = []
        for start in range(0, len(names), NAMES_PER_STATEMENT):
            size += _remove_noted(store, names[start : start + NAMES_PER_STATEMENT], later)
        if later:
            note.write_text("\n".join(later), encoding="ascii")
        else:
            note.unlink()
    return size


def _remove_noted(store: Store, names: Sequence[str], later: list[str]) -> int:
    """Remove these artifacts if nothing needs them; return their bytes.

    Args:
        later: names of files that must wait are added here.
    """

    def work(session: Session) -> tuple[set[str], dict[str, str]]:
        free = set[str]()
        for _ in ("files", "their packs"):  # a pack becomes free when the rows of its files are gone
            free |= {name for name in names if not _is_needed(session, name)}
            session.execute(delete(ArtifactRow).where(ArtifactRow.sha256.in_(free)))
        in_packs = and_(ArtifactRow.sha256.in_(names), ArtifactRow.pack.is_not(None))
        packed = session.execute(select(ArtifactRow.sha256, ArtifactRow.pack).where(in_packs))
        return free, {name: pack for name, pack in packed if pack is not None}

    size, store_artifacts = 0, store.artifacts
    waiting = set(store_artifacts.list_marked())
    free, packed = store.write(work)
    for name in sorted(free | packed.keys()):
        pack = packed.get(name)
        if pack is not None and not store_artifacts.path(pack).exists():  # another host has packed it
            continue
        removed = None if pack in waiting else _remove_file(store_artifacts.path(name), packed=pack is not None)
        if removed is None:
            later.append(name)
            continue
        size += removed
        if store_artifacts.shared and (pack is None or name not in waiting):
            location.at(store_artifacts.shared).remove(name)
        store_artifacts.unmark(name)
    return size


def _is_needed(session: Session, name: str) -> bool:
    """Return True if an attempt refers to this artifact, or if it is the pack of an artifact."""
    links = select(AttemptArtifactRow.sha256).where(AttemptArtifactRow.sha256 == name)
    return bool(session.scalar(links.union_all(select(ArtifactRow.sha256).where(ArtifactRow.pack == name)).limit(1)))


def _remove_file(path: Path, *, packed: bool = False) -> int | None:
    """Remove an artifact's file, unless a program has just written or reused it.

    Args:
        packed: True: its pack has the bytes, so that a program that reuses it does not need the file.

    Returns:
        The number of bytes that were removed; None: the file stays for now.
    """
    aside = path.with_name(f".gone-{path.name}")
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)  # a program that needs these contents from here on writes them again
    try:
        status = aside.stat()
    except FileNotFoundError:
        return 0
    if not packed and time.time() - status.st_mtime < _FRESH_S:
        aside.rename(path)
        return None
    aside.unlink()
    return status.st_size
