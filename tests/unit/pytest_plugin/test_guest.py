"""Whose session it is, which tests are meant, and what goes on with a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from labgrid.factory import target_factory
from support.strategies import BoardStrategy

from lab.errors import ConfigurationError
from lab.pytest_plugin import session_rules
from lab.pytest_plugin.runs import ITEMS_KEY, chosen

ROOT = Path(__file__).parents[3]
SOURCE = pytest.Config.ArgsSource


class WorkshopStrategy(BoardStrategy):
    """A user's own."""


def env(drivers: object) -> Any:
    main = {"drivers": drivers} if drivers is not None else None
    return SimpleNamespace(config=SimpleNamespace(get_targets=lambda: {} if main is None else {"main": main}))


def config(folder: Path, args: list[str], source: Any = SOURCE.ARGS, **options: Any) -> Any:
    given = {"lg_env": "board.yaml", "inifilename": None, "lab_db": None, **options}
    return SimpleNamespace(
        args=args,
        args_source=source,
        invocation_params=SimpleNamespace(dir=folder),
        option=SimpleNamespace(**given),
        stash=pytest.Stash(),
    )


@pytest.mark.parametrize(
    ("drivers", "ours"),
    [
        ([{"SerialDriver": {}}, {"BoardStrategy": {"board": "b"}}], True),
        ({"BoardStrategy": {"board": "b"}}, True),
        ([{"cls": "BoardStrategy", "board": "b"}], True),
        ([{"WorkshopStrategy": {"board": "b"}}], True),
        ([{"UBootStrategy": {}}], False),
        ([{"NobodyKnowsIt": {}}], False),
        ([], False),
        (None, False),
    ],
)
def test_a_session_is_ours_by_its_strategy(drivers: object, ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(target_factory.drivers, "WorkshopStrategy", WorkshopStrategy)
    assert session_rules.has_board(env(drivers)) is ours


@pytest.mark.parametrize(("workers", "dist", "refused"), [(0, "no", False), (1, "load", True), (2, "no", False)])
def test_a_board_is_measured_by_one_process(workers: int, dist: str, refused: bool) -> None:
    given = config(ROOT, [], tx=["popen"] * workers, dist=dist)
    if not refused:
        session_rules.check_one_process(given)
        return
    with pytest.raises(ConfigurationError, match=r"1 worker .*say -n 0"):
        session_rules.check_one_process(given)


def test_without_xdist_there_is_nothing_to_refuse() -> None:
    session_rules.check_one_process(config(ROOT, []))


def test_tests_that_nobody_named_are_those_that_measure_but_in_a_folder_of_the_users_own(tmp_path: Path) -> None:
    def collected(folder: Path, source: Any) -> list[str]:
        given = config(folder, ["what pytest has found"], source)
        session_rules.choose_tests(given)
        return list(given.args)

    (tmp_path / "lab" / "tests_perf").mkdir(parents=True)
    assert collected(ROOT, SOURCE.INVOCATION_DIR) == [str(ROOT / "tests_perf")]
    assert collected(ROOT / "docs", SOURCE.INVOCATION_DIR) == [str(ROOT / "tests_perf")]
    assert collected(tmp_path / "lab", SOURCE.INVOCATION_DIR) == [str(tmp_path / "lab" / "tests_perf")]
    assert collected(tmp_path, SOURCE.INVOCATION_DIR) == ["what pytest has found"]
    assert collected(ROOT, SOURCE.ARGS) == ["what pytest has found"]
    assert collected(ROOT, SOURCE.TESTPATHS) == ["what pytest has found"]


def test_the_command_that_goes_on_with_a_run_works_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = config(tmp_path, ["my tests/test_boot.py::test_boot_time[sd]"], lab_db="results.db", inifilename="lab.ini")
    assert shlex.split(session_rules.resume_command(given, 7)) == [
        "pytest",
        f"--lg-env={tmp_path}/board.yaml",
        "-c",
        f"{tmp_path}/lab.ini",
        f"{tmp_path}/my tests/test_boot.py::test_boot_time[sd]",
        "--lab-resume",
        "7",
        "--lab-db",
        f"{tmp_path}/results.db",
    ]


def test_a_database_in_the_command_shows_no_password() -> None:
    given = config(ROOT, ["tests_perf"], lab_db="postgresql://lab:secret@host/lab")
    assert session_rules.resume_command(given, 7).endswith("--lab-db 'postgresql://lab:***@host/lab'")


@pytest.mark.parametrize(
    ("selected", "planned"),
    [
        ([{"boot_medium": "sd"}], ["sd"]),
        ([{"boot_medium": "ospi"}, {"boot_medium": "sd"}], ["sd", "ospi"]),
        ([{"boot_medium": "sd"}, {}], ["sd", "emmc", "ospi"]),  # a test of the user's own, which may measure anything
    ],
)
def test_a_plan_is_what_was_selected(selected: list[dict[str, str]], planned: list[str]) -> None:
    given = config(ROOT, [])
    given.stash[ITEMS_KEY] = [
        SimpleNamespace(fixturenames=["boot_measurer", *params], callspec=SimpleNamespace(params=params))
        for params in selected
    ] + [SimpleNamespace(fixturenames=["section_measurer"])]
    assert chosen(given, "boot_measurer", "boot_medium", ["sd", "emmc", "ospi"]) == planned
