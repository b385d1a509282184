"""Paths in farm.yaml begin at `directory`, and that begins at farm.yaml, in whatever folder a program runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from typer.testing import CliRunner

from lab.cli import farm as commands
from lab.farm import config, services, status
from lab.farm.buildbot import describe
from lab.farm.config import Farm
from lab.farm.loaded_config import digest
from lab.farm.local import LocalFarm, programs
from lab.farm.systemd import units
from lab.run.options import PROVISION
from lab.web.site import Site
from lab.web.wiring import wires

ENV = "targets: {main: {drivers: {BoardStrategy: {board_type: am62xx_sk, board: %s}}, resources: {RawSerialPort: {port: /p}}}}\n"
PATHS: dict[str, Any] = {
    "program": "bin/lab",
    "database": "sqlite:///r.db",
    "coordinator": "127.0.0.1:1",
    "exports": "exports.yaml",
    "ssh_config": "ssh/config",
    "exporter": {"web_config": "exporter.yml"},
    "web": {"web_config": "web.yml", "users": "users.json"},
    "pdudaemon": {"program": "bin/pdudaemon", "config": "pdudaemon.conf"},
    "buildbot": {"program": "bin/buildbot"},
    "boards": [{"name": "one", "env": "bench/one/env.yaml"}, {"name": "two", "env": "two"}],
    "schedules": [
        {"name": "a", "board": "one", "env": "bench/one/env.yaml", "provision": "releases/1.yaml"},
        {"name": "b", "board": "two", "env": "two", "every": "release", "release": "newest in releases"},
    ],
}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab's folder with two environments; this process is in another folder, as a service is."""
    folder = tmp_path / "lab"
    for path, board in (("bench/one/env.yaml", "one"), ("envs/two.yaml", "two")):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(ENV % board)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder


def loaded(path: Path, **keys: object) -> Farm:
    path.write_text(yaml.safe_dump({**PATHS, **keys}))
    return config.load(path)


