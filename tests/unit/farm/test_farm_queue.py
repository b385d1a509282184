"""farm.yaml as Buildbot has it: its folders, what runs on which host, and that nothing else keeps schedules then."""

from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from lab.cli import farm as commands
from lab.errors import ConfigurationError
from lab.farm import buildbot
from lab.farm.checks import files
from lab.farm.config import Farm, load
from lab.farm.systemd import units

TEXT = """\
directory: /srv/lab
program: /srv/lab/bin/lab
buildbot: {program: /opt/bb/bin/buildbot, www: '127.0.0.1:81', workers: '[::1]:82', parallel: 3, users: [lena]}
hosts: [{name: lab-1}, {name: lab-2}]
boards:
  - {name: one, env: one.yaml, host: lab-1, hub: left}
  - {name: two, env: two.yaml, host: lab-2}
schedules:
  - {name: nightly, env: one.yaml, board: one, at: '02:30', cycles: 7, release: '11.01', medium: [sd, emmc]}
  - {name: weekly, env: two.yaml, board: two, suite: low_power, every: week, day: Sat, judge: false}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "farm.yaml"
    file.write_text(TEXT)
    return file


@pytest.fixture
def farm(path: Path) -> Farm:
    return load(path)


def test_buildbot_is_told_of_hosts_boards_and_orders(path: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(commands.app, ["buildbot", str(path), "--output", str(tmp_path / "bb")])
    assert result.stdout.split() == [
        str(tmp_path / "bb" / name) for name in ("master", "worker-lab-1", "worker-lab-2")
    ]
    found = json.loads((tmp_path / "bb" / "master" / "farm.json").read_text())
    assert found["hosts"] == ["lab-1", "lab-2"]
    assert found["boards"] == [
        {"name": "one", "env": "/srv/lab/envs/one.yaml", "host": "lab-1", "hub": "left"},
        {"name": "two", "env": "/srv/lab/envs/two.yaml", "host": "lab-2", "hub": ""},
    ]
    nightly, weekly = found["schedules"]
    assert nightly["when"] == {"hour": 2, "minute": 30}
    assert weekly["when"] == {"hour": 2, "minute": 0, "dayOfWeek": 5}, "Buildbot counts days from Monday, 0"
    assert found["parallel"] == 3
    assert shlex.join(nightly["words"]) == (
        "--suite boot --env /srv/lab/envs/one.yaml --cycles 7 --release 11.01 --medium=sd,emmc --health --judge"
    )
    assert "--judge" not in weekly["words"]
    assert found["told"] == {"github": None, "gitlab": None, "webhook": None}
    assert (found["listen"], found["workers"]) == (
        "tcp:port=81:interface=127.0.0.1",
        r"tcp:port=82:interface=\:\:1",
    )


def test_what_root_has_written_is_the_services_users(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buildbot's units run as that user, and nobody else may read the folders."""
    given: dict[str, bool] = {}

    def chown(name: str | Path, uid: int, gid: int, *, dir_fd: int = -1, follow_symlinks: bool = True) -> None:
        assert (uid, gid) == (7, 8)
        given[str(name) if dir_fd < 0 else str(Path(f"/proc/self/fd/{dir_fd}").readlink() / name)] = follow_symlinks

    monkeypatch.setattr(buildbot.os, "geteuid", lambda: 0)
    monkeypatch.setattr(buildbot.os, "chown", chown)
    users = {"boardlab": SimpleNamespace(pw_uid=7, pw_gid=8)}
    monkeypatch.setattr(buildbot.pwd, "getpwnam", users.__getitem__)
    folder = tmp_path / "bb"
    (folder / "master").mkdir(parents=True)
    (folder / "master" / "link").symlink_to("/etc/passwd")
    assert CliRunner().invoke(commands.app, ["buildbot", str(path), "--output", str(folder)]).stderr == ""
    assert given == dict.fromkeys(map(str, (folder, *folder.rglob("*"))), False)
    users.clear()
    said = CliRunner().invoke(commands.app, ["buildbot", str(path), "--output", str(folder)])
    assert (said.exit_code, f"chown -R boardlab: {folder}" in said.stderr) == (0, True)


def test_passwords_stay_and_are_nobody_elses(farm: Farm, tmp_path: Path) -> None:
    queue = farm.buildbot
    assert queue is not None
    site = buildbot.BuildbotSite(tmp_path / "bb")

    def secrets() -> dict[str, dict[str, str]]:
        buildbot.write(farm, queue, site, {})
        found: dict[str, dict[str, str]] = json.loads((site.master / "secrets.json").read_text())
        return found

    first = secrets()
    assert secrets() == first
    assert list(first["users"]) == ["lab", "lena"], "nobody's in particular, and each person's"
    assert len({*first["users"].values(), *first["workers"].values()}) == 4
    assert (site.worker("lab-2") / "password").read_text().strip() == first["workers"]["lab-2"]
    for place in (
        site.folder,
        *site.folder.iterdir(),
        site.master / "secrets.json",
        site.worker("lab-1") / "password",
    ):
        assert not stat.S_IMODE(place.stat().st_mode) & 0o077, place


def test_a_build_that_fails_is_told_where_an_alertmanager_is(path: Path, tmp_path: Path) -> None:
    for text, told in (("", ""), ("alertmanager: '127.0.0.1:9093'\n", "127.0.0.1:9093")):
        path.write_text(TEXT + text)
        assert (
            CliRunner().invoke(commands.app, ["buildbot", str(path), "--output", str(tmp_path / "bb")]).exit_code == 0
        )
        assert json.loads((tmp_path / "bb" / "master" / "farm.json").read_text())["alertmanager"] == told


