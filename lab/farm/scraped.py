"""Where Prometheus finds the exporters of a farm's hosts: the file of its targets (file_sd_configs)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from lab import shipped
from lab.farm.config import Farm
from lab.host.addresses import is_loopback

FILE: Final = "prometheus/targets/boardlab.yml"


@frozen
class Target:
    """An exporter.

    Attributes:
        host: empty where farm.yaml names none. at: host:port, as Prometheus on the first host asks. listen: as it listens on its own.
    """

    host: str
    at: str
    listen: str

    @property
    def forwarded(self) -> bool:
        """Whether something on the first host, as `ssh -N -L`, has to lead there."""
        return self.at != self.listen


def targets(farm: Farm) -> Iterator[Target]:
    """One for each host. On loopback of another host, it is reached by a port of the first one's loopback, by its place in `hosts`."""
    if not farm.hosts:
        yield Target("", farm.exporter.listen, farm.exporter.listen)
    for place, host in enumerate(farm.hosts):
        listen = farm.exporter_of(host.name)
        machine, _, port = listen.rpartition(":")
        behind = place > 0 and is_loopback(machine.strip("[]"))
        yield Target(host.name, host.scrape or (f"{machine}:{int(port) + place}" if behind else listen), listen)


def text(farm: Farm) -> str:
    """The file, with the head of the one that boardlab comes with."""
    head = (shipped.folder(shipped.FARM) / FILE).read_text(encoding="utf-8").partition("- targets")[0]
    return head + "".join(
        f"- targets: ['{target.at}']\n" + (f"  labels: {{host: {target.host}}}\n" if target.host else "")
        for target in targets(farm)
    )
