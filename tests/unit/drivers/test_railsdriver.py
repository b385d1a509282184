"""The environments say where each board's rails are, and the driver gives what the sampler needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from labgrid import Target
from labgrid.environment import Environment

from lab.drivers import RailsDriver, RailSensors
from lab.errors import ConfigurationError

ENVS = Path(__file__).parents[3] / "envs"
WITH_RAILS = {
    "am62x": ("am62x-sk-1", 5, ["vddr_core"]),
    "am62xlp": ("am62x-lp-1", 6, []),
    "am65x": ("am65x-evm-1", 8, []),
    "sim-am62x": ("am62xx_sk-1", 5, ["vddr_core"]),
    "sim-am62xlp": ("am62xx_lp_sk-1", 6, []),
    "sim-am65x": ("am654x-evm-1", 8, []),
}


@pytest.mark.parametrize("name", WITH_RAILS)
def test_an_environment_wires_the_rails_of_its_board(name: str) -> None:
    environment = Environment(config_file=str(ENVS / f"{name}.yaml"))
    config = environment.get_target().get_driver("RailsDriver", activate=False).config
    board, measured, shared = WITH_RAILS[name]
    assert config.board == board
    assert len(config.measured) == measured
    assert [rail.name for rail in config.rails if rail.shared_with] == shared


def test_rails_of_a_wrong_shape_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"rails: expected `NAME: \{address: 0x40"):
        RailSensors(Target("main"), None, backend="ina231", port="/dev/i2c-1", rails={"vdd_core": 0x40})


def test_without_a_strategy_nobody_knows_which_board_it_is() -> None:
    target = Target("main")
    RailSensors(target, None, backend="ina231", port="/dev/i2c-1")
    driver = RailsDriver(target, None)
    with pytest.raises(ConfigurationError, match="add a BoardStrategy to the target"):
        assert driver.config
