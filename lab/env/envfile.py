"""labgrid environments: lookup by name, and checks beyond labgrid's.

labgrid is imported where it is used: it loads all of its drivers, which a look at a board's name does without.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

import attr
import yaml

from lab import package_data, yamlfile
from lab.benchmarks import lab_site
from lab.errors import ConfigurationError

if TYPE_CHECKING:
    from lab.env.wiring import TargetComponent

FOLDER = package_data.ENVS
SUFFIXES = package_data.SUFFIXES
TOP_KEYS = frozenset({"targets", "features", "options", "images", "paths", "tools", "imports"})
TARGET_KEYS = frozenset({"resources", "drivers", "features", "options"})
OPTIONS = frozenset({"coordinator_address", "release"})  # of labgrid and of boardlab
BOARD_OPTIONS = ("board", "board_type")  # of a target without a BoardStrategy
LAB_LINE = re.compile(r"# LAB\b")  # the mark of a value that each lab sets
_RESERVED = re.compile(r"\b(192\.0\.2|198\.51\.100|203\.0\.113)\.\d{1,3}\b")  # RFC 5737
RESERVATION = "+"  # place of LG_TOKEN's reservation, of labgrid's RemotePlace
OWN_ARGUMENTS = frozenset({"cls", "name", "bindings", "priorities"})
_BOOT_COMMANDS: Final[Mapping[str, object]] = {
    "boot_command": "run bootcmd",
    "boot_commands": {},
}  # labgrid's defaults
_TYPO = 0.85  # similarity of a key to a known one; above it the key is no project's own


class _TemplateLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads what labgrid's loader reads, templates unfilled."""


_TemplateLoader.add_constructor("!template", lambda loader, node: Template(loader.construct_scalar(node)))


def find(name: str, root: Path) -> Path:
    """Find an environment by its path, or in `envs` of `root`.

    Raises:
        ConfigurationError: there is no such file.
    """
    candidates = package_data.environments(name, root)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    there = sorted(path.name for path in (root / FOLDER).glob("*.yaml"))
    raise ConfigurationError(
        f"no environment {name!r}: looked for {', '.join(map(str, candidates))}"
        + (
            f". In {root / FOLDER} there are: {', '.join(there)}"
            if there
            else f". `lab init {root}` writes a lab's folder with environments"
        )
    )


def check(path: Path) -> None:
    """Refuse what labgrid swallows or answers with a traceback: see `problems`.

    Raises:
        ConfigurationError: the first thing that is wrong, with its place and its mend.
    """
    for problem in problems(path):
        raise ConfigurationError(problem)


def problems(path: Path) -> Iterator[str]:
    """Yield an environment's mistakes, each with a remedy.

    These are keys that stand twice, misspelt keys, unknown classes, wrong shapes, types and wirings.

    A mistake that hides others ends the list.
    """
    from labgrid.resource import Resource  # noqa: PLC0415

    from lab.env import wiring  # noqa: PLC0415 - it loads all drivers, and most programs only look up a board

    try:
        yamlfile.text_of(path, unique=True)
        data = _parse(path)
        for place, keys, known_keys in _levels(data):
            yield from _unknown(path, place, keys, known_keys, ignored=False)
        classes = _classes(path, data)
        for role, target in _targets(path, data):
            resources = list(_entries(path, f"targets.{role}.resources", target.get("resources"), classes))
            drivers = list(_entries(path, f"targets.{role}.drivers", target.get("drivers"), classes))
            entries = [entry for entry in (*resources, *drivers) if not isinstance(entry, str)]
            wrong = [entry for entry in (*resources, *drivers) if isinstance(entry, str)]
            yield from wrong
            if not wrong:
                yield from (
                    f"{path}: {problem}"
                    for problem in wiring.problems(
                        [entry for entry in entries if issubclass(entry.cls, Resource)],
                        [entry for entry in entries if not issubclass(entry.cls, Resource)],
                    )
                )
    except ConfigurationError as error:
        yield str(error)


def refusals(path: Path) -> Iterator[str]:
    """Yield problems that a run would meet in a sound environment.

    These are values of the template, straps and prompts of another board type, misspelt options.

    Raises:
        ConfigurationError: the file cannot be understood.
    """
    from lab.env import wiring  # noqa: PLC0415 - as in `problems`

    data = _parse(path)
    yield from _template_values(path)
    yield from _misspelt(path, "options", data.get("options"), OPTIONS)
    classes = _classes(path, data)
    for role, target in _targets(path, data):
        place = f"targets.{role}.options"
        yield from _misspelt(path, place, target.get("options"), {lab_site.OPTION, "moments", *BOARD_OPTIONS})
        drivers = list(_entries(path, f"targets.{role}.drivers", target.get("drivers"), classes))
        yield from (
            f"{path}: {problem}"
            for problem in wiring.unfit([driver for driver in drivers if not isinstance(driver, str)])
        )
    try:
        lab_site.of_options(
            target_options(path).get(lab_site.OPTION, {}), f"{path}: targets.main.options.{lab_site.OPTION}"
        )
    except ConfigurationError as error:
        yield str(error)


