"""Prometheus' targets are the hosts of farm.yaml: on loopback of others by ports that ssh forwards, or where farm.yaml says."""

from __future__ import annotations

from pathlib import Path

import yaml
from support.facts import missing_facts
from typer.testing import CliRunner

from lab.cli import farm as commands
from lab.farm import systemd
from lab.farm.config import Exporter, Farm, HostEntry


def found(farm: Farm) -> list[tuple[str, str, bool]]:
    return [(target.host, target.at, bool(target.forward)) for target in systemd.targets(farm)]


def test_exporters_on_loopback_of_other_hosts_are_behind_ports_of_the_first_ones() -> None:
    hosts = [HostEntry("lab-1"), HostEntry("lab-2"), HostEntry("lab-3")]
    assert found(Farm(hosts=hosts)) == [
        ("lab-1", "127.0.0.1:9870", False),
        ("lab-2", "127.0.0.1:9871", True),
        ("lab-3", "127.0.0.1:9872", True),
    ]
    assert found(Farm(exporter=Exporter("[::1]:1"), hosts=hosts[:2]))[1] == ("lab-2", "[::1]:2", True)


def test_one_that_listens_elsewhere_is_asked_there_or_where_farm_yaml_says() -> None:
    hosts = [
        HostEntry("lab-1"),
        HostEntry("lab-2", exporter="10.0.0.2:9870"),
        HostEntry("lab-3", scrape="127.0.0.1:7"),
    ]
    farm = Farm(hosts=hosts)
    assert found(farm)[1:] == [("lab-2", "10.0.0.2:9870", False), ("lab-3", "127.0.0.1:7", True)]
    assert [farm.exporter_of(host.name) for host in hosts] == ["127.0.0.1:9870", "10.0.0.2:9870", "127.0.0.1:9870"]


def test_the_file_has_a_target_with_its_host_for_each() -> None:
    text = systemd.files(Farm(hosts=[HostEntry("lab-1"), HostEntry("lab-2")]))[systemd.FILE]
    assert yaml.safe_load(text) == [
        {"targets": ["127.0.0.1:9870"], "labels": {"host": "lab-1"}},
        {"targets": ["127.0.0.1:9871"], "labels": {"host": "lab-2"}},
    ]
    assert yaml.safe_load(systemd.text(Farm())) == [{"targets": ["127.0.0.1:9870"]}]


def test_one_that_listens_everywhere_is_asked_by_its_hosts_name() -> None:
    """0.0.0.0 is the first host itself, for which each other one would be taken."""
    for anywhere in ("0.0.0.0:9870", "[::]:9870"):
        farm = Farm(exporter=Exporter(anywhere, web_config="/w"), hosts=[HostEntry("lab-1"), HostEntry("lab-2")])
        assert found(farm) == [("lab-1", anywhere, False), ("lab-2", "lab-2:9870", False)]


def test_what_leads_to_targets_on_other_hosts_loopback_is_said_where_the_file_is_written(tmp_path: Path) -> None:
    hosts = "hosts: [{name: lab-1}, {name: lab-2}, {name: lab-3, exporter: '127.0.0.1:1', scrape: '127.0.0.1:7'}, {name: lab-4, scrape: 'lab-4:9'}]"
    (tmp_path / "farm.yaml").write_text(f"ssh_config: /etc/boardlab/ssh/config\n{hosts}\n")
    done = CliRunner().invoke(commands.app, ["files", str(tmp_path / "farm.yaml"), "--output", str(tmp_path / "made")])
    ssh = "ssh -F /etc/boardlab/ssh/config -N -o ExitOnForwardFailure=yes -L"
    where, *tunnels = done.output.splitlines()[-3:]
    assert not missing_facts(where, "lab-1", "docs/farm/alerts.md")
    ends = ("127.0.0.1:9871:127.0.0.1:9870 lab-2", "127.0.0.1:7:127.0.0.1:1 lab-3")
    assert tunnels == [f"  {ssh} {end}" for end in ends]
