"""What the names of things without authentication stand for: a public address is wrong, and one that nobody knows is said."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import bcrypt
import pytest
from attrs import evolve
from support.facts import missing_facts
from typer.testing import CliRunner

from lab.cli import farm as commands
from lab.farm.checks import files
from lab.farm.config import Exporter, Farm, PduDaemonConfig, Web

FARM = Farm(coordinator="lab1.example.org:20408")


@pytest.mark.parametrize(
    ("found", "public"),
    [(["10.0.0.1"], False), (["127.0.1.1", "::1"], False), (["10.0.0.1", "8.8.8.8"], True), (["2606:4700::1"], True)],
)
def test_a_name_is_as_good_as_all_that_it_stands_for(found: list[str], public: bool) -> None:
    findings = list(files.names(FARM, lambda _machine: found))
    assert [each.level for each in findings] == ["bad"] * public
    if public:
        assert not missing_facts(findings[0].said, "'lab1.example.org:20408'", found[-1], "authentication")


def test_a_name_that_nobody_knows_is_said() -> None:
    def unknown(_machine: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    findings = list(files.names(evolve(FARM, pdudaemon=PduDaemonConfig(address="pdu:16421")), unknown))
    assert {each.level for each in findings} == {"doubtful"}
    assert [missing_facts(str(name), "(Name or service", "known)") for name in findings] == [[], []]
    assert not missing_facts(str(findings[1]), "pdudaemon", "address", "'pdu:16421'")


def test_a_resolver_that_does_not_answer_is_not_waited_for() -> None:
    let_go = threading.Event()

    def slow(_machine: str) -> list[str]:
        let_go.wait()
        return ["10.0.0.1"]

    try:
        (finding,) = files.names(FARM, slow, 0.0)
    finally:
        let_go.set()
    assert "no answer within 0 s" in finding.said


@pytest.mark.parametrize("address", ["[::1]:20408", "10.0.0.1:20408", "10.0.0.1", ""])
def test_an_address_is_asked_of_nobody(address: str) -> None:
    asked: list[str] = []
    list(files.names(evolve(FARM, coordinator=address), lambda machine: asked.append(machine) or ["8.8.8.8"]))  # type: ignore[func-returns-value]
    assert asked == []


def test_check_refuses_a_public_name_and_says_an_unknown_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text(f"directory: {tmp_path}\ncoordinator: lab1.example.org:20408\n")
    known = {"lab1.example.org": ["8.8.8.8"]}

    def resolve(machine: str) -> list[str]:
        return known.get(machine, ["10.0.0.1"])

    monkeypatch.setattr(files, "_addresses", resolve)
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert done.exit_code == 2
    assert not missing_facts(done.output, "lab1.example.org", "8.8.8.8", "authentication")
    known.clear()
    assert "authentication" not in CliRunner().invoke(commands.app, ["check", str(path)]).output


SALT = b"$2b$04$abcdefghijklmnopqrstuu"
PASSWORD = f"basic_auth_users: {{lena: {bcrypt.hashpw(b'x', SALT).decode()}}}\n"


@pytest.mark.parametrize(
    ("text", "mode", "listen", "level", "told"),
    [
        (None, 0o600, "127.0.0.1:9870", None, ""),
        (None, 0o600, "0.0.0.0:9870", "bad", "--listen 0.0.0.0 is open to other machines"),
        (PASSWORD, 0o600, "0.0.0.0:9870", "bad", "open to other machines"),  # a password without TLS
        (PASSWORD, 0o600, "127.0.0.1:9870", None, ""),
        (PASSWORD, 0o644, "127.0.0.1:9870", "doubtful", "every user of this host may read the password hashes"),
        (
            "tls_server_config: {cert_file: a, key_file: b, min_version: TLS11}",
            0o600,
            "127.0.0.1:9870",
            "bad",
            "TLS11",
        ),
    ],
)
@pytest.mark.parametrize("server", ["exporter", "web"])
def test_who_reaches_the_exporter_and_the_site_is_checked(
    tmp_path: Path, server: str, text: str | None, mode: int, listen: str, level: str | None, told: str
) -> None:
    path = tmp_path / "web-config.yaml"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    config = "" if text is None else str(path)
    made = Exporter(listen, config) if server == "exporter" else Web(listen, config)
    findings = list(files.access(evolve(FARM, **{server: made})))
    assert [finding.level for finding in findings] == ([] if level is None else [level])
    assert all(told in str(finding) and server in str(finding) for finding in findings)


def test_a_file_of_users_is_its_owners_alone_and_tokens_have_no_end(tmp_path: Path) -> None:
    path = tmp_path / "web-users.json"
    path.write_text('{"lena": {"role": "operator", "password": "x"}, "ci": {"role": "viewer", "token": "0"}}')
    farm = evolve(FARM, web=Web(users=str(path)))
    for mode, level, told in ((0o600, "doubtful", "the tokens of ci have no end"), (0o644, "bad", "chmod 600")):
        path.chmod(mode)
        (finding,) = files.access(farm)
        assert finding.level == level
        assert told in str(finding)