def remarks(path: Path) -> Iterator[str]:
    """Yield the keys of a sound environment that labgrid or BoardStrategy ignores.

    Raises:
        ConfigurationError: the file cannot be understood.
    """
    data = _parse(path)
    for place, keys, known_keys in _levels(data):
        yield from _unknown(path, place, keys, known_keys, ignored=True)
    classes = _classes(path, data)
    for role, target in _targets(path, data):
        for room in ("resources", "drivers"):
            for where, item in _items(path, f"targets.{role}.{room}", target.get(room) or {}):
                cls = classes[item["cls"]]
                yield from _unknown(path, where, item, _keys_of(cls) | OWN_ARGUMENTS, ignored=True)
        drivers = dict(_items(path, f"targets.{role}.drivers", target.get("drivers") or {}))
        if any(item["cls"] == "BoardStrategy" for item in drivers.values()):
            yield from (
                f"{path}: {where}.{name}: BoardStrategy does not send it: U-Boot's own bootcmd runs, and is measured. "
                "Save the commands on the board (setenv bootcmd ..., saveenv)"
                for where, item in drivers.items()
                for name, default in _BOOT_COMMANDS.items()
                if item["cls"] == "UBootDriver" and item.get(name, default) not in (default, "", None)
            )


def names(path: Path, cls: str, *arguments: str) -> bool:
    """Return whether a target has a driver of that class.

    In a file that cannot be understood the class's name counts.

    Args:
        arguments: it has at least one of these, since another project may have a class of that name.

    Raises:
        ConfigurationError: it cannot be read, or is no YAML.
    """
    data = _parse(path)
    try:
        return any(
            item["cls"] == cls and (not arguments or any(argument in item for argument in arguments))
            for role, target in _targets(path, data)
            for _, item in _items(path, f"targets.{role}.drivers", target.get("drivers") or {})
        )
    except ConfigurationError:
        return cls in yamlfile.text_of(path)


def arguments_of(path: Path, cls: str, room: str = "drivers") -> dict[str, Any]:
    """Arguments of the first driver of that class, or {}.

    With the room "resources" it is a resource.

    Raises:
        ConfigurationError: the file cannot be understood.
    """
    for role, target in _targets(path, _parse(path)):
        for _, item in _items(path, f"targets.{role}.{room}", target.get(room) or {}):
            if item["cls"] == cls:
                return item
    return {}


def board_of(path: Path) -> tuple[str, str]:
    """Type and name of the board in its BoardStrategy.

    Raises:
        ConfigurationError: there is no BoardStrategy, or it lacks them; or the file cannot be understood.
    """
    strategy = arguments_of(path, "BoardStrategy")
    lacks = [name for name in ("board_type", "board") if not strategy.get(name)]
    if lacks:
        what = f"its BoardStrategy has no {lacks[0]}" if strategy else "it has no BoardStrategy"
        raise ConfigurationError(
            f"{path}: {what}, so nothing names its board: {package_data.folder(package_data.ENVS)} has examples"
        )
    return str(strategy["board_type"]), str(strategy["board"])


def strategies(path: Path) -> list[dict[str, Any]]:
    """Arguments of every `BoardStrategy` of an environment, without its templates filled in.

    Raises:
        ConfigurationError: it cannot be read, or is no YAML.
    """
    try:
        return list(_strategies_in(yaml.load(yamlfile.text_of(path), _TemplateLoader)))  # noqa: S506 - a safe one
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise yamlfile.not_yaml(path, error) from error


def _strategies_in(data: object) -> Iterator[dict[str, Any]]:
    inner: Iterable[object] = ()
    if isinstance(data, dict):
        inner = data.values()
        if isinstance(strategy := data.get("BoardStrategy"), dict):
            yield strategy
    elif isinstance(data, list):
        inner = data
    for child in inner:
        yield from _strategies_in(child)


def target_options(path: Path, role: str = "main") -> dict[str, Any]:
    """The options of a target; none where there are none.

    Raises:
        ConfigurationError: the file cannot be understood.
    """
    options = dict(_targets(path, _parse(path))).get(role, {}).get("options")
    return options if isinstance(options, dict) else {}


