"""TOML files as records, strictly: unknown keys and wrong types are refused with their place."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import cattrs
from attrs import AttrsInstance, fields
from cattrs.v import format_exception

from lab.errors import ConfigurationError, join_reasons

Record = TypeVar("Record", bound=AttrsInstance)


def read(path: Path) -> dict[str, Any]:
    """The file's table.

    Raises:
        ConfigurationError: not readable, or not TOML; the message names the line.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from error


def _no_hooks(_converter: cattrs.Converter) -> None: ...


def structure(
    data: dict[str, Any],
    kind: type[Record],
    path: Path,
    hooks: Callable[[cattrs.Converter], None] = _no_hooks,
) -> Record:
    """The record of a table.

    Args:
        path: for messages.
        hooks: registers further structure hooks of the converter.

    Raises:
        ConfigurationError: an unknown or missing key, a wrong type or value; the message names each.
    """
    try:
        return _converter(hooks).structure(data, kind)
    except cattrs.BaseValidationError as error:
        reasons = cattrs.transform_error(error, path=path.name, format_exception=reason)
        raise ConfigurationError(f"{path}: {join_reasons(reasons)}") from error


@lru_cache(maxsize=8)  # cattrs compiles a function for each record that a converter meets
def _converter(hooks: Callable[[cattrs.Converter], None]) -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(int, _exact(int))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(str, _exact(str))
    converter.register_structure_hook(bool, _exact(bool))
    hooks(converter)
    return converter


def reason(error: BaseException, kind: type | None, keys_of: Mapping[str, Collection[str]] | None = None) -> str:
    """Message of a cattrs error, without its place.

    Args:
        keys_of: a record's field -> the keys that a file has instead.
    """
    match error:
        case cattrs.ForbiddenExtraKeysError():
            return "; ".join(_unknown(key, error.cl, keys_of or {}) for key in sorted(error.extra_fields, key=repr))
        case KeyError():
            return "this key is missing; add it"
        case ValueError() if str(error):
            return str(error.args[0])  # attrs gives its own three more
    return format_exception(error, kind)


def _unknown(key: object, record: type[AttrsInstance], keys_of: Mapping[str, Collection[str]]) -> str:
    if not isinstance(key, str):
        return f"expected text as a key, got {key!r:.60}; put it in quotes, or delete it"
    names = [name for attribute in fields(record) for name in keys_of.get(attribute.name, [attribute.name])]
    near = get_close_matches(key, names, 1)
    return f"no key {key!r} here; " + (f"is {near[0]!r} meant?" if near else f"there are: {', '.join(names)}")


def _exact(kind: type) -> Any:
    def structured(value: object, _type: object) -> object:
        if type(value) is not kind:
            raise ValueError(f"expected {kind.__name__}, got {value!r}")
        return value

    return structured


def _number(value: object, _type: object) -> float:
    match value:
        case bool():
            pass
        case int() | float():
            return float(value)
    raise ValueError(f"expected a number, got {value!r}")
