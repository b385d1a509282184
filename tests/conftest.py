"""What all tests of boardlab's own code share."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from hypothesis import HealthCheck, settings
from labgrid.factory import TargetFactory
from sqlalchemy import Connection, inspect, text
from support.warm_start import ADDRESS, WarmPopen, WarmStarts

from lab.results import schema
from lab.results.schema import NEWEST, VERSION_TABLE

# A shell starts background jobs with SIGINT ignored, and programs inherit that. Tests that press Ctrl-C must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests read whole rows of tables; those of narrow screens say how narrow.
os.environ["COLUMNS"] = "200"

# Hypothesis without its limits of time: they measure the machine, not the code.
for profile, examples in (("ci", 25), ("soak", 300)):
    settings.register_profile(
        profile, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("soak" if os.environ.get("BOARDLAB_SOAK") else "ci")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process more than there are cores: tests wait for disks and for other programs for a third of their time."""
    return (os.cpu_count() or 1) + 1


WARM_STARTS = pytest.StashKey[WarmStarts]()


def pytest_configure(config: pytest.Config) -> None:
    """Hide the user's own results; start our programs warm beside workers."""
    if hasattr(config, "workerinput"):
        if ADDRESS in os.environ:
            WarmPopen.install()
        return
    home = tempfile.TemporaryDirectory()
    config.add_cleanup(home.cleanup)
    os.environ["XDG_DATA_HOME"] = home.name
    if getattr(config.option, "numprocesses", None):
        config.stash[WARM_STARTS] = WarmStarts()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, which took a quarter of the time; later it looks less often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the fork server of this session."""
    if WARM_STARTS in config.stash:
        config.stash[WARM_STARTS].close()


@pytest.fixture(scope="session", autouse=True)
def _files_registered_again() -> Iterator[None]:
    """Let labgrid load a file once more: a program of ours has one Environment, and a process of tests many."""
    register = TargetFactory.reg_driver

    def again(factory: TargetFactory, cls: type) -> type:
        known = factory.drivers.get(cls.__name__)
        if known is not None and known.__module__ == cls.__module__:
            del factory.drivers[cls.__name__], factory.all_classes[cls.__name__]
        return register(factory, cls)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TargetFactory, "reg_driver", again)
        yield


@pytest.fixture(scope="session", autouse=True)
def _tables_by_copy() -> Iterator[None]:
    """Run the migrations of a new store once: they cost a tenth of a second."""
    upgrade, found_in, tables = command.upgrade, ScriptDirectory.from_config, list[str]()
    scripts = found_in(schema._config())

    def known(config: Config) -> ScriptDirectory:
        return found_in(config) if config.get_main_option("version_locations") else scripts

    def copied(config: Config, revision: str) -> None:
        connection: Connection = config.attributes["connection"]
        new = connection.dialect.name == "sqlite" and revision == "head" and not inspect(connection).get_table_names()
        if not new or not tables:
            upgrade(config, revision)
        if new and not tables:
            found = connection.execute(text("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY rowid"))
            tables.extend(found.scalars())
        elif new:
            for statement in tables:
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{NEWEST}')")  # noqa: S608 - our names

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "upgrade", copied)
        patch.setattr(ScriptDirectory, "from_config", known)
        yield
