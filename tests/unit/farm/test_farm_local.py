"""A farm on one machine: what its programs are, and what is refused before one of them starts."""

from __future__ import annotations

import configparser
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from support.prometheus_server import until
from typer.testing import CliRunner

from lab.cli import farm
from lab.errors import ConfigurationError
from lab.farm import config, services
from lab.farm.config import VirtualBoards
from lab.farm.local import LocalFarm, Program, ProgramState, Supervisor, programs
from lab.host.runtime import prepare, socket_path
from lab.virtual.ports import free_port

SUPERVISORD_GIVES_UP = 4  # starts of a program that ends at once, unless it is told otherwise
REAL = (
    "pdudaemon: {program: /opt/pdudaemon, config: /etc/p.conf}\nweb: {listen: '[::1]:1', web_config: /w, name: lab}\n"
)


def desk(folder: Path, text: str) -> LocalFarm:
    (folder / "farm.yaml").write_text(text)
    return LocalFarm(folder / "farm.yaml")


def commands(place: LocalFarm) -> dict[str, list[str]]:
    return {program.name: list(program.command[1:]) for program in programs(config.load(place.file), place)}


def test_simulated_boards_have_their_bench_and_real_ones_their_pdudaemon(tmp_path: Path) -> None:
    simulated = desk(
        tmp_path, "pdudaemon: {address: '127.0.0.1:77'}\nvirtual: {types: [am62xx_sk, am65xx_evm], count: 2}\n"
    )
    found = commands(simulated)
    assert list(found) == ["boards", "console", "exporter", "web"]
    assert shlex.join(found["boards"]).endswith(
        f"--dir {tmp_path}/virtual --switch-port 0 --pdu-port 77 --type am62xx_sk --type am65xx_evm --count 2 --time-scale 1"
    )
    real = commands(desk(tmp_path, REAL))
    assert list(real) == ["pdudaemon", "console", "exporter", "web"]
    assert real["pdudaemon"] == ["--conf", "/etc/p.conf"]
    assert {"--web-config", "/w", "--name", "lab"} <= set(real["web"])
    assert "pdudaemon" not in commands(desk(tmp_path, "user: me\n"))


def test_a_host_of_several_exports_its_boards_by_its_name(tmp_path: Path) -> None:
    exports = "coordinator: '10.0.0.1'\nexports: /e.yaml\n"
    assert "--name" not in commands(desk(tmp_path, exports))["export"]
    named = commands(desk(tmp_path, f"{exports}hosts: [{{name: lab-1}}]\n"))
    assert shlex.join(named["export"]).endswith("--name lab-1 --hostname lab-1")


def test_every_program_is_of_the_same_console_server_and_results(tmp_path: Path) -> None:
    found = commands(desk(tmp_path, "database: sqlite:////r.db\n"))
    for name in ("exporter", "web"):
        assert found[name][found[name].index("--db") + 1] == "sqlite:////r.db"
    for name in ("console", "exporter", "web"):
        assert found[name][found[name].index("--runtime") + 1] == str(tmp_path / "run")


def test_what_supervisord_would_read_as_something_else_is_refused(tmp_path: Path) -> None:
    for word in ("a;b", "%(here)s", "#", "'"):
        with pytest.raises(ConfigurationError, match="supervisord's"):
            Supervisor(tmp_path).up([Program("one", ("/bin/true", word))], {})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(ConfigurationError, match="others may enter it"):
        Supervisor(tmp_path).up([Program("one", ("/bin/true",))], {})


