"""Removal of artifacts' files, after their rows; a kill between the two leaves none behind."""

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
OTHERS: Final = ()  # each other kind
NAMES_PER_STATEMENT: Final = 5000
_LEAVING: Final = ".to-remove"  # in the artifacts' folder: names whose rows go
_FRESH_S: Final = 86_400.0  # since an artifact was written or found again: its attempt may not be committed yet
_DIGITS: Final = 64  # of a SHA-256


def files_of(runs: Sequence[int], kinds: Sequence[str]) -> ColumnElement[bool]:
    """The files of these runs' attempts: `RECORDINGS`, `TRACES` or `OTHERS`."""
    attempts = select(AttemptRow.id).where(AttemptRow.run_id.in_(runs))
    kind = AttemptArtifactRow.kind
    return and_(
        AttemptArtifactRow.attempt_id.in_(attempts),
        kind.in_(kinds) if kinds else kind.not_in((*RECORDINGS, *TRACES)),
    )


def note_files(
    artifacts: ArtifactStore, session: Session, runs: Sequence[int], kinds: Sequence[str] = (), *, only: bool = False
) -> list[str]:
    """Note the artifacts of these runs, before their rows go, so that a kill leaves none behind."""
    condition = (
        files_of(runs, kinds)
        if only
        else AttemptArtifactRow.attempt_id.in_(select(AttemptRow.id).where(AttemptRow.run_id.in_(runs)))
    )
    names = list(session.scalars(select(AttemptArtifactRow.sha256).where(condition).distinct()))
    packs = select(ArtifactRow.pack).join(AttemptArtifactRow, AttemptArtifactRow.sha256 == ArtifactRow.sha256)
    names += filter(None, session.scalars(packs.where(condition).distinct()))  # last: in use until the others go
    if names:
        note_names(artifacts, f"{runs[0]}-{runs[-1]}-{len(names)}", names)
    return names


def note_names(artifacts: ArtifactStore, title: str, names: Sequence[str]) -> None:
    """Note the names of artifacts that `remove_noted_files` removes once nothing needs them."""
    location.private_folder(artifacts.root / _LEAVING)
    (artifacts.root / _LEAVING / title).write_text("\n".join(names), encoding="ascii")


def remove_noted_files(store: Store) -> int:
    """Remove noted artifacts that nothing needs; return their bytes.

    No attempt refers to them, or a pack has them.
    """
    size = 0
    folder = store.artifacts.root / _LEAVING
    for note in sorted(folder.glob("*")) if folder.is_dir() else ():
        # A kill cuts the last
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
    def work(session: Session) -> tuple[set[str], dict[str, str]]:
        free = set[str]()
        for _ in ("files", "their packs"):
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
        gone = None if pack in waiting else _remove_file(store_artifacts.path(name), sure=pack is not None)
        if gone is None:
            later.append(name)
            continue
        size += gone
        if store_artifacts.shared and (pack is None or name not in waiting):
            location.at(store_artifacts.shared).remove(name)
        store_artifacts.unmark(name)
    return size


def _is_needed(session: Session, name: str) -> bool:
    """True if an attempt refers to this artifact, or one in it does."""
    links = select(AttemptArtifactRow.sha256).where(AttemptArtifactRow.sha256 == name)
    return bool(session.scalar(links.union_all(select(ArtifactRow.sha256).where(ArtifactRow.pack == name)).limit(1)))


def _remove_file(path: Path, *, sure: bool = False) -> int | None:
    """Remove a file, and return its bytes; None: it is left for later.

    It is left if a program has just found it again.

    Args:
        sure: a program that has just found it does not need it.
    """
    aside = path.with_name(f".gone-{path.name}")
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)  # whoever finds it from here on writes it anew
    try:
        about = aside.stat()
    except FileNotFoundError:
        return 0
    if not sure and time.time() - about.st_mtime < _FRESH_S:
        aside.rename(path)
        return None
    aside.unlink()
    return about.st_size
