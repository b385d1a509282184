"""All faults by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from lab.errors import ConfigurationError
from lab.virtual.sim.faults import (
    adapter,
    ailing,
    booting,
    dying,
    line,
    lookalike,
    manners,
    media,
    rails,
    restarting,
    session,
    sleeping,
    slowing,
    software,
    supply,
)
from lab.virtual.sim.faults.base import Fault

_MODULES: Final = (
    supply,
    booting,
    dying,
    restarting,
    software,
    ailing,
    lookalike,
    manners,
    slowing,
    line,
    adapter,
    session,
    sleeping,
    rails,
    media,
)
# Every public fault of these modules, in their order; a fault needs no entry here.
FAULTS: Final[Mapping[str, type[Fault]]] = {
    kind.name: kind
    for module in _MODULES
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Fault) and kind.__module__ == module.__name__ and name[0] != "_"
}


def find(name: str) -> type[Fault]:
    """The fault of that name.

    Raises:
        ConfigurationError: there is none.
    """
    if name not in FAULTS:
        close = difflib.get_close_matches(name, FAULTS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ConfigurationError(f"no fault {name!r}{hint}; there are: {', '.join(FAULTS)}")
    return FAULTS[name]
