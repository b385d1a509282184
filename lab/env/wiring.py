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

REMOTE: Final = "RemotePlace"
# Driver of ours -> resources and drivers that a place of labgrid cannot give: it needs one of them in this target.
_LOCAL_NEEDS: Final = {
    MultiplexedCardDriver: frozenset(
        {
            "USBSDMuxDevice",
            "USBSDWireDevice",
            "USBSDWire3Device",
            "VirtualSDMux",
            "USBSDMuxDriver",
            "USBSDWireDriver",
            "USBSDWire3Driver",
        }
    ),
    AutomationPowerDriver: frozenset({"AutomationPort"}),
    AutomationBootModeDriver: frozenset({"AutomationPort"}),
    RailsDriver: frozenset({"RailSensors"}),
}
# Driver -> argument with a pattern -> the board type's pattern for it, and texts that a board prints there.
_PROMPTS: Final = {
    "UBootDriver": {"prompt": ("uboot", "=> "), "autoboot": ("autoboot", "Hit any key to stop autoboot:  2 ")},
    "ShellDriver": {"prompt": ("shell", "root@{host}:~# "), "login_prompt": ("login", "{host} login: ")},
}


@frozen
class TargetComponent:
    """A resource or a driver of a target.

    Attributes:
        place: where it stands in the file, e.g. "targets.main.drivers.StampedPDUDaemonDriver".
        cls: labgrid's or boardlab's class that it will be made of.
        name: its `name:`; None: it has none.
        bindings: slot -> the name of what is bound there.
        arguments: the others, as the file has them.
    """

    place: str
    cls: type
    name: str | None
    bindings: dict[str, str]
    arguments: dict[str, Any]

    @property
    def label(self) -> str:
        """Class and name, for a message."""
        return self.cls.__name__ + (f" {self.name!r}" if self.name else "")


