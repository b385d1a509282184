"""Shell completion of values: environments, suites, boards, runs, ports.

Each is known by its name in the command's function, so that all commands offer the same for the same thing. This is
loaded only while a shell completes a line. After any error nothing is offered, and a person types on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

from lab import boards, package_data

Offer = tuple[str, str]  # a value, and what it is
Source = Callable[[Mapping[str, Any]], Iterable[Offer]]  # gets what stands on the line already

_MOST_RUNS: Final = 50


def attach(app: typer.Typer) -> None:
    """Let every parameter of the commands that are loaded offer its values."""
    for command in app.registered_commands:
        if command.callback is not None:
            hints = get_type_hints(command.callback, include_extras=True)
            command.callback.__annotations__ = hints  # as text they would be made anew when typer looks
            for name in inspect.signature(command.callback).parameters:
                if get_origin(hints.get(name)) is not Annotated:
                    continue
                for info in get_args(hints[name])[1:]:
                    if isinstance(info, ParameterInfo) and info.autocompletion is None:
                        info.autocompletion = _offering(name, info)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            attach(group.typer_instance)


def _offering(name: str, info: ParameterInfo) -> Callable[..., list[Offer]] | None:
    metavar = str(info.metavar or "")
    source = _BY_METAVAR.get(metavar) or _BY_NAME.get(name)
    if source is None:
        return None
    listed = "," in metavar  # NAME[,NAME]

    def offer(ctx: typer.Context, incomplete: str) -> list[Offer]:
        before, comma, _ = incomplete.rpartition(",") if listed else ("", "", "")
        try:
            return [(before + comma + value, what) for value, what in source(ctx.params)]
        except Exception:  # noqa: BLE001 - a traceback in the middle of a line helps nobody
            return []

    return offer


def _environments(_line: Mapping[str, Any]) -> Iterable[Offer]:
    return [(path.name, "") for path in sorted((Path.cwd() / package_data.ENVS).glob("*.yaml"))]


def _suites(_line: Mapping[str, Any]) -> Iterable[Offer]:
    from lab.farm.job_request import GUIDE  # noqa: PLC0415

    files = sorted(package_data.tests(Path.cwd()).glob("test_*.py"))
    own = [(path.stem.removeprefix("test_"), "") for path in files]
    return list(dict.fromkeys([("guide", "everything that a guide has"), *((name, "") for name in GUIDE), *own]))


def _types(_line: Mapping[str, Any]) -> Iterable[Offer]:
    return [(name, boards.load(name).title) for name in boards.names()]


def _media(_line: Mapping[str, Any]) -> Iterable[Offer]:
    return [(medium, "") for medium in dict.fromkeys(m for name in boards.names() for m in boards.load(name).media)]


def _runs(line: Mapping[str, Any]) -> Iterable[Offer]:
    from lab.results.store import open_store  # noqa: PLC0415

    with open_store(line.get("db"), create=False) as store:
        return [
            (str(run.id), f"{run.kind} {run.board} {run.release} {run.status}, {run.started_at:%Y-%m-%d %H:%M}")
            for run in store.runs(_MOST_RUNS)
        ]


def _complete_column(column: str) -> Source:
    def values(line: Mapping[str, Any]) -> Iterable[Offer]:
        from lab.results import listing  # noqa: PLC0415
        from lab.results.store import open_store  # noqa: PLC0415

        with open_store(line.get("db"), create=False) as store:
            return [(value, "") for value in listing.column_values(store, column)]

    return values


def _runs_and_releases(line: Mapping[str, Any]) -> Iterable[Offer]:
    return [*_runs(line), *_complete_column("release")(line)]


def _jobs(line: Mapping[str, Any]) -> Iterable[Offer]:
    from sqlalchemy import select  # noqa: PLC0415

    from lab.jobs.records import call  # noqa: PLC0415
    from lab.results.models import JobRow  # noqa: PLC0415
    from lab.results.store import open_store  # noqa: PLC0415

    query = select(JobRow.id, JobRow.suites, JobRow.board, JobRow.state).order_by(JobRow.id.desc()).limit(_MOST_RUNS)
    with open_store(line.get("db"), create=False) as store:
        return [(call(row.id), f"{row.suites} on {row.board}, {row.state}") for row in store.rows(query)]


def _statuses(_line: Mapping[str, Any]) -> Iterable[Offer]:
    from lab.results.records import STATUSES  # noqa: PLC0415

    return [(status, "") for status in STATUSES]


def _ports(line: Mapping[str, Any]) -> Iterable[Offer]:
    """Present devices, and the console server's ports and boards."""
    from lab.console.client import ConsoleClient  # noqa: PLC0415
    from lab.errors import BoardlabError  # noqa: PLC0415
    from lab.host.runtime import runtime_dir, socket_path  # noqa: PLC0415

    offers: list[Offer] = []
    try:
        with ConsoleClient(socket_path(line.get("runtime") or runtime_dir())) as client:
            for port in client.status().ports:
                offers += [
                    (port.info.name, port.info.meta.device),
                    *([(port.board, port.info.name)] if port.board else []),
                ]
    except BoardlabError:  # none runs: the devices are still there
        pass
    return [*offers, *((str(path), "") for kind in ("ttyUSB*", "ttyACM*") for path in sorted(Path("/dev").glob(kind)))]


_BY_NAME: Final[Mapping[str, Source]] = {
    "env": _environments,
    "suite": _suites,
    "board_type": _types,
    "medium": _media,
    "run_id": _runs,
    "run_ids": _runs,
    "release": _complete_column("release"),
    "status": _statuses,
    "port": _ports,
    "resume": _jobs,
    "job": _jobs,
    "job_id": _jobs,
}
_BY_METAVAR: Final[Mapping[str, Source]] = {
    "TYPE": _types,
    "RUN": _runs,
    "ID|RUN": _runs,
    "RUN|RELEASE": _runs_and_releases,
    "JOB": _jobs,
    "BOARD": _complete_column("board"),
}
