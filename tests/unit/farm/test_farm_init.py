"""`lab init`: a lab's folder, which holds what it needs and in which nothing of a user's is lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab import package_data
from lab.cli import main
from lab.env import envfile
from lab.farm import labfolder
from lab.virtual.environment import measuring

ENVS = package_data.folder(package_data.ENVS)
TESTS = package_data.folder(package_data.TESTS)


def files(folder: Path) -> dict[str, str]:
    """The text files below a folder; without what Python has compiled there for another test."""
    there = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_text() for path in there}


# As text: the environments are not read while tests are collected.
TYPES = sorted({re.findall(r"board_type: (\S+)", path.read_text())[0] for path in ENVS.glob("*.yaml")})


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return tmp_path / "my lab" / "first"


def init(*words: object) -> int:
    return main(["init", *map(str, words)])


def test_every_environment_that_comes_with_boardlab_can_be_chosen() -> None:
    envs = labfolder.list_shipped_envs()
    types = {env.board_type for env in envs}
    assert types == set(TYPES)
    assert labfolder.chosen(types, sim=True) != labfolder.chosen(types, sim=False)
    assert {env.path.name for env in labfolder.chosen(types, sim=True)} == {path.name for path in ENVS.glob("*.yaml")}
    for env in envs:
        assert env.simulated is not bool(env.lab_lines()), env.path.name


def test_a_folder_has_the_env_with_its_lab_lines_the_suite_and_the_farm(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(lab) == 0
    made = files(lab)
    assert made["envs/am62x.yaml"] == (ENVS / "am62x.yaml").read_text()
    assert [name for name in made if name.startswith("envs/")] == ["envs/am62x.yaml"]
    assert made["strategies/boardstrategy.py"] == package_data.strategy_file().read_text()
    assert {name: made[f"tests_perf/{name}"] for name in files(TESTS) if name.endswith(".py")} == {
        name: text for name, text in files(TESTS).items() if name.endswith(".py")
    }
    assert "lab init . --only tests_perf" in made["tests_perf/README.md"]
    said = capsys.readouterr().out
    assert not missing_facts(said, "envs/am62x.yaml", "7, 8, 21")
    assert "--lg-env am62x.yaml" in said


@pytest.mark.parametrize("kind", [[], ["--sim"]])
@pytest.mark.parametrize("board_type", TYPES)
def test_what_is_written_is_in_order(
    tmp_path: Path, board_type: str, kind: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path, "--board-type", board_type, *kind) == 0
    capsys.readouterr()
    file = tmp_path / "farm.yaml"
    assert main(["farm", "check", str(file)]) == 2
    (problem,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{file}: ")]
    assert "see lab env check --env" in problem, "only the environment is still to be edited"
    for path in (tmp_path / "envs").iterdir():
        envfile.check(path)
    simulated = {
        env.path.name for env in labfolder.list_shipped_envs() if env.board_type == board_type and env.simulated
    }
    written = {path.name for path in (tmp_path / "envs").iterdir() if path.name.startswith("sim-")}
    assert written == ({name for name in simulated if name.startswith("sim-")} if kind else set())


def test_several_types_are_several_boards_on_the_timer(tmp_path: Path) -> None:
    assert init(tmp_path, "--board-type", "am62xx_sk,am654x-evm", "--board-type", "qemu-virt") == 0
    assert {path.name for path in (tmp_path / "envs").iterdir()} == {"am62x.yaml", "am65x.yaml", "virtual.yaml"}
    text = (tmp_path / "farm.yaml").read_text()
    assert "env: am62x.yaml" in text
    assert "env: am65x.yaml" in text
    assert "virtual" not in text


def test_a_type_that_there_is_not_is_refused_with_those_that_there_are(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(lab, "--board-type", "am62xx_sk,am63") == 2
    assert not missing_facts(capsys.readouterr().err, "--board-type am63: ", "am43xx-gpevm, ")
    assert init(lab, "--only", "env") == 2
    assert not missing_facts(capsys.readouterr().err, "--only env: ", "envs", "strategies", "tests_perf", "farm")
    assert not lab.exists()


def test_no_file_of_a_user_is_overwritten_and_nothing_is_half_written(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lab / "envs").mkdir(parents=True)
    (lab / "envs" / "am62x.yaml").write_text("mine")
    (lab / "farm.yaml").symlink_to("/nowhere")
    assert init(lab) == 2
    said = capsys.readouterr().err
    assert not missing_facts(said, "nothing was written", f"{lab}/envs/am62x.yaml", f"{lab}/farm.yaml")
    assert files(lab) == {"envs/am62x.yaml": "mine"}


def test_what_is_there_and_the_same_is_no_obstacle(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(lab, "--only", "envs") == 0
    assert set(files(lab)) == {"envs/am62x.yaml"}
    assert init(lab, "--only", "envs", "--board-type", "am62xx_sk,am654x-evm") == 0
    assert set(files(lab)) == {"envs/am62x.yaml", "envs/am65x.yaml"}
    capsys.readouterr()
    assert init(lab, "--only", "envs") == 0
    assert "all is there already" in capsys.readouterr().out


def test_where_a_file_cannot_be_written_none_is(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab.mkdir(parents=True)
    (lab / "tests_perf").write_text("a file where the folder would be")
    assert init(lab) == 1
    said = capsys.readouterr().err
    assert f"error: {lab}/tests_perf" in said
    assert "nothing was written" in said
    assert set(files(lab)) == {"tests_perf"}
    assert not (lab / "envs").exists()


def test_the_command_that_measures_a_bench_takes_the_suite_of_the_labs_folder(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert init(lab) == 0
    monkeypatch.chdir(lab)
    assert measuring(Path("bench")).endswith(f"'--lg-env={lab}/bench/env.yaml' '{lab}/tests_perf'")
