"""systemd units and other installed files, made from farm.yaml."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

import jinja2
from attrs import frozen

from lab import package_data
from lab.errors import ConfigurationError, LabStableError
from lab.farm import buildbot
from lab.farm.config import DOCUMENTS, Buildbot, Farm
from lab.host.tcp import is_loopback
from lab.places.records import with_port
from lab.run.options import arguments

COORDINATOR: Final = "labgrid-coordinator"  # labgrid's program, installed beside `lab`
_TEMPLATES: Final = "lab.farm"


def units(farm: Farm, path: str, host: str = "") -> dict[str, str]:
    """Texts of the units, by file name.

    Args:
        path: where the host keeps its farm.yaml.
        host: of the farm; empty: its first one, which also has the results, the exporter, the site and Buildbot's
            master.

    Raises:
        ConfigurationError: there is no such host.
    """
    hosts = buildbot.hosts(farm)
    if host and host not in hosts:
        raise ConfigurationError(f"--host {host}: farm.yaml has: {', '.join(hosts)}")
    its_name = (host or hosts[0]) if farm.hosts else ""
    texts = {"boardlab-exporter.service": _text("boardlab-exporter.service", farm=farm, path=path, host=its_name)}
    if host in {"", hosts[0]}:
        texts["boardlab-web.service"] = _text("boardlab-web.service", farm=farm, path=path)
        if farm.coordinator:
            texts["boardlab-janitor.service"] = _text("boardlab-janitor.service", farm=farm, path=path)
        if farm.backup is not None:
            for kind in ("service", "timer"):
                texts[f"boardlab-backup.{kind}"] = _text(f"boardlab-backup.{kind}", farm=farm, path=path)
    if farm.coordinator_at == (host or hosts[0]):
        texts["boardlab-coordinator.service"] = _text(
            "boardlab-coordinator.service",
            farm=farm,
            program=str(Path(farm.program).with_name(COORDINATOR)),
            listen=with_port(farm.coordinator),
        )
    if farm.exports:
        # By the name of farm.yaml, as ssh has it; the machine's own name may differ.
        texts["boardlab-export.service"] = _text("boardlab-export.service", farm=farm, host=its_name)
        texts["boardlab-rails.service"] = _text("boardlab-rails.service", farm=farm)
    texts["boardlab-console.service"] = _text("boardlab-console.service", farm=farm)
    texts["boardlab-notify@.service"] = _text("boardlab-notify@.service", farm=farm, path=path)
    if farm.pdudaemon.program:
        texts["boardlab-pdudaemon.service"] = _text("boardlab-pdudaemon.service", farm=farm)
    if farm.buildbot is not None:  # which has all that comes due by the clock
        return texts | _queue(farm, farm.buildbot, host or hosts[0])
    if farm.health.reference and farm.reference_host == (host or hosts[0]):
        env = farm.environments.get(farm.health.reference, "")
        names = ("boardlab-reference.service", "boardlab-reference.timer")
        texts |= {name: _text(name, farm=farm, env=env) for name in names}
    for schedule in farm.schedules:
        for kind in ("service", "timer", *(["path"] if schedule.releases else [])):
            texts[f"boardlab-{schedule.name}.{kind}"] = _text(
                f"boardlab-run.{kind}", farm=farm, schedule=schedule, arguments=arguments, path=path
            )
    return texts


def always_running(farm: Farm, host: str) -> list[str]:
    """Services that systemd keeps running, named without "boardlab-"."""
    texts = units(farm, "/farm.yaml", host)
    return [
        name.removeprefix("boardlab-").removesuffix(".service")
        for name, text in texts.items()
        if "\nRestart=always\n" in text
    ]


def _queue(farm: Farm, queue: Buildbot, host: str) -> dict[str, str]:
    """Units of Buildbot, which then has the schedules."""
    site = buildbot.BuildbotSite(Path("/var/lib", farm.state, "buildbot"))
    kinds = ("buildbot", "worker") if host == buildbot.hosts(farm)[0] else ("worker",)
    values = {"farm": farm, "site": site, "commands": buildbot.commands(queue, site, host)}
    return {f"boardlab-{kind}.service": _text(f"boardlab-{kind}.service", **values) for kind in kinds}


def _text(name: str, **values: object) -> str:
    folder = str(resources.files(_TEMPLATES) / "templates")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - unit files, and every value is checked in lab.farm.config
    )
    environment.filters["word"] = _word
    return environment.get_template(f"{name}.j2").render(**values).strip() + "\n"


def _word(path: str) -> str:
    """A path as one word of ExecStart= (systemd.service(5), "Command lines")."""
    return f'"{path}"' if " " in path else path


_FOLDERS: Final = ("prometheus/rules", "grafana/dashboards")


def files(farm: Farm) -> dict[str, str]:
    """Texts of the files below the folder `farm`, by name."""
    source = package_data.folder(package_data.FARM)
    paths = [path for folder in _FOLDERS for path in sorted((source / folder).iterdir())]
    linked = {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8").replace(DOCUMENTS, farm.documents)
        for path in paths
    }
    return {**linked, FILE: text(farm)}


def write(texts: dict[str, str], folder: Path) -> list[Path]:
    """Write files below a folder and return their paths.

    Raises:
        LabStableError: the folder cannot be written.
    """
    paths = []
    for name, text in texts.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise LabStableError(
                f"cannot write {path}: {error.strerror}; choose another folder with --output"
            ) from error
        paths.append(path)
    return paths


FILE: Final = "prometheus/targets/boardlab.yml"


@frozen
class ScrapeTarget:
    """Prometheus' address of an exporter.

    Attributes:
        host: empty where farm.yaml names none.
        at: host:port, as Prometheus on the first host asks.
        forward: ssh's -L from the first host's loopback to the exporter; empty: none is needed.
    """

    host: str
    at: str
    forward: str = ""


def targets(farm: Farm) -> Iterator[ScrapeTarget]:
    """One target for each host.

    Another host's exporter on loopback gets a port of the first host's loopback, by its index in `hosts`.
    """
    if not farm.hosts:
        yield ScrapeTarget("", farm.exporter.listen)
    for place, host in enumerate(farm.hosts):
        listen = farm.exporter_of(host.name)
        machine, _, port = listen.rpartition(":")
        behind = place > 0 and is_loopback(machine.strip("[]"))
        if host.scrape:
            at = host.scrape
        elif behind:
            at = f"{machine}:{int(port) + place}"
        else:  # 0.0.0.0 is each host itself: all targets would be the first one
            at = f"{host.name}:{port}" if place > 0 and _is_any(machine.strip("[]")) else listen
        leads = behind and is_loopback(at.rpartition(":")[0].strip("[]"))
        yield ScrapeTarget(host.name, at, f"{at}:{listen}" if leads else "")


def forwards(farm: Farm) -> Iterator[str]:
    """ssh commands for the first host that forward to remote targets."""
    config = f"-F {farm.ssh_config} " if farm.ssh_config else ""
    for target in targets(farm):
        if target.forward:
            yield f"ssh {config}-N -o ExitOnForwardFailure=yes -L {target.forward} {target.host}"


def text(farm: Farm) -> str:
    """Text of the targets' file, with the shipped file's head."""
    head = (package_data.folder(package_data.FARM) / FILE).read_text(encoding="utf-8").partition("- targets")[0]
    return head + "".join(
        f"- targets: ['{target.at}']\n" + (f"  labels: {{host: {target.host}}}\n" if target.host else "")
        for target in targets(farm)
    )


def _is_any(machine: str) -> bool:
    """Return whether an address is 0.0.0.0 or ::."""
    try:
        return ipaddress.ip_address(machine).is_unspecified
    except ValueError:
        return False
