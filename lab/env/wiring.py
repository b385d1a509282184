"""What an environment's drivers are wired to, and what their arguments are: before labgrid makes any of them.

labgrid finds a wrong wiring only when it makes the target, with a traceback; some things that it lets pass make wrong
numbers. `problems` names them all at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import attr
from attrs import frozen
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.resource import Resource, SerialPort
from labgrid.strategy import Strategy

from lab import boards
from lab.drivers.automationdrivers import AutomationBootModeDriver, AutomationPowerDriver
from lab.drivers.bootmodedriver import BootModeDriver
from lab.drivers.multiplexedcarddriver import MultiplexedCardDriver
from lab.drivers.railsdriver import RailsDriver
from lab.drivers.railsensors import AT_CONSOLE, RailSensors
from lab.drivers.stampedconsoledriver import StampedConsoleDriver
from lab.drivers.ubootwriterdriver import UBootWriterDriver
from lab.errors import ConfigurationError
from lab.rails import from_env

_SLOW_RAW = "NetworkSerialPort"
_BYTE_BY_BYTE = "SerialDriver"
REMOTE = "RemotePlace"
_MULTIPLEXERS = frozenset({"USBSDMuxDevice", "USBSDWireDevice", "USBSDWire3Device", "VirtualSDMux"})
_AUTOMATION = frozenset({"AutomationPort"})
_ONLY_HERE = {
    MultiplexedCardDriver: _MULTIPLEXERS | {"USBSDMuxDriver", "USBSDWireDriver", "USBSDWire3Driver"},
    AutomationPowerDriver: _AUTOMATION,
    AutomationBootModeDriver: _AUTOMATION,
    RailsDriver: frozenset({"RailSensors"}),
}


@frozen
class TargetComponent:
    """A resource or a driver of a target.

    Attributes:
        place: where it stands in the file, e.g. "targets.main.drivers.StampedPDUDaemonDriver".
        cls: what it will be. arguments: without name and bindings.
    """

    place: str
    cls: type
    name: str | None
    bindings: dict[str, str]
    arguments: dict[str, Any]

    @property
    def shown(self) -> str:
        """For a message."""
        return self.cls.__name__ + (f" {self.name!r}" if self.name else "")


def problems(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """What is wrong with a target, each with its place and its mend."""
    for entry in (*resources, *drivers):
        yield from _arguments(entry)
    yield from _ports(resources, drivers)
    yield from _twice((*resources, *drivers))
    yield from _rails(resources, drivers)
    if any(entry.cls.__name__ == REMOTE for entry in resources):
        yield from _elsewhere(resources, drivers)
        return  # what else the place has is known only once the coordinator has told
    for number, driver in enumerate(drivers):
        yield from _wiring(driver, resources, drivers[:number], drivers[number + 1 :])


def _arguments(entry: TargetComponent) -> Iterator[str]:
    """Values that labgrid's validators will refuse, and required ones that are missing."""
    for attribute in attr.fields(entry.cls):
        if not attribute.init or attribute.name in {"target", "name", "state"}:
            continue
        if attribute.name not in entry.arguments:
            if attribute.default is attr.NOTHING:
                yield f"{entry.place}: {attribute.name} is missing"
            continue
        value = entry.arguments[attribute.name]
        if attribute.validator is None:
            continue
        try:
            attribute.validator(None, attribute, value)
        except (TypeError, ValueError) as error:
            wanted = getattr(attribute.validator, "type", None) or getattr(
                getattr(attribute.validator, "validator", None), "type", None
            )
            if wanted is float and type(value) is int:
                yield f"{entry.place}: {attribute.name}: {value} is a whole number; write {value}.0"
            elif isinstance(wanted, type):
                yield f"{entry.place}: {attribute.name}: expected {wanted.__name__}, got {value!r}"
            else:
                yield f"{entry.place}: {attribute.name}: {error.args[0] if error.args else error}"