def problems(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield a target's mistakes, each with its place and remedy.

    Args:
        resources: as the file has them.
        drivers: in the file's order: labgrid binds a driver to what stands above it.
    """
    mistakes_at = {entry.place: list(_argument_mistakes(entry)) for entry in (*resources, *drivers)}
    for mistakes in mistakes_at.values():
        yield from mistakes
    yield from _slow_consoles(resources, drivers)
    yield from _equal_names((*resources, *drivers))
    # What follows reads arguments, so it looks at components with right ones only.
    sound_drivers = [entry for entry in drivers if not mistakes_at[entry.place]]
    yield from _board_mistakes(sound_drivers)
    yield from _rail_mistakes([entry for entry in resources if not mistakes_at[entry.place]], sound_drivers)
    if any(entry.cls.__name__ == REMOTE for entry in resources):
        yield from _local_needs(resources, drivers)
        return  # the place's other resources are known only after the coordinator's answer
    available = list(resources)
    for number, driver in enumerate(drivers):
        yield from _binding_mistakes(driver, available, drivers[:number], drivers[number + 1 :])
        if driver.cls.__name__ == "DockerDriver":  # it makes these resources for the drivers below it
            for service in driver.arguments.get("network_services") or ():
                name = service.get("name", "NetworkService") if isinstance(service, dict) else None
                available.append(TargetComponent(driver.place, NetworkService, name, {}, {}))


def is_own(cls: type) -> bool:
    """Return whether a class is boardlab's, or derived from one of them."""
    return is_board_strategy(cls) or any(base.__module__.partition(".")[0] == "lab" for base in cls.__mro__)


def _argument_mistakes(entry: TargetComponent) -> Iterator[str]:
    """Yield refused arguments, and required ones that are missing.

    Its own converters and validators decide, without the rest of the constructor, which may look at devices.
    """
    bare = type(entry.cls.__name__, (entry.cls,), {"__attrs_post_init__": lambda _self: None})
    try:
        bare(None, entry.name, **entry.arguments)
    except Exception as error:  # noqa: BLE001 - a converter or validator of the user's own may raise anything
        yield from list(_wrong_arguments(entry)) or [f"{entry.place}: {error}"]


def _wrong_arguments(entry: TargetComponent) -> Iterator[str]:
    """Yield each wrong argument; attrs ends at the first one."""
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
            # attrs' optional(instance_of(int)) has the type one level below.
            expected_type = getattr(validator, "type", None) or getattr(
                getattr(validator, "validator", None), "type", None
            )
            if expected_type is float and type(value) is int:
                yield f"{entry.place}: {attribute.name}: {value} is a whole number; write {value}.0"
            elif isinstance(expected_type, type):
                yield f"{entry.place}: {attribute.name}: expected {expected_type.__name__}, got {value!r}"
            else:
                yield f"{entry.place}: {attribute.name}: {error.args[0] if error.args else error}"


def _slow_consoles(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield raw network ports that a SerialDriver would read.

    It reads them byte by byte, and its bytes have no stamps.
    """
    times_bytes = any(issubclass(entry.cls, StampedConsoleDriver) or is_board_strategy(entry.cls) for entry in drivers)
    if not times_bytes or not any(entry.cls.__name__ == "SerialDriver" for entry in drivers):
        return
    for entry in resources:
        if entry.cls.__name__ == "NetworkSerialPort" and entry.arguments.get("protocol") == "raw":
            yield (
                f"{entry.place}: protocol: raw is read one byte at a time, slower than a console of 115200 Bd speaks, "
                "and its bytes have no stamps: StampedConsoleDriver in SerialDriver's place reads it in blocks"
            )


def _rail_mistakes(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield rails that cannot be measured on the strategy's board type."""
    board_type = _type_of(drivers)
    for entry in resources:
        if issubclass(entry.cls, RailSensors) and board_type is not None:
            try:
                wired = {key: value for key, value in entry.arguments.items() if key != "at"}
                from_env("this board", board_type=board_type, **{"rails": {}, **wired})
            except ConfigurationError as error:
                yield f"{entry.place}: {error}"


def _board_mistakes(drivers: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield unknown board types, and media that a type lacks."""
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

    They are no mistake of the wiring: only a run that needs them fails.

    Args:
        drivers: of a target without `problems`.
    """
    board_type = _type_of(drivers)
    if board_type is None:
        return
    for entry in drivers:
        if issubclass(entry.cls, BootModeDriver):
            yield from _fixed_straps(entry, board_type)
        for argument, samples in _PROMPTS.get(entry.cls.__name__, {}).items():
            pattern = entry.arguments.get(argument)
            if pattern is not None:
                yield from _unfit_prompt(f"{entry.place}: {argument}", pattern, samples, board_type)


def _fixed_straps(entry: TargetComponent, board_type: BoardType) -> Iterator[str]:
    """Yield media whose boot mode needs a strap that nothing drives."""
    lines, fixed = entry.arguments["lines"], entry.arguments.get("fixed", 0)
    driven = sum(1 << bit for bit in lines)
    for name, medium in board_type.media.items():
        differing = (medium.boot_mode ^ fixed) & ~driven
        if differing:
            yield (
                f"{entry.place}: medium {name} (boot mode {medium.boot_mode:#x}) needs strap(s) {bits(differing)}, "
                f"which no line drives and `fixed: {fixed:#x}` has otherwise: add them to `lines`, or correct `fixed`; "
                f"without them no run can boot from {name}"
            )


def _unfit_prompt(place: str, pattern: str, samples: Sequence[str], board_type: BoardType) -> Iterator[str]:
    """Yield a pattern that does not fit what the board type prints.

    Args:
        samples: an entry of `_PROMPTS`; a sample counts only if the type's own pattern fits it.
    """
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


def _local_needs(resources: Sequence[TargetComponent], drivers: Sequence[TargetComponent]) -> Iterator[str]:
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
        needs = _LOCAL_NEEDS.get(driver.cls, ())
        if needs and not any(entry.cls.__name__ in needs for entry in (*resources, *drivers)):
            yield (
                f"{driver.place}: it works only on the host that the hardware is plugged into, and this target has "
                f"none of: {', '.join(sorted(needs))}. A place cannot give it: run this on the board's host, with an "
                "env without RemotePlace, or leave the driver out"
            )


def _equal_names(entries: Sequence[TargetComponent]) -> Iterator[str]:
    """Yield the second of two components with one class and name.

    A binding cannot tell them apart.
    """
    names: set[tuple[type, str]] = set()
    for entry in entries:
        if entry.name is None:
            continue
        key = (entry.cls, entry.name)
        if key in names:
            yield f"{entry.place}: there are two called {entry.name!r}"
        names.add(key)


def _binding_mistakes(
    driver: TargetComponent,
    resources: Sequence[TargetComponent],
    above: Sequence[TargetComponent],
    below: Sequence[TargetComponent],
) -> Iterator[str]:
    """Yield a driver's bindings that labgrid cannot make.

    Args:
        above, below: the drivers around it; only those above can be bound.
    """
    if issubclass(driver.cls, BootModeDriver):
        names = [entry.name for entry in above]
        lines = driver.arguments.get("lines")
        for bit, name in lines.items() if isinstance(lines, dict) else ():
            if name not in names:
                yield f"{driver.place}: lines: bit {bit}: no driver is called {name!r} above it"
        return
    # slot -> the classes that may be bound there, by name or itself; None among them: it may stay empty.
    slots: dict[str, set[Any]] = {}
    for slot, requirement in getattr(driver.cls, "bindings", {}).items():
        inner = requirement.value if isinstance(requirement, Driver.NamedBinding) else requirement
        slots[slot] = set(inner) if isinstance(inner, set) else {inner}
    for slot in driver.bindings:
        if slot not in slots and not issubclass(driver.cls, Strategy):
            yield f"{driver.place}: bindings: it has no slot {slot!r}; its slots are: {', '.join(slots) or 'none'}"
    for slot, requirements in slots.items():
        classes = [
            target_factory.all_classes.get(requirement) if isinstance(requirement, str) else requirement
            for requirement in requirements
            if requirement is not None
        ]
        if all(map(inspect.isclass, classes)):  # another name is of a class that nobody has registered
            optional = None in requirements
            yield from _slot_mistakes(driver, slot, classes, [*resources, *above], below, optional=optional)


def _slot_mistakes(
    driver: TargetComponent,
    slot: str,
    classes: Sequence[Any],
    available: Sequence[TargetComponent],
    below: Sequence[TargetComponent],
    *,
    optional: bool,
) -> Iterator[str]:
    """Yield the mistake of one slot.

    Nothing fits it, several components do, or the named one does not.

    Args:
        available: what can be bound.
        below: the drivers that could if they stood above it.
    """
    kinds = " or ".join(sorted(kind.__name__ for kind in classes))
    fitting = [entry for entry in available if issubclass(entry.cls, tuple(classes))]
    name = driver.bindings.get(slot)
    if name is not None:
        if not any(entry.name == name for entry in fitting):
            there = ", ".join(repr(entry.name) for entry in fitting if entry.name) or "none with a name"
            yield f"{driver.place}: bindings: {slot}: no {kinds} is called {name!r} above it; there are: {there}"
    elif not fitting and not optional:
        late = [entry for entry in below if issubclass(entry.cls, tuple(classes))]
        part = "resources" if any(issubclass(kind, Resource) for kind in classes) else "drivers"
        hint = f"move {late[0].label} above it" if late else f"add one to the target's {part}"
        yield f"{driver.place}: it needs a {kinds}; {hint}"
    elif (
        fitting
        and (bound := _count_bound(fitting, classes)) != 1
        # Of several, labgrid leaves an optional slot empty; ours would then work without what is there.
        and (bound or not optional or is_own(driver.cls))
    ):
        labels = ", ".join(entry.label for entry in fitting)
        yield (
            f"{driver.place}: {slot} may be any of: {labels}; give each a `name:` and say which with "
            f"`bindings: {{{slot}: NAME}}`"
        )


def _count_bound(fitting: Sequence[TargetComponent], classes: Sequence[Any]) -> int:
    """Count the classes that labgrid finds a component for.

    Of each class it binds the only one, the resource "default", or the driver of highest priority
    (`labgrid.driver.Driver.get_priority`).
    """
    count = 0
    for kind in classes:
        matching = [entry for entry in fitting if issubclass(entry.cls, kind)]
        priorities = []
        for entry in matching:
            tables: list[dict[type, int]] = [getattr(base, "priorities", {}) for base in entry.cls.__mro__]
            priorities.append(next((table[kind] for table in tables if kind in table), 0))
        has_default = any(entry.name == "default" and issubclass(entry.cls, Resource) for entry in matching)
        count += has_default or priorities.count(max(priorities, default=0)) == 1
    return count
