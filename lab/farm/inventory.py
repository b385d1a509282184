"""A CSV file of boards, a row each, as environments, labgrid places and entries of farm.yaml.

`read` checks the file by itself, `plan` compares it with what is there and makes the new texts, `write` writes them.
A value that no column gives is left out of the environment with what needs it, and named. An existing environment is a
person's: it is compared, and never changed.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import define, field, frozen

from lab import package_data, yamlfile
from lab.env import envfile
from lab.errors import ConfigurationError
from lab.farm import config, discover
from lab.farm.config import HERE, Farm
from lab.farm.labfolder import list_shipped_envs

COLUMNS: Final[Mapping[str, str]] = {
    "name": "the board's name in all results",
    "type": "its board type, as `lab boards` lists them",
    "host": "its host, of `hosts` in farm.yaml",
    "serial": "its console: ID_PATH of the USB adapter, /dev/PATH, or HOST:PORT of ser2net",
    "side_serial": "the console of its second core, as `serial`; a USB adapter has both",
    "pdu": "the power switch, as pdudaemon's configuration names it",
    "outlet": "the number of its outlet",
    "pdudaemon": "HOST:PORT (default: farm.yaml's)",
    "straps": "what drives its boot-mode straps: a URL with {bit} in it",
    "wake": "URL of what drives its wake-up pin",
    "medium": "without straps: the medium that its switches select",
    "sdmux": "ID_PATH of its SD multiplexer",
    "sensor": "port of its rails' sensors, e.g. /dev/i2c-1",
    "tester": "its peer on the links, as ssh names it",
    "hub": "the USB hub of its devices",
}
REQUIRED: Final = ("name", "type", "serial", "pdu", "outlet")
EXPORTS: Final = "exports"  # folder of a file for each host, which is its exports.yaml
PER_MINUTE: Final = 4  # nightly runs that come due in the same minute
_WORD: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,62}")
_TCP: Final = re.compile(r"(rfc2217://|raw://)?([\w.-]+):(\d{1,5})")
_TEMPLATE: Final = re.compile(r"!template \S+")  # of labgrid; such a value is replaced, or goes
_SPEED_BD: Final = 115_200  # labgrid's, where the template has none
_TARGET: Final = "main"  # of labgrid: the board, beside the target `tester`
_PORTS: Final = frozenset({"USBSerialPort", "RawSerialPort", "NetworkSerialPort"})


@frozen
class BoardRow:
    """A row of the file.

    Attributes:
        line: its number in the file, from 1.
        values: column -> the cell's text; empty: not given.
    """

    line: int
    values: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.values.get(column, "")


@define
class Addition:
    """The files of an inventory.

    Attributes:
        rows: those of the CSV file.
        new: path -> text of a file to write.
        unknown: board -> what no column says, as sentences for a person.
        wiring: board -> resources that its host exports, by name; without a coordinator they are in its environment.
    """

    rows: Sequence[BoardRow]
    new: dict[Path, str] = field(factory=dict)
    unknown: dict[str, list[str]] = field(factory=dict)
    wiring: dict[str, dict[str, dict[str, Any]]] = field(factory=dict)


def read(path: Path) -> list[BoardRow]:
    """Read a CSV file with a header (RFC 4180; semicolons, too).

    Raises:
        ConfigurationError: it cannot be read, or a column or a value is wrong; the message names each place.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    head = next((line for line in text.splitlines() if line.strip()), "")
    lines = csv.reader(io.StringIO(text), delimiter=";" if ";" in head and "," not in head else ",", strict=True)
    rows: list[BoardRow] = []
    names: list[str] = []
    wrong: list[str] = []
    try:
        for cells in lines:
            values = [cell.strip() for cell in cells]
            if not any(values) or values[0].startswith("#"):
                continue
            if not names:
                names = values
                wrong += _header_mistakes(names)
            elif len(values) > len(names) and any(values[len(names) :]):
                wrong.append(f"{lines.line_num}: {len(values)} cells, and the header has {len(names)} columns")
            else:
                rows.append(BoardRow(lines.line_num, dict(zip(names, values, strict=False))))
    except csv.Error as error:
        raise ConfigurationError(f"{path}:{lines.line_num}: no CSV: {error}") from error
    if not wrong:
        wrong = [f"{row.line}: {problem}" for row in rows for problem in _value_mistakes(row)]
        wrong += _shared_equipment(rows)
    if wrong or not rows:
        problems = wrong or [f"1: no boards: a header with {', '.join(REQUIRED)}, then a row for each board"]
        raise ConfigurationError("\n".join(f"{path}:{problem}" for problem in problems))
    return rows


