"""What an installed farm.yaml has a host run: `lab doctor` finds each of it that does not run, or that the coordinator does not know."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.facts import missing_facts

from lab.errors import ConfigurationError
from lab.farm import services
from lab.farm.checks import Finding
from lab.farm.checks import services as service_checks
from lab.farm.checks.registry import DOCTOR, CheckTarget, examine, load_host
from lab.farm.local import ProgramState, Supervisor
from lab.farm.services import HostFile, Service
from lab.host.process import user_name
from lab.places.coordinator import Coordinator
from lab.places.records import CoordinatorState
from lab.rails.server import rails_socket

FARM = """\
coordinator: 127.0.0.1:1
exports: /etc/boardlab/exports.yaml
hosts: [{name: lab-1}, {name: lab-2}]
boards: [{name: b, env: b.yaml, host: lab-1}]
buildbot: {program: /b}
"""
ABSENT = Service("console server", "absent", "does not run; the first measurement starts it")


def host_of(folder: Path, name: str, text: str = FARM) -> HostFile:
    path = folder / "installed.yaml"
    path.write_text(text)
    return services.host_file(path, name)


def systemd(monkeypatch: pytest.MonkeyPatch, *states: str, why: str = "") -> list[str]:
    """A systemd that has these states of units; the units that it is asked for."""
    asked: list[str] = []

    def run(words: list[str], **_others: object) -> subprocess.CompletedProcess[str]:
        asked[:] = words[2:]
        return subprocess.CompletedProcess(words, 3, "".join(f"{state}\n" for state in states), why)

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def coordinator(monkeypatch: pytest.MonkeyPatch, **exporters: int) -> None:
    known = {name.replace("_", "-"): count for name, count in exporters.items()}
    monkeypatch.setattr(Coordinator, "state", lambda _self: CoordinatorState((), {}, known))


def found(host: HostFile, runtime: Path) -> dict[str, Finding]:
    return {each.subject: each for each in service_checks.programs(host, runtime)}


def test_a_console_server_that_exports_boards_has_to_run(tmp_path: Path) -> None:
    installed = host_of(tmp_path, "lab-1")
    (bad,) = service_checks.console(ABSENT, installed)
    assert bad.level == "bad"
    assert not missing_facts(bad.said, "as boardlab", "/etc/boardlab/exports.yaml")
    assert "systemctl start boardlab-console" in bad.hint
    for host in (HostFile(installed.farm, installed=False), host_of(tmp_path, "", "user: me\n")):
        assert list(service_checks.console(ABSENT, host)) == [Finding("services", ABSENT.name, "ok", ABSENT.said)]


def test_who_does_not_see_the_services_sockets_is_told_to_look_as_their_user_and_not_to_start_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd(monkeypatch)
    coordinator(monkeypatch, lab_1=3)
    monkeypatch.setattr(services, "RUN", tmp_path)
    host = host_of(tmp_path, "lab-1")
    own = tmp_path / "own"
    assert found(host, own)["rails"].level == "bad", "nobody's folder is there, so they do not run"
    (tmp_path / "boardlab").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 1)
    lab = CheckTarget(str(tmp_path / "results.db"), host, own, tmp_path, tmp_path, tmp_path)
    whole = {each.subject: each for each in examine(lab, DOCTOR)}
    assert not {"rails", "console server"} & whole.keys()
    unseen = whole["console server, rails"]
    assert unseen.level == "doubtful"
    assert not missing_facts(unseen.hint, f"sudo -u {user_name(tmp_path.stat().st_uid)} lab doctor")
    assert found(host, tmp_path / "boardlab")["rails"].level == "bad", "it is looked at itself"


def test_an_exporter_that_the_coordinator_does_not_list_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd(monkeypatch)
    coordinator(monkeypatch, lab_1=3, lab_2=0)
    assert not missing_facts(found(host_of(tmp_path, "lab-1"), tmp_path)["export"].said, "3 resources", "lab-1")
    away = found(host_of(tmp_path, "lab-2"), tmp_path)["export"]
    assert (away.level, missing_facts(away.said, "nothing", "exporter 'lab-2'")) == ("bad", [])
    assert "systemctl start boardlab-export;" in away.hint


def test_rails_are_asked_where_they_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systemd(monkeypatch)
    coordinator(monkeypatch)
    assert found(host_of(tmp_path, "lab-2"), tmp_path)["rails"].level == "bad"
    with TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as rails:
        rails.bind(os.fspath(rails_socket(Path(short))))
        rails.listen()
        assert found(host_of(tmp_path, "lab-2"), Path(short))["rails"].level == "ok"


def test_systemd_is_asked_for_what_listens_nowhere_and_each_that_does_not_run_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator(monkeypatch, lab_1=1)
    asked = systemd(monkeypatch, "active", "activating", "active", "failed")
    first = found(host_of(tmp_path, "lab-1"), tmp_path)
    assert asked == [f"boardlab-{name}.service" for name in ("web", "janitor", "buildbot", "worker")]
    assert {name: first[name].level for name in ("web", "janitor", "buildbot", "worker")} == {
        "web": "ok",
        "janitor": "bad",
        "buildbot": "ok",
        "worker": "bad",
    }
    assert "systemctl start boardlab-worker; journalctl -u boardlab-worker" in first["worker"].hint
    asked = systemd(monkeypatch, "active")
    found(host_of(tmp_path, "lab-2"), tmp_path)
    assert asked == ["boardlab-worker.service"]


def test_without_systemd_nobody_knows_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator(monkeypatch, lab_2=1)
    systemd(monkeypatch, why="System has not been booted with systemd\nmore")
    unknown = found(host_of(tmp_path, "lab-2"), tmp_path)["worker"]
    assert unknown.level == "doubtful"
    assert not missing_facts(unknown.said, "has not been booted"), "its first line"
    assert "more" not in unknown.said


def test_what_lab_farm_up_keeps_is_asked_of_its_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))
    (tmp_path / services.SUPERVISORD.name).touch()
    states = [
        ProgramState("janitor", "BACKOFF", 0, "exited too quickly"),
        ProgramState("worker", "RUNNING", 7, "pid 7"),
    ]
    monkeypatch.setattr(Supervisor, "states", lambda _self: states)
    coordinator(monkeypatch, lab_1=1)
    path = tmp_path / "farm.yaml"
    path.write_text(FARM)
    who = load_host("results.db", path, None, "lab-1")
    assert (who.host.supervised, who.host.name) == (True, "lab-1")
    kept = found(who.host, who.runtime)
    assert kept["janitor"].level == "bad"
    assert not missing_facts(kept["janitor"].said, "backoff", states[0].text)
    assert "lab farm logs" in kept["janitor"].hint
    assert kept["worker"].level == "ok"


def test_a_coordinator_that_is_away_is_mended_where_it_runs(tmp_path: Path) -> None:
    assert "systemctl start boardlab-coordinator;" in services.hint("coordinator", host_of(tmp_path, "lab-1"))
    assert services.hint("coordinator", host_of(tmp_path, "lab-2")).startswith("it runs on lab-1")
    apart = host_of(tmp_path, "lab-1", f"{FARM}coordinator_host: elsewhere\n")
    assert services.hint("coordinator", apart).startswith("it runs on its host")


def test_a_draft_has_nothing_run(tmp_path: Path) -> None:
    assert list(service_checks.programs(HostFile(host_of(tmp_path, "lab-1").farm, installed=False), tmp_path)) == []


def test_which_host_it_is_follows_from_its_name_and_a_stranger_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host_of(tmp_path, "").name == "lab-1"
    monkeypatch.setattr(socket, "gethostname", lambda: "lab-2")
    assert host_of(tmp_path, "").name == "lab-2"
    with pytest.raises(ConfigurationError, match=r"'lab-3'.*lab-1, lab-2"):
        host_of(tmp_path, "lab-3")


def test_where_units_run_as_this_user_their_console_server_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOARDLAB_RUNTIME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = tmp_path / "units"
    monkeypatch.setattr(services, "RUN", tmp_path)
    installed = host_of(tmp_path, "", "runtime: units\n")
    assert services.runtime_of(installed) == tmp_path / "boardlab", "there is none yet"
    folder.mkdir()
    assert services.runtime_of(installed) == folder
    assert services.runtime_of(HostFile(installed.farm, installed=False)) == tmp_path / "boardlab"
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert services.runtime_of(installed) == tmp_path / "boardlab", "it is another user's"
