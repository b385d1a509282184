"""The files of tests_perf: each says what it measures, and fails where a metric is missing in the store."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

FILES = sorted((Path(__file__).resolve().parents[3] / "tests_perf").glob("test_*.py"))


def only_test(path: Path) -> Callable[..., None]:
    """The test function of a file."""
    (found,) = (thing for name, thing in runpy.run_path(str(path)).items() if name.startswith("test_"))
    function: Callable[..., None] = found
    return function


def measurer(measured: list[str], missing: list[str]) -> Any:
    """One that measures everything, and whose store lacks these metrics."""
    return SimpleNamespace(measure=measured.append, missing=lambda _item: missing, pending=lambda _item: [])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_measurement_passes_with_all_its_metrics_in_the_store_and_fails_without_one(path: Path) -> None:
    run, measured = only_test(path), list[str]()
    run(measurer(measured, []), "item")
    assert measured == ["item"]
    with pytest.raises(AssertionError):
        run(measurer(measured, ["a.metric"]), "item")


def test_cycles_that_are_left_to_measure_fail_the_test() -> None:
    for path in (path for path in FILES if path.stem in {"test_boot", "test_low_power"}):
        unfinished = SimpleNamespace(measure=lambda _item: None, missing=lambda _item: [], pending=lambda _item: [3])
        with pytest.raises(AssertionError):
            only_test(path)(unfinished, "item")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_says_in_its_own_words_what_is_measured_with_what_and_where_the_guide_has_it(path: Path) -> None:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert all(f"\n{word}" in said for word in ("Program", "The lab brings: ", "In the guide: "))
    others = {ast.get_docstring(ast.parse(other.read_text(encoding="utf-8"))) for other in FILES if other != path}
    assert said not in others
