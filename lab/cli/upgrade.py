"""`lab upgrade`: the changes that a newer boardlab makes in a lab."""

from __future__ import annotations

import typer
from attrs import asdict

from lab.cli.doctor import NOT_WELL, lines
from lab.cli.options import FarmFile, HostDatabase, Json, Runtime
from lab.farm import services
from lab.farm.doctor import services as doctor_services
from lab.farm.doctor import software
from lab.terminal import echo, echo_json

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
    host = services.host_file(farm)
    folder = services.runtime_of(host) if runtime is None else runtime
    found = [*software.upgrade(services.database(db, host.farm), host.folder), *software.environments(host.folder)]
    found += doctor_services.versions(services.console_server(folder)[1], host)
    found += doctor_services.outdated(host, folder)
    if host.farm is not None and host.installed and not host.supervised:
        found += doctor_services.written(host.farm, host)
    if as_json:
        echo_json([asdict(each) for each in found])
    else:
        echo(*lines(found))
        if host.farm is not None and len(host.farm.hosts) > 1:
            echo("", f"other hosts: lab farm check {host.file}")
    if any(each.level == "bad" for each in found):
        raise typer.Exit(NOT_WELL)
