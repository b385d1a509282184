"""An environment is found by its bare name, and what labgrid would swallow is refused with its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from labgrid.factory import target_factory
from support.facts import missing_facts

from lab import package_data
from lab.env import envfile
from lab.errors import ConfigurationError

ROOT = Path(__file__).parents[3]
STRATEGY = str(package_data.strategy_file())
VIRTUAL = (ROOT / "envs" / "virtual.yaml").read_text().replace("../strategies/boardstrategy.py", STRATEGY)


def test_a_bare_name_is_looked_up_in_envs() -> None:
    assert envfile.find("virtual.yaml", ROOT) == ROOT / "envs" / "virtual.yaml"
    assert envfile.find("virtual", ROOT) == ROOT / "envs" / "virtual.yaml"
    assert envfile.find("envs/virtual.yaml", ROOT) == ROOT / "envs" / "virtual.yaml"


def test_a_file_beside_the_caller_comes_first(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "mine.yaml").touch()
    (tmp_path / "mine.yaml").touch()
    assert envfile.find("mine.yaml", tmp_path) == tmp_path / "mine.yaml"


def test_a_missing_one_lists_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match=r"am62x\.yaml.*virtual\.yaml"):
        envfile.find("am63x.yaml", ROOT)


@pytest.mark.parametrize(("name", "tried"), [("nosuch.yaml", 2), ("nosuch.yml", 2), ("nosuch", 3)])
def test_a_name_with_its_ending_is_looked_for_as_it_is(tmp_path: Path, name: str, tried: int) -> None:
    with pytest.raises(ConfigurationError, match="no environment") as caught:
        envfile.find(name, tmp_path)
    assert str(caught.value).count("nosuch") == 1 + tried
    assert ".yaml.yaml" not in str(caught.value)


@pytest.mark.parametrize("env", sorted(path.name for path in (ROOT / "envs").glob("*.yaml")))
def test_every_shipped_environment_passes(env: str) -> None:
    envfile.check(ROOT / "envs" / env)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("targets:", "target:", "unknown key 'target' (did you mean 'targets'?)"),
        ("    drivers:", "    driver:", "targets.main: unknown key 'driver'"),
        ("adapter_latency_ms: 1.0", "adapter_latncy_ms: 1.0", "StampedConsoleDriver: unknown key 'adapter_latncy_ms'"),
        ("adapter_latency_ms: 1.0", "!template $BASE: 1.0", "StampedConsoleDriver: unknown key '$BASE'; it takes"),
        (
            "- StampedPDUDaemonDriver: {}",
            "- StampedPDUDaemonDrvier: {}",
            "no driver 'StampedPDUDaemonDrvier' (did you mean 'StampedPDUDaemonDriver'?)",
        ),
        ("- StampedPDUDaemonDriver: {}", "- StampedPDUDaemonDriver:", "drivers: invalid list item"),
        (f"  - {STRATEGY}", "  - strategy_room", "imports: strategy_room"),
        ("targets:", "targets: [", "not YAML"),
        ("    drivers:", "    drivers: []\n    drivers:", "drivers: stands here twice; delete one"),
        ("board: qemu-1", "board: !template $NOWHERE", "NOWHERE"),
    ],
)
def test_a_mistake_is_refused_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "bad.yaml"
    assert old in VIRTUAL
    path.write_text(VIRTUAL.replace(old, new, 1))
    with pytest.raises(ConfigurationError) as raised:
        envfile.check(path)
    assert says in str(raised.value)
    assert "bad.yaml" in str(raised.value)


@pytest.mark.parametrize(
    "text", ["", "- a\n", "targets: {}\n", "targets: {main: 3}\n", "targets:\n  main: {drivers: 7}\n"]
)
def test_an_environment_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"bad\.yaml"):
        envfile.check(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(b"\xff\xfe\x00targets")
    with pytest.raises(ConfigurationError, match=r"bad\.yaml"):
        envfile.check(path)


def bomb(levels: int = 9) -> str:
    """The billion laughs: each line is ten times the one before."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x: " + "[" * 3000 + "]" * 3000, "bad.yaml:1: more than 64 levels deep"),
        ("\n".join(f"{' ' * n}a:" for n in range(1000)), "levels deep"),
        (bomb(), "entries, with its aliases (*name) written out"),
        ("targets: &t\n  main: *t\n", "*t refers to what it stands in"),
        ("targets: *nowhere\n", "not YAML"),
        ("x: 2026-99-99\n", "not YAML: month must be in 1..12"),
        ("x: " + "9" * 5000 + "\n", "not YAML"),
        ("x: 'a\x07'\n", "not YAML"),
        ("? {a: b}\n: c\n", "not YAML"),
        ("#" * (1024 * 1024 + 1), "bytes; at most"),
    ],
)
def test_a_file_that_would_end_or_stop_the_program_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        envfile.check(path)
    assert says in str(raised.value)
    assert str(path) in str(raised.value)


