"""Sessions of the plugin: their environment has a BoardStrategy.

In every other session it does nothing.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from labgrid.factory import target_factory

from lab import package_data
from lab.errors import BoardlabError, ConfigurationError, LabError
from lab.jobs.records import JOB_VARIABLE
from lab.redaction import redact
from lab.terminal import plain_text

STRATEGY: Final = "BoardStrategy"


def has_board(env: Any) -> bool:
    """Return whether labgrid's main target has a BoardStrategy.

    A derived strategy counts.
    """
    from lab.env import wiring  # noqa: PLC0415 - every pytest loads this module

    main = env.config.get_targets().get("main") or {}
    classes = [target_factory.drivers.get(name) for name in _names(main.get("drivers"))]
    return any(cls is not None and wiring.is_board_strategy(cls) for cls in classes)


def sayer(config: pytest.Config) -> Callable[[str], None]:
    """Return a function that writes a line to the terminal."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return (lambda _line: None) if reporter is None else reporter.write_line


def check_one_process(config: pytest.Config) -> None:
    """Refuse pytest-xdist: a board needs one process.

    It has one console and one power switch, and workers show neither progress nor results.

    Raises:
        ConfigurationError: tests are to run in worker processes.
    """
    workers = getattr(config.option, "tx", None) or []
    if workers and getattr(config.option, "dist", "no") != "no":
        raise ConfigurationError(
            f"pytest-xdist would start {len(workers)} worker{'s' * (len(workers) > 1)} (-n, --dist), and a board is "
            "measured by one process that shows its progress and results: leave -n out, or say -n 0"
        )


def choose_tests(config: pytest.Config) -> None:
    """Default to `tests_perf` if no tests are named.

    It is the folder's own, or that of the checkout.

    pytest would take all that is below the folder. It does so in a folder of the user's own, whose tests they are.
    """
    if config.args_source is not pytest.Config.ArgsSource.INVOCATION_DIR:
        return
    folder = config.invocation_params.dir
    checkout, tests = package_data.checkout(), package_data.tests(folder)
    if tests.is_relative_to(folder) or (checkout and folder.is_relative_to(checkout)):
        config.args = [str(tests)]


def where_tests_are(config: pytest.Config) -> str:
    """Hint to name the tests, for a session without any."""
    argv = [
        "pytest",
        f"--lg-env={Path(config.option.lg_env).absolute()}",
        str(package_data.folder(package_data.TESTS)),
    ]
    return f"no tests here. Name their folder: {shlex.join(argv)}"


def resume_command(config: pytest.Config, run_id: int) -> str:
    """The command that goes on with a run, from any folder.

    The `=` matters: pytest takes a path that stands alone for a folder of tests when it looks for its settings.
    """
    argv = ["pytest", f"--lg-env={Path(config.option.lg_env).absolute()}"]
    if config.option.inifilename:
        argv += ["-c", str(Path(config.option.inifilename).absolute())]
    for argument in config.args:
        path, colons, test = str(argument).partition("::")
        argv.append(f"{(config.invocation_params.dir / path).resolve()}{colons}{test}")
    argv += ["--lab-resume", str(run_id)]
    database = database_of(config)
    return shlex.join([*argv, *(["--lab-db", database] if database else [])])


def database_of(config: pytest.Config) -> str:
    """Database of the command line, absolute; empty: none."""
    url = config.option.lab_db or ""
    return redact(url) if "://" in url or not url else str(Path(url).absolute())


def _names(entries: Any) -> Iterable[str]:
    """Yield the classes in a list or mapping of drivers.

    labgrid refuses other shapes.
    """
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict):
            yield from map(str, entry)
            yield str(entry.get("cls", ""))


# fixture -> the kind of run that it measures for
MEASURERS: Final[Mapping[str, str]] = {
    "boot_measurer": "boot",
    "low_power_measurer": "low_power",
    "section_measurer": "sections",
    "measure_measurer": "measure",
}
_REFUSED_KEY = pytest.StashKey[str]()


def measures(item: pytest.Item) -> str:
    """Kind of run that a test measures for; empty: none."""
    return next((kind for fixture, kind in MEASURERS.items() if fixture in getattr(item, "fixturenames", ())), "")


def refuse(config: pytest.Config, items: list[pytest.Item], why: str) -> None:
    """Refuse the tests that measure; the others are none of our business.

    Raises:
        pytest.UsageError: there is one, named with why. A worker that raises it dies, and xdist with an internal error.
    """
    needing = next((item for item in items if measures(item)), None)
    if needing is None:
        return
    message = f"{needing.nodeid} measures a board{why}"
    if not hasattr(config, "workerinput"):
        raise pytest.UsageError(message)
    config.stash[_REFUSED_KEY] = message


def ending(error: BoardlabError, message: str) -> Exception:
    """Exception that ends a session without measurements.

    For `lab run`, a fault of the lab is no usage error.
    """
    if (code := exit_code(error)) == pytest.ExitCode.USAGE_ERROR:
        return pytest.UsageError(plain_text(message))
    return pytest.exit.Exception(plain_text(f"[{error.failure}, fault: {error.fault}] {message}"), code)


@contextmanager
def ending_off(strategy: Any) -> Iterator[None]:
    """Switch the board off and end the session on failure.

    The session has measured nothing yet.

    Raises:
        ConfigurationError: as it was raised.
        pytest.exit.Exception: of any other error of ours, with exit code 1.
    """
    try:
        yield
    except ConfigurationError:
        raise
    except BaseException as error:
        with suppress(BoardlabError):
            strategy.transition("off")
        if not isinstance(error, BoardlabError):
            raise
        pytest.exit(plain_text(f"[{error.failure}, fault: {error.fault}] {error}"), returncode=1)


def exit_code(error: BoardlabError) -> int:
    """Of a session that an error ends before it measures."""
    if not (isinstance(error, LabError) and JOB_VARIABLE in os.environ):
        return pytest.ExitCode.USAGE_ERROR
    from lab.farm.runner import BROKEN, BUSY  # noqa: PLC0415 - sessions that begin have no use for it

    return BUSY if error.transient else BROKEN


def fail_if_refused(item: pytest.Item) -> None:
    """At a test's set-up: fail it where a worker has refused it."""
    message = item.config.stash.get(_REFUSED_KEY, "")
    if message and measures(item):
        pytest.fail(message, pytrace=False)
