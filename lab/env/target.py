"""The target of an environment, for commands that use one driver of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labgrid import Environment
from labgrid.exceptions import NoDriverFoundError, NoStrategyFoundError

from lab.drivers import guarded
from lab.drivers.guarded import ACTIVATE_LIMIT_S, CONSOLE
from lab.drivers.timelimit import within
from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError


def parts(env: str, protocol: str, slot: str, noun: str) -> tuple[Any, Any, Any]:
    """The target of an environment, its strategy (None where it has none), and one driver.

    Args:
        env: its path, or a bare name. protocol: of labgrid, that the driver has. slot: what a strategy calls it.
        noun: what messages call it.

    Raises:
        ConfigurationError: there is no such environment, something in it is wrong, or it has no such driver.
        LabError: its coordinator does not answer.
    """
    path = envfile.find(env, Path.cwd())
    envfile.check(path)
    try:
        target = within(ACTIVATE_LIMIT_S, Environment(str(path)).get_target)  # a RemotePlace asks its coordinator
        try:
            strategy = target.get_strategy()
        except NoStrategyFoundError:
            strategy = None
        return target, strategy, getattr(strategy, slot, None) or target.get_driver(protocol, activate=False)
    except BoardlabError:
        raise
    except NoDriverFoundError as error:
        raise ConfigurationError(f"{path}: it has no {noun} driver: add one to the target's drivers") from error
    except Exception as error:
        raise ConfigurationError(f"{path}: {getattr(error, 'msg', None) or error}") from error


def console_device(env: str) -> str:
    """The path of the serial port on which the console of an environment's board is.

    Raises:
        ConfigurationError: as of `parts`; or the console is no serial port of this host.
        LabError: the adapter is not there.
    """
    target, _, driver = parts(env, "ConsoleProtocol", "console", "console")
    port = getattr(driver, "port", None)
    if port is not None:  # a USB adapter is looked for
        guarded.call(driver, CONSOLE, "find", lambda: target.await_resources([port]), ACTIVATE_LIMIT_S)
    device = str(getattr(port, "port", None) or "")
    if not device.startswith("/"):
        raise ConfigurationError(
            f"{env}: its console ({type(driver).__name__}) is no serial port of this host; run this where the port is"
        )
    return device
