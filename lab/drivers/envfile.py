"""labgrid environments: found by a bare name, and checked for what labgrid itself lets pass."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attr
import yaml
from labgrid.config import Config
from labgrid.exceptions import InvalidConfigError, NoConfigFoundError
from labgrid.factory import target_factory
from labgrid.strategy import Strategy
from labgrid.util.yaml import load

from lab.errors import ConfigurationError

FOLDER = "envs"
TOP_KEYS = frozenset({"targets", "features", "options", "images", "paths", "tools", "imports"})
TARGET_KEYS = frozenset({"resources", "drivers", "features", "options"})
OWN_ARGUMENTS = frozenset({"cls", "name", "bindings", "priorities"})


def find(name: str, root: Path) -> Path:
    """The environment file: `name` as it stands, or in the folder `envs` of `root`.

    Raises:
        ConfigurationError: there is no such file.
    """
    given = Path(name)
    candidates = [given if given.is_absolute() else root / given]
    if given.name == name:
        candidates += [root / FOLDER / name, root / FOLDER / f"{name}.yaml"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    there = sorted(path.name for path in (root / FOLDER).glob("*.yaml"))
    raise ConfigurationError(
        f"no environment {name!r}: looked for {', '.join(map(str, candidates))}"
        + (f". In {root / FOLDER} there are: {', '.join(there)}" if there else f". {root} has no folder {FOLDER}/")
    )


def check(path: Path) -> None:
    """Refuse what labgrid swallows or answers with a traceback: unknown keys, unknown classes, wrong shapes.

    Raises:
        ConfigurationError: names the file, the place and the mend.
    """
    data = _parse(path)
    _known(path, "", data, TOP_KEYS)
    targets = data.get("targets")
    if not isinstance(targets, dict) or not targets:
        raise ConfigurationError(f"{path}: targets: expected `main:` with resources and drivers, got {targets!r}")
    own_files = [name for name in data.get("imports") or [] if str(name).endswith(".py")]
    for name in data.get("imports") or []:
        _import(path, str(name))
    for role, target in targets.items():
        if not isinstance(target, dict):
            raise ConfigurationError(f"{path}: targets.{role}: expected resources and drivers, got {target!r}")
        _known(path, f"targets.{role}", target, TARGET_KEYS)
        for kind, registered in (("resources", target_factory.resources), ("drivers", target_factory.drivers)):
            for place, item in _items(path, f"targets.{role}.{kind}", target.get(kind) or {}):
                if item["cls"] not in registered:
                    if own_files:
                        continue  # a class of a file that labgrid itself will import
                    raise ConfigurationError(
                        f"{path}: {place}: no {kind[:-1]} {item['cls']!r}{_similar(item['cls'], registered)}; "
                        "labgrid and `imports:` define none"
                    )
                cls = registered[item["cls"]]
                arguments = {a.name for a in attr.fields(cls) if a.init} - {"target", "state"}
                _known(path, place, item, arguments | OWN_ARGUMENTS)
                _names(path, place, item, issubclass(cls, Strategy))


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            data = load(file)
        if not isinstance(data, dict):
            raise ConfigurationError(f"{path}: expected a mapping with `targets:`, got {type(data).__name__}")
        return dict(Config(str(path)).data)  # once more, with its templates filled in
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigurationError(f"{path}{line}: not YAML: {error.problem}") from error
    except (InvalidConfigError, NoConfigFoundError) as error:
        raise ConfigurationError(f"{path}: {error.msg}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error


def _items(path: Path, place: str, data: object) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        items = target_factory._convert_to_named_list(data)
    except (InvalidConfigError, AttributeError, TypeError, AssertionError) as error:
        raise ConfigurationError(
            f"{path}: {place}: {getattr(error, 'msg', error)}; every entry is `- Class: {{argument: value}}`"
        ) from error
    for item in items:
        yield f"{place}.{item['cls']}", item


def _known(path: Path, place: str, data: Mapping[str, object], keys: frozenset[str] | set[str]) -> None:
    for key in data:
        if key not in keys:
            where = f"{place}: " if place else ""
            raise ConfigurationError(
                f"{path}: {where}unknown key {key!r}{_similar(str(key), keys)}; it takes: {', '.join(sorted(keys - OWN_ARGUMENTS))}"
            )


def _names(path: Path, place: str, item: Mapping[str, Any], is_strategy: bool) -> None:
    bindings = item.get("bindings", {})
    if not isinstance(bindings, dict) and not is_strategy:
        raise ConfigurationError(f"{path}: {place}: bindings: expected `slot: name`, got {bindings!r}")


def _import(path: Path, name: str) -> None:
    if name.endswith(".py"):
        return
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(f"{path}: imports: {name}: {error}; is it installed in this environment?") from error


def _similar(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
