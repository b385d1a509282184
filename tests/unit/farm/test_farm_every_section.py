"""Every section of the guide can be scheduled: a `lab run` without options and without a person at it reaches it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml
from support.leansessions import LEAN
from support.section_lister import FILE_VARIABLE

from lab import boards
from lab.benchmarks.sections import ALL
from lab.cli import main
from lab.env import envfile
from lab.farm import runner
from lab.farm.config import load
from lab.farm.systemd import units

ROOT = Path(__file__).resolve().parents[3]
TYPES = sorted(path.stem for path in (ROOT / "envs").glob("sim-*.yaml"))


def fitting(env: str) -> set[str]:
    """The sections that fit the board of an environment."""
    board_type = boards.load(str(envfile.arguments_of(ROOT / "envs" / env, "BoardStrategy")["board_type"]))
    return {section.name for section in ALL if section.fits(board_type)}


def scheduled(env: str, folder: Path, **keys: object) -> set[str]:
    """The sections that the unit of such a schedule would measure, as its `lab run` tells its pytest, which only collects."""
    board = envfile.arguments_of(ROOT / "envs" / env, "BoardStrategy")["board"]
    path, listed = folder / "farm.yaml", folder / "sections"
    entry = {"name": "n", "env": str(ROOT / "envs" / env), "board": board, "suite": "sections", **keys}
    path.write_text(yaml.safe_dump({"schedules": [entry]}))
    (start,) = re.findall(
        r"^ExecStart=\S+ (run .*)$", units(load(path), str(path))["boardlab-n.service"], re.MULTILINE
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("LAB_DB", f"sqlite:///{folder / 'results.db'}")
        patch.setenv("BOARDLAB_RUNTIME", str(folder / "run"))
        patch.setenv("PYTEST_ADDOPTS", f"--collect-only -q -p tests.support.section_lister {LEAN}")
        patch.setenv(FILE_VARIABLE, str(listed))
        patch.setattr(runner, "command", partial(without_setpriv, runner.command))
        assert main(start.split()) == 0
    return set(listed.read_text().split())


def without_setpriv(command: Callable[..., list[str]], *arguments: object) -> list[str]:
    """The session's command as a plain `python -m pytest`."""
    words = command(*arguments)
    return [sys.executable, "-m", *words[words.index("pytest") :]]


def test_every_section_is_reached_by_the_schedule_of_some_board(tmp_path: Path) -> None:
    found: set[str] = set()
    for number, env in enumerate(TYPES):
        if not fitting(f"{env}.yaml") <= found:
            folder = tmp_path / str(number)  # short: a socket's path has at most 107 bytes
            folder.mkdir()
            found |= scheduled(f"{env}.yaml", folder, destructive=True)
    assert found == {section.name for section in ALL}


def test_a_schedule_overwrites_nothing_unless_it_says_so_and_measures_what_it_names(tmp_path: Path) -> None:
    env = "sim-am62x.yaml"
    destructive = {section.name for section in ALL if section.overwrites}
    (tmp_path / "named").mkdir()
    assert scheduled(env, tmp_path) == fitting(env) - destructive
    named = ["uboot-sd", "lmbench"]
    assert scheduled(env, tmp_path / "named", sections=named, destructive=True) == set(named)
