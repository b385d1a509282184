"""tools/torture.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torture as program
from support.facts import missing_facts
from support.torture_boots import files
from torture_damage import KINDS

from lab.console import Recording


@pytest.fixture
def good_recording(tmp_path: Path) -> Path:
    """The files of a good boot."""
    for suffix, content in zip((".log", ".idx"), files("am62xx_sk", "sd"), strict=True):
        tmp_path.joinpath(f"good{suffix}").write_bytes(content)
    return tmp_path / "good.log"


def torture(*words: object) -> int:
    return program.main([*map(str, words)])


def test_a_table_counts_the_cases_and_says_their_seeds(
    good_recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        torture(good_recording, "--count", 3, "--kind", "cut", "--kind", "delay", "--seed", 11, "--processes", 1) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("am62xx_sk from sd, 16.")
    assert not missing_facts(lines[0], "11 to 13")
    assert [line.split() for line in lines[2:6]] == [
        ["kind", "cases", "right", "flagged", "refused", "WRONG"],
        ["cut", "3", "0", "0", "3", "0"],
        ["delay", "3", "3", "0", "0", "0"],
        ["all", "6", "3", "0", "3", "0"],
    ]
    assert not missing_facts(lines[-1], "no number", "beyond its ±", "without a flag")


def test_every_kind_is_tried_unless_told_otherwise(good_recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torture(good_recording, "--count", 1, "--seed", 1, "--json", "--processes", 1)
    document = json.loads(capsys.readouterr().out)
    assert list(document["kinds"]) == list(KINDS)
    assert document["seed"] == 1


def test_a_wrong_number_is_named_with_its_case_and_ends_with_1(
    good_recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torture_campaign.ROUNDING_S", -1.0)  # nothing is exact enough
    assert torture(good_recording, "--count", 2, "--kind", "delay", "--seed", 3, "--processes", 1) == 1
    output = capsys.readouterr().out
    assert "WRONG, the worst of 2" in output
    assert "delay:3  WRONG: boot." in output
    assert torture(good_recording, "--only", "delay:3", "--json") == 1
    case = json.loads(capsys.readouterr().out)
    assert (case["name"], case["outcome"]) == ("delay:3", "wrong")


def test_one_case_is_told_in_words_and_kept_as_a_recording(
    good_recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert torture(good_recording, "--only", "cut:8", "--save", tmp_path / "case") == 0
    assert capsys.readouterr().out.startswith("cut:8  refused: ")
    assert len(Recording.open(tmp_path / "case.log").log) < len(Recording.open(good_recording).log)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--only", "cut"], "expected KIND:SEED"),
        (["--only", "cat:1"], "the kinds are: drop"),
        (["--kind", "cat"], "no such kind; there are: drop"),
        (["--save", "x"], "--save needs --only"),
        (["--medium", "tape"], "no medium 'tape'"),
        (["--board", "none.toml"], "none.toml"),
        (["--only", "cut:8", "--save", "/nowhere/case"], "/nowhere/case.log cannot be written"),
    ],
)
def test_bad_words_are_named(
    good_recording: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert torture(good_recording, *words) == 2
    assert says in capsys.readouterr().err


def test_who_kills_the_command_leaves_no_process_behind(good_recording: Path) -> None:
    words = [program.__file__, str(good_recording), "--processes", "2"]
    command = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE)
    assert command.stderr is not None
    with command.stderr as bar:
        bar.read(1)  # it is shown when the first cases are done, or just before
        group = psutil.Process(command.pid)
        while len(group.children(recursive=True)) < 4:  # forkserver, its tracker, and two that work
            assert command.poll() is None
        left = group.children(recursive=True)
        command.kill()
        command.wait()
        assert psutil.wait_procs(left, timeout=60)[1] == []
