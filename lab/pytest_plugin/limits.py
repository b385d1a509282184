"""Limits of metrics.toml: a test with numbers beyond one fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import BoardlabError
from lab.metrics import lab_metrics
from lab.metrics.lab_metrics import Declarations
from lab.metrics.limits import LimitOutcome
from lab.pytest_plugin.judge import is_of
from lab.pytest_plugin.runs import STRATEGY_KEY, writer
from lab.pytest_plugin.session_rules import MEASURERS, measures
from lab.results import Store
from lab.results.formatting import label, limit_checks
from lab.results.history import item_of
from lab.results.listing import attempts_of, overview
from lab.run.measure import KIND
from lab.terminal import plain_text

_DECLARATIONS_KEY = pytest.StashKey[Declarations]()


def declarations(config: pytest.Config) -> Declarations:
    """The lab's metrics.toml: of this folder, or of the environment's.

    Raises:
        ConfigurationError: it is wrong.
    """
    if _DECLARATIONS_KEY not in config.stash:
        env = Path(config.option.lg_env).absolute().parent
        folders = [config.invocation_params.dir, env, env.parent]
        path = next((file for folder in folders if os.path.lexists(file := folder / lab_metrics.FILE)), None)
        config.stash[_DECLARATIONS_KEY] = Declarations() if path is None else lab_metrics.load(path)
    return config.stash[_DECLARATIONS_KEY]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a wrong metrics.toml before anything is measured."""
    if STRATEGY_KEY in config.stash and any(measures(item) for item in items):
        try:
            declarations(config)
        except BoardlabError as error:
            raise pytest.UsageError(plain_text(str(error))) from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """After a test has measured, its numbers are held against their limits.

    Those of `measure` are so after the last cycle, see `lab.pytest_plugin.measure`.
    """
    result = yield
    kind = measures(item)
    if kind and kind != KIND and declarations(item.config).limits:
        fixture = next(name for name, measured_kind in MEASURERS.items() if measured_kind == kind)
        measurer = item.funcargs[fixture]  # type: ignore[attr-defined]
        try:
            wrong = broken(item, measurer.store, measurer.run.id)
        except BoardlabError as error:
            wrong = [plain_text(f"[{error.failure}, fault: {error.fault}] {error}")]
        if wrong:
            pytest.fail("\n".join(wrong), pytrace=False)
    return result


def broken(item: pytest.Item, store: Store, run_id: int) -> list[str]:
    """The limits that a test's numbers break, in words; marginal ones are only told.

    Raises:
        BoardlabError: the store cannot be read.
    """
    run, wrong = overview(store, run_id), []
    for number, limit_check in limit_checks(run):
        if not any(is_of(item, [item_of(attempt.params)]) for attempt in attempts_of(run.attempts, number)):
            continue
        text = plain_text(limit_check.sentence(number.metric, f"{number.metric.name} {label(number.params)}".strip()))
        if limit_check.outcome is LimitOutcome.FAIL:
            wrong.append(text)
        elif limit_check.outcome is LimitOutcome.MARGINAL:
            writer(item.config)(text)
    return wrong