def _ports(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    if not any(_measures(entry.cls) for entry in drivers) or not any(
        entry.cls.__name__ == _BYTE_BY_BYTE for entry in drivers
    ):
        return
    for entry in resources:
        if entry.cls.__name__ == _SLOW_RAW and entry.arguments.get("protocol") == "raw":
            yield (
                f"{entry.place}: protocol: raw is read one byte at a time, slower than a console of 115200 Bd speaks, "
                "and its bytes have no stamps: StampedConsoleDriver in SerialDriver's place reads it in blocks"
            )


def _measures(cls: type) -> bool:
    """Whether a driver times what comes from the port."""
    return issubclass(cls, StampedConsoleDriver) or "BoardStrategy" in {base.__name__ for base in cls.__mro__}


def _rails(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Rails that cannot be measured, for the board type that the strategy names."""
    types = [str(entry.arguments["board_type"]) for entry in drivers if "board_type" in entry.arguments]
    for entry in resources:
        if issubclass(entry.cls, RailSensors) and types and types[0] in boards.names():
            try:
                wired = {key: value for key, value in entry.arguments.items() if key != "at"}
                from_env("this board", board_type=boards.load(types[0]), **{"rails": {}, **wired})
            except ConfigurationError as error:
                yield f"{entry.place}: {error}"


def _elsewhere(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """What cannot be done on a board of another host, whatever its place has."""
    console_is_here = any(issubclass(entry.cls, SerialPort) for entry in resources)
    for entry in resources:
        if issubclass(entry.cls, RailSensors) and not console_is_here and entry.arguments.get("at", "") != AT_CONSOLE:
            yield (
                f"{entry.place}: the board's console is the place's, and these sensors are this host's: no clock relates the two. Plug the "
                "sensors in where the console is, and write `at: console`; `lab rails serve` samples them there"
            )
    for driver in drivers:
        if driver.arguments.get("at") == AT_CONSOLE and not any(
            issubclass(each.cls, StampedConsoleDriver) for each in drivers
        ):
            yield f"{driver.place}: `at: console` needs a StampedConsoleDriver: the console of this target does not say where it is"
        if issubclass(driver.cls, UBootWriterDriver) and driver.arguments.get("over") == "usb" and not console_is_here:
            yield (
                f"{driver.place}: over: usb: a place cannot give the board's USB port: write over the network (`over: tftp`) or the console, or "
                "run this on the board's host, with an env without RemotePlace"
            )
        needs = _ONLY_HERE.get(driver.cls, ())
        if needs and not any(entry.cls.__name__ in needs for entry in (*resources, *drivers)):
            yield (
                f"{driver.place}: it works only on the host that the hardware is plugged into, and this target has none of: "
                f"{', '.join(sorted(needs))}. A place cannot give it: run this on the board's host, with an env without RemotePlace, or leave "
                "the driver out"
            )


def _twice(entries: Sequence[TargetComponent]) -> Iterator[str]:
    seen: set[tuple[type, str]] = set()
    for entry in entries:
        if entry.name is None:
            continue
        key = (entry.cls, entry.name)
        if key in seen:
            yield f"{entry.place}: there are two called {entry.name!r}"
        seen.add(key)


def _wiring(
    driver: TargetComponent,
    resources: Sequence[TargetComponent],
    before: Sequence[TargetComponent],
    after: Sequence[TargetComponent],
) -> Iterator[str]:
    if issubclass(driver.cls, BootModeDriver):
        names = {entry.name for entry in before}
        for bit, name in driver.arguments.get("lines", {}).items():
            if name not in names:
                yield f"{driver.place}: lines: bit {bit}: no driver is called {name!r} above it"
        return
    slots = _slots(driver.cls)
    for slot in driver.bindings:
        if slot not in slots and not issubclass(driver.cls, Strategy):
            yield f"{driver.place}: bindings: it has no slot {slot!r}; its slots are: {', '.join(slots) or 'none'}"
    for slot, requirements in slots.items():
        wanted = [_class(requirement) for requirement in requirements if requirement is not None]
        if None not in wanted:
            yield from _slot(driver, slot, wanted, (resources, before, after), optional=None in requirements)


def _slot(
    driver: TargetComponent,
    slot: str,
    wanted: Sequence[Any],
    around: tuple[Sequence[TargetComponent], Sequence[TargetComponent], Sequence[TargetComponent]],
    *,
    optional: bool,
) -> Iterator[str]:
    resources, before, after = around
    kinds = " or ".join(sorted(kind.__name__ for kind in wanted))
    fitting = [entry for entry in (*resources, *before) if issubclass(entry.cls, tuple(wanted))]
    name = driver.bindings.get(slot)
    if name is not None:
        if not any(entry.name == name for entry in fitting):
            there = ", ".join(repr(entry.name) for entry in fitting if entry.name) or "none with a name"
            yield f"{driver.place}: bindings: {slot}: no {kinds} is called {name!r} above it; there are: {there}"
    elif not fitting and not optional:
        late = [entry for entry in after if issubclass(entry.cls, tuple(wanted))]
        mend = f"move {late[0].shown} above it" if late else f"add one to the target's {_room(wanted)}"
        yield f"{driver.place}: it needs a {kinds}; {mend}"
    elif len(_undecided(fitting)) > 1:
        shown = ", ".join(entry.shown for entry in fitting)
        yield (
            f"{driver.place}: {slot} may be any of: {shown}; give each a `name:` and say which with "
            f"`bindings: {{{slot}: NAME}}`"
        )


def _undecided(fitting: Sequence[TargetComponent]) -> Sequence[TargetComponent]:
    """Those that labgrid cannot choose among: a resource called "default" wins."""
    preferred = [entry for entry in fitting if entry.name == "default" and issubclass(entry.cls, Resource)]
    return preferred or fitting


def _slots(cls: type) -> dict[str, set[Any]]:
    slots = {}
    for slot, requirement in getattr(cls, "bindings", {}).items():
        inner = requirement.value if isinstance(requirement, Driver.NamedBinding) else requirement
        slots[slot] = set(inner) if isinstance(inner, set) else {inner}
    return slots


def _class(requirement: Any) -> Any:
    """The class of a requirement; None for one that labgrid does not know either."""
    if isinstance(requirement, str):
        return target_factory.all_classes.get(requirement)
    return requirement if inspect.isclass(requirement) else None


def _room(wanted: Sequence[Any]) -> str:
    return "resources" if any(issubclass(kind, Resource) for kind in wanted) else "drivers"
