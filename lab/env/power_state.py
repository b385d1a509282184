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
        switch_says: "on", "off", or the reason of its silence.
        volts: of each rail; empty: unknown.
        on: it has power; None: unknown.
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
        discharge_s: time in which its supplies fall.
        averaging_s: time of an average over its rails.
    """

    board: str
    switch: Switch
    rails: Any = None
    discharge_s: float = DISCHARGE_S
    averaging_s: float = field(default=0.5)

    def read(self) -> PowerState:
        """Ask switch and rails; rails count more.

        The switch only knows its last command.
        """
        outlet, volts = self.switch.outlet, dict[str, float]()
        if self.rails is not None:
            with contextlib.suppress(BoardlabError):  # the switch's word is left
                volts = guarded_calls.call(
                    self.rails, RAILS, "read", lambda: self.rails.volts(self.averaging_s), RAILS_LIMIT_S
                )
        try:
            state = is_on(self.switch)
            says = "cannot tell" if state is None else "on" if state else "off"
        except BoardlabError as error:
            state, says = None, f"does not say: {error}"
        on = max(volts.values()) >= RAIL_OFF_V if volts else state
        last = last_command(outlet)
        last_known = (last.command, last.at) if last is not None else ("", 0.0)
        return PowerState(self.board, outlet.server, outlet.pdu, outlet.number, says, volts, on, *last_known)

    def settle(self, *, on: bool) -> PowerState:
        """Wait until the power is as wanted, or `discharge_s`."""
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
    """Target, strategy or None, and one driver of an environment.

    Args:
        env: its path, or a bare name.
        protocol: of labgrid, that the driver has.
        slot: its name in a strategy.
        noun: its name in messages.

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
    """Everything in an environment that a run would refuse.

    Args:
        elsewhere: its board is another host's: what is missing here says nothing.
    """
    if found_problems := list(envfile.problems(path)):
        return found_problems
    found_problems = (
        list(envfile.refusals(path)) if envfile.names(path, "BoardStrategy", *envfile.BOARD_OPTIONS) else []
    )
    return found_problems if elsewhere else [*found_problems, *lacks(path)]


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
    """The targets of this host by their roles, each with its `bench_hint`.

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
            there = urlsplit(resource.host if "//" in resource.host else f"//{resource.host}")
            host, port = there.hostname or "", there.port or PDUDAEMON_PORT
            try:
                socket.create_connection((host, port), CONNECT_LIMIT_S).close()
            except OSError as error:
                yield f"PDUDaemonPort: no pdudaemon answers at {host}:{port} ({error}): start it, or correct `host`"
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
