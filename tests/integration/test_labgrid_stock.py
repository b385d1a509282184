"""labgrid's own drivers and strategy on a simulated board, in tests as labgrid's users write them, with our plugin there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.coordinator import ALICE, client, running_coordinator
from support.facts import missing_facts
from support.measuring_lab import Lab, running_lab
from support.prometheus_server import until

from lab import boards
from lab.results import open_store

DEADLINE_S = 180
BOARD = "am62xx_sk-1"
CONFTEST = """
import pytest

@pytest.fixture(scope="module")
def command(target, strategy):
    strategy.transition("shell")
    return target.get_driver("ShellDriver")

@pytest.fixture(scope="module")
def bootloader_command(target, strategy):
    strategy.transition("uboot")
    return target.get_driver("UBootDriver")
"""
STRATEGY_TESTS = """
def test_uboot(bootloader_command):
    stdout, stderr, returncode = bootloader_command.run("version")
    assert returncode == 0
    assert "U-Boot" in stdout[0]

def test_shell(command):
    stdout, stderr, returncode = command.run("cat /proc/version")
    assert returncode == 0
    assert "Linux" in stdout[0]
    assert not stderr

def test_strategy(strategy):
    assert (type(strategy).__name__, strategy.status.name) == ("STRATEGY", "STATUS")
"""
# Over the raw TCP port, at the shell where the tests before have left the board.
NO_STRATEGY_TESTS = """
def test_command(target):
    assert target.get_driver("ShellDriver").run_check("uname -s") == ["Linux"]
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    words = ("sim", "--type", "am62xx_sk", "--time-scale", "0.05", "--tcp-port", "0")
    with running_lab(tmp_path_factory.mktemp("sim"), *words) as lab:
        yield lab


def env(lab: Lab, port: str, strategy: str) -> str:
    """labgrid's drivers alone."""
    identity = boards.load("am62xx_sk").identity
    assert identity is not None
    return f"""
targets:
  main:
    resources:
      PDUDaemonPort: {{host: '{lab.bench.state.pdudaemon}', pdu: bench, index: 1}}
      {port}
    drivers:
      - PDUDaemonDriver: {{}}
      - SerialDriver: {{}}
      - UBootDriver: {{prompt: '=> ', autoboot: Hit any key to stop autoboot}}
      - ShellDriver: {{prompt: 'root@{identity.hostname}:[^ ]*# ', login_prompt: ' login: ', username: root}}
{strategy}"""


def runs(lab: Lab) -> int:
    with open_store(lab.environ["LAB_DB"]) as store:
        return len(store.runs())


def test_labgrids_users_find_their_own_drivers_strategy_and_port_and_can_move_to_ours(
    lab: Lab, tmp_path: Path
) -> None:
    board = lab.bench.state.boards[0]
    host, _, tcp = board.tcp["main0"].partition(":")
    local = f"RawSerialPort: {{port: '{board.uarts['main0']}', speed: 115200}}"
    raw = f"NetworkSerialPort: {{host: {host}, port: {tcp}, protocol: raw, speed: 115200}}"
    (tmp_path / "stock.yaml").write_text(env(lab, local, "      - UBootStrategy: {}\n"))
    (tmp_path / "raw.yaml").write_text(env(lab, raw, ""))
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_raw.py").write_text(NO_STRATEGY_TESTS)
    moved = str(lab.bench.folder / BOARD / "env.yaml")  # last: its console server keeps the port
    names = {"test_stock.py": ("UBootStrategy", "shell"), "test_moved.py": ("BoardStrategy", "linux")}
    for test, (strategy, status) in names.items():
        (tmp_path / test).write_text(STRATEGY_TESTS.replace("STRATEGY", strategy).replace("STATUS", status))
    for words in (("stock.yaml", "test_stock.py"), ("raw.yaml", "test_raw.py"), (moved, "test_moved.py")):
        lab.passes(tmp_path, "--lg-env", *words, timeout_s=DEADLINE_S)


def test_a_medium_chosen_by_pytest_is_the_whole_plan(lab: Lab) -> None:
    words = ("--lg-env", str(lab.bench.folder / BOARD / "env.yaml"), "--lab-cycles", "1", "-k", "sd")
    assert lab.pytest(*words).wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log
    with open_store(lab.environ["LAB_DB"]) as store:
        (run,) = store.runs()
    assert (run.plan["media"], run.status) == (["sd"], "completed")
    assert "go on with:" not in lab.log


def test_a_place_that_somebody_takes_away_ends_the_run_and_leaves_the_board_alone(lab: Lab, tmp_path: Path) -> None:
    with running_coordinator(tmp_path) as address:
        client(address, "-p", BOARD, "create")
        client(address, "-p", BOARD, "acquire")
        text = (lab.bench.folder / BOARD / "env.yaml").read_text()
        text = text.replace("    resources:\n", f"    resources:\n      - RemotePlace: {{name: {BOARD}}}\n", 1)
        path = lab.bench.folder / BOARD / "place.yaml"
        path.write_text(f"{text}options:\n  coordinator_address: '{address}'\n")
        lab.environ |= ALICE
        before = runs(lab)
        process = lab.pytest("--lg-env", str(path), "--lab-cycles", "50", "--lab-medium", "sd")
        until(lambda: (runs(lab) > before and lab.samples()) or process.poll() is not None, "a cycle was measured")
        client(address, "-p", BOARD, "release", "-k", LG_USERNAME="bob")
        assert process.wait(DEADLINE_S) == pytest.ExitCode.TESTS_FAILED, lab.log
    with open_store(lab.environ["LAB_DB"]) as store:
        run = store.runs()[0]
        *_, last = store.attempts(run.id)
    assert run.status == "failed"
    assert (last.outcome, last.fault, last.transient) == ("place_lost", "lab", False)
    assert not missing_facts(last.message, "ci1/alice", "nobody")
    assert lab.bench.status()["power"] == "on"  # of the last good cycle: it is another's to switch off
    assert "Traceback" not in lab.log
