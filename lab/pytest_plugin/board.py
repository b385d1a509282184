"""What the pytest plugin does with a board: the run in the store, progress, and the summary in the guide's form.

It reaches the board through labgrid's own fixtures.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

from lab.boards import BoardType
from lab.clock import MonotonicRaw
from lab.drivers import envfile
from lab.errors import BoardlabError, ConfigurationError
from lab.pytest_plugin.hint import hint
from lab.pytest_plugin.kinds import MEASURERS
from lab.pytest_plugin.runs import (
    DEFAULT_CYCLES,
    MEDIA_KEY,
    STORE_KEY,
    STRATEGY_KEY,
    open_run,
    record_samples,
    summarise_run,
    writer,
)
from lab.results import Run, Store, open_store, plan_differences
from lab.results.records import RunStatus
from lab.run.bootrun import BootRun
from lab.run.progress import Progress

RUN_KEY = pytest.StashKey["BootMeasurer"]()


def configure(config: pytest.Config) -> None:
    """Find and check the environment and the options before labgrid loads them.

    Raises:
        pytest.UsageError: one of them is wrong; the message says how to mend it.
    """
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # a killed run ends like Ctrl-C: board off, run resumable
    try:
        path = envfile.find(config.option.lg_env, Path.cwd())
        envfile.check(path)
        _check_options(config)
    except BoardlabError as error:
        raise pytest.UsageError(str(error)) from error
    config.option.lg_env = str(path)


def pytest_sessionstart(session: pytest.Session) -> None:
    env = session.config.stash[LABGRID_ENV_KEY]
    try:
        target = env.get_target()
        strategy = target.get_strategy()
    except Exception as error:
        message = getattr(error, "msg", None) or str(error)
        raise pytest.UsageError(f"{env.config_file}: {message}{hint(env)}") from error
    config = session.config
    config.stash[STRATEGY_KEY] = strategy
    try:
        config.stash[STORE_KEY] = open_store(config.option.lab_db)
        config.stash[MEDIA_KEY] = _media(config, strategy.type)
    except BoardlabError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "boot_medium" in metafunc.fixturenames:
        metafunc.parametrize("boot_medium", [*metafunc.config.stash[MEDIA_KEY]], scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A run that is resumed goes on with what it measures; the tests of other kinds of runs are left out."""
    if config.option.resume is None:
        return
    kind = config.stash[STORE_KEY].run(config.option.resume).kind
    others = [item for item in items if (found := measures(item)) and found != kind]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def measures(item: pytest.Item) -> str:
    """The kind of run that a test measures for; empty: it measures nothing."""
    return next((kind for fixture, kind in MEASURERS.items() if fixture in getattr(item, "fixturenames", ())), "")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Look for the lab before the first board is touched: a missing adapter is one message, not a failure per test."""
    config = session.config
    if config.option.collectonly or not any(measures(item) for item in session.items):
        return
    try:
        config.stash[STRATEGY_KEY].check_lab()
    except BoardlabError as error:
        raise pytest.UsageError(f"{error}{hint(config.stash[LABGRID_ENV_KEY])}") from error


@define
class BootMeasurer:
    """What a boot-time test gets: measures the pending cycles of a medium, and fails without a traceback."""

    boot_run: BootRun
    failed: bool = False

    @property
    def store(self) -> Store:
        """Where the run is kept."""
        return self.boot_run.store

    @property
    def run(self) -> Run:
        """The run in the store."""
        return self.boot_run.run

    def measure(self, medium: str) -> None:
        """Measure the pending cycles of one medium; a failure fails the test with its class and message."""
        try:
            self.boot_run.measure(medium)
        except BoardlabError as error:
            self.failed = True
            pytest.fail(f"[{error.failure}, fault: {error.fault}] {error}", pytrace=False)

    def pending(self, medium: str) -> list[int]:
        """Cycles without a sample."""
        return self.boot_run.pending(medium)

    def finish(self) -> RunStatus:
        """Close the run in the store; returns its status."""
        complete = not any(self.pending(medium) for medium in self.run.plan["media"])
        status: RunStatus = "completed" if complete else "failed" if self.failed else "interrupted"
        self.store.finish_run(self.run.id, status)
        return status


@pytest.fixture(scope="session")
def boot_measurer(
    request: pytest.FixtureRequest, strategy: Any, record_testsuite_property: Any
) -> Iterator[BootMeasurer]:
    """The session's boot-time run; the board is switched off at its end."""
    config = request.config
    try:
        measurer = _begin(config, strategy)
    except BoardlabError as error:
        pytest.exit(f"error: {error}", returncode=int(pytest.ExitCode.USAGE_ERROR))
    config.stash[RUN_KEY] = measurer
    write = writer(config)
    write(f"run {measurer.run.id} on {strategy.board} ({strategy.type.title}), results in {measurer.store.url}")
    yield measurer
    try:
        if not config.option.leave_on:
            strategy.transition("off")
        measurer.finish()
        record_samples(measurer.store, measurer.run.id, record_testsuite_property)
    except BoardlabError as error:
        write(f"error: {error}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    measurer = config.stash.get(RUN_KEY, None)
    if measurer is not None:
        summarise_run(terminalreporter, config, "boot time", measurer.run.id)


def _begin(config: pytest.Config, strategy: Any) -> BootMeasurer:
    store, clock = config.stash[STORE_KEY], MonotonicRaw()
    plan = {"cycles": config.option.cycles or DEFAULT_CYCLES, "media": config.stash[MEDIA_KEY]}
    run = open_run(config, strategy, "boot", plan)
    if config.option.resume is not None:
        _same_plan(run, config)
    progress = Progress(writer(config), clock, total=0)
    boot_run = BootRun(store, run, strategy, progress, clock, time.sleep, config.option.retries)
    progress.total = sum(len(boot_run.pending(medium)) for medium in run.plan["media"])
    return BootMeasurer(boot_run)


def _media(config: pytest.Config, board_type: BoardType) -> list[str]:
    if config.option.resume is not None:
        return list(config.stash[STORE_KEY].run(config.option.resume).plan.get("media", []))
    chosen = _chosen(config)
    for name in chosen:
        if name not in board_type.media:
            raise ConfigurationError(f"--medium {name}: {board_type.name} has {', '.join(board_type.media)}")
    return chosen or list(board_type.media)


def _chosen(config: pytest.Config) -> list[str]:
    names = [name for given in config.option.medium or [] for name in given.split(",")]
    return list(dict.fromkeys(names))


def _same_plan(run: Run, config: pytest.Config) -> None:
    wanted = dict(run.plan)
    if config.option.cycles is not None:
        wanted["cycles"] = config.option.cycles
    if config.option.medium:
        wanted["media"] = _chosen(config)
    differences = plan_differences(run.plan, wanted)
    if differences:
        raise ConfigurationError(f"--resume goes on with the run's own plan: {'; '.join(differences)}; leave it out")


def _check_options(config: pytest.Config) -> None:
    if config.option.cycles is not None and config.option.cycles < 1:
        raise ConfigurationError(f"--cycles {config.option.cycles}: at least 1")
    if config.option.retries < 0:
        raise ConfigurationError(f"--retries {config.option.retries}: 0 or more")
