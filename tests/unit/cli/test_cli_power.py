"""`lab power` switches the board of an environment, and says what it verified and what nobody can tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.facts import missing_facts
from support.simlab import SimLab
from support.simtarget import OUTLET, power_switch

from lab import package_data
from lab.cli import main
from lab.drivers import railsdriver
from lab.drivers.powerdriver import OutletId
from lab.env import envfile
from lab.env.power_state import Supply

ENV = """
imports: [lab.drivers, STRATEGY]
targets:
  main:
    resources:
      - RawSerialPort: {{port: /dev/null, speed: 115200}}
      - {resource}
    drivers:
      - {driver}
      - StampedConsoleDriver: {{}}
      - BoardStrategy: {{board_type: am62xx_sk, board: b-1}}
""".replace("STRATEGY", str(package_data.strategy_file()))
PLAIN = """
targets:
  main:
    resources:
      - {resource}
    drivers:
      - {driver}
"""
TELLS = ("NetworkPowerPort: {{model: rest, host: 'http://{address}{outlet}', index: '1'}}", "NetworkPowerDriver: {}")
CANNOT = ("PDUDaemonPort: {{host: '{address}', pdu: bench, index: 1}}", "StampedPDUDaemonDriver: {}")
RAILED = Path(__file__).parents[3] / "envs" / "am62x.yaml"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimLab]:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    sim = SimLab()
    with power_switch(sim) as address:
        for name, (resource, driver) in {"tells": TELLS, "cannot": CANNOT}.items():
            parts = {"resource": resource.format(address=address, outlet=OUTLET), "driver": driver}
            (tmp_path / f"{name}.yaml").write_text(ENV.format(**parts))
            (tmp_path / f"plain-{name}.yaml").write_text(PLAIN.format(**parts))
        yield sim


def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Supplies that never come or fall are not waited for."""
    monkeypatch.setattr(Supply, "settle", lambda self, *, on: self.read())  # noqa: ARG005


def status(env: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["power", "state", "--env", env, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("env", ["tells.yaml", "plain-tells.yaml"])
def test_a_switch_that_can_tell_verifies_what_it_was_told(
    lab: SimLab, capsys: pytest.CaptureFixture[str], env: str
) -> None:
    assert main(["power", "on", "--env", env]) == 0
    assert lab.outlet == "on"
    said = capsys.readouterr().out
    assert not missing_facts(said, ": on", "Verified", "rest 1", "http://127.0.0.1")
    assert said.endswith("says on\n")
    found = status(env, capsys)
    assert (found["on"], found["switch_says"], found["told"], found["outlet"]) == (True, "on", "on", "1")
    assert main(["power", "off", "--env", env]) == 0
    assert lab.outlet == "off"
    assert not missing_facts(capsys.readouterr().out, ": off", "Verified", "power switch")
    assert status(env, capsys)["on"] is False


def test_a_switch_that_cannot_tell_is_said_not_to(lab: SimLab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power", "on", "--env", "cannot.yaml"]) == 0
    assert lab.outlet == "on"
    said = capsys.readouterr().out
    assert not missing_facts(said, "b-1", "switch on", "bench 1", "127.0.0.1:", "Not verified", "rails")
    found = status("cannot.yaml", capsys)
    assert (found["board"], found["on"], found["switch_says"], found["told"]) == ("b-1", None, "cannot tell", "on")
    assert main(["power", "state", "--env", "cannot.yaml"]) == 0
    state = capsys.readouterr().out
    assert not missing_facts(state, "b-1: ", "outlet:", "bench 1", "127.0.0.1:")
    assert not state.startswith(("b-1: on", "b-1: off"))


def test_a_board_is_cycled(lab: SimLab, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    switch = SimLab.switch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimLab, "switch", lambda self, command: told.append(command) or switch(self, command))
        assert main(["power", "cycle", "--env", "tells.yaml", "--seconds", "0"]) == 0
    assert told == ["off", "on"]
    assert "b-1: on. Verified" in capsys.readouterr().out


def test_a_switch_that_says_the_opposite_is_an_error(
    lab: SimLab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimLab, "switch", lambda self, _command: self.board.power_off(self.now_ns))
    patience(monkeypatch)
    assert main(["power", "on", "--env", "tells.yaml"]) == 1
    assert not missing_facts(capsys.readouterr().err, "b-1", "switch on", "is not", "power switch")
    assert lab.outlet == "off"


def test_rails_count_for_more_than_the_switch(
    lab: SimLab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path("tells.yaml").read_text()
    wired = envfile.arguments_of(RAILED, "RailSensors", "resources")
    wired.pop("cls")
    rails = json.dumps({"RailSensors": wired})
    text = text.replace("    drivers:", f"      - {rails}\n    drivers:").replace(
        "      - StampedConsoleDriver", "      - RailsDriver: {}\n      - StampedConsoleDriver"
    )
    Path("rails.yaml").write_text(text)
    read = {"vdd_core": 0.85, "soc_dvdd_3v3": 3.3}
    monkeypatch.setattr(railsdriver.RailsDriver, "volts", lambda _self, _seconds: read)
    assert main(["power", "on", "--env", "rails.yaml"]) == 0
    assert not missing_facts(capsys.readouterr().out, "Verified", "0.85 to 3.30 V", "power switch")
    patience(monkeypatch)
    assert main(["power", "off", "--env", "rails.yaml"]) == 1
    assert not missing_facts(capsys.readouterr().err, "switch off", "is not", "rails")
    read = {"vdd_core": 0.0}
    assert main(["power", "off", "--env", "rails.yaml"]) == 0


def test_who_can_tell_is_asked_again_while_the_supplies_fall(lab: SimLab, monkeypatch: pytest.MonkeyPatch) -> None:
    falling = iter((3.3, 1.2, 0.05))
    rails = SimpleNamespace(volts=lambda _seconds: {"vdd_core": next(falling)})
    switch: Any = SimpleNamespace(driver=object(), outlet=OutletId("", "by hand", "b-1"))
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    assert Supply("b-1", switch, rails, discharge_s=3600.0).settle(on=False).volts == {"vdd_core": 0.05}


def test_an_environment_without_a_power_driver_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("none.yaml").write_text("targets: {main: {resources: [], drivers: []}}")
    assert main(["power", "on", "--env", "none.yaml"]) == 2
    assert "it has no power driver" in capsys.readouterr().err
