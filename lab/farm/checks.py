"""What `lab farm check` finds wrong with a farm.yaml, from here: its schedules and boards, their environments and places, and who would be told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab import shipped
from lab.env import envfile
from lab.errors import BoardlabError
from lab.farm import notify, orders, suites
from lab.farm.config import Farm
from lab.farm.queueing import BoardEntry


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


def untold(farm: Farm) -> list[str]:
    """Why nobody would be told, where farm.yaml names an Alertmanager."""
    if not farm.alertmanager:
        return []
    try:
        notify.alertmanager(farm).ready_receivers()
    except BoardlabError as error:
        return [f"alertmanager: {error}"]
    return []
