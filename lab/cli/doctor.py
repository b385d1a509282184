"""`lab doctor`: is this host fit to measure?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer
from attrs import asdict

from lab.cli.options import FarmFile, HostDatabase, Json, Runtime
from lab.farm.checks import Finding
from lab.farm.checks.registry import DOCTOR, examine, examined_host
from lab.terminal import bad, doubtful, echo, echo_json, table

MARKS: Final[Mapping[str, Callable[[str], str]]] = {"ok": str, "doubtful": doubtful, "bad": bad}
_ORDER: Final = ("bad", "doubtful", "ok")
app = typer.Typer(help="Find what is wrong with this lab host, and how to mend it.")


@app.command()
def doctor(
    *,
    as_json: Json = False,
    db: HostDatabase = None,
    farm: FarmFile = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="This host's name in farm.yaml (default: its own name, else the first).",
        ),
    ] = "",
    runtime: Runtime = None,
) -> None:
    """Find what is wrong on this host, with remedies.

    Looks at ports, clocks, disks, services, versions, results and environments. Nothing is changed. Exits with 1 when
    something is bad.
    """
    show(list(examine(examined_host(db, farm, runtime, host), DOCTOR)), as_json=as_json)


def show(found: list[Finding], *more: str, as_json: bool) -> None:
    """Print findings; exit with 1 when one is bad."""
    if as_json:
        echo_json([asdict(each) for each in found])
    else:
        echo(*lines(found), *more)
    if any(each.level == "bad" for each in found):
        raise typer.Exit(1)


def lines(found: list[Finding]) -> list[str]:
    """Table of all findings, the worst first; then the remedies."""
    ordered = sorted(found, key=lambda each: _ORDER.index(each.level))
    rows = [[MARKS[each.level](each.level), each.area, each.subject, each.said] for each in ordered]
    listing = table(["", "area", "what", "found"], rows, "<<<<")
    ill = [each for each in ordered if each.level != "ok"]
    if not ill:
        return [*listing, "", "nothing wrong"]
    numbers = ", ".join(f"{sum(each.level == level for each in found)} {level}" for level in _ORDER[:2])
    hints = [line for each in ill if each.hint for line in (f"  {each.subject}:", f"    {each.hint}")]
    return [*listing, "", f"{numbers}; to mend:", *hints]  # not folded: they are there to be copied