def _header_mistakes(names: Sequence[str]) -> Iterator[str]:
    """Yield unknown, missing and repeated columns."""
    for name in names:
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, n=1)
            yield f"1: no column {name!r:.40}{f'; is {near[0]} meant?' if near else ''} There are: {', '.join(COLUMNS)}"
    for name in REQUIRED:
        if name not in names:
            yield f"1: the column {name} is missing ({COLUMNS[name]})"
    for name in {name for name in names if names.count(name) > 1}:
        yield f"1: two columns {name}"


def _value_mistakes(row: BoardRow) -> Iterator[str]:
    """Yield values that are wrong by themselves, whatever the farm is."""
    for name in REQUIRED:
        if not row[name]:
            yield f"{name}: it is empty ({COLUMNS[name]})"
    for name in ("name", "host", "hub"):
        if row[name] and not _WORD.fullmatch(row[name]):
            yield f"{name}: {row[name]!r:.60}: letters, digits and . _ - only"
    types = sorted({env.board_type for env in list_shipped_envs()})
    if row["type"] and row["type"] not in types:
        near = difflib.get_close_matches(row["type"], types, n=1)
        yield f"type: no type {row['type']!r:.60} with an environment; " + (
            f"is {near[0]} meant?" if near else f"there are: {', '.join(types)}"
        )
    if row["outlet"] and not (row["outlet"].isascii() and row["outlet"].isdecimal()):
        yield f"outlet: {row['outlet']!r:.60}: a whole number"
    if row["pdudaemon"] and not _TCP.fullmatch(row["pdudaemon"]):
        yield f"pdudaemon: {row['pdudaemon']!r:.60}: HOST:PORT"
    if row["straps"] and ("{bit}" not in row["straps"] or "://" not in row["straps"]):
        yield f"straps: {row['straps']!r:.80}: a URL with {{bit}}, e.g. http://relays-1/board-3/{{bit}}"
    if row["straps"] and row["medium"]:
        yield "medium: straps select it: leave it out"


def _shared_equipment(rows: Sequence[BoardRow]) -> Iterator[str]:
    """Yield equipment that two rows name, e.g. an outlet."""
    first_rows: dict[tuple[str, ...], BoardRow] = {}
    for row in rows:
        host = row["host"]
        # Column -> what tells one such thing from all others in the lab; empty: the row has none.
        identities = {
            "name": (row["name"],),
            "outlet": (row["pdudaemon"], row["pdu"], row["outlet"]) if not package_data.is_bench(row["pdu"]) else (),
            "serial": (host, row["serial"]),
            "side_serial": (host, row["side_serial"]) if row["side_serial"] else (),
            "sdmux": (host, row["sdmux"]) if row["sdmux"] else (),
            "sensor": (host, row["sensor"]) if row["sensor"] else (),
            "straps": (row["straps"],) if row["straps"] else (),
        }
        for column, identity in identities.items():
            # A second core's console may be another board's first one.
            kind = column.removeprefix("side_")
            other = first_rows.setdefault((kind, *identity), row) if identity else row
            if other is not row:
                yield f"{row.line}: {column}: {row[column]} is that of {other['name']}, too (line {other.line})"


