"""What `lab farm check` finds wrong with a farm.yaml, from here: its schedules and boards, their environments and places, and who would be told."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab import shipped
from lab.env import envfile
from lab.errors import BoardlabError
from lab.farm import notify, orders, suites
from lab.farm.config import Farm
from lab.farm.doctor import Finding, software
from lab.farm.queueing import BoardEntry
from lab.host.process import user_name

_FILES: Final = re.compile(
    r"^sqlite:///(.+)|[?&]passfile=([^&]+)"
)  # of the results: that of SQLite, and libpq's passwords


def problems(farm: Farm) -> list[str]:
    """What a schedule names and is not there, or is another board's."""
    folder = Path(farm.directory)
    found = [problem for entry in farm.boards for problem in wrong_board(folder, entry)]
    for schedule in farm.schedules:
        try:
            wanted = suites.expand(schedule.suites)
            for suite in wanted:
                suites.files(shipped.tests(folder), suite)
            path = envfile.find(schedule.env, folder)
            board = envfile.arguments_of(path, "BoardStrategy").get("board")
        except BoardlabError as error:
            found.append(f"schedules: {schedule.name}: {error}")
            continue
        if board != schedule.board:
            found.append(f"schedules: {schedule.name}: {schedule.env} is of board {board!r}, not {schedule.board!r}")
            continue
        wrong = orders.problems(shipped.tests(folder), wanted, schedule.options, path)
        found += [f"schedules: {schedule.name}: {problem}" for problem in wrong]
    return found


def wrong_board(folder: Path, entry: BoardEntry) -> Iterator[str]:
    """Why a board's environment is none, or another's."""
    try:
        board = envfile.arguments_of(envfile.find(entry.env, folder), "BoardStrategy").get("board")
    except BoardlabError as error:
        yield f"boards: {entry.name}: {error}"
        return
    if board != entry.name:
        yield f"boards: {entry.name}: {entry.env} is of board {board!r}"


def results(farm: Farm, file: Path) -> Iterator[Finding]:
    """Why the results do not answer here, and what else is wrong with them; nothing where there are none yet.

    Args:
        file: the farm.yaml.
    """
    path = next((Path(found[1] or found[2]) for found in _FILES.finditer(farm.database)), None)
    if path is not None and _is_hidden(path):
        said = f"{user_name(os.getuid())} may not read {path}, so nothing is known of the results"
        mend = f"look as the services' user: sudo -u {farm.user} {farm.program} farm check {file}"
        yield Finding(software.STORE, "database", "doubtful", said, mend)
        return
    made_by_systemd = Path("/var/lib", farm.state)  # the services' StateDirectory=
    if path is None or path.parent != made_by_systemd or made_by_systemd.exists():
        yield from (each for each in software.results(farm.database) if each.level != "ok")


def _is_hidden(path: Path) -> bool:
    """True for a file that exists or that this user may not read."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return not os.access(path, os.R_OK)


def untold(farm: Farm) -> list[str]:
    """Why nobody would be told, where farm.yaml names an Alertmanager."""
    if not farm.alertmanager:
        return []
    try:
        notify.alertmanager(farm).ready_receivers()
    except BoardlabError as error:
        return [f"alertmanager: {error}"]
    return []
