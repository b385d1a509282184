"""Whether a board has power, as far as anybody can tell: its power switch, and its rails."""

from __future__ import annotations

import time
from typing import Any

from attrs import define, field, frozen

from lab.boards.hardware import RAIL_OFF_V
from lab.drivers import guarded
from lab.drivers.guarded import ACTIVATE_LIMIT_S, POWER, RAILS
from lab.drivers.outlets import last_command
from lab.drivers.switching import Switch, is_on, switch_of
from lab.env import target as env_target
from lab.errors import BoardlabError

RAILS_LIMIT_S = 10.0
AGAIN_S = 0.1
DISCHARGE_S = 2.0  # where the board type does not say


@frozen
class Powered:
    """What is known of a board's power.

    Attributes:
        server, pdu, outlet: see `lab.drivers.outlets.Outlet`.
        switch_says: "on", "off", or why it does not say.
        volts: what the rails read; empty: nobody knows.
        on: whether it has power; None: nobody can tell.
        last_command: of this host's programs, "on" or "off"; empty: none. last_command_at: seconds since 1970.
    """

    board: str
    server: str
    pdu: str
    outlet: str
    switch_says: str
    volts: dict[str, float]
    on: bool | None
    last_command: str = ""
    last_command_at: float = 0.0


@define(eq=False)
class Supply:
    """The power of a board: its switch, and its rails where the environment has any.

    Attributes:
        discharge_s: how long its supplies take to fall.
        averaging_s: over which its rails are read.
    """

    board: str
    switch: Switch
    rails: Any = None
    discharge_s: float = DISCHARGE_S
    averaging_s: float = field(default=0.5)

    def read(self) -> Powered:
        """Ask whoever can tell. Rails count for more than the switch: it knows only what it did."""
        outlet, volts = self.switch.outlet, self._volts()
        try:
            state = is_on(self.switch)
            says = "cannot tell" if state is None else "on" if state else "off"
        except BoardlabError as error:
            state, says = None, f"does not say: {error}"
        on = max(volts.values()) >= RAIL_OFF_V if volts else state
        last = last_command(outlet)
        known = (last.command, last.at) if last is not None else ("", 0.0)
        return Powered(self.board, outlet.server, outlet.pdu, outlet.number, says, volts, on, *known)

    def settled(self, *, on: bool) -> Powered:
        """Look until the board's power is as wanted, or its supplies had time for it."""
        end = time.monotonic() + self.discharge_s
        while (found := self.read()).on is (not on) and time.monotonic() < end:
            time.sleep(AGAIN_S)
        return found

    def _volts(self) -> dict[str, float]:
        if self.rails is None:
            return {}
        try:
            found: dict[str, float] = guarded.call(
                self.rails, RAILS, "read", lambda: self.rails.volts(self.averaging_s), RAILS_LIMIT_S
            )
        except BoardlabError:
            return {}
        return found


def supply_of(env: str) -> Supply:
    """The power of the board that an environment describes, ready to be switched.

    Raises:
        ConfigurationError: there is no such environment, something in it is wrong, or it has no power driver.
        LabError: the power switch's resource is not there.
    """
    target, strategy, power = env_target.parts(env, "PowerProtocol", "power", "power")
    driver = getattr(power, "driver", power)  # a BoardStrategy has made a switch of it already
    board = str(getattr(strategy, "board", ""))
    supply = Supply(board or target.name, switch_of(driver, board), getattr(strategy, "rails", None))
    if (board_type := getattr(strategy, "type", None)) is not None:
        supply.discharge_s = board_type.timeouts.discharge_s
    guarded.call(driver, POWER, "activate", lambda: target.activate(driver), ACTIVATE_LIMIT_S)
    return supply
