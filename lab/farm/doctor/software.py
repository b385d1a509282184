"""The software: versions that fit each other, programs that are needed, environments, the results."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from sqlalchemy import select

from lab import shipped
from lab.errors import BoardlabError, NoResultsError
from lab.farm.doctor.finding import Finding
from lab.farm.doctor.machine import APART_S, CLOCKS, SAME_SERVERS
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.records import BY_WEB, seems_dead
from lab.results.models import JobRow
from lab.results.store import Store, open_store
from virtual import pdudaemon

VERSIONS: Final = "versions"
STORE: Final = "results"
ENVIRONMENTS: Final = "environments"
_PROGRAMS: Final = {"setpriv": "sudo apt install util-linux"}  # name -> how it is installed; `lab run` calls it
_KERNEL: Final = (5, 10)  # of the oldest distribution that is tested


def versions(version: Callable[[str], str] = metadata.version) -> Iterator[Finding]:
    """boardlab, Python, labgrid, the module `serial`, pdudaemon, the kernel, and what `lab run` calls."""
    python = platform.python_version()
    yield Finding(VERSIONS, "boardlab", "ok", f"{version('boardlab')}, Python {python}, in {sys.prefix}")
    pinned = next(
        filter(None, (re.fullmatch(r"labgrid==([\w.]+)", each) for each in metadata.requires("boardlab") or [])), None
    )
    try:
        labgrid = version("labgrid")
    except metadata.PackageNotFoundError:
        labgrid = "none"
    if pinned is not None and labgrid != pinned[1]:
        said = f"{labgrid}, and boardlab is made for {pinned[1]}: its console drivers' interface differs"
        yield Finding(VERSIONS, "labgrid", "bad", said, f"{sys.executable} -m pip install labgrid=={pinned[1]}")
    else:
        yield Finding(VERSIONS, "labgrid", "ok", labgrid)
    yield from _serial(version)
    try:
        yield Finding(VERSIONS, "pdudaemon", "ok", str(pdudaemon.find()))
    except BoardlabError as error:
        said = "is not installed; boards that it does not switch need none"
        yield Finding(VERSIONS, "pdudaemon", "doubtful", said, str(error))
    for program, mend in _PROGRAMS.items():
        if shutil.which(program) is None:
            yield Finding(VERSIONS, program, "bad", "is not installed, and `lab run` needs it", mend)
    release = platform.release()
    numbers = tuple(map(int, re.findall(r"\d+", release)[:2]))
    level, mend = ("ok", "") if numbers >= _KERNEL else ("doubtful", "boardlab is tested with Linux 5.10 and later")
    yield Finding(VERSIONS, "Linux", "ok" if level == "ok" else "doubtful", release, mend)


def _serial(version: Callable[[str], str]) -> Iterator[Finding]:
    try:
        stranger = version("pyserial")
    except metadata.PackageNotFoundError:
        return
    yield Finding(
        VERSIONS,
        "pyserial",
        "bad",
        f"{stranger} is installed beside pyserial-labgrid: both are the module `serial`, and labgrid needs its own",
        f"{sys.executable} -m pip uninstall -y pyserial && {sys.executable} -m pip install --force-reinstall --no-deps pyserial-labgrid",
    )


def results(db: str | None) -> Iterator[Finding]:
    """The results: can they be read, and does a job stand in them whose process is gone?"""
    try:
        with open_store(db, create=False) as store:
            runs = len(store.runs(1))
            yield Finding(STORE, "store", "ok", f"{store.url}{'' if runs else ', no runs yet'}")
            if left := store.artifacts.marked():
                said = f"{len(left)} are not yet in {store.artifacts.shared or 'where they were to be shared'}"
                yield Finding(STORE, "artifacts", "doubtful", said, "lab results upload; it says what keeps them")
            yield from server_clock(store)
            wanted = select(JobRow).where(JobRow.state == "running").order_by(JobRow.id)
            now = store.now()
            with store._read() as session:
                dead = [
                    (row.id, row.board, row.program)
                    for row in session.scalars(wanted)
                    if seems_dead(row, now, process.has_died)
                ]
    except NoResultsError:
        yield Finding(STORE, "store", "ok", "none yet; the first measurement makes it")
        return
    except BoardlabError as error:
        yield Finding(STORE, "store", "bad", str(error).partition("; ")[0], str(error).partition("; ")[2])
        return
    for job, board, program in dead:
        if program == BY_WEB:  # the site lives on, and what it did for the board does not
            said = f"holds {board} for a power switch of `lab web`, and gives no sign of life"
            mend = "look whether the board is off or on; any other job of that board ends it"
        else:
            said = f"holds {board}, and its process is gone"
            mend = f"lab run --resume {job}; any other job of that board ends it, too"
        yield Finding(STORE, f"job {job}", "doubtful", said, mend)


def server_clock(store: Store) -> Iterator[Finding]:
    """Whether this host's wall clock is that of the database's server, by which reservations begin and end."""
    if store.location.path is not None:
        return
    asked = utc_now()
    there = store.now()
    behind_s, ahead_s = (there - utc_now()).total_seconds(), (asked - there).total_seconds()
    if (off_s := max(behind_s, ahead_s)) > APART_S:
        said = f"is {off_s:.0f} s {'ahead of' if ahead_s > behind_s else 'behind'} that of the database's server"
        yield Finding(CLOCKS, "wall clock", "doubtful", said, SAME_SERVERS)


def environments(folder: Path) -> Iterator[Finding]:
    """The environments of a lab's folder."""
    paths = sorted((folder / shipped.ENVS).glob("*.yaml"))
    if not paths:
        said = f"none in {folder / shipped.ENVS}"
        yield Finding(
            ENVIRONMENTS, shipped.ENVS, "doubtful", said, "run this in a lab's folder; `lab init DIR` writes one"
        )
        return
    from lab.env import envfile  # noqa: PLC0415 - it loads labgrid

    wrong = {path: list(envfile.problems(path)) for path in paths}
    for path, problems in wrong.items():
        if problems:
            more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
            said = problems[0].removeprefix(f"{path}: ") + more
            yield Finding(ENVIRONMENTS, path.name, "bad", said, f"lab env check {path.name}")
    good = sum(not problems for problems in wrong.values())
    if good:
        yield Finding(ENVIRONMENTS, shipped.ENVS, "ok", f"{good} of {len(paths)} have nothing wrong")
