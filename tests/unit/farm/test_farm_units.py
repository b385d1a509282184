"""farm.yaml: checked, and made into units that systemd accepts."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from support.facts import missing_facts
from typer.testing import CliRunner

from lab.cli import farm as commands
from lab.errors import ConfigurationError
from lab.farm.config import (
    BackupConfig,
    BoardEntry,
    Buildbot,
    Exporter,
    Farm,
    GitHub,
    GitLab,
    HealthConfig,
    HostEntry,
    PduDaemonConfig,
    Schedule,
    UsbEntry,
    VirtualBoards,
    Web,
    Webhook,
    load,
)
from lab.farm.runner import WORSE
from lab.farm.systemd import COORDINATOR, always_running, units, write
from lab.places.coordinator import Coordinator
from lab.results.records import Retention
from lab.run import options

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "farm" / "farm.yaml"
INSTALLED = "/etc/boardlab/farm.yaml"
RECORDS = (
    Farm,
    Exporter,
    Web,
    VirtualBoards,
    HealthConfig,
    BackupConfig,
    PduDaemonConfig,
    UsbEntry,
    Buildbot,
    GitHub,
    GitLab,
    Webhook,
    HostEntry,
    BoardEntry,
    Schedule,
)
WORST_EXPOSURE = 2.5  # of 10; systemd calls up to 4 "ok", and an unprotected service has 9.6


def test_the_units_in_the_repository_are_those_of_the_example() -> None:
    found = {path.name: path.read_text() for path in (ROOT / "farm" / "systemd").iterdir()}
    assert found == units(load(EXAMPLE), INSTALLED)


def here(tmp_path: Path) -> Farm:
    """The example on this host, with places for other hosts: its programs exist, its user too."""
    program = tmp_path / "lab"
    program.symlink_to(sys.executable)
    (tmp_path / COORDINATOR).symlink_to(sys.executable)
    example = load(EXAMPLE)
    pdudaemon = attrs.evolve(example.pdudaemon, program=str(program))
    farm = attrs.evolve(example, user="daemon", program=str(program), pdudaemon=pdudaemon)
    return attrs.evolve(farm, coordinator="[::1]:20408", exports="/etc/boardlab/exports.yaml")


def test_the_reference_board_is_checked_by_a_timer_of_its_own(tmp_path: Path) -> None:
    example = here(tmp_path)
    assert "boardlab-reference.timer" not in units(example, INSTALLED)
    health = HealthConfig(reference=example.schedules[0].board, at="01:15")
    found = units(attrs.evolve(example, health=health), INSTALLED)
    env = example.schedules[0].env
    assert f" health {health.reference} --check --env {env} --wait 1800" in found["boardlab-reference.service"]
    assert "OnCalendar=*-*-* 01:15:00" in found["boardlab-reference.timer"].splitlines()


def test_a_backup_has_a_timer_on_the_host_with_the_results_and_may_write_its_folder(tmp_path: Path) -> None:
    example = here(tmp_path)
    assert "boardlab-backup.timer" not in units(example, INSTALLED)
    farm = attrs.evolve(example, backup=BackupConfig("/mnt/backup", at="04:10"))
    found = units(farm, INSTALLED)
    assert "OnCalendar=*-*-* 04:10:00" in found["boardlab-backup.timer"]
    service = found["boardlab-backup.service"]
    assert "/lab backup --farm /etc/boardlab/farm.yaml\n" in service
    assert 'ReadWritePaths="/mnt/backup"' in service
    assert "prune" not in service
    for wanted in (Retention(runs=730), Retention(packed=30)):
        old = units(attrs.evolve(farm, retention=wanted), INSTALLED)
        assert "/lab results prune --farm /etc/boardlab/farm.yaml\n" in old["boardlab-backup.service"]
    both = attrs.evolve(farm, hosts=[HostEntry("one"), HostEntry("two")])
    assert "boardlab-backup.timer" in units(both, INSTALLED, "one")
    assert "boardlab-backup.timer" not in units(both, INSTALLED, "two")


def test_where_artifacts_are_shared_a_timers_run_brings_them_before_its_unit_ends(tmp_path: Path) -> None:
    """systemd kills what is left of a unit when its main process has ended: also what `lab run` leaves behind to bring them."""
    farm = here(tmp_path)
    name = f"boardlab-{farm.schedules[0].name}.service"
    assert "ExecStopPost" not in units(farm, INSTALLED)[name]
    found = units(attrs.evolve(farm, artifacts="s3://lab/artifacts"), INSTALLED)
    (line,) = [line for line in found[name].splitlines() if line.startswith("ExecStopPost=")]
    limit = re.search(r"^TimeoutStopSec=(\d+)$", found[name], re.MULTILINE)
    words = line.removeprefix("ExecStopPost=-").split()
    assert words[-3:] == [farm.program, "results", "upload"]
    assert words[0] == "timeout"
    assert limit is not None
    assert int(words[1]) < int(limit[1]), "systemd would call a unit failed that takes longer"


def test_every_service_may_start_setpriv_which_a_run_needs(tmp_path: Path) -> None:
    """`lab run` starts pytest by setpriv(1), which sets the capabilities it has, none; systemd itself runs this in tests/system."""
    for name, text in units(here(tmp_path), INSTALLED).items():
        filters = [line for line in text.splitlines() if line.startswith("SystemCallFilter=")]
        assert [line.split()[0] for line in filters[-1:]] == (
            ["SystemCallFilter=capset"] if name.endswith(".service") else []
        ), name


def test_the_site_may_choose_its_time_slice(tmp_path: Path) -> None:
    """By which its viewers delay no stamp (`lab.host.scheduling`)."""
    assert (
        "SystemCallFilter=capset sched_setattr"
        in units(here(tmp_path), INSTALLED)["boardlab-web.service"].splitlines()
    )


def test_a_reference_board_that_nobody_measures_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text("health: {reference: nobody}\n")
    with pytest.raises(ConfigurationError, match="reference 'nobody'"):
        load(path)


def test_systemd_finds_nothing_wrong_with_them(tmp_path: Path) -> None:
    farm = here(tmp_path)
    health = HealthConfig(reference=farm.schedules[0].board)
    farm = attrs.evolve(farm, health=health, artifacts="s3://lab/artifacts", backup=BackupConfig("/mnt"))
    paths = write(units(farm, INSTALLED), tmp_path)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *paths], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_service_that_is_started_again_is_never_given_up_and_tells_each_failure(tmp_path: Path) -> None:
    """OnFailure= tells nobody of it: systemd starts it when it has given a service up, and with Restart= it does not."""
    farm = here(tmp_path)
    boards = tuple({BoardEntry(each.board, each.env) for each in farm.schedules})
    queued = attrs.evolve(farm, buildbot=Buildbot("/srv/buildbot"), boards=boards)
    made = units(farm, INSTALLED) | units(queued, INSTALLED)
    always_running = {name: text.splitlines() for name, text in made.items() if "\nRestart=always\n" in text}
    assert {
        "boardlab-console.service",
        "boardlab-export.service",
        "boardlab-worker.service",
        "boardlab-buildbot.service",
    } < set(always_running)
    for name, lines in always_running.items():
        assert "StartLimitIntervalSec=0" in lines, name
        (tells,) = [line for line in lines if line.startswith("ExecStopPost=")]
        assert tells.endswith("systemctl start --no-block boardlab-notify@%n.service'"), name


def test_a_lab_whose_folder_has_a_blank_in_its_path_gets_units_that_start_its_own_programs(tmp_path: Path) -> None:
    folder = tmp_path / "my lab"
    folder.mkdir()
    host = here(folder)
    config = str(folder / "pdudaemon.conf")
    farm = attrs.evolve(host, directory=str(folder), pdudaemon=attrs.evolve(host.pdudaemon, config=config))
    made = units(farm, str(folder / "farm.yaml"))
    for path in write(made, tmp_path):
        if path.suffix == ".service":
            words = [
                word
                for line in made[path.name].splitlines()
                if line.startswith("ExecStart=")
                for word in shlex.split(line[10:])
            ]
            assert words[0] in {str(folder / "lab"), str(folder / COORDINATOR)}
    assert shlex.split(made["boardlab-pdudaemon.service"].partition("ExecStart=")[2].partition("\n")[0])[-1] == config
    paths = [tmp_path / name for name in made]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *paths], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_host_that_exports_its_boards_has_what_serves_them_and_the_first_one_the_janitor() -> None:
    example = attrs.evolve(load(EXAMPLE), coordinator="10.0.0.1:20408", exports="/etc/boardlab/exports.yaml")
    hosts = attrs.evolve(example, hosts=[HostEntry("lab-1"), HostEntry("lab-2")])
    first, second = units(hosts, INSTALLED, "lab-1"), units(hosts, INSTALLED, "lab-2")
    assert "farm janitor /etc/boardlab/farm.yaml" in first["boardlab-janitor.service"]
    assert "boardlab-janitor.service" not in second
    for found in (first, second):
        words = "farm export /etc/boardlab/exports.yaml --coordinator 10.0.0.1:20408"
        assert words in found["boardlab-export.service"]
        assert "rails serve" in found["boardlab-rails.service"]
    # What the machine calls itself is not asked: ssh, certificates and places' matches have the name of farm.yaml.
    assert " --name lab-1 --hostname lab-1\n" in first["boardlab-export.service"]
    assert " --name lab-2 --hostname lab-2\n" in second["boardlab-export.service"]
    assert "--hostname" not in units(example, INSTALLED)["boardlab-export.service"]
    with pytest.raises(ValueError, match="names no coordinator"):
        attrs.evolve(example, coordinator="")


def test_each_host_has_an_exporter_for_prometheus_and_only_the_first_the_results() -> None:
    hosts = attrs.evolve(load(EXAMPLE), hosts=[HostEntry("lab-1"), HostEntry("lab-2")])
    for host in ("lab-1", "lab-2"):
        found = units(hosts, INSTALLED, host)
        assert f"exporter --farm {INSTALLED} --host {host}\n" in found["boardlab-exporter.service"]
        assert ("boardlab-web.service" in found) is (host == "lab-1")


def test_the_coordinator_runs_on_the_first_host_unless_farm_yaml_says_where() -> None:
    example = attrs.evolve(load(EXAMPLE), coordinator="10.0.0.1", program="/srv/my lab/bin/lab")
    hosts = attrs.evolve(example, hosts=[HostEntry("lab-1"), HostEntry("lab-2")])

    def with_it(farm: Farm) -> list[str]:
        return [name for name in ("lab-1", "lab-2") if "coordinator" in always_running(farm, name)]

    assert with_it(hosts) == ["lab-1"]
    assert with_it(attrs.evolve(hosts, coordinator_host="lab-2")) == ["lab-2"]
    assert with_it(attrs.evolve(hosts, coordinator_host="elsewhere")) == []
    assert with_it(attrs.evolve(hosts, coordinator="")) == []
    lines = units(hosts, INSTALLED, "lab-1")["boardlab-coordinator.service"].splitlines()
    assert 'ExecStart="/srv/my lab/bin/labgrid-coordinator" --listen 10.0.0.1:20408' in lines
    assert [line for line in lines if line.startswith("WorkingDirectory=")][-1].endswith(
        "=/var/lib/boardlab/coordinator"
    )
    assert "coordinator" in always_running(example, "local")
    with pytest.raises(ValueError, match="lab-1, lab-2, elsewhere"):
        attrs.evolve(hosts, coordinator_host="lab-3")


def test_they_are_hardened(tmp_path: Path) -> None:
    farm = attrs.evolve(here(tmp_path), backup=BackupConfig("/mnt/backup"))
    for path in write(units(farm, INSTALLED), tmp_path):
        if path.suffix == ".service":
            words = ["systemd-analyze", "security", "--offline=true", "--no-pager", path]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            (exposure,) = re.findall(r"exposure level for .*: ([\d.]+)", done.stdout)
            assert float(exposure) <= WORST_EXPOSURE, path.name


def test_the_site_is_served_as_farm_yaml_says(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text("web: {listen: '[::]:443', web_config: /etc/boardlab/web.yml, users: /u.json, name: lab}\n")
    (command,) = re.findall(r"ExecStart=(.*)", units(load(path), INSTALLED)["boardlab-web.service"])
    assert command.endswith(
        f"web --farm {INSTALLED} --listen [::]:443 --web-config /etc/boardlab/web.yml --users /u.json --name lab"
    )


def test_a_number_that_is_worse_is_no_failure_of_the_unit_that_has_it_judged() -> None:
    example = load(EXAMPLE)
    judged = attrs.evolve(example.schedules[0], name="judged")
    plain = attrs.evolve(judged, name="plain", options={})
    found = units(attrs.evolve(example, schedules=(plain, judged)), INSTALLED)
    assert f"SuccessExitStatus={WORSE}" in found["boardlab-judged.service"].splitlines()
    assert " --judge" in found["boardlab-judged.service"]
    assert not {"SuccessExitStatus", "--judge"} & set(re.findall(r"[\w-]+", found["boardlab-plain.service"]))


def test_what_starts_runs_keeps_what_saves_time() -> None:
    example = load(EXAMPLE)
    schedule = attrs.evolve(example.schedules[0], name="nightly", options={})
    boards = (BoardEntry(schedule.board, schedule.env),)
    timers = attrs.evolve(example, schedules=(schedule,), health=HealthConfig(reference=schedule.board), boards=boards)
    queued = attrs.evolve(timers, buildbot=Buildbot("/srv/buildbot"))
    found = units(queued, INSTALLED) | units(timers, INSTALLED)
    for name in ("nightly", "reference", "worker", "web"):
        lines = found[f"boardlab-{name}.service"].splitlines()
        assert {"CacheDirectory=boardlab", "CacheDirectoryMode=0700"} <= set(lines), name
        assert "Environment=XDG_CACHE_HOME=/var/cache/boardlab" in lines, (
            "or the judge walks through a year each night"
        )
        assert "Environment=PYTHONPYCACHEPREFIX=/var/cache/boardlab/python" in lines, (
            "or pytest compiles all each night"
        )


def test_a_schedule_has_its_runs_judged_unless_it_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    own = ("", ", judge: true", ", judge: false")
    path.write_text("schedules:\n" + "".join(f"  - {{name: n{i}, env: e, board: b{x}}}\n" for i, x in enumerate(own)))
    assert ["judge" in schedule.options for schedule in load(path).schedules] == [True, True, False]


def test_the_timers_come_when_they_should(tmp_path: Path) -> None:
    for schedule, expected in zip(load(EXAMPLE).schedules, ("*-*-* 02:00:00", "Sun *-*-* 04:00:00"), strict=True):
        done = subprocess.run(
            ["systemd-analyze", "calendar", schedule.calendar], check=True, capture_output=True, text=True
        )
        assert f"Normalized form: {expected}" in done.stdout
        assert f"OnCalendar={schedule.calendar}" in units(load(EXAMPLE), INSTALLED)[f"boardlab-{schedule.name}.timer"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("usr: me", "no key 'usr' here; is 'user' meant?"),
        ("pdudaemon: {adress: x}", "no key 'adress' here; is 'address' meant? @ farm.yaml.pdudaemon"),
        ("user: a\nuser: b", "farm.yaml:2: user: stands here twice; delete one"),
        ("schedules: []\nusb: []\nschedules: []", "farm.yaml:3: schedules: stands here twice"),
        ("schedules: [{name: n, env: e, board: b, name: m}]", "farm.yaml:1: name: stands here twice"),
        ("schedules: [{name: n, env: e}]", "this key is missing; add it @ farm.yaml.schedules[0].board"),
        ("schedules: [" + "{name: n, env: e}, " * 40 + "]", "farm.yaml.schedules[7].board; and 32 more"),
        ("user: 7", "put it in quotes"),
        ("directory: ~/lab", "directory: '~/lab': expected a path; ~ stands"),
        ("ssh_config: ~/.ssh/config", "ssh_config: '~/.ssh/config': expected a path; ~ stands"),
        ("program: ''", "program: '': expected a path"),
        ("user: 'a b'", "no blanks"),
        ("directory: '/a\tb'", "expected a path without quotes"),
        ("program: '/a; reboot'", "expected a path without quotes"),
        ("pdudaemon: {program: '/a\"b'}", "expected a path without quotes"),
        ("pdudaemon: {program: 'a b'}", "no blanks"),
        ("schedules: [{name: 'Not a name', env: e, board: b}]", "small letters"),
        ("schedules: [{name: n, env: e, board: b, at: '25:00'}]", "time of day"),
        ("schedules: [{name: n, env: 'e; rm -rf /', board: b}]", "env: 'e; rm -rf /': expected a path without quotes"),
        ("schedules: [{name: n, env: e, board: b, every: month}]", "every"),
        ("schedules: [{name: n, env: e, board: b}, {name: n, env: e, board: b}]", "two are called 'n'"),
        ("virtual: {count: 3}", "types"),
        ("virtual: {types: [am62xx_sk], count: 0}", "count"),
        ("virtual: {types: [am62xx_sk], time_scale: 0}", "time_scale"),
        ("web: {listen: '1 2'}", "no blanks"),
        ("buildbot: {program: /b}", "boards"),
        ("buildbot: {program: /b, www: '0.0.0.0:8010'}", "ssh -L"),
        ("buildbot: {program: /b, workers: 'lab:9989'}", "ssh -L"),
        ("boards: [{name: b, env: e, host: h}]", "name one of local"),
        ("usb: [{name: u, id_path: p, host: h}]", "usb: u: host 'h': name one of local"),
        ("hosts: [{name: h1}, {name: h2}]\nboards: [{name: b, env: e}]", "name one of h1, h2"),
        ("boards: [{name: b, env: e}, {name: b, env: f}]", "two are called 'b'"),
        ("boards: [{name: b, env: e}]\nschedules: [{name: n, env: f, board: b}]", "not one of `boards`"),
        ("- a list", "expected keys and values"),
        ("a: [", "not YAML"),
    ],
)
def test_a_wrong_farm_is_refused_with_its_key(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_check_names_what_a_schedule_does_not_find(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    entries = (
        "{name: a, env: sim-am62x.yaml, board: am62xx_sk-1}",
        "{name: b, env: sim-am62x.yaml, board: another}",
        "{name: c, env: nowhere.yaml, board: x}",
        "{name: d, env: sim-am62x.yaml, board: am62xx_sk-1, suite: 'boot,sunspots'}",
    )
    path.write_text(f"directory: {ROOT}\nschedules: [{', '.join(entries)}]\n")
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert done.exit_code == 2
    lines = [line for line in done.stdout.splitlines() if line.startswith(f"{path}: schedules: ")]
    assert len(lines) == 3
    assert not missing_facts(lines[0], "b: ", f"{ROOT}/envs/sim-am62x.yaml", "'am62xx_sk-1'", "'another'")
    assert f"no environment '{ROOT}/envs/nowhere.yaml'" in lines[1]
    assert not missing_facts(lines[2], "'sunspots'", "guide")


def test_the_page_on_the_farm_explains_every_key() -> None:
    page = (ROOT / "docs" / "farm" / "farm-yaml.md").read_text(encoding="utf-8")
    keys = {f.name for record in RECORDS for f in attrs.fields(record)}
    keys = (keys - {"options"}) | set(options.NAMES)
    assert {key for key in keys if f"`{key}`" not in page} == set()


RULE = (ROOT / "farm" / "nftables" / "boardlab-pdudaemon.nft").read_text()


def test_the_firewall_rule_is_for_the_port_and_the_user_of_the_example() -> None:
    example = load(EXAMPLE)
    assert set(re.findall(r"tcp dport (\d+)", RULE)) == {example.pdudaemon.address.rpartition(":")[2]}
    assert re.findall(r"meta skuid { (.*?) } accept", RULE) == [f"root, {example.user}"]


def test_who_sets_pdudaemon_up_is_warned_in_every_place(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    path = tmp_path / "farm.yaml"
    path.write_text(f"directory: {folder}\npdudaemon: {{address: '127.0.0.1:1234'}}\nuser: benchmarks\n")
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert done.exit_code == 0
    assert not missing_facts(done.output, "pdudaemon at 127.0.0.1:1234", "EVERY user", "only benchmarks")
    unit = units(attrs.evolve(load(EXAMPLE)), INSTALLED)["boardlab-pdudaemon.service"]
    places = [unit, (ROOT / "farm" / "pdudaemon" / "pyproject.toml").read_text()]
    assert all("PDUDAEMON OBEYS EVERY USER" in place for place in places)


def test_who_sets_the_coordinator_up_is_warned_in_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of pdudaemon: it has no authentication, and boardlab cannot add any."""
    path = tmp_path / "farm.yaml"
    monkeypatch.setattr(Coordinator, "holders", lambda _self, _timeout_s: {})
    path.write_text(f"directory: {tmp_path}\ncoordinator: 10.0.0.1:20408\nexports: exports.yaml\n")
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert done.exit_code == 0, done.output
    assert not missing_facts(done.output, "coordinator at 10.0.0.1:20408", "passwords", "EVERY HOST")
    made = units(load(path), INSTALLED)
    places = [made[f"boardlab-{name}.service"] for name in ("coordinator", "export", "janitor")]
    assert all("THE COORDINATOR OBEYS WHOEVER REACHES IT" in place for place in places)
    path.write_text(
        f"directory: {tmp_path}\nschedules: [{{name: n, env: no.yaml, board: b}}]\ncoordinator: '[::1]:1'\n"
    )
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert done.exit_code == 2
    assert "EVERY HOST" in done.output, "also where something else is wrong"
    path.write_text(f"directory: {tmp_path}\n")
    assert "labgrid's coordinator" not in CliRunner().invoke(commands.app, ["check", str(path)]).output


def test_units_share_artifacts_where_farm_yaml_says_so_and_no_key_is_in_them(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text("artifacts: s3://lab/artifacts\n")
    assert "\nEnvironment=LAB_SHARED_ARTIFACTS=s3://lab/artifacts\n" in units(load(path), "/f")["boardlab-web.service"]
    path.write_text("artifacts: s3://key:s3cret@lab/artifacts\n")
    with pytest.raises(ConfigurationError, match="without a password") as caught:
        load(path)
    assert "s3cret" not in str(caught.value)