def _template_values(path: Path) -> Iterator[str]:
    """Yield values of the template, and addresses reserved for documentation.

    Template lines have the mark LAB.
    """
    templates = {
        _value(line)
        for template in package_data.folder(package_data.ENVS).glob("*.yaml")
        for line in template.read_text(encoding="utf-8").splitlines()
        if LAB_LINE.search(line)
    }
    for number, line in enumerate(yamlfile.text_of(path).splitlines(), start=1):
        value = _value(line)
        if LAB_LINE.search(line) and value in templates:
            yield (
                f"{path}:{number}: `{value}` is the template's value: set it, or remove the mark LAB where it is right"
            )
        elif reserved := _RESERVED.search(value):
            yield (
                f"{path}:{number}: {reserved[0]} is no address of a lab: it is reserved for documentation; write your "
                "own"
            )


def _value(line: str) -> str:
    return " ".join(line.partition("# ")[0].split())


def _misspelt(path: Path, place: str, options_given: object, known: Iterable[str]) -> Iterator[str]:
    """Yield options that look like boardlab's.

    Tests of the user's own may have any other.
    """
    if options_given is not None and not isinstance(options_given, dict):
        yield f"{path}: {place}: expected `name: value`, got {options_given!r}"
        return
    for name in options_given or {}:
        if name not in known and (hint := _similar(name, known)):
            yield f"{path}: {place}: {name} is no option of boardlab{hint}"


def _levels(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], frozenset[str]]]:
    yield "", data, TOP_KEYS
    targets = data.get("targets")
    for role, target in targets.items() if isinstance(targets, dict) else ():
        if isinstance(target, dict):
            yield f"targets.{role}", target, TARGET_KEYS


