"""`lab doctor` and `lab upgrade`: the checks of a host, and their findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer
from attrs import asdict, evolve

from lab.cli.options import FarmFile, HostDatabase, Json, Runtime
from lab.farm.checks import Finding
from lab.farm.checks.registry import DOCTOR, UPGRADE, examine, load_host
from lab.terminal import bad, doubtful, echo, echo_json, table

MARKS: Final[Mapping[str, Callable[[str], str]]] = {"ok": str, "doubtful": doubtful, "bad": bad}
_ORDER: Final = ("bad", "doubtful", "ok")
app = typer.Typer(help="Find what is wrong with this lab host, and how to mend it.")
upgrade_app = typer.Typer(help="Before an upgrade: what it will change.", no_args_is_help=True)


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
    show(list(examine(load_host(db, farm, runtime, host), DOCTOR)), as_json=as_json)


@upgrade_app.callback()
def upgrade() -> None:
    """Before an upgrade: what it will change."""


@upgrade_app.command()
def check(*, as_json: Json = False, db: HostDatabase = None, farm: FarmFile = None, runtime: Runtime = None) -> None:
    """Say what this boardlab changes in a lab of an older one.

    Run it with the newer boardlab, e.g. from an environment of its own, in the lab's folder. Looks at the results'
    schema, environments, copies of the strategy and tests_perf, farm.yaml, units and running programs. Nothing is
    changed. Exits with 1 when something is bad.
    """
    lab = evolve(load_host(db, farm, runtime), serves=True)
    hint = ["", f"other hosts: lab farm check {lab.host.file}"] if len(lab.farm.hosts) > 1 else []
    show(list(examine(lab, UPGRADE)), *hint, as_json=as_json)


def show(findings: list[Finding], *more: str, as_json: bool) -> None:
    """Print findings; exit with 1 when one is bad."""
    if as_json:
        echo_json([asdict(finding) for finding in findings])
    else:
        echo(*lines(findings), *more)
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(1)


def lines(findings: list[Finding]) -> list[str]:
    """Table of all findings, the worst first; then the remedies."""
    ordered = sorted(findings, key=lambda finding: _ORDER.index(finding.level))
    rows = [[MARKS[finding.level](finding.level), finding.area, finding.subject, finding.said] for finding in ordered]
    listing = table(["", "area", "what", "found"], rows, "<<<<")
    complaints = [finding for finding in ordered if finding.level != "ok"]
    if not complaints:
        return [*listing, "", "nothing wrong"]
    numbers = ", ".join(f"{sum(finding.level == level for finding in findings)} {level}" for level in _ORDER[:2])
    hints = [
        line for finding in complaints if finding.hint for line in (f"  {finding.subject}:", f"    {finding.hint}")
    ]
    return [*listing, "", f"{numbers}; to mend:", *hints]  # not folded: they are there to be copied
