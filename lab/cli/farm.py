"""`lab farm`: a lab host's configuration, checked, and made into systemd units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from attrs import asdict

from lab import shipped
from lab.cli.doctor import MARKS
from lab.cli.options import Json, OutputFolder
from lab.errors import ConfigurationError
from lab.farm import buildbot, discover, notify, release_watch, services, systemd
from lab.farm import check as farm_check
from lab.farm import systemd as unit_files
from lab.farm.config import Farm, load
from lab.farm.doctor import Finding, duties, examine, patient
from lab.farm.doctor.duties import outdated
from lab.results.location import data_home
from lab.shown import echo, echo_json, echo_text, table

app = typer.Typer(
    help="A lab host: check farm.yaml, write systemd units from it, bring a farm up.", no_args_is_help=True
)
File = Annotated[Path, typer.Argument(metavar="FILE", help="The host's farm.yaml.")]


@app.command()
def check(
    file: File,
    *,
    here: Annotated[
        bool,
        typer.Option("--here", help="Look from here only, and not at the `duties` that farm.yaml names."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Find what is wrong with a farm.yaml, with environments and suites that it names, and, through ssh, with its hosts."""
    farm = load(file)
    names = farm_check.names(farm)
    asked = [] if here or not farm.hosts else duties.examine(farm, file, partial(_doctor, file))
    found = [*farm_check.problems(farm), *names.public, *farm_check.wiring_problems(farm), *farm_check.untold(farm)]
    own = [] if asked else list(_own(farm, file))  # else `lab doctor` looks, on each host
    found += [_line(each) for each in own if each.level == "bad"]
    warnings = [*names.unknown, *(_line(each) for each in own if each.level == "doubtful")]
    if not farm.alertmanager:
        warnings.append("nobody gets alerts: farm.yaml names no `alertmanager`, see docs/farm/alerts.md")
    bad = any(each.finding.level == "bad" for each in asked)
    if as_json:
        listed = [{"host": each.host, **asdict(each.finding)} for each in asked]
        echo_json({"problems": found, "warnings": [*warnings, *farm_check.warnings(farm)], "hosts": listed})
    else:
        for problem in found:
            echo(f"{file}: {problem}")
        if asked:
            echo(*lines(duties.names(farm), asked), "")
        if not (found or bad):
            echo(f"{file}: nothing wrong; {len(farm.schedules)} schedules")
        echo(*(f"warning: {warning}" for warning in warnings), *farm_check.warnings(farm))
    if found or bad:
        raise typer.Exit(2)


def _own(farm: Farm, file: Path) -> Iterator[Finding]:
    """Problems of the results, the services' files and the running programs."""
    yield from farm_check.results(farm, file)
    if duties.is_here(farm):
        yield from (each for each in duties.ssh_file_findings(farm) if each.level == "bad")
        host = services.host_file(file)
        yield from outdated(host, services.runtime_of(host), file)


def _line(finding: Finding) -> str:
    return f"{finding.subject}: {finding.said}; {finding.mend}"


def _doctor(file: Path, host: str) -> list[Finding]:
    return list(examine(patient(None, file, None, host)))


def lines(names: Sequence[str], found: Sequence[duties.Found]) -> list[str]:
    """A table with a row for each thing that is not well, and one for each host where all is; then what to do about each."""
    ill = sorted((each for each in found if each.finding.level != "ok"), key=lambda each: each.finding.level)
    rows = [
        [
            each.host,
            MARKS[each.finding.level](each.finding.level),
            each.finding.area,
            each.finding.subject,
            each.finding.said,
        ]
        for each in ill
    ]
    for name in names:
        its = [each for each in found if each.host == name]
        if all(each.finding.level == "ok" for each in its):
            rows.append([name, "ok", "", "", f"{len(its)} checks, nothing wrong"])
    shown = table(["host", "", "area", "what", "found"], rows, "<<<<<")
    mends = [
        line
        for each in ill
        if each.finding.mend
        for line in (f"  {each.host}: {each.finding.subject}:", f"    {each.finding.mend}")
    ]
    return [*shown, *(["", "to mend:", *mends] if mends else [])]


@app.command()
def units(
    file: File,
    *,
    output: OutputFolder = Path(),
    installed: Annotated[
        Path | None,
        typer.Option("--farm", metavar="PATH", help="Where that host keeps its farm.yaml, if not where FILE is."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(metavar="NAME", help="Which of the farm's hosts (default: the first, which has the results)."),
    ] = "",
) -> None:
    """Write the systemd units of a farm.yaml; then: systemctl daemon-reload, and enable them."""
    farm = load(file)
    for path in systemd.write(unit_files.units(farm, str(installed or file.absolute()), host), output):
        echo(str(path))


@app.command("buildbot")
def buildbot_folders(
    file: File,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where: /var/lib/boardlab/buildbot for the units.")
    ],
) -> None:
    """Write the folders of Buildbot's master and workers, as root for the services' user; a worker's belongs on its host."""
    farm = load(file)
    if farm.buildbot is None:
        raise ConfigurationError(f"{file}: it has no `buildbot`; docs/farm/buildbot.md says what that needs")
    site = buildbot.Site(output.absolute())
    buildbot.write(farm, farm.buildbot, site, farm.environ, file)
    for folder in (site.master, *map(site.worker, buildbot.hosts(farm))):
        echo(str(folder))
    if not buildbot.hand_over(site, farm.user):
        echo(
            f"No user {farm.user} is here, whom farm.yaml names; when there is: chown -R {farm.user}: {site.folder}",
            err=True,
        )


