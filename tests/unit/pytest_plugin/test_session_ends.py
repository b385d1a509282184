"""How a session ends that has measured nothing: a person is told; the `lab run` that began it has to know whether to try again."""

from __future__ import annotations

from pathlib import Path

import pytest
from labgrid.exceptions import InvalidConfigError, NoResourceFoundError

from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.farm.runner import BROKEN, BUSY
from lab.jobs.records import JOB_VARIABLE
from lab.pytest_plugin.board import _blamed
from lab.pytest_plugin.session_rules import ending

AWAY = LabTransientError("lab-2 does not answer", failure="console_link")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AWAY, BUSY),
        (LabStableError("no such adapter", failure="adapter_missing"), BROKEN),
        (ConfigurationError("no such board type"), None),
    ],
)
def test_a_fault_of_the_lab_is_no_wrong_order(
    monkeypatch: pytest.MonkeyPatch, error: BoardlabError, code: int | None
) -> None:
    monkeypatch.setenv(JOB_VARIABLE, "j12")
    ended = ending(error, f"am62x.yaml: {error}")
    if code is None:
        assert isinstance(ended, pytest.UsageError)
    else:
        assert isinstance(ended, pytest.exit.Exception)
        assert (ended.returncode, ended.msg) == (code, f"[{error.failure}, fault: lab] am62x.yaml: {error}")


def test_a_person_is_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JOB_VARIABLE, raising=False)
    assert isinstance(ending(AWAY, "am62x.yaml: no answer"), pytest.UsageError)


@pytest.mark.parametrize(
    ("resources", "error", "fault"),
    [
        ("RemotePlace: {name: b1}", NoResourceFoundError("no NetworkSerialPort"), "lab"),
        ("RemotePlace: {name: b1}", ConnectionError("no coordinator"), "lab"),
        ("RemotePlace: {name: b1}", InvalidConfigError("unknown driver"), "configuration"),
        ("RawSerialPort: {port: /dev/ttyUSB0}", NoResourceFoundError("no NetworkSerialPort"), "configuration"),
    ],
)
def test_what_a_place_lacks_is_its_exporters_and_what_an_environment_lacks_its_authors(
    tmp_path: Path, resources: str, error: Exception, fault: str
) -> None:
    env = tmp_path / "one.yaml"
    env.write_text(f"targets: {{main: {{resources: [{{{resources}}}]}}}}\n")
    assert _blamed(error, str(env)).fault == fault
    assert _blamed(AWAY, str(env)) is AWAY
