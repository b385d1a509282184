"""`lab init`: a folder for a lab, with what a person edits."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lab import boards, package_data
from lab.cli.options import Json
from lab.errors import ConfigurationError
from lab.farm import labfolder
from lab.farm.labfolder import Env
from lab.terminal import echo, echo_json
from lab.virtual import pdudaemon
from lab.virtual.sim.kind import DEFAULT_TYPE

app = typer.Typer(help="Write a lab's folder: an environment per board type, strategies, tests_perf, farm.yaml.")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder; created if missing.")],
    *,
    board_type: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE[,TYPE]", help=f"Of the lab's boards; `lab boards` lists them (default: {DEFAULT_TYPE})."
        ),
    ] = None,
    sim: Annotated[bool, typer.Option("--sim", help="Also environments of simulated boards of these types.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help=f"Write only this part: {', '.join(labfolder.PARTS)}; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a lab's folder, and print the next steps.

    Existing files are never changed.
    """
    types = [name for argument in board_type or [DEFAULT_TYPE] for name in argument.split(",")]
    parts = only or list(labfolder.PARTS)
    for part in parts:
        if part not in labfolder.PARTS:
            raise ConfigurationError(f"--only {part}: there are: {', '.join(labfolder.PARTS)}")
    envs = labfolder.chosen(types, sim=sim)
    where = folder.absolute()
    texts = labfolder.contents(where, envs, parts)
    new = labfolder.write(where, texts)
    if as_json:
        echo_json({"files": [str(where / name) for name in new]})
        return
    if not new:
        echo(f"{folder}: all is there already")
        return
    tests = [name for name in new if name.startswith(f"{package_data.TESTS}/")]
    names = [name for name in new if name not in tests]
    if tests:
        names.append(f"{package_data.TESTS} ({len(tests)} files)")
    echo(f"{folder}: wrote {', '.join(names)}")
    if package_data.ENVS in parts:
        echo("", "Next:", *(f"  {line}" for line in _next_steps(where, envs)))


def _next_steps(folder: Path, envs: Sequence[Env]) -> list[str]:
    lab, pytest = package_data.program("lab"), package_data.program("pytest")
    lines = [] if folder == Path.cwd() else [shlex.join(["cd", str(folder)])]
    try:
        pdudaemon.find()
    except ConfigurationError:
        lines += [f"{pdudaemon.installing()}    # pdudaemon switches the power"]
    for env in envs:
        name = env.path.name
        measure = f"{shlex.quote(pytest)} --lg-env {name} {package_data.TESTS}/test_boot.py --lab-cycles 1"
        if env.simulated:
            kind = "" if boards.load(env.board_type).virtual else f" sim --type {env.board_type}"
            lines += [f"{shlex.quote(lab)} virtual up{kind} && {measure}"]
        else:
            numbers = ", ".join(map(str, env.lab_lines()))
            lines += [f"edit {package_data.ENVS}/{name}, lines {numbers} (marked LAB), then:"]
            lines += [f"  {shlex.quote(lab)} env check --env {name} && {measure}"]
    lines += [
        f"edit {labfolder.FARM_FILE} for runs on a timer, then: {shlex.quote(lab)} farm check {labfolder.FARM_FILE}"
    ]
    return [*lines, f"the documents are in {package_data.folder(package_data.DOCS)}"]
