"""pytest with the plugin installed, as labgrid's users run it: their environments, their tests, their folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import older_schema
from support.byhand import by_hand
from support.leansessions import session

from lab import package_data, pytest_plugin
from lab.results import open_store
from lab.run.options import TABLE

ROOT = Path(__file__).parents[3]

# Never opened: no test of these transitions.
STOCK = """
targets:
  main:
    resources:
      NetworkSerialPort: {host: 127.0.0.1, port: 9, protocol: raw, speed: 115200}
    drivers:
      - ManualPowerDriver: {name: board}
      - SerialDriver: {}
      - UBootDriver: {prompt: '=> '}
      - ShellDriver: {prompt: '# ', login_prompt: 'login: ', username: root}
"""
STRATEGY = "      - UBootStrategy: {}\n"

# In the shape of labgrid's own examples.
EXAMPLE = """
import pytest

@pytest.fixture(scope="session")
def driver(target):
    return target.get_driver("SerialDriver", activate=False)

@pytest.fixture(params=["one"])
def section(request):
    return request.param

def test_target(target, driver):
    assert target.get_driver("ShellDriver", activate=False)
    assert driver.port.protocol == "raw"

def test_own_fixture_of_that_name(section):
    assert section == "one"

@pytest.mark.chapter(name="ours")
def test_that_needs_no_board():
    pass
"""
WITH_STRATEGY = """
def test_strategy(strategy):
    assert type(strategy).__name__ == "UBootStrategy"
    assert strategy.status.name == "unknown"
"""


@pytest.fixture
def board_env(tmp_path: Path) -> Path:
    """A board's environment outside of the checkout; nobody is there."""
    text = (ROOT / "envs" / "sim-am62x.yaml").read_text()
    (tmp_path / "board.yaml").write_text(text.replace(package_data.STRATEGY_BESIDE, str(package_data.strategy_file())))
    return tmp_path / "board.yaml"


@pytest.mark.parametrize(
    ("env", "tests"),
    [(STOCK, EXAMPLE), (STOCK + STRATEGY, EXAMPLE + WITH_STRATEGY)],
    ids=["no_strategy", "stock_strategy"],
)
def test_labgrids_users_are_left_alone(tmp_path: Path, env: str, tests: str) -> None:
    (tmp_path / "env.yaml").write_text(env)
    (tmp_path / "test_example.py").write_text(tests)
    done = session(tmp_path, tmp_path, "--lg-env", "env.yaml", "--strict-markers", "-W", "error")
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert f"{tests.count('def test_')} passed" in done.stdout
    assert not (tmp_path / "results.db").exists()


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["", "xdist"])
def test_a_test_that_measures_says_what_the_environment_lacks(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "env.yaml").write_text(STOCK + STRATEGY)
    words = (f"--lg-env={tmp_path / 'env.yaml'}", "tests_perf/test_boot.py", *workers)
    done = session(ROOT, tmp_path, *words)
    assert done.returncode == (pytest.ExitCode.TESTS_FAILED if workers else pytest.ExitCode.USAGE_ERROR)
    said = done.stdout + done.stderr
    assert "test_boot_time measures a board" in said
    assert "has no BoardStrategy: add one" in said
    assert "INTERNALERROR" not in said


def test_a_session_migrates_older_results_with_a_line_and_a_collection_does_not(
    board_env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results.db"
    open_store(str(results)).close()
    monkeypatch.setenv(older_schema.FOLDER, str(tmp_path / "versions"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"), prepend=os.pathsep)
    words = ("-p", older_schema.__name__, f"--lg-env={board_env}", "tests_perf/test_boot.py", "-k", "no_such_test")
    collected = session(ROOT, tmp_path, *words, "--collect-only")
    assert "lab results migrate" in collected.stdout + collected.stderr
    done = session(ROOT, tmp_path, *words)
    assert f"migrated from schema {older_schema.OLDER} to {older_schema.NEWER}" in done.stdout, (
        done.stdout + done.stderr
    )
    assert (tmp_path / f"results.db.{older_schema.OLDER}").exists()


def test_low_power_is_selected_by_its_chapter(board_env: Path) -> None:
    chapter = 'chapter(name="Low Power Performance")'
    done = session(ROOT, board_env.parent, f"--lg-env={board_env}", "-m", chapter, "--collect-only", "-q")
    found = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    assert found == {"tests_perf/test_low_power.py::test_resume_latency"}


def test_a_board_whose_switches_are_set_by_hand_boots_from_their_medium_only(board_env: Path) -> None:
    board_env.write_text(by_hand(board_env, "emmc"))
    words = (f"--lg-env={board_env}", "--collect-only", "-q", "tests_perf/test_boot.py")
    done = session(ROOT, board_env.parent, *words)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if "::" in line] == [
        "tests_perf/test_boot.py::test_boot_time[emmc]"
    ]
    done = session(ROOT, board_env.parent, *words, "--lab-medium", "emmc,sd")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert "'sd'" in done.stderr
    assert "set to 'emmc'" in done.stderr


def test_an_environment_elsewhere_never_collects_tests_that_measure_nothing(board_env: Path) -> None:
    done = session(ROOT, board_env.parent, "--lg-env", str(board_env), "--collect-only", "-q")
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    found = {Path(line.partition("::")[0]).name for line in done.stdout.splitlines() if "::" in line}
    assert found == {path.name for path in (ROOT / "tests_perf").glob("test_*.py")}


def test_where_there_are_no_tests_it_is_said_how_to_name_them(tmp_path: Path, board_env: Path) -> None:
    (tmp_path / "own").mkdir()
    done = session(tmp_path / "own", tmp_path, "--lg-env", str(board_env))
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert f"pytest --lg-env={board_env} {ROOT / 'tests_perf'}" in done.stdout


def test_workers_are_refused_for_a_board(board_env: Path) -> None:
    done = session(ROOT, board_env.parent, f"--lg-env={board_env}", "-n", "2", "tests_perf/test_boot.py")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert "leave -n out, or say -n 0" in done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr


# pytest-retry registers the option `--retries` with this destination; the others are a conftest's, as labs have them.
FOREIGN_PLUGIN = """
def pytest_addoption(parser):
    parser.getgroup("another plugin").addoption("--retries", dest="retries", type=int)
"""
FOREIGN_CONFTEST = f"""
def pytest_addoption(parser):
    for name in {sorted(option.name for option in TABLE if option.name != "retries")!r}:
        parser.addoption(f"--{{name}}", action="store")
    for name in ("cycles", "release", "resume", "confirms", "db", "ignore-reservation", "leave-on"):
        parser.addoption(f"--{{name}}", action="store")
"""
FOREIGN_TEST = """
def test_their_options(pytestconfig):
    assert [pytestconfig.getoption(name) for name in ("retries", "release", "medium", "leave_on")] == [7, "mine", "tape", None]
"""


def test_options_of_other_plugins_and_of_a_conftest_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "foreign.py").write_text(FOREIGN_PLUGIN)
    (tmp_path / "conftest.py").write_text(FOREIGN_CONFTEST)
    (tmp_path / "test_example.py").write_text(FOREIGN_TEST)
    words = ("-p", "foreign", "--retries", "7", "--release", "mine", "--medium", "tape")
    done = session(tmp_path, tmp_path, *words)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr


def test_every_option_of_ours_has_a_prefix_as_has_its_destination() -> None:
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    found = [(name, option.dest) for option in parser.getgroup("boardlab").options for name in option.names()]
    assert found
    assert all(name.startswith("--lab-") and dest.startswith("lab_") for name, dest in found), found