def strings(value: object) -> list[str]:
    """All text in a record of farm.yaml."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)):
        return [text for each in value for text in strings(each)]
    return strings(list(value.values())) if isinstance(value, dict) else []


def test_every_path_is_absolute_and_begins_where_farm_yaml_is(lab: Path) -> None:
    farm = loaded(lab / "farm.yaml")
    assert farm.directory == str(lab)
    assert farm.database == f"sqlite:///{lab}/r.db"
    written = {text for text in strings(PATHS) if "/" in text or text.endswith((".yaml", ".yml", ".json", ".conf"))}
    left = {text for text in strings(attrs.asdict(farm)) if text.removeprefix("newest in ") in written}
    assert left == set(), "each path of farm.yaml is made absolute, also one of a new key"
    one, two = farm.boards
    assert (one.env, two.env) == (f"{lab}/bench/one/env.yaml", f"{lab}/envs/two.yaml")
    assert [each.env for each in farm.schedules] == [one.env, two.env]
    assert [each.options[PROVISION] for each in farm.schedules] == [
        f"{lab}/releases/1.yaml",
        f"newest in {lab}/releases",
    ]
    words = {
        program: word for name in programs(farm, LocalFarm(lab / "farm.yaml")) for program, *_, word in [name.command]
    }
    assert all(Path(program).is_absolute() for program in words)


def test_a_farm_yaml_elsewhere_says_by_its_directory_which_folder_is_meant(lab: Path) -> None:
    installed = lab.parent / "etc" / "farm.yaml"
    installed.parent.mkdir()
    here = loaded(lab / "farm.yaml")
    for directory in (str(lab), "../lab"):
        farm = loaded(installed, directory=directory)
        assert Path(farm.directory).resolve() == lab
        assert [Path(each.env).resolve() for each in farm.boards] == [Path(each.env) for each in here.boards]
    assert digest(loaded(installed, directory=str(lab))) == digest(here), "the same, wherever it is kept"


def test_an_environment_that_is_not_there_yet_is_the_one_that_will_be_there(lab: Path) -> None:
    path = lab / "farm.yaml"
    path.write_text("boards: [{name: a, env: no/such.yaml}, {name: b, env: three}, {name: c, env: four.yaml}]\n")
    before = config.load(path)
    envs = [lab / "no" / "such.yaml", lab / "envs" / "three.yaml", lab / "envs" / "four.yaml"]
    assert [each.env for each in before.boards] == list(map(str, envs))
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert done.exit_code == 2
    assert all(f"no environment '{env}'" in done.output for env in envs)
    for env in envs:
        env.parent.mkdir(exist_ok=True)
        env.touch()
    assert digest(config.load(path)) == digest(before), "boards that come up are no other farm.yaml"


def test_what_passwords_lie_in_begins_there_too(lab: Path) -> None:
    farm = loaded(lab / "farm.yaml", database="postgresql://lab@10.0.0.1/lab?connect_timeout=3&passfile=pgpass")
    assert farm.database == f"postgresql://lab@10.0.0.1/lab?connect_timeout=3&passfile={lab}/pgpass"


def test_the_site_and_lab_status_know_the_boards_of_a_farm_whose_folder_is_not_theirs(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_DB", f"sqlite:///{lab / 'none.db'}")  # not the results of this user's own boards
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(lab / "runtime"))  # nor a console server of theirs
    file = lab / "farm.yaml"
    loaded(file, coordinator="", exports="", database="sqlite:///r.db")
    boards = {each.board: each for each in status.look(farm=file).boards}
    assert {name: each.board_type for name, each in boards.items()} == {"one": "am62xx_sk", "two": "am62xx_sk"}
    site = Site(farm=file)
    assert site.home() == lab
    for board in boards.values():
        wired, unread = wires(site.home(), board.board, board.env)
        assert ([wire.name for wire in wired], unread) == (["RawSerialPort", "BoardStrategy"], "")


def test_the_environments_here_come_before_those_of_a_farm_that_nobody_named(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(lab / "farm.yaml")
    monkeypatch.setattr(services, "FARM_FILES", (lab / "farm.yaml",))
    assert services.host_file().folder == lab
    own = Path.cwd()
    (own / "envs").mkdir()
    assert services.host_file().folder == own
    assert services.host_file(lab / "farm.yaml").folder == lab


def test_a_shell_of_a_farm_that_was_brought_up_asks_that_farm(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = lab / "farm.yaml"
    farm = loaded(file)
    monkeypatch.setattr(services, "FARM_FILES", ())
    for name, value in LocalFarm(file).environ(farm).items():
        monkeypatch.setenv(name, value)
    assert services.host_file().file == file
    assert services.host_file().farm == farm
    other = lab / "other.yaml"
    other.write_text("{}")
    assert services.host_file(other).file == other, "the named one goes first"


def test_units_and_builds_name_the_environment_that_is_meant(lab: Path) -> None:
    farm = loaded(lab / "farm.yaml")
    assert farm.buildbot is not None
    found = describe(farm, farm.buildbot, {})
    assert [each["env"] for each in found["boards"]] == [each.env for each in farm.boards]
    assert found["schedules"][1]["releases"] == f"{lab}/releases"
    timed = attrs.evolve(farm, buildbot=None)
    unit = units(timed, "/etc/boardlab/farm.yaml")["boardlab-a.service"]
    assert f" --env {lab}/bench/one/env.yaml " in unit
    assert f"\nWorkingDirectory={lab}\n" in unit


def test_lab_farm_units_writes_units_for_the_file_that_it_is_given(lab: Path, tmp_path: Path) -> None:
    loaded(lab / "farm.yaml")
    for words, path in (([], lab / "farm.yaml"), (["--farm", "/etc/other.yaml"], Path("/etc/other.yaml"))):
        done = CliRunner().invoke(commands.app, ["units", "../lab/farm.yaml", "-o", str(tmp_path / "u"), *words])
        assert done.exit_code == 0, done.output
        unit = (tmp_path / "u" / "boardlab-exporter.service").read_text()
        named = Path(unit.partition(" exporter --farm ")[2].split()[0])
        assert (named.is_absolute(), named.resolve()) == (True, path)
