"""Board of a session: environment, lab check, medium, and its end.

It reaches the board through labgrid's own fixtures.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from labgrid.exceptions import InvalidConfigError, NoDriverFoundError, RegistrationError
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

from lab import package_data
from lab.benchmarks.cycles import AWAY, AWAY_S
from lab.drivers.guarded_calls import ACTIVATE_LIMIT_S, within
from lab.env import envfile
from lab.env.power_state import bench_hint
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.jobs.lease import open_results
from lab.jobs.records import AWAY_VARIABLE, JOB_VARIABLE
from lab.pytest_plugin import health, jobs, labgridboard, provisioning, resume, session_rules
from lab.pytest_plugin.limits import declarations
from lab.pytest_plugin.run_session import CycleRunSession, CycleSessionKey, begin_engine, session_of
from lab.pytest_plugin.runs import (
    DEFAULT_CYCLES,
    ITEMS_KEY,
    MEDIA_KEY,
    STORE_KEY,
    STRATEGY_KEY,
    chosen,
    open_run,
    summarise_run,
    writer,
)
from lab.pytest_plugin.session_rules import ending, measures, refuse
from lab.results import Store, open_store
from lab.results.records import LAST_ID
from lab.run import diagnosis, options
from lab.run.board import check_complete
from lab.run.boot import BootRun
from lab.run.diagnosis import DiagnosisRun
from lab.run.measure import KIND as MEASURE
from lab.run.options import MAX_CYCLES
from lab.run.user_moments import OPTION, read_user_moments
from lab.terminal import plain_text

RUN_KEY = CycleSessionKey()
LIMITS: Final = {"cycles": (1, MAX_CYCLES), "resume": (1, LAST_ID), "confirms": (1, LAST_ID)}
LONGEST_NUMBER: Final = 24
LAB_LOOK_S: Final = 5.0  # between two looks for a host that is away


def configure(config: pytest.Config) -> None:
    """Find the environment, and check one of ours, before labgrid loads it.

    Another's stays as it was named.

    Raises:
        pytest.UsageError: it is wrong; the message says how to mend it.
    """
    try:
        path = envfile.find(config.option.lg_env, Path.cwd())
        try:
            is_ours = envfile.names(path, session_rules.STRATEGY, *envfile.BOARD_OPTIONS)
        except ConfigurationError:
            is_ours = True  # one that cannot be read: its check reports the error
        if is_ours:
            envfile.check(path)
    except BoardlabError as error:
        raise pytest.UsageError(plain_text(str(error))) from error
    if is_ours or not Path(config.option.lg_env).is_file():
        config.option.lg_env = str(path)


def end_once(_number: int, _frame: FrameType | None) -> None:
    """End the session at SIGTERM as at Ctrl-C, only once.

    The board goes off, and the run can be resumed.

    Raises:
        KeyboardInterrupt: always.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_sessionstart(session: pytest.Session) -> None:
    config, env = session.config, session.config.stash[LABGRID_ENV_KEY]
    if session_rules.has_board(env):
        session_rules.choose_tests(config)
        _begin_session(config, lambda: _checked_strategy(within(ACTIVATE_LIMIT_S, env.get_target).get_strategy()))


def _checked_strategy(strategy: Any) -> Any:
    check_complete(strategy)
    return strategy


def _begin_session(config: pytest.Config, board: Callable[[], Any]) -> None:
    """Check a session that measures, and open its board and its store.

    Args:
        board: the target's strategy (a RemotePlace asks its coordinator), or what stands for it.

    Raises:
        pytest.UsageError: an option or the environment is wrong. pytest.exit.Exception: the lab is not as it should
            be.
    """
    env = config.stash[LABGRID_ENV_KEY]
    signal.signal(signal.SIGTERM, end_once)
    try:
        session_rules.check_one_process(config)
        _check_options(config)
    except BoardlabError as error:
        raise pytest.UsageError(plain_text(str(error))) from error
    try:
        strategy = board()
    except Exception as error:
        message = getattr(error, "msg", None) or str(error)
        raise ending(
            _target_error(error, config.option.lg_env),
            f"{env.config_file}: {message}{bench_hint(env.config.get_targets())}",
        ) from error
    env.interact = _asker(config)
    config.stash[STRATEGY_KEY] = strategy
    try:
        config.stash[STORE_KEY] = _open_results(config)
        provisioning.choose(config, strategy.type.name)
        resume.find_run(config, config.stash[STORE_KEY])
        config.stash[MEDIA_KEY] = _media(config, strategy)
    except BoardlabError as error:
        raise ending(error, str(error)) from error


