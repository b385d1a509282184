"""What the pytest plugin does with a board: the run in the store, progress, and the summary in the guide's form.

It reaches the board through labgrid's own fixtures.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

from lab import boards
from lab.boards import BoardType
from lab.clock import MonotonicRaw
from lab.drivers import envfile
from lab.errors import BoardlabError, ConfigurationError
from lab.results import Run, Store, open_store, plan_differences
from lab.results.format import summary_lines
from lab.results.records import RunStatus
from lab.run.bootrun import BootRun
from lab.run.progress import Progress
from lab.run.provenance import collect

DEFAULT_CYCLES = 20  # as the performance guide has it

STRATEGY_KEY = pytest.StashKey[Any]()
STORE_KEY = pytest.StashKey[Store]()
MEDIA_KEY = pytest.StashKey[list[str]]()
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
        raise pytest.UsageError(f"{env.config_file}: {message}{_hint(env)}") from error
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Look for the lab before the first board is touched: a missing adapter is one message, not a failure per test."""
    config = session.config
    if config.option.collectonly or not any("boot_measurer" in getattr(i, "fixturenames", ()) for i in session.items):
        return
    try:
        config.stash[STRATEGY_KEY].check_lab()
    except BoardlabError as error:
        raise pytest.UsageError(f"{error}{_hint(config.stash[LABGRID_ENV_KEY])}") from error


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
    write = _writer(config)
    write(f"run {measurer.run.id} on {strategy.board} ({strategy.type.title}), results in {measurer.store.url}")
    yield measurer
    try:
        if not config.option.leave_on:
            strategy.transition("off")
        measurer.finish()
        record_testsuite_property("boardlab_run", measurer.run.id)
        for measurement in measurer.store.measurements(measurer.run.id):
            label = ",".join(f"{k}={v}" for k, v in measurement.params.items())
            values = ";".join(f"{s.value:.6f}" for s in measurement.samples)
            record_testsuite_property(f"{measurement.metric.name}[{label}] {measurement.metric.unit}", values)
    except BoardlabError as error:
        write(f"error: {error}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    measurer = config.stash.get(RUN_KEY, None)
    if measurer is None:
        return
    run_id = measurer.run.id
    try:
        run = measurer.store.run(run_id)
        terminalreporter.section(f"boot time, run {run_id}: {run.status}")
        for line in summary_lines(measurer.store, run_id):
            terminalreporter.write_line(line)
    except BoardlabError as error:
        terminalreporter.write_line(f"error: {error}", red=True)
        return
    where = f" --db {config.option.lab_db}" if config.option.lab_db else ""
    terminalreporter.write_line(f"report: lab report {run_id}{where}")
    terminalreporter.write_line(f"evidence: lab results show {run_id} --log{where}")
    if run.status != "completed":
        where = f" --lab-db {config.option.lab_db}" if config.option.lab_db else ""
        terminalreporter.write_line(f"go on with: pytest --lg-env {config.option.lg_env} --resume {run_id}{where}")


def _begin(config: pytest.Config, strategy: Any) -> BootMeasurer:
    store = config.stash[STORE_KEY]
    media = config.stash[MEDIA_KEY]
    env = config.stash[LABGRID_ENV_KEY]
    clock = MonotonicRaw()
    if config.option.resume is not None:
        run = store.reopen_run(config.option.resume)
        _same_board(run, strategy)
        _same_plan(run, config)
    else:
        release = config.option.release or env.config.get_option("release", "unreleased")
        images = {name: Path(env.config.get_image_path(name)) for name in env.config.get_images()}
        run = store.begin_run(
            kind="boot",
            board_type=strategy.type.name,
            board=strategy.board,
            release=release,
            plan={"cycles": config.option.cycles or DEFAULT_CYCLES, "media": media},
            provenance=collect(
                board_type=strategy.type,
                board=strategy.board,
                release=release,
                env=Path(env.config_file),
                images=images,
                clock=clock,
                console=strategy.console.port.port,
            ),
        )
    progress = Progress(_writer(config), clock, total=0)
    boot_run = BootRun(store, run, strategy, progress, clock, time.sleep, config.option.retries)
    progress.total = sum(len(boot_run.pending(medium)) for medium in run.plan["media"])
    return BootMeasurer(boot_run)


def _writer(config: pytest.Config) -> Callable[[str], None]:
    """Writes a line to the terminal while a test runs, past pytest's capturing."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def write(line: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            terminal.ensure_newline()
            terminal.write_line(line)
            terminal.flush()

    return write


def _media(config: pytest.Config, board_type: BoardType) -> list[str]:
    if config.option.resume is not None:
        return list(config.stash[STORE_KEY].run(config.option.resume).plan["media"])
    chosen = _chosen(config)
    for name in chosen:
        if name not in board_type.media:
            raise ConfigurationError(f"--medium {name}: {board_type.name} has {', '.join(board_type.media)}")
    return chosen or list(board_type.media)


def _chosen(config: pytest.Config) -> list[str]:
    names = [name for given in config.option.medium or [] for name in given.split(",")]
    return list(dict.fromkeys(names))


def _same_board(run: Run, strategy: Any) -> None:
    if (run.board_type, run.board) != (strategy.type.name, strategy.board):
        raise ConfigurationError(
            f"run {run.id} is of board {run.board} ({run.board_type}), the env is of {strategy.board} "
            f"({strategy.type.name}): resume it with that board's env"
        )


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


def _hint(env: Any) -> str:
    drivers = (env.config.get_targets().get("main") or {}).get("drivers") or []
    for driver in drivers if isinstance(drivers, list) else [drivers]:
        name = (driver.get("BoardStrategy") or {}).get("board_type")
        if name in boards.names() and boards.load(name).virtual:
            return " (is the virtual board up? start it with: lab virtual up)"
    return ""
