"""The environments of real boards, and those of their simulations, which differ in their resources only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from labgrid.config import Config

from lab import boards
from lab.virtual.board import BoardAccess, BoardFolder
from lab.virtual.sim import environment

ENVS = Path(__file__).parents[3] / "envs"
TYPES = {
    "am62x": "am62xx_sk",
    "am62xlp": "am62xx_lp_sk",
    "am62sip": "am62xxsip_sk",
    "am62a": "am62axx_sk",
    "am65x": "am654x-evm",
    "am437x": "am43xx-gpevm",
}


def target(name: str) -> dict[str, Any]:
    found: dict[str, Any] = Config(str(ENVS / f"{name}.yaml")).data["targets"]["main"]
    return found


def without_the_boards_name(drivers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [dict(driver) for driver in drivers]
    strategy = next(driver for driver in kept if "BoardStrategy" in driver)
    strategy["BoardStrategy"] = {"board_type": strategy["BoardStrategy"]["board_type"]}
    return kept


@pytest.mark.parametrize("name", TYPES)
def test_a_simulated_board_differs_from_the_real_one_in_resources_name_and_what_may_be_overwritten(name: str) -> None:
    real, simulated = target(name), target(f"sim-{name}")
    assert set(real) == set(simulated) == {"resources", "drivers", "options"}
    own, played = real["options"]["benchmarks"], simulated["options"]["benchmarks"]
    assert "scratch" not in own, "nobody's medium is overwritten unless the lab has named it"
    assert {key: own[key] for key in ("interface", "crypto_module")} == {
        key: played[key] for key in ("interface", "crypto_module")
    }
    assert without_the_boards_name(real["drivers"]) == without_the_boards_name(simulated["drivers"])
    assert real["resources"] != simulated["resources"]


@pytest.mark.parametrize("name", TYPES)
def test_an_environment_drives_the_straps_that_differ_between_the_media(name: str) -> None:
    board = boards.load(TYPES[name])
    driver = next(d["BootModeDriver"] for d in target(name)["drivers"] if "BootModeDriver" in d)
    assert sorted(driver["lines"]) == board.media_straps
    assert driver["fixed"] == board.fixed_straps
    for medium in board.media.values():
        assert medium.boot_mode & ~sum(1 << bit for bit in board.media_straps) == board.fixed_straps


@pytest.mark.parametrize("name", TYPES)
def test_what_a_lab_must_edit_is_marked_and_nothing_else(name: str) -> None:
    marked = [
        line.split("#")[0].strip() for line in (ENVS / f"{name}.yaml").read_text().splitlines() if "# LAB" in line
    ]
    keys = {line.split(":")[0] for line in marked}
    assert keys - {"port", "rails"} == {
        *("pdu", "index", "'@ID_PATH'", "url", "board"),
        *("tester", "command"),
    }


@pytest.mark.parametrize("name", TYPES)
def test_the_shipped_environment_is_the_one_that_up_would_write(name: str) -> None:
    text = (ENVS / f"sim-{name}.yaml").read_text(encoding="utf-8")
    assert text == environment.shipped(TYPES[name], f"{name}.yaml"), (
        "both come from lab/virtual/sim/data/env.yaml.j2: change that, then write environment.shipped() to the file"
    )


def test_the_environment_of_a_board_names_its_own_outlet_console_and_straps() -> None:
    place = BoardAccess(BoardFolder(Path("/bench/am62xx_sk-7")), "127.0.0.1:1", "127.0.0.1:2", 4.0)
    text = environment.of_board("am62xx_sk", place, "sim00000007")
    assert "pdu: bench/am62xx_sk-7\n          index: 1\n" in text
    assert 'port: "/bench/am62xx_sk-7/main0"' in text
    assert "http://127.0.0.1:2/boards/am62xx_sk-7/straps/bit9" in text
    assert "adapter_latency_ms: 4.0" in text
