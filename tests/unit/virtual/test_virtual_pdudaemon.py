from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import ConfigurationError
from virtual import pdudaemon


def test_the_program_that_a_person_names_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pdudaemon"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv(pdudaemon.VARIABLE, str(program))
    assert pdudaemon.find() == program


def test_a_wrong_name_is_refused_instead_of_taking_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pdudaemon.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"none, which is no program.*\./run setup"):
        pdudaemon.find()
