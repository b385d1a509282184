"""Checks of the results: their store, jobs, backup, clock and schema."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import select

from lab.errors import BoardlabError, NoResultsError
from lab.farm.checks import Finding
from lab.farm.checks.machine import APART_S, CLOCKS, SAME_SERVERS, UPGRADE
from lab.farm.config import Farm
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.records import BY_WEB, job_of, seems_dead
from lab.results import backup, database, schema
from lab.results.audit import last_done
from lab.results.location import locate
from lab.results.models import JobRow
from lab.results.store import BUSY_TIMEOUT_S, Store, open_store

STORE: Final = "results"
_FILES: Final = re.compile(r"^sqlite:///(.+)|[?&]passfile=([^&]+)")  # SQLite's, and libpq's passwords


def results(db: str | None) -> Iterator[Finding]:
    """Check the store and the jobs of dead processes in it."""
    try:
        with open_store(db, create=False) as store:
            runs = len(store.runs(1))
            yield Finding(STORE, "store", "ok", f"{store.url}{'' if runs else ', no runs yet'}")
            path = store.location.path
            if path is not None and path.stat().st_mode & 0o007:
                text = "every user of this host may read it: an older boardlab made it, or a person"
                yield Finding(STORE, "store", "doubtful", text, f"chmod o= {path}* {store.artifacts.root}")
            if left := store.artifacts.list_marked():
                text = f"{len(left)} are not yet in {store.artifacts.shared or 'where they were to be shared'}"
                yield Finding(STORE, "artifacts", "doubtful", text, "lab results upload; it names the obstacle")
            yield from server_clock(store)
            running = select(JobRow).where(JobRow.state == "running").order_by(JobRow.id)
            now = store.now()
            jobs = store.read(lambda session: [job_of(row) for row in session.scalars(running)])
            dead = [job for job in jobs if seems_dead(job, now, process.has_died)]
    except NoResultsError:
        yield Finding(STORE, "store", "ok", "none yet; the first measurement makes it")
        return
    except BoardlabError as error:
        yield Finding.of_error(STORE, "store", error)
        return
    for job in dead:
        if job.program == BY_WEB:  # the site's process lives on after the switch of the board failed
            text = f"holds {job.board} for a power switch of `lab web`, and gives no sign of life"
            hint = "look whether the board is off or on; any other job of that board ends it"
        else:
            text = f"holds {job.board}, and its process is gone"
            hint = f"lab run --resume {job.id}; any other job of that board ends it, too"
        yield Finding(STORE, f"job {job.id}", "doubtful", text, hint)


def server_clock(store: Store) -> Iterator[Finding]:
    """Compare this host's clock with the database server's.

    Reservations begin and end by the server's.
    """
    if store.location.path is not None:
        return
    asked = utc_now()
    there = store.now()
    behind_s, ahead_s = (there - utc_now()).total_seconds(), (asked - there).total_seconds()
    if (off_s := max(behind_s, ahead_s)) > APART_S:
        text = f"is {off_s:.0f} s {'ahead of' if ahead_s > behind_s else 'behind'} that of the database's server"
        yield Finding(CLOCKS, "wall clock", "doubtful", text, SAME_SERVERS)


def farm_results(farm: Farm, file: Path) -> Iterator[Finding]:
    """Check that a farm's results can be read; missing results are no finding.

    Args:
        file: the farm.yaml.
    """
    path = next((Path(match[1] or match[2]) for match in _FILES.finditer(farm.database)), None)
    if path is not None and _is_hidden(path):
        text = f"{process.user_name(os.getuid())} may not read {path}, so the state of the results is unknown"
        hint = f"look as the services' user: sudo -u {farm.user} {farm.program} farm check {file}"
        yield Finding(STORE, "database", "doubtful", text, hint)
        return
    made_by_systemd = Path("/var/lib", farm.state)  # the services' StateDirectory=
    if path is None or path.parent != made_by_systemd or made_by_systemd.exists():
        yield from results(farm.database)


def _is_hidden(path: Path) -> bool:
    """Return whether this user may not read or see a file."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return not os.access(path, os.R_OK)


def last_backup(db: str | None) -> Iterator[Finding]:
    """Check the age of the last backup; without results there is nothing to back up."""
    hint = "systemctl start boardlab-backup; journalctl -u boardlab-backup says what is in the way"
    try:
        with open_store(db, create=False) as store:
            at, now = store.read(lambda session: last_done(session, backup.ACTION)), store.now()
    except BoardlabError:
        return
    if at is None:
        yield Finding(STORE, "backup", "bad", "none was ever made", hint)
    elif (now - at).total_seconds() > backup.OLD_S:
        yield Finding(STORE, "backup", "bad", f"of {at:%Y-%m-%d %H:%M} UTC", hint)
    else:
        yield Finding(STORE, "backup", "ok", f"of {at:%Y-%m-%d %H:%M} UTC")


def schema_change(db: str | None) -> Iterator[Finding]:
    """Find what the installed boardlab changes in a store of an older one."""
    where = locate(db)
    if where.path is not None and not where.path.exists():
        yield Finding(UPGRADE, STORE, "ok", "none yet")
        return
    engine = database.create(where, BUSY_TIMEOUT_S)
    try:
        with database.guard(where), database.reader(engine).connect() as connection:
            revision = schema.revision(connection)
    except BoardlabError as error:
        yield Finding.of_error(UPGRADE, STORE, error)
        return
    finally:
        engine.dispose()
    if revision in {schema.NEWEST, None}:
        yield Finding(UPGRADE, STORE, "ok", f"{where.name} has this boardlab's schema, {schema.NEWEST}")
    elif revision in schema.readable_revisions():
        copy = "a copy is left beside it" if where.path is not None else "no copy is made"
        text = (
            f"the next measurement migrates {where.name} from schema {revision} to {schema.NEWEST} ({copy}); older "
            "hosts are refused then"
        )
        hint = f"lab backup DIR with the older boardlab; {schema.how_to_migrate(where)}"
        yield Finding(UPGRADE, STORE, "doubtful", text, hint)
    else:
        text = f"{where.name} has schema {revision} of a newer boardlab"
        yield Finding(UPGRADE, STORE, "bad", text, "install that boardlab here, or a newer one")
