"""The wiring of a board, from its environment.

It has adapters, outlets, straps and sensors. No password is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from lab import yamlfile
from lab.env import envfile
from lab.errors import ConfigurationError
from lab.redaction import HIDDEN, redact

# The part of a board by words of a class's name: labgrid has many of each, and a lab may have its own.
_PARTS: Final = (
    ("adapter", ("Serial", "Console")),
    ("outlet", ("Power", "PDU", "Outlet", "Relay")),
    ("strap", ("DigitalOutput", "BootMode")),
    ("sensor", ("Sensor", "Rails")),
    ("medium", ("SDMux", "Multiplex", "Card", "Writer", "MassStorage")),
)
_SECRET: Final = ("password", "secret", "token", "keyfile")
_IN_HEX: Final = ("address", "fixed")


@frozen
class Wire:
    """A resource or a driver of the environment.

    Attributes:
        part: "adapter", "outlet", "strap", "sensor", "medium" or "other".
        name: its class, and its own name.
        arguments: in words.
    """

    part: str
    name: str
    arguments: str


def wiring(environment: Path, board: str) -> list[Wire]:
    """The resources and drivers of a board's targets, by part.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    data = yamlfile.load(environment)
    targets = data.get("targets", {}) if isinstance(data, dict) else {}
    all_wires = [
        wire
        for target in (targets.values() if isinstance(targets, dict) else ())
        if isinstance(target, dict)
        and any(name == "BoardStrategy" and str(of.get("board")) == board for name, of in _entries(target, "drivers"))
        for wire in _wires(target)
    ]
    order = [part for part, _ in _PARTS]
    return sorted(all_wires, key=lambda wire: order.index(wire.part) if wire.part in order else len(order))


def wires(folder: Path, board: str, environment: str) -> tuple[list[Wire], str]:
    """The wiring of a board, and the error; empty: none.

    Args:
        folder: of the lab, with `envs/`. environment: as `lab run --env` takes it; empty: there is none.
    """
    try:
        return (wiring(envfile.find(environment, folder), board) if environment else []), ""
    except ConfigurationError as error:
        return [], str(error)


def _wires(target: Mapping[str, Any]) -> Iterator[Wire]:
    for kind in ("resources", "drivers"):
        for name, arguments in _entries(target, kind):
            own = str(arguments.get("name") or "")
            text = "; ".join(
                _argument_text(key, value) for key, value in arguments.items() if key not in {"name", "bindings"}
            )
            if text:  # a driver without arguments is only labgrid's way to use a resource
                part = next((part for part, words in _PARTS if any(word in name for word in words)), "other")
                yield Wire(part, f"{name} {own}".strip(), text)


def _entries(target: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Class and arguments of each resource or driver.

    labgrid takes them as a mapping, or as a list of mappings.
    """
    listed = target.get(kind)
    for mapping in listed if isinstance(listed, list) else [listed]:
        if isinstance(mapping, dict):
            for name, arguments in mapping.items():
                yield str(name), arguments if isinstance(arguments, dict) else {}


def _argument_text(key: str, value: Any) -> str:
    if any(word in key.lower() for word in _SECRET):
        return f"{key} {HIDDEN}"
    if isinstance(value, dict):
        return f"{key}: " + ", ".join(_argument_text(str(name), item) for name, item in value.items())
    if isinstance(value, list):
        return f"{key} {' '.join(redact(str(item)) for item in value)}"
    return f"{key} {f'{value:#x}' if key in _IN_HEX and isinstance(value, int) else redact(str(value))}"