@app.command("released")
def measure_released(
    file: File,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The schedule, which has `every: release`.")],
    *,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="What it keeps (default: released, in the folder of the results)."),
    ] = None,
) -> None:
    """Measure each release file that is new in the folder of a schedule; systemd starts this when one appears."""
    raise typer.Exit(release_watch.of(load(file), name, state or data_home() / "released", echo).measure())


@app.command("discover")
def discover_usb(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The host's farm.yaml (default: the one here).")
    ] = None,
    *,
    udev_rules: Annotated[
        bool, typer.Option("--udev-rules", help="Print udev's rules for boards' adapters, and nothing else.")
    ] = False,
) -> None:
    """Show the USB adapters, SD multiplexers and hubs of this host, and lines for those that nobody names."""
    if udev_rules:
        echo_text(discover.RULES)
        return
    farm = services.host_file(file).farm
    folder = Path(farm.directory) if farm else Path.cwd()
    exports = discover.exported(farm, folder)
    envs = [*discover.environments(folder), *exports]
    devices = discover.plugged()
    names = {device.id_path: discover.named(device.id_path, envs, farm) for device in devices}
    if not devices:
        echo("No USB adapter, SD multiplexer or hub is plugged in.")
        return
    rows = [
        [d.id_path, d.kind, d.title, " ".join(port.node for port in d.ports), ", ".join(names[d.id_path]) or "nobody"]
        for d in devices
    ]
    echo(*table(["socket (ID_PATH)", "", "device", "ports", "named by"], rows, "<<<<<"))
    if farm and farm.exports and not exports:
        echo(f"{folder / farm.exports}: no such file, though farm.yaml has this host export it")
    if lines := list(discover.proposed(devices, names, farm.exports if farm else "")):
        echo("", "To name the others, with names of yours for NAME:", "")
        echo_text("\n".join(lines) + "\n")


@app.command("test-alert")
def test_alert(file: File) -> None:
    """Send an alert through the whole chain, and say where it should arrive."""
    farm = load(file)
    ready = notify.test_alert(farm)
    echo(f"Alertmanager at {farm.alertmanager} took {notify.TEST}; within a minute it should arrive as:")
    for receiver in ready:
        echo(f"  {receiver.described}")
    echo("If it does not: Alertmanager's log says why (journalctl -u prometheus-alertmanager)")


@app.command("notify")
def notify_unit(
    file: File, unit: Annotated[str, typer.Argument(metavar="UNIT", help="The unit of systemd that failed.")]
) -> None:
    """Send an alert that a unit failed; systemd starts this (boardlab-notify@)."""
    notify.unit_failed(load(file), unit)
    echo(f"sent to Alertmanager: {unit} failed")


@app.command("notify-build")
def notify_build(
    file: File,
    builder: Annotated[str, typer.Argument(metavar="BUILDER", help='As Buildbot calls it, e.g. "boot on b1".')],
    *,
    schedule: Annotated[str, typer.Option(metavar="NAME", help="Whose build it was.")],
    board: Annotated[str, typer.Option(metavar="NAME", help="Its board.")],
    said: Annotated[str, typer.Option(metavar="TEXT", help="How it ended.")],
    page: Annotated[str, typer.Option(metavar="URL", help="Where the build is shown.")],
) -> None:
    """Send an alert that a build of a schedule failed; Buildbot's master starts this."""
    notify.build_failed(load(file), notify.Build(builder, schedule, board, said, page))
    echo(f"sent to Alertmanager: {builder} failed")


@app.command()
def files(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The host's farm.yaml, with --output.")] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write rules, dashboards and targets, as FILE says, into this folder.",
        ),
    ] = None,
) -> None:
    """Print the folder with what a lab host installs: Prometheus, Alertmanager, Grafana, nftables, pdudaemon.

    With FILE and --output: write the rules of Prometheus and the dashboards, whose links lead to its `documents`, and Prometheus' targets, its `duties`.
    """
    if (file is None) != (output is None):
        raise ConfigurationError("`lab farm files` wants both, FILE and --output DIR, or none of them")
    if file is None or output is None:
        echo(str(shipped.folder(shipped.FARM)))
        return
    farm = load(file)
    for path in systemd.write(systemd.files(farm), output):
        echo(str(path))
    if needed := list(systemd.forwards(farm)):
        echo(f'On {farm.first_host}, before Prometheus reaches the others (docs/farm/alerts.md, "Several hosts"):')
        echo(*(f"  {command}" for command in needed))
