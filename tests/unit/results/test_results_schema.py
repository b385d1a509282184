"""The schema's newest revision, which is known without Alembic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from alembic.script import ScriptDirectory

from lab.results import open_store
from lab.results.migrating import _config
from lab.results.schema import NEWEST

LIST = """
import sys
from lab.cli import main
assert main(["results", "list", "--db", sys.argv[1]]) == 0
heavy = {"alembic", "numpy", "scipy", "matplotlib", "labgrid", "lab.console", "lab.guide", "lab.boards"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_the_newest_revision_is_that_of_the_migrations() -> None:
    assert ScriptDirectory.from_config(_config()).get_heads() == [NEWEST]


def test_a_list_of_runs_loads_no_migrations_and_nothing_else_that_it_does_not_need(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path / 'results.db'}").close()
    listed = subprocess.run(
        [sys.executable, "-c", LIST, str(tmp_path / "results.db")], capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0, listed.stderr