def _open_results(config: pytest.Config) -> Store:
    """Open the results; older ones are migrated, unless the session measures nothing.

    The session of a `lab run`, which has just used them, waits for a server that is away.
    """
    if config.option.collectonly:
        return open_store(config.option.lab_db)
    away_s = AWAY_S if JOB_VARIABLE in os.environ else 0.0
    return open_results(config.option.lab_db, away_s, session_rules.sayer(config))


def _target_error(error: Exception, path: str) -> BoardlabError:
    """Error for a target that could not be made.

    With a place the fault is the exporter's or coordinator's, unless the environment is wrong.
    """
    if isinstance(error, BoardlabError):
        return error
    wrong = isinstance(error, (InvalidConfigError, NoDriverFoundError, RegistrationError))
    if wrong or not envfile.arguments_of(Path(path), "RemotePlace", "resources"):
        return ConfigurationError(str(error))
    return LabTransientError(str(error), failure="exporter_gone")


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt() -> None:
    """Ignore SIGTERM, as the session ends already.

    A killed `lab run` sends it.
    """
    if signal.getsignal(signal.SIGTERM) is end_once:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


# Around pytest's own, which ends the fixtures of an interrupted session, and the one that ends the job.
@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    """Restore SIGTERM: the board is off and all is stored."""
    if exitstatus == pytest.ExitCode.INTERRUPTED and STORE_KEY in session.config.stash:
        session.config.stash[STORE_KEY].hurry()
    try:
        yield
    finally:
        if STRATEGY_KEY in session.config.stash:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "boot_medium" in metafunc.fixturenames and MEDIA_KEY in metafunc.config.stash:
        metafunc.parametrize("boot_medium", [*metafunc.config.stash[MEDIA_KEY]], scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of other kinds than the resumed run's."""
    if STRATEGY_KEY not in config.stash:
        own = [item for item in items if measures(item) == MEASURE]
        if own and hasattr(config, "workerinput"):
            refuse(config, own, ", by one process: leave -n and --dist out")
            own = []
        why = (
            f", and the main target of {config.option.lg_env} has no {session_rules.STRATEGY}: add one to "
            "its drivers ("
        )
        others = [item for item in items if measures(item) != MEASURE]
        refuse(config, others, f"{why}{package_data.folder(package_data.ENVS)} has examples), or leave this test out")
        if not own:
            return
        _begin_session(config, lambda: labgridboard.of_session(config))
        config.option.lab_leave_on = True  # as labgrid leaves it
    if config.option.lab_hold:
        config.option.lab_retries = 0
    if config.option.lab_resume is None:
        return
    kind = config.stash[STORE_KEY].run(config.option.lab_resume).kind
    others = [item for item in items if measures(item) not in {"", kind}]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[ITEMS_KEY] = session.items


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Check the lab before the first board is touched.

    A missing adapter is one message, not a failure per test.
    """
    config = session.config
    if (
        STRATEGY_KEY not in config.stash
        or config.option.collectonly
        or not any(measures(item) for item in session.items)
    ):
        return
    try:
        jobs.take_board(config)
        with health.record_failures(config):
            check_lab(config.stash[STRATEGY_KEY], float(os.environ.get(AWAY_VARIABLE, "0")), writer(config))
        health.check_first(config)
        provisioning.provision(config)
    except BoardlabError as error:
        raise ending(error, f"{error}{bench_hint(config.stash[LABGRID_ENV_KEY].config.get_targets())}") from error


def check_lab(
    strategy: Any,
    wait_s: float,
    write: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Reach the board's equipment; wait for a host that boots.

    Raises:
        BoardlabError: as `BoardStrategy.check_lab`; of a host that is away after `wait_s`.
    """
    remaining_s, reported = wait_s, ""
    while True:
        try:
            strategy.check_lab()
        except BoardlabError as error:
            if error.failure not in AWAY or remaining_s <= 0.0:
                raise
            if str(error) != reported:
                reported = str(error)
                write(f"waits: {reported}")
        else:
            return
        sleep(min(LAB_LOOK_S, remaining_s))
        remaining_s -= LAB_LOOK_S


@pytest.fixture(scope="session")
def boot_measurer(
    request: pytest.FixtureRequest,
    strategy: Any,  # noqa: ARG001 - labgrid's drivers outlive the run
    record_testsuite_property: Any,
) -> Iterator[CycleRunSession]:
    """The session's boot-time run; the board is switched off at its end."""
    yield from session_of(request.config, RUN_KEY, _begin, record_testsuite_property)


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    no_paths_given = config.args_source is pytest.Config.ArgsSource.INVOCATION_DIR
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and no_paths_given and STRATEGY_KEY in config.stash:
        terminalreporter.write_line(session_rules.where_tests_are(config))
    session = config.stash.get(RUN_KEY, None)
    if session is not None:
        summarise_run(terminalreporter, config, "boot time", session.run.id)
        if session.diagnosis is not None:
            database = session_rules.database_of(config)
            at = f" --db {shlex.quote(database)}" if database else ""
            terminalreporter.write_line(f"where it goes: lab results where {session.run.id}{at}")


def _begin(config: pytest.Config) -> CycleRunSession:
    store, strategy = config.stash[STORE_KEY], config.stash[STRATEGY_KEY]
    plan = {
        "cycles": config.option.lab_cycles or DEFAULT_CYCLES,
        "media": chosen(config, "boot_measurer", "boot_medium", config.stash[MEDIA_KEY]),
    }
    if config.option.lab_init:
        plan["init"] = config.option.lab_init
    run = open_run(config, strategy, "boot", plan)
    user_moments = read_user_moments(
        strategy.type,
        config.stash[LABGRID_ENV_KEY].config.get_target_option("main", OPTION, []),
        declarations(config),
        f"{config.option.lg_env}: targets.main.options.{OPTION}",
    )
    for _, metric in (*user_moments.moments, *user_moments.numbers):
        store.check_definition(metric)
    session = CycleRunSession(begin_engine(BootRun, config, run, user_moments=user_moments))
    if config.option.lab_where:
        paused = None if run.status == "completed" else run.id  # a completed run does not go on
        session.diagnosis = begin_engine(DiagnosisRun, config, diagnosis.begin(store, run), paused=paused)
    return session


def _media(config: pytest.Config, strategy: Any) -> list[str]:
    """Media to measure: the options', else those that are possible.

    The environment must select them, and a given release must have them.
    """
    if config.option.lab_resume is not None:
        return list(resume.resumable(config, config.stash[STORE_KEY]).plan.get("media", []))
    requested = list(dict.fromkeys(name for text in config.option.lab_medium or [] for name in text.split(",")))
    for name in requested:
        strategy.check_medium(name)
    release = config.stash.get(provisioning.RELEASE_KEY, None)
    media = requested or [name for name in strategy.media if release is None or name in release.media]
    if release is not None and not media:
        raise ConfigurationError(
            f"--lab-provision: release {release.name} has nothing for {', '.join(strategy.media)}, all that "
            f"{strategy.board} can boot from; it has {', '.join(release.media)}"
        )
    return media


def _check_options(config: pytest.Config) -> None:
    for option, (minimum, maximum) in LIMITS.items():
        value = getattr(config.option, f"lab_{option}", None)
        if isinstance(value, int) and not minimum <= value <= maximum:
            text = str(value)
            text = text if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}…"
            raise ConfigurationError(f"--lab-{option} {text}: a whole number from {minimum} to {maximum}")
    for entry in options.TABLE:
        entry.read(getattr(config.option, entry.dest, None), entry.pytest_flag)


def _asker(config: pytest.Config) -> Callable[[str], str]:
    """Prompt for manual drivers (ManualPowerDriver): `input` with the terminal.

    Returns: a function that shows a message and returns the typed line; EOFError without a terminal.
    """
    capture = config.pluginmanager.getplugin("capturemanager")

    def ask(message: str) -> str:
        if capture is None:
            return input(f"\n{message} ")
        capture.suspend(in_=True)
        try:
            return input(f"\n{message} ")
        finally:
            capture.resume()

    return ask
