"""`lab farm`: a lab host's configuration, checked, and made into systemd units."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from socket import getfqdn, gethostname
from typing import Annotated, Final

import typer
from attrs import asdict

from lab import package_data
from lab.cli import farm_boards, farm_card
from lab.cli.doctor import MARKS
from lab.cli.options import Json, OutputFolder, Runtime
from lab.errors import ConfigurationError
from lab.farm import buildbot, config, discover, local, notify, release_watch, services, systemd
from lab.farm import status as farm_status
from lab.farm import systemd as unit_files
from lab.farm.checks import Finding, hosts
from lab.farm.checks.files import BEWARE
from lab.farm.checks.registry import DOCTOR, FARM, HERE, examine, load_farm, load_host
from lab.farm.config import Farm, VirtualBoards, load
from lab.farm.loaded_config import record_loaded, restart_process
from lab.farm.local import LocalFarm, Supervisor
from lab.farm.status import boards_by_place
from lab.host import process
from lab.host.runtime import runtime_dir
from lab.jobs.queue import JobQueue
from lab.places.coordinator import Coordinator
from lab.places.exporter import LOOPBACK, ExporterOptions, run
from lab.places.janitor import GRACE_S, LOOK_S, Janitor
from lab.places.janitor import patient as janitor_patient
from lab.places.job_place import measures_at
from lab.places.records import with_port
from lab.results import open_store
from lab.results.location import data_home
from lab.terminal import echo, echo_json, echo_text, log_to, table
from lab.virtual.sim.kind import DEFAULT_TYPE

app = typer.Typer(
    help="A lab host: check farm.yaml, write systemd units from it, bring a farm up.", no_args_is_help=True
)
app.command()(farm_boards.add)
app.command()(farm_boards.qualify)
File = Annotated[Path, typer.Argument(metavar="FILE", help="The host's farm.yaml.")]


@app.command()
def check(
    file: File,
    *,
    here: Annotated[
        bool,
        typer.Option("--here", help="Look from here only, and not at the `hosts` that farm.yaml names."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Find what is wrong with a farm.yaml and its hosts.

    Environments and suites that it names are checked, too, and its hosts through ssh.
    """
    lab = load_farm(file)
    by_host = {} if here or not lab.farm.hosts else hosts.examine(lab.farm, file, partial(_doctor, file))
    findings = list(examine(lab, FARM) if by_host else examine(lab, FARM, HERE))
    problems = [str(finding) for finding in findings if finding.level == "bad"]
    warnings = [str(finding) for finding in findings if finding.level == "doubtful"]
    is_bad = bool(problems) or any(finding.level == "bad" for listed in by_host.values() for finding in listed)
    if as_json:
        rows = [{"host": host, **asdict(finding)} for host, listed in by_host.items() for finding in listed]
        echo_json({"problems": problems, "warnings": warnings, "hosts": rows})
    else:
        verdict = f"nothing bad, {len(warnings)} to look at" if warnings else "nothing wrong"
        well = [] if is_bad else [f"{file}: {verdict}; {len(lab.farm.schedules)} schedules"]
        warned = (text if text.startswith(BEWARE) else f"warning: {text}" for text in warnings)
        table_of_hosts = [*lines(by_host), ""] if by_host else []
        echo(*(f"{file}: {problem}" for problem in problems), *table_of_hosts, *warned, *well)
    if is_bad:
        raise typer.Exit(2)


def _doctor(file: Path, host: str) -> list[Finding]:
    return list(examine(load_host(None, file, None, host), DOCTOR))


