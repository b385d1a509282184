"""The figures of docs/performance.md: each is as a program printed it, and each other one says how it came about."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import figures  # noqa: E402 - from the folder above

TEXT = figures.PAGE.read_text(encoding="utf-8")
BLOCKS = list(figures.blocks(TEXT))
BY_HAND = "<!-- by hand: "
QUANTITY = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s?(?:ms|s|%|MB|kB|times)(?!\w)")
AIM = re.compile(r"\baims?\b", re.IGNORECASE)


def paragraphs(text: str) -> list[str]:
    """Those outside the blocks."""
    return [part.strip() for part in figures.BLOCK.sub("", text).split("\n\n") if part.strip()]


def unfounded(text: str) -> list[str]:
    """Quantities of a page outside its blocks that no block has."""
    measured = set(re.findall(r"\d[\d,]*(?:\.\d+)?", " ".join(block.body for block in figures.blocks(text))))
    return [
        f"{quantity} in {part[:60]!r}"
        for part in paragraphs(text)
        if not part.startswith((BY_HAND, "    ")) and not AIM.search(part)
        for quantity in QUANTITY.findall(part)
        if quantity not in measured
    ]


def test_no_figure_was_changed_by_hand() -> None:
    assert len(BLOCKS) == TEXT.count("<!-- figures -->")
    assert [block.command for block in BLOCKS if not block.is_measured] == []


def test_each_command_stands_once_and_its_program_is_there() -> None:
    commands = [block.command for block in BLOCKS]
    assert len(set(commands)) == len(commands)
    for command in commands:
        program = re.search(r"bench/\w+\.py|support\.\w+", command)
        assert program is not None, command
        path = program[0] if "/" in program[0] else f"tests/{program[0].replace('.', '/')}.py"
        assert (ROOT / path).is_file(), command


def test_a_table_or_a_quantity_outside_the_blocks_says_how_it_came_about() -> None:
    assert [part[:60] for part in paragraphs(TEXT) if part.startswith("|")] == []
    assert unfounded(TEXT) == []


def test_a_quantity_that_nothing_measured_is_seen() -> None:
    assert unfounded(f"{TEXT}\nA scrape takes 0.0123 s.\n") == ["0.0123 in 'A scrape takes 0.0123 s.'"]
    assert unfounded(f"{TEXT}\n{BY_HAND}an idle afternoon -->\nA scrape takes 0.0123 s.\n") == []


def test_a_command_that_is_measured_again_replaces_its_own_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "measure", lambda command: f"Today.\n\n{command}: 7 s")
    before, block, after = BLOCKS[0], BLOCKS[1], BLOCKS[2:]
    (page,) = figures.renew(TEXT, [block.command])
    again = list(figures.blocks(page))
    assert (again[0], again[2:]) == (before, after)
    assert again[1].body == f"Today.\n\n{block.command}: 7 s"
    assert again[1].is_measured
    assert figures.BLOCK.sub("", page) == figures.BLOCK.sub("", TEXT)


def test_output_becomes_tables_and_paragraphs() -> None:
    output = "boards: 3\n| a | b |\n| --- | --- |\n| 1 | 2 |\nload 0.31 on 2 cores\n| c |\n| --- |\n| 3 |\nload 0.40 on 2 cores\n12 MB\n"
    assert figures.as_markdown(output) == (
        "boards: 3\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| c |\n| --- |\n| 3 |\n\n12 MB"
    )


def test_a_command_that_fails_leaves_the_page() -> None:
    with pytest.raises(SystemExit, match=r"false: .*with 1"):
        figures.measure("false")
