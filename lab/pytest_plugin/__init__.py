"""The pytest plugin: `pytest --lg-env am62x.yaml` measures a board.

Only options live here, since every pytest of an environment with boardlab loads this module. With `--lg-env` it brings
in `lab.pytest_plugin.board`, which reaches the board through labgrid's own fixtures; and which does nothing where the
environment has no BoardStrategy, unless a test asks for a fixture of ours.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from lab.pytest_plugin.session_rules import fail_if_refused, refuse
from lab.run import options

# Modules that measure, in the order in which pytest asks them, with their names among pytest's plugins.
_PLUGINS: Final = {
    "jobs": "boardlab-jobs",
    "lowpower": "boardlab-low-power",
    "sections": "boardlab-sections",
    "judge": "boardlab-judging",
    "limits": "boardlab-limits",
    "measure": "boardlab-measure",
}
# How an option of `lab.run.options` is one of pytest's.
_ACTIONS: Final[Mapping[options.Form, Mapping[str, Any]]] = {
    "flag": {"action": "store_true"},
    "number": {"type": int},
    "word": {},
    "names": {"action": "append"},
}


def _run_or_job(text: str) -> int | str:
    """Parse the number of a run, or a job's name."""
    return text if re.fullmatch(r"[jJ]\d{1,10}", text) else int(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("boardlab")
    group.addoption(
        "--lab-cycles", type=int, metavar="N", help="cycles per medium, or per low-power mode (default 20)"
    )
    group.addoption("--lab-release", metavar="R", help="release of the software on the board, e.g. 11.01")
    group.addoption("--lab-db", metavar="URL", help="results database (default: $LAB_DB, else in your data directory)")
    group.addoption(
        "--lab-resume",
        type=_run_or_job,
        metavar="RUN",
        help="go on with an interrupted run at its next cycle; with a job, e.g. j12, with the run that it left "
        "unfinished",
    )
    for option in options.TABLE:
        action = {**_ACTIONS[option.form]} | ({"metavar": option.metavar} if option.metavar else {})
        if option.default is not None:
            action["default"] = option.default
        group.addoption(option.pytest_flag, help=option.help, **action)
    group.addoption(
        "--lab-confirms", type=int, metavar="RUN", help="measure again what the judge asked for of a run of tonight"
    )
    group.addoption(
        "--lab-ignore-reservation",
        action="store_true",
        help="measure although the board is reserved; only for whom it is reserved",
    )
    group.addoption("--lab-leave-on", action="store_true", help="do not switch the board off at the end")


# pytest calls this hook of conftest files first, which may set what the environment names, and after it that of
# labgrid, which loads the environment.
def pytest_configure(config: pytest.Config) -> None:
    if config.option.lg_env is None:
        config.option.lg_env = os.environ.get("LG_ENV")  # as labgrid does
    config.addinivalue_line("markers", "chapter(name): the chapter of the performance guide that this test measures")
    if config.option.lg_env is not None:
        board = importlib.import_module("lab.pytest_plugin.board")
        board.configure(config)
        config.pluginmanager.register(board, "boardlab-board")
        for module, name in _PLUGINS.items():
            config.pluginmanager.register(importlib.import_module(f"lab.pytest_plugin.{module}"), name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.lg_env is None:
        refuse(
            config,
            items,
            ": say which with --lg-env, e.g. `pytest --lg-env virtual.yaml` (boardlab's own tests: `pytest "
            "tests/unit`)",
        )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    fail_if_refused(item)
