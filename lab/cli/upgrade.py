"""`lab upgrade`: the changes that a newer boardlab makes in a lab."""

from __future__ import annotations

import typer
from attrs import evolve

from lab.cli.doctor import show
from lab.cli.options import FarmFile, HostDatabase, Json, Runtime
from lab.farm.checks.registry import UPGRADE, examine, examined_host

app = typer.Typer(help="Before an upgrade: what it will change.", no_args_is_help=True)


@app.callback()
def upgrade() -> None:
    """Before an upgrade: what it will change."""


@app.command()
def check(*, as_json: Json = False, db: HostDatabase = None, farm: FarmFile = None, runtime: Runtime = None) -> None:
    """Say what this boardlab changes in a lab of an older one.

    Run it with the newer boardlab, e.g. from an environment of its own, in the lab's folder. Looks at the results'
    schema, environments, copies of the strategy and tests_perf, farm.yaml, units and running programs. Nothing is
    changed. Exits with 1 when something is bad.
    """
    lab = evolve(examined_host(db, farm, runtime), serves=True)
    hint = ["", f"other hosts: lab farm check {lab.host.file}"] if len(lab.farm.hosts) > 1 else []
    show(list(examine(lab, UPGRADE)), *hint, as_json=as_json)
