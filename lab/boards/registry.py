"""Board types from their TOML files."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import cattrs
from cattrs.gen import make_dict_structure_fn
from cattrs.v import format_exception

from lab.boards.markers import Sign
from lab.boards.model import BoardType
from lab.errors import ConfigurationError

COMMON = "common"


def names() -> list[str]:
    """All board types that boardlab ships, sorted."""
    return sorted(path.stem for path in _types().glob("*.toml") if path.stem != COMMON)


@cache
def load(name: str) -> BoardType:
    """The board type of that name, read once: whoever asks again gets the same.

    Raises:
        ConfigurationError: no such type, or its file is wrong.
    """
    if name not in names():
        raise ConfigurationError(f"no board type {name!r}; there are: {', '.join(names())}")
    return load_file(_types() / f"{name}.toml")


def load_file(path: Path) -> BoardType:
    """A board type from a TOML file, completed by what it shares with others.

    What all boards share is in `types/common.toml`; `based_on` names further parts, in `types/parts`. Tables are merged
    key by key; anything else that a later file names replaces the earlier value. A failure or a trouble may be a word
    alone, without its reference.

    Raises:
        ConfigurationError: not readable, not TOML, no such part, an unknown key, a wrong type or value.
    """
    own = _read(path)
    merged = _read(_types() / f"{COMMON}.toml")
    for part in _parts(path, own.pop("based_on", [])):
        merged = _merge(merged, _read(part))
    merged = _merge(merged, own)
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(int, _exact(int))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(str, _exact(str))
    converter.register_structure_hook(bool, _exact(bool))
    structure_sign = make_dict_structure_fn(Sign, converter)
    converter.register_structure_hook(
        Sign, lambda value, kind: Sign(value) if isinstance(value, str) else structure_sign(value, kind)
    )
    try:
        return converter.structure(merged, BoardType)
    except cattrs.BaseValidationError as error:
        reasons = "; ".join(cattrs.transform_error(error, path=path.name, format_exception=_reason))
        raise ConfigurationError(f"{path}: {reasons}") from error


def _types() -> Path:
    return Path(str(resources.files("lab.boards") / "types"))


def _parts(path: Path, names: object) -> list[Path]:
    there = {part.stem: part for part in sorted((_types() / "parts").glob("*.toml"))}
    if not isinstance(names, list) or not all(name in there for name in names):
        raise ConfigurationError(f"{path}: based_on = {names!r}: expected a list of: {', '.join(there)}")
    return [there[name] for name in names]


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _reason(error: BaseException, kind: type | None) -> str:
    return str(error) if isinstance(error, ValueError) and str(error) else format_exception(error, kind)


def _exact(kind: type) -> Any:
    def structure(value: object, _type: object) -> object:
        if type(value) is not kind:
            raise ValueError(f"expected {kind.__name__}, got {value!r}")
        return value

    return structure


def _number(value: object, _type: object) -> float:
    match value:
        case bool():
            pass
        case int() | float():
            return float(value)
    raise ValueError(f"expected a number, got {value!r}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from error