def lines(by_host: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Table of findings that are not well, then their remedies.

    A host where all is well has one row.
    """
    ill = [(host, finding) for host, listed in by_host.items() for finding in listed if finding.level != "ok"]
    ill.sort(key=lambda row: row[1].level)
    rows = [
        [host, MARKS[finding.level](finding.level), finding.area, finding.subject, finding.said]
        for host, finding in ill
    ]
    for host, listed in by_host.items():
        if all(finding.level == "ok" for finding in listed):
            rows.append([host, "ok", "", "", f"{len(listed)} checks, nothing wrong"])
    hints = [
        line
        for host, finding in ill
        if finding.hint
        for line in (f"  {host}: {finding.subject}:", f"    {finding.hint}")
    ]
    return [*table(["host", "", "area", "what", "found"], rows, "<<<<<"), *(["", "to mend:", *hints] if hints else [])]


@app.command()
def units(
    file: File,
    *,
    output: OutputFolder = Path(),
    installed: Annotated[
        Path | None,
        typer.Option("--farm", metavar="PATH", help="Path of farm.yaml on that host, if it is not FILE's."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(metavar="NAME", help="One of the farm's hosts (default: the first, which has the results)."),
    ] = "",
) -> None:
    """Write the systemd units of a farm.yaml.

    Then: systemctl daemon-reload, and enable them.
    """
    farm = load(file)
    for path in systemd.write(unit_files.units(farm, str(installed or file.absolute()), host), output):
        echo(str(path))


@app.command("buildbot")
def buildbot_folders(
    file: File,
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="The folder: /var/lib/boardlab/buildbot for the units."),
    ],
) -> None:
    """Write the folders of Buildbot's master and workers.

    Run it as root, for the services' user. A worker's folder belongs on its host.
    """
    farm = load(file)
    if farm.buildbot is None:
        raise ConfigurationError(f"{file}: it has no `buildbot`; docs/farm/buildbot.md says what that needs")
    site = buildbot.BuildbotSite(output.absolute())
    buildbot.write(farm, farm.buildbot, site, farm.environ)
    for folder in (site.master, *map(site.worker, buildbot.hosts(farm))):
        echo(str(folder))
    if not buildbot.hand_over(site, farm.user):
        echo(
            f"No user {farm.user} is here, whom farm.yaml names; when there is: chown -R {farm.user}: {site.folder}",
            err=True,
        )


@app.command("released", hidden=True)
def measure_released(
    file: File,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The schedule, which has `every: release`.")],
    *,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of its state (default: released, in the folder of the results)."),
    ] = None,
) -> None:
    """Measure each new release file in a schedule's folder.

    systemd starts this when one appears.
    """
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
    as_json: Json = False,
) -> None:
    """Show this host's USB adapters, SD multiplexers and hubs.

    For those that no file names, print lines to add.
    """
    if udev_rules:
        echo_text(discover.RULES)
        return
    farm = services.host_file(file).farm
    folder = Path(farm.directory) if farm else Path.cwd()
    exports = discover.export_files(farm, folder)
    envs = [*discover.environments(folder), *exports]
    devices = discover.detect_devices()
    names = {device.id_path: discover.find_names(device.id_path, envs, farm) for device in devices}
    if as_json:
        echo_json([{**asdict(device), "named_by": names[device.id_path]} for device in devices])
        return
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
    if lines := list(discover.propose_lines(devices, names, farm.exports if farm else "")):
        echo("", "To name the others, with names of yours for NAME:", "")
        echo_text("\n".join(lines) + "\n")


@app.command("test-alert")
def test_alert(file: File) -> None:
    """Send a test alert through the whole chain.

    Prints where it should arrive.
    """
    farm = load(file)
    ready = notify.test_alert(farm)
    echo(f"Alertmanager at {farm.alertmanager} took {notify.TEST}; within a minute it should arrive as:")
    for receiver in ready:
        echo(f"  {receiver.described}")
    echo("If it does not: Alertmanager's log says why (journalctl -u prometheus-alertmanager)")


@app.command("notify", hidden=True)
def notify_unit(
    file: File, unit: Annotated[str, typer.Argument(metavar="UNIT", help="The unit of systemd that failed.")]
) -> None:
    """Send an alert that a unit failed; systemd starts this (boardlab-notify@)."""
    notify.unit_failed(load(file), unit)
    echo(f"sent to Alertmanager: {unit} failed")


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
    """Print the folder of files that a lab host installs.

    They are for Prometheus, Alertmanager, Grafana, nftables and pdudaemon.

    With FILE and --output: write the rules of Prometheus and the dashboards, whose links lead to its `documents`, and
    Prometheus' targets, its `hosts`.
    """
    if (file is None) != (output is None):
        raise ConfigurationError("`lab farm files` wants both, FILE and --output DIR, or none of them")
    if file is None or output is None:
        echo(str(package_data.folder(package_data.FARM)))
        return
    farm = load(file)
    for path in systemd.write(systemd.files(farm), output):
        echo(str(path))
    if needed := list(systemd.forwards(farm)):
        echo(f'On {farm.first_host}, before Prometheus reaches the others (docs/farm/alerts.md, "Several hosts"):')
        echo(*(f"  {command}" for command in needed))


app.command(hidden=True)(farm_card.card)


@app.command()
def janitor(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The farm.yaml, with `coordinator` and `database`.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, do nothing, and end.")] = False,
) -> None:
    """Tidy labgrid's places: release, acquire, or hold them.

    It releases places of dead jobs, acquires those of reserved boards, and holds those that are unusable.
    """
    log_to(sys.stderr)
    farm = load(file)
    if not farm.coordinator:
        raise ConfigurationError(f"{file}: it names no `coordinator`: there are no places to look after")
    address = with_port(farm.coordinator)
    coordinator = Coordinator(address)
    with open_store(farm.database) as store:
        queue = JobQueue(store, process.identity(), process.has_died)
        grace_s = 0.0 if dry_run or once else GRACE_S  # who looks once has not seen since when an exporter is away
        boards, at = partial(boards_by_place, farm), partial(measures_at, coordinator=address)
        looker = Janitor(coordinator, store, queue, boards, at, grace_s)
        if dry_run or once:
            queue.settle()
            actions = looker.due() if dry_run else list(looker.tidy())
            for action in actions:
                echo(f"{'would be: ' if dry_run else ''}{action.described}")
            if not actions:
                echo("No place is left behind.")
            return
        loaded, reported = record_loaded("janitor", file, farm, runtime_dir()), ""
        while True:
            for action in janitor_patient(looker):
                echo(action.described)
            time.sleep(LOOK_S)
            try:
                if loaded.is_older():
                    break
                reported = ""
            except ConfigurationError as error:
                if reported != str(error):
                    logging.warning("the janitor goes on with the farm.yaml of before: %s", error)
                reported = str(error)
    echo(f"{file} says something else now: it is loaded")
    restart_process()


@app.command()
def export(
    resources: Annotated[Path, typer.Argument(metavar="FILE", help="The exported resources, in labgrid's format.")],
    *,
    coordinator: Annotated[
        str, typer.Option(envvar="LG_COORDINATOR", metavar="HOST:PORT", help="labgrid's coordinator.")
    ] = "127.0.0.1:20408",
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of this exporter (default: the host's).")] = "",
    hostname: Annotated[
        str, typer.Option(metavar="NAME", help="This host's name for other hosts (default: its full name).")
    ] = "",
    listen: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address of the TCP ports for labgrid's own clients, which have no password."
        ),
    ] = LOOPBACK,
    isolated: Annotated[bool, typer.Option("--isolated", help="Let labgrid's own clients come through ssh.")] = False,
    runtime: Runtime = None,
) -> None:
    """Export this host's boards to labgrid's coordinator.

    The console server stands behind their serial ports.
    """
    log_to(sys.stderr)
    options = ExporterOptions(
        resources,
        coordinator,
        (runtime or runtime_dir()).absolute(),
        name or gethostname(),
        hostname or getfqdn(),
        listen,
        isolated,
    )
    if not options.on_loopback:
        logging.warning(
            "--listen %s: every console is served without any authentication: each client of this address reads it "
            "and types at it",
            listen,
        )
    raise typer.Exit(run(options))


COUNT: Final = 4  # of the simulated boards of a new farm
_TAIL: Final = "200"  # lines

FarmFileOption = Annotated[
    Path,
    typer.Argument(metavar="[FILE]", help="The farm.yaml; the farm's files are in its folder.", show_default=True),
]


@app.command()
def up(
    file: FarmFileOption = local.FILE,
    *,
    board_type: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Types of the simulated boards of a new farm.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, max=1000, metavar="N", help="Boards of each type (default: 4).")
    ] = None,
    time_scale: Annotated[
        float | None, typer.Option(metavar="F", help="Factor on the times of the simulated boards (default: 1).")
    ] = None,
    with_buildbot: Annotated[
        bool, typer.Option("--buildbot", help="With a Buildbot that queues the runs of a new farm.")
    ] = False,
) -> None:
    """Bring a farm up on this machine, as its user.

    farm.yaml names its parts; without one, it has simulated boards.

    The programs are kept running until `lab farm down`, or until the host is switched off. Runs on a timer are
    systemd's: `lab farm units`, or Buildbot's.
    """
    place = LocalFarm(file.absolute())
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
    file: FarmFileOption = local.FILE,
    *,
    as_json: Json = False,
) -> None:
    """Show the farm's programs, and the lab as `lab status` has it."""
    place = LocalFarm(file.absolute())
    states = place.states()
    if as_json:
        echo_json([{"program": s.name, "state": s.state, "pid": s.pid, "said": s.text} for s in states])
        raise typer.Exit(0 if states else 1)
    if not states:
        echo(f"No farm is up in {place.folder}; `lab farm up` starts one.")
        raise typer.Exit(1)
    farm = config.load(place.file)
    _programs(place, farm)
    echo("", *farm_status.lines(farm_status.look(farm.database, place.file, place.runtime)))


@app.command()
def logs(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="A program of `lab farm status`.")],
    *,
    file: Annotated[Path, typer.Option("--farm", metavar="FILE", help="The farm.yaml.")] = local.FILE,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
) -> None:
    """Show the last lines that a program of the farm wrote."""
    path = Supervisor(LocalFarm(file.absolute()).runtime).log(program)
    argv = ["tail", "-n", _TAIL, *(["-F"] if follow else []), str(path)]
    sys.stdout.flush()
    os.execvp(argv[0], argv)  # noqa: S606 - the distribution's program


@app.command()
def down(file: FarmFileOption = local.FILE) -> None:
    """Take the farm down: runs, boards, then programs.

    Files and results stay.
    """
    log_to(sys.stderr)
    place = LocalFarm(file.absolute())
    echo("The farm is down." if place.down() else f"No farm is up in {place.folder}.")


def _programs(place: LocalFarm, farm: Farm) -> None:
    addresses = {"exporter": f"http://{farm.exporter.listen}/metrics", "web": f"http://{farm.web.listen}/"}
    addresses |= {"boards": farm.pdudaemon.address, "pdudaemon": farm.pdudaemon.address}
    if farm.buildbot is not None:
        addresses["buildbot"] = f"http://{farm.buildbot.www}/"
    rows = [[s.name, s.state.lower(), s.text, addresses.get(s.name, "")] for s in place.states()]
    echo(*table(["program", "state", "", "address"], rows, "<<<<"))
