"""Board types are data, and wrong data is refused with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab import boards
from lab.errors import ConfigurationError

MINIMAL = """
name = "x"
title = "X"
soc = "X1"
boot_mode_bits = 2
moments = [{ name = "login", pattern = 'x login: ' }]
evidence = [{ source = "spl", pattern = 'from (\\w+)', media = { MMC1 = "sd" } }]
[prompts]
uboot = '=> '
login = 'x login: '
shell = '# '
[[uarts]]
name = "u"
role = "console"
[media]
sd = { boot_mode = 1, title = "SD" }
"""


@pytest.fixture
def board_file(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(MINIMAL)
    return path


def test_every_shipped_type_loads_and_can_be_timed() -> None:
    for name in boards.names():
        board = boards.load(name)
        assert board.name == name
        required = {m.name for m in board.moments if m.required}
        assert "starting_kernel" in required
        assert {"login", "shell"} <= {m.name for m in board.moments}
        assert re.search(board.prompts.login, board.prompts.login.replace("(-lp|sip)?", "")), (
            "login prompt and pattern differ"
        )


@pytest.mark.parametrize(("medium", "boot_mode"), [("sd", 0x243), ("emmc", 0x04B), ("ospi", 0x073)])
def test_am62_boot_modes_are_those_of_the_u_boot_documentation(medium: str, boot_mode: int) -> None:
    assert boards.load("am62xx_sk").media[medium].boot_mode == boot_mode


def test_a_types_failures_add_to_the_common_ones(board_file: Path) -> None:
    board_file.write_text(MINIMAL + "[failures]\n'my own trouble' = \"own\"\n")
    failures = boards.load_file(board_file).failures
    assert failures["my own trouble"] == "own"
    assert "kernel_panic" in failures.values()


def test_an_unknown_type_lists_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match="am62xx_sk"):
        boards.load("beaglebone")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("boot_mode_bits = 2", "boot_mode_bits = 2\ncolour = 1", "colour"),
        ("boot_mode_bits = 2", 'boot_mode_bits = "2"', "boot_mode_bits"),
        ("boot_mode = 1", "boot_mode = 9", "needs more than 2 straps"),
        ('MMC1 = "sd"', 'MMC1 = "tape"', "'tape', which is not under media"),
        (r"from (\w+)", r"from \w+", "exactly one group"),
        ("pattern = 'x login: '", "pattern = '('", "regular expression"),
        ('name = "x"', "name = ", "not TOML"),
    ],
)
def test_wrong_data_is_refused_with_its_place(board_file: Path, old: str, new: str, says: str) -> None:
    board_file.write_text(MINIMAL.replace(old, new, 1))
    with pytest.raises(ConfigurationError) as raised:
        boards.load_file(board_file)
    assert says in str(raised.value)
    assert str(board_file) in str(raised.value)
