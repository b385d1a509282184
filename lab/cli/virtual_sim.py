"""The commands of `lab virtual` that make simulated boards misbehave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import requests
import typer

from lab.cli.options import BenchFolder, Json
from lab.errors import ConfigurationError, LabTransientError
from lab.shown import echo, echo_json, table
from virtual.panel import PREFIX
from virtual.sim.faults.base import parameters
from virtual.sim.faults.catalogue import FAULTS
from virtual.state import default_folder, expect


def faults(as_json: Json = False) -> None:
    """List the faults that simulated boards can have, with their parameters."""
    if as_json:
        listed = [
            {
                "fault": kind.name,
                "does": kind.does(),
                "parameters": {n: p.default for n, p in parameters(kind).items()},
            }
            for kind in FAULTS.values()
        ]
        echo_json(listed)
        return
    rows = []
    for kind in FAULTS.values():
        takes = " ".join(f"{name}={parameter.default}" for name, parameter in parameters(kind).items())
        rows.append([kind.name, f"{kind.does()}{f' [{takes}]' if takes else ''}"])
    echo(*table(["fault", "what it does [parameters]"], rows, "<<"))


def fault(
    board: Annotated[str, typer.Argument(help="The board's name.")],
    name: Annotated[str, typer.Argument(help="The fault (`lab virtual faults`).")],
    settings: Annotated[list[str] | None, typer.Argument(help="Parameters, as NAME=VALUE.")] = None,
    cycles: Annotated[str, typer.Option(help="Now, next, all, or power-ons such as 3, 2-4, 1,5-7.")] = "next",
    probability: Annotated[float, typer.Option(help="Probability in each of these cycles.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="The fault's random seed (default: the board's).")] = None,
    folder: BenchFolder = None,
) -> None:
    """Add a fault to a simulated board."""
    order = {"fault": name, "cycles": cycles, "probability": f"{probability:g}"}
    if seed is not None:
        order["seed"] = str(seed)
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigurationError(f"{setting!r}: expected NAME=VALUE; `lab virtual faults` lists the parameters")
        order[key] = value
    answer = _ask(folder, board, order)
    echo(f"{board}: power-ons so far {answer['cycle']}, at work: {_names(answer['now'])}, planned: {_planned(answer)}")


def clear(board: Annotated[str, typer.Argument(help="The board's name.")], folder: BenchFolder = None) -> None:
    """Remove all faults of a simulated board, also those of its scenario."""
    _ask(folder, board, {})
    echo(f"{board}: no faults; what they have done to it stays until its next power-on")


def _ask(folder: Path | None, board: str, order: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    state = expect(folder.absolute() if folder else default_folder())
    try:
        answer = requests.put(f"http://{state.http}{PREFIX}{board}/faults", params=order, timeout=5)
        body: dict[str, list[dict[str, str]]] = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise LabTransientError(f"the bench (pid {state.pid}) does not answer at {state.http}: {error}") from error
    if not answer.ok:
        raise ConfigurationError(str(body.get("error", answer.status_code)))
    return body


def _names(names: list[dict[str, str]]) -> str:
    return ", ".join(map(str, names)) or "none"


def _planned(answer: dict[str, list[dict[str, str]]]) -> str:
    return ", ".join(f"{words['fault']} (power-ons {words['cycles']})" for words in answer["planned"]) or "none"
