"""`lab farm check` over the hosts of a farm.yaml, with a played ssh: what is wrong, on which host, and how it is mended."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from attrs import asdict

from lab.cli import main
from lab.errors import LabTransientError
from lab.farm.checks import Finding
from lab.farm.checks.registry import DOCTOR
from lab.host.ssh import SshLink

WELL = Finding("versions", "boardlab", "ok", "2.0, Python 3.11, in /srv")
PORT = Finding("ports", "/dev/ttyUSB0", "bad", "another program reads it", "kill 12")
NO_MAIL = Finding("services", "alertmanager", "bad", "127.0.0.1:9093: refused", "systemctl start it")


class Hosts:
    """What ssh finds; `ahead_s`: of hosts whose clocks are off."""

    def __init__(self, **hosts: object) -> None:
        self.ahead_s: dict[str, float] = {}
        self.hosts = {name.replace("_", "-"): found for name, found in hosts.items()}
        self.asked: list[tuple[str, tuple[str, ...], str]] = []
        self.files: set[str] = set()

    def run(self, host: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if words[0] == "date":
            said = f"{time.time() + self.ahead_s.get(host, 0.0):.9f}\n"
            return subprocess.CompletedProcess([], 0, said, "")
        shell, (folder, packed, *program) = words[:4], words[4:]
        assert (shell[:2], shell[3], shell[2].splitlines()[0]) == (["sh", "-c"], "sh", 'cd "$1" || exit')
        self.asked.append((host, tuple(program), folder))
        self.files.add(gzip.decompress(base64.b64decode(packed)).decode())
        found = self.hosts[host]
        if isinstance(found, Exception):
            raise found
        if isinstance(found, subprocess.CompletedProcess):
            return found
        return subprocess.CompletedProcess([], 0, json.dumps([asdict(each) for each in found]), "")  # type: ignore[attr-defined]


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    path = tmp_path / "farm.yaml"
    path.write_text(
        "directory: /srv/lab\nprogram: /srv/lab/bin/lab\nhosts: [{name: lab-1}, {name: lab-2}, {name: lab-3}]\n"
    )
    return path


def checked(path: Path, hosts: Hosts, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    def ran(link: SshLink, words: Sequence[str], _timeout_s: float) -> subprocess.CompletedProcess[str]:
        return hosts.run(link.host, words)

    monkeypatch.setattr(SshLink, "ran", ran)
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(path.parent / "run"))
    return main(["farm", "check", str(path), *words])


def test_each_host_is_asked_and_each_finding_names_host_and_mend(
    farm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = Hosts(
        lab_1=[WELL], lab_2=[WELL, PORT, NO_MAIL], lab_3=LabTransientError("Connection refused", failure="x")
    )
    assert checked(farm, hosts, monkeypatch) == 2
    said = capsys.readouterr().out
    rows = [line.split() for line in said.splitlines()]
    assert sorted(host for host, _, _ in hosts.asked) == ["lab-1", "lab-2", "lab-3"]
    assert {(words, folder) for _, words, folder in hosts.asked} == {
        (("/srv/lab/bin/lab", "doctor", "--json", "--host", name), "/srv/lab") for name in ("lab-1", "lab-2", "lab-3")
    }
    (sent,) = map(yaml.safe_load, hosts.files)
    assert sent == yaml.safe_load(farm.read_text()), "or a draft that is there decides what must run"
    assert ["lab-1", "ok", "1", "checks,", "nothing", "wrong"] in rows
    assert ["lab-2", "bad", "ports", "/dev/ttyUSB0", "another", "program", "reads", "it"] in rows
    assert any(row[:4] == ["lab-3", "bad", "host", "lab-3"] and "refused" in row for row in rows)
    assert "  lab-2: /dev/ttyUSB0:\n    kill 12" in said
    assert "`ssh lab-3` belong into" in said
    assert "127.0.0.1:9093" not in said, "only the first host runs it"
    assert checked(farm, hosts, monkeypatch, "--json") == 2
    found = json.loads(capsys.readouterr().out)["hosts"]
    assert [(each["host"], each["level"]) for each in found] == [
        ("lab-1", "ok"),
        ("lab-2", "ok"),
        ("lab-2", "bad"),
        ("lab-3", "bad"),
    ]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            subprocess.CompletedProcess([], 127, "", "sh: lab: not found"),
            "there is no /srv/lab/bin/lab: sh: lab: not found",
        ),
        (subprocess.CompletedProcess([], 2, "", "farm.yaml: boo"), "`lab doctor` ended with 2 there: farm.yaml: boo"),
        (subprocess.CompletedProcess([], 0, "Welcome!\n[]", ""), "`lab doctor` ended with 0 there: Welcome!"),
        (subprocess.CompletedProcess([], 0, '[{"area": 1}]', ""), '`lab doctor` ended with 0 there: [{"area": 1}]'),
        (subprocess.TimeoutExpired([], 300.0), "`lab doctor` did not end within 300 s there"),
        ([Finding("versions", "boardlab", "ok", "1.9, Python 3.11")], "boardlab 1.9, and lab-1 has 2.0"),
    ],
)
def test_what_keeps_a_host_from_an_answer_is_a_finding(
    farm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: object, says: str
) -> None:
    checked(farm, Hosts(lab_1=[WELL], lab_2=answer, lab_3=[WELL]), monkeypatch, "--json")
    (found,) = [each for each in json.loads(capsys.readouterr().out)["hosts"] if each["level"] != "ok"]
    assert found["host"] == "lab-2"
    assert says in found["said"]
    assert found["hint"]


def test_this_host_needs_no_ssh_and_a_file_alone_no_host(
    farm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    farm.write_text(f"hosts: [{{name: {socket.gethostname()}}}]\n")
    monkeypatch.setattr(
        "lab.cli.farm.examine", lambda _lab, command, *_more: iter([WELL] if command == DOCTOR else [])
    )
    hosts = Hosts()
    assert checked(farm, hosts, monkeypatch) == 0
    assert "1 checks, nothing wrong" in capsys.readouterr().out
    farm.write_text("hosts: [{name: lab-7}]\n")
    assert checked(farm, hosts, monkeypatch, "--here") == 0
    assert hosts.asked == []


@pytest.mark.parametrize(
    ("ahead_s", "off"),
    [
        ({}, []),
        ({"lab-2": 600.0}, [("lab-2", "is 600 s ahead of that of lab-1")]),
        ({"lab-1": -600.0}, [("lab-1", "is 600 s behind that of lab-2")]),
        ({"lab-1": 7200.0, "lab-2": 7200.0}, [("lab-3", "is 7200 s behind that of lab-1")]),
    ],
)
def test_a_host_is_named_whose_clock_is_not_that_of_the_others(
    farm: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ahead_s: dict[str, float],
    off: list[tuple[str, str]],
) -> None:
    hosts = Hosts(lab_1=[WELL], lab_2=[WELL], lab_3=[WELL])
    hosts.ahead_s = ahead_s
    assert checked(farm, hosts, monkeypatch, "--json") == 0
    found = [each for each in json.loads(capsys.readouterr().out)["hosts"] if each["area"] == "clocks"]
    assert [(each["host"], each["said"].partition(":")[0]) for each in found] == off
    assert all("timedatectl" in each["hint"] for each in found)
