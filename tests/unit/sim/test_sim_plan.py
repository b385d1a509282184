"""Faults are planned in words, by the command line, a scenario or a board's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import ConfigurationError
from lab.virtual.sim.faults import catalogue
from lab.virtual.sim.faults.base import parameters
from lab.virtual.sim.faults.catalogue import FAULTS


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_says_what_it_does_and_can_be_made_from_its_name(name: str) -> None:
    kind = FAULTS[name]
    assert kind.does().endswith(".")
    assert catalogue.read_plan({"fault": name}).fault(1).name == name
    assert all(parameter.default is not None for parameter in parameters(kind).values())


@pytest.mark.parametrize(
    ("words", "cycles"),
    [("all", {1, 2, 9}), ("2", {2}), ("2-4", {2, 3, 4}), ("1,5-6", {1, 5, 6})],
)
def test_a_fault_strikes_in_its_cycles_only(words: str, cycles: set[int]) -> None:
    planned = catalogue.read_plan({"fault": "hang_kernel", "cycles": words})
    assert {cycle for cycle in range(1, 10) if planned.strikes(cycle)} & {1, 2, 3, 4, 5, 6, 9} >= cycles
    assert words == "all" or {cycle for cycle in range(1, 10) if planned.strikes(cycle)} == cycles


def test_chance_is_repeatable_and_follows_the_seed() -> None:
    def struck(seed: int) -> list[int]:
        planned = catalogue.read_plan({"fault": "garbled", "probability": 0.3, "seed": seed})
        return [cycle for cycle in range(200) if planned.strikes(cycle)]

    assert struck(1) == struck(1) != struck(2)
    assert 30 <= len(struck(1)) <= 90


def test_words_and_plan_are_the_same_thing() -> None:
    planned = catalogue.read_plan({"fault": "dropped", "cycles": "2-3", "share": 0.01, "seed": 4, "probability": 0.5})
    assert catalogue.read_plan(planned.words()) == planned


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({}, "expected a `fault`"),
        ({"fault": "hang_kernal"}, "did you mean 'hang_kernel'"),
        ({"fault": "hang_kernel", "share": "1"}, "no parameter 'share'; it takes none"),
        ({"fault": "dropped", "shre": "1"}, "it takes: share"),
        ({"fault": "dropped", "share": "2"}, "a share from 0 to 1"),
        ({"fault": "dropped", "share": "many"}, "share=many"),
        ({"fault": "kernel_panic", "at_point": "lunch"}, "no point 'lunch'; there are: rom"),
        ({"fault": "dropped", "cycles": "later"}, "cycles 'later'"),
        ({"fault": "dropped", "probability": "x"}, "probability or seed"),
        ({"fault": "dropped", "probability": "2"}, "a share from 0 to 1"),
    ],
)
def test_wrong_words_are_refused_before_anything_starts(words: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        catalogue.read_plan(words)
    assert says in str(raised.value)


SCENARIO = """
seed: 7
boards:
  am62xx_sk-1:
    - {fault: hang_kernel, cycles: 2}
  'am62*':
    - {fault: garbled, probability: 0.5, share: 0.01}
"""


def test_a_scenario_gives_each_board_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "bad-day.yaml"
    path.write_text(SCENARIO)
    found = catalogue.read_scenario(path)
    assert [words["fault"] for words in found.of("am62xx_sk-1")] == ["hang_kernel", "garbled"]
    assert [words["fault"] for words in found.of("am62axx_sk-3")] == ["garbled"]
    assert found.of("am654x-evm-1") == ()
    assert found.of("am62axx_sk-3")[0]["seed"] == "8", "each fault has a chance of its own"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("boards: [", "not YAML"),
        ("board: {}", "expected `boards:`"),
        ("boards: {}\nboards: {}", "bad.yaml:2: boards: stands here twice"),
        ("seed: 1.5\nboards: {}", "seed: expected a whole number"),
        ("boards: {a: 3}", "boards.a: expected a list"),
        ("boards: {a: [{fault: nap}]}", "boards.a[0]: no fault 'nap'"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        catalogue.read_scenario(path)
    assert says in str(raised.value)
    assert "bad.yaml" in str(raised.value)


def test_a_scenario_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        catalogue.read_scenario(tmp_path / "nowhere.yaml")