def plan(path: Path, farm: Farm, file: Path) -> Addition:
    """The files that an inventory needs beside what is there.

    Args:
        path: the CSV file.
        farm: what farm.yaml says.
        file: farm.yaml itself; its comments and order stay.

    Raises:
        ConfigurationError: a row is wrong, or contradicts farm.yaml, an environment or pdudaemon's configuration.
    """
    rows = read(path)
    folder = Path(farm.directory)
    addition = Addition(rows)
    wrong: list[str] = []
    pdus = _pdus(farm)
    board_of_outlet = _board_of_outlet(discover.environments(folder), farm)
    for row in rows:
        name = row["name"]
        notes = addition.unknown.setdefault(name, [])
        wrong += [f"{row.line}: {problem}" for problem in _against_farm(row, farm, pdus, board_of_outlet)]
        data, exported = _environment(row, farm, notes)
        env = folder / package_data.ENVS / f"{name}.yaml"
        if env.exists():
            wrong += [f"{row.line}: {problem}" for problem in _against_environment(row, farm, env, data)]
        else:
            head = f"# {row['name']}, of {path.name}: `lab farm add` wrote it, and does not change it any more.\n"
            addition.new[env] = head + yaml.safe_dump(dict(data), sort_keys=False, width=1000, allow_unicode=True)
        if exported:
            addition.wiring[name] = exported
        if pdus is None and not package_data.is_bench(row["pdu"]):
            notes.append(f"{farm.pdudaemon.config} cannot be read here: whether it has {row['pdu']} is unknown")
    if wrong:
        raise ConfigurationError("\n".join(f"{path}:{problem}" for problem in wrong))
    _add_exports(addition, folder / EXPORTS, farm)
    text = file.read_text(encoding="utf-8")
    if (new := _farm_text(text, farm, rows, file)) != text:
        addition.new[file] = new
    return addition


def write(addition: Addition, file: Path) -> list[Path]:
    """Write the files, farm.yaml last; return them.

    Raises:
        ConfigurationError: one cannot be written, or farm.yaml would be wrong.
    """
    drafts: dict[Path, Path] = {}
    try:
        for path, text in sorted(addition.new.items(), key=lambda pair: pair[0] == file):
            path.parent.mkdir(parents=True, exist_ok=True)
            drafts[path] = draft = path.with_name(f".new.{path.name}")
            draft.write_text(text, encoding="utf-8")
            if path.exists():
                draft.chmod(path.stat().st_mode & 0o777)
        if file in drafts:
            config.load(drafts[file])  # before anything is in its place
        for path, draft in drafts.items():
            draft.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: cannot be written: {error.strerror}") from error
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
    return list(addition.new)


def sheet(rows: Iterable[BoardRow], farm: Farm) -> list[list[str]]:
    """The wiring sheet: a row for each board."""
    return [
        [
            row["name"],
            row["type"],
            host_of(row, farm),
            " ".join(filter(None, (row["serial"], row["side_serial"]))),
            f"{row['pdu']} {row['outlet']}",
            row["straps"] or f"by hand {row['medium']}".strip(),
            row["sdmux"] or "-",
            row["sensor"] or "-",
            row["hub"] or "-",
        ]
        for row in rows
    ]


SHEET: Final = ("board", "type", "host", "console", "outlet", "straps", "SD mux", "sensor", "hub")


def host_of(row: BoardRow, farm: Farm) -> str:
    """The host that a board is plugged into."""
    return row["host"] or (farm.hosts[0].name if farm.hosts else HERE)


def _pdus(farm: Farm) -> set[str] | None:
    """Power switches of pdudaemon's configuration; None: it cannot be read here."""
    try:
        switches = json.loads(Path(farm.pdudaemon.config).read_text(encoding="utf-8"))["pdus"]
        return {str(name) for name in switches}
    except OSError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{farm.pdudaemon.config}: no configuration of pdudaemon ({type(error).__name__}): JSON with `pdus`"
        ) from error


