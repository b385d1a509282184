"""The wiring of a board, from its environment.

It has adapters, outlets, straps and sensors. No password is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import frozen

from lab import yamlfile
from lab.env import envfile
from lab.errors import ConfigurationError
from lab.redaction import HIDDEN, redact

# The part of a board by words of a class's name: labgrid has many of each, and a lab may have its own.
_PARTS: Final = (
    ("adapter", ("Serial", "Console")),
    ("outlet", ("Power", "PDU", "Outlet", "Relay")),
    ("switch", ("DigitalOutput", "BootMode", "Coil", "GPIO", "PIO")),
    ("sensor", ("Sensor", "Rails")),
    ("medium", ("SDMux", "Multiplex", "Card", "Writer", "MassStorage")),
)
# Resource -> what it is, of its arguments; `socket` and `where` are read from `match` and `url`.
_PHRASES: Final = {
    "RawSerialPort": "{port}, {speed} Bd",
    "USBSerialPort": "USB socket {socket}, {speed} Bd",
    "NetworkSerialPort": "port {port} of {host}, {speed} Bd",
    "PDUDaemonPort": "outlet {index} of {pdu}, by pdudaemon at {host}",
    "NetworkPowerPort": "outlet {index} of {host} ({model})",
    "HttpDigitalOutput": "{where}",
    "ModbusTCPCoil": "coil {coil} of {host}",
    "SysfsGPIO": "GPIO {index} of this host",
    "MatchedSysfsGPIO": "GPIO {pin} of {socket}",
    "LXAIOBusPIO": "{pin} of {node} at {host}",
    "OneWirePIO": "{path} of {host}",
    "RailSensors": "{names} by {backend} at {port}",
    "USBSDMuxDevice": "SD multiplexer at USB socket {socket}",
    "USBSDWireDevice": "SD multiplexer at USB socket {socket}",
    "USBSDWire3Device": "SD multiplexer at USB socket {socket}",
    "USBMassStorage": "card reader at USB socket {socket}",
    "RemotePlace": "labgrid's place {name}",
}
_SECRET: Final = ("password", "secret", "token", "keyfile")
_IN_HEX: Final = ("address", "fixed")


@frozen
class Wire:
    """A resource or a driver of the environment.

    Attributes:
        part: "adapter", "outlet", "strap" of the boot mode, "switch", "sensor", "medium" or "other".
        name: its class, and its own name.
        arguments: as the environment has them.
        phrase: as a person says it, e.g. `relay 1 of 192.0.2.10`; empty: no phrase is known.
        own: its own name.
    """

    part: str
    name: str
    arguments: str
    phrase: str
    own: str


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
    order.insert(order.index("switch"), "strap")
    return sorted(all_wires, key=lambda wire: order.index(wire.part) if wire.part in order else len(order))


def wires(folder: Path, board: str, environment: str) -> tuple[list[Wire], str]:
    """The wiring of a board, and the error; empty: none.

    Args:
        folder: of the lab, with `envs/`.
        environment: as `lab run --env` takes it; empty: there is none.
    """
    try:
        return (wiring(envfile.find(environment, folder), board) if environment else []), ""
    except ConfigurationError as error:
        return [], str(error)


def _wires(target: Mapping[str, Any]) -> Iterator[Wire]:
    straps = {
        str(line)
        for name, arguments in _entries(target, "drivers")
        if name == "BootModeDriver" and isinstance(arguments.get("lines"), dict)
        for line in arguments["lines"].values()
    }
    for kind in ("resources", "drivers"):
        for name, arguments in _entries(target, kind):
            own = str(arguments.get("name") or "")
            text = "; ".join(
                _argument_text(key, value) for key, value in arguments.items() if key not in {"name", "bindings"}
            )
            if text:  # a driver without arguments is only labgrid's way to use a resource
                part = next((part for part, words in _PARTS if any(word in name for word in words)), "other")
                part = "strap" if part == "switch" and (own in straps or "BootMode" in name) else part
                yield Wire(part, f"{name} {own}".strip(), text, _phrase(name, arguments), own)


def _phrase(name: str, arguments: Mapping[str, Any]) -> str:
    """A resource in words; empty: it has not what they need."""
    shown = {key: redact(str(value)) for key, value in arguments.items()}
    match, rails = arguments.get("match"), arguments.get("rails")
    if isinstance(match, dict):
        shown["socket"] = redact(str(match.get("@ID_PATH") or match.get("ID_PATH") or next(iter(match.values()), "?")))
    if isinstance(rails, dict):
        shown["names"] = ", ".join(map(str, rails))
    url = urlsplit(redact(str(arguments.get("url", ""))))
    shown["where"] = f"{' '.join(filter(None, url.path.split('/')))} of {url.netloc}".removeprefix(" of ")
    try:
        return _PHRASES.get(name, "").format_map(shown)
    except KeyError:
        return ""


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
