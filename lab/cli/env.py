"""`lab env`: a lab's environments and their mistakes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import typer

from lab.cli.options import BoardEnv, Json
from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError
from lab.farm.checks.registry import ENV, CheckTarget, examine
from lab.terminal import echo, echo_json, table

_NOT_ASKED = "no relay, console or rail was asked for an answer (lab health BOARD --check does)"
app = typer.Typer(help="labgrid environments: list them, check them.", no_args_is_help=True)


@app.command()
def check(
    env: BoardEnv,
    as_json: Json = False,
) -> None:
    """Find everything in an environment that a run would refuse.

    These are misspelt keys, wrong types and wiring, values of the template, missing devices.
    """
    path = envfile.find(env, Path.cwd())
    findings = list(examine(CheckTarget(env=path), ENV))
    problems = [str(finding) for finding in findings if finding.level == "bad"]
    remarks = [str(finding) for finding in findings if finding.level == "doubtful"]
    if as_json:
        echo_json({"file": str(path), "problems": problems, "remarks": remarks})
    else:
        count = f"{len(problems)} problem{'s' * (len(problems) != 1)}" if problems else f"nothing wrong; {_NOT_ASKED}"
        echo(*problems, *(f"remark: {remark}" for remark in remarks), f"{path}: {count}")
    if problems:
        raise typer.Exit(2)


@app.command()
def port(
    env: BoardEnv,
) -> None:
    """Print the path of the board's console, for `lab console attach`."""
    from lab.env.power_state import console_device  # noqa: PLC0415 - it loads labgrid

    echo(console_device(env))


@app.command()
def straps(env: BoardEnv, *, as_json: Json = False) -> None:
    """Try the boot-mode straps of all media, and read them back.

    No power is switched; a run under way is disturbed.
    """
    from lab.env.power_state import straps_of  # noqa: PLC0415 - it loads labgrid

    strategy, driver = straps_of(env)
    media = sorted(strategy.type.media.items(), key=lambda item: item[0] == strategy.medium)  # its own one stays set
    rows = [
        {"medium": name, "boot_mode": medium.boot_mode, **_try_straps(driver, medium.boot_mode)}
        for name, medium in media
    ]
    if as_json:
        echo_json(rows)
    else:
        for row in rows:
            result = f"FAILED [{row['failure']}]: {row['message']}" if row["failure"] else "the outputs took it"
            echo(f"{row['medium']} ({row['boot_mode']:#x}): {result}")
    if any(row["failure"] for row in rows):
        raise typer.Exit(1)


def _try_straps(driver: Any, value: int) -> dict[str, str]:
    try:
        driver.set(value)
    except BoardlabError as error:
        return {"failure": error.failure, "message": str(error)}
    return {"failure": "", "message": ""}


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the environments in envs/, with the board that each describes."""
    folder = Path.cwd() / envfile.FOLDER
    rows = [{"env": path.name, **_board(path)} for path in sorted(folder.glob("*.yaml"))]
    if not rows:
        raise ConfigurationError(
            f"{folder}: no environments; run this where the folder envs/ is, or let `lab init` write one"
        )
    if as_json:
        echo_json(rows)
        return
    echo(*table(["environment", "board type", "board"], [list(row.values()) for row in rows], "<<<"))


def _board(path: Path) -> dict[str, str]:
    """Board and type of an environment's strategy; empty: unreadable."""
    with contextlib.suppress(ConfigurationError):
        strategy = envfile.arguments_of(path, "BoardStrategy")
        return {name: str(strategy.get(name, "")) for name in ("board_type", "board")}
    return {"board_type": "", "board": ""}