def _board_of_outlet(envs: Iterable[Path], farm: Farm) -> dict[tuple[str, str, int], str]:
    """(pdudaemon's address, power switch, outlet) -> the board whose environment names it."""
    board_of_outlet = {}
    # `lab init` wrote them and no person has filled them in: their outlets are examples.
    drafts = {env.path.read_bytes() for env in list_shipped_envs()}
    for env in envs:
        if env.read_bytes() in drafts:
            continue
        try:
            outlet = envfile.arguments_of(env, "PDUDaemonPort", "resources")
            board = envfile.board_of(env)[1]
            board_of_outlet[
                str(outlet.get("host", farm.pdudaemon.address)), str(outlet["pdu"]), int(outlet["index"])
            ] = board
        except (ConfigurationError, KeyError, TypeError, ValueError):  # `lab env check` says what is wrong with it
            continue
    return board_of_outlet


def _against_farm(
    row: BoardRow, farm: Farm, pdus: set[str] | None, board_of_outlet: Mapping[tuple[str, str, int], str]
) -> Iterator[str]:
    """Yield what contradicts farm.yaml, pdudaemon's configuration or another board's environment.

    Args:
        pdus: the power switches that pdudaemon knows; None: not known.
    """
    names = [host.name for host in farm.hosts]
    if names and not row["host"]:
        yield f"host: which of {', '.join(names)}?"
    if row["host"] and names and row["host"] not in names:
        yield f"host: farm.yaml's `hosts` has no {row['host']}; it has: {', '.join(names)}"
    entry = next((board for board in farm.boards if board.name == row["name"]), None)
    if entry is not None and row["host"] and entry.host and entry.host != row["host"]:
        yield f"host: farm.yaml has {row['name']} on {entry.host}, and this says {row['host']}"
    address = row["pdudaemon"] or farm.pdudaemon.address
    # A simulated bench brings its own pdudaemon, and that of another address has another configuration.
    is_checked = not package_data.is_bench(row["pdu"]) and address == farm.pdudaemon.address
    if is_checked and pdus is not None and row["pdu"] not in pdus:
        yield f"pdu: {farm.pdudaemon.config} has no {row['pdu']!r}; it has: {', '.join(sorted(pdus)) or 'none'}"
    board = board_of_outlet.get((address, row["pdu"], int(row["outlet"])), row["name"])
    if board != row["name"]:
        yield f"outlet: {row['pdu']} {row['outlet']} is that of {board}"


def _against_environment(row: BoardRow, farm: Farm, env: Path, data: Mapping[str, Any]) -> Iterator[str]:
    """Yield columns that an existing environment contradicts.

    Args:
        data: the environment that the row would have made.
    """
    board_type, board = envfile.board_of(env)
    where = f"{env} is there, and"
    if board != row["name"]:
        yield f"name: {where} is of board {board}"
    if board_type != row["type"]:
        yield f"type: {where} is of a {board_type}"
    if farm.coordinator:  # the resources are in its host's exports
        return
    has = envfile.arguments_of(env, "PDUDaemonPort", "resources")
    for column, key in (("pdu", "pdu"), ("outlet", "index")):
        if str(has.get(key)) != row[column]:
            yield f"{column}: {where} has {has.get(key)}"
    resources = data["targets"][_TARGET]["resources"]
    (cls, port), *_others = next(list(resource.items()) for resource in resources if next(iter(resource)) in _PORTS)
    arguments = envfile.arguments_of(env, cls, "resources")
    if any(arguments.get(key) != value for key, value in port.items() if key not in {"name", "speed"}):
        yield f"serial: {where} has another console: {arguments or 'none such'}"


