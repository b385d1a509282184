"""How a session ends that has measured nothing: a person is told; the `lab run` that began it has to know whether to try again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from labgrid.exceptions import InvalidConfigError, NoResourceFoundError

from lab.benchmarks.cycles import AWAY_S
from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.farm.runner import BROKEN, BUSY
from lab.jobs.records import JOB_VARIABLE
from lab.pytest_plugin import board
from lab.pytest_plugin.board import _target_error
from lab.pytest_plugin.runs import STORE_KEY
from lab.pytest_plugin.session_rules import ending
from lab.results import open_store

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
    ("collects", "job", "waits_s", "patience_s"),
    [(False, "j12", AWAY_S, AWAY_S), (False, "", 0.0, AWAY_S), (True, "", None, 0.0)],
)
def test_a_session_that_measures_is_patient_with_its_results_and_that_of_a_lab_run_from_the_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    collects: bool,
    job: str,
    waits_s: float | None,
    patience_s: float,
) -> None:
    monkeypatch.setenv(JOB_VARIABLE, job) if job else monkeypatch.delenv(JOB_VARIABLE, raising=False)
    plain, waited = board.open_results, list[float]()
    monkeypatch.setattr(
        board, "open_results", lambda url, wait_s, say: waited.append(wait_s) or plain(url, wait_s, say)
    )
    option = SimpleNamespace(collectonly=collects, lab_db=str(tmp_path / "results.db"))
    config: Any = SimpleNamespace(option=option, pluginmanager=SimpleNamespace(get_plugin=lambda _name: None))
    with board._open_results(config) as store:
        assert store.patience_s == patience_s
    assert waited == ([] if waits_s is None else [waits_s])


@pytest.mark.parametrize(("status", "patience_s"), [(pytest.ExitCode.INTERRUPTED, 0.0), (pytest.ExitCode.OK, AWAY_S)])
def test_an_interrupted_session_ends_without_waiting_for_its_results(
    tmp_path: Path, status: pytest.ExitCode, patience_s: float
) -> None:
    """Else a board stays on meanwhile, and `lab run` kills the session."""
    with open_store(str(tmp_path / "results.db"), patience_s=AWAY_S) as store:
        session: Any = SimpleNamespace(config=SimpleNamespace(stash={STORE_KEY: store}))
        for _ in board.pytest_sessionfinish(session, status):
            assert store.patience_s == patience_s, "before the fixtures end"


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
    assert _target_error(error, str(env)).fault == fault
    assert _target_error(AWAY, str(env)) is AWAY