def _targets(path: Path, data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    targets = data.get("targets")
    if not isinstance(targets, dict) or not targets:
        raise ConfigurationError(f"{path}: targets: expected `main:` with resources and drivers, got {targets!r}")
    for role, target in targets.items():
        if not isinstance(target, dict):
            raise ConfigurationError(f"{path}: targets.{role}: expected resources and drivers, got {target!r}")
        yield role, target


def _entries(path: Path, place: str, data: object, known: Mapping[str, Any]) -> Iterator[TargetComponent | str]:
    """The entries of a list, or what is wrong with them."""
    from labgrid.resource import Resource  # noqa: PLC0415

    from lab.env import wiring  # noqa: PLC0415 - as in `problems`

    resources = place.endswith(".resources")
    registered = {name: cls for name, cls in known.items() if issubclass(cls, Resource) is resources}
    for where, item in _items(path, place, data or {}):
        if item["cls"] not in registered:
            kind = "resource" if resources else "driver"
            hint = _similar(item["cls"], registered)
            if item["cls"] == "BoardStrategy":
                hint = f" (add `- {_strategy_of(path)}` to `imports:`)"
            yield f"{path}: {where}: no {kind} {item['cls']!r}{hint}; labgrid and `imports:` define none"
            continue
        cls = registered[item["cls"]]
        arguments = _keys_of(cls)
        strict = wiring.is_own(cls)
        unknown = list(_unknown(path, where, item, arguments | OWN_ARGUMENTS, ignored=False, strict=strict))
        yield from unknown
        bindings = item.get("bindings", {})
        if not isinstance(item.get("name"), str | None):
            yield f"{path}: {where}: name: expected a word, got {item['name']!r}"
        elif not isinstance(bindings, dict):
            yield f"{path}: {where}: bindings: expected `slot: name`, got {bindings!r}"
        elif not unknown:
            arguments_given = {key: value for key, value in item.items() if key in arguments - OWN_ARGUMENTS}
            yield wiring.TargetComponent(where, cls, item.get("name"), bindings, arguments_given)


def _keys_of(cls: type) -> set[str]:
    return {attribute.name for attribute in attr.fields(cls) if attribute.init} - {"target", "state"}


def place_of(path: Path) -> str:
    """Name of the labgrid place in an environment; empty: it has none.

    Raises:
        ConfigurationError: the file cannot be understood.
    """
    return str(arguments_of(path, "RemotePlace", "resources").get("name", ""))


def coordinator_of(path: Path) -> str:
    """The address of labgrid's coordinator that an environment names (`coordinator_address`); empty: none.

    Raises:
        ConfigurationError: the file cannot be understood.
    """
    options = _parse(path).get("options")
    return str(options.get("coordinator_address", "")) if isinstance(options, dict) else ""


def _parse(path: Path) -> dict[str, Any]:
    from labgrid.config import Config  # noqa: PLC0415
    from labgrid.exceptions import InvalidConfigError, NoConfigFoundError  # noqa: PLC0415
    from labgrid.util.yaml import load  # noqa: PLC0415

    try:
        data = load(yamlfile.text_of(path))
        if not isinstance(data, dict):
            raise ConfigurationError(f"{path}: expected a mapping with `targets:`, got {type(data).__name__}")
        return dict(Config(str(path)).data)  # once more, with its templates filled in
    except (InvalidConfigError, NoConfigFoundError) as error:
        raise ConfigurationError(f"{path}: {error.msg}") from error
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:  # e.g. the date 2026-99-99
        raise yamlfile.not_yaml(path, error) from error


def _items(path: Path, place: str, data: object) -> Iterator[tuple[str, dict[str, Any]]]:
    from labgrid.exceptions import InvalidConfigError  # noqa: PLC0415
    from labgrid.factory import target_factory  # noqa: PLC0415

    try:
        items = target_factory._convert_to_named_list(data)
    except (InvalidConfigError, AttributeError, TypeError, ValueError, AssertionError) as error:
        raise ConfigurationError(
            f"{path}: {place}: {getattr(error, 'msg', error)}; every entry is `- Class: {{argument: value}}`"
        ) from error
    for item in items:
        yield f"{place}.{item['cls']}", item


def _unknown(
    path: Path,
    place: str,
    data: Mapping[str, object],
    keys: frozenset[str] | set[str],
    *,
    ignored: bool,
    strict: bool = False,
) -> Iterator[str]:
    """Yield unknown keys: those that labgrid ignores, or the misspelt ones.

    `strict`: all of them are misspelt.
    """
    for key in data:
        name = key.template if isinstance(key, Template) else key  # labgrid fills in values only
        typo = strict or bool(difflib.get_close_matches(str(name), keys, n=1, cutoff=_TYPO))
        if key not in keys and typo is not ignored:
            where = f"{place}: " if place else ""
            takes = ", ".join(sorted(keys - OWN_ARGUMENTS)) or "nothing"
            effect = " is ignored" if ignored else ""
            yield f"{path}: {where}unknown key {name!r}{effect}{_similar(name, keys)}; it takes: {takes}"


def _classes(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """The resources and drivers of labgrid and of `imports:`, by name.

    labgrid loads files anew for each Environment, and registers a name once: what they register here is taken back.

    Raises:
        ConfigurationError: an import fails.
    """
    from labgrid.config import Config  # noqa: PLC0415

    names, config = data.get("imports") or [], Config(str(path))
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"{path}: imports: expected a list of modules, e.g. [lab.drivers], got {names!r}")
    files = {name: Path(config.resolve_path(name)) for name in names if name.endswith(".py")}
    own = {file.stem for file in files.values()}
    before = _unregister(own)
    try:
        for name in names:
            _import(path, name, files.get(name))
        resources, drivers, _ = _registries()
        return {**resources, **drivers}
    finally:
        _unregister(own)
        for registry, classes in zip(_registries(), before, strict=True):
            registry.update(classes)


def _registries() -> tuple[dict[str, Any], ...]:
    from labgrid.factory import target_factory  # noqa: PLC0415

    return target_factory.resources, target_factory.drivers, target_factory.all_classes


def _unregister(modules: set[str]) -> list[dict[str, Any]]:
    """Take these modules' classes out of labgrid's factory; returns them.

    They are grouped by registry.
    """
    classes = []
    for registry in _registries():
        classes.append({name: cls for name, cls in registry.items() if cls.__module__ in modules})
        for name in classes[-1]:
            del registry[name]
    return classes


def _import(path: Path, name: str, file: Path | None) -> None:
    """Import a module, or load a file as labgrid does."""
    if file is not None and not file.is_file():
        hint = (
            f": for BoardStrategy write `- {_strategy_of(path)}`"
            if file.name == package_data.strategy_file().name
            else ""
        )
        raise ConfigurationError(f"{path}: imports: {name}: there is no file {file}{hint}")
    try:
        if file is None:
            importlib.import_module(name)
            return
        loader = SourceFileLoader(file.stem, str(file))
        module = module_from_spec(ModuleSpec(loader.name, loader, origin=str(file)))
        loader.exec_module(module)
        sys.modules[loader.name] = module
    except ImportError as error:
        raise ConfigurationError(f"{path}: imports: {name}: {error}; is it installed in this environment?") from error
    except Exception as error:  # a module may raise anything while it is loaded
        why = getattr(error, "msg", None) or error
        raise ConfigurationError(f"{path}: imports: {name}: {type(error).__name__}: {why}") from error


def _strategy_of(path: Path) -> str:
    """BoardStrategy's file, as an environment imports it.

    It is the one of its lab's folder, else boardlab's.
    """
    beside = (path.parent / package_data.STRATEGY_BESIDE).is_file()
    return package_data.STRATEGY_BESIDE if beside else str(package_data.strategy_file())


def _similar(word: object, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