def test_aliases_within_bounds_are_what_they_stand_for(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    shared = VIRTUAL.replace("speed: 115200", "speed: &speed 115200", 1).replace("bus_khz: 2940", "bus_khz: *speed", 1)
    path.write_text(shared)
    assert envfile.arguments_of(path, "RailSensors", "resources")["bus_khz"] == 115200


def test_a_file_of_another_encoding_is_named_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes("targets:\n  main: # Prüfstand\n".encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"bad\.yaml:2: .*0xfc.*UTF-8"):
        envfile.check(path)


@pytest.mark.parametrize("is_beside", [True, False])
def test_an_environment_without_our_strategy_is_told_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_beside: bool
) -> None:
    monkeypatch.delitem(target_factory.drivers, "BoardStrategy", raising=False)  # of another test
    path = tmp_path / "envs" / "bare.yaml"
    path.parent.mkdir()
    if is_beside:
        (tmp_path / "strategies").mkdir()
        (tmp_path / "strategies" / "boardstrategy.py").touch()
    path.write_text(VIRTUAL.replace(f"  - {STRATEGY}\n", ""))
    (problem,) = envfile.problems(path)
    file = "../strategies/boardstrategy.py" if is_beside else STRATEGY
    assert not missing_facts(problem, "'BoardStrategy'", f"`- {file}`", "`imports:`")


def test_a_strategy_that_is_not_there_is_named_with_the_one_that_is(tmp_path: Path) -> None:
    path = tmp_path / "moved.yaml"
    path.write_text(VIRTUAL.replace(STRATEGY, "../strategies/boardstrategy.py"))
    with pytest.raises(ConfigurationError) as raised:
        envfile.check(path)
    imported = "../strategies/boardstrategy.py"
    assert not missing_facts(
        str(raised.value), f"{path}: imports: {imported}", f"{tmp_path}/{imported}", f"`- {STRATEGY}`"
    )


def test_mistakes_in_a_file_and_in_what_it_defines_are_named(tmp_path: Path) -> None:
    path, own = tmp_path / "own.yaml", tmp_path / "own.py"
    path.write_text(VIRTUAL.replace(f"- {STRATEGY}", f"- {STRATEGY}\n  - own.py"))
    own.write_text("1 / 0")
    with pytest.raises(ConfigurationError, match=r"own\.py: ZeroDivisionError"):
        envfile.check(path)
    own.write_text(OWN)
    path.write_text(path.read_text().replace("- BoardStrategy:", "- OwnStrategy:"))
    envfile.check(path)
    path.write_text(path.read_text().replace("board_type:", "bord_type:"))
    (problem,) = envfile.problems(path)
    assert not missing_facts(problem, "OwnStrategy", "'bord_type'", "'board_type'")
    assert "OwnStrategy" not in target_factory.all_classes


OWN = """
from boardstrategy import BoardStrategy
from labgrid.factory import target_factory
@target_factory.reg_driver
class OwnStrategy(BoardStrategy):
    pass
"""
PLAIN = """
targets:
  main:
    resources:
      RawSerialPort: {port: /dev/null}
    drivers:
      - ManualPowerDriver: {name: b1}
      - StampedConsoleDriver: {}
      - OwnStrategy: {board_type: am62xx_sk, board: b1}
"""


def test_labgrid_loads_a_file_after_its_check(tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    (tmp_path / "own.py").write_text(OWN)
    path.write_text(f"{PLAIN}imports: [lab.drivers, '{STRATEGY}', own.py]\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("lab"), "env", "check", "--env", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split(";")[0]) == (0, f"{path}: nothing wrong"), done.stderr
