"""Host of a board's console, for drivers with `at: console`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labgrid.exceptions import NoStrategyFoundError

from lab.drivers.stampedconsoledriver import StampedConsoleDriver
from lab.errors import ConfigurationError
from lab.host.runtime import prepare, runtime_dir
from lab.host.ssh import SshLink


def console_of(target: Any) -> StampedConsoleDriver | None:
    """Console of a target's strategy; None: none that names its host."""
    try:
        console = getattr(target.get_strategy(), "console", None)
    except NoStrategyFoundError:
        return None
    return console if isinstance(console, StampedConsoleDriver) else None


def link_of(target: Any, what: str) -> SshLink | None:
    """ssh connection to the console's host; None: it is this host.

    Args:
        what: the caller's name, for messages.

    Raises:
        ConfigurationError: the console does not name its host.
    """
    console = console_of(target)
    if console is None:
        raise ConfigurationError(
            f"{what}: `at: console` needs a BoardStrategy with a StampedConsoleDriver as its console"
        )
    if not console.elsewhere:
        return None
    return SshLink.to(console.elsewhere, prepare(Path(console.runtime) if console.runtime else runtime_dir()))
