"""A board of an environment without a BoardStrategy, by labgrid's own drivers, for `measure`.

Its tests bring it into its states; boardlab only names it, holds it, and switches it off where a cycle begins so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from attrs import define, field, frozen
from labgrid.exceptions import NoDriverFoundError
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY
from labgrid.resource.remote import RemotePlace

from lab.console.model import Event
from lab.console.status import PortInfo
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import ACTIVATE_LIMIT_S, POWER, SHELL, within
from lab.env.envfile import BOARD_OPTIONS
from lab.errors import BoardlabError, ConfigurationError

_TYPE: Final = "labgrid"  # of a board whose environment names none
_OFF: Final = "off"


@frozen
class _Type:
    """The type of a board that no file describes."""

    name: str
    title: str
    virtual: bool = False


@define(eq=False)
class NoConsole:
    """The console of a board that the console server does not read: no recording, no stamps."""

    capture: list[Event] = field(factory=list)
    info: PortInfo | None = None
    local_device: str | None = None
    simulated: bool = False

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        return error

    def start_capture(self) -> None: ...

    def captured(self) -> bytes:
        return b""

    def overruns(self) -> int:
        return 0


@define(eq=False, slots=False)
class LabgridBoard:
    """A board of labgrid's own drivers, for a run of `measure`.

    Attributes:
        target: labgrid's main one.
    """

    target: Any
    board: str
    type: _Type
    medium: str = ""
    media: tuple[str, ...] = ()
    console: NoConsole = field(factory=NoConsole)
    software: Mapping[str, str] = field(factory=dict)
    expected: Mapping[str, Mapping[str, str]] = field(factory=dict)
    rails: None = None

    def check_medium(self, medium: str) -> None:
        """Refuse any medium: nothing selects one.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(
            f"--lab-medium {medium}: the environment of {self.board} has no BoardStrategy to select it"
        )

    def check_lab(self) -> None:
        """The tests reach the equipment themselves."""

    def transition(self, status: str) -> None:
        """Switch off, by the target's strategy, else by its power driver.

        Raises:
            ConfigurationError: it has neither. BoardlabError: the driver failed.
        """
        if status != _OFF:
            raise ConfigurationError(
                f"{self.board}: its environment has no BoardStrategy, so nothing brings it to {status!r}"
            )
        try:
            strategy = self.target.get_driver("Strategy")
        except NoDriverFoundError:
            pass
        else:
            guarded_calls.call(strategy, SHELL, "off", lambda: strategy.transition(_OFF), ACTIVATE_LIMIT_S)
            return
        try:
            power = self.target.get_driver("PowerProtocol", activate=False)
        except NoDriverFoundError as error:
            raise ConfigurationError(
                f"{self.board}: a cycle begins from power off, and its environment has neither a strategy nor a power "
                'driver: add one, or let cycles begin as the board is: @pytest.mark.cycles(20, start="warm")'
            ) from error
        guarded_calls.call(power, POWER, "activate", lambda: self.target.activate(power), ACTIVATE_LIMIT_S)
        guarded_calls.call(power, POWER, "off", power.off, guarded_calls.POWER_LIMIT_S)


def of_session(config: pytest.Config) -> LabgridBoard:
    """The board of the session's environment.

    Raises:
        ConfigurationError: nothing names it. Exception: labgrid's, of a wrong environment.
    """
    env = config.stash[LABGRID_ENV_KEY]
    target = within(ACTIVATE_LIMIT_S, env.get_target)
    place = next((resource.name for resource in target.resources if isinstance(resource, RemotePlace)), "")
    named = {name: env.config.get_target_option("main", name, "") or "" for name in BOARD_OPTIONS}
    for name, text in named.items():
        if not isinstance(text, str):
            raise ConfigurationError(f"{env.config_file}: targets.main.options.{name}: expected a text, got {text!r}")
    board = named["board"] or place
    if not board:
        raise ConfigurationError(
            f"{env.config_file}: nothing names the board whose numbers these are: give it a name of its own at "
            "targets.main.options.board"
        )
    kind = named["board_type"] or _TYPE
    return LabgridBoard(target, board, _Type(kind, kind))
