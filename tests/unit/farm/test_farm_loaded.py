"""Programs that run with an older farm.yaml, or with an older boardlab: they load the new file, or `lab doctor` and `lab farm check` name them."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from support.facts import missing_facts
from typer.testing import CliRunner

from lab.cli import farm
from lab.cli import farm as commands
from lab.console.status import ServerStatus
from lab.errors import ConfigurationError
from lab.farm import buildbot, config, services
from lab.farm.checks import Finding
from lab.farm.checks import services as service_checks
from lab.farm.checks.registry import DOCTOR, examine, load_host
from lab.farm.loaded_config import record_loaded
from lab.farm.systemd import units
from lab.places.coordinator import Coordinator

FARM = "runtime: run\nschedules: [{name: night, env: e.yaml, board: b, release: '11.02'}]\n"
NEWER = FARM.replace("11.02", "11.03")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A farm.yaml, and the runtime folder of its programs."""
    monkeypatch.setattr(services, "RUN", tmp_path)
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    path = tmp_path / "farm.yaml"
    path.write_text(FARM)
    return path


def outdated(file: Path) -> list[Finding]:
    return list(service_checks.program_versions(services.host_file(file), file.parent / "run"))


def test_a_program_sees_that_farm_yaml_says_something_else(file: Path) -> None:
    loaded = record_loaded("exporter", file, config.load(file), file.parent / "run")
    assert not loaded.is_older()
    file.write_text(f"# the night's release\n{FARM}")
    assert not loaded.is_older(), "a comment says nothing to a program"
    file.write_text("schedules: [{name: night}]\n")
    for _ in range(2):  # the collector stays down
        with pytest.raises(ConfigurationError, match="this key is missing"):
            loaded.is_older()
    file.write_text(NEWER)
    assert loaded.is_older()
    file.unlink()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        loaded.is_older()


@pytest.mark.parametrize("program", ["exporter", "janitor"])
def test_a_program_that_runs_with_an_older_file_is_named_by_check_and_doctor(file: Path, program: str) -> None:
    record_loaded(program, file, config.load(file), file.parent / "run")
    assert outdated(file) == []
    file.write_text(NEWER)
    (found,) = outdated(file)
    assert (found.subject, found.level) == (program, "bad")
    assert str(file) in found.said
    assert f"systemctl restart boardlab-{program}" in found.hint
    assert found in examine(load_host(None, file, file.parent / "run"), DOCTOR)
    done = CliRunner().invoke(commands.app, ["check", str(file)])
    assert done.exit_code == 2
    assert f"{file}: {program}: {found.said}; {found.hint}" in done.output.splitlines()
    draft = file.with_name("draft.yaml")
    draft.write_text(NEWER)
    assert program not in CliRunner().invoke(commands.app, ["check", str(draft)]).output, "nothing runs with a draft"


def test_a_program_that_has_ended_runs_with_nothing(file: Path) -> None:
    record_loaded("exporter", file, config.load(file), file.parent / "run")
    (note,) = (file.parent / "run" / "loaded").iterdir()
    said = json.loads(note.read_text())
    note.write_text(json.dumps({**said, "holder": said["holder"].rpartition("/")[0] + "/1"}))
    file.write_text(NEWER)
    assert outdated(file) == []
    note.write_text("{")
    assert outdated(file) == []


def test_a_program_of_before_an_upgrade_is_named(file: Path) -> None:
    record_loaded("exporter", file, config.load(file), file.parent / "run")
    (note,) = (file.parent / "run" / "loaded").iterdir()
    note.write_text(json.dumps({**json.loads(note.read_text()), "version": "0.0.7"}))
    (found,) = outdated(file)
    assert (found.subject, found.level) == ("exporter", "doubtful")
    assert not missing_facts(found.said, "0.0.7", version("boardlab"))


@pytest.mark.parametrize(("its", "called"), [("0.0.7", "boardlab 0.0.7"), ("", "an older boardlab")])
def test_a_console_server_of_before_an_upgrade_is_named(file: Path, its: str, called: str) -> None:
    def found(version: str) -> list[Finding]:
        status = ServerStatus(1, "2026-03-02T02:00:00+00:00", "", "", [], version=version)
        return list(service_checks.console_version(status, services.host_file(file)))

    (old,) = found(its)
    assert (old.subject, old.level) == ("console server", "doubtful")
    assert not missing_facts(old.said, called, "2026-03-02T02:00:00+00:00")
    assert "systemctl restart boardlab-console" in old.hint
    assert found(version("boardlab")) == []
    assert list(service_checks.console_version(None, services.host_file(file))) == []


def test_units_that_say_what_farm_yaml_said_before_are_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = file.parent / "units"
    folder.mkdir()
    monkeypatch.setattr(service_checks, "UNITS", folder)

    def found() -> Finding | None:
        findings = service_checks.unit_files(services.host_file(file))
        return next((each for each in findings if each.subject == "units"), None)

    assert found() is None, "none are installed"
    for name, text in units(config.load(file), str(file)).items():
        (folder / name).write_text(text)
    assert found() is None
    file.write_text(NEWER.replace("schedules: [", "schedules: [{name: week, env: e.yaml, board: b}, "))
    old = found()
    assert old is not None
    assert old.level == "bad"
    assert old.said.endswith(": boardlab-week.service, boardlab-week.timer, boardlab-night.service")
    assert f"lab farm units {file} --output {folder} && systemctl daemon-reload" in old.hint
    unit = folder / "boardlab-exporter.service"
    unit.write_text(unit.read_text().replace(str(file), "/etc/no-such/farm.yaml"))
    gone = found()
    assert gone is not None
    assert not missing_facts(gone.said, "/etc/no-such/farm.yaml", "no such file")


def test_a_buildbot_that_has_what_farm_yaml_said_before_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_checks, "STATE", file.parent)
    queue = "buildbot: {program: /b}\nboards: [{name: b, env: e.yaml}]\n"
    file.write_text(queue + FARM)

    def old() -> list[Finding]:
        findings = service_checks.buildbot_file(services.host_file(file))
        return [each for each in findings if each.subject == "buildbot" and "said before" in each.said]

    assert old() == [], "it is not here"
    farm = config.load(file)
    assert farm.buildbot is not None
    buildbot.write(farm, farm.buildbot, buildbot.BuildbotSite(file.parent / "boardlab" / "buildbot"), farm.environ)
    assert old() == []
    file.write_text(queue + NEWER)
    (found,) = old()
    assert found.level == "bad"
    assert f"lab farm buildbot FILE --output {file.parent}/boardlab/buildbot" in found.hint
    assert "systemctl restart boardlab-buildbot" in found.hint


def test_the_janitor_loads_what_farm_yaml_says_now(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(f"coordinator: 127.0.0.1:1\ndatabase: sqlite:///r.db\n{FARM}")
    texts = iter(["user: [", file.read_text().replace("11.02", "11.03")])
    monkeypatch.setattr(Coordinator, "holders", lambda *_: {})
    monkeypatch.setattr(farm, "janitor_patient", lambda _looker: [])
    monkeypatch.setattr("time.sleep", lambda _s: file.write_text(next(texts)))
    monkeypatch.setattr(farm, "restart_process", lambda: pytest.exit("anew"))
    done = CliRunner().invoke(farm.app, ["janitor", str(file)])
    assert isinstance(done.exception, pytest.exit.Exception), "a wrong file was passed over, the right one was loaded"
    assert f"{file} says something else now" in done.output
