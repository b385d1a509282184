"""Every section of the guide can be scheduled: a `lab run` without options and without a person at it reaches it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.leansessions import LEAN

from lab import boards
from lab.benchmarks.sections import ALL
from lab.env import envfile
from lab.farm.config import load
from lab.farm.units import units

ROOT = Path(__file__).resolve().parents[3]
TYPES = sorted(path.stem for path in (ROOT / "envs").glob("sim-*.yaml"))
DEADLINE_S = 120


def fitting(env: str) -> set[str]:
    """The sections that fit the board of an environment."""
    board_type = boards.load(str(envfile.arguments_of(ROOT / "envs" / env, "BoardStrategy")["board_type"]))
    return {section.name for section in ALL if section.fits(board_type)}


def scheduled(env: str, folder: Path, **keys: object) -> set[str]:
    """The sections that the unit of such a schedule would measure, as its `lab run` tells its pytest, which only collects."""
    board = envfile.arguments_of(ROOT / "envs" / env, "BoardStrategy")["board"]
    path = folder / "farm.yaml"
    entry = {"name": "n", "env": str(ROOT / "envs" / env), "board": board, "suite": "sections", **keys}
    path.write_text(yaml.safe_dump({"schedules": [entry]}))
    (start,) = re.findall(
        r"^ExecStart=\S+ (run .*)$", units(load(path), str(path))["boardlab-n.service"], re.MULTILINE
    )
    environ = {
        **os.environ,
        "LAB_DB": f"sqlite:///{folder / 'results.db'}",
        "BOARDLAB_RUNTIME": str(folder / "runtime"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "PYTEST_ADDOPTS": f"--collect-only -q -p support.section_lister {LEAN}",
    }
    command = [sys.executable, "-c", "import sys; from lab.cli import main; sys.exit(main())", *start.split()]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"^section: (\S+)$", done.stdout, re.MULTILINE))


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    found: set[str] = set()
    for env in TYPES:
        if fitting(f"{env}.yaml") <= found:
            continue
        found |= scheduled(f"{env}.yaml", tmp_path_factory.mktemp(env), destructive=True)
    return found


@pytest.mark.parametrize("section", ALL, ids=lambda section: section.name)
def test_a_section_is_reached_by_the_schedule_of_some_board(section: object, reached: set[str]) -> None:
    assert getattr(section, "name", "") in reached


def test_a_schedule_overwrites_nothing_unless_it_says_so_and_measures_what_it_names(tmp_path: Path) -> None:
    env = "sim-am62x.yaml"
    destructive = {section.name for section in ALL if section.overwrites}
    assert scheduled(env, tmp_path) == fitting(env) - destructive
    named = ["uboot-sd", "lmbench"]
    assert scheduled(env, tmp_path, sections=named, destructive=True) == set(named)
