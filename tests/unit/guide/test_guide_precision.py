"""A rule says no more than it can know: errors are right in nine of ten cases, and the page has what was measured."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support import guide_cases
from support.atlength import either

from lab.guide.check.findings import load_rules
from lab.guide.rulebook import Severity

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "guide-rules.md").read_text(encoding="utf-8")
ENOUGH = 0.9
SEVERITIES = {rule.id: rule.severity for rule in load_rules()}


@pytest.fixture(scope="module")
def program() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("guide_precision")


@pytest.mark.soak
def test_the_page_has_the_table_that_its_command_writes(program: ModuleType) -> None:
    assert program.table() in PAGE


@pytest.mark.parametrize("rule", guide_cases.CASES)
def test_what_is_right_too_seldom_is_a_note(rule: str) -> None:
    (row,) = re.findall(rf"^\| \[{rule}\].* % \|.*$", PAGE, re.MULTILINE)
    shares = [int(share) for share in re.findall(r"(\d+) %", row)]
    if SEVERITIES[rule] is not Severity.NOTE:
        assert shares[0] >= 100 * ENOUGH
    assert shares[-1] >= 100 * ENOUGH or len(shares) == 1


@pytest.mark.longer
@pytest.mark.parametrize("rule", guide_cases.CASES)
def test_what_is_planted_is_found(rule: str) -> None:
    found = guide_cases.score(rule, either(5, 40))
    assert found.found >= ENOUGH * found.planted
