"""The documents name what exists: examples load, tables list every key."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from lab.boards import (
    BoardType,
    Evidence,
    Figure,
    Identity,
    Link,
    Medium,
    MomentPattern,
    Prompts,
    Published,
    Rail,
    Release,
    Throughput,
    Timeouts,
    Uart,
    load_file,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
ADDING_A_BOARD = (DOCS / "adding-a-board.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_board_type_on_the_page_loads(tmp_path: Path) -> None:
    (example,) = blocks(ADDING_A_BOARD, "toml")
    path = tmp_path / "example_sk.toml"
    path.write_text(example, encoding="utf-8")
    board = load_file(path)
    assert board.console.name == "main0"
    assert board.media["emmc"].boot_mode == 0b0100
    assert board.failures["PMIC: undervoltage"] == "undervoltage"
    assert len(board.failures) > 1, "the failures of all boards are added"


@pytest.mark.parametrize(
    "record",
    [
        BoardType,
        Evidence,
        Figure,
        Identity,
        Link,
        Medium,
        MomentPattern,
        Prompts,
        Published,
        Rail,
        Release,
        Throughput,
        Timeouts,
        Uart,
    ],
)
def test_the_page_explains_every_key_of_a_board_type(record: type) -> None:
    keys = {field.name for field in attrs.fields(record)}
    assert {key for key in keys if f"`{key}`" not in ADDING_A_BOARD} == set()


def test_the_page_gives_the_defaults_of_the_timeouts() -> None:
    listed = dict(re.findall(r"^\| `(\w+_s)` \|.*\| ([\d.]+) \|$", ADDING_A_BOARD, re.MULTILINE))
    assert {name: float(value) for name, value in listed.items()} == attrs.asdict(Timeouts())