def test_a_token_stays_out_of_farm_yaml_and_is_asked_for_where_it_belongs(path: Path, tmp_path: Path) -> None:
    path.write_text(
        TEXT.replace("parallel: 3", "parallel: 3, github: {repository: lab/sw}, webhook: {url: 'https://hook.lab'}")
    )
    wanted = load(path)
    queue = wanted.buildbot
    assert queue is not None
    site = buildbot.BuildbotSite(tmp_path / "bb")
    token = site.master / "secrets" / "github"
    with pytest.raises(ConfigurationError, match=f"no token in {token}: write it there"):
        buildbot.write(wanted, queue, site, {})
    token.write_text("s3cret")
    buildbot.write(wanted, queue, site, {})
    found = json.loads((site.master / "farm.json").read_text())["told"]
    assert found == {
        "github": {"repository": "lab/sw", "url": "https://api.github.com"},
        "gitlab": None,
        "webhook": {"url": "https://hook.lab", "token": False},
    }
    assert [file for file in site.master.iterdir() if file.is_file() and "s3cret" in file.read_text()] == []
    for wrong in ("github: {repository: sw}", "webhook: {url: 'https://me:s3cret@hook.lab'}"):
        path.write_text(TEXT.replace("parallel: 3", wrong))
        with pytest.raises(ConfigurationError) as error:
            load(path)
        assert "s3cret" not in str(error.value)


def test_a_schedule_of_releases_has_its_folder_and_no_release_yet(path: Path) -> None:
    path.write_text(f"{TEXT}  - {{name: new, env: one.yaml, board: one, every: release, release: newest in rel}}\n")
    wanted = load(path)
    assert wanted.buildbot is not None
    found = buildbot.describe(wanted, wanted.buildbot, {})["schedules"][-1]
    assert (found["releases"], found["provision"], found["env"]) == (
        "/srv/lab/rel",
        "newest in /srv/lab/rel",
        "/srv/lab/envs/one.yaml",
    )
    assert found["words"] == [
        "--suite",
        "boot",
        "--env",
        "/srv/lab/envs/one.yaml",
        "--cycles",
        "20",
        "--health",
        "--judge",
    ]


def test_the_reference_board_is_buildbots_to_check_where_it_is_plugged_in(path: Path) -> None:
    path.write_text(f"{TEXT}health: {{reference: two, at: '00:45'}}\n")
    wanted = load(path)
    assert wanted.buildbot is not None
    assert buildbot.describe(wanted, wanted.buildbot, {})["reference"] == {
        "board": "two",
        "host": "lab-2",
        "env": "/srv/lab/envs/two.yaml",
        "when": {"hour": 0, "minute": 45},
        "wait_s": 1800,
    }
    assert [name for name in units(wanted, "/etc/farm.yaml", "lab-2") if "reference" in name] == []


def test_a_damaged_file_of_passwords_is_named_with_its_mend(farm: Farm, tmp_path: Path) -> None:
    queue = farm.buildbot
    assert queue is not None
    site = buildbot.BuildbotSite(tmp_path / "bb")
    buildbot.write(farm, queue, site, {})
    (site.master / "secrets.json").write_text("")
    with pytest.raises(ConfigurationError, match=r"secrets\.json.*remove it"):
        buildbot.write(farm, queue, site, {})


def test_each_host_has_its_units_and_no_timer(farm: Farm) -> None:
    main, other = units(farm, "/etc/farm.yaml"), units(farm, "/etc/farm.yaml", "lab-2")
    assert set(main) - set(other) == {"boardlab-buildbot.service", "boardlab-web.service"}
    assert "worker-lab-1\n" in main["boardlab-worker.service"]
    assert (
        "/opt/bb/bin/buildbot-worker start --nodaemon /var/lib/boardlab/buildbot/worker-lab-2\n"
        in (other["boardlab-worker.service"])
    )
    assert not [name for name in {*main, *other} if name.endswith(".timer")]
    with pytest.raises(ConfigurationError, match="lab-1, lab-2"):
        units(farm, "/etc/farm.yaml", "lab-3")


def test_a_farm_without_buildbot_has_no_folders_of_it(tmp_path: Path) -> None:
    file = tmp_path / "farm.yaml"
    file.write_text("user: me\n")
    result = CliRunner().invoke(commands.app, ["buildbot", str(file), "--output", str(tmp_path / "bb")])
    assert isinstance(result.exception, ConfigurationError)
    assert not (tmp_path / "bb").exists()


def test_check_compares_boards_with_their_environments(path: Path, tmp_path: Path) -> None:
    envs = tmp_path / "envs"
    envs.mkdir()
    (envs / "one.yaml").write_text(
        "targets: {main: {drivers: [{BoardStrategy: {board: uno, board_type: am62xx_sk}}]}}\n"
    )
    path.write_text(TEXT.replace("/srv/lab\n", f"{tmp_path}\n", 1))
    problems = [str(finding) for finding in files.boards(load(path))]
    assert f"boards: one: {envs / 'one.yaml'} is of board 'uno'" in problems
    assert any(problem.startswith("boards: two: ") and "two.yaml" in problem for problem in problems)
