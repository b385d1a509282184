"""When the plugin acts: the environment has a BoardStrategy. In every other session it is a guest, and does nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from labgrid.factory import target_factory

from lab import shipped
from lab.errors import ConfigurationError
from lab.redaction import redacted

STRATEGY: Final = "BoardStrategy"


def has_board(env: Any) -> bool:
    """Whether the main target of labgrid's Environment has a BoardStrategy, or a strategy that is derived from it."""
    main = env.config.get_targets().get("main") or {}
    classes = [target_factory.drivers.get(name) for name in _names(main.get("drivers"))]
    return any(cls is not None and STRATEGY in {base.__name__ for base in cls.__mro__} for cls in classes)


def check_one_process(config: pytest.Config) -> None:
    """Refuse pytest-xdist: a board has one console and one power switch, and workers show neither progress nor results.

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
    """Where neither the command line nor the settings name tests: `tests_perf` of this folder or, in a checkout, its own.

    pytest would take all that is below the folder. It does so in a folder of the user's own, whose tests they are.
    """
    if config.args_source is not pytest.Config.ArgsSource.INVOCATION_DIR:
        return
    folder = config.invocation_params.dir
    checkout, tests = shipped.checkout(), shipped.tests(folder)
    if tests.is_relative_to(folder) or (checkout and folder.is_relative_to(checkout)):
        config.args = [str(tests)]


def where_tests_are(config: pytest.Config) -> str:
    """For a session that was told no tests and has found none: how to name them."""
    words = ["pytest", f"--lg-env={Path(config.option.lg_env).absolute()}", str(shipped.folder(shipped.TESTS))]
    return f"no tests here. Name their folder: {shlex.join(words)}"


def resume_command(config: pytest.Config, run_id: int) -> str:
    """The command that goes on with a run, from any folder.

    The `=` matters: pytest takes a path that stands alone for a folder of tests when it looks for its settings.
    """
    words = ["pytest", f"--lg-env={Path(config.option.lg_env).absolute()}"]
    if config.option.inifilename:
        words += ["-c", str(Path(config.option.inifilename).absolute())]
    words += [*map(str, _absolute(config)), "--lab-resume", str(run_id)]
    database = database_of(config)
    return shlex.join([*words, *(["--lab-db", database] if database else [])])


def database_of(config: pytest.Config) -> str:
    """The database that the command line names, as a message names it for any folder; empty where it names none."""
    given = config.option.lab_db or ""
    return redacted(given) if "://" in given or not given else str(Path(given).absolute())


def _absolute(config: pytest.Config) -> Iterable[str]:
    """The session's tests, each with its whole path; a test's own name stays."""
    for given in config.args:
        path, colons, test = str(given).partition("::")
        yield f"{(config.invocation_params.dir / path).resolve()}{colons}{test}"


def _names(entries: Any) -> Iterable[str]:
    """The classes of an env's list or mapping of drivers; what is neither is labgrid's to refuse."""
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict):
            yield from map(str, entry)
            yield str(entry.get("cls", ""))