def _environment(row: BoardRow, farm: Farm, notes: list[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The environment of a row, and its host's exported resources by name.

    It is the shipped environment of the board's type with the row's values. A resource without a value goes, and each
    driver that needs it.

    Args:
        notes: what no column says is added here.
    """
    envs_of_type = [env for env in list_shipped_envs() if env.board_type == row["type"]]
    is_simulated = package_data.is_bench(row["pdu"])
    template = next((env for env in envs_of_type if env.simulated == is_simulated), envs_of_type[0])
    data = yaml.safe_load(_TEMPLATE.sub("''", template.path.read_text(encoding="utf-8")))
    target = data["targets"][_TARGET]
    drivers: list[dict[str, Any]] = target["drivers"]
    console = _driver(drivers, "StampedConsoleDriver").get("bindings", {}).get("port", "")
    resources: list[dict[str, Any]] = []
    gone: set[str] = set()  # names of the resources without a value; of one without a name, its driver's class
    for entry in target["resources"]:
        ((cls, args),) = entry.items()
        resource = _resource(cls, args, row, farm, console)
        if resource is None:
            gone.add(str(args.get("name") or {"RailSensors": "RailsDriver"}.get(cls, cls)))
        else:
            resources.append(resource)
    lines = set(_driver(drivers, "BootModeDriver").get("lines", {}).values())
    notes += _notes(row, drivers, gone, lines)
    remaining = []
    for driver in drivers:
        ((cls, args),) = driver.items()
        used = [name for key in ("bindings", "lines", "pins") for name in (args or {}).get(key, {}).values()]
        if gone.isdisjoint({cls, *used}):
            remaining.append(driver)
    strategy = _driver(remaining, "BoardStrategy")
    strategy["board"] = row["name"]
    if row["medium"]:
        strategy["medium"] = row["medium"]
    if row["sdmux"]:
        resources.append({"USBSDMuxDevice": {"match": {"@ID_PATH": row["sdmux"]}}})
        # Above the strategy, the last driver, which binds the card.
        remaining[-1:-1] = [{"USBSDMuxDriver": {}}, {"MultiplexedCardDriver": {}}]
    _fill_in_tester(data, row, notes)
    exported: dict[str, dict[str, Any]] = {}
    if farm.coordinator:
        resources, exported = _split_exported(row, resources)
        data["options"] = {**data.get("options", {}), "coordinator_address": farm.coordinator}
    target["resources"], target["drivers"] = resources, remaining
    return data, exported


def _driver(drivers: Iterable[Mapping[str, Any]], cls: str) -> dict[str, Any]:
    """Arguments of a driver; empty where there is none."""
    return next((driver[cls] for driver in drivers if driver.get(cls) is not None), {})


def _resource(cls: str, args: Mapping[str, Any], row: BoardRow, farm: Farm, console: str) -> dict[str, Any] | None:
    """A resource of the template with the row's values.

    None: the row has no value for it.

    Args:
        cls, args: the template's.
        console: name of the first core's console among several; empty: there is only one.
    """
    name = str(args.get("name", ""))
    named = {"name": name} if name else {}
    if cls == "PDUDaemonPort":
        address = row["pdudaemon"] or farm.pdudaemon.address
        return {cls: {"host": address, "pdu": row["pdu"], "index": int(row["outlet"])}}
    if cls in _PORTS:
        is_side = bool(console) and name != console
        serial = row["side_serial"] if is_side else row["serial"]
        if is_side and not serial and _port_class(row["serial"]) == "USBSerialPort":
            serial = row["serial"]  # one adapter on a TI board has all its UARTs, as interfaces
        speed_bd = int(args.get("speed", _SPEED_BD))
        return _port(serial, named, speed_bd, str(args.get("match", {}).get("ID_USB_INTERFACE_NUM", "")))
    if cls == "HttpDigitalOutput":
        bit = name.removeprefix("B")
        url = row["straps"].replace("{bit}", bit) if bit.isdecimal() else row["wake"]
        return {cls: {**args, "url": url}} if url else None
    if cls == "RailSensors":
        at = {"at": "console"} if farm.coordinator else {}
        return {cls: {**args, "port": row["sensor"], **at}} if row["sensor"] else None
    return {cls: dict(args)}


def _port_class(serial: str) -> str:
    """labgrid's class for a value of the column `serial`."""
    if _TCP.fullmatch(serial):
        return "NetworkSerialPort"
    return "RawSerialPort" if serial.startswith("/") else "USBSerialPort"


def _port(serial: str, named: Mapping[str, str], speed_bd: int, interface: str) -> dict[str, Any] | None:
    """The resource of a console; None: no value.

    Args:
        interface: number of the UART in the adapter; empty: it has one.
    """
    if not serial:
        return None
    if address := _TCP.fullmatch(serial):
        protocol = "raw" if address[1] == "raw://" else "rfc2217"
        where = {"host": address[2], "port": int(address[3]), "speed": speed_bd, "protocol": protocol}
        return {"NetworkSerialPort": {**named, **where}}
    if serial.startswith("/"):
        return {"RawSerialPort": {**named, "port": serial, "speed": speed_bd}}
    match = {"@ID_PATH": serial} | ({"ID_USB_INTERFACE_NUM": interface} if interface else {})
    return {"USBSerialPort": {**named, "match": match, "speed": speed_bd}}


def _notes(row: BoardRow, drivers: Sequence[Mapping[str, Any]], gone: set[str], straps: set[str]) -> Iterator[str]:
    """Name empty columns, and what cannot be measured without them."""
    if straps & gone:
        media = (
            f"it boots from {row['medium']}" if row["medium"] else "name the medium of its switches (column medium)"
        )
        yield f"straps: nothing drives them: {media}, and from no other"
    if gone & set(_driver(drivers, "WakePinsDriver").get("pins", {}).values()):
        yield "wake: none: partial I/O is not measured"
    if "RailsDriver" in gone:
        yield "sensor: none: no power and energy, and a dead supply is seen by the console alone"
    elif row["sensor"] and not package_data.is_bench(row["pdu"]):
        yield "sensor: addresses and shunts are the type's: `lab rails selftest` says whether they answer"
    if any(core in gone for core in ("mcu", "wkup")):
        yield "side_serial: none: MCU-only is not measured"
    if row["serial"] and _port_class(row["serial"]) == "NetworkSerialPort":
        yield "serial: stamps of ser2net come over the network: their ± is wider than at a console server's own port"


def _fill_in_tester(data: dict[str, Any], row: BoardRow, notes: list[str]) -> None:
    """Fill in the tester, or delete its target and its addresses."""
    command = data["targets"].get("tester", {}).get("drivers", [{}])[0].get("TesterDriver", {}).get("command", [])
    if command[:1] != ["ssh"]:  # the template has none, or a simulated one
        return
    if row["tester"]:
        command[-1] = row["tester"]
        notes.append("tester: the addresses on its link are those of the template: `benchmarks` in the environment")
        return
    del data["targets"]["tester"]
    addresses = data["targets"][_TARGET].get("options", {}).get("benchmarks", {})
    for key in ("tester", "board"):
        addresses.pop(key, None)
    notes.append("tester: none: sections of the network need a peer, and are left out")


def _split_exported(
    row: BoardRow, resources: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Split resources into the environment's and those of its host's exporter."""
    own: list[dict[str, Any]] = [{"RemotePlace": {"name": row["name"]}}]
    exported: dict[str, dict[str, Any]] = {}
    for resource in resources:
        ((cls, args),) = resource.items()
        if cls in {*_PORTS, "PDUDaemonPort", "USBSDMuxDevice"}:
            name = args.get("name") or {"PDUDaemonPort": "power", "USBSDMuxDevice": "sdmux"}.get(cls, "console")
            exported[name] = {"cls": cls, **{key: value for key, value in args.items() if key != "name"}}
        else:
            own.append(resource)
    return own, exported


def _add_exports(addition: Addition, folder: Path, farm: Farm) -> None:
    """Add the exports of each host that gets boards.

    Earlier exports stay.

    Raises:
        ConfigurationError: a host exports something else under a board's name.
    """
    # In labgrid's words, the resources of one board are a group of its host's exports.
    groups_of_host: dict[str, dict[str, Any]] = {}
    for row in addition.rows:
        if row["name"] in addition.wiring:
            groups_of_host.setdefault(host_of(row, farm), {})[row["name"]] = addition.wiring[row["name"]]
    for host, groups in groups_of_host.items():
        exports = folder / f"{host}.yaml"
        text = exports.read_text(encoding="utf-8") if exports.is_file() else ""
        present = (yamlfile.load(exports) or {}) if text else {}
        for name, group in groups.items():
            if present.get(name, group) != group:
                raise ConfigurationError(f"{exports}: {name} is there, and says something else; it is not changed")
        new_groups = {name: group for name, group in groups.items() if name not in present}
        if new_groups:
            addition.new[exports] = text + yaml.safe_dump(new_groups, sort_keys=False, width=1000)


def _farm_text(text: str, farm: Farm, rows: Sequence[BoardRow], file: Path) -> str:
    """farm.yaml with the new boards' entries under `usb`, `boards` and `schedules`."""
    boards = {entry.name for entry in farm.boards}
    scheduled = {schedule.board for schedule in farm.schedules}
    sockets = {(entry.id_path, entry.host) for entry in farm.usb}
    usb: list[dict[str, str]] = []
    for row in rows:
        at = {"host": row["host"]} if row["host"] else {}
        for column, kind in (("serial", "adapter"), ("sdmux", "sdmux")):
            socket = row[column]
            if socket and _port_class(socket) == "USBSerialPort" and (socket, row["host"]) not in sockets:
                usb.append({"name": f"{row['name']} {kind}", "id_path": socket, "kind": kind, **at})
    new = [row for row in rows if row["name"] not in boards]
    # Once there are `boards`, each schedule's board has to be one of them: those that were scheduled without, too.
    env_of_scheduled = {
        schedule.board: Path(schedule.env)
        for schedule in farm.schedules
        if new and schedule.board not in {*boards, *(row["name"] for row in rows)}
    }
    at = {"host": farm.hosts[0].name} if farm.hosts else {}
    envs = Path(farm.directory) / package_data.ENVS
    entries = [
        {"name": board, "env": env.name if env.parent == envs else str(env), **at}
        for board, env in env_of_scheduled.items()
    ]
    entries += [
        {"name": row["name"], "env": f"{row['name']}.yaml"} | {key: row[key] for key in ("host", "hub") if row[key]}
        for row in new
    ]
    # From 2:00 on, some in each minute, so that they do not all begin at once.
    first = len(farm.schedules)
    nights = [
        {
            "name": "nightly-" + re.sub(r"[^a-z0-9-]", "-", row["name"].lower()),
            "env": f"{row['name']}.yaml",
            "board": row["name"],
            "every": "day",
            "at": f"{2 + minute // 60:02}:{minute % 60:02}",
        }
        for number, row in enumerate(row for row in rows if row["name"] not in scheduled)
        for minute in [(first + number) // PER_MINUTE]
    ]
    for key, added in (("usb", usb), ("boards", entries), ("schedules", nights)):
        text = _with_entries(text, key, added, file)
    return text


def _with_entries(text: str, key: str, entries: Sequence[Mapping[str, str]], file: Path) -> str:
    """A YAML text with more entries at the end of a list.

    Each stands on a line of its own.

    The text is edited, since PyYAML would drop a person's comments.

    Raises:
        ConfigurationError: the list is written on one line.
    """
    if not entries:
        return text
    lines = text.splitlines()
    flow = [
        yaml.safe_dump(dict(entry), default_flow_style=True, sort_keys=False, width=10_000).strip()
        for entry in entries
    ]
    begin = next((number for number, line in enumerate(lines) if re.match(rf"{key}\s*:", line)), None)
    if begin is None:
        return "\n".join([*lines, f"{key}:", *(f"  - {line}" for line in flow)]) + "\n"
    rest = lines[begin].partition(":")[2].partition("#")[0].strip()
    if rest not in {"", "[]"}:
        raise ConfigurationError(
            f"{file}:{begin + 1}: {key}: write it as a list with an entry a line, then repeat this"
        )
    if rest:
        lines[begin] = f"{key}:"
    end = begin + 1
    indent = "  "
    for number in range(begin + 1, len(lines)):
        if lines[number] and not lines[number].startswith((" ", "-", "#")):
            break
        if lines[number].lstrip().startswith("- "):
            indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())] if end == begin + 1 else indent
        if lines[number].startswith((" ", "-")):
            end = number + 1
    lines[end:end] = [f"{indent}- {line}" for line in flow]
    return "\n".join(lines) + "\n"
