"""Where Prometheus finds the exporters of a farm's hosts: the file of its targets (file_sd_configs)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from lab import shipped
from lab.farm.config import Farm
from lab.host.tcp import is_loopback

FILE: Final = "prometheus/targets/boardlab.yml"


@frozen
class Target:
    """An exporter.

    Attributes:
        host: empty where farm.yaml names none. at: host:port, as Prometheus on the first host asks.
        forward: what ssh's -L takes, where a port of the first host's loopback is to lead to the exporter; empty: it is asked where it listens.
    """

    host: str
    at: str
    forward: str = ""


def targets(farm: Farm) -> Iterator[Target]:
    """One for each host. On loopback of another host, it is reached by a port of the first one's loopback, by its place in `hosts`."""
    if not farm.hosts:
        yield Target("", farm.exporter.listen)
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
        yield Target(host.name, at, f"{at}:{listen}" if leads else "")


def forwards(farm: Farm) -> Iterator[str]:
    """The commands, on the first host, without which Prometheus reaches nothing at the targets that ssh leads to."""
    config = f"-F {farm.ssh_config} " if farm.ssh_config else ""
    for target in targets(farm):
        if target.forward:
            yield f"ssh {config}-N -o ExitOnForwardFailure=yes -L {target.forward} {target.host}"


def text(farm: Farm) -> str:
    """The file, with the head of the one that boardlab comes with."""
    head = (shipped.folder(shipped.FARM) / FILE).read_text(encoding="utf-8").partition("- targets")[0]
    return head + "".join(
        f"- targets: ['{target.at}']\n" + (f"  labels: {{host: {target.host}}}\n" if target.host else "")
        for target in targets(farm)
    )


def _is_any(machine: str) -> bool:
    """Whether it is no address but the word for all of a host: 0.0.0.0 or ::."""
    try:
        return ipaddress.ip_address(machine).is_unspecified
    except ValueError:
        return False
