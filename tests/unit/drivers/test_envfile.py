"""An environment is found by its bare name, and what labgrid would swallow is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.drivers import envfile
from lab.errors import ConfigurationError

ROOT = Path(__file__).parents[3]
VIRTUAL = (ROOT / "envs" / "virtual.yaml").read_text()


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


@pytest.mark.parametrize("env", sorted(path.name for path in (ROOT / "envs").glob("*.yaml")))
def test_every_shipped_environment_passes(env: str) -> None:
    envfile.check(ROOT / "envs" / env)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("targets:", "target:", "unknown key 'target' (did you mean 'targets'?)"),
        ("    drivers:", "    driver:", "targets.main: unknown key 'driver'"),
        ("adapter_latency_ms: 1.0", "adapter_latncy_ms: 1.0", "StampedConsoleDriver: unknown key 'adapter_latncy_ms'"),
        ("- PDUDriver: {}", "- PDUDrvier: {}", "no driver 'PDUDrvier' (did you mean 'PDUDriver'?)"),
        ("- PDUDriver: {}", "- PDUDriver:", "drivers: invalid list item"),
        ("  - strategies", "  - strategy_room", "imports: strategy_room"),
        ("targets:", "targets: [", "not YAML"),
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
