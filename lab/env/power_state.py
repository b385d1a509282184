"""Power of a board, by its switch and its rails."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import define, field, frozen
from labgrid import Environment
from labgrid.exceptions import NoDriverFoundError, NoStrategyFoundError
from labgrid.resource import PDUDaemonPort, SerialPort

from lab import boards, package_data
from lab.boards.hardware import RAIL_OFF_V
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import ACTIVATE_LIMIT_S, CONSOLE, POWER, RAILS, STRAP, within
from lab.drivers.powerdriver import PDUDAEMON_PORT, Switch, is_on, last_command, switch_of
from lab.env import envfile
from lab.env.wiring import REMOTE
from lab.errors import BoardlabError, ConfigurationError

RAILS_LIMIT_S = 10.0
AGAIN_S = 0.1
DISCHARGE_S = 2.0  # where the board type does not say


@frozen
class PowerState:
    """Known state of a board's power.

    Attributes:
        server, pdu, outlet: see `lab.drivers.powerdriver.OutletId`.
        switch_says: "on", "off", "cannot tell", or "does not say: " and the error.
        volts: rail -> its voltage; empty: unknown.
        on: True if the board has power; None: unknown.
        last_command: of this host's programs, "on" or "off"; empty: none.
        last_command_at: seconds since 1970.
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
    """Power supply of a board: its switch and optional rails.

    Attributes:
        rails: driver of its rails; None: it has none.
        discharge_s: longest time in which its voltages fall after a switch-off.
        averaging_s: time over which the rails' voltages are averaged.
    """

    board: str
    switch: Switch
    rails: Any = None
    discharge_s: float = DISCHARGE_S
    averaging_s: float = field(default=0.5)

    def read(self) -> PowerState:
        """Ask the switch and the rails for the power state.

        The rails decide if they answer, since the switch only knows its last command.
        """
        outlet, volts = self.switch.outlet, dict[str, float]()
        if self.rails is not None:
            with contextlib.suppress(BoardlabError):  # then the switch decides
                volts = guarded_calls.call(
                    self.rails, RAILS, "read", lambda: self.rails.volts(self.averaging_s), RAILS_LIMIT_S
                )
        try:
            switch_on = is_on(self.switch)
            switch_says = "cannot tell" if switch_on is None else "on" if switch_on else "off"
        except BoardlabError as error:
            switch_on, switch_says = None, f"does not say: {error}"
        on = max(volts.values()) >= RAIL_OFF_V if volts else switch_on
        last = last_command(outlet)
        command, at = (last.command, last.at) if last is not None else ("", 0.0)
        return PowerState(self.board, outlet.server, outlet.pdu, outlet.number, switch_says, volts, on, command, at)

    def settle(self, *, on: bool) -> PowerState:
        """Wait until the power is as wanted, at most `discharge_s`.

        Returns:
            The last state; an unknown one (`on` is None) ends the wait, too.
        """
        end = time.monotonic() + self.discharge_s
        while (state := self.read()).on is (not on) and time.monotonic() < end:
            time.sleep(AGAIN_S)
        return state


def supply_of(env: str) -> Supply:
    """Power supply of an environment's board, ready to switch.

    Raises:
        ConfigurationError: there is no such environment, something in it is wrong, or it has no power driver.
        LabError: the power switch's resource is not there.
    """
    target, strategy, power = parts(env, "PowerProtocol", "power", "power")
    driver = getattr(power, "driver", power)  # a BoardStrategy has made a switch of it already
    board = str(getattr(strategy, "board", ""))
    supply = Supply(board or target.name, switch_of(driver, board), getattr(strategy, "rails", None))
    if (board_type := getattr(strategy, "type", None)) is not None:
        supply.discharge_s = board_type.timeouts.discharge_s
    guarded_calls.call(driver, POWER, "activate", lambda: target.activate(driver), ACTIVATE_LIMIT_S)
    return supply


CONNECT_LIMIT_S: Final = 3.0


