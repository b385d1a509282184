"""Checks of drivers' wiring and arguments, before labgrid makes them.

labgrid finds a wrong wiring only when it makes the target, with a traceback; some mistakes that it lets pass make
wrong numbers. `problems` names them all at once.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attr
from attrs import frozen
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.resource import NetworkService, Resource, SerialPort
from labgrid.strategy import Strategy

from lab import boards
from lab.boards import BoardType
from lab.drivers.automationdrivers import AutomationBootModeDriver, AutomationPowerDriver
from lab.drivers.bootmodedriver import BootModeDriver, bits
from lab.drivers.multiplexedcarddriver import MultiplexedCardDriver
from lab.drivers.railsdriver import AT_CONSOLE, RailsDriver, RailSensors
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
# Driver -> its pattern -> the kind of prompt, and what a board prints there.
_PROMPTS: Final = {
    "UBootDriver": {"prompt": ("uboot", "=> "), "autoboot": ("autoboot", "Hit any key to stop autoboot:  2 ")},
    "ShellDriver": {"prompt": ("shell", "root@{host}:~# "), "login_prompt": ("login", "{host} login: ")},
}


@frozen
class TargetComponent:
    """A resource or a driver of a target.

    Attributes:
        place: where it stands in the file, e.g. "targets.main.drivers.StampedPDUDaemonDriver".
        cls: what it will be.
        arguments: without name and bindings.
    """

    place: str
    cls: type
    name: str | None
    bindings: dict[str, str]
    arguments: dict[str, Any]

    @property
    def label(self) -> str:
        """For a message."""
        return self.cls.__name__ + (f" {self.name!r}" if self.name else "")


def problems(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield a target's mistakes, each with its place and remedy."""
    wrong = {entry.place: list(_arguments(entry)) for entry in (*resources, *drivers)}
    for mistakes in wrong.values():
        yield from mistakes
    sound = [entry for entry in drivers if not wrong[entry.place]]
    yield from _ports(resources, drivers)
    yield from _twice((*resources, *drivers))
    yield from _board(sound)
    yield from _rails([entry for entry in resources if not wrong[entry.place]], sound)
    if any(entry.cls.__name__ == REMOTE for entry in resources):
        yield from _elsewhere(resources, drivers)
        return  # the place's other resources are known only after the coordinator's answer
    for number, driver in enumerate(drivers):
        services = [service for earlier in drivers[:number] for service in _docker_services(earlier)]
        yield from _wiring(driver, [*resources, *services], drivers[:number], drivers[number + 1 :])


def _docker_services(driver: TargetComponent) -> Iterator[TargetComponent]:
    """Yield the NetworkServices that a DockerDaemon makes for its driver."""
    if driver.cls.__name__ == "DockerDriver":
        for service in driver.arguments.get("network_services") or ():
            name = service.get("name", "NetworkService") if isinstance(service, dict) else None
            yield TargetComponent(driver.place, NetworkService, name, {}, {})


def is_own(cls: type) -> bool:
    """Return whether a class is boardlab's, or derived from one of them."""
    return is_board_strategy(cls) or any(base.__module__.partition(".")[0] == "lab" for base in cls.__mro__)


def _arguments(entry: TargetComponent) -> Iterator[str]:
    """Yield the arguments that labgrid refuses, and required ones that are missing.

    Its own converters and validators decide, without the rest of the constructor, which may look at devices.
    """
    bare = type(entry.cls.__name__, (entry.cls,), {"__attrs_post_init__": lambda _self: None})
    try:
        bare(None, entry.name, **entry.arguments)
    except Exception as error:  # noqa: BLE001 - a converter or validator of the user's own may raise anything
        yield from list(_wrong_arguments(entry)) or [f"{entry.place}: {error}"]


