"""Packs: the many small files of a run as a few zip files, at least one for each kind of `PACKED`.

A file is removed only when its pack is on the disk, in the database, and in the shared store if there is one.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import ColumnElement, and_, select, update
from sqlalchemy.orm import Session

from lab.errors import BoardlabError, LabTransientError
from lab.results import artifacts
from lab.results.artifacts import UploadResult
from lab.results.backup import failing, in_use
from lab.results.models import ArtifactRow, AttemptArtifactRow, AttemptRow, RunRow
from lab.results.records import PUBLISHED
from lab.results.removal import (
    NAMES_PER_STATEMENT,
    OTHERS,
    RECORDINGS,
    TRACES,
    files_of,
    note_names,
    remove_noted_files,
)
from lab.results.rows import insert_if_absent
from lab.results.store import Store

PACKED: Final = (RECORDINGS, TRACES, OTHERS)  # each kind of file has packs of its own, as its age of removal differs


def upload(store: Store, *, everything: bool = False, say: Callable[[str], None] = lambda _: None) -> UploadResult:
    """Pack the marked artifacts of ended runs, and upload all marked artifacts.

    Arguments and errors are those of `lab.results.artifacts.upload`.
    """
    store_artifacts = store.artifacts
    if store_artifacts.shared:
        try:
            with failing("cannot pack", "the files are uploaded one by one"):
                for run_id in runs_to_pack(store, RunRow.finished_at.is_not(None), store_artifacts.list_marked()):
                    pack_run(store, run_id)
        except BoardlabError as error:  # e.g. this disk is full: the upload itself still works
            say(str(error))
    result = artifacts.upload(store_artifacts, everything=everything, say=say)
    # During a backup the packed files stay until the next upload.
    with (
        contextlib.suppress(LabTransientError),
        failing("cannot remove", "all is in packs"),
        in_use(store_artifacts, removing=True),
    ):
        if packed := [name for name in store_artifacts.list_marked() if store_artifacts.pack_of(name) is not None]:
            note_names(store_artifacts, f"packed-{len(packed)}", packed)
        remove_noted_files(store)
    return result


def runs_to_pack(store: Store, where: ColumnElement[bool], names: Sequence[str] | None = None) -> list[int]:
    """Return the ids of runs with files that are in no pack.

    Args:
        where: condition on the runs.
        names: SHA-256 of files; only runs with one of them. None: all runs.
    """
    loose = (
        select(AttemptRow.run_id)
        .join(AttemptArtifactRow, AttemptArtifactRow.attempt_id == AttemptRow.id)
        .join(ArtifactRow, ArtifactRow.sha256 == AttemptArtifactRow.sha256)
        .where(ArtifactRow.pack.is_(None))
    )

    def read(session: Session) -> list[int]:
        run_ids = set[int]()
        for start in range(0, 1 if names is None else len(names), NAMES_PER_STATEMENT):
            part = (
                loose
                if names is None
                else loose.where(ArtifactRow.sha256.in_(names[start : start + NAMES_PER_STATEMENT]))
            )
            packable = (where, RunRow.kind != PUBLISHED, RunRow.id.in_(part))
            run_ids.update(session.scalars(select(RunRow.id).where(*packable)))
        return sorted(run_ids)

    return store.read(read)


def pack_run(store: Store, run_id: int, *, dry_run: bool = False) -> int:
    """Pack those files of a run that this host can read.

    Args:
        dry_run: True: only count.

    Returns:
        The number of files that were packed, or would be.
    """
    count = 0
    for kinds in PACKED:
        query = select(ArtifactRow.sha256, ArtifactRow.size).join(
            AttemptArtifactRow, AttemptArtifactRow.sha256 == ArtifactRow.sha256
        )
        loose = store.rows(query.where(files_of([run_id], kinds), ArtifactRow.pack.is_(None)).distinct())
        batches: list[list[str]] = [[]]
        size = 0
        for name, length in sorted((row.sha256, row.size) for row in loose):
            if len(batches[-1]) == NAMES_PER_STATEMENT or (batches[-1] and size + length > artifacts.PACK_BYTES):
                batches.append([])
                size = 0
            batches[-1].append(name)
            size += length
        for batch in batches:
            if len(batch) > 1:
                count += len(batch) if dry_run else _pack_batch(store, run_id, batch)
    return count


def _pack_batch(store: Store, run_id: int, names: Sequence[str]) -> int:
    """Pack these files of a run as one zip file; return how many are in it."""
    contents = {}
    for name in names:
        with contextlib.suppress(BoardlabError):  # a file of another host, or a damaged one, stays as it is
            contents[name] = store.artifacts.read(name)
    if len(contents) < 2:
        return 0
    data = artifacts.make_pack(contents)
    pack = hashlib.sha256(data).hexdigest()
    note_names(store.artifacts, f"pack-{run_id}-{pack[:8]}", [pack, *contents])
    store.artifacts.put(data, kind="")

    def work(session: Session) -> int:
        unpacked = and_(ArtifactRow.sha256.in_(contents), ArtifactRow.pack.is_(None))
        statement = update(ArtifactRow).where(unpacked).values(pack=pack)
        count: int = session.execute(statement).rowcount  # type: ignore[attr-defined]
        if count:  # else the run was removed, or another host has packed it
            insert_if_absent(session, ArtifactRow, {"sha256": pack, "size": len(data)})
        return count

    return store.write(work)
