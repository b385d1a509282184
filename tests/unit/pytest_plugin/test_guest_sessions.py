"""pytest with the plugin installed, as labgrid's users run it: their environments, their tests, their folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import older_schema
from support.byhand import by_hand
from support.facts import missing_facts
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

# What public labgrid suites do, in a file each: a strategy and a driver of their own, whose class is called like ours;
# an environment that names what the conftest file sets; fixtures of each scope; a second board; options of their own.
OWN_SUITE = {
    "ownboard.py": """
import enum
import subprocess

import attr
from labgrid import target_factory
from labgrid.driver import Driver
from labgrid.protocol import CommandProtocol
from labgrid.step import step
from labgrid.strategy import Strategy


@target_factory.reg_driver
@attr.s(eq=False)
class HostShellDriver(Driver, CommandProtocol):
    bindings = {"power": "PowerProtocol"}

    @Driver.check_active
    @step(args=["cmd"], result=True)
    def run(self, cmd, timeout=30.0):
        done = subprocess.run(cmd, shell=True, capture_output=True, text=True, timeout=timeout)
        return done.stdout.splitlines(), done.stderr.splitlines(), done.returncode

    def run_check(self, cmd, timeout=30.0):
        out, _, code = self.run(cmd, timeout=timeout)
        assert code == 0
        return out

    def get_status(self):
        return 1

    def wait_for(self, cmd, pattern, timeout=30.0, sleepduration=1): ...

    def poll_until_success(self, cmd, expected=0, tries=None, timeout=30.0, sleepduration=1): ...


class Status(enum.Enum):
    unknown = 0
    off = 1
    shell = 2
    dry_run = 3


@attr.s(eq=False)
class BoardStrategy(Strategy):
    manifest = attr.ib(default=None)


@target_factory.reg_driver
@attr.s(eq=False)
class BenchStrategy(BoardStrategy):
    bindings = {"power": "PowerProtocol", "shell": "HostShellDriver"}
    status = attr.ib(default=Status.unknown)

    @step(args=["status"])
    def transition(self, status, *, step):
        status = status if isinstance(status, Status) else Status[status]
        if status == self.status:
            step.skip("nothing to do")
            return
        self.target.activate(self.power)
        self.power.off()
        if status == Status.shell:
            self.power.on()
            self.target.activate(self.shell)
        self.status = status

    def force(self, status):
        self.transition(status)
        print(f"forced {self.status.name}")
""",
    "env.yaml": """
targets:
  main: &main
    features: [wan]
    options: {slot: 2}
    drivers:
      ExternalPowerDriver: {cmd_on: sh -c "echo on >> power", cmd_off: sh -c "echo off >> power"}
      HostShellDriver: {}
      BenchStrategy: {}
  other: *main
options: {pin: 14}
images: {kernel: !template "$LG_BUILD/Image"}
imports: [ownboard.py]
""",
    "conftest.py": """
import os

import pytest


def pytest_addoption(parser):
    parser.addoption("--dry-run", action="store_const", const="dry_run", dest="lg_initial_state")
    parser.addoption("--firmware", default="firmware.bin")


def pytest_configure(config):
    os.environ.setdefault("LG_BUILD", os.getcwd())


@pytest.fixture(scope="session")
def both(env, target):
    other = env.get_target("other")
    for board in (target, other):
        board.get_driver("Strategy").transition("shell")
    yield target, other
    other.get_driver("BenchStrategy").transition("off")


@pytest.fixture(scope="module")
def command(target, strategy):
    strategy.transition("shell")
    return target.get_driver("CommandProtocol")


@pytest.fixture
def in_shell(strategy, capsys):
    with capsys.disabled():
        strategy.transition("shell")


@pytest.fixture
def measure():
    return "the suite's own"
""",
    "test_suite.py": """
import os

import pytest
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY


def test_command(command):
    assert command.run("echo a; false") == (["a"], [], 1)


def test_shell(target, in_shell, strategy, measure):
    assert target["CommandProtocol"].run_check("uname -s") == ["Linux"]
    assert (strategy.status.name, measure) == ("shell", "the suite's own")


def test_both(both):
    assert [board["HostShellDriver"].run_check("echo a") for board in both] == [["a"], ["a"]]


def test_environment(env, target, pytestconfig):
    assert env.config_file == "env.yaml"
    assert env is pytestconfig.stash[LABGRID_ENV_KEY]
    env.config.data.setdefault("images", {})["firmware"] = pytestconfig.getoption("firmware")
    assert env.config.get_image_path("kernel") == os.path.join(os.getcwd(), "Image")
    assert (env.config.get_option("pin"), env.config.get_target_option("main", "slot")) == (14, 2)


@pytest.mark.lg_feature("wan")
def test_wan(command, record_property):
    record_property("version", command.run_check("uname -r")[0])


@pytest.mark.lg_feature(["wan", "camera"])
def test_camera():
    pytest.fail("the board has none")
""",
}


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


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("--lg-env", "env.yaml"), ("--dry-run",)),
        ((), ()),  # LG_ENV
        (("--lg-env", "env.yaml"), ("--lg-initial-state", "shell", "--lg-log", "logs")),
    ],
    ids=["own_option", "variable", "labgrids_options"],
)
def test_a_suite_of_its_own_strategy_runs_as_without_the_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], state: tuple[str, ...]
) -> None:
    monkeypatch.delenv("LG_BUILD", raising=False)
    if not words:
        monkeypatch.setenv("LG_ENV", "env.yaml")
    for name, text in OWN_SUITE.items():
        (tmp_path / name).write_text(text)
    outcomes = {}
    for plugin in ((), ("-p", "no:boardlab")):
        done = session(tmp_path, tmp_path, *words, *state, "-rA", "-W", "error", *plugin)
        assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
        assert "5 passed, 1 skipped" in done.stdout
        power = (tmp_path / "power").read_text()
        outcomes[plugin] = (sorted(line for line in done.stdout.splitlines() if "test_suite.py::" in line), power)
        (tmp_path / "power").unlink()
    assert len(set(map(str, outcomes.values()))) == 1
    assert not (tmp_path / "results.db").exists()


def test_a_target_of_the_suites_own_needs_no_environment_of_the_session(tmp_path: Path) -> None:
    for name in ("ownboard.py", "env.yaml"):
        (tmp_path / name).write_text(OWN_SUITE[name])
    (tmp_path / "test_own.py").write_text(
        """
import os

import pytest
from labgrid import Environment


@pytest.fixture(scope="session")
def target():
    os.environ["LG_BUILD"] = "."
    return Environment("env.yaml").get_target("other")


def test_shell(target):
    strategy = target.get_strategy()
    strategy.transition("shell")
    assert strategy.shell.run_check("uname -s") == ["Linux"]
"""
    )
    done = session(tmp_path, tmp_path, "test_own.py")
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["", "xdist"])
def test_a_test_that_measures_says_what_the_environment_lacks(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "env.yaml").write_text(STOCK + STRATEGY)
    words = (f"--lg-env={tmp_path / 'env.yaml'}", "tests_perf/test_boot.py", *workers)
    done = session(ROOT, tmp_path, *words)
    assert done.returncode == (pytest.ExitCode.TESTS_FAILED if workers else pytest.ExitCode.USAGE_ERROR)
    said = done.stdout + done.stderr
    assert not missing_facts(said, "test_boot_time measures")
    assert not missing_facts(said, "no BoardStrategy")
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
    assert not missing_facts(done.stderr, "-n out", "-n 0")
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
