"""The self-test says which address answers what, and what is wrong with it."""

from __future__ import annotations

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.railbench import RailBench, RailBus, S
from support.simruns import planned

from lab import boards
from lab.cli.rails import answer_lines
from lab.errors import ConfigurationError
from lab.rails import RailConfig, RailsConfig, from_env
from lab.rails.selftest import SensorCheck, survey

SCALED = boards.load("am43xx-gpevm")


def asked(bench: RailBench, config: RailsConfig | None = None) -> dict[str, SensorCheck]:
    """The answers by address, of a board that has idled for a while."""
    bench.now_ns += S
    return {answer.where: answer for answer in survey(config or bench.config, RailBus(bench))}


@pytest.fixture
def bench() -> RailBench:
    bench = RailBench("am62xx_lp_sk")
    bench.rails.enter("idle", bench.now_ns)
    return bench


def moved(config: RailsConfig, addresses: dict[str, int]) -> RailsConfig:
    rails = (evolve(rail, address=addresses.get(rail.name, rail.address)) for rail in config.rails)
    return evolve(config, rails=tuple(rails))


def test_a_sound_board_has_its_voltages_and_what_they_cannot_tell_apart_is_said(bench: RailBench) -> None:
    answers = asked(bench)
    assert all(answer.good for answer in answers.values())
    assert answers["0x4c"].rail == "soc_dvdd_3v3"
    assert answers["0x4c"].volts == pytest.approx(3.3, rel=0.02)
    assert answers["0x4c"].verdict == "ok"
    assert not missing_facts(answers["0x45"].verdict, "ok", "voltage alone", "vdda_1v8")


def test_swapped_addresses_are_named(bench: RailBench) -> None:
    answers = asked(bench, moved(bench.config, {"soc_dvdd_3v3": 0x46, "vdd_lpddr4": 0x4C}))
    assert not missing_facts(answers["0x46"].verdict, "swapped", "vdd_lpddr4", "exchange", "in the env")
    assert not missing_facts(answers["0x4c"].verdict, "swapped", "soc_dvdd_3v3", "exchange", "in the env")
    assert [where for where, answer in answers.items() if not answer.good] == ["0x46", "0x4c"]


def test_rails_that_are_swapped_on_the_board_are_named_the_same_way(bench: RailBench) -> None:
    bench.troubles.append(planned("swapped_rails").fault(1))
    assert "swapped with vdda_1v8" in asked(bench)["0x4c"].verdict


def test_a_sensor_elsewhere_is_found_by_its_voltage(bench: RailBench) -> None:
    answers = asked(bench, moved(bench.config, {"soc_dvdd_3v3": 0x47}))
    assert not answers["0x47"].good
    assert answers["0x47"].verdict.startswith("does not answer")
    assert not missing_facts(answers["0x4c"].verdict, "no rail", "soc_dvdd_3v3")


def test_a_wrong_voltage_is_told_by_what_it_reads_as(bench: RailBench) -> None:
    rails = tuple(evolve(rail, volts=1.8) if rail.name == "soc_dvdd_3v3" else rail for rail in bench.config.rails)
    answers = asked(bench, evolve(bench.config, rails=rails))
    assert not missing_facts(answers["0x4c"].verdict, "expected 1.8 V", "no rail")


def scaled(config: RailsConfig, *range_v: float) -> RailsConfig:
    """Its soc_dvdd_3v3, which reads 3.3 V, is one that software scales from a nominal 2 V."""
    rails = (
        evolve(rail, volts=2.0, scaled=True, range_v=range_v) if rail.name == "soc_dvdd_3v3" else rail
        for rail in config.rails
    )
    return evolve(config, rails=tuple(rails))


@pytest.mark.parametrize(
    ("range_v", "good", "says"),
    [
        ((1.8, 3.4), True, "ok; 1.8 to 3.4 V, which software sets"),
        ((), True, "ok; software sets its voltage, and no public source says its range"),
        ((1.8, 2.2), False, "expected 1.8 to 2.2 V, which software sets; no rail of the board has this voltage"),
    ],
)
def test_a_rail_that_software_scales_is_judged_by_its_range(
    bench: RailBench, range_v: tuple[float, ...], says: str, *, good: bool
) -> None:
    answer = asked(bench, scaled(bench.config, *range_v))["0x4c"]
    assert (answer.good, answer.verdict) == (good, says)


def test_a_scaled_rail_is_known_by_its_type_also_to_the_sampler_of_another_host() -> None:
    rails = {rail.name: {"address": 0x40 + number, "shunt_mohm": 2.0} for number, rail in enumerate(SCALED.rails)}
    known = from_env("board-1", "ina231", "/dev/i2c-1", rails, SCALED)
    wanted = [(rail.name, rail.scaled, list(rail.range_v)) for rail in known.rails if rail.scaled]
    assert wanted == [(rail.name, True, rail.range_v) for rail in SCALED.rails if rail.scaled]
    assert wanted
    assert RailsConfig.loads(known.dumps()) == known


def test_a_board_that_is_off_is_said_to_be_so(bench: RailBench) -> None:
    bench.rails.enter("off", bench.now_ns)
    (verdict,) = {answer.verdict for answer in asked(bench).values()}
    assert not missing_facts(verdict, "no voltage", "board on?")


def test_a_sensor_that_sleeps_is_woken_before_it_is_judged(bench: RailBench) -> None:
    chip = bench.rails.chip_at(0x4C)
    assert chip is not None
    chip.write(0, 0x4120, bench.now_ns)
    asked(bench)
    assert asked(bench)["0x4c"].good


def test_the_table_has_a_row_for_each_address(bench: RailBench) -> None:
    header, *rows = answer_lines(list(asked(bench).values()))
    assert header.split() == ["address", "rail", "expected", "V", "reads", "V", "shunt", "uV"]
    assert len(rows) == 6
    assert rows[0].split()[:3] == ["0x40", "vdd_core", "0.75"]
    assert rows[0].endswith("ok")


@pytest.mark.parametrize(
    ("rails", "says"),
    [
        ({"vdd_moon": {"address": 0x42}}, "rail 'vdd_moon': the board type does not know it, so it needs `volts`"),
        ({"vdd_core": {"adress": 0x42}}, "rail 'vdd_core': unknown key 'adress'; it takes: volts, address"),
        ({"vdd_core": {"address": 0x41}}, "rail 'vddr_core': address 0x41 is another rail's too|rail 'vdd_core'"),
        ({"vdd_core": {"shunt_mohm": 0.0}}, "rail 'vdd_core': needs `address` and `shunt_mohm`"),
        ({"vdd_core": {"shared_with": "vdd_sun"}}, "shared_with names 'vdd_sun', which is no rail"),
    ],
)
def test_a_wrong_rail_in_an_environment_is_named(rails: dict[str, dict[str, object]], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        from_env("board-1", "ina231", "/dev/i2c-1", rails, boards.load("am62xx_lp_sk"))


def test_what_an_environment_says_is_added_to_what_the_board_type_knows() -> None:
    config = from_env(
        "board-1",
        "ina231",
        "/dev/i2c-1",
        {"vdd_core": {"offset_uv": -2.5}, "vdd_fan": {"volts": 5.0, "address": 0x4F, "shunt_mohm": 50.0}},
        boards.load("am62xx_lp_sk"),
        bus_khz=1000,
    )
    assert config.rails[0] == RailConfig("vdd_core", 0.75, 0x40, 2.0, offset_uv=-2.5)
    assert [rail.name for rail in config.measured][-1] == "vdd_fan"
    assert config.bus_khz == 1000
