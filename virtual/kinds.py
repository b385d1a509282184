"""Which kind of virtual board stands behind a board type. Kinds are named, not imported: only the one asked for is."""

from __future__ import annotations

from importlib import import_module

from lab.errors import ConfigurationError
from virtual.board import BoardKind

KINDS = {"qemu-virt": "virtual.qemu.kind"}  # board type -> module with `default() -> BoardKind`


def load(board_type: str) -> BoardKind:
    """The kind of a board type.

    Raises:
        ConfigurationError: there is no virtual board of this type.
    """
    if board_type not in KINDS:
        raise ConfigurationError(f"no virtual board of type {board_type!r}; there are: {', '.join(KINDS)}")
    kind: BoardKind = import_module(KINDS[board_type]).default()
    return kind
