"""Plugin of U-Boot's test/py that expects listed failures with reasons.

`pytest -p boardlab_expected --expected-failures=FILE ...`. FILE is TOML with two tables of test ids, as pytest prints them, and
reasons. A test of the table `fails` has to fail; one of `left_out` is not run; any other has to pass, or to be skipped by
test/py itself. Each has to exist.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that names the file."""
    parser.addoption("--expected-failures", type=Path, metavar="FILE", help="TOML: tests that fail, and why")


@pytest.hookimpl(tryfirst=True)  # before -k and -m deselect some
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is expected to fail, and what is left out."""
    path: Path | None = config.getoption("expected_failures")
    if path is None:
        return
    fails, left_out = _tables(path)
    for item in items:
        if reason := fails.pop(item.nodeid, ""):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        elif reason := left_out.pop(item.nodeid, ""):
            item.add_marker(pytest.mark.skip(reason=reason))
    asked_for_all = all(Path(argument).is_dir() for argument in config.args)
    if asked_for_all and (gone := [*fails, *left_out]):
        raise pytest.UsageError(f"{path}: no such tests: {', '.join(gone)}; take them out")


def _tables(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        fails, left_out = dict(data.pop("fails", {})), dict(data.pop("left_out", {}))
    except (OSError, ValueError, TypeError) as error:
        raise pytest.UsageError(
            f"{path}: expected tables [fails] and [left_out] of tests and reasons: {error}"
        ) from error
    if data:
        raise pytest.UsageError(f"{path}: expected tables [fails] and [left_out] only: it has {', '.join(data)}")
    return fails, left_out