def _wrong_arguments(entry: TargetComponent) -> Iterator[str]:
    for attribute in attr.fields(entry.cls):
        if not attribute.init or attribute.name in {"target", "name", "state"}:
            continue
        if attribute.name not in entry.arguments:
            if attribute.default is attr.NOTHING:
                yield f"{entry.place}: {attribute.name} is missing"
            continue
        value, validator = entry.arguments[attribute.name], None
        try:
            if callable(attribute.converter):
                value = attribute.converter(value)
            validator = attribute.validator
            if validator is not None:
                validator(None, attribute, value)
        except ConfigurationError as error:
            yield f"{entry.place}: {str(error).removeprefix(f'{entry.cls.__name__}: ')}"
        except Exception as error:  # noqa: BLE001 - as above
            expected_type = getattr(validator, "type", None) or getattr(
                getattr(validator, "validator", None), "type", None
            )
            if expected_type is float and type(value) is int:
                yield f"{entry.place}: {attribute.name}: {value} is a whole number; write {value}.0"
            elif isinstance(expected_type, type):
                yield f"{entry.place}: {attribute.name}: expected {expected_type.__name__}, got {value!r}"
            else:
                yield f"{entry.place}: {attribute.name}: {error.args[0] if error.args else error}"


def _ports(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    times_bytes = any(issubclass(entry.cls, StampedConsoleDriver) or is_board_strategy(entry.cls) for entry in drivers)
    if not times_bytes or not any(entry.cls.__name__ == _BYTE_BY_BYTE for entry in drivers):
        return
    for entry in resources:
        if entry.cls.__name__ == _SLOW_RAW and entry.arguments.get("protocol") == "raw":
            yield (
                f"{entry.place}: protocol: raw is read one byte at a time, slower than a console of 115200 Bd speaks, "
                "and its bytes have no stamps: StampedConsoleDriver in SerialDriver's place reads it in blocks"
            )


def _rails(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield rails that cannot be measured on the strategy's board type."""
    board_type = _type_of(drivers)
    for entry in resources:
        if issubclass(entry.cls, RailSensors) and board_type is not None:
            try:
                wired = {key: value for key, value in entry.arguments.items() if key != "at"}
                from_env("this board", board_type=board_type, **{"rails": {}, **wired})
            except ConfigurationError as error:
                yield f"{entry.place}: {error}"


def _board(drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield unknown board types, and media that they lack."""
    for entry in drivers:
        if not is_board_strategy(entry.cls):
            continue
        try:
            board_type = boards.load(entry.arguments["board_type"])
        except ConfigurationError as error:
            yield f"{entry.place}: board_type: {error}"
            continue
        medium = entry.arguments.get("medium", "")
        if medium and medium not in board_type.media:
            has = ", ".join(board_type.media)
            yield f"{entry.place}: medium: board type {board_type.name} has no medium {medium!r}; it has: {has}"


def unfit(drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield straps and prompts that do not fit the board type.

    A run that needs them fails.

    Args:
        drivers: of a target without `problems`.
    """
    board_type = _type_of(drivers)
    if board_type is None:
        return
    for entry in drivers:
        if issubclass(entry.cls, BootModeDriver):
            yield from _straps(entry, board_type)
        for argument, samples in _PROMPTS.get(entry.cls.__name__, {}).items():
            pattern = entry.arguments.get(argument)
            if pattern is not None:
                yield from _prompt(f"{entry.place}: {argument}", pattern, samples, board_type)


def _straps(entry: TargetComponent, board_type: BoardType) -> Iterator[str]:
    """Yield media whose boot mode needs a strap without a line.

    The strap is fixed otherwise.
    """
    lines, fixed = entry.arguments["lines"], entry.arguments.get("fixed", 0)
    driven = sum(1 << bit for bit in lines)
    for name, medium in board_type.media.items():
        wrong = (medium.boot_mode ^ fixed) & ~driven
        if wrong:
            yield (
                f"{entry.place}: medium {name} (boot mode {medium.boot_mode:#x}) needs strap(s) {bits(wrong)}, which "
                f"no line drives and `fixed: {fixed:#x}` has otherwise: add them to `lines`, or correct `fixed`; "
                f"without them no run can boot from {name}"
            )


def _prompt(place: str, pattern: str, samples: Sequence[str], board_type: BoardType) -> Iterator[str]:
    """Yield a pattern that is not found in the board type's texts."""
    try:
        regex = re.compile(pattern)
    except re.error as error:
        yield f"{place}: {pattern!r} is no regular expression: {error}"
        return
    prompts, identity = board_type.prompts, board_type.identity
    host = identity.hostname if identity else prompts.login.partition(" ")[0]
    of_type = {"uboot": prompts.uboot, "autoboot": prompts.autoboot, "login": prompts.login, "shell": prompts.shell}
    kind, *texts = samples
    printed = [text for text in (sample.format(host=host) for sample in texts) if re.search(of_type[kind], text)]
    if printed and pattern != of_type[kind] and not any(regex.search(text) for text in printed):
        yield (
            f"{place}: {pattern!r} is not found in {printed[0]!r}, which {board_type.name} prints; its type has "
            f"{of_type[kind]!r}"
        )


def _type_of(drivers: Sequence[TargetComponent]) -> BoardType | None:
    """Board type of a target's BoardStrategy; None: none or unknown."""
    for entry in drivers:
        name = entry.arguments.get("board_type")
        if is_board_strategy(entry.cls) and isinstance(name, str) and name in boards.names():
            return boards.load(name)
    return None


def is_board_strategy(cls: type) -> bool:
    """Return whether a class is boardlab's BoardStrategy, or derived from it.

    A class of that name without a board type is another project's.
    """
    bases = [base for base in cls.__mro__ if base.__name__ == "BoardStrategy" and attr.has(base)]
    return any("board_type" in attr.fields_dict(base) for base in bases)


def _elsewhere(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield settings that cannot work on another host's board."""
    console_is_here = any(issubclass(entry.cls, SerialPort) for entry in resources)
    for entry in resources:
        if issubclass(entry.cls, RailSensors) and not console_is_here and entry.arguments.get("at", "") != AT_CONSOLE:
            yield (
                f"{entry.place}: the board's console is the place's, and these sensors are this host's: no clock "
                "relates the two. Plug the sensors in where the console is, and write `at: console`; `lab rails "
                "serve` samples them there"
            )
    for driver in drivers:
        if driver.arguments.get("at") == AT_CONSOLE and not any(
            issubclass(other.cls, StampedConsoleDriver) for other in drivers
        ):
            yield (
                f"{driver.place}: `at: console` needs a StampedConsoleDriver: the console of this target does not "
                "say where it is"
            )
        if issubclass(driver.cls, UBootWriterDriver) and driver.arguments.get("over") == "usb" and not console_is_here:
            yield (
                f"{driver.place}: over: usb: a place cannot give the board's USB port: write over the network (`over: "
                "tftp`) or the console, or run this on the board's host, with an env without RemotePlace"
            )
        needs = _ONLY_HERE.get(driver.cls, ())
        if needs and not any(entry.cls.__name__ in needs for entry in (*resources, *drivers)):
            yield (
                f"{driver.place}: it works only on the host that the hardware is plugged into, and this target has "
                f"none of: {', '.join(sorted(needs))}. A place cannot give it: run this on the board's host, with an "
                "env without RemotePlace, or leave the driver out"
            )


def _twice(entries: Sequence[TargetComponent]) -> Iterator[str]:
    names: set[tuple[type, str]] = set()
    for entry in entries:
        if entry.name is None:
            continue
        key = (entry.cls, entry.name)
        if key in names:
            yield f"{entry.place}: there are two called {entry.name!r}"
        names.add(key)


def _wiring(
    driver: TargetComponent,
    resources: Sequence[TargetComponent],
    before: Sequence[TargetComponent],
    after: Sequence[TargetComponent],
) -> Iterator[str]:
    if issubclass(driver.cls, BootModeDriver):
        names = [entry.name for entry in before]
        lines = driver.arguments.get("lines")
        for bit, name in lines.items() if isinstance(lines, dict) else ():
            if name not in names:
                yield f"{driver.place}: lines: bit {bit}: no driver is called {name!r} above it"
        return
    slots = _slots(driver.cls)
    for slot in driver.bindings:
        if slot not in slots and not issubclass(driver.cls, Strategy):
            yield f"{driver.place}: bindings: it has no slot {slot!r}; its slots are: {', '.join(slots) or 'none'}"
    for slot, requirements in slots.items():
        classes = [_class(requirement) for requirement in requirements if requirement is not None]
        if None not in classes:
            yield from _slot(driver, slot, classes, (resources, before, after), optional=None in requirements)


def _slot(
    driver: TargetComponent,
    slot: str,
    classes: Sequence[Any],
    around: tuple[Sequence[TargetComponent], Sequence[TargetComponent], Sequence[TargetComponent]],
    *,
    optional: bool,
) -> Iterator[str]:
    resources, before, after = around
    kinds = " or ".join(sorted(kind.__name__ for kind in classes))
    fitting = [entry for entry in (*resources, *before) if issubclass(entry.cls, tuple(classes))]
    name = driver.bindings.get(slot)
    if name is not None:
        if not any(entry.name == name for entry in fitting):
            there = ", ".join(repr(entry.name) for entry in fitting if entry.name) or "none with a name"
            yield f"{driver.place}: bindings: {slot}: no {kinds} is called {name!r} above it; there are: {there}"
    elif not fitting and not optional:
        late = [entry for entry in after if issubclass(entry.cls, tuple(classes))]
        part = "resources" if any(issubclass(kind, Resource) for kind in classes) else "drivers"
        hint = f"move {late[0].label} above it" if late else f"add one to the target's {part}"
        yield f"{driver.place}: it needs a {kinds}; {hint}"
    elif (
        fitting
        and (suppliers := _suppliers(fitting, classes)) != 1
        and (suppliers or not optional or is_own(driver.cls))
    ):
        labels = ", ".join(entry.label for entry in fitting)
        yield (
            f"{driver.place}: {slot} may be any of: {labels}; give each a `name:` and say which with "
            f"`bindings: {{{slot}: NAME}}`"
        )


def _suppliers(fitting: Sequence[TargetComponent], classes: Sequence[Any]) -> int:
    """Count what labgrid binds.

    For each kind this is the only one, the resource "default", or the driver of highest priority.
    """
    count = 0
    for kind in classes:
        matching = [entry for entry in fitting if issubclass(entry.cls, kind)]
        priorities = [_priority_of(entry.cls, kind) for entry in matching]
        has_default = any(entry.name == "default" and issubclass(entry.cls, Resource) for entry in matching)
        count += has_default or priorities.count(max(priorities, default=0)) == 1
    return count


def _priority_of(cls: type, kind: type) -> int:
    """A driver's priority for a protocol, as `labgrid.driver.Driver.get_priority` has it."""
    tables: list[dict[type, int]] = [getattr(base, "priorities", {}) for base in cls.__mro__]
    return next((table[kind] for table in tables if kind in table), 0)


def _slots(cls: type) -> dict[str, set[Any]]:
    slots = {}
    for slot, requirement in getattr(cls, "bindings", {}).items():
        inner = requirement.value if isinstance(requirement, Driver.NamedBinding) else requirement
        slots[slot] = set(inner) if isinstance(inner, set) else {inner}
    return slots


def _class(requirement: Any) -> Any:
    """Class of a requirement; None: unknown to labgrid."""
    if isinstance(requirement, str):
        return target_factory.all_classes.get(requirement)
    return requirement if inspect.isclass(requirement) else None