def test_a_command_with_blanks_reaches_supervisord_whole(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(Exception, match="does not run"):
        Supervisor(tmp_path).up([Program("one", ("/no such", "a b"))], {"PATH": "/bin"})
    try:
        read = configparser.RawConfigParser()
        read.read(tmp_path / services.SUPERVISORD.name)
        assert shlex.split(read["program:one"]["command"]) == ["/no such", "a b"]
    finally:
        assert Supervisor(tmp_path).down()


def test_what_ends_at_once_after_it_ran_is_started_again_and_never_given_up(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    begun, there, lives = tmp_path / "begun", tmp_path / "there", tmp_path / "lives"
    script = tmp_path / "web"
    script.write_text(
        f"#!/bin/sh\ntest -e {begun} || sleep 1.5\necho once more >> {begun}\n"  # supervisord's own idea of one that runs: 1 s
        f"test -e {there} && touch {lives} && exec sleep 600\n"
    )
    script.chmod(0o700)
    supervised = Supervisor(tmp_path)
    try:
        assert supervised.up([Program("web", (str(script),))], {"PATH": os.environ["PATH"]})
        until(
            lambda: begun.exists() and begun.read_text().count("\n") > SUPERVISORD_GIVES_UP,
            "it is started more often than supervisord would",
        )
        there.touch()
        until(lives.exists, "it runs")
    finally:
        assert supervised.down()


def test_a_program_that_ends_while_the_farm_comes_up_is_started_again_and_the_farm_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    address, real = f"127.0.0.1:{free_port()}", Supervisor.states
    shown: list[str] = []

    def states(supervised: Supervisor) -> list[ProgramState]:
        found = real(supervised)
        if found and not shown:  # supervisord itself shows this state for some 50 ms
            found = [evolve(found[0], state="EXITED")]
        shown.extend(one.state for one in found)
        return found

    supervised = Supervisor(tmp_path)
    try:
        monkeypatch.setattr(Supervisor, "states", states)
        command = (sys.executable, "-m", "http.server", "--bind", *address.split(":"))
        assert supervised.up([Program("boards", command, address)], {"PATH": os.environ["PATH"]})
        assert shown[0] == "EXITED"
        assert shown[-1] == "RUNNING"
    finally:
        assert supervised.down()


def test_a_program_has_started_once_its_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    file, real = tmp_path / "bench.json", Supervisor.states
    shown: list[str] = []

    def states(supervised: Supervisor) -> list[ProgramState]:
        found = real(supervised)
        shown.extend(one.state for one in found)
        if shown.count("RUNNING") == 3:
            file.touch()
        return found

    supervised = Supervisor(tmp_path)
    try:
        monkeypatch.setattr(Supervisor, "states", states)
        assert supervised.up([Program("boards", ("sleep", "600"), file=file)], {"PATH": os.environ["PATH"]})
        assert file.exists()
    finally:
        assert supervised.down()


def test_a_program_whose_neighbour_is_away_is_up_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o700)
    supervised, needs = Supervisor(tmp_path), f"127.0.0.1:{free_port()}"
    try:
        assert supervised.up([Program("export", ("sleep", "600"), needs=needs)], {"PATH": os.environ["PATH"]})
        assert f"export: no answer at {needs} yet" in caplog.text
    finally:
        assert supervised.down()


def test_supervisorctl_reaches_the_farm_by_the_file_that_is_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    supervised = Supervisor(tmp_path)
    try:
        assert supervised.up([Program("one", ("sleep", "600"))], {"PATH": os.environ["PATH"]})
        command = [Path(sys.executable).with_name("supervisorctl"), "-c", tmp_path / services.SUPERVISORD.name]
        done = subprocess.run([*command, "status"], check=True, capture_output=True, text=True)
        assert done.stdout.split()[:2] == ["one", "RUNNING"]
        assert (tmp_path / "s").stat().st_mode & 0o077 == 0
    finally:
        assert supervised.down()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["up", "farm.yaml", "--count", "2"], "says what there is"),
        (["up", "none.yaml"], "no such file"),
        (["up", "--type", "am62xx_sk", "--time-scale", "-1"], "time_scale"),
        (["up", "--type", "no_such_board"], "no_such_board"),
        (["logs", "web", "--farm", "farm.yaml"], "lab farm up"),
    ],
)
def test_what_cannot_be_brought_up_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "farm.yaml").write_text("user: me\n")
    result = CliRunner().invoke(farm.app, words)
    assert result.exit_code != 0
    assert says in str(result.exception)
    assert not (tmp_path / ".lab").exists()


def test_a_folder_that_farm_yaml_cannot_name_leaves_none_behind(tmp_path: Path) -> None:
    file = tmp_path / "my lab" / "farm.yaml"
    with pytest.raises(ConfigurationError, match="no blanks"):
        LocalFarm(file).up(VirtualBoards(["am62xx_sk"], 1))
    assert list(file.parent.iterdir()) == []


def test_a_shells_secrets_are_no_business_of_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("LAB_DB", "sqlite:////elsewhere.db")
    given: dict[str, str] = {}

    def up(_supervised: Supervisor, _programs: list[Program], environ: dict[str, str]) -> bool:
        given.update(environ)
        return True

    monkeypatch.setattr(Supervisor, "up", up)
    tmp_path.chmod(0o700)
    place = desk(tmp_path, f"database: sqlite:///{tmp_path}/r.db\n")
    place.up(VirtualBoards(["am62xx_sk"], 1))
    assert "AWS_SECRET_ACCESS_KEY" not in given
    assert given["LAB_DB"] == f"sqlite:///{tmp_path}/r.db"
    assert given["PATH"]


def test_a_farm_that_is_down_is_down_with_every_command(tmp_path: Path) -> None:
    path = str(tmp_path / "farm.yaml")
    for words, code in ((["status", path], 1), (["status", path, "--json"], 1), (["down", path], 0)):
        result = CliRunner().invoke(farm.app, words)
        assert result.exit_code == code, result.output
        assert "No farm is up" in result.output or result.output == "[]\n"


def test_what_does_not_answer_is_mended_by_whoever_runs_it(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text(
        "exporter: {listen: '127.0.0.1:1'}\npdudaemon: {address: '127.0.0.1:1'}\nalertmanager: '127.0.0.1:1'\n"
    )

    def hints() -> dict[str, str]:
        return {service.name: service.hint for service in services.listening(services.host_file(path))}

    assert "systemctl start boardlab-exporter" in hints()["exporter"]
    (tmp_path / "run").mkdir()
    (tmp_path / services.SUPERVISORD).touch()
    assert "lab farm logs" in hints()["exporter"]
    assert "lab farm logs" in hints()["pdudaemon"]
    assert "systemctl start prometheus-alertmanager" in hints()["alertmanager"]


def test_a_console_server_that_a_session_has_started_ends_with_the_farm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    place = desk(tmp_path, f"database: sqlite:///{tmp_path / 'results.db'}\n")
    monkeypatch.setattr(Supervisor, "states", lambda _self: [ProgramState("console", "BACKOFF", 0, "")])
    monkeypatch.setattr(Supervisor, "stop", lambda _self, _names: None)
    monkeypatch.setattr(Supervisor, "down", lambda _self: True)
    address = socket_path(prepare(place.runtime))
    command = [sys.executable, "-P", "-m", "lab.console.server", "--runtime", str(place.runtime)]
    with subprocess.Popen(command) as server:
        try:
            until(address.is_socket, "it listens")
            assert place.down()
            assert server.wait(60) == 0
        finally:
            server.kill()
