from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab import package_data
from lab.errors import ConfigurationError
from lab.virtual import pdudaemon


def test_the_program_that_a_person_names_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pdudaemon"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv(pdudaemon.VARIABLE, str(program))
    assert pdudaemon.find() == program


def test_a_wrong_name_is_refused_instead_of_taking_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pdudaemon.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="no program") as caught:
        pdudaemon.find()
    assert not missing_facts(
        str(caught.value), str(tmp_path / "none"), " --no-deps -r ", f"unset {pdudaemon.VARIABLE}"
    )


def test_where_there_is_no_uv_the_command_is_pythons_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(pdudaemon, "home", lambda: tmp_path / "a folder")
    where, wanted = f"'{tmp_path}/a folder", package_data.folder(package_data.FARM) / "pdudaemon" / "requirements.txt"
    assert wanted.is_file()
    assert pdudaemon.installing() == (
        f"{sys.executable} -m venv {where}' && {where}/bin/python' -m pip install --no-deps -r {wanted}"
    )


def test_in_a_wheel_it_is_inside_the_environment_of_boardlab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_data, "checkout", lambda: None)
    assert pdudaemon.home() == Path(sys.prefix) / "pdudaemon"
