"""A rule says no more than it can know: errors are right in nine of ten cases, and the page has what was measured."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import guide_cases
import pytest

from lab.guide import rulebook
from lab.guide.rulebook import Severity

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "guide-rules" / "index.md").read_text(encoding="utf-8")
ENOUGH = 0.9
SEVERITIES = {rule.id: rule.severity for rule in rulebook.load()}


@pytest.fixture(scope="module")
def table() -> str:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import guide_precision  # noqa: PLC0415 - a program, not a module of ours

        return guide_precision.table()
    finally:
        sys.path.remove(str(ROOT / "tools"))


def test_the_page_has_the_table_that_its_command_writes(table: str) -> None:
    assert table in PAGE


@pytest.mark.parametrize("rule", guide_cases.CASES)
def test_what_is_right_too_seldom_is_a_note(table: str, rule: str) -> None:
    (row,) = re.findall(rf"^\| \[{rule}\].*$", table, re.MULTILINE)
    shares = [int(share) for share in re.findall(r"(\d+) %", row)]
    if SEVERITIES[rule] is not Severity.NOTE:
        assert shares[0] >= 100 * ENOUGH
    assert shares[-1] >= 100 * ENOUGH or len(shares) == 1


@pytest.mark.parametrize("rule", guide_cases.CASES)
def test_what_is_planted_is_found(rule: str) -> None:
    found = guide_cases.score(rule, 10)
    assert found.found >= ENOUGH * found.planted
