"""One table of options: pytest, `lab run` and farm.yaml understand the same, and mean the same by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from lab import pytest_plugin
from lab.cli import run as command
from lab.errors import ConfigurationError
from lab.farm.config import load
from lab.farm.systemd import units
from lab.jobs.records import HEALTH
from lab.run import options
from lab.run.options import TABLE, RunOption, Value

EXAMPLES: dict[str, Value] = {
    "medium": ["sd", "emmc"],
    "init": "/bin/sh",
    "mode": ["deep_sleep"],
    "wake": "rtc",
    "sleep": 9,
    "energy": True,
    "shuffle": True,
    "sections": ["sd-fio", "uboot-sd"],
    "repeats": 5,
    "destructive": True,
    "retries": 0,
    "provision": "/srv/releases/11.01.yaml",
    "judge": True,
    "health": True,
    "where": True,
    "hold": True,
}


def parsed_by_pytest(words: list[str]) -> Any:
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    return parser.parse(words)


def read_back(given: Any) -> dict[str, Value]:
    """What a session of pytest was told, by the table."""
    return options.read({option.name: getattr(given, option.dest) for option in TABLE})


def test_every_option_has_an_example_here() -> None:
    assert set(EXAMPLES) == set(options.NAMES)


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_an_option_means_the_same_in_pytest_lab_run_farm_yaml_and_a_unit(option: RunOption, tmp_path: Path) -> None:
    value = {option.name: EXAMPLES[option.name]}
    for kind in option.kinds:
        words = options.pytest_arguments(value, kind, resumed=False)
        assert read_back(parsed_by_pytest(words))[option.name] == value[option.name]
    path = tmp_path / "farm.yaml"
    path.write_text(yaml.safe_dump({"schedules": [{"name": "n", "env": "e", "board": "b", **value}]}))
    farm = load(path)
    scheduled = {"judge": True, "health": True, **value}  # judged, and their boards checked, unless it says otherwise
    assert farm.schedules[0].options == scheduled
    unit = units(farm, "f")["boardlab-n.service"]
    (start,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    words = start.split()[2:]  # after the program and its word `run`
    context = get_command(command.app).make_context("run", words)
    assert options.read({each.name: context.params[f"option_{each.name}"] for each in TABLE}) == scheduled


def test_the_newest_release_of_a_folder_is_an_option_of_a_schedule(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    schedule = {"name": "n", "env": "e", "board": "b", "release": "newest in /srv/releases"}
    path.write_text(yaml.safe_dump({"schedules": [schedule]}))
    farm = load(path)
    assert (farm.schedules[0].release, farm.schedules[0].options["provision"]) == ("", "newest in /srv/releases")
    unit = units(farm, "f")["boardlab-n.service"]
    assert ' "--provision=newest in /srv/releases" ' in unit
    path.write_text(yaml.safe_dump({"schedules": [{**schedule, "provision": "a.yaml"}]}))
    with pytest.raises(ConfigurationError, match="leave one out"):
        load(path)


def test_a_job_keeps_options_as_json_would(tmp_path: Path) -> None:
    found = options.read(EXAMPLES)
    assert json.loads(json.dumps(found)) == found == EXAMPLES


def test_what_was_not_given_is_not_kept_and_names_are_once_each() -> None:
    given = {"medium": ["sd,emmc", "sd"], "energy": False, "sections": [], "init": None, "retries": 0}
    assert options.read(given) == {"medium": ["sd", "emmc"], "retries": 0}


def test_pytest_is_told_what_its_run_is_about_and_a_resumed_one_only_what_no_plan_keeps() -> None:
    def words(kind: str, *, resumed: bool = False) -> list[str]:
        told = {
            name: value for name, value in EXAMPLES.items() if name not in {options.JUDGE, options.PROVISION, HEALTH}
        }
        return options.pytest_arguments(told, kind, resumed=resumed)

    assert words("boot") == [
        "--lab-medium=sd,emmc",
        "--lab-init=/bin/sh",
        "--lab-where",
        "--lab-retries=0",
        "--lab-hold",
    ]
    assert words("boot", resumed=True) == ["--lab-where", "--lab-retries=0", "--lab-hold"]
    assert words("sections") == [
        "--lab-sections=sd-fio,uboot-sd",
        "--lab-repeats=5",
        "--lab-destructive",
        "--lab-retries=0",
        "--lab-hold",
    ]
    assert words("sections", resumed=True) == ["--lab-sections=sd-fio,uboot-sd", "--lab-retries=0", "--lab-hold"]
    again = options.pytest_arguments({options.PROVISION: "11.01.yaml"}, "boot", resumed=True)
    assert again == ["--lab-provision=11.01.yaml"], "what a power cut left half written is written again"
    assert "--lab-energy" in words("low_power")
    assert "--lab-init=/bin/sh" not in words("low_power")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sleep": 0}, "sleep: 0: write a whole number from 1 to 86400"),
        ({"sleep": True}, "sleep: True: write a whole number"),
        ({"retries": "2"}, "retries: 2: write a whole number from 0 to 1000"),
        ({"energy": "yes"}, "energy: yes: write true or false"),
        ({"init": "sh"}, "init: 'sh': write the path of a program on the board, e.g. /bin/sh"),
        ({"medium": "sd emmc"}, "medium: 'sd emmc': write a name, or several with commas"),
        ({"medium": [1]}, "medium: [1]: write a name"),
        ({"sections": "a,,b"}, "sections: 'a,,b'"),
        ({"mode": {"a": 1}}, "mode: {'a': 1}: write a name"),
        ({"wake": "x; reboot"}, "wake: 'x; reboot': write the name of a source"),
        ({"speed": 3}, "no option speed; there are: medium, init"),
    ],
)
def test_a_wrong_value_is_refused_with_its_option(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        options.read(given, flags=False)
    assert says in str(caught.value)
