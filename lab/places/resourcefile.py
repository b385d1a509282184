"""The file with what a host exports, as labgrid's exporter reads it: a Jinja template of YAML, groups of resources by class."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import jinja2
from labgrid.remote.config import ResourceConfig

from lab.errors import ConfigurationError

_SENSORS: Final = "RailSensors"
_LOCATION: Final = "location"  # of a group: a text, and no resource


def check(path: Path, known: dict[str, object]) -> None:
    """Refuse what labgrid answers with a traceback, and what stock clients do not know: a place with it is none for `labgrid-client` at all.

    Args:
        known: what the template may ask for.

    Raises:
        ConfigurationError: it is wrong.
    """
    try:
        groups = ResourceConfig(str(path), known).data
    except jinja2.TemplateSyntaxError as error:
        raise ConfigurationError(
            f"{path}:{error.lineno}: {str(error.message).rstrip('.')}; what follows a # at the start of a line is a statement of Jinja "
            "to labgrid: begin comments with ##"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"{path}: {getattr(error, 'msg', None) or error}") from error
    for name, group in _mapping(path, groups, "groups").items():
        for key, params in _mapping(f"{path}: {name}", group, "resources by their classes").items():
            if _SENSORS in {key, params.get("cls") if isinstance(params, dict) else ""}:
                raise ConfigurationError(
                    f"{path}: {name}: {_SENSORS} is no resource of a place: write it into the board's env, with `at: console`; `lab rails "
                    "serve` beside this program samples it here"
                )
            if params is not None and key != _LOCATION:
                _mapping(f"{path}: {name}: {key}", params, "arguments")


def _mapping(where: Path | str, found: Any, of: str) -> dict[Any, Any]:
    if not isinstance(found, dict):
        raise ConfigurationError(f"{where}: expected {of}, as labgrid's exporter has it, and found {found!r:.40}")
    return found
