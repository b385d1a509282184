"""`lab farm up`, `status`, `logs`, `down`: a farm on one machine, without root."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from lab.cli.options import Json
from lab.errors import ConfigurationError
from lab.farm import buildbot, config, local
from lab.farm import status as farm_status
from lab.farm.config import Farm, VirtualBoards
from lab.farm.local import Desk, Supervised
from lab.shown import echo, echo_json, log_to, table
from virtual.sim.order import DEFAULT_TYPE

app = typer.Typer(help="A lab host: check farm.yaml, write systemd units from it, bring a farm up.")
COUNT: Final = 4  # of the simulated boards of a new farm
_TAIL: Final = "200"  # lines

File = Annotated[
    Path,
    typer.Argument(metavar="[FILE]", help="The farm.yaml; what the farm keeps is in its folder.", show_default=True),
]


@app.command()
def up(
    file: File = local.FILE,
    *,
    board_type: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Types of the simulated boards of a new farm.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, max=1000, metavar="N", help="How many of each type (default: 4).")
    ] = None,
    time_scale: Annotated[
        float | None, typer.Option(metavar="F", help="Factor on the times of the simulated boards (default: 1).")
    ] = None,
    with_buildbot: Annotated[
        bool, typer.Option("--buildbot", help="With a Buildbot that queues the runs of a new farm.")
    ] = False,
) -> None:
    """Bring a farm up on this machine, as its user: what is in farm.yaml, else simulated boards.

    The programs are kept running until `lab farm down`, or until the host is switched off. Runs on a timer are systemd's:
    `lab farm units`, or Buildbot's.
    """
    place = Desk(file.absolute())
    if place.file.exists() and (board_type or count or time_scale or with_buildbot):
        raise ConfigurationError(f"{file} is there, and says what there is: edit its `virtual` and `buildbot`")
    if file != local.FILE and not place.file.exists():
        raise ConfigurationError(f"{file}: there is no such file; `lab init` writes one")
    try:
        boards = VirtualBoards(board_type or [DEFAULT_TYPE], count or COUNT, time_scale or 1.0)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    farm, started = place.up(boards, queued=with_buildbot)
    echo(f"The farm is up in {place.folder}." if started else f"Already up in {place.folder}.")
    _programs(place, farm)
    echo("In a shell of yours, for `lab` and pytest:")
    for name, value in place.environ(farm).items():
        echo(f"  export {name}={shlex.quote(value)}")
    if not farm.web.users:
        echo("To act in the browser, open the link that is in `lab farm logs web`.")
    if farm.buildbot is not None:
        echo(f"Start builds as user lab; its password is in {place.buildbot.master / buildbot.SECRETS}")
    for schedule in farm.schedules[:1]:
        echo(f"Measure one: lab run --cycles 2 --env {shlex.quote(schedule.env)}")


@app.command()
def status(
    file: File = local.FILE,
    *,
    as_json: Json = False,
) -> None:
    """Show the farm's programs, and the lab as `lab status` has it."""
    place = Desk(file.absolute())
    states = place.states()
    if as_json:
        echo_json([{"program": s.name, "state": s.state, "pid": s.pid, "said": s.said} for s in states])
        raise typer.Exit(0 if states else 1)
    if not states:
        echo(f"No farm is up in {place.folder}; `lab farm up` starts one.")
        raise typer.Exit(1)
    farm = config.load(place.file)
    _programs(place, farm)
    echo("", *farm_status.lines(farm_status.look(farm.database, place.file, place.runtime)))


@app.command()
def logs(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="As `lab farm status` names it.")],
    *,
    file: Annotated[Path, typer.Option("--farm", metavar="FILE", help="The farm.yaml.")] = local.FILE,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
) -> None:
    """Show the last lines that a program of the farm wrote."""
    path = Supervised(Desk(file.absolute()).runtime).log(program)
    words = ["tail", "-n", _TAIL, *(["-F"] if follow else []), str(path)]
    sys.stdout.flush()
    os.execvp(words[0], words)  # noqa: S606 - the distribution's program


@app.command()
def down(file: File = local.FILE) -> None:
    """Take the farm down: runs ended, their boards off, then the programs. Files and results stay."""
    log_to(sys.stderr)
    place = Desk(file.absolute())
    echo("The farm is down." if place.down() else f"No farm is up in {place.folder}.")


def _programs(place: Desk, farm: Farm) -> None:
    addresses = {"exporter": f"http://{farm.exporter.listen}/metrics", "web": f"http://{farm.web.listen}/"}
    addresses |= {"boards": farm.pdudaemon.address, "pdudaemon": farm.pdudaemon.address}
    if farm.buildbot is not None:
        addresses["buildbot"] = f"http://{farm.buildbot.www}/"
    rows = [[s.name, s.state.lower(), s.said, addresses.get(s.name, "")] for s in place.states()]
    echo(*table(["program", "state", "", "address"], rows, "<<<<"))