def parts(env: str, protocol: str, slot: str, noun: str) -> tuple[Any, Any, Any]:
    """Return target, strategy or None, and a driver of an environment.

    Args:
        env: the environment's path, or a bare name.
        protocol: labgrid protocol that the driver implements, e.g. "PowerProtocol".
        slot: attribute of the strategy that holds the driver, e.g. "power".
        noun: what messages call the driver.

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


def run_problems(path: Path, *, elsewhere: bool = False) -> list[str]:
    """List everything in an environment that a run would refuse.

    Args:
        elsewhere: True: its board is at another host, so hardware missing on this one is no problem.
    """
    if problems := list(envfile.problems(path)):
        return problems
    is_for_runs = envfile.names(path, "BoardStrategy", *envfile.BOARD_OPTIONS)
    refusals = list(envfile.refusals(path)) if is_for_runs else []
    return refusals if elsewhere else [*refusals, *lacks(path)]


def lacks(path: Path) -> Iterator[str]:
    """Yield missing drivers, pdudaemons and serial ports of an environment.

    Targets with a RemotePlace are left out: their coordinator knows them.
    """
    try:
        targets = list(_make_targets(path))
    except ConfigurationError as error:
        yield str(error)
        return
    for role, target, hint in targets:
        yield from (f"{path}: targets.{role}: {problem}{hint}" for problem in _absent(target))


def _make_targets(path: Path) -> Iterator[tuple[str, Any, str]]:
    """Yield role, target and `bench_hint` of each target on this host.

    Raises:
        ConfigurationError: one cannot be made.
    """
    hint = ""
    try:
        env = Environment(str(path))
        targets = env.config.get_targets()
        hint = bench_hint(targets)
        for role, target in targets.items():
            if not _entry(target.get("resources"), REMOTE):
                yield role, env.get_target(role), hint
    except Exception as error:  # whatever a driver, or a module of the user's own, raises while it is made
        raise ConfigurationError(f"{path}: {getattr(error, 'msg', None) or error}{hint}") from error


def _absent(target: Any) -> Iterator[str]:
    target.update_resources()
    for resource in target.resources:
        if isinstance(resource, PDUDaemonPort):
            try:
                there = urlsplit(f"//{resource.host}")
                socket.create_connection((there.hostname or "", there.port or PDUDAEMON_PORT), CONNECT_LIMIT_S).close()
            except ValueError as error:
                yield f"PDUDaemonPort: `host` {resource.host!r} is not HOST or HOST:PORT ({error}): correct it"
            except OSError as error:
                yield f"PDUDaemonPort: no pdudaemon answers at {resource.host} ({error}): start it, or correct `host`"
        elif isinstance(resource, SerialPort):
            match, device = getattr(resource, "match", None), str(resource.port)
            if match and not getattr(resource, "avail", True):
                yield f"{type(resource).__name__}: no adapter is plugged in that fits {dict(match)}"
            elif not match and device.startswith("/") and not Path(device).exists():
                yield f"{type(resource).__name__}: there is no {device}"


def straps_of(env: str) -> tuple[Any, Any]:
    """Strategy and activated boot-mode driver of an environment.

    Raises:
        ConfigurationError: as of `parts`; or it has no BoardStrategy, which knows the boot modes.
        LabError: the resource of a strap is not there.
    """
    target, strategy, driver = parts(env, "BootModeDriver", "boot_mode", "boot-mode")
    if not hasattr(strategy, "type"):
        raise ConfigurationError(f"{env}: it has no BoardStrategy, so nothing says which value selects which medium")
    guarded_calls.call(driver, STRAP, "activate", lambda: target.activate(driver), ACTIVATE_LIMIT_S)
    return strategy, driver


def bench_hint(targets: Mapping[str, Any]) -> str:
    """Hint to start a virtual board's bench; empty: a real board.

    Args:
        targets: of labgrid's configuration.
    """
    main = targets.get("main") or {}
    name = _entry(main.get("drivers"), "BoardStrategy").get("board_type")
    if name not in boards.names() or not package_data.is_bench(
        _entry(main.get("resources"), "PDUDaemonPort").get("pdu")
    ):
        return ""
    arguments = "" if boards.load(name).virtual else f" sim --type {name}"
    return f" (is the virtual board up? start it with: lab virtual up{arguments})"


def _entry(entries: Any, kind: str) -> dict[str, Any]:
    """First entry of a kind in resources or drivers, or {}."""
    for entry in entries if isinstance(entries, list) else [entries or {}]:
        if kind in entry:
            return dict(entry[kind] or {})
    return {}


def console_device(env: str) -> str:
    """Path of the serial port of an environment's console.

    Raises:
        ConfigurationError: as of `parts`; or the console is no serial port of this host.
        LabError: the adapter is not there.
    """
    target, _, driver = parts(env, "ConsoleProtocol", "console", "console")
    port = getattr(driver, "port", None)
    if port is not None:  # a USB adapter is looked for
        guarded_calls.call(driver, CONSOLE, "find", lambda: target.await_resources([port]), ACTIVATE_LIMIT_S)
    device = str(getattr(port, "port", None) or "")
    if not device.startswith("/"):
        raise ConfigurationError(
            f"{env}: its console ({type(driver).__name__}) is no serial port of this host; run this where the port is"
        )
    return device
