"""`lab console check`: its report, its JSON, its exit status, and input that is no log."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from support import bare_logs
from support.facts import missing_facts

from lab.cli import main


def check(*words: object) -> int:
    return main(["console", "check", *map(str, words)])


def log(path: Path, lines: list[str]) -> Path:
    path.write_text("\r\n".join(lines), encoding="latin-1")
    return path


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return log(tmp_path / "whole.log", bare_logs.k3())


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    return log(tmp_path / "partial.log", [*bare_logs.first_spl(), ""])


def test_the_report_says_each_thing_once_and_ends_with_the_verdict(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check("am62xx_sk", whole) == 0
    said = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in said.splitlines()]
    text = "\n".join(lines)
    assert lines[0] == f"{whole}: 39 lines, as am62xx_sk"
    assert "flow: normal" in lines
    assert not missing_facts(text, "not falcon", "2 times", "flow falcon")
    assert not missing_facts(text, "spl", "required", "2, 11", "U-Boot SPL 2025.01")
    assert "shell optional not found" in lines
    assert "rootfs sd 32 mmcblk1" in lines
    assert not missing_facts(text, "medium: sd", "4 of 4")
    assert lines[-1] == "fits"


def test_the_exit_status_is_1_unless_every_log_fits(whole: Path, partial: Path) -> None:
    assert check("am62xx_sk", whole, whole) == 0
    assert check("am62xx_sk", whole, partial) == 1


def test_json_has_all_of_it(whole: Path, partial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("am62xx_sk", whole, partial, "--json") == 1
    first, second = json.loads(capsys.readouterr().out)
    assert (first["verdict"], first["flow"], first["media"], first["why"]) == ("fits", "normal", ["sd"], [])
    assert (second["verdict"], second["prompts"]) == ("fits in part", [])
    (spl,) = [moment for moment in second["moments"] if moment["name"] == "spl"]
    assert (spl["lines"], spl["required"], spl["times"]) == ([2], True, 2)
    assert second["todo"] == ["Check a log that reaches the prompt"]


def test_a_type_of_ones_own_is_a_file(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'name = "own"\ntitle = "Own"\nsoc = "AM625"\nbased_on = ["k3", "am62x"]\n'
        '[identity]\nhostname = "own"\nmodel = "Own board"\n'
        "[failures]\n'Authentication passed' = \"odd\"\n"
    )
    assert check(own, whole) == 1
    assert "odd, line" in capsys.readouterr().out


def test_what_a_board_says_cannot_act_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = bare_logs.k3(end="\x1b]0;owned\x07evil\x9b2J login: ")
    path = log(tmp_path / "evil.log", [*lines, "[    9.000000] Kernel panic - not syncing: \x1b[2J\x1b[31mboo", ""])
    check("am62xx_sk", path)
    said = capsys.readouterr().out
    assert "^[[2J" in said
    assert not {"\x1b", "\x07", "\x9b"} & set(said)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        (b"", "empty"),
        (b"\r\n \n", "empty"),
        (bytes(range(256)) * 40, "is not a text"),
        (gzip.compress(b"U-Boot SPL 2025.01\n" * 1000), "is not a text"),
        ("U-Boot SPL 2025.01\n".encode("utf-16") * 50, "is not a text"),
        (b"U-Boot SPL 2025.01\n" * 300_000, "larger than 5 MB"),
    ],
)
def test_input_that_is_no_log_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, says: str
) -> None:
    path = tmp_path / "some.log"
    if content is not None:
        path.write_bytes(content)
    assert check("am62xx_sk", path) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
    assert str(path) in captured.err
    assert len(captured.err.splitlines()) == 1


def test_a_folder_and_an_unknown_type_are_clear_errors(
    tmp_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check("am62xx_sk", tmp_path) == 2
    assert check("beaglebone", whole) == 2
    assert check("am62xx_sk") == 2
    said = capsys.readouterr().err
    assert "is a folder" in said
    assert not missing_facts(said, "no board type", "'beaglebone'")
