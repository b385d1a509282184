"""Base classes of faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs import define, field, frozen, validators

from lab.errors import ConfigurationError
from lab.virtual.sim.faulthooks import POINTS, FaultHooks
from lab.virtual.sim.program import NS_PER_MS, Hear, Pause, Program

if TYPE_CHECKING:
    from lab.virtual.sim.computer import Computer


@frozen
class FaultOutcome:
    """Expected result of a boot with this fault.

    Attributes:
        failures: the failure classes that the attempt may have; empty: it succeeds, and its numbers hold.
        fault: the reported fault: "board", "lab" or "test".
        transient: True: the cycle is tried again.
        may_succeed: True: an attempt may also go well, since the fault strikes by chance.
        trial: what shows it: "boot", "login" (a boot and a login), "off" (the power off after a boot), "bootloader",
            "suspend" (a boot, a login and a sleep), "partial_io" (a power-off with an armed CAN pin), "section" (a section under
            Linux), "program" (one of its programs), "rails" (sampling the rails),
            "asleep" (sampling them in a low-power mode: it fails where the mode switches the rail off, else the power has the flags).
            The test of all faults (tests/integration/test_sim_faults.py) does it.
        medium: what the trial boots from.
        cycle: the power-on at which the trial has it.
        flags: what the samples of its cycle carry, all of them; of rails: what their power may carry.
        from_power_on: `flags` stand only on the numbers that begin when the power is switched on.
        may_carry: what its samples may carry too.
    """

    failures: tuple[str, ...] = ()
    fault: str = ""
    transient: bool = True
    may_succeed: bool = False
    trial: str = "boot"
    medium: str = "sd"
    cycle: int = 1
    flags: tuple[str, ...] = ()
    from_power_on: bool = False
    may_carry: tuple[str, ...] = ()


@define(kw_only=True, eq=False)
class Fault(FaultHooks):
    """A fault for one power cycle.

    Attributes:
        name: what it is called in scenarios and on the command line.
        dice: all its chance.
    """

    name: ClassVar[str]
    outcome: ClassVar[FaultOutcome]
    dice: Random = field(factory=lambda: Random(0), metadata={"hidden": True})  # noqa: S311 - repeatable, not secret

    @classmethod
    def does(cls) -> str:
        """Description: the class's documentation up to the first empty line."""
        text = (cls.__doc__ or "").partition("\n\n")[0]
        return " ".join(text.split())


def parameters(kind: type[Fault]) -> dict[str, attrs.Attribute[Any]]:
    """A fault's parameters; the type of each is that of its default."""
    return {each.name: each for each in attrs.fields(kind) if not each.metadata.get("hidden") and each.init}


def make(kind: type[Fault], given: dict[str, str], dice: Random) -> Fault:
    """A fault with these parameters.

    Raises:
        ConfigurationError: no such parameter, or a wrong value.
    """
    known = parameters(kind)
    values = {}
    for name, text in given.items():
        if name not in known:
            takes = f"it takes: {', '.join(known)}" if known else "it takes none"
            raise ConfigurationError(f"fault {kind.name!r} has no parameter {name!r}; {takes}")
        values[name] = _value(kind, known[name], text)
    with _named(kind, given):
        return kind(**values, dice=dice)


def _value(kind: type[Fault], parameter: attrs.Attribute[Any], text: str) -> object:
    with _named(kind, {parameter.name: text}):
        return _READERS[type(parameter.default)](text)


def _yes(text: str) -> bool:
    if text.lower() not in {"true", "yes", "1", "false", "no", "0"}:
        raise ValueError(f"expected yes or no, got {text!r}")
    return text.lower() in {"true", "yes", "1"}


_READERS: Mapping[type, Callable[[str], object]] = {bool: _yes, int: int, float: float, str: str}


@contextmanager
def _named(kind: type[Fault], given: dict[str, str]) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        shown = ", ".join(f"{name}={text}" for name, text in given.items())
        raise ConfigurationError(f"fault {kind.name!r}: {shown}: {error}") from error


def point(_instance: object, _attribute: object, value: str) -> None:
    """Validate that a parameter names a point of the boot."""
    if value not in POINTS:
        raise ValueError(f"no point {value!r}; there are: {', '.join(POINTS)}")


def share(_instance: object, _attribute: object, value: float) -> None:
    """Validate that a parameter is a share."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"expected a share from 0 to 1, got {value}")


def for_ever() -> Program[None]:
    """Never come back; only power helps."""
    yield Hear(())


@define(kw_only=True, eq=False)
class Hang(Fault):
    """The board stops and says nothing more."""

    where: ClassVar[str]

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == self.where:
            yield from for_ever()


@define(kw_only=True, eq=False)
class AfterPrompt(Fault):
    """The kernel says something a moment after the login prompt.

    Attributes:
        lines, level: what, and at which log level.
    """

    lines: ClassVar[tuple[str, ...]]
    level: ClassVar[int] = 6
    after_ms: float = field(default=100.0, validator=validators.ge(0.0))
    _struck: bool = field(default=False, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        yield from ()
        if point == "login.prompt" and not self._struck:
            self._struck = True
            computer.machine.spawn(self._later(computer))

    def _later(self, computer: Computer) -> Program[None]:
        yield Pause(round(self.after_ms * NS_PER_MS))
        yield from computer.printk(*self.lines, level=self.level)
