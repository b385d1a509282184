"""Board types from their TOML files."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import cattrs
from cattrs.v import format_exception

from lab.boards.model import BoardType
from lab.errors import ConfigurationError

COMMON = "common"


def names() -> list[str]:
    """All board types that boardlab ships, sorted."""
    folder = resources.files("lab.boards") / "types"
    return sorted(
        p.name.removesuffix(".toml")
        for p in folder.iterdir()
        if p.name.endswith(".toml") and p.name != f"{COMMON}.toml"
    )


def load(name: str) -> BoardType:
    """The board type of that name.

    Raises:
        ConfigurationError: no such type, or its file is wrong.
    """
    if name not in names():
        raise ConfigurationError(f"no board type {name!r}; there are: {', '.join(names())}")
    return load_file(Path(str(resources.files("lab.boards") / "types" / f"{name}.toml")))


def load_file(path: Path) -> BoardType:
    """A board type from a TOML file, completed by what all boards have in common (`types/common.toml`).

    A file's own `failures` are added to the common ones; anything else it names replaces the common value.

    Raises:
        ConfigurationError: not readable, not TOML, an unknown key, a wrong type or value.
    """
    common = _read(Path(str(resources.files("lab.boards") / "types" / f"{COMMON}.toml")))
    own = _read(path)
    merged = {**common, **own, "failures": {**common.get("failures", {}), **own.get("failures", {})}}
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(int, _exact(int))
    converter.register_structure_hook(str, _exact(str))
    converter.register_structure_hook(bool, _exact(bool))
    try:
        return converter.structure(merged, BoardType)
    except cattrs.BaseValidationError as error:
        reasons = "; ".join(cattrs.transform_error(error, path=path.name, format_exception=_reason))
        raise ConfigurationError(f"{path}: {reasons}") from error


def _reason(error: BaseException, kind: type | None) -> str:
    return str(error) if isinstance(error, ValueError) and str(error) else format_exception(error, kind)


def _exact(kind: type) -> Any:
    def structure(value: object, _type: object) -> object:
        if type(value) is not kind:
            raise ValueError(f"expected {kind.__name__}, got {value!r}")
        return value

    return structure


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from error
