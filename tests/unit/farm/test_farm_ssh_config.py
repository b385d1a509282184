"""ssh as the services' user: farm.yaml names its configuration, units have it, and `lab farm check` says where it is missing."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest
from support.facts import missing_facts
from typer.testing import CliRunner

from lab.cli import farm as commands
from lab.farm.checks import Finding
from lab.farm.checks.hosts import ssh_environ
from lab.farm.checks.services import ssh_file
from lab.farm.config import BoardEntry, Buildbot, Farm, load
from lab.farm.systemd import units
from lab.host.process import user_name

ME = user_name(os.getuid())


def test_every_service_has_the_configuration_that_farm_yaml_names(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    text = "coordinator: 10.0.0.1:20408\nexports: /e.yaml\nschedules: [{name: n, env: e, board: b}]\nhealth: {reference: b}\n"
    path.write_text(f"{text}ssh_config: /etc/boardlab/ssh/config\n")
    farm = load(path)
    queued = attrs.evolve(farm, buildbot=Buildbot("/b"), boards=[BoardEntry("b", farm.schedules[0].env)])
    made = {**units(farm, "/f"), **units(queued, "/f")}
    services = {name for name in made if name.endswith(".service")}
    assert {
        "boardlab-n.service",
        "boardlab-reference.service",
        "boardlab-worker.service",
        "boardlab-web.service",
    } < services
    for name in services:
        assert "Environment=BOARDLAB_SSH_CONFIG=/etc/boardlab/ssh/config" in made[name].splitlines(), name
    path.write_text(text)
    assert not any("BOARDLAB_SSH_CONFIG" in unit for unit in units(load(path), "/f").values())
    path.write_text(f"{text}ssh_config: ssh/config\n")
    assert load(path).ssh_config == str(tmp_path / "ssh" / "config"), "relative to farm.yaml"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "ssh").mkdir(mode=0o700)
    path = tmp_path / "ssh" / "config"
    path.touch(0o600)
    return path


def found(user: str, config: Path) -> Finding:
    (only,) = ssh_file(Farm(user=user, ssh_config=str(config)))
    return only


def test_a_file_that_the_services_alone_can_read_is_well(config: Path) -> None:
    assert found(ME, config).level == "ok"
    assert list(ssh_file(Farm())) == []


def test_one_that_is_missing_or_that_they_cannot_read_is_bad(config: Path) -> None:
    strange = found("nobody-at-all", config)
    assert (strange.level, strange.hint) == ("bad", f"sudo chown -R nobody-at-all: {config.parent}")
    assert not missing_facts(strange.said, f"{ME}'s", "600", "nobody-at-all", "may not")
    config.unlink()
    away = found(ME, config)
    assert (away.level, "No such file" in away.said, "Keys for the services" in away.hint) == ("bad", True, True)


def test_one_that_the_services_read_by_its_group_is_well(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.chmod(0o640)
    group = config.stat().st_gid
    users = {"boardlab": SimpleNamespace(pw_gid=group), "guest": SimpleNamespace(pw_gid=group + 1)}
    monkeypatch.setattr("pwd.getpwnam", lambda name: users[name])
    monkeypatch.setattr(os, "getgrouplist", lambda _name, group: [group])
    monkeypatch.setattr("lab.farm.checks.services.user_name", lambda _uid: "root")
    assert [found(user, config).level for user in ("boardlab", "guest")] == ["ok", "bad"]
    config.chmod(0o600)
    assert found("boardlab", config).level == "bad"


def test_a_folder_of_keys_that_others_may_enter_is_doubtful(config: Path) -> None:
    config.parent.chmod(0o755)
    open_to_all = found(ME, config)
    assert (open_to_all.level, open_to_all.hint) == ("doubtful", f"sudo chmod 700 {config.parent}")


def test_check_says_it_on_a_host_of_the_farm_and_not_on_a_desk(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    config.unlink()
    path.write_text(f"directory: {tmp_path}\nssh_config: {config}\n")
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert (done.exit_code, f"{config}: No such file" in done.output) == (2, True)
    config.touch(0o644)
    config.parent.chmod(0o755)
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert (done.exit_code, f"warning: {config.parent}: others than {ME} may enter" in done.output) == (0, True)
    path.write_text(f"directory: {tmp_path}\nssh_config: {config}\nhosts: [{{name: lab-7}}]\n")
    assert CliRunner().invoke(commands.app, ["check", str(path), "--here"]).exit_code == 0


def test_hosts_are_asked_by_it_where_this_user_may_read_it(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOARDLAB_SSH_CONFIG", raising=False)
    farm = Farm(ssh_config=str(config))
    assert ssh_environ(farm)["BOARDLAB_SSH_CONFIG"] == str(config)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "BOARDLAB_SSH_CONFIG" not in ssh_environ(farm)
    monkeypatch.setenv("BOARDLAB_SSH_CONFIG", "/own")
    assert ssh_environ(farm)["BOARDLAB_SSH_CONFIG"] == "/own"
